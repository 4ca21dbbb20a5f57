//! Counters in doubt, and those that nobody confirmed: named, and no gate rests on them.

use super::simulated::{COUNTERS, recount};
use super::*;

#[test]
fn does_not_gate_counters_of_a_kernel_that_polls() {
    let withheld = Withheld {
        doubt: Doubt::Polls,
        place: "k.cu:7".to_owned(),
    };
    let mut record = record_simulated();
    record.policy.baselines.clear();
    recount(&mut record, |seed, facts| {
        let counters = std::mem::take(&mut facts.counters).into_keys();
        if seed == 2 {
            facts.withheld = counters.map(|c| (c, withheld.clone())).collect();
        }
    });
    expect(
        &record,
        &case("direct", "small"),
        COUNTERS,
        Outcome::Skipped,
        Reason::CountersWithheld {
            why: Some(withheld),
        },
    );
}

/// Takes `counter` from the launch with seed 2, for `doubt`.
pub(super) fn withhold(record: &mut Record, counter: Counter, doubt: Doubt) -> Withheld {
    let place = "k.cu:9".to_owned();
    let why = Withheld { doubt, place };
    recount(record, |seed, facts| {
        if seed == 2 {
            let value = facts.counters.remove(&counter).unwrap();
            facts.information.insert(counter, value);
            facts.withheld.insert(counter, why.clone());
        }
    });
    why
}

/// The reason of a gate on counters that holds with one counter in doubt.
fn hold(compared: u32, counter: Counter, why: &Withheld) -> Reason {
    Reason::CountersHold {
        compared,
        withheld: vec![WithheldCounters {
            counters: vec![counter],
            why: why.clone(),
        }],
    }
}

/// Sets the value that is shown of a counter, in the launch in which it is withheld.
fn inform(record: &mut Record, counter: Counter, value: u64) {
    recount(record, |_, facts| {
        if let Some(shown) = facts.information.get_mut(&counter) {
            *shown = value;
        }
    });
}

#[test]
fn a_counter_that_comes_into_doubt_is_compared_by_its_simulated_value() {
    let mut record = record_simulated();
    let counter = Counter::SharedLoadWavefronts;
    let was = record_simulated_value(&record, counter);
    let why = withhold(&mut record, counter, Doubt::RaggedLoop);
    let subject = case("direct", "small");
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Pass,
        hold(2, counter, &why),
    );
    let told = Note::NotHeld {
        subject: subject.clone(),
        counters: vec![counter],
        why: why.clone(),
    };
    let notes = ruled(&record).notes;
    assert_eq!(notes.iter().filter(|note| **note == told).count(), 1);

    let mut fewer = record.clone();
    inform(&mut fewer, counter, was - 1);
    let judgement = ruled(&fewer);
    let verdict = verdict_of(&judgement, &subject, COUNTERS);
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(judgement.wins, [], "a value in doubt is no win");

    let mut more = record.clone();
    inform(&mut more, counter, 2 * was);
    let verdict = super::verdict(&more, &subject, COUNTERS);
    assert_eq!(verdict.outcome, Outcome::Inconclusive);
    let Reason::CountersInDoubt { against, rises } = verdict.reason else {
        panic!("{:?}", verdict.reason);
    };
    assert_eq!(against, Against::Baseline);
    let [doubted] = rises.as_slice() else {
        panic!("{rises:?}");
    };
    assert_eq!((doubted.side, &doubted.why), (Side::Head, &why));
    let rise = &doubted.rise;
    let values = (rise.counter, rise.was, rise.now);
    assert_eq!(
        values,
        (counter, Num(was as f64), Num(2.0 * was as f64)),
        "both values are known"
    );

    recount(&mut record, |_, facts| {
        let sectors = facts.counters.get_mut(&Counter::GlobalLoadSectors).unwrap();
        *sectors += 1;
    });
    assert_eq!(
        super::verdict(&record, &subject, COUNTERS).outcome,
        Outcome::Fail,
        "a doubt of one counter is none of another"
    );
}

fn record_simulated_value(record: &Record, counter: Counter) -> u64 {
    index(record).head().gateable(&case_id("direct", "small"))[&counter]
}

#[test]
fn a_counter_whose_value_follows_from_a_schedule_is_lost() {
    for doubt in [Doubt::Polls, Doubt::Uncompared] {
        let mut record = record_simulated();
        let counter = Counter::SharedLoadWavefronts;
        let why = withhold(&mut record, counter, doubt);
        let subject = case("direct", "small");
        expect(
            &record,
            &subject,
            COUNTERS,
            Outcome::Inconclusive,
            Reason::CountersLost {
                lost: vec![(counter, Some(why.clone()))],
            },
        );
        // Once that is the baseline, the others are held, and those that are not are named.
        record.policy.baselines = acceptable(&record, "seal").0;
        expect(
            &record,
            &subject,
            COUNTERS,
            Outcome::Pass,
            hold(1, counter, &why),
        );
    }
}

#[test]
fn counters_of_a_case_without_seeds_are_unknown() {
    let mut record = record_simulated();
    record.policy.baselines.clear();
    for case in &mut record.plan.cases {
        case.seeds.clear();
    }
    let verdict = verdict(&record, &case("direct", "small"), COUNTERS);
    let found = (verdict.outcome, verdict.reason);
    assert_eq!(found, (Outcome::Inconclusive, Reason::NoSeeds));
}

#[test]
fn the_gravest_doubt_of_all_launches_decides() {
    let mut record = record_simulated();
    let counter = Counter::SharedLoadWavefronts;
    withhold(&mut record, counter, Doubt::Joined);
    let polls = Withheld {
        doubt: Doubt::Polls,
        place: "k.cu:7".to_owned(),
    };
    recount(&mut record, |seed, facts| {
        if seed == 1 {
            let value = facts.counters.remove(&counter).unwrap();
            facts.information.insert(counter, value);
            facts.withheld.insert(counter, polls.clone());
        }
    });
    let reason = verdict(&record, &case("direct", "small"), COUNTERS).reason;
    let lost = vec![(counter, Some(polls))];
    assert_eq!(reason, Reason::CountersLost { lost });
}

#[test]
fn a_simulator_without_confirmed_counters_gates_none() {
    let mut record = record_simulated();
    record.policy.baselines.clear();
    recount(&mut record, |_, facts| facts.counters.clear());
    expect(
        &record,
        &case("direct", "small"),
        COUNTERS,
        Outcome::Skipped,
        Reason::CountersWithheld { why: None },
    );
}

/// The command in the verdict mends it, also for a case whose counters are all withheld.
#[test]
fn counters_that_are_all_withheld_become_no_baseline() {
    let withheld = Withheld {
        doubt: Doubt::Polls,
        place: "k.cu:7".to_owned(),
    };
    let mut record = record_simulated();
    let subject = case("direct", "small");
    recount(&mut record, |_, facts| {
        facts.withheld = std::mem::take(&mut facts.counters)
            .into_keys()
            .map(|counter| (counter, withheld.clone()))
            .collect();
    });
    let lost = verdict(&record, &subject, COUNTERS);
    assert_eq!(
        (lost.outcome, lost.reason.code()),
        (Outcome::Inconclusive, "counters-lost")
    );
    record.policy.baselines = acceptable(&record, "seal").0;
    let nothing = |baseline: &Baseline| {
        baseline.key.facet() == Facet::Counters && baseline.cases["small"].is_empty()
    };
    assert!(record.policy.baselines.iter().any(nothing));
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Skipped,
        Reason::CountersWithheld {
            why: Some(withheld),
        },
    );
}
