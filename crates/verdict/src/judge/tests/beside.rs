//! Two records of which one, or both, were timed in turns with a base revision.

use super::*;

/// Every process of `fast` takes `ratio` times as long.
fn beside(ratio: f64) -> Record {
    let mut record = record_beside_base();
    repair(&mut record, &case_id("fast", "small"), |process, facts| {
        *facts = pair_facts(usual("fast"), ratio, process);
    });
    record
}

fn p50(base: &Record, head: &Record) -> Verdict {
    let judgement = compare(base, head, Loosening::Fails);
    let mut verdicts = judgement.verdicts.into_iter();
    let subject = case("fast", "small");
    verdicts
        .find(|it| it.subject == subject && it.gate == "p50 +2%")
        .unwrap()
}

#[test]
fn heads_own_samples_are_compared_where_both_were_timed_so() {
    let same = p50(&beside(1.0), &beside(1.0));
    assert_eq!(same.outcome, Outcome::Pass, "{}", same.reason);
    let slower = p50(&beside(1.0), &beside(1.03));
    assert_eq!(slower.outcome, Outcome::Fail, "{}", slower.reason);
    assert!((slower.change.unwrap().0 - 0.03).abs() < 1e-3);
    // Not beside its own base, which took as long as head.
    assert!(
        slower.reason.contains("against the baseline"),
        "{}",
        slower.reason
    );
}

#[test]
fn one_alone_and_one_in_turns_are_two_protocols() {
    for (base, head) in [(record(), beside(1.0)), (beside(1.0), record())] {
        let told = p50(&base, &head);
        assert_eq!(told.outcome, Outcome::Inconclusive);
        assert_eq!(
            told.reason,
            format!(
                "the base has no p50 to compare with: {}",
                words::TWO_PROTOCOLS
            )
        );
        // What was timed alone on both sides is compared as ever.
        let judgement = compare(&base, &head, Loosening::Fails);
        let mut verdicts = judgement.verdicts.iter();
        let direct = case("direct", "small");
        let direct = verdicts.find(|it| it.subject == direct && it.gate == "p50 +2%");
        assert_eq!(direct.unwrap().outcome, Outcome::Pass);
    }
}
