//! Tests head against the base revision.

use super::*;
use crate::fixture::script::measure;

fn changed() -> CaseId {
    case_id("fast", "small")
}

fn subject() -> Subject {
    Subject::Case(changed())
}

fn p50(record: &Record) -> Verdict {
    verdict(record, &subject(), p50_change())
}

/// Returns a record with as many processes as the judge asks for, each with this ratio.
fn measured(ratio: impl Fn(u32) -> f64) -> Record {
    let mut record = record_against_base();
    measure(&mut record, &changed(), ratio);
    record
}

fn processes(record: &Record) -> usize {
    record
        .evidence
        .iter()
        .filter(|piece| matches!(piece, Evidence::Pair { case, .. } if *case == changed()))
        .count()
}

#[test]
fn a_failure_that_the_next_process_does_not_show_is_looked_at_again() {
    let record = measured(|process| if process < 6 { 1.03 } else { 1.0 });
    assert_eq!(p50(&record).outcome, Outcome::Inconclusive);
    assert_eq!(processes(&record), 10);
}

#[test]
fn splits_the_chance_of_a_false_alarm_over_the_whole_plan() {
    let interval = |record: &Record| p50(record).interval.unwrap()[0].0;
    let few = measured(|_| 1.0);
    let mut many = few.clone();
    for _ in 0..100 {
        let more = gate(case("direct", "small"), within(Metric::P99, 0.5));
        many.policy.gates.push(more);
    }
    assert!(interval(&many) < interval(&few));
}

/// Gives each side 100 launches in two modes 1.5 times apart, with this percentage of slow ones.
fn with_modes(record: &mut Record, head: u32, base: u32) {
    record.plan.pairing.as_mut().unwrap().singles = 100;
    repair(record, &changed(), |process, facts| {
        let launches = |slow: u32| {
            let slow = slow + process % 3;
            (0..100u64)
                .map(|at| 80_000 + 32 * (at * 7 % 23) + if at < slow.into() { 40_000 } else { 0 })
                .collect()
        };
        facts.head.single_ns = launches(head);
        facts.base.single_ns = launches(base);
    });
}

fn slow_share(head: u32, base: u32) -> Verdict {
    let mut record = record_against_base();
    for process in 6..11 {
        for shape in SHAPES {
            record.evidence.push(Evidence::Pair {
                case: case_id("fast", shape),
                process,
                facts: Seen::Got(pair_facts(usual("fast"), 1.0, process)),
            });
        }
    }
    with_modes(&mut record, head, base);
    let limit = change_from_base(Metric::SlowShare, 0.05);
    record.policy.gates.push(gate(subject(), limit.clone()));
    assert_eq!(
        p50(&record).outcome,
        Outcome::Pass,
        "the median does not see it"
    );
    verdict(&record, &subject(), limit)
}

#[test]
fn a_slow_mode_that_grows_from_30_to_45_in_a_hundred_fails() {
    let verdict = slow_share(45, 30);
    assert_eq!(verdict.outcome, Outcome::Fail, "{:?}", verdict.reason);
    let found = comparison(&verdict.reason);
    assert_eq!((found.metric, found.was), (Metric::SlowShare, None));
    assert_eq!((&found.against, found.now), (&Against::Base, None));
    assert!((found.change.0 - 0.15).abs() < 5e-4, "{}", found.change);
    assert_eq!(verdict.effort.unwrap().samples, 7 * 200);
}

#[test]
fn a_slow_mode_that_stays_or_shrinks_passes() {
    for head in [20, 30, 32] {
        let verdict = slow_share(head, 30);
        let reason = &verdict.reason;
        assert_eq!(verdict.outcome, Outcome::Pass, "{head}: {reason:?}");
    }
    let verdict = slow_share(0, 0);
    assert_eq!(
        (verdict.outcome, verdict.reason),
        (Outcome::Pass, Reason::OneMode)
    );
}

/// A decision does not change, whatever is measured after it.
#[test]
fn a_process_after_the_decision_changes_nothing() {
    for ratio in [1.0, 1.03] {
        let mut record = measured(|_| ratio);
        let decided = p50(&record);
        for (process, late) in (processes(&record) as u32..).zip([1.5, 0.5, 1.0]) {
            let mut facts = pair_facts(usual("fast"), late, process);
            // The clock of this process is also coarser.
            facts.head.tick_ns = 100_000;
            record.evidence.push(Evidence::Pair {
                case: changed(),
                process,
                facts: Seen::Got(facts),
            });
            let again = p50(&record);
            assert_eq!(
                (again.outcome, again.interval),
                (decided.outcome, decided.interval)
            );
        }
    }
}
