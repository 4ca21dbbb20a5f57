//! Variants that are kept to fail.

use super::*;

const BY: [GateName; 2] = [GateName::Metric(Metric::MaxErr), GateName::Deterministic];

fn break_error(record: &mut Record, shape: &str) {
    recheck(record, &case_id("fast", shape), |_, facts| {
        facts.error.max_err = Num(0.3);
    });
}

fn on_failure(judgement: &Judgement) -> Vec<&Verdict> {
    judgement
        .verdicts
        .iter()
        .filter(|verdict| matches!(verdict.question, Question::Failure(_)))
        .collect()
}

/// The only verdict on whether it fails as it is meant to.
#[track_caller]
fn expect_failure(record: &Record, outcome: Outcome, reason: Reason) -> Judgement {
    let judgement = ruled(record);
    let found = on_failure(&judgement);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].outcome, &found[0].reason), (outcome, &reason));
    assert_eq!(found[0].subject, case("fast", "*"));
    assert_eq!(found[0].question, Question::Failure(BY.to_vec()));
    assert_eq!(found[0].declared.as_deref(), Some("gates.yaml:9"));
    judgement
}

#[test]
fn one_gate_at_one_shape_is_enough_and_never_a_pass() {
    let mut record = record_kept_to_fail(&BY);
    break_error(&mut record, "small");
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(on_failure(&judgement), Vec::<&Verdict>::new());
    let broken = verdict_of(&judgement, &case("fast", "small"), err_limit());
    assert_eq!(broken.outcome, Outcome::Expected);
    let Reason::ExpectedFailure { own } = &broken.reason else {
        panic!("{:?}", broken.reason);
    };
    assert_eq!(own.code(), "beyond-limit");
    let counts = [Outcome::Expected, Outcome::Fail].map(|outcome| judgement.count(outcome));
    assert_eq!(counts, [1, 0]);
    // A gate that held, held.
    let held = verdict_of(&judgement, &case("fast", "large"), err_limit());
    assert_eq!(held.outcome, Outcome::Pass);
}

#[test]
fn a_variant_kept_to_fail_that_holds_is_red() {
    let judgement = expect_failure(
        &record_kept_to_fail(&BY),
        Outcome::Fail,
        Reason::ExpectedFailurePassed,
    );
    assert_eq!(judgement.conclusion, Conclusion::Fail);
}

/// Though it also fails as it is meant to.
#[test]
fn another_gate_that_fails_is_red() {
    let mut record = record_kept_to_fail(&BY);
    break_error(&mut record, "small");
    recheck(&mut record, &case_id("fast", "large"), |_, facts| {
        facts.error.non_finite = 1;
    });
    let reason = Reason::FailedOtherwise {
        on: Box::new(case("fast", "large")),
        failed: vec![Rule::Finite],
    };
    let judgement = expect_failure(&record, Outcome::Fail, reason);
    let broken = verdict_of(&judgement, &case("fast", "small"), err_limit());
    assert_eq!(broken.outcome, Outcome::Fail);
}

#[test]
fn a_build_that_fails_is_no_failure_of_the_kind() {
    let mut record = record_kept_to_fail(&BY);
    for piece in &mut record.evidence {
        if let Evidence::Build { unit, facts } = piece
            && unit.variant == "fast"
        {
            *facts = Seen::Fault(Fault::new(FaultKind::Compile, "error: expected a ;"));
        }
    }
    let reason = Reason::FailedOtherwise {
        on: Box::new(unit("fast")),
        failed: vec![Rule::Built, Rule::HasEffect, registers_limit()],
    };
    expect_failure(&record, Outcome::Fail, reason);
}

/// A macro that removes nothing makes no wrong kernel.
#[test]
fn the_code_of_a_sibling_is_red() {
    let mut record = record_kept_to_fail(&BY);
    break_error(&mut record, "small");
    rebuild(&mut record, "fast", |facts| {
        facts.identity = build_facts("direct").identity;
    });
    let reason = Reason::FailedOtherwise {
        on: Box::new(unit("fast")),
        failed: vec![Rule::HasEffect],
    };
    let judgement = expect_failure(&record, Outcome::Fail, reason);
    let same = verdict_of(&judgement, &unit("fast"), Rule::HasEffect);
    assert_eq!(same.reason.code(), "same-code");
}

#[test]
fn an_expected_failure_that_did_not_run_is_open() {
    let mut record = record_kept_to_fail(&BY);
    record.environment.device = no_gpu();
    record
        .evidence
        .retain(|piece| matches!(piece, Evidence::Build { .. }));
    let judgement = expect_failure(&record, Outcome::Skipped, Reason::ExpectedFailureOpen);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(judgement.count(Outcome::Expected), 0);

    let mut record = record_kept_to_fail(&BY);
    let is_check =
        |piece: &Evidence| matches!(piece, Evidence::Check { case, .. } if case.variant == "fast");
    record.evidence.retain(|piece| !is_check(piece));
    let judgement = expect_failure(&record, Outcome::Inconclusive, Reason::ExpectedFailureOpen);
    assert_eq!(judgement.conclusion, Conclusion::Inconclusive);
}

/// It may be right at those that are left.
#[test]
fn a_filter_that_leaves_out_shapes_leaves_it_open() {
    let mut record = record_kept_to_fail(&BY);
    record.plan.expected[0].left_out = true;
    expect_failure(&record, Outcome::Skipped, Reason::ExpectedFailureOpen);
    break_error(&mut record, "small");
    assert_eq!(on_failure(&ruled(&record)), Vec::<&Verdict>::new());
}

#[test]
fn it_gives_no_baselines_and_is_never_timed() {
    let mut record = record_kept_to_fail(&BY);
    for (broken, says) in [(true, "broken"), (false, "right")] {
        if broken {
            break_error(&mut record, "small");
        }
        let (baselines, refused) = acceptable(&record, "seal");
        let of = |variant: &str| {
            baselines
                .iter()
                .filter(|baseline| baseline.variant == variant)
                .count()
        };
        assert_eq!((of("direct"), of("fast")), (3, 0), "{says}");
        assert_eq!(refused, Vec::new(), "{says}");
        assert!(asked(&record).iter().all(|(id, _)| id.variant == "direct"));
        record = record_kept_to_fail(&BY);
    }
}

mod against_a_base {
    use super::*;

    fn against(base: &Record, head: &Record, loosening: Loosening) -> Judgement {
        compare(base, head, loosening)
    }

    fn failing(gates: &[GateName]) -> Record {
        let mut record = record_kept_to_fail(gates);
        break_error(&mut record, "small");
        record
    }

    #[test]
    fn a_variant_that_held_and_is_now_kept_to_fail_is_loosened_once() {
        let judgement = against(&record(), &failing(&BY), Loosening::Fails);
        let demand = BaseDemand::NoFailure(Vec::new());
        let how = Loosened::ExpectedToFail(BY.to_vec());
        assert_eq!(loosened(&judgement), [(case("fast", "*"), demand, how)]);
        assert_eq!(judgement.conclusion, Conclusion::Fail);
    }

    #[test]
    fn allowed_it_is_listed_and_passes() {
        let judgement = against(&record(), &failing(&BY), Loosening::Allowed);
        let listed = judgement
            .verdicts
            .iter()
            .find(|verdict| matches!(verdict.question, Question::NoLooser(_)));
        let listed = listed.expect("a verdict");
        assert_eq!(listed.outcome, Outcome::Pass);
        assert_eq!(listed.reason.code(), "loosening-allowed");
        assert_eq!(judgement.conclusion, Conclusion::Pass);
    }

    #[test]
    fn more_gates_to_fail_are_looser_and_fewer_are_not() {
        let error = GateName::Metric(Metric::MaxErr);
        let (one, two) = (failing(&[error]), failing(&BY));
        let judgement = against(&one, &two, Loosening::Fails);
        let demand = BaseDemand::NoFailure(vec![error]);
        let how = Loosened::ExpectedToFail(BY.to_vec());
        assert_eq!(loosened(&judgement), [(case("fast", "*"), demand, how)]);
        assert_eq!(loosened(&against(&two, &one, Loosening::Fails)), []);
        // Nor is what has to hold from now on.
        assert_eq!(loosened(&against(&two, &record(), Loosening::Fails)), []);
    }

    #[test]
    fn a_new_variant_loosens_nothing() {
        let mut base = record();
        base.plan.cases.retain(|case| case.id.variant != "fast");
        base.plan.units.retain(|unit| unit.id.variant != "fast");
        base.policy
            .gates
            .retain(|gate| gate.subject.variant() != "fast");
        assert_eq!(
            loosened(&against(&base, &failing(&BY), Loosening::Fails)),
            []
        );
    }
}
