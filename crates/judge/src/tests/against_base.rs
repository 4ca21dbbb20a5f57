//! Judges two records, one or both of which were timed interleaved with a base revision.

use super::*;

/// Returns a record in which every process of `fast` takes `ratio` times as long.
fn paired(ratio: f64) -> Record {
    let mut record = record_against_base();
    repair(&mut record, &case_id("fast", "small"), |process, facts| {
        *facts = pair_facts(usual("fast"), ratio, process);
    });
    record
}

fn p50(base: &Record, head: &Record) -> Verdict {
    let judgement = compare(base, head, Loosening::Fails);
    verdict_of(&judgement, &case("fast", "small"), p50_change())
}

#[test]
fn compares_heads_own_samples_if_both_ran_against_a_base() {
    let same = p50(&paired(1.0), &paired(1.0));
    assert_eq!(same.outcome, Outcome::Pass, "{:?}", same.reason);
    let slower = p50(&paired(1.0), &paired(1.03));
    assert_eq!(slower.outcome, Outcome::Fail, "{:?}", slower.reason);
    assert!((slower.change.unwrap().0 - 0.03).abs() < 1e-3);
    // Its own base is not an opponent, because it took as long as head.
    assert_eq!(comparison(&slower.reason).against, Against::Baseline);
}

#[test]
fn one_alone_and_one_interleaved_are_two_protocols() {
    for (base, head) in [(record(), paired(1.0)), (paired(1.0), record())] {
        let found = p50(&base, &head);
        let metric = Metric::P50;
        let why = Box::new(Reason::TwoProtocols);
        assert_eq!(
            (found.outcome, found.reason),
            (Outcome::Inconclusive, Reason::BaseLacks { metric, why })
        );
        // Times that were taken alone on both sides are compared as usual.
        let judgement = compare(&base, &head, Loosening::Fails);
        let direct = verdict_of(&judgement, &case("direct", "small"), p50_change());
        assert_eq!(direct.outcome, Outcome::Pass);
    }
}
