//! Floor 6: judges a record, in passes.

use super::index::{Index, Opponent, View};
use super::review::{self, accepted, expected, fallback, references, uncaptured};
use super::{against_base, baselines, blame, notes, problems, rivals, rules, targets, ungated};
use model::*;
use std::collections::BTreeSet;

impl Index<'_> {
    /// Judges every gate, in the order of the policy, and concludes from all of them.
    ///
    /// Any prefix of a run's evidence can be judged: missing evidence is a reason in a verdict. Each pass adds verdicts
    /// or replaces some of them. The conclusion is drawn once, at the end, from all of them.
    pub fn judge(&self) -> Judgement {
        let view = self.head();
        let mut judgement = Judgement::default();
        // First each gate is judged by its rule, together with what was accepted of it.
        let mut new = BTreeSet::new();
        for gate in &view.policy().gates {
            let mut ruled = rules::judge_gate(view, gate, &view.policy().accepted);
            if gate.needs_device() {
                blame_device(view, &mut ruled.verdict);
            }
            new.extend(ruled.new.map(|facet| (gate.subject.clone(), facet)));
            ruled.file(&mut judgement);
        }
        let new = new
            .into_iter()
            .map(|(subject, facet)| Note::New { subject, facet });
        judgement.notes.extend(new.chain(notes::gone(view)));
        judgement.ungated = ungated::find(view);
        let verdicts = &mut judgement.verdicts;
        // Then come resources that became worse and that no gate limits.
        if self.opponent.loosening() == Loosening::Fails {
            let worse = ungated::verdicts(view, &judgement.ungated, verdicts);
            verdicts.extend(worse);
        }
        // Failures of variants that are kept to fail are expected.
        expected::review(view.plan(), verdicts);
        // Failures of variants with a fallback are replaced.
        fallback::review(view, verdicts);
        // Baseline files that cannot be used and acceptances that are not needed get verdicts. A comparison of two
        // records makes its baselines itself, and these cannot tell whether an acceptance is needed.
        let (broken, unneeded) = view.broken_baselines();
        verdicts.extend(broken);
        judgement.notes.extend(unneeded);
        if !matches!(self.opponent, Opponent::Record { .. }) {
            verdicts.extend(accepted::judge_acceptances(view));
        }
        verdicts.extend(uncaptured::review(view.plan()));
        // Last comes everything that the base requires.
        verdicts.extend(review::against(view));
        judgement.conclusion = conclude(view, verdicts);
        baselines::keep_sound_wins(&mut judgement.wins, verdicts);
        judgement.problems = problems::group(view, verdicts);
        describe(view, &mut judgement);
        judgement
    }
}

/// Adds further facts for readers. No verdict follows from them.
fn describe(view: View, judgement: &mut Judgement) {
    judgement.targets = targets::compare(view);
    let drifts = rules::baseline::since_best(view, &judgement.drifts);
    judgement.drifts.extend(drifts);
    judgement.rivals = rivals::standings(view);
    judgement.base = against_base::summarise(view);
    judgement.blames = blame::find(view, &judgement.verdicts);
    judgement.notes.extend(notes::list_notes(view));
    judgement.notes.extend(match view.index.opponent {
        Opponent::Nothing => Vec::new(),
        Opponent::Revision(base) => references::new_inputs(view)
            .into_iter()
            .chain(notes::new_names(base))
            .collect(),
        Opponent::Record { base, head, .. } => notes::left_out(&base.plan, &head.plan)
            .into_iter()
            .collect(),
    });
}

/// Turns a skip into an environment error if the device is broken, or if the policy requires a device and there is
/// none.
fn blame_device(view: View, verdict: &mut Verdict) {
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

/// Draws the conclusion from all verdicts, whichever pass they come from. Only a gate proves that something of head was
/// judged. The verdict that head asks as much as the base does not.
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
