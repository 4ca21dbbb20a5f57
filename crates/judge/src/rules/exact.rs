//! Compares a value that repeats exactly (resources, errors, counters) with the last baseline, and with what the base
//! measures on this device.
//!
//! A baseline is valid only under its key, and a change can move to another key by other flags or another architecture.
//! The base's present measurement counts whatever the keys are.

use super::{Ruled, baseline, counters};
use crate::counterpart::required_of_base;
use crate::index::View;
use crate::not_passed::OrNotPassed;
use model::*;

/// Compares with the baseline if it has the value under this key, and else with the base if there is one that has the
/// value.
pub fn compare(view: View, gate: &Gate) -> Ruled {
    let own = compare_to_baseline(view, gate);
    let is_lacking = matches!(
        own.verdict.reason,
        Reason::New { .. } | Reason::OtherKey { .. }
    );
    let to_base = || match required_of_base(view, gate) {
        Ok(()) => compare_to_base(view, gate).ok().flatten(),
        Err(_) => None,
    };
    // A base that cannot be compared has a verdict of its own (`review/measured`).
    match is_lacking.then(to_base).flatten() {
        Some(to_base) => Ruled {
            new: own.new,
            ..to_base
        },
        None => own,
    }
}

/// Returns values that hold against a baseline of head and are worse than what the base measures: the change agrees on
/// something worse.
///
/// # Errors
/// Returns why the base has no value, if only the base could be compared with head's value, or if head agrees on it for
/// the first time.
pub fn worse_than_base(view: View, gate: &Gate) -> OrNotPassed<Vec<EditedFigure>> {
    let own = compare_to_baseline(view, gate).verdict;
    // Any other outcome is reported by its own verdict, or has no value that could be worse.
    if own.outcome != Outcome::Pass && !own.reason.is_new() {
        return Ok(Vec::new());
    }
    let to_base = compare_to_base(view, gate)?;
    if own.outcome != Outcome::Pass {
        // The gate itself was compared with the base.
        return Ok(Vec::new());
    }
    let figure = |metric, was, now| EditedFigure {
        metric,
        edit: FigureEdit::Worse { was, now },
    };
    Ok(match to_base.map(|comparison| comparison.verdict.reason) {
        Some(Reason::BeyondChange(comparison)) => match (comparison.was, comparison.now) {
            (Some(was), Some(now)) => vec![figure(comparison.metric, was, now)],
            _ => Vec::new(),
        },
        Some(Reason::CountersRose { rises, .. }) => rises
            .into_iter()
            .map(|rise| figure(rise.counter.into(), rise.was, rise.now))
            .collect(),
        _ => Vec::new(),
    })
}

fn compare_to_baseline(view: View, gate: &Gate) -> Ruled {
    match gate.rule {
        Rule::Limit {
            metric,
            limit: Limit::Baseline { change },
        } => baseline::compare_to_baseline(view, gate, metric, change),
        Rule::Counters { change } => counters::compare_to_baseline(view, gate, change.0),
        _ => Ruled::blank(gate).end(super::misplaced()),
    }
}

/// Compares head with the base. Returns `None` if both answer and have nothing in common that can be compared.
///
/// # Errors
/// Returns why the base has no answer.
fn compare_to_base(view: View, gate: &Gate) -> OrNotPassed<Option<Ruled>> {
    let Some(base) = view.base() else {
        return Ok(None);
    };
    let (head, base) = (view.common(), base.common());
    let subject = &gate.subject;
    let base = match subject {
        // A case that would be the same was not run again.
        Subject::Case(id) if view.head_answers_for_base(id) => head,
        Subject::Case(_) | Subject::Unit(_) => {
            base.built_as_base(subject)?;
            base
        }
    };
    let ruled = match gate.rule {
        Rule::Limit {
            metric,
            limit: Limit::Baseline { change },
        } => {
            let was = base.metric(subject, metric)?;
            Some(baseline::compare_to_figure(head, gate, metric, change, was))
        }
        Rule::Counters { change } => match subject {
            Subject::Case(id) => {
                let was = base.over_launches(id, |launch| &launch.counters)?;
                counters::compare_to_counted(head, gate, change.0, &was)
            }
            Subject::Unit(_) => None,
        },
        _ => None,
    };
    Ok(ruled.map(|ruled| Ruled {
        // A value that is better than the base's is no improvement on what was agreed on.
        wins: Vec::new(),
        ..ruled
    }))
}
