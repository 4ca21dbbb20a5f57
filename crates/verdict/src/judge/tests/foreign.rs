//! Times of another program: they are judged alone, and prove nothing else.

use super::*;

/// Times of every case, and nothing beside them.
fn foreign() -> Record {
    let mut record = record();
    record.environment.timed_by = Some("NVBench 0.1.0".into());
    record.environment.compiler = Seen::NotRun {
        reason: "NVBench does not say".into(),
    };
    record
        .evidence
        .retain(|piece| matches!(piece, Evidence::Time { .. }));
    record
}

#[test]
fn only_limits_on_times_alone_can_hold() {
    let judgement = ruled(&foreign());
    for verdict in &judgement.verdicts {
        let absolute = verdict.gate == "p50 <= 200 us";
        assert_eq!(
            verdict.outcome == Outcome::Pass,
            absolute,
            "{} {}: {}",
            verdict.subject,
            verdict.gate,
            verdict.reason
        );
        assert!(absolute || !verdict.reason.is_empty());
    }
    assert_eq!(judgement.conclusion, Conclusion::Inconclusive);
}

/// Baselines and records of gatekeeper's own have another key than any such times.
#[test]
fn they_are_never_compared_with_our_own() {
    let case = case("fast", "small");
    let limit = "p50 +2%";
    let found = verdict(&foreign(), &case, limit);
    assert_eq!(found.outcome, Outcome::Inconclusive);
    assert!(
        found
            .reason
            .starts_with("the baseline holds under another key (compiler"),
        "{}",
        found.reason
    );
    for (base, head) in [(record(), foreign()), (foreign(), record())] {
        let judgement = compare(&base, &head, Loosening::Allowed);
        let times = judgement
            .verdicts
            .iter()
            .filter(|verdict| verdict.gate == limit);
        for verdict in times {
            assert_eq!(verdict.outcome, Outcome::Inconclusive, "{}", verdict.reason);
        }
    }
    let judgement = compare(&foreign(), &foreign(), Loosening::Fails);
    let times = |outcome| {
        let mut verdicts = judgement.verdicts.iter();
        verdicts.all(|verdict| verdict.gate != limit || verdict.outcome == outcome)
    };
    assert!(times(Outcome::Pass));
}

/// As one of a kernel that broke in a benchmark, which then skips it.
#[test]
fn what_the_base_has_and_the_head_passes_over_is_not_skipped() {
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
                *facts = Seen::NotRun {
                    reason: "an illegal memory access".into(),
                };
            }
        }
        record
    };
    let of = |base: &Record| {
        let judgement = compare(base, &skipped(), Loosening::Fails);
        let mut verdicts = judgement.verdicts.into_iter();
        let found = verdicts
            .find(|it| it.gate == "p50 +2%" && it.subject == case("fast", "small"))
            .unwrap();
        (found.outcome, found.reason)
    };
    assert_eq!(
        of(&foreign()),
        (
            Outcome::Inconclusive,
            "the base was measured, and this was not: an illegal memory access".to_owned()
        )
    );
    assert_ne!(of(&skipped()).0, Outcome::Pass);
}

/// Only what was read in another format is; no file can say it of itself.
#[test]
fn no_stored_record_is_foreign() {
    let stored = serde_json::to_value(foreign()).unwrap();
    assert!(stored["environment"].get("timed_by").is_none());
    let read: Record = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(read.environment.timed_by, None);
    let mut said = stored;
    said["environment"]["timed_by"] = "NVBench".into();
    assert!(serde_json::from_value::<Record>(said).is_err());
}
