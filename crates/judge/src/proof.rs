//! Floor 4: decides by the rules whether a case is right. This is worked out once for each case and kept in the index,
//! because its times rest on it. An index is complete only with its proofs, so the functions that make one for a
//! question are here.

use super::index::{Index, Refusals, View};
use super::not_passed::{OrNotPassed, inconclusive, ruling};
use super::rules::{correctness, findings, judge_gate};
use model::*;
use std::collections::{BTreeSet, HashMap};

impl<'a> Index<'a> {
    /// Indexes a record, with its base where it was run against one.
    pub fn new(record: &'a Record) -> Self {
        let Record {
            plan,
            environment,
            policy,
            evidence,
            ..
        } = record;
        Self::for_run(plan, environment, policy, evidence)
    }

    /// Indexes a record, and the one that it is compared with, if it is.
    pub fn against(base: Option<&'a Record>, head: &'a Record) -> Self {
        match base {
            Some(base) => Self::from_two(
                &head.policy,
                Refusals::new(),
                [base, head],
                Loosening::Fails,
            ),
            None => Self::new(head),
        }
    }

    /// Returns why a case is wrong, if a gate on what it computes failed.
    pub fn failed_proof(&self, id: &'a CaseId) -> Option<&Reason> {
        std::iter::once(None)
            .chain(self.architectures.iter().copied().map(Some))
            .filter_map(|arch| self.proofs.get(&(arch, id))?.as_ref().err())
            .find(|why| why.outcome == Outcome::Fail)
            .map(|why| &why.reason)
    }

    /// Indexes a run as far as it has come.
    pub(super) fn for_run(
        plan: &'a Plan,
        environment: &'a Environment,
        policy: &'a Policy,
        evidence: &'a [Evidence],
    ) -> Self {
        Self::file_run(plan, environment, policy, evidence).prove_cases()
    }

    /// Indexes two records. The gates may differ from head's own.
    pub(super) fn from_two(
        policy: &'a Policy,
        refusals: Refusals,
        records: [&'a Record; 2],
        loosening: Loosening,
    ) -> Self {
        Self::file_two(policy, refusals, records, loosening).prove_cases()
    }

    fn prove_cases(mut self) -> Self {
        let head = self.head();
        // Each architecture of a case is proven by itself, so the proofs are filed by architecture.
        let mut proofs = proofs_for(head);
        if head.is_simulated() {
            let all: BTreeSet<Arch> = head.plan().units.iter().map(|unit| unit.id.arch).collect();
            // If there is only one architecture, nothing is left to prove.
            if all.len() > 1 {
                for arch in &all {
                    proofs.extend(proofs_for(head.at(*arch)));
                }
                self.architectures = all.into_iter().collect();
            }
        }
        self.proofs = proofs;
        self
    }
}

fn proofs_for<'a>(view: View<'_, 'a>) -> HashMap<(Option<Arch>, &'a CaseId), OrNotPassed<()>> {
    view.plan()
        .cases
        .iter()
        .map(|case| &case.id)
        .map(|id| ((view.arch, id), prove(view, id)))
        .collect()
}

/// Proves that a case is right: it is built for this run's device, holds every check of its outputs for every seed, and
/// stays within at least one absolute limit on its error if it has an output. Nothing is claimed about a case that
/// another program ran.
fn prove(view: View, id: &CaseId) -> OrNotPassed<()> {
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
        findings::check_findings(view, &subject)?;
    } else if has_output && case.determinism == Determinism::BitExact {
        correctness::check_deterministic(view, &subject)?;
    }
    let gates = view.gates_of(&subject).iter();
    let mut limits = 0;
    for gate in gates.filter(|gate| bounds_error(&gate.rule)) {
        let verdict = judge_gate(view, gate, &view.policy().accepted).verdict;
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

/// Returns true if a gate is an absolute limit on the error of outputs. A case with an output needs at least one of them
/// to be shown to be right.
pub fn bounds_error(rule: &Rule) -> bool {
    match rule {
        Rule::Limit {
            metric,
            limit: Limit::Absolute { .. },
        } => metric.facet() == Facet::Correctness,
        _ => false,
    }
}
