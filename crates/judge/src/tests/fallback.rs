//! A variant that fails falls back on another only where that is allowed, and the other one was judged and holds.

use super::*;

fn allowed(mut record: Record) -> Record {
    record.plan.fallbacks.push(Fallback {
        kernel: "k".into(),
        variant: "fast".into(),
        to: "direct".into(),
        declared: "gates.yaml:9".into(),
    });
    record.policy.allow_fallback = true;
    record
}

fn broken(variant: &str, shape: &str) -> Record {
    let mut record = allowed(record());
    break_error(&mut record, variant, shape);
    record
}

fn break_error(record: &mut Record, variant: &str, shape: &str) {
    recheck(record, &case_id(variant, shape), |_, facts| {
        facts.error.max_err = Num(0.3);
    });
}

fn on_fast(record: &Record) -> (Judgement, Verdict) {
    let judgement = ruled(record);
    let verdict = verdict_of(&judgement, &case("fast", "small"), err_limit());
    (judgement, verdict)
}

#[test]
fn the_other_stands_in_and_nothing_of_it_is_a_pass() {
    let (judgement, verdict) = on_fast(&broken("fast", "small"));
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    assert_eq!(verdict.outcome, Outcome::Replaced);
    let Reason::FellBack { own, to } = &verdict.reason else {
        panic!("{:?}", verdict.reason);
    };
    assert_eq!((own.code(), to.as_str()), ("beyond-limit", "direct"));
    // The limit, and the one against the baseline; the times were not taken.
    let counts = [Outcome::Replaced, Outcome::Skipped, Outcome::Fail];
    assert_eq!(counts.map(|outcome| judgement.count(outcome)), [2, 2, 0]);
}

#[test]
fn off_by_default() {
    let mut record = broken("fast", "small");
    record.policy.allow_fallback = false;
    let (judgement, verdict) = on_fast(&record);
    assert_eq!(verdict.outcome, Outcome::Fail);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
}

#[test]
fn does_not_fall_back_on_a_variant_that_fails_or_is_open() {
    let mut failed = broken("fast", "small");
    break_error(&mut failed, "direct", "large");
    let mut slower = broken("fast", "small");
    slow(&mut slower, &case_id("direct", "small"), 103_000);
    let mut open = broken("fast", "small");
    let of = case_id("direct", "large");
    let is_check = |piece: &Evidence| matches!(piece, Evidence::Check { case, .. } if *case == of);
    open.evidence.retain(|piece| !is_check(piece));
    for record in [failed, slower, open] {
        let (judgement, verdict) = on_fast(&record);
        assert_eq!(verdict.outcome, Outcome::Fail);
        assert_eq!(judgement.count(Outcome::Replaced), 0);
        assert_eq!(judgement.conclusion, Conclusion::Fail);
    }
}

/// Skipped, or left out by a filter, though nothing of it is broken.
#[test]
fn does_not_fall_back_on_a_variant_without_checks() {
    let mut skipped = broken("fast", "small");
    let of = case_id("direct", "small");
    for piece in &mut skipped.evidence {
        if let Evidence::Check { case, facts, .. } = piece
            && *case == of
        {
            *facts = Seen::NotRun(NotRun::EarlierStage);
        }
    }
    let mut left_out = broken("fast", "small");
    left_out.plan.cases.retain(|case| case.id != of);
    left_out
        .policy
        .gates
        .retain(|gate| gate.subject != case("direct", "small"));
    for record in [skipped, left_out] {
        let (_, verdict) = on_fast(&record);
        assert_eq!(verdict.outcome, Outcome::Fail);
    }
}

/// Without a GPU resources are all that is judged, of both.
#[test]
fn a_fallback_for_resources_holds_its_own_resource_gates() {
    let mut record = allowed(record_without_gpu());
    rebuild(&mut record, "fast", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 129;
    });
    let judgement = ruled(&record);
    let registers = verdict_of(&judgement, &unit("fast"), registers_limit());
    assert_eq!(registers.outcome, Outcome::Replaced);
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    rebuild(&mut record, "direct", |facts| {
        facts.entries[0].resources.as_mut().unwrap().registers = 129;
    });
    assert_eq!(ruled(&record).count(Outcome::Replaced), 0);
}

/// The next down the line, where the first fails too; both then fall back on it.
#[test]
fn a_line_of_fallbacks_ends_at_the_first_that_holds() {
    let mut record = broken("fast", "small");
    let renamed = |id: &CaseId| CaseId {
        variant: "plain".into(),
        ..id.clone()
    };
    let cases = record.plan.cases.clone();
    let plain = cases
        .into_iter()
        .filter(|case| case.id.variant == "direct")
        .map(|case| Case {
            id: renamed(&case.id),
            timed: false,
            ..case
        });
    record.plan.cases.extend(plain);
    let plain = record
        .policy
        .gates
        .clone()
        .into_iter()
        .filter_map(|gate| match &gate.subject {
            Subject::Case(id) if id.variant == "direct" && gate.rule == err_limit() => Some(Gate {
                subject: Subject::Case(renamed(id)),
                ..gate
            }),
            _ => None,
        });
    record.policy.gates.extend(plain);
    let mut plain = record.plan.units[0].clone();
    plain.id.variant = "plain".into();
    record.plan.units.push(plain);
    let plain = record
        .evidence
        .clone()
        .into_iter()
        .filter_map(|piece| match piece {
            Evidence::Build { unit, facts } if unit.variant == "direct" => {
                let unit = UnitId {
                    variant: "plain".into(),
                    ..unit
                };
                Some(Evidence::Build { unit, facts })
            }
            Evidence::Check {
                case,
                arch,
                seed,
                facts,
            } if case.variant == "direct" => Some(Evidence::Check {
                case: renamed(&case),
                arch,
                seed,
                facts,
            }),
            _ => None,
        });
    record.evidence.extend(plain);
    record.plan.fallbacks.push(Fallback {
        kernel: "k".into(),
        variant: "direct".into(),
        to: "plain".into(),
        declared: "gates.yaml:10".into(),
    });
    break_error(&mut record, "direct", "large");
    let judgement = ruled(&record);
    for of in [case("fast", "small"), case("direct", "large")] {
        let verdict = verdict_of(&judgement, &of, err_limit());
        assert_eq!(verdict.outcome, Outcome::Replaced, "{:?}", verdict.reason);
        let Reason::FellBack { to, .. } = &verdict.reason else {
            panic!("{:?}", verdict.reason);
        };
        assert_eq!(to, "plain");
    }
    assert_eq!(judgement.conclusion, Conclusion::Pass);
    break_error(&mut record, "plain", "small");
    assert_eq!(ruled(&record).count(Outcome::Replaced), 0);
}

#[test]
fn a_fallback_that_a_change_adds_is_loosened() {
    let judgement = compare(&record(), &allowed(record()), Loosening::Fails);
    let how = Loosened::FallsBack("direct".into());
    let demand = BaseDemand::NoFallback(None);
    assert_eq!(loosened(&judgement), [(case("fast", "*"), demand, how)]);
    assert_eq!(judgement.conclusion, Conclusion::Fail);
    let same = compare(&allowed(record()), &allowed(record()), Loosening::Fails);
    assert_eq!(loosened(&same), []);
    let removed = compare(&allowed(record()), &record(), Loosening::Fails);
    assert_eq!(loosened(&removed), []);
}
