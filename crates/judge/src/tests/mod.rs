//! Tests that every rule fails for its own reason, and that nothing missing looks like a pass.

mod against_base;
mod baselines;
mod cases;
mod conclusion;
mod foreign;
mod index;
mod pairs;
mod properties;
mod records;
mod renames;
mod rivals;

use super::fixture::*;
use super::*;
use records::*;
use std::collections::BTreeSet;

fn ruled(record: &Record) -> Judgement {
    let judgement = judge(record);
    expect_every_failure_in_a_problem(&judgement);
    judgement
}

/// Checks for any judgement that each verdict that did not hold has a problem with its outcome or a worse one, and that
/// no other verdict has a problem.
fn expect_every_failure_in_a_problem(judgement: &Judgement) {
    let blocking = [Outcome::Fail, Outcome::Environment, Outcome::Inconclusive];
    for (at, verdict) in judgement.verdicts.iter().enumerate() {
        let mut of = judgement
            .problems
            .iter()
            .filter(|problem| problem.verdicts.contains(&at) || problem.follows.contains(&at));
        if blocking.contains(&verdict.outcome) {
            assert!(
                of.clone().any(|problem| problem.outcome <= verdict.outcome
                    && problem.subjects.contains(&verdict.subject)),
                "{verdict:?}"
            )
        } else {
            assert_eq!(of.next(), None, "{verdict:?}")
        }
    }
}

fn index(record: &Record) -> Index<'_> {
    Index::new(record)
}

/// Returns the cases that need one more timing process.
fn asked(record: &Record) -> Vec<(CaseId, Timing)> {
    next(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
    )
}

/// Returns the answer for one case.
fn admit(record: &Record, case: &CaseId, stage: Stage) -> Admission {
    let at = record
        .plan
        .cases
        .iter()
        .position(|planned| planned.id == *case);
    let mut answers = super::admit(
        &record.plan,
        &record.environment,
        &record.policy,
        &record.evidence,
        stage,
    );
    assert_eq!(answers.len(), record.plan.cases.len());
    answers.swap_remove(at.expect("a case of the plan"))
}

// These are the limits of the fixture.

fn p50_limit() -> Rule {
    at_most(Metric::P50, 200_000.0)
}

fn p50_change() -> Rule {
    within(Metric::P50, 0.02)
}

fn change_from_base(metric: Metric, change: f64) -> Rule {
    let change = Num(change);
    let limit = Limit::Base { change };
    Rule::Limit { metric, limit }
}

/// Returns the only verdict on a gate.
#[track_caller]
fn verdict_of(judgement: &Judgement, subject: &Subject, rule: Rule) -> Verdict {
    let question = Question::Gate(rule);
    let is_meant = |verdict: &&Verdict| verdict.subject == *subject && verdict.question == question;
    let found: Vec<_> = judgement.verdicts.iter().filter(is_meant).collect();
    assert_eq!(found.len(), 1, "{subject}: {question:?}");
    found[0].clone()
}

#[track_caller]
fn verdict(record: &Record, subject: &Subject, rule: Rule) -> Verdict {
    verdict_of(&ruled(record), subject, rule)
}

/// Returns the comparison of a verdict on a change.
#[track_caller]
fn comparison(reason: &Reason) -> &Comparison {
    match reason {
        Reason::WithinChange(comparison)
        | Reason::BeyondChange(comparison)
        | Reason::Undecided { comparison, .. } => comparison,
        other => panic!("{other:?}"),
    }
}

fn missing_check(case: CaseId, seed: u64) -> Reason {
    Reason::EvidenceMissing(Piece::Check { case, seed })
}

#[test]
fn the_run_by_hand_passes_whole() {
    let judgement = ruled(&record());
    let passed = |verdict: &Verdict| verdict.outcome == Outcome::Pass;
    assert!(judgement.verdicts.iter().all(passed), "{judgement:#?}");
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.verdicts.len(), 44);
    assert_eq!((judgement.wins, judgement.notes), (vec![], vec![]));
}

/// Programs match on the codes, so they must stay distinct and regular.
#[test]
fn every_code_is_unique_and_in_kebab_case() {
    let mut codes: Vec<_> = Reason::codes().map(|code| code.code).collect();
    for code in &codes {
        let mut words = code.split('-');
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
        assert!(words.all(is_word), "{code}");
    }
    let count = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), count);
}
