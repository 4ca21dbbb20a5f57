//! Judges the build: it compiles, every macro has an effect, and the driver agrees with PTXAS about the resources.

use super::misplaced;
use crate::counterpart::is_same_call;
use crate::index::View;
use crate::not_passed::{OrNotPassed, fail, inconclusive, skipped, unsupported};
use crate::value::{assembled, steps};
use model::occupancy::{Demand, find_excess, resident};
use model::*;

pub fn check_built(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    let Subject::Unit(unit) = subject else {
        return misplaced();
    };
    let facts = view.build(unit)?;
    match facts.entries.is_empty() {
        true if facts.kernels == Some(0) => fail(Reason::NoMachineCode {
            arch: unit.arch,
            missing: facts.missing.clone(),
        }),
        true if facts.kernels.is_some() => Ok(Reason::Held),
        true => fail(Reason::NoEntry),
        false => match find_impossible_launch(view, unit, facts) {
            Some(impossible) => fail(impossible),
            None => Ok(Reason::Compiled {
                warnings: u32::try_from(facts.warnings.len()).unwrap_or(u32::MAX),
            }),
        },
    }
}

/// Returns the first launch of a unit's cases that its architecture cannot do. A launcher decides on its launches
/// itself, and compiled files have none.
fn find_impossible_launch(view: View, unit: &UnitId, facts: &BuildFacts) -> Option<Reason> {
    view.cases_of(unit).find_map(|case| {
        let launches = steps(facts, case).ok()?;
        launches.into_iter().find_map(|(entry, launch)| {
            let resources = entry.resources.as_ref()?;
            let threads = launch.threads_per_block();
            let demand = Demand::new(resources, launch.dynamic_shared, threads);
            Some(Reason::LaunchImpossible {
                case: Box::new(case.id.clone()),
                excess: find_excess(unit.arch, demand)?,
            })
        })
    })
}

/// Checks that a variant differs from its siblings. It is compared with all siblings before it in the file, so that the
/// later of two equal ones fails and names the earlier one.
pub fn check_effect(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    let Subject::Unit(id) = subject else {
        return misplaced();
    };
    let unit = view.unit(id)?;
    let build = view.build(id)?;
    let siblings: Vec<_> = view
        .plan()
        .units
        .iter()
        .filter(|other| other.id.kernel == id.kernel && other.id.arch == id.arch)
        .collect();
    if siblings.len() < 2 {
        return skipped(Reason::NoSibling);
    }
    let mut unknown = None;
    let earlier = siblings
        .into_iter()
        .take_while(|sibling| sibling.id != unit.id);
    for sibling in earlier {
        let variant = sibling.id.variant.clone();
        match view.build(&sibling.id) {
            Err(_) => unknown = unknown.or(Some(variant)),
            Ok(other) if other.identity != build.identity => {}
            Ok(_) => match has_same_calls(view, id, &sibling.id) {
                Some(true) => return fail(Reason::SameCode { variant }),
                Some(false) => {}
                None => return inconclusive(Reason::NoCommonShape { variant }),
            },
        }
    }
    match unknown {
        Some(variant) => inconclusive(Reason::SiblingUnknown { variant }),
        None => Ok(Reason::Held),
    }
}

/// Returns true if two units of one kernel are called alike on every shape that both have, or `None` if they have no
/// common shape.
fn has_same_calls(view: View, a: &UnitId, b: &UnitId) -> Option<bool> {
    let mut same = None;
    for case in view.cases_of(a) {
        let mut others = view.cases_of(b);
        if let Some(other) = others.find(|other| other.id.shape == case.id.shape) {
            same = Some(same.unwrap_or(true) && is_same_call(case, other));
        }
    }
    same
}

pub fn check_driver(view: View, subject: &Subject) -> OrNotPassed<Reason> {
    let Subject::Case(id) = subject else {
        return misplaced();
    };
    let case = view.case(id)?;
    let driver = view.driver(id)?;
    let unit = view.unit_on_device(id)?;
    let build = view.build(&unit.id)?;
    let device = view.device()?;
    let count = driver.entries.len();
    let is_of_entries = matches!(
        unit.call,
        Callable::Entries { .. } | Callable::Together { .. }
    );
    if count == 0 || is_of_entries && count != case.steps.len() {
        return inconclusive(Reason::DriverEntries {
            count,
            expected: case.steps.len(),
        });
    }
    let of_case = case.choose(&build.entries);
    for (number, launched) in driver.entries.iter().enumerate() {
        let mut entries = of_case.iter().enumerate();
        // A launcher decides the order of its launches.
        let declared = entries.find(|(at, entry)| {
            entry.symbol == launched.symbol && (!is_of_entries || *at == number)
        });
        let Some((at, entry)) = declared else {
            return fail(Reason::UndeclaredEntry {
                symbol: launched.symbol.clone(),
            });
        };
        let name = &entry.name;
        let ptxas = assembled(entry)?;
        let agree = |figure: DriverFigure, ours: u32, drivers: u32| {
            if ours == drivers {
                Ok(())
            } else {
                fail(Reason::DriverDisagrees {
                    entry: name.clone(),
                    figure,
                    ours: ours.into(),
                    drivers: drivers.into(),
                })
            }
        };
        agree(DriverFigure::Registers, ptxas.registers, launched.registers)?;
        agree(
            DriverFigure::StaticShared,
            ptxas.static_shared,
            launched.static_shared,
        )?;
        match &unit.call {
            Callable::Entries { .. } | Callable::Together { .. } => {
                let step = case.steps.get(at);
                if step.and_then(|step| step.launch) != Some(launched.launch) {
                    return fail(Reason::LaunchedOtherwise {
                        entry: name.clone(),
                    });
                }
            }
            Callable::Compiled { .. } => {}
            Callable::Launcher { launches, .. } => {
                let declared = launches.get(at).map(|launch| launch.dynamic_shared);
                let asked = launched.launch.dynamic_shared;
                if declared.is_none_or(|declared| asked > declared) {
                    return fail(Reason::SharedBeyondDeclared {
                        entry: name.clone(),
                        asked,
                        declared,
                    });
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
                return unsupported(Reason::UnknownArchitecture {
                    arch: device.arch(),
                });
            }
            Some(ours) => agree(
                DriverFigure::BlocksPerSm,
                ours.blocks_per_sm,
                launched.blocks_per_sm,
            )?,
        }
    }
    Ok(Reason::Held)
}
