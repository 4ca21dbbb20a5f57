//! Reviews variants that fail and have a fallback: the failure is replaced if the run allows that, and if the other
//! variant was judged and holds.

use crate::index::View;
use model::*;

/// Replaces the failures of variants that have a fallback. Whether the fallback holds is decided by the verdicts as
/// they were before any was replaced.
pub fn review(view: View, verdicts: &mut [Verdict]) {
    let plan = view.plan();
    if !view.policy().allow_fallback {
        return;
    }
    let found: Vec<_> = plan
        .fallbacks
        .iter()
        .filter_map(|fallback| Some((fallback, stand_in(view, verdicts, fallback)?)))
        .collect();
    for (fallback, to) in found {
        for verdict in verdicts.iter_mut() {
            let is_open = matches!(verdict.outcome, Outcome::Fail | Outcome::Inconclusive);
            if is_open && is_gate_of(verdict, &fallback.kernel, &fallback.variant) {
                let own = Box::new(verdict.reason.clone());
                let to = to.to_owned();
                verdict.outcome = Outcome::Replaced;
                verdict.reason = Reason::FellBack { own, to };
            }
        }
    }
}

/// Returns the first fallback in the chain of a failing variant that holds.
fn stand_in<'a>(
    view: View<'_, 'a>,
    verdicts: &[Verdict],
    fallback: &'a Fallback,
) -> Option<&'a str> {
    let (kernel, variant) = (&fallback.kernel, &fallback.variant);
    if !verdicts
        .iter()
        .filter(|verdict| is_gate_of(verdict, kernel, variant))
        .any(|verdict| verdict.outcome == Outcome::Fail)
    {
        return None;
    }
    let plan = view.plan();
    let mut next = Some(fallback);
    // A chain longer than the list of fallbacks must have come back to itself.
    for _ in &plan.fallbacks {
        let to = &next?.to;
        if holds(view, verdicts, fallback, to) {
            return Some(to);
        }
        next = plan.fallback(kernel, to);
    }
    None
}

/// Returns true if the fallback was judged at every shape of the variant that it replaces, and nothing about it failed
/// or is open. If the variant was checked, the fallback must be proven right there.
fn holds(view: View, verdicts: &[Verdict], fallback: &Fallback, to: &str) -> bool {
    let plan = view.plan();
    let fallback_case = |case: &CaseId| CaseId {
        variant: to.to_owned(),
        ..case.clone()
    };
    let gates = || {
        verdicts
            .iter()
            .filter(|verdict| is_gate_of(verdict, &fallback.kernel, to))
    };
    let blocks = |verdict: &Verdict| {
        matches!(
            verdict.outcome,
            Outcome::Fail | Outcome::Environment | Outcome::Inconclusive
        )
    };
    let is_covered = plan
        .cases
        .iter()
        .filter(|case| fallback.is_of(&case.id))
        .all(|case| plan.case(&fallback_case(&case.id)).is_some());
    let is_right_there = verdicts
        .iter()
        .filter(|verdict| {
            verdict.outcome == Outcome::Fail
                && is_gate_of(verdict, &fallback.kernel, &fallback.variant)
        })
        .all(|verdict| match &verdict.subject {
            Subject::Unit(_) => true,
            Subject::Case(case) => view.timeable(&fallback_case(case)).is_ok(),
        });
    let passes = gates().any(|gate| gate.outcome == Outcome::Pass);
    is_covered && is_right_there && passes && !gates().any(blocks)
}

fn is_gate_of(verdict: &Verdict, kernel: &str, variant: &str) -> bool {
    let subject = &verdict.subject;
    matches!(
        verdict.question,
        Question::Gate(_) | Question::UngatedResources
    ) && (subject.kernel(), subject.variant()) == (kernel, variant)
}
