//! What the verdicts of a run come to together.

use super::lookup::Lookup;
use crate::model::*;

impl Judgement {
    pub(super) fn empty() -> Self {
        Self {
            conclusion: Conclusion::NothingJudged,
            verdicts: Vec::new(),
            base: None,
            rivals: Vec::new(),
            accepted: Vec::new(),
            wins: Vec::new(),
            drifts: Vec::new(),
            targets: Vec::new(),
            counters: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// On the policy and not on evidence. One that holds decides nothing: it is no proof that anything of
    /// head was judged.
    pub(super) fn add(&mut self, verdicts: Vec<Verdict>) {
        let is_broken = |verdict: &Verdict| verdict.outcome == Outcome::Fail;
        if verdicts.iter().any(is_broken) {
            self.conclusion = Conclusion::Fail;
        }
        self.verdicts.extend(verdicts);
    }
}

/// A broken device is never a skip, and neither is a missing one where it is required.
pub(super) fn blame_device(lookup: &Lookup, verdict: &mut Verdict) {
    let is_absent = matches!(
        verdict.outcome,
        Outcome::Skipped | Outcome::Unsupported | Outcome::Inconclusive
    );
    let (Err(device), true) = (lookup.device(), is_absent) else {
        return;
    };
    let is_broken = matches!(lookup.environment.device, Seen::Fault(_));
    if is_broken || lookup.policy.require_gpu {
        verdict.outcome = Outcome::Environment;
        verdict.reason = match is_broken {
            true => device.reason,
            false => Reason::GpuRequired {
                why: Box::new(device.reason),
            },
        };
    }
}

pub(super) fn conclude(lookup: &Lookup, verdicts: &[Verdict]) -> Conclusion {
    let any = |outcome| verdicts.iter().any(|verdict| verdict.outcome == outcome);
    let is_missing_but_required = lookup.policy.require_gpu && lookup.device().is_err();
    if any(Outcome::Fail) {
        Conclusion::Fail
    } else if any(Outcome::Environment) || is_missing_but_required {
        Conclusion::Environment
    } else if any(Outcome::Inconclusive) {
        Conclusion::Inconclusive
    } else if any(Outcome::Pass) || any(Outcome::Expected) {
        Conclusion::Pass
    } else {
        Conclusion::NothingJudged
    }
}
