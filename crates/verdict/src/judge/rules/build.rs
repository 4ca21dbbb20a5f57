//! Rules that need not be written: it builds, every macro is live, outputs are finite, written and the
//! same each time, inputs are intact, and the driver agrees.

use super::facts::{Facts, Found, inconclusive, ruling};
use super::metric::resident;
use super::words;
use crate::model::*;
use std::fmt::Display;

pub(super) fn fail<T>(reason: impl Into<String>) -> Found<T> {
    ruling(Outcome::Fail, reason)
}

pub(super) fn built(facts: &Facts, subject: &Subject) -> Found<String> {
    let Subject::Unit(unit) = subject else {
        return misplaced(subject);
    };
    let facts = facts.build(unit)?;
    match (facts.entries.as_slice(), facts.warnings.len()) {
        ([], _) => fail("the compiler reported no entry"),
        (_, 0) => Ok(String::new()),
        (_, 1) => Ok("with a warning".to_owned()),
        (_, n) => Ok(format!("with {n} warnings")),
    }
}

pub(super) fn misplaced<T>(subject: &Subject) -> Found<T> {
    inconclusive(format!("this gate cannot stand on {subject}"))
}

/// A variant is compared with all siblings before it in the file, so that of two equal ones the later
/// fails, and names the earlier.
pub(super) fn has_effect(facts: &Facts, subject: &Subject) -> Found<String> {
    let Subject::Unit(id) = subject else {
        return misplaced(subject);
    };
    let unit = facts.unit(id)?;
    let build = facts.build(id)?;
    let siblings: Vec<_> = facts
        .plan
        .units
        .iter()
        .filter(|other| other.id.kernel == id.kernel && other.id.arch == id.arch)
        .collect();
    if siblings.len() < 2 {
        return ruling(
            Outcome::Skipped,
            "no sibling variant is in this run to compare with",
        );
    }
    let mut unknown = None;
    for sibling in siblings
        .into_iter()
        .take_while(|sibling| sibling.id != unit.id)
    {
        let name = &sibling.id.variant;
        match facts.build(&sibling.id) {
            Err(_) => unknown = unknown.or(Some(name)),
            Ok(other) if other.identity != build.identity => {}
            Ok(_) => match same_calls(facts, id, &sibling.id) {
                Some(true) => {
                    return fail(format!(
                        "no effect: same machine code, launches and arguments as `{name}`"
                    ));
                }
                Some(false) => {}
                None => {
                    return inconclusive(format!(
                        "same machine code as `{name}`, and no shape in common that could show another launch"
                    ));
                }
            },
        }
    }
    match unknown {
        Some(name) => inconclusive(format!("not compared with `{name}`, whose code is unknown")),
        None => Ok(String::new()),
    }
}

/// Whether two units of one kernel are called alike on every shape that both have; `None` without one.
fn same_calls(facts: &Facts, a: &UnitId, b: &UnitId) -> Option<bool> {
    let mut same = None;
    for case in facts.cases_of(a) {
        if let Some(other) = facts
            .cases_of(b)
            .find(|other| other.id.shape == case.id.shape)
        {
            same = Some(same.unwrap_or(true) && same_call(case, other));
        }
    }
    same
}

/// Whether two cases launch alike over the same arguments.
pub(super) fn same_call(a: &Case, b: &Case) -> bool {
    (&a.launch, &a.args, &a.tensors) == (&b.launch, &b.args, &b.tensors)
}

fn each_seed(
    facts: &Facts,
    subject: &Subject,
    ask: impl Fn(&Case, &CheckFacts, u64) -> Found<()>,
) -> Found<String> {
    over_seeds(facts, subject, |case, seed| {
        ask(case, facts.check(&case.id, seed)?, seed)
    })
}

/// Every seed of the case, in order, through one question.
pub(super) fn over_seeds(
    facts: &Facts,
    subject: &Subject,
    ask: impl Fn(&Case, u64) -> Found<()>,
) -> Found<String> {
    let Subject::Case(id) = subject else {
        return misplaced(subject);
    };
    let case = facts.case(id)?;
    if case.seeds.is_empty() {
        return inconclusive("the case has no seeds");
    }
    // A broken seed is told before a missing one: it is the more serious of the two.
    let answers: Vec<_> = case.seeds.iter().map(|&seed| ask(case, seed)).collect();
    match answers
        .into_iter()
        .filter_map(Result::err)
        .min_by_key(|ruling| ruling.outcome)
    {
        Some(ruling) => Err(ruling),
        None => Ok(String::new()),
    }
}

pub(super) fn finite(facts: &Facts, subject: &Subject) -> Found<String> {
    each_seed(facts, subject, |_, check, seed| {
        let errors = &check.error;
        match (errors.elements, errors.non_finite) {
            (0, _) => inconclusive(format!("no element was compared with seed {seed}")),
            (_, 0) => Ok(()),
            (all, broken) => fail(format!(
                "{broken} of {all} elements are not finite with seed {seed}{}",
                errors
                    .worst
                    .as_ref()
                    .map_or_else(String::new, |worst| format!(
                        ", the first is {}",
                        words::worst(worst)
                    ))
            )),
        }
    })
}

pub(super) fn written(facts: &Facts, subject: &Subject) -> Found<String> {
    each_seed(facts, subject, |_, check, seed| match check.unwritten {
        0 => Ok(()),
        n => fail(format!(
            "{n} elements are never written with seed {seed}{}",
            check
                .first_unwritten
                .as_ref()
                .map_or_else(String::new, |at| format!(
                    ", the first at {}",
                    words::place(at)
                ))
        )),
    })
}

pub(super) fn deterministic(facts: &Facts, subject: &Subject) -> Found<String> {
    if let Subject::Case(id) = subject
        && let Determinism::Declared { reason } = &facts.case(id)?.determinism
    {
        return ruling(
            Outcome::Skipped,
            format!("declared non-deterministic: {reason}"),
        );
    }
    if facts.is_simulated() {
        // What keeps the case from having been simulated at all comes first.
        return each_seed(facts, subject, |_, _, _| Ok(()))
            .and_then(|_| ruling(Outcome::Skipped, words::REPEATS));
    }
    each_seed(facts, subject, |case, check, seed| match &check.differs {
        Some(differs) => fail(format!(
            "launch {} differs from the first in {} elements with seed {seed}, the first at {}",
            differs.launch,
            differs.elements,
            words::place(&differs.at)
        )),
        None if check.launches < case.launches.max(2) => inconclusive(format!(
            "{} of {} launches were compared with seed {seed}",
            check.launches,
            case.launches.max(2)
        )),
        None => Ok(()),
    })
}

/// Nothing but its outputs is changed: not the inputs, and nothing around any buffer.
pub(super) fn inputs_intact(facts: &Facts, subject: &Subject) -> Found<String> {
    each_seed(facts, subject, |_, check, seed| {
        if !check.overruns.is_empty() {
            fail(format!(
                "writes outside its buffers with seed {seed}: {}",
                check.overruns.join(", ")
            ))
        } else if !check.clobbered_inputs.is_empty() {
            fail(format!(
                "input {} was written to with seed {seed}",
                check.clobbered_inputs.join(", ")
            ))
        } else {
            Ok(())
        }
    })
}

pub(super) fn agrees_with_driver(facts: &Facts, subject: &Subject) -> Found<String> {
    let Subject::Case(id) = subject else {
        return misplaced(subject);
    };
    let case = facts.case(id)?;
    let driver = facts.driver(id)?;
    let unit = facts.unit_on_device(id)?;
    let build = facts.build(&unit.id)?;
    let device = facts.device()?;
    if driver.entries.is_empty() {
        return inconclusive("the driver was asked about no entry");
    }
    if let (Callable::Entry { .. }, true) = (&unit.call, driver.entries.len() != 1) {
        return inconclusive(format!(
            "the driver was asked about {} entries",
            driver.entries.len()
        ));
    }
    for launched in &driver.entries {
        let Some(at) = build
            .entries
            .iter()
            .position(|entry| entry.symbol == launched.symbol)
        else {
            return fail(format!(
                "launches {}, which is not declared",
                launched.symbol
            ));
        };
        let Some(entry) = build.entries.get(at) else {
            return inconclusive("no such entry");
        };
        let name = &entry.name;
        let ptxas = &entry.resources;
        agree(name, "registers", ptxas.registers, launched.registers)?;
        agree(
            name,
            "bytes of static shared memory",
            ptxas.static_shared,
            launched.static_shared,
        )?;
        match &unit.call {
            Callable::Entry { .. } => {
                if case.launch != Some(launched.launch) {
                    return fail(format!("{name}: launched otherwise than planned"));
                }
            }
            Callable::Launcher { launches, .. } => {
                let declared = launches.get(at).map(|launch| launch.dynamic_shared);
                let asked = launched.launch.dynamic_shared;
                if declared.is_none_or(|declared| asked > declared) {
                    return fail(format!(
                        "{name}: asks for {asked} B of dynamic shared memory and declares {}",
                        declared.map_or("none".to_owned(), |declared| format!("{declared} B"))
                    ));
                }
            }
        }
        let ours = resident(
            device.arch(),
            ptxas,
            launched.launch.dynamic_shared,
            launched.launch.threads_per_block(),
        );
        match ours {
            None => {
                return ruling(
                    Outcome::Unsupported,
                    format!("no published limits of {} are known here", device.arch()),
                );
            }
            Some(ours) => {
                agree(
                    name,
                    "blocks per SM (by the published limits)",
                    ours.blocks_per_sm,
                    launched.blocks_per_sm,
                )?;
            }
        }
    }
    Ok(String::new())
}

fn agree(entry: &str, what: &str, ours: impl Display, drivers: impl Display) -> Found<()> {
    let (ours, drivers) = (ours.to_string(), drivers.to_string());
    if ours == drivers {
        Ok(())
    } else {
        fail(format!(
            "{entry}: {ours} {what}, and the driver says {drivers}"
        ))
    }
}
