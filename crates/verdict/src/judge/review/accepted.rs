//! Regressions that are intended: a gate that is broken passes where somebody has put a name, a limit and
//! a date under it. An acceptance that has run out, or that nothing needs, is a failure of its own.

use super::baseline::{Refusals, over_shapes};
use super::facts::Facts;
use super::limit::Ruled;
use super::loosened::{Strictness, strictness};
use super::words;
use crate::model::*;

/// What is said of a gate, with what was accepted of it.
///
/// Between head and base that is a second contest over the same processes, decided by the accepted limit
/// where the gate's own is broken. A false alarm takes both of them, and the chance to pass what lies
/// beyond both limits is at most the sum of the two.
pub(super) fn ruled(facts: &Facts, gate: &Gate, refusals: &Refusals) -> Ruled {
    let own = super::rule(facts, gate, refusals);
    if !is_wanted(&own) {
        return own;
    }
    let day = day(facts.environment);
    let mut others = facts
        .policy
        .accepted
        .iter()
        .filter(|it| covers(it, gate))
        .map(|it| {
            if !in_force(it, day) {
                return (it, None);
            }
            let other = super::rule(facts, &instead(gate, it), refusals);
            (it, Some(other))
        })
        .collect::<Vec<_>>();
    let holds = |other: &Option<Ruled>, outcome| {
        other
            .as_ref()
            .is_some_and(|other| other.verdict.outcome == outcome)
    };
    // What passes goes before what is open, and that before what is broken too.
    let found = [Outcome::Pass, Outcome::Inconclusive, Outcome::Fail]
        .into_iter()
        .find_map(|outcome| others.iter().position(|(_, other)| holds(other, outcome)))
        .or((!others.is_empty()).then_some(0));
    let Some((acceptance, other)) = found.map(|at| others.swap_remove(at)) else {
        return own;
    };
    answer(own, acceptance, other)
}

/// Broken, or open beside figures: who accepted more than the gate allows has accepted that too.
fn is_wanted(own: &Ruled) -> bool {
    match own.verdict.outcome {
        Outcome::Fail => true,
        Outcome::Inconclusive => own.verdict.interval.is_some(),
        Outcome::Environment | Outcome::Unsupported | Outcome::Skipped | Outcome::Pass => false,
    }
}

fn answer(own: Ruled, acceptance: &Acceptance, other: Option<Ruled>) -> Ruled {
    let was = own.verdict.outcome;
    let accepted = words::gate(&acceptance.instead);
    let told = format!(
        "`{accepted}` is accepted by {} until {}: {}",
        acceptance.by, acceptance.until, acceptance.reason
    );
    let own_reason = own.verdict.reason.clone();
    // A fault, or a baseline that cannot be used, has nothing to do with how much was accepted.
    let is_compared = own.verdict.limit.is_some();
    let Some(other) = other else {
        let mut ruled = own;
        if !is_compared {
            return ruled;
        }
        ruled.verdict.reason = format!(
            "{own_reason}; that `{accepted}` was accepted by {} ran out on {}",
            acceptance.by, acceptance.until
        );
        return ruled;
    };
    let mut ruled = own;
    match (other.verdict.outcome, was) {
        (Outcome::Pass, _) => {
            let reason = format!("{own_reason}; {told}");
            ruled.accepted = Some(Accepted {
                subject: ruled.verdict.subject.clone(),
                gate: ruled.verdict.gate.clone(),
                reason: reason.clone(),
                declared: acceptance.declared.clone(),
            });
            ruled.verdict.outcome = Outcome::Pass;
            ruled.verdict.reason = reason;
            ruled.verdict.limit = other.verdict.limit.or(ruled.verdict.limit);
        }
        (Outcome::Inconclusive, Outcome::Fail) => {
            ruled.verdict.outcome = Outcome::Inconclusive;
            ruled.verdict.reason = format!("{own_reason}; {told}; {}", other.verdict.reason);
            ruled.open = other.open;
        }
        (_, Outcome::Fail) if is_compared && other.verdict.reason != own_reason => {
            ruled.verdict.reason = format!(
                "{own_reason}; that is more than what is accepted by {}, `{accepted}`",
                acceptance.by
            );
        }
        _ => {}
    }
    ruled
}

/// A verdict on each acceptance that is no good: run out, of nothing, or needed by nothing.
pub(super) fn checked(facts: &Facts, refusals: &Refusals) -> Vec<Verdict> {
    let day = day(facts.environment);
    let accepted = facts.policy.accepted.iter();
    accepted
        .filter_map(|it| Some(failed(it, problem(facts, it, day, refusals)?)))
        .collect()
}

fn problem(
    facts: &Facts,
    acceptance: &Acceptance,
    day: Option<&str>,
    refusals: &Refusals,
) -> Option<String> {
    let Acceptance { by, until, .. } = acceptance;
    if !in_force(acceptance, day) {
        return Some(match day {
            Some(day) => format!(
                "expired: {by} accepted it until {until}, and this run is of {day}; mend the regression, agree on it with `gatekeeper baseline update`, or accept it anew"
            ),
            None => format!(
                "whether it has expired is not known: the record says it started `{}`",
                facts.environment.started
            ),
        });
    }
    if acceptance.subjects.is_empty() {
        return (!acceptance.left_out).then(|| {
            format!(
                "`{}` is nothing that gates.yaml has; correct its name or remove it",
                acceptance.case
            )
        });
    }
    let gates: Vec<_> = facts
        .policy
        .gates
        .iter()
        .filter(|gate| covers(acceptance, gate))
        .collect();
    if gates.is_empty() {
        return (!acceptance.left_out).then(|| {
            format!(
                "no gate on `{}` asks for that in another measure; correct it or remove it",
                acceptance.case
            )
        });
    }
    let unneeded = |gate: &&Gate| {
        holds_everywhere(facts, gate)
            && super::rule(facts, gate, refusals).verdict.outcome == Outcome::Pass
    };
    (!acceptance.left_out && gates.iter().all(unneeded)).then(|| {
        format!(
            "unused: what {by} accepted until {until} is not needed any more, as every gate holds without it; remove it"
        )
    })
}

/// Whether a gate that holds here would hold wherever it is judged.
fn holds_everywhere(facts: &Facts, gate: &Gate) -> bool {
    let partial = facts.plan.is_partial(gate.subject.kernel());
    match &gate.rule {
        // Whatever the base took over long ago is no regression beside it, and still one to the baseline.
        Rule::Limit { metric, limit } if metric.facet() == Facet::Times => {
            matches!(limit, Limit::Absolute { .. } | Limit::Anchor { .. })
                || !facts.is_beside_base(&gate.subject, *metric)
        }
        // The simulator adds up otherwise than a GPU.
        Rule::Limit { metric, .. } if metric.facet() == Facet::Correctness => !facts.is_simulated(),
        Rule::Limit { metric, .. } => !(partial && over_shapes(*metric)),
        _ => true,
    }
}

fn failed(acceptance: &Acceptance, reason: String) -> Verdict {
    Verdict::without_figures(
        subject(acceptance),
        format!("acceptance of {}", words::gate(&acceptance.instead)),
        Outcome::Fail,
        reason,
        Some(acceptance.declared.clone()),
    )
}

/// Where it names one, that; else what was written, with `*` for what was not.
fn subject(acceptance: &Acceptance) -> Subject {
    if let [only] = acceptance.subjects.as_slice() {
        return only.clone();
    }
    let (left, shape) = acceptance
        .case
        .split_once('@')
        .unwrap_or((&acceptance.case, "*"));
    let (kernel, variant) = left.split_once('/').unwrap_or((left, "*"));
    Subject::Case(CaseId {
        kernel: kernel.to_owned(),
        variant: variant.to_owned(),
        shape: shape.to_owned(),
    })
}

/// Notes on what head accepts and base did not, or less of it, or not as long. Listed and no failure: the
/// file is the place where a change is accepted, under a name and until a day, and it is reviewed.
pub(super) fn added(base: &[Acceptance], head: &[Acceptance]) -> Vec<Note> {
    let known = |it: &Acceptance| {
        base.iter().any(|was| {
            was.case == it.case
                && was.until >= it.until
                && replaces(&was.instead, &it.instead)
                && strictness(&was.instead, &it.instead) == Strictness::Kept
        })
    };
    let added = head.iter().filter(|it| !known(it));
    added
        .map(|it| Note::Accepts {
            case: it.case.clone(),
            instead: words::gate(&it.instead),
            by: it.by.clone(),
            until: it.until.clone(),
            declared: it.declared.clone(),
        })
        .collect()
}

fn covers(acceptance: &Acceptance, gate: &Gate) -> bool {
    acceptance.subjects.contains(&gate.subject) && replaces(&acceptance.instead, &gate.rule)
}

/// Whether an accepted limit is of the same kind and metric as a gate's own.
fn replaces(accepted: &Rule, own: &Rule) -> bool {
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

/// The gate with the accepted limit in the place of its own.
fn instead(gate: &Gate, acceptance: &Acceptance) -> Gate {
    let rule = match (&acceptance.instead, &gate.rule) {
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

/// The day of the record, by whose date a judgement repeats: `2026-11-21`.
fn day(environment: &Environment) -> Option<&str> {
    let day = environment.started.get(..10)?;
    let is_day = day.char_indices().all(|(at, c)| match at {
        4 | 7 => c == '-',
        _ => c.is_ascii_digit(),
    });
    is_day.then_some(day)
}

/// Days in this form are in the order of their text.
fn in_force(acceptance: &Acceptance, day: Option<&str>) -> bool {
    day.is_some_and(|day| day <= acceptance.until.as_str())
}
