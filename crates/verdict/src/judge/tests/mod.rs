//! Every rule goes red, for its own reason; nothing missing reads as a pass.

mod accepted;
mod anchors;
mod beside;
mod doubts;
mod foreign;
mod limits;
mod loosened;
mod modes;
mod pairs;
mod properties;
mod rules;
mod simulated;
mod singles;
mod times;
mod unseen;

use super::fixture::*;
use super::*;

fn ruled(record: &Record) -> Judgement {
    judge(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    )
}

/// The answer for one case.
fn admit(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
    case: &CaseId,
    stage: Stage,
) -> Admission {
    let at = plan.cases.iter().position(|other| other.id == *case);
    let mut answers = super::admit(plan, environment, policy, evidence, stage);
    assert_eq!(answers.len(), plan.cases.len());
    answers.swap_remove(at.expect("a case of the plan"))
}

/// The verdict of the one gate on `subject` that reads `gate`.
fn verdict(record: &Record, subject: &Subject, gate: &str) -> Verdict {
    let mut found: Vec<_> = ruled(record)
        .verdicts
        .into_iter()
        .filter(|verdict| verdict.subject == *subject && verdict.gate == gate)
        .collect();
    assert_eq!(found.len(), 1, "{subject}: {gate}");
    found.remove(0)
}

#[track_caller]
fn expect(record: &Record, subject: &Subject, gate: &str, outcome: Outcome, reason: &str) {
    let verdict = verdict(record, subject, gate);
    assert_eq!(
        (verdict.outcome, verdict.reason.as_str()),
        (outcome, reason)
    );
}

/// Subject, gate and reason of all that did not pass.
fn not_passed(record: &Record) -> Vec<String> {
    ruled(record)
        .verdicts
        .iter()
        .filter(|verdict| verdict.outcome != Outcome::Pass)
        .map(|verdict| {
            let Verdict {
                subject,
                gate,
                outcome,
                reason,
                ..
            } = verdict;
            format!("{outcome} {subject} {gate}: {reason}")
        })
        .collect()
}

#[test]
fn the_run_by_hand_passes_whole() {
    let judgement = ruled(&record());
    assert_eq!(not_passed(&record()), [""; 0]);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.verdicts.len(), 44);
    assert_eq!((judgement.wins, judgement.notes), (vec![], vec![]));
}
