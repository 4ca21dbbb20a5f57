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

#[test]
fn a_counter_in_doubt_is_named_and_holds_no_gate() {
    let mut record = record_simulated();
    let counter = Counter::SharedLoadWavefronts;
    let why = withhold(&mut record, counter, Doubt::RaggedLoop);
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
    let counters = vec![counter];
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Pass,
        Reason::CountersHold {
            compared: 1,
            withheld: vec![WithheldCounters {
                counters: counters.clone(),
                why: why.clone(),
            }],
        },
    );
    let told = Note::NotHeld {
        subject: subject.clone(),
        counters,
        why,
    };
    let notes = ruled(&record).notes;
    assert_eq!(notes.iter().filter(|note| **note == told).count(), 1);
    recount(&mut record, |_, facts| {
        let sectors = facts.counters.get_mut(&Counter::GlobalLoadSectors).unwrap();
        *sectors += 1;
    });
    assert_eq!(
        verdict(&record, &subject, COUNTERS).outcome,
        Outcome::Fail,
        "a doubt of one counter is none of another"
    );
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
        let counters = std::mem::take(&mut facts.counters).into_keys();
        facts.withheld = counters.map(|it| (it, withheld.clone())).collect();
    });
    let lost = verdict(&record, &subject, COUNTERS);
    assert_eq!(
        (lost.outcome, lost.reason.code()),
        (Outcome::Inconclusive, "counters-lost")
    );
    record.policy.baselines = acceptable(&record, "seal").0;
    let nothing = |it: &Baseline| it.key.facet() == Facet::Counters && it.cases["small"].is_empty();
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
