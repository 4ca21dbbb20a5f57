//! A figure that repeats exactly (resources, errors, counters) against the last baseline, and against what
//! the base measures on this device.
//!
//! A baseline holds under its key alone, and a change can take another: other flags, another architecture.
//! What the base measures now holds whatever key either has.

use super::{Refusals, Ruled, baseline, simulation};
use crate::judge::value::Values;
use crate::model::*;

/// By the baseline where it has the figure under this key; else by the base, where that was named and has it.
pub fn compare(values: &Values, gate: &Gate, refusals: &Refusals) -> Ruled {
    let own = compare_to_baseline(values, gate, refusals);
    let is_lacking = matches!(
        own.verdict.reason,
        Reason::New { .. } | Reason::OtherKey { .. }
    );
    match is_lacking.then(|| compare_to_base(values, gate)).flatten() {
        Some(beside) => Ruled {
            new: own.new,
            ..beside
        },
        None => own,
    }
}

/// Figures of a gate that hold against a baseline of head's, and are worse than what the base measures: a
/// change that agrees on worse.
pub fn worse_than_base(values: &Values, gate: &Gate, refusals: &Refusals) -> Vec<EditedFigure> {
    if compare_to_baseline(values, gate, refusals).verdict.outcome != Outcome::Pass {
        return Vec::new();
    }
    let beside = compare_to_base(values, gate);
    let figure = |metric, was, now| EditedFigure {
        metric,
        edit: FigureEdit::Worse { was, now },
    };
    match beside.map(|it| it.verdict.reason) {
        Some(Reason::BeyondChange(comparison)) => match (comparison.was, comparison.now) {
            (Some(was), Some(now)) => vec![figure(comparison.metric, was, now)],
            _ => Vec::new(),
        },
        Some(Reason::CountersRose { rises, .. }) => rises
            .into_iter()
            .map(|rise| figure(rise.counter.into(), rise.was, rise.now))
            .collect(),
        _ => Vec::new(),
    }
}

fn compare_to_baseline(values: &Values, gate: &Gate, refusals: &Refusals) -> Ruled {
    match gate.rule {
        Rule::Limit {
            metric,
            limit: Limit::Baseline { change },
        } => baseline::compare_to_baseline(values, gate, metric, change.0, refusals),
        Rule::Counters { change } => {
            simulation::compare_to_baseline(values, gate, change.0, refusals)
        }
        _ => Ruled::blank(gate).end(super::misplaced()),
    }
}

/// `None` where the base has no such figure: it has no such case, or calls it otherwise, or did not give it.
fn compare_to_base(values: &Values, gate: &Gate) -> Option<Ruled> {
    let [head, base] = &values.beside.as_ref()?.shared;
    let subject = &gate.subject;
    let base = match subject {
        // What would be the same was not run again.
        Subject::Case(id) if values.tells_of_base(id) => head,
        Subject::Case(id) => {
            let (ours, theirs) = (head.lookup.plan.case(id)?, base.lookup.plan.case(id)?);
            is_same_work(ours, theirs).then_some(base)?
        }
        Subject::Unit(_) => base,
    };
    let mut ruled = match gate.rule {
        Rule::Limit {
            metric,
            limit: Limit::Baseline { change },
        } => {
            let was = base.metric(subject, metric).ok()?;
            baseline::compare_to_figure(head, gate, metric, change.0, was)
        }
        Rule::Counters { change } => {
            let Subject::Case(id) = subject else {
                return None;
            };
            let was = base.gateable(id);
            simulation::compare_to_counted(head, gate, change.0, &was)?
        }
        _ => return None,
    };
    // What is better than the base is no win over what was agreed.
    ruled.wins.clear();
    Some(ruled)
}

/// Whether two cases of one name have the same to do: sizes, and what is put in.
fn is_same_work(a: &Case, b: &Case) -> bool {
    let drawn = a.tensors.iter().filter(|tensor| tensor.is_drawn());
    let mut both = drawn.filter_map(|tensor| {
        let mut others = b.tensors.iter();
        Some((tensor, others.find(|other| other.name == tensor.name)?))
    });
    a.dims == b.dims && both.all(|(a, b)| a == b)
}
