//! Judges outputs for every seed: they are finite, written, the same each time, and nothing else is touched.

use super::misplaced;
use crate::index::View;
use crate::not_passed::{OrNotPassed, fail, inconclusive, skipped};
use model::*;

fn each_seed(
    view: View,
    subject: &Subject,
    ask: impl Fn(&Case, &CheckFacts, u64) -> OrNotPassed<()>,
) -> OrNotPassed<Reason> {
    over_seeds(view, subject, |case, seed| {
        ask(case, view.check(&case.id, seed)?, seed)
    })
}

/// Asks one question for every seed of the case, in order.
pub fn over_seeds(
    view: View,
    subject: &Subject,
    ask: impl Fn(&Case, u64) -> OrNotPassed<()>,
) -> OrNotPassed<Reason> {
    let Subject::Case(id) = subject else {
        return misplaced();
    };
    let case = view.case(id)?;
    if case.seeds.is_empty() {
        return inconclusive(Reason::NoSeeds);
    }
    // A broken seed outranks a missing one, because it is the more serious of the two.
    let answers: Vec<_> = case.seeds.iter().map(|&seed| ask(case, seed)).collect();
    match answers
        .into_iter()
        .filter_map(Result::err)
        .min_by_key(|ruling| ruling.outcome)
    {
        Some(ruling) => Err(ruling),
        None => Ok(Reason::Held),
    }
}

/// Fails a case if an output is not finite for some seed. It is inconclusive if no element was compared.
pub fn check_finite(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    each_seed(view, subject, |_, check, seed| {
        let errors = &check.error;
        match (errors.elements, errors.non_finite) {
            (0, _) => inconclusive(Reason::NothingCompared { seed }),
            (_, 0) => Ok(()),
            (elements, count) => fail(Reason::NonFinite {
                seed,
                count,
                elements,
                worst: errors.worst.clone(),
            }),
        }
    })
}

/// Fails a case if elements of an output were not written, or were written with undefined values, for some seed.
pub fn check_written(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    each_seed(view, subject, |_, check, seed| match check.unwritten {
        0 => Ok(()),
        count => {
            let first = check.first_unwritten.clone();
            // The simulator reports undefined values together with what was never written.
            fail(if stores_undefined(view, subject, seed) {
                Reason::StoredUndefined { seed, count, first }
            } else {
                Reason::Unwritten { seed, count, first }
            })
        }
    })
}

fn stores_undefined(view: View, subject: &Subject, seed: u64) -> bool {
    let Subject::Case(id) = subject else {
        return false;
    };
    let findings = view.simulation(id, seed).map(|launch| &launch.findings);
    findings
        .into_iter()
        .flatten()
        .any(|finding| finding.kind == FindingKind::Uninitialised)
}

pub fn check_deterministic(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    if let Subject::Case(id) = subject
        && let Determinism::Declared { reason } = &view.case(id)?.determinism
    {
        return skipped(Reason::DeclaredNondeterministic {
            because: reason.clone(),
        });
    }
    let kept = each_seed(view, subject, |_, check, seed| {
        match check.kept.as_ref().map(|kept| (kept, &kept.differs)) {
            Some((kept, Some(differs))) => fail(Reason::FirstLaunchOnly {
                seed,
                differs: differs.clone(),
                kept: kept.variables.clone(),
            }),
            _ => Ok(()),
        }
    })?;
    if view.is_simulated() {
        let Subject::Case(id) = subject else {
            return misplaced();
        };
        let seeds = &view.case(id)?.seeds;
        let checks = seeds.iter().filter_map(|&seed| view.check(id, seed).ok());
        // A launch that keeps no state is the same each time.
        return if checks.into_iter().any(|check| check.kept.is_some()) {
            Ok(kept)
        } else {
            skipped(Reason::RepeatsByConstruction)
        };
    }
    each_seed(view, subject, |case, check, seed| match &check.differs {
        Some(differs) => fail(Reason::Nondeterministic {
            seed,
            launch: differs.launch,
            elements: differs.elements,
            at: differs.at.clone(),
        }),
        None if check.launches < case.launches.max(2) => inconclusive(Reason::TooFewRepeats {
            seed,
            have: check.launches,
            needed: case.launches.max(2),
        }),
        None => Ok(()),
    })
}

/// Checks that a kernel changes nothing but its outputs: neither its inputs, nor anything around a buffer.
pub fn check_inputs(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    each_seed(view, subject, |_, check, seed| {
        if !check.overruns.is_empty() {
            fail(Reason::WroteOutside {
                seed,
                places: check.overruns.clone(),
            })
        } else if !check.clobbered_inputs.is_empty() {
            fail(Reason::InputWritten {
                seed,
                inputs: check.clobbered_inputs.clone(),
            })
        } else {
            Ok(())
        }
    })
}
