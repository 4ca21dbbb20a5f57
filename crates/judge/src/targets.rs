//! Compares values with their targets. No verdict follows from it.

use super::index::View;
use super::rules::{self, relative_change};
use model::*;

pub(super) fn compare(view: View) -> Vec<Aimed> {
    view.policy()
        .targets
        .iter()
        .map(|target| aim(view, target))
        .collect()
}

/// Judges a target by the rule of a gate with the same limit.
fn aim(view: View, target: &Target) -> Aimed {
    let gate = Gate {
        subject: target.subject.clone(),
        rule: target.rule(),
        declared: Some(target.declared.clone()),
    };
    let Verdict {
        outcome,
        reason,
        measured,
        limit,
        ..
    } = rules::judge_gate(view, &gate, &[]).verdict;
    let both = measured.zip(limit);
    let standing = match outcome {
        Outcome::Pass => Standing::Met,
        // A kernel that is wrong or does not build has no value, and so it has missed nothing.
        Outcome::Fail if both.is_some() => Standing::Missed,
        _ => Standing::NotMeasured,
    };
    Aimed {
        subject: gate.subject,
        rule: gate.rule,
        standing,
        measured,
        limit,
        change: both.map(|(measured, limit)| Num(relative_change(measured.0, limit.0))),
        reason,
        because: target.because.clone(),
        declared: target.declared.clone(),
    }
}
