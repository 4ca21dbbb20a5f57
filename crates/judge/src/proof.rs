//! Floor 3: whether a case is right. Worked out once for each case and handed down, as its times rest on it.

use super::index::View;
use super::lookup::{Judged, inconclusive, ruling};
use super::review::accepted;
use super::rules::{Refusals, correctness, simulation};
use model::*;

/// Built for this run's device, right in every respect that is checked, for every seed, and within at least
/// one absolute limit on its error, where it has an output. Nothing is claimed about a case that another program ran.
pub(super) fn prove(view: View, id: &CaseId) -> Judged<()> {
    let case = view.case(id)?;
    if view.ran_elsewhere(id) {
        return Ok(());
    }
    view.runnable(id)?;
    let subject = Subject::Case(id.clone());
    let has_output = case.has_output();
    if has_output {
        correctness::check_finite(view, &subject)?;
        correctness::check_written(view, &subject)?;
    }
    correctness::check_inputs(view, &subject)?;
    if view.is_simulated() {
        simulation::check_findings(view, &subject)?;
    } else if has_output && case.determinism == Determinism::BitExact {
        correctness::check_deterministic(view, &subject)?;
    }
    let gates = view.policy().gates.iter();
    let mut limits = 0;
    for gate in gates.filter(|gate| gate.subject == subject && bounds_error(&gate.rule)) {
        let verdict = accepted::apply(view, gate, &Refusals::new()).verdict;
        if verdict.outcome != Outcome::Pass {
            return ruling(verdict.outcome, verdict.reason);
        }
        limits += 1;
    }
    match limits {
        0 if has_output => inconclusive(Reason::NoErrorLimit),
        _ => Ok(()),
    }
}

fn bounds_error(rule: &Rule) -> bool {
    match rule {
        Rule::Limit {
            metric,
            limit: Limit::Absolute { .. },
        } => metric.facet() == Facet::Correctness,
        _ => false,
    }
}
