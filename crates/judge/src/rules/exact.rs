//! A figure that repeats exactly (resources, errors, counters) against the last baseline, and against what
//! the base measures on this device.
//!
//! A baseline holds under its key alone, and a change can take another: other flags, another architecture.
//! What the base measures now holds whatever key either has.

use super::{Refusals, Ruled, baseline, simulation};
use crate::lookup::{Executor, Found};
use crate::review::{NotRequired, references};
use crate::value::Values;
use model::*;

/// By the baseline where it has the value under this key; else by the base, where that was named and has it.
pub fn compare(values: &Values, gate: &Gate, refusals: &Refusals) -> Ruled {
    let own = compare_to_baseline(values, gate, refusals);
    let is_lacking = matches!(
        own.verdict.reason,
        Reason::New { .. } | Reason::OtherKey { .. }
    );
    let beside = || match required_of_base(values, gate) {
        Ok(()) => compare_to_base(values, gate).ok().flatten(),
        Err(_) => None,
    };
    // A base that cannot be compared has a verdict of its own (`review/measured`).
    match is_lacking.then(beside).flatten() {
        Some(beside) => Ruled {
            new: own.new,
            ..beside
        },
        None => own,
    }
}

/// Values of a gate that hold against a baseline of head's, and are worse than what the base measures: a change that
/// agrees on worse.
///
/// # Errors
/// Why the base has none, where head has a value that only the base could be held against, or agrees on it anew.
pub fn worse_than_base(values: &Values, gate: &Gate) -> Found<Vec<EditedFigure>> {
    let own = compare_to_baseline(values, gate, &Refusals::new()).verdict;
    // Anything else fails or is undecided by its own verdict, or has no value to be worse.
    if own.outcome != Outcome::Pass && !own.reason.is_new() {
        return Ok(Vec::new());
    }
    let beside = compare_to_base(values, gate)?;
    if own.outcome != Outcome::Pass {
        // The gate itself was held against the base.
        return Ok(Vec::new());
    }
    let figure = |metric, was, now| EditedFigure {
        metric,
        edit: FigureEdit::Worse { was, now },
    };
    Ok(match beside.map(|it| it.verdict.reason) {
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

/// Whether the base has the same to do, on what this run executes.
pub fn required_of_base(values: &Values, gate: &Gate) -> Result<(), NotRequired> {
    let beside = values.beside.as_ref().ok_or(NotRequired::OtherDevice)?;
    let [head, base] = &beside.shared;
    match &gate.subject {
        Subject::Unit(id) => match base.lookup.plan.unit(id) {
            Some(_) => Ok(()),
            None => Err(NotRequired::NotAtBase),
        },
        Subject::Case(id) => {
            let plans = [head, base].map(|it| it.lookup.plan.case(id));
            let [Some(ours), Some(theirs)] = plans else {
                return Err(NotRequired::NotAtBase);
            };
            match base.lookup.executor() {
                Err(_) => return Err(NotRequired::NothingRuns),
                Ok(Executor::Gpu(_)) if is_counted(&gate.rule) => {
                    return Err(NotRequired::NothingRuns);
                }
                Ok(_) => {}
            }
            if base.lookup.unit_on_device(id).is_err() {
                return Err(NotRequired::NotAtBase);
            }
            match is_same_work(ours, theirs) {
                true => Ok(()),
                false => Err(NotRequired::SaidElsewhere),
            }
        }
    }
}

/// Counters come from the simulator alone.
fn is_counted(rule: &Rule) -> bool {
    match rule {
        Rule::Counters { .. } => true,
        rule => rule
            .metric()
            .is_some_and(|metric| metric.facet() == Facet::Counters),
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

/// `None` where both answer, and have nothing in common that can be held.
///
/// # Errors
/// Why the base has no answer.
fn compare_to_base(values: &Values, gate: &Gate) -> Found<Option<Ruled>> {
    let Some(beside) = &values.beside else {
        return Ok(None);
    };
    let [head, base] = &beside.shared;
    let subject = &gate.subject;
    let base = match subject {
        // What would be the same was not run again.
        Subject::Case(id) if values.tells_of_base(id) => head,
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
            Some(baseline::compare_to_figure(
                head, gate, metric, change.0, was,
            ))
        }
        Rule::Counters { change } => match subject {
            Subject::Case(id) => {
                let was = base.over_launches(id, |launch| &launch.counters)?;
                simulation::compare_to_counted(head, gate, change.0, &was)
            }
            Subject::Unit(_) => None,
        },
        _ => None,
    };
    Ok(ruled.map(|ruled| Ruled {
        // A value that is better than the base's is no win over what was agreed.
        wins: Vec::new(),
        ..ruled
    }))
}

/// Whether two cases of one name have the same to do: every size of the base's, and what is put in. Where it lies in
/// memory, and which elements are looked at, changes no work.
fn is_same_work(head: &Case, base: &Case) -> bool {
    let drawn = base.tensors.iter().filter(|tensor| tensor.is_drawn());
    let mut both = drawn.filter_map(|tensor| {
        let mut others = head.tensors.iter();
        Some((tensor, others.find(|other| other.name == tensor.name)?))
    });
    let is_same = |(theirs, ours): (&Tensor, &Tensor)| {
        let contents = |tensor: &Tensor| Tensor {
            strides: None,
            compare: None,
            // A fill of working memory that is new is loosened; one that is gone is work of the kernel.
            fill: tensor.fill.clone().filter(|_| tensor.role != Role::Scratch),
            ..tensor.clone()
        };
        contents(theirs) == contents(ours)
    };
    references::has_the_sizes_of(base, head) && both.all(is_same)
}
