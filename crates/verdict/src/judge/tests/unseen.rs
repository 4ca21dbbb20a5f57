//! What a change could take away from a run, and what would then be missing without a word.

use super::*;

fn small() -> CaseId {
    case_id("direct", "small")
}

/// Not run for that, it would be a skip, and the resources of another architecture would pass for it.
#[test]
fn a_required_gpu_on_which_nothing_declared_runs_is_the_environment() {
    let mut record = record();
    let Seen::Got(device) = &mut record.environment.device else {
        unreachable!()
    };
    (device.major, device.minor) = (8, 9);
    let reason = "no architecture that k/direct declares runs on NVIDIA H100 80GB HBM3 (sm_89)";
    fn not_run<T>(seen: &mut Seen<T>, reason: &str) {
        *seen = Seen::NotRun {
            reason: reason.to_owned(),
        };
    }
    for piece in &mut record.evidence {
        match piece {
            Evidence::Check { facts, .. } => not_run(facts, reason),
            Evidence::Driver { facts, .. } => not_run(facts, reason),
            Evidence::Time { facts, .. } => not_run(facts, reason),
            _ => {}
        }
    }
    assert_eq!(ruled(&record).conclusion, Conclusion::Pass);
    record.policy.require_gpu = true;
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Environment);
    for gate in ["finite", "agrees with driver", "p50 +2%"] {
        expect(
            &record,
            &case("direct", "small"),
            gate,
            Outcome::Environment,
            reason,
        );
    }
}

/// A change that makes a case too dear would else be waved through unchecked.
#[test]
fn what_was_simulated_when_it_was_agreed_on_is_not_skipped_silently() {
    let lost = |seen: Seen<SimulationFacts>| {
        let mut record = record_simulated();
        for piece in &mut record.evidence {
            match piece {
                Evidence::Simulation { case, facts, .. } if *case == small() => {
                    *facts = seen.clone()
                }
                Evidence::Check { case, facts, .. } if *case == small() => {
                    *facts = seen.clone().map(|_| check_facts());
                }
                _ => {}
            }
        }
        record
    };
    let over = "over the budget of the simulator, 1000 warp instructions a case: about 2000";
    let not_run = |reason: &str| Seen::NotRun {
        reason: reason.to_owned(),
    };
    let subject = Subject::Case(small());
    let said = "; its baselines are of a simulation, and now nothing checks it here: raise the budget, or where that is meant take `small` out of its baselines of correctness and counters";
    for (seen, was) in [
        (not_run(over), Outcome::Skipped),
        (
            Seen::Unsupported {
                reason: "wgmma".to_owned(),
            },
            Outcome::Unsupported,
        ),
    ] {
        let mut record = lost(seen.clone());
        let verdict = super::verdict(&record, &subject, "memory and races");
        assert_eq!(verdict.outcome, Outcome::Inconclusive, "{}", verdict.reason);
        assert!(verdict.reason.ends_with(said), "{}", verdict.reason);
        assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);
        // Under another key it says nothing, and neither does a baseline without the case.
        let mut other = record.clone();
        if let Seen::Got(compiler) = &mut other.environment.compiler {
            compiler.version = "13.1.0".to_owned();
        }
        let verdict = super::verdict(&other, &subject, "memory and races");
        assert_eq!(verdict.outcome, was);
        for baseline in &mut record.policy.baselines {
            baseline.cases.remove("small");
        }
        let verdict = super::verdict(&record, &subject, "memory and races");
        assert_eq!(verdict.outcome, was);
    }
    // What an earlier failure or a filter kept from running is told elsewhere.
    let record = lost(not_run(
        "its reference k/fast@small is not part of this run",
    ));
    let verdict = super::verdict(&record, &subject, "memory and races");
    assert_eq!(verdict.outcome, Outcome::Skipped);
}
