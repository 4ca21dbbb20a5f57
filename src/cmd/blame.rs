//! `run --blame`: runs what failed again, with one more part of the compiler exchanged each time, and keeps what the gates
//! say. The judge names the part.

use super::remark;
use crate::compilers::CompilerStep;
use judge::blame::{answer, blameable};
use model::{BlamedGate, Evidence, Exchange, GateAnswer, Outcome, Subject, Verdict};
use std::collections::BTreeSet;
use system::error::Result;

/// Runs these cases again with another compiler of head, and returns the verdicts.
pub type Rerun<'a> = &'a dyn Fn(&CompilerStep, Vec<String>) -> Result<Vec<Verdict>>;

/// Returns the answers of the gates that failed, after each step.
///
/// # Errors
/// Returns the errors of a run.
pub fn exchange_parts(
    steps: &[CompilerStep],
    verdicts: &[Verdict],
    rerun: Rerun,
) -> Result<Vec<Evidence>> {
    let failed: Vec<BlamedGate> = verdicts
        .iter()
        .filter(|verdict| verdict.outcome == Outcome::Fail)
        .flat_map(blameable)
        .collect();
    let filters: BTreeSet<String> = failed
        .iter()
        .map(|verdict| filter(&verdict.subject))
        .collect();
    let mut exchanges = Vec::new();
    for (at, CompilerStep { change, .. }) in steps.iter().enumerate() {
        let mut answers = Vec::new();
        // The compiler after the last step is head's.
        if let (Some(step), true) = (steps.get(at), at + 1 < steps.len()) {
            let [from, to] = &change.versions;
            remark(&format!("to blame a part: {} {from} -> {to}", change.part));
            let verdicts = rerun(step, filters.iter().cloned().collect())?;
            answers.extend(failed.iter().filter_map(|gate| {
                Some(GateAnswer {
                    subject: gate.subject.clone(),
                    rule: gate.rule.clone(),
                    verdict: gate.verdict,
                    outcome: answer(gate, &verdicts)?,
                })
            }));
        }
        let change = change.clone();
        exchanges.push(Evidence::Exchange(Exchange { change, answers }));
    }
    Ok(exchanges)
}

fn filter(subject: &Subject) -> String {
    match subject {
        Subject::Case(id) => id.to_string(),
        Subject::Unit(id) => format!("{}/{}", id.kernel, id.variant),
    }
}
