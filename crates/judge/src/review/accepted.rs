//! Reviews the acceptances themselves. An acceptance that has expired or that nothing needs is a failure of its own,
//! and so is one that a change adds. How an acceptance lets a gate pass is a rule (`rules/accepted`).

use super::loosened::{Strictness, strictness};
use super::{Comparison, Ended, compare_required};
use crate::agreed::is_over_shapes;
use crate::counterpart::NotRequired;
use crate::index::View;
use crate::rules::accepted::{can_replace, has_limit};
use crate::rules::{self, is_against_base};
use model::*;

/// Returns a verdict on each acceptance that has expired, applies to nothing, or is needed by nothing.
pub fn judge_acceptances(view: View) -> Vec<Verdict> {
    let accepted = view.policy().accepted.iter();
    accepted
        .filter_map(|accepted| {
            Some(Verdict::without_figures(
                subject_of(accepted),
                Question::Acceptance(accepted.allows.clone()),
                Outcome::Fail,
                problem(view, accepted)?,
                Some(accepted.declared.clone()),
            ))
        })
        .collect()
}

fn problem(view: View, acceptance: &Acceptance) -> Option<Reason> {
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
    let gates: Vec<_> = view
        .policy()
        .gates
        .iter()
        .filter(|gate| has_limit(acceptance, gate))
        .collect();
    if gates.is_empty() {
        return Some(Reason::AcceptanceWithoutGate { case: case() });
    }
    let is_unneeded = |gate: &&Gate| {
        holds_everywhere(view, gate)
            && rules::judge_gate(view, gate, &[]).verdict.outcome == Outcome::Pass
    };
    let is_unused = gates.iter().all(is_unneeded);
    is_unused.then_some(Reason::AcceptanceUnused { by, until })
}

/// Returns true if every launch of the cases reported its findings, and none of them has this one.
fn is_gone(view: View, subjects: &[Subject], known: &KnownFinding) -> bool {
    let is_clean = |view: View, id: &CaseId| {
        let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
        !seeds.is_empty()
            && seeds.iter().all(|&seed| {
                let launch = view.simulation(id, seed);
                launch.is_ok_and(|launch| {
                    launch
                        .findings
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

/// Returns true if a gate that holds in this run would hold wherever it is judged.
fn holds_everywhere(view: View, gate: &Gate) -> bool {
    // Another compiler has other baselines, or none.
    if view.environment().toolchain.is_some() {
        return false;
    }
    let is_partial = view.plan().is_partial(gate.subject.kernel());
    match &gate.rule {
        // A slowdown that the base already has is no regression against the base, and still is one against the
        // baseline.
        Rule::Limit { metric, limit } if metric.facet() == Facet::Times => {
            matches!(limit, Limit::Absolute { .. } | Limit::Anchor { .. })
                || !is_against_base(view, &gate.subject, *metric)
        }
        // The simulator adds numbers in another order than a GPU.
        Rule::Limit { metric, .. } if metric.facet() == Facet::Correctness => !view.is_simulated(),
        Rule::Limit { metric, .. } => !(is_partial && is_over_shapes(*metric)),
        _ => true,
    }
}

/// Returns the subject of an acceptance: the one that it names, or else what was written, with `*` for the parts that
/// were not.
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

/// Compares each acceptance of head with what the base accepts. If it allows more than that, or for longer, then the
/// change accepts what it makes worse. `base_plan` has head's names, and an acceptance of the base was written with the
/// base's names.
pub fn added(base: &[Acceptance], base_plan: &Plan, head: &[Acceptance]) -> Vec<Comparison> {
    let allows_as_much = |was: &Allowance, ours: &Allowance| match (was, ours) {
        (Allowance::Limit(was), Allowance::Limit(ours)) => {
            can_replace(was, ours) && strictness(was, ours) == Strictness::Kept
        }
        (was, ours) => was == ours,
    };
    let is_wide_enough = |was: &&Acceptance, ours: &Acceptance| {
        was.until >= ours.until && allows_as_much(&was.allows, &ours.allows)
    };
    let is_known = |acceptance: &Acceptance| {
        let wide: Vec<_> = base
            .iter()
            .filter(|was| is_wide_enough(was, acceptance))
            .collect();
        let has_words = wide.iter().any(|was| was.case == acceptance.case);
        let is_new = |subject: &Subject| match subject {
            Subject::Unit(id) => base_plan.unit(id).is_none(),
            Subject::Case(id) => base_plan.case(id).is_none(),
        };
        // If the acceptance names cases that are new, the base knows none of them, and the words are compared instead.
        let is_accepted = |subject: &Subject| {
            let is_named = wide.iter().any(|was| was.subjects.contains(subject));
            is_named || has_words && is_new(subject)
        };
        acceptance.subjects.iter().all(is_accepted)
    };
    compare_required(
        head,
        // The acceptance names a case that a filter left out, or nothing at all. The latter has a verdict of its own.
        |acceptance| {
            if acceptance.subjects.is_empty() {
                Err(NotRequired::LeftOut)
            } else {
                Ok(subject_of(acceptance))
            }
        },
        |acceptance, subject| {
            let how = (!is_known(acceptance)).then(|| Loosened::Accepts {
                allows: acceptance.allows.clone(),
                by: acceptance.by.clone(),
                until: acceptance.until.clone(),
            });
            Comparison {
                subject,
                demand: BaseDemand::NoAcceptance,
                declared: Some(acceptance.declared.clone()),
                ended: Ended::held_unless(how),
            }
        },
    )
}
