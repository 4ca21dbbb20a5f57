//! Lets intended regressions pass: a broken gate passes if somebody has put a name, a limit and a date under it. Known
//! findings are let pass where findings are judged (`findings`).

use super::{Ruled, judge_gate};
use crate::index::View;
use model::*;

/// Lets a gate pass that is broken or open by its own limit, if one of the acceptances covers it.
///
/// For a time against the base this is a second contest over the same processes, which the accepted limit decides if
/// the gate's own limit is broken. A false alarm needs an error in both contests. The chance to pass what lies beyond
/// both limits is at most the sum of the two chances.
pub fn apply(view: View, gate: &Gate, acceptances: &[Acceptance], own: Ruled) -> Ruled {
    let day = view.environment().day();
    let mut others: Vec<(Limited, Option<Ruled>)> = acceptances
        .iter()
        .filter_map(|accepted| limited(accepted, gate))
        .map(|limited_by| {
            let other = limited_by
                .acceptance
                .holds_on(day)
                .then(|| judge_gate(view, &with_accepted_limit(gate, limited_by.limit), &[]));
            (limited_by, other)
        })
        .collect();
    let has_outcome = |other: &Option<Ruled>, outcome| {
        let other = other.as_ref();
        other.is_some_and(|other| other.verdict.outcome == outcome)
    };
    // A pass is preferred to an open verdict, and an open verdict to another failure.
    let found = [Outcome::Pass, Outcome::Inconclusive, Outcome::Fail]
        .into_iter()
        .find_map(|outcome| {
            others
                .iter()
                .position(|(_, other)| has_outcome(other, outcome))
        })
        .or((!others.is_empty()).then_some(0));
    match found.map(|at| others.swap_remove(at)) {
        Some((accepted, other)) => combine(own, gate, accepted, other),
        None => own,
    }
}

/// Combines the verdict by the gate's own limit with the verdict by the accepted limit, which is `None` if the
/// acceptance has expired.
fn combine(own: Ruled, gate: &Gate, by: Limited, other: Option<Ruled>) -> Ruled {
    let Limited { acceptance, limit } = by;
    let accepted = Box::new(AcceptedLimit {
        limit: limit.clone(),
        by: acceptance.by.clone(),
        until: acceptance.until.clone(),
        because: acceptance.reason.clone(),
    });
    let mut ruled = own;
    let verdict = &mut ruled.verdict;
    let own = Box::new(verdict.reason.clone());
    // A fault, or a baseline that cannot be used, has nothing to do with how much was accepted.
    let is_compared = verdict.limit.is_some();
    let Some(other) = other else {
        if is_compared {
            verdict.reason = Reason::AcceptedUntil { own, accepted };
        }
        return ruled;
    };
    match (other.verdict.outcome, verdict.outcome) {
        (Outcome::Pass, _) => {
            verdict.outcome = Outcome::Pass;
            verdict.reason = Reason::Accepted { own, accepted };
            verdict.limit = other.verdict.limit.or(verdict.limit);
            ruled.accepted = vec![Accepted {
                subject: verdict.subject.clone(),
                rule: gate.rule.clone(),
                reason: verdict.reason.clone(),
                declared: acceptance.declared.clone(),
            }];
        }
        (Outcome::Inconclusive, Outcome::Fail) => {
            verdict.outcome = Outcome::Inconclusive;
            verdict.reason = Reason::PartlyAccepted {
                own,
                accepted,
                other: Box::new(other.verdict.reason),
            };
            ruled.open = other.open;
        }
        (_, Outcome::Fail) if is_compared && other.verdict.reason != *own => {
            verdict.reason = Reason::BeyondAccepted { own, accepted };
        }
        _ => {}
    }
    ruled
}

/// An acceptance with the limit that it sets for a gate.
#[derive(Clone, Copy)]
struct Limited<'a> {
    acceptance: &'a Acceptance,
    limit: &'a Rule,
}

/// Returns the limit that an acceptance sets for this gate, or `None` if it sets none.
fn limited<'a>(acceptance: &'a Acceptance, gate: &Gate) -> Option<Limited<'a>> {
    let Allowance::Limit(limit) = &acceptance.allows else {
        return None;
    };
    let covers = acceptance.subjects.contains(&gate.subject) && can_replace(limit, &gate.rule);
    covers.then_some(Limited { acceptance, limit })
}

/// Returns true if an acceptance is about a limit of this gate.
pub fn has_limit(acceptance: &Acceptance, gate: &Gate) -> bool {
    limited(acceptance, gate).is_some()
}

/// Returns true if an accepted limit has the same kind and metric as the gate's own limit.
pub fn can_replace(accepted: &Rule, own: &Rule) -> bool {
    match (accepted, own) {
        (Rule::Counters { .. }, Rule::Counters { .. }) => true,
        (
            Rule::Limit { metric, limit },
            Rule::Limit {
                metric: other,
                limit: own,
            },
        ) if metric == other => match (limit, own) {
            (Limit::Absolute { .. }, Limit::Absolute { .. })
            | (Limit::Baseline { .. }, Limit::Baseline { .. })
            | (
                Limit::Baseline {
                    change: Margin::Share(_),
                },
                Limit::Base { .. },
            ) => true,
            (Limit::Anchor { anchor, .. }, Limit::Anchor { anchor: own, .. }) => anchor == own,
            _ => false,
        },
        _ => false,
    }
}

fn with_accepted_limit(gate: &Gate, limit: &Rule) -> Gate {
    let rule = match (limit, &gate.rule) {
        (
            Rule::Limit {
                limit:
                    Limit::Baseline {
                        change: Margin::Share(change),
                    },
                ..
            },
            Rule::Limit {
                metric,
                limit: Limit::Base { .. },
            },
        ) => Rule::Limit {
            metric: *metric,
            limit: Limit::Base { change: *change },
        },
        (accepted, _) => accepted.clone(),
    };
    Gate {
        rule,
        ..gate.clone()
    }
}
