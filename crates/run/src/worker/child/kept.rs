//! Checks what launches leave in variables of the module, and whether later launches still compute the same. A counter
//! that is not reset, a table of results or a flag can make a kernel that is right in its first launch only.
//!
//! Launches on the same data are compared with the first launch. A table of results is wrong only on other data, so
//! launches on other data are compared with a launch on that data over the variables as they were loaded.

use super::check::{Runs, Want, decoded, launch_once};
use super::job_cache::JobCache;
use super::stage::{OutputImages, StagedCase};
use crate::device::{Address, Device, Failure, LoadedProgram, Result};
use build::as_written;
use check::same;
use model::{
    Case, Difference, ErrorFacts, Fault, KeptDifference, KeptFacts, KeptVariable, LaterData, Place,
};
use std::sync::Arc;

/// Variables that kernels can write, as the first launch finds them.
pub struct Variables {
    program: LoadedProgram,
    loaded: Vec<RestoredVariable>,
}

struct RestoredVariable {
    symbol: String,
    address: Address,
    content: Vec<u8>,
}

/// The contents of the variables at one moment.
#[derive(PartialEq)]
pub struct VariableContents(Vec<(String, Address, blake3::Hash)>);

impl Variables {
    /// Reads the variables of a program that was just loaded, so that they can be restored.
    pub fn read(device: &mut dyn Device, program: LoadedProgram) -> Result<Self> {
        Ok(Self {
            program,
            loaded: read_all(device, program)?,
        })
    }

    /// Returns the address and a hash of the content of each variable at this moment.
    pub fn now(&self, device: &mut dyn Device) -> Result<VariableContents> {
        let all = read_all(device, self.program)?.into_iter();
        Ok(VariableContents(
            all.map(|module| (module.symbol, module.address, blake3::hash(&module.content)))
                .collect(),
        ))
    }

    /// Restores the variables as the first launch found them.
    pub fn restore(&self, device: &mut dyn Device) -> Result<()> {
        self.loaded
            .iter()
            .try_for_each(|module| device.write(module.address, &module.content))
    }

    /// Returns the variables that have changed. `place` returns where the code writes to a symbol.
    pub fn changed(
        before: &VariableContents,
        after: &VariableContents,
        place: impl Fn(&str) -> Option<Place>,
    ) -> Vec<KeptVariable> {
        after
            .0
            .iter()
            .filter(|content| !before.0.contains(content))
            .map(|(symbol, ..)| KeptVariable {
                name: as_written(symbol),
                place: place(symbol),
            })
            .collect()
    }
}

fn read_all(device: &mut dyn Device, program: LoadedProgram) -> Result<Vec<RestoredVariable>> {
    let all = device.variables(program)?.into_iter();
    all.map(|(symbol, address, bytes)| {
        let mut content = vec![0; bytes];
        device.read(address, &mut content)?;
        Ok(RestoredVariable {
            symbol,
            address,
            content,
        })
    })
    .collect()
}

/// The facts that later launches showed, and the error of those on other data.
pub struct Later {
    pub facts: KeptFacts,
    pub error: Option<ErrorFacts>,
}

/// Examines the variables after the launches on the same data. Says whether the values that were left explain a
/// difference between the launches, or else what they change in a launch on other data. Afterwards the stage has that
/// other data.
pub fn look(
    device: &mut dyn Device,
    cache: &mut JobCache,
    (case, stage): (&Case, &mut StagedCase),
    (variables, kept): (&Variables, Vec<KeptVariable>),
    (first, differs): (&OutputImages, Option<&Difference>),
    other: u64,
) -> Result<Later> {
    let done = |kept, differs, error| Later {
        facts: KeptFacts {
            variables: kept,
            differs,
        },
        error,
    };
    if let Some(differs) = differs {
        // Without the values that were left, the first launch should repeat, unless that depends on chance, too.
        variables.restore(device)?;
        let again = launch_once(device, stage, 1, &mut cache.buffers)?;
        let repeats = first.iter().all(|(name, image)| {
            let other = again.get(name);
            other.is_some_and(|other| same(image, other))
        });
        let differs = repeats.then(|| KeptDifference {
            over: LaterData::Same {
                launch: differs.launch,
            },
            at: differs.at.clone(),
            elements: differs.elements,
        });
        return Ok(done(kept, differs, None));
    }
    let told = names(&kept);
    stage.turn_to(device, cache, case, other)?;
    let on_kept = launch_once(device, stage, 2, &mut cache.buffers).map_err(|failure| {
        later(
            failure,
            &format!("a launch on the data of seed {other}"),
            &told,
        )
    })?;
    variables.restore(device)?;
    let fresh = launch_once(device, stage, 1, &mut cache.buffers)?;
    let want = Want::new(Arc::new(decoded(case, &fresh)?));
    let mut runs = Runs::new(case, &want, stage.compared(case)?)?;
    runs.take(1, fresh)?;
    runs.take(2, on_kept)?;
    let unwritten = runs.unwritten;
    let differs = runs.differs.take().filter(|_| unwritten == 0);
    let differs = differs.map(|differs| KeptDifference {
        over: LaterData::Other { seed: other },
        at: differs.at,
        elements: differs.elements,
    });
    Ok(done(kept, differs, runs.error.take()))
}

fn names(kept: &[KeptVariable]) -> String {
    kept.iter()
        .map(|kept_variable| format!("`{}`", kept_variable.name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Adds to a failure that the launch found values that an earlier launch had left.
pub fn later(failure: Failure, launch: &str, kept: &str) -> Failure {
    match failure {
        Failure::Fault { fault, sticky } => Failure::Fault {
            fault: Fault {
                message: format!(
                    "{launch}, on what launch 1 left in {kept}: {}",
                    fault.message
                ),
                ..fault
            },
            sticky,
        },
        Failure::Unsupported(_) => failure,
    }
}

/// Adds to a failure what [`later`] adds, for launch number `launch` on the same data.
pub fn in_launch(failure: Failure, launch: u32, kept: &[KeptVariable]) -> Failure {
    if kept.is_empty() {
        return failure;
    }
    later(failure, &format!("launch {launch}"), &names(kept))
}
