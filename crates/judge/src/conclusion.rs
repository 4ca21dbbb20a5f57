//! Concludes from all verdicts of a run.

use super::index::View;
use model::*;

pub(super) fn empty_judgement() -> Judgement {
    Judgement {
        conclusion: Conclusion::NothingJudged,
        verdicts: Vec::new(),
        problems: Vec::new(),
        base: None,
        blames: Vec::new(),
        rivals: Vec::new(),
        accepted: Vec::new(),
        wins: Vec::new(),
        drifts: Vec::new(),
        ungated: Vec::new(),
        targets: Vec::new(),
        counters: Vec::new(),
        notes: Vec::new(),
    }
}

/// A broken device is never a skip, and neither is a missing one where it is required.
pub(super) fn blame_device(view: View, verdict: &mut Verdict) {
    let is_absent = matches!(
        verdict.outcome,
        Outcome::Skipped | Outcome::Unsupported | Outcome::Inconclusive
    );
    let (Err(device), true) = (view.device(), is_absent) else {
        return;
    };
    let is_broken = matches!(view.environment().device, Seen::Fault(_));
    if is_broken || view.policy().require_gpu {
        verdict.outcome = Outcome::Environment;
        verdict.reason = if is_broken {
            device.reason
        } else {
            Reason::GpuRequired {
                why: Box::new(device.reason),
            }
        };
    }
}

/// The conclusion from all verdicts, whichever pass they are from. That head asks as much as the base is no proof that
/// anything of head was judged: only gates are.
pub(super) fn conclude(view: View, verdicts: &[Verdict]) -> Conclusion {
    let any = |outcome| verdicts.iter().any(|verdict| verdict.outcome == outcome);
    let is_missing_but_required = view.policy().require_gpu && view.device().is_err();
    let is_judged = |verdict: &Verdict| {
        matches!(verdict.question, Question::Gate(_))
            && matches!(verdict.outcome, Outcome::Pass | Outcome::Expected)
    };
    if any(Outcome::Fail) {
        Conclusion::Fail
    } else if any(Outcome::Environment) || is_missing_but_required {
        Conclusion::Environment
    } else if any(Outcome::Inconclusive) {
        Conclusion::Inconclusive
    } else if verdicts.iter().any(is_judged) {
        Conclusion::Pass
    } else {
        Conclusion::NothingJudged
    }
}
