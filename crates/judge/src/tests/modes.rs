//! Tails and modes of single launches, through gates and notes.

use super::*;

/// 100 launches of a process: fast ones around `ns`, and every so many of them `ratio` times as slow, in
/// steps of the clock.
fn launches(ns: u64, slow: usize, ratio: f64, process: u32) -> Vec<u64> {
    let launch = |at: usize| {
        let near = ns + 32 * ((at * 7 + process as usize) % 9) as u64;
        // 37 has no factor in common with 100: the slow ones are spread over the process.
        if at * 37 % 100 < slow {
            (near as f64 * ratio / 32.0).round() as u64 * 32
        } else {
            near
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
    let limit = || at_most(Metric::SlowShare, 0.35);
    let before = verdict(&gated(with(30, 1.5), limit()), &subject(), limit());
    let Reason::WithinLimit { metric, value } = before.reason else {
        panic!("{:?}", before.reason)
    };
    assert_eq!((before.outcome, metric), (Outcome::Pass, Metric::SlowShare));
    assert!((value.0 - 0.3).abs() < 1e-9, "{value}");
    let record = gated(with(45, 1.5), limit());
    let after = verdict(&record, &subject(), limit());
    assert_eq!(
        (after.outcome, after.reason.code()),
        (Outcome::Fail, "beyond-limit")
    );
    assert_eq!(after.limit, Some(Num(0.35)));
    assert!((after.measured.unwrap().0 - 0.45).abs() < 1e-9);
    // The median of the batches, which this does not move, saw nothing.
    assert_eq!(
        verdict(&record, &subject(), p50_change()).outcome,
        Outcome::Pass
    );
    let one = gated(with(0, 1.5), limit());
    expect(&one, &subject(), limit(), Outcome::Pass, Reason::OneMode);
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
fn undecidable_modes_are_no_pass() {
    // Four launches of each process.
    for (record, rule, reason) in [
        (
            record(),
            at_most(Metric::SlowShare, 0.1),
            Reason::TooFewLaunches { have: 12 },
        ),
        (
            with(30, 1.5),
            within(Metric::SlowShare, 0.1),
            Reason::NoRelative {
                metric: Metric::SlowShare,
            },
        ),
    ] {
        let record = gated(record, rule.clone());
        expect(&record, &subject(), rule, Outcome::Inconclusive, reason);
    }
    let (baselines, _) = acceptable(&with(30, 1.5), "seal");
    let mut metrics = baselines
        .iter()
        .flat_map(|baseline| baseline.cases.values());
    assert!(metrics.all(|metrics| !metrics.contains_key(&Metric::SlowShare)));
}

/// Three in a hundred launches take 2.1 times as long, and no median moves.
#[test]
fn p99_that_doubles_fails_while_p50_stands_still() {
    let p99 = || within(Metric::P99, 0.2);
    let head = gated(with(3, 2.1), p99());
    let judgement = compare(&with(0, 2.1), &head, Loosening::Fails);
    let failed = verdict_of(&judgement, &subject(), p99());
    assert_eq!(failed.outcome, Outcome::Fail);
    let change = failed.change.unwrap();
    assert!(change.0 > 0.9, "{change}");
    let median = verdict_of(&judgement, &subject(), p50_change());
    assert_eq!(median.outcome, Outcome::Pass);
    // Too small a share for a mode.
    assert!(judgement.notes.is_empty(), "{:?}", judgement.notes);
}
