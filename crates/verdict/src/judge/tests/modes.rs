//! Tails and modes of single launches, through gates and notes.

use super::*;

/// 100 launches of a process: fast ones around `ns`, and every so many of them `ratio` times as slow, in
/// steps of the clock.
fn launches(ns: u64, slow: usize, ratio: f64, process: u32) -> Vec<u64> {
    let launch = |at: usize| {
        let near = ns + 32 * ((at * 7 + process as usize) % 9) as u64;
        // 37 has no factor in common with 100: the slow ones are spread over the process.
        match at * 37 % 100 < slow {
            true => (near as f64 * ratio / 32.0).round() as u64 * 32,
            false => near,
        }
    };
    (0..100).map(launch).collect()
}

/// Every case with `slow` in a hundred launches `ratio` times as slow.
fn with(slow: usize, ratio: f64) -> Record {
    let mut record = record();
    for case in record.plan.cases.clone() {
        retime(&mut record, &case.id, |process, facts| {
            facts.single_ns = launches(5_120, slow, ratio, process);
        });
    }
    record
}

fn gated(mut record: Record, rule: Rule) -> Record {
    record.policy.gates.push(gate(subject(), rule));
    record
}

fn subject() -> Subject {
    case("direct", "small")
}

fn notes(record: &Record) -> Vec<Note> {
    ruled(record).notes
}

#[test]
fn a_slow_mode_that_grows_from_30_to_45_per_cent_fails() {
    let limit = at_most(Metric::SlowShare, 0.35);
    let name = "slow_share <= 35 %";
    let before = gated(with(30, 1.5), limit.clone());
    expect(&before, &subject(), name, Outcome::Pass, "30 %");
    let after = gated(with(45, 1.5), limit.clone());
    expect(
        &after,
        &subject(),
        name,
        Outcome::Fail,
        "slow_share is 45 %, and has to be <= 35 %",
    );
    // The median of the batches, which this does not move, saw nothing.
    assert_eq!(
        verdict(&after, &subject(), "p50 +2%").outcome,
        Outcome::Pass
    );
    let one = gated(with(0, 1.5), limit);
    expect(
        &one,
        &subject(),
        name,
        Outcome::Pass,
        "one mode: a second one with 5 % of the launches would show",
    );
}

#[test]
fn two_modes_are_noted_as_two() {
    assert_eq!(notes(&with(0, 1.5)), []);
    let found = notes(&with(30, 1.5));
    assert_eq!(found.len(), 4, "one for each case");
    let Some(Note::TwoModes {
        fast_ns,
        slow_ns,
        slow_share,
        ..
    }) = found.first()
    else {
        panic!("{found:?}");
    };
    assert!((5_120.0..5_400.0).contains(&fast_ns.0), "{fast_ns}");
    assert!((slow_ns.0 / fast_ns.0 - 1.5).abs() < 0.02, "{slow_ns}");
    assert!((slow_share.0 - 0.3).abs() < 1e-9, "{slow_share}");
}

#[test]
fn what_cannot_be_told_is_no_pass() {
    // Four launches of each process.
    let few = gated(record(), at_most(Metric::SlowShare, 0.1));
    expect(
        &few,
        &subject(),
        "slow_share <= 10 %",
        Outcome::Inconclusive,
        "12 single launches are too few to tell two modes from one; 200 are the least",
    );
    let relative = gated(with(30, 1.5), within(Metric::SlowShare, 0.1));
    expect(
        &relative,
        &subject(),
        "slow_share +10%",
        Outcome::Inconclusive,
        "slow_share is mostly 0, and a change relative to that says nothing",
    );
    let (baselines, _) = acceptable(&with(30, 1.5), "seal");
    let mut metrics = baselines
        .iter()
        .flat_map(|baseline| baseline.cases.values());
    assert!(metrics.all(|metrics| !metrics.contains_key(&Metric::SlowShare)));
}

/// Three in a hundred launches take 2.1 times as long, and no median moves.
#[test]
fn p99_that_doubles_fails_while_p50_stands_still() {
    let (p99, p50) = ("p99 +20%", "p50 +2%");
    let head = gated(with(3, 2.1), within(Metric::P99, 0.2));
    let judgement = compare(&with(0, 2.1), &head, Loosening::Fails);
    let outcome = |gate: &str| {
        let mut verdicts = judgement.verdicts.iter();
        let found = verdicts.find(|verdict| verdict.subject == subject() && verdict.gate == gate);
        found.map(|verdict| (verdict.outcome, verdict.change))
    };
    let (failed, change) = outcome(p99).unwrap();
    assert_eq!(failed, Outcome::Fail);
    assert!(change.unwrap().0 > 0.9, "{change:?}");
    assert_eq!(outcome(p50).unwrap().0, Outcome::Pass);
    // Too small a share for a mode.
    assert!(judgement.notes.is_empty(), "{:?}", judgement.notes);
}
