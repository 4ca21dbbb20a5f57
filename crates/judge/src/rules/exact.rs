//! A figure that repeats exactly (resources, errors, counters) against the last baseline, and against what
//! the base measures on this device.
//!
//! A baseline holds under its key alone, and a change can take another: other flags, another architecture.
//! The base's present measurement holds whatever key either has.

use super::{Refusals, Ruled, baseline, simulation};
use crate::index::View;
use crate::lookup::{Executor, Judged};
use crate::review::{NotRequired, references};
use model::*;

/// By the baseline where it has the value under this key; else by the base, where that was named and has it.
pub fn compare(view: View, gate: &Gate, refusals: &Refusals) -> Ruled {
    let own = compare_to_baseline(view, gate, refusals);
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

/// Values of a gate that hold against a baseline of head's, and are worse than what the base measures: a change that
/// agrees on worse.
///
/// # Errors
/// Why the base has none, where head has a value that only the base could be held against, or agrees on it anew.
pub fn worse_than_base(view: View, gate: &Gate) -> Judged<Vec<EditedFigure>> {
    let own = compare_to_baseline(view, gate, &Refusals::new()).verdict;
    // Anything else fails or is undecided by its own verdict, or has no value to be worse.
    if own.outcome != Outcome::Pass && !own.reason.is_new() {
        return Ok(Vec::new());
    }
    let to_base = compare_to_base(view, gate)?;
    if own.outcome != Outcome::Pass {
        // The gate itself was held against the base.
        return Ok(Vec::new());
    }
    let figure = |metric, was, now| EditedFigure {
        metric,
        edit: FigureEdit::Worse { was, now },
    };
    Ok(match to_base.map(|it| it.verdict.reason) {
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
pub fn required_of_base(view: View, gate: &Gate) -> Result<(), NotRequired> {
    let base = view.base().ok_or(NotRequired::OtherDevice)?;
    match &gate.subject {
        Subject::Unit(id) => match base.plan().unit(id) {
            Some(_) => Ok(()),
            None => Err(NotRequired::NotAtBase),
        },
        Subject::Case(id) => {
            let plans = [view, base].map(|it| it.plan().case(id));
            let [Some(ours), Some(theirs)] = plans else {
                return Err(NotRequired::NotAtBase);
            };
            match base.executor() {
                Err(_) => return Err(NotRequired::NothingRuns),
                Ok(Executor::Gpu(_)) if is_counted(&gate.rule) => {
                    return Err(NotRequired::NothingRuns);
                }
                Ok(_) => {}
            }
            if base.unit_on_device(id).is_err() {
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

fn compare_to_baseline(view: View, gate: &Gate, refusals: &Refusals) -> Ruled {
    match gate.rule {
        Rule::Limit {
            metric,
            limit: Limit::Baseline { change },
        } => baseline::compare_to_baseline(view, gate, metric, change.0, refusals),
        Rule::Counters { change } => {
            simulation::compare_to_baseline(view, gate, change.0, refusals)
        }
        _ => Ruled::blank(gate).end(super::misplaced()),
    }
}

/// `None` where both answer, and have nothing in common that can be held.
///
/// # Errors
/// Why the base has no answer.
fn compare_to_base(view: View, gate: &Gate) -> Judged<Option<Ruled>> {
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
