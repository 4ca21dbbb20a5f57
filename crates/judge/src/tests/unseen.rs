//! Evidence that a change could take away from a run, and what would then be missing without a word.

use super::rules::no_architecture;
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
    fn refuse<T>(seen: &mut Seen<T>) {
        *seen = Seen::NotRun(NotRun::EarlierStage);
    }
    for piece in &mut record.evidence {
        match piece {
            Evidence::Check { facts, .. } => refuse(facts),
            Evidence::Driver { facts, .. } => refuse(facts),
            Evidence::Time { facts, .. } => refuse(facts),
            _ => {}
        }
    }
    assert_eq!(ruled(&record).conclusion, Conclusion::Pass);
    record.policy.require_gpu = true;
    let judgement = ruled(&record);
    assert_eq!(judgement.conclusion, Conclusion::Environment);
    let reason = no_architecture(&record);
    for rule in [Rule::Finite, Rule::AgreesWithDriver, p50_change()] {
        expect(
            &record,
            &case("direct", "small"),
            rule,
            Outcome::Environment,
            reason.clone(),
        );
    }
}

/// A change that makes a case too dear would else be waved through unchecked.
#[test]
fn a_skip_of_a_case_with_simulated_baselines_is_not_silent() {
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
    let subject = Subject::Case(small());
    let findings = |record: &Record| {
        let verdict = verdict(record, &subject, Rule::NoFindings);
        (verdict.outcome, verdict.reason)
    };
    let not_run = [
        NotRun::OverBudget {
            estimate: 2_000_000,
            budget: 1_000_000,
        },
        NotRun::OverMemory {
            bytes: 1 << 40,
            limit: 1 << 30,
        },
        NotRun::EstimateUnknown,
    ];
    let not_run = not_run.map(|why| {
        let reason = Reason::NotRun(why.clone());
        (Seen::NotRun(why), Outcome::Skipped, reason)
    });
    let ptx = Unsupported::Ptx {
        problem: "wgmma".to_owned(),
    };
    let unsupported = (
        Seen::Unsupported(ptx.clone()),
        Outcome::Unsupported,
        Reason::Unsupported(ptx),
    );
    for (seen, outcome, reason) in not_run.into_iter().chain([unsupported]) {
        let was = (outcome, reason.clone());
        let mut record = lost(seen);
        let check_lost = Reason::CheckLost {
            shape: "small".to_owned(),
            why: Box::new(reason),
        };
        assert_eq!(findings(&record), (Outcome::Inconclusive, check_lost));
        assert_eq!(ruled(&record).conclusion, Conclusion::Inconclusive);
        // Under another key it says nothing, and neither does a baseline without the case.
        let mut other = record.clone();
        if let Seen::Got(compiler) = &mut other.environment.compiler {
            compiler.version = "13.1.0".to_owned();
        }
        assert_eq!(findings(&other), was);
        for baseline in &mut record.policy.baselines {
            baseline.cases.remove("small");
        }
        assert_eq!(findings(&record), was);
        record.policy.baselines.clear();
        assert_eq!(findings(&record), was);
        assert_eq!(ruled(&record).conclusion, Conclusion::Pass);
    }
    // A case that an earlier failure or a filter kept from running is reported elsewhere.
    for why in [
        NotRun::NoReferenceVariant {
            variant: "fast".to_owned(),
        },
        NotRun::EarlierStage,
        NotRun::NoArtifact,
    ] {
        let record = lost(Seen::NotRun(why.clone()));
        assert_eq!(findings(&record), (Outcome::Skipped, Reason::NotRun(why)));
    }
}
