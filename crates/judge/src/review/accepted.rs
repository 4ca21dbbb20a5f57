//! Regressions that are intended: a gate that is broken passes where somebody has put a name, a limit and
//! a date under it. An acceptance that has run out, or that nothing needs, is a failure of its own. Findings
//! that are known are let pass where they are judged (`rules/simulation`).

use super::loosened::{Strictness, strictness};
use super::{Comparison, Ended, NotRequired, compare_required};
use crate::agreed::is_over_shapes;
use crate::index::View;
use crate::rules::{self, Refusals, Ruled, is_against_base};
use model::*;

/// One gate, with what was accepted of it.
///
/// Between head and base that is a second contest over the same processes, decided by the accepted limit
/// where the gate's own is broken. A false alarm takes both of them, and the chance to pass what lies
/// beyond both limits is at most the sum of the two.
pub fn apply(view: View, gate: &Gate, refusals: &Refusals) -> Ruled {
    let own = rules::apply(view, gate, refusals);
    if !can_be_accepted(&own) {
        return own;
    }
    let day = view.environment().day();
    let accepted = view.policy().accepted.iter();
    let mut others: Vec<(Limited, Option<Ruled>)> = accepted
        .filter_map(|it| limited(it, gate))
        .map(|it| {
            let other = it
                .acceptance
                .holds_on(day)
                .then(|| rules::apply(view, &with_accepted_limit(gate, it.limit), refusals));
            (it, other)
        })
        .collect();
    let has_outcome = |other: &Option<Ruled>, outcome| {
        let other = other.as_ref();
        other.is_some_and(|other| other.verdict.outcome == outcome)
    };
    // A pass goes before what is open, and that before what is broken too.
    let found = [Outcome::Pass, Outcome::Inconclusive, Outcome::Fail]
        .into_iter()
        .find_map(|outcome| {
            let mut others = others.iter();
            others.position(|(_, other)| has_outcome(other, outcome))
        })
        .or((!others.is_empty()).then_some(0));
    match found.map(|at| others.swap_remove(at)) {
        Some((accepted, other)) => combine(own, gate, accepted, other),
        None => own,
    }
}

/// Broken, or open with values: who accepted more than the gate allows has accepted that too.
fn can_be_accepted(own: &Ruled) -> bool {
    match own.verdict.outcome {
        Outcome::Fail => true,
        Outcome::Inconclusive => own.verdict.interval.is_some(),
        Outcome::Environment
        | Outcome::Unsupported
        | Outcome::Skipped
        | Outcome::Replaced
        | Outcome::Expected
        | Outcome::Pass => false,
    }
}

/// The verdict of the gate's own limit with that of the accepted one, which is `None` where it ran out.
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

/// A verdict on each acceptance that is no good: run out, of nothing, or needed by nothing.
pub fn check(view: View, refusals: &Refusals) -> Vec<Verdict> {
    let accepted = view.policy().accepted.iter();
    accepted
        .filter_map(|it| {
            Some(Verdict::without_figures(
                subject_of(it),
                Question::Acceptance(it.allows.clone()),
                Outcome::Fail,
                problem(view, it, refusals)?,
                Some(it.declared.clone()),
            ))
        })
        .collect()
}

fn problem(view: View, acceptance: &Acceptance, refusals: &Refusals) -> Option<Reason> {
    let environment = view.environment();
    let (by, until) = (acceptance.by.clone(), acceptance.until.clone());
    let case = || acceptance.case.clone();
    let day = environment.day();
    if !acceptance.holds_on(day) {
        return Some(match day {
            Some(day) => Reason::AcceptanceExpired {
                by,
                until,
                day: day.to_owned(),
            },
            None => Reason::AcceptanceUndated {
                started: environment.started.clone(),
            },
        });
    }
    if acceptance.left_out {
        return None;
    }
    if acceptance.subjects.is_empty() {
        return Some(Reason::AcceptanceOfNothing { case: case() });
    }
    if let Allowance::Finding(known) = &acceptance.allows {
        return is_gone(view, &acceptance.subjects, known)
            .then_some(Reason::AcceptedFindingGone { by, until });
    }
    let gates = view.policy().gates.iter();
    let gates: Vec<_> = gates
        .filter(|gate| limited(acceptance, gate).is_some())
        .collect();
    if gates.is_empty() {
        return Some(Reason::AcceptanceWithoutGate { case: case() });
    }
    let is_unneeded = |gate: &&Gate| {
        holds_everywhere(view, gate)
            && rules::apply(view, gate, refusals).verdict.outcome == Outcome::Pass
    };
    let is_unused = gates.iter().all(is_unneeded);
    is_unused.then_some(Reason::AcceptanceUnused { by, until })
}

/// Whether every launch of the cases told its findings, and none has this one.
fn is_gone(view: View, subjects: &[Subject], known: &KnownFinding) -> bool {
    let is_clean = |view: View, id: &CaseId| {
        let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
        !seeds.is_empty()
            && seeds.iter().all(|&seed| {
                let launch = view.simulation(id, seed);
                launch.is_ok_and(|it| {
                    it.findings
                        .iter()
                        .all(|found| known.place_in(found).is_none())
                })
            })
    };
    subjects.iter().all(|subject| match subject {
        Subject::Case(id) => view.all_architectures(id).all(|view| is_clean(view, id)),
        Subject::Unit(_) => false,
    })
}

/// Whether a gate that holds here would hold wherever it is judged.
fn holds_everywhere(view: View, gate: &Gate) -> bool {
    let is_partial = view.plan().is_partial(gate.subject.kernel());
    match &gate.rule {
        // Whatever the base took over long ago is no regression beside it, and still one to the baseline.
        Rule::Limit { metric, limit } if metric.facet() == Facet::Times => {
            matches!(limit, Limit::Absolute { .. } | Limit::Anchor { .. })
                || !is_against_base(view, &gate.subject, *metric)
        }
        // The simulator adds up differently from a GPU.
        Rule::Limit { metric, .. } if metric.facet() == Facet::Correctness => !view.is_simulated(),
        Rule::Limit { metric, .. } => !(is_partial && is_over_shapes(*metric)),
        _ => true,
    }
}

/// Where it names one, that; else what was written, with `*` for what was not.
fn subject_of(acceptance: &Acceptance) -> Subject {
    if let [only] = acceptance.subjects.as_slice() {
        return only.clone();
    }
    let (left, shape) = acceptance
        .case
        .split_once('@')
        .unwrap_or((&acceptance.case, "*"));
    let (kernel, variant) = left.split_once('/').unwrap_or((left, "*"));
    Subject::Case(CaseId::new(kernel, variant, shape))
}

/// Each acceptance of head with what base accepts: more than that, or longer, and a change accepts what it makes worse.
/// `base_plan` has head's names, by which an acceptance of base's was not written.
pub fn added(base: &[Acceptance], base_plan: &Plan, head: &[Acceptance]) -> Vec<Comparison> {
    let allows_as_much = |was: &Allowance, it: &Allowance| match (was, it) {
        (Allowance::Limit(was), Allowance::Limit(it)) => {
            can_replace(was, it) && strictness(was, it) == Strictness::Kept
        }
        (was, it) => was == it,
    };
    let is_wide_enough = |was: &&Acceptance, it: &Acceptance| {
        was.until >= it.until && allows_as_much(&was.allows, &it.allows)
    };
    let is_known = |it: &Acceptance| {
        let wide: Vec<_> = base.iter().filter(|was| is_wide_enough(was, it)).collect();
        let has_words = wide.iter().any(|was| was.case == it.case);
        let is_new = |subject: &Subject| match subject {
            Subject::Unit(id) => base_plan.unit(id).is_none(),
            Subject::Case(id) => base_plan.case(id).is_none(),
        };
        // By its words where it names cases that are new, and base knows none of.
        let is_accepted = |subject: &Subject| {
            let is_named = wide.iter().any(|was| was.subjects.contains(subject));
            is_named || has_words && is_new(subject)
        };
        it.subjects.iter().all(is_accepted)
    };
    compare_required(
        head,
        // It names what a filter left out, or nothing, which is a verdict of its own.
        |it| match it.subjects.is_empty() {
            true => Err(NotRequired::LeftOut),
            false => Ok(subject_of(it)),
        },
        |it, subject| {
            let how = (!is_known(it)).then(|| Loosened::Accepts {
                allows: it.allows.clone(),
                by: it.by.clone(),
                until: it.until.clone(),
            });
            Comparison {
                subject,
                demand: BaseDemand::NoAcceptance,
                declared: Some(it.declared.clone()),
                ended: Ended::held_unless(how),
            }
        },
    )
}

/// An acceptance with the limit that it has for a gate.
#[derive(Clone, Copy)]
struct Limited<'a> {
    acceptance: &'a Acceptance,
    limit: &'a Rule,
}

/// `None` where it has none for this gate.
fn limited<'a>(acceptance: &'a Acceptance, gate: &Gate) -> Option<Limited<'a>> {
    let Allowance::Limit(limit) = &acceptance.allows else {
        return None;
    };
    let covers = acceptance.subjects.contains(&gate.subject) && can_replace(limit, &gate.rule);
    covers.then_some(Limited { acceptance, limit })
}

/// Whether an accepted limit is of the same kind and metric as a gate's own.
fn can_replace(accepted: &Rule, own: &Rule) -> bool {
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
            | (Limit::Baseline { .. }, Limit::Baseline { .. } | Limit::Base { .. }) => true,
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
                limit: Limit::Baseline { change },
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
