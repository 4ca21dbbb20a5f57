//! Counters in doubt, and those that nobody confirmed: named, and no gate rests on them.

use super::simulated::{COUNTERS, recount};
use super::*;

#[test]
fn a_kernel_that_polls_is_not_held_to_what_it_counted() {
    let mut record = record_simulated();
    record.policy.baselines.clear();
    recount(&mut record, |seed, facts| {
        let withheld = Withheld {
            doubt: Doubt::Polls,
            place: "k.cu:7".to_owned(),
        };
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
        "what it counts follows from a schedule that no GPU shares, as it polls memory at k.cu:7",
    );
}

/// Takes `counter` from the launch with seed 2, for `doubt`.
pub(super) fn withhold(record: &mut Record, counter: Counter, doubt: Doubt) {
    recount(record, |seed, facts| {
        if seed == 2 {
            let value = facts.counters.remove(&counter).unwrap();
            facts.information.insert(counter, value);
            let place = "k.cu:9".to_owned();
            facts.withheld.insert(counter, Withheld { doubt, place });
        }
    });
}

#[test]
fn a_counter_in_doubt_is_named_and_holds_no_gate() {
    let mut record = record_simulated();
    withhold(
        &mut record,
        Counter::SharedLoadWavefronts,
        Doubt::RaggedLoop,
    );
    let subject = case("direct", "small");
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Inconclusive,
        "shared_load_wavefronts has a baseline, and this launch cannot be held to it: lanes of a warp leave the loop around k.cu:9 in different turns, and ptxas may unroll it; where that is meant, accept it with `gatekeeper baseline update 'k/direct@small'`",
    );
    // Once that is agreed on, the others are held, and what is not is said.
    record.policy.baselines = acceptable(&record, "seal").0;
    expect(
        &record,
        &subject,
        COUNTERS,
        Outcome::Pass,
        "1 counters; not held: shared_load_wavefronts (lanes of a warp leave the loop around k.cu:9 in different turns, and ptxas may unroll it)",
    );
    let told = Note::NotHeld {
        subject: subject.clone(),
        what: "shared_load_wavefronts (lanes of a warp leave the loop around k.cu:9 in different turns, and ptxas may unroll it)".to_owned(),
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
fn a_simulator_where_no_counter_is_confirmed_gates_none() {
    let mut record = record_simulated();
    record.policy.baselines.clear();
    recount(&mut record, |_, facts| facts.counters.clear());
    expect(
        &record,
        &case("direct", "small"),
        COUNTERS,
        Outcome::Skipped,
        "no GPU's own counters have confirmed it",
    );
}
