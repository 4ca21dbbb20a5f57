//! Tests times of another program: they are judged alone, and prove nothing else.

use super::*;

/// Returns a record with times of every case, and nothing else.
fn foreign() -> Record {
    let mut record = record();
    record.environment.compiler = Seen::NotRun(NotRun::OtherProgram {
        program: "NVBench 0.1.0".into(),
    });
    for case in &mut record.plan.cases {
        case.reference = Reference::Elsewhere;
    }
    record
        .evidence
        .retain(|piece| matches!(piece, Evidence::Time { .. }));
    record
}

#[test]
fn only_limits_on_times_alone_can_hold() {
    let judgement = ruled(&foreign());
    for verdict in &judgement.verdicts {
        let is_absolute = verdict.question == Question::Gate(p50_limit());
        assert_eq!(
            verdict.outcome == Outcome::Pass,
            is_absolute,
            "{verdict:#?}"
        );
    }
    assert_eq!(judgement.conclusion, Conclusion::Inconclusive);
}

/// Baselines and records of gatekeeper's own have another key than any such times.
#[test]
fn they_are_never_compared_with_our_own() {
    let found = verdict(&foreign(), &case("fast", "small"), p50_change());
    assert_eq!(found.outcome, Outcome::Inconclusive);
    let Reason::OtherKey { differences, .. } = &found.reason else {
        panic!("{:?}", found.reason)
    };
    let fields: Vec<_> = differences
        .iter()
        .map(|difference| difference.field)
        .collect();
    assert_eq!(fields, [KeyField::Compiler, KeyField::Flags]);
    let times = |base: &Record, head: &Record, loosening| {
        let judgement = compare(base, head, loosening);
        let of_case = |case: &Case| {
            let subject = Subject::Case(case.id.clone());
            verdict_of(&judgement, &subject, p50_change()).outcome
        };
        head.plan.cases.iter().map(of_case).collect::<Vec<_>>()
    };
    for (base, head) in [(record(), foreign()), (foreign(), record())] {
        let outcomes = times(&base, &head, Loosening::Allowed);
        assert_eq!(outcomes, [Outcome::Inconclusive; 4]);
    }
    let outcomes = times(&foreign(), &foreign(), Loosening::Fails);
    assert_eq!(outcomes, [Outcome::Pass; 4]);
}

/// As one of a kernel that broke in a benchmark, which then skips it.
#[test]
fn cases_that_head_alone_passes_over_are_not_skipped() {
    let why = || NotRun::PassedOver {
        said: Some("an illegal memory access".into()),
    };
    let skipped = || {
        let mut record = foreign();
        for piece in &mut record.evidence {
            if let Evidence::Time {
                case,
                process: 1,
                facts,
            } = piece
                && *case == case_id("fast", "small")
            {
                *facts = Seen::NotRun(why());
            }
        }
        record
    };
    let judge_against = |base: &Record| {
        let judgement = compare(base, &skipped(), Loosening::Fails);
        verdict_of(&judgement, &case("fast", "small"), p50_change())
    };
    let found = judge_against(&foreign());
    let why = Box::new(Reason::NotRun(why()));
    assert_eq!(
        (found.outcome, found.reason),
        (Outcome::Inconclusive, Reason::HeadPassedOver { why })
    );
    assert_ne!(judge_against(&skipped()).outcome, Outcome::Pass);
}

/// Only what was read in another format is; no file can say it of itself.
#[test]
fn no_stored_record_is_foreign() {
    assert!(serde_json::to_value(foreign()).is_err());
    let stored = serde_json::to_value(record()).unwrap();
    for forged in ["elsewhere", "Elsewhere"] {
        let mut said = stored.clone();
        said["plan"]["cases"][0]["reference"] = forged.into();
        assert!(serde_json::from_value::<Record>(said).is_err());
        let mut said = stored.clone();
        said["plan"]["cases"][0]["reference"] = serde_json::json!({ forged: null });
        assert!(serde_json::from_value::<Record>(said).is_err());
    }
}
