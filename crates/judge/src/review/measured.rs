//! Finds baselines of head that agree on worse values than the base measures. Files and keys do not matter here: it is
//! known what a kernel cost before the change, and what it costs now.

use super::{Comparison, Ended, compare_required, without_answer_of_base};
use crate::agreed::ANY_SHAPE;
use crate::counterpart::{NotRequired, required_of_base};
use crate::index::View;
use crate::rules::exact;
use model::*;

/// Compares every gate on values that repeat exactly, joined by subject and kind of value. `known` lists baselines that
/// are already known to be looser.
pub fn since(view: View, base: &Base, known: &[Comparison]) -> Vec<Comparison> {
    let gates = view
        .policy()
        .gates
        .iter()
        .filter_map(|gate| Some((gate, facet(&gate.rule)?)))
        .flat_map(|(gate, facet)| {
            let all: Vec<View> = match &gate.subject {
                Subject::Unit(_) => vec![view],
                Subject::Case(id) => view.all_architectures(id).collect(),
            };
            all.into_iter().map(move |view| (gate, facet, view))
        });
    let found = compare_required(
        gates,
        |(gate, facet, view)| required(*view, gate, *facet, known),
        |(gate, facet, view), ()| Comparison {
            subject: gate.subject.clone(),
            demand: BaseDemand::Baseline(facet),
            declared: None,
            ended: compare(view, base, gate, facet),
        },
    );
    join(found)
}

fn required(
    view: View,
    gate: &Gate,
    facet: Facet,
    known: &[Comparison],
) -> Result<(), NotRequired> {
    let demand = BaseDemand::Baseline(facet);
    if known
        .iter()
        .filter(|comparison| comparison.ended != Ended::Held)
        .any(|comparison| (&comparison.subject, &comparison.demand) == (&gate.subject, &demand))
    {
        return Err(NotRequired::SaidElsewhere);
    }
    required_of_base(view, gate)
}

fn compare(view: View, base: &Base, gate: &Gate, facet: Facet) -> Ended {
    match exact::worse_than_base(view, gate) {
        Ok(figures) if figures.is_empty() => Ended::Held,
        Ok(figures) => Ended::Failed(Loosened::BaselineAbove(figures)),
        Err(why) => match without_answer_of_base(why) {
            // The base's own baseline files limit head without a measurement.
            Ended::Inconclusive(Reason::BaseIncomparable(_))
                if is_agreed_at_base(view, base, gate, facet) =>
            {
                Ended::Held
            }
            ended => ended,
        },
    }
}

/// Returns true if the base's own baseline files have the subject under the key of this run.
fn is_agreed_at_base(view: View, base: &Base, gate: &Gate, facet: Facet) -> bool {
    let Ok(key) = view.key(&gate.subject, facet) else {
        return false;
    };
    let shape = match &gate.subject {
        Subject::Unit(_) => ANY_SHAPE,
        Subject::Case(_) if facet == Facet::Resources => ANY_SHAPE,
        Subject::Case(id) => &id.shape,
    };
    base.baselines.iter().any(|baseline| {
        (baseline.kernel.as_str(), baseline.variant.as_str())
            == (gate.subject.kernel(), gate.subject.variant())
            && baseline.key == key
            && baseline.cases.get(shape).is_some_and(|agreed| {
                let metric = gate.rule.metric();
                metric.is_none_or(|metric| agreed.contains_key(&metric))
            })
    })
}

/// Joins comparisons so that there is one for each subject and kind of value. Several gates share one baseline, and
/// among several architectures the first that is worse counts.
fn join(all: Vec<Comparison>) -> Vec<Comparison> {
    let mut joined: Vec<Comparison> = Vec::new();
    for one in all {
        let same = |comparison: &&mut Comparison| {
            (&comparison.subject, &comparison.demand) == (&one.subject, &one.demand)
        };
        match joined.iter_mut().find(same) {
            None => joined.push(one),
            Some(known) => match (&mut known.ended, one.ended) {
                (
                    Ended::Failed(Loosened::BaselineAbove(known)),
                    Ended::Failed(Loosened::BaselineAbove(more)),
                ) => {
                    for figure in more {
                        if !known
                            .iter()
                            .any(|comparison| comparison.metric == figure.metric)
                        {
                            known.push(figure);
                        }
                    }
                }
                (own, other) if other.gravity() < own.gravity() => *own = other,
                _ => {}
            },
        }
    }
    joined
}

/// Returns the kind of value that a rule compares with the baseline, if the value repeats exactly. A base is never
/// profiled.
fn facet(rule: &Rule) -> Option<Facet> {
    match rule {
        Rule::Counters { .. } => Some(Facet::Counters),
        Rule::Limit {
            metric,
            limit: Limit::Baseline { .. },
        } => Some(metric.facet()).filter(|facet| match facet {
            Facet::Resources | Facet::Correctness | Facet::Counters => true,
            Facet::Times | Facet::Profile => false,
        }),
        _ => None,
    }
}
