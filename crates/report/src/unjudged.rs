//! Counts what a run has left to judge. Pure.

use model::{Judgement, Note, Outcome, Reason, Verdict};

/// Returns what a run has left to judge, which the headline counts and the lists explain. Values that repeat by
/// construction are not left: no run in the simulator can judge them.
pub fn left_to_judge(judgement: &Judgement) -> impl Iterator<Item = &Verdict> {
    judgement.verdicts.iter().filter(|verdict| {
        let repeats = match &verdict.reason {
            Reason::OnArchitecture { why, .. } => **why == Reason::RepeatsByConstruction,
            reason => *reason == Reason::RepeatsByConstruction,
        };
        matches!(verdict.outcome, Outcome::Skipped | Outcome::Unsupported) && !repeats
    })
}

/// Counts the counters that no gate can rest on.
pub fn withheld(judgement: &Judgement) -> usize {
    judgement
        .notes
        .iter()
        .map(|note| match note {
            Note::NotHeld { counters, .. } => counters.len(),
            _ => 0,
        })
        .sum()
}

/// Returns how much was not judged: the sum of the table of `not_judged`.
pub fn count(judgement: &Judgement) -> usize {
    left_to_judge(judgement).count() + withheld(judgement)
}
