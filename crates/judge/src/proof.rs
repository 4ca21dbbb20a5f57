//! Floor 3: whether a case is right. Worked out once for each case and handed down, as its times rest on it.

use super::lookup::{Found, inconclusive, ruling};
use super::review::accepted;
use super::rules::{Refusals, correctness, simulation};
use super::value::Values;
use model::*;

/// Built for this run's device, right in every respect that is checked, for every seed, and within at least
/// one absolute limit on its error, where it has an output. Nothing is claimed about a case that another program ran.
pub(super) fn prove(values: &Values, id: &CaseId) -> Found<()> {
    let lookup = &values.lookup;
    let case = lookup.case(id)?;
    if lookup.ran_elsewhere(id) {
        return Ok(());
    }
    lookup.runnable(id)?;
    let subject = Subject::Case(id.clone());
    let has_output = case.has_output();
    if has_output {
        correctness::check_finite(lookup, &subject)?;
        correctness::check_written(lookup, &subject)?;
    }
    correctness::check_inputs(lookup, &subject)?;
    if lookup.is_simulated() {
        simulation::check_findings(values, &subject)?;
    } else if has_output && case.determinism == Determinism::BitExact {
        correctness::check_deterministic(lookup, &subject)?;
    }
    let gates = lookup.policy.gates.iter();
    let mut limits = 0;
    for gate in gates.filter(|gate| gate.subject == subject && bounds_error(&gate.rule)) {
        let verdict = accepted::apply(values, gate, &Refusals::new()).verdict;
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
