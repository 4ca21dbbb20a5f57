//! Floor 6: the judgement of one side, in passes.

use super::agreed::Refusals;
use super::index::{Index, View};
use super::review::{Opponent, accepted, expected, fallback, references, uncaptured};
use super::{
    against_base, baselines, blame, conclusion, notes, problems, review, rivals, rules, targets,
    ungated,
};
use model::*;
use std::collections::BTreeSet;

impl Index<'_> {
    /// Every gate's verdict, in the order of the policy, and what they come to together. Any prefix of a run's evidence can
    /// be judged; evidence that is missing is a reason in its verdict. Two records are judged by [`compare`](crate::compare).
    pub fn judge(&self) -> Judgement {
        let base = self.view(Side::Base, None);
        debug_assert!(base.is_none_or(View::is_revision), "two records");
        let head = self.head();
        let opponent = match &head.policy().base {
            None => Opponent::Nothing,
            Some(base) => Opponent::Revision(base),
        };
        judge_in_passes(head, &Refusals::new(), opponent)
    }
}

/// All passes in their order. Each adds verdicts or replaces some; the conclusion is drawn last, once, from all.
pub(super) fn judge_in_passes(view: View, refusals: &Refusals, opponent: Opponent) -> Judgement {
    // Each gate by its rule, and what was accepted of it.
    let mut judgement = judge_gates(view, refusals);
    judgement.ungated = ungated::find(view, refusals);
    let verdicts = &mut judgement.verdicts;
    // Resources that became worse, and that no gate limits.
    if opponent.loosening() == Loosening::Fails {
        let worse = ungated::verdicts(view, &judgement.ungated, verdicts);
        verdicts.extend(worse);
    }
    // Failures of variants that are kept to fail.
    expected::review(view.plan(), verdicts);
    // Failures of variants that another stands in for.
    fallback::review(view, verdicts);
    // Files and acceptances that are no good. A comparison of two records makes its baselines itself, and by these it
    // cannot tell whether an acceptance is needed.
    let (broken, unneeded) = view.broken_baselines();
    verdicts.extend(broken);
    judgement.notes.extend(unneeded);
    if !matches!(opponent, Opponent::Record { .. }) {
        verdicts.extend(accepted::check(view, refusals));
    }
    verdicts.extend(uncaptured::review(view.plan()));
    // Everything that the base requires.
    verdicts.extend(review::against(opponent, view));
    judgement.conclusion = conclusion::conclude(view, verdicts);
    baselines::keep_sound_wins(&mut judgement.wins, verdicts);
    judgement.problems = problems::group(view, verdicts);

    // No verdict follows from the rest.
    judgement.targets = targets::compare(view);
    let drifts = rules::baseline::since_best(view, &judgement.drifts);
    judgement.drifts.extend(drifts);
    judgement.rivals = rivals::standings(view);
    judgement.base = against_base::summarise(view);
    judgement.blames = blame::find(view, &judgement.verdicts);
    judgement.notes.extend(notes::of_cases(view));
    judgement.notes.extend(match opponent {
        Opponent::Nothing => Vec::new(),
        Opponent::Revision(base) => references::new_inputs(view)
            .into_iter()
            .chain(notes::new_names(base))
            .collect(),
        Opponent::Record { base, head, .. } => notes::left_out(&base.plan, &head.plan)
            .into_iter()
            .collect(),
    });
    judgement
}

/// Rules, with what was accepted of them.
fn judge_gates(view: View, refusals: &Refusals) -> Judgement {
    let mut judgement = conclusion::empty_judgement();
    let mut new = BTreeSet::new();
    for gate in &view.policy().gates {
        let mut ruled = rules::accepted::apply(view, gate, refusals);
        if gate.needs_device() {
            conclusion::blame_device(view, &mut ruled.verdict);
        }
        new.extend(ruled.new.map(|facet| (gate.subject.clone(), facet)));
        judgement.wins.append(&mut ruled.wins);
        judgement.counters.append(&mut ruled.counters);
        judgement.accepted.extend(ruled.accepted);
        judgement.drifts.extend(ruled.drift);
        judgement.verdicts.push(ruled.verdict);
    }
    judgement.notes = new
        .into_iter()
        .map(|(subject, facet)| Note::New { subject, facet })
        .chain(notes::gone(view))
        .collect();
    judgement
}
