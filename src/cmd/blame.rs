//! `run --blame`: runs what failed again, with one more part of the compiler exchanged each time, and keeps what the gates
//! say. The judge names the part.

use super::remark;
use crate::compilers::Step;
use model::{Evidence, Exchange, GateAnswer, Outcome, Question, Subject, Verdict};
use std::collections::BTreeSet;
use system::error::Result;

/// Verdicts of a run with another compiler of head, of these cases alone.
pub type Rerun<'a> = &'a dyn Fn(&Step, Vec<String>) -> Result<Vec<Verdict>>;

/// Answers of the gates that failed, after each step.
///
/// # Errors
/// Those of a run.
pub fn exchange_parts(steps: &[Step], verdicts: &[Verdict], rerun: Rerun) -> Result<Vec<Evidence>> {
    let failed: Vec<&Verdict> = verdicts.iter().filter(|it| is_failed(it)).collect();
    let filters: BTreeSet<String> = failed.iter().map(|it| filter(&it.subject)).collect();
    let mut exchanges = Vec::new();
    for (at, Step { change, .. }) in steps.iter().enumerate() {
        let mut answers = Vec::new();
        // The last step gives head.
        if let (Some(step), true) = (steps.get(at), at + 1 < steps.len()) {
            let [from, to] = &change.versions;
            remark(&format!("to blame a part: {} {from} -> {to}", change.part));
            let verdicts = rerun(step, filters.iter().cloned().collect())?;
            let is_asked = |it: &&Verdict| failed.iter().any(|failed| is_same(it, failed));
            answers.extend(verdicts.iter().filter(is_asked).filter_map(answer));
        }
        let change = change.clone();
        exchanges.push(Evidence::Exchange(Exchange { change, answers }));
    }
    Ok(exchanges)
}

fn is_failed(verdict: &Verdict) -> bool {
    verdict.outcome == Outcome::Fail && matches!(verdict.question, Question::Gate(_))
}

fn is_same(a: &Verdict, b: &Verdict) -> bool {
    (&a.subject, &a.question) == (&b.subject, &b.question)
}

fn answer(verdict: &Verdict) -> Option<GateAnswer> {
    match &verdict.question {
        Question::Gate(rule) => Some(GateAnswer {
            subject: verdict.subject.clone(),
            rule: rule.clone(),
            outcome: verdict.outcome,
        }),
        _ => None,
    }
}

fn filter(subject: &Subject) -> String {
    match subject {
        Subject::Case(id) => id.to_string(),
        Subject::Unit(id) => format!("{}/{}", id.kernel, id.variant),
    }
}
