//! From source to machine code, and what the compiler says of it.
//!
//! Knows nvcc's command line, its output and a cache of both. Knows nothing of limits or devices.

mod command;
mod compile;
mod depend;
mod entry;
mod identity;
mod process;
pub mod ptxas;

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::toolchain::Toolchain;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Instant;
use verdict::model::{BuildFacts, Callable, Seen, Unit};

/// What came of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    pub facts: Seen<BuildFacts>,
    /// `None` exactly where there are no facts.
    pub artifact: Option<Artifact>,
    /// Taken from the cache: nvcc was not called.
    pub cached: bool,
    pub millis: u64,
}

/// Where the machine code is, and by which symbols.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Artifact {
    Cubin {
        path: PathBuf,
        symbol: String,
    },
    Launcher {
        library: PathBuf,
        /// `int f(void** args)`, where `args[i]` points to the value of argument i.
        function: String,
        /// Declared entries in their order: name as written, symbol.
        entries: Vec<(String, String)>,
    },
}

/// Builds every unit, `jobs` at a time, in the order given. `on_done` is told of each as it ends.
///
/// # Errors
/// Environment, where the machine failed. A source that does not compile is evidence, not an error.
pub fn build_all(
    root: &Path,
    toolchain: &Toolchain,
    cache: &Cache,
    units: &[Unit],
    jobs: usize,
    on_done: &(dyn Fn(&Unit, &Built) + Sync),
) -> Result<Vec<Built>> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs.max(1))
        .build()
        .map_err(|error| Error::environment(format!("no threads to compile with: {error}")))?;
    let scratch = cache.dir("scratch")?;
    pool.install(|| {
        units
            .par_iter()
            .map(|unit| {
                let started = Instant::now();
                let scratch = tempfile::tempdir_in(&scratch)
                    .map_err(|error| Error::environment(format!("scratch directory: {error}")))?;
                let compiled = compile::compile(
                    root,
                    toolchain,
                    scratch.path(),
                    unit,
                    &command::Request::of(unit),
                    compile::DEADLINE,
                )?;
                let built = match compiled {
                    Ok(compiled) => Built {
                        artifact: artifact(unit, &compiled.facts, &compiled.output),
                        facts: Seen::Got(compiled.facts),
                        cached: false,
                        millis: started.elapsed().as_millis() as u64,
                    },
                    Err(fault) => Built {
                        facts: Seen::Fault(fault),
                        artifact: None,
                        cached: false,
                        millis: started.elapsed().as_millis() as u64,
                    },
                };
                on_done(unit, &built);
                Ok(built)
            })
            .collect()
    })
}

fn artifact(unit: &Unit, facts: &BuildFacts, file: &Path) -> Option<Artifact> {
    match &unit.call {
        Callable::Entry { .. } => facts.entries.first().map(|entry| Artifact::Cubin {
            path: file.to_owned(),
            symbol: entry.symbol.clone(),
        }),
        Callable::Launcher { .. } => Some(Artifact::Launcher {
            library: file.to_owned(),
            function: command::SHIM.to_owned(),
            entries: facts
                .entries
                .iter()
                .map(|entry| (entry.name.clone(), entry.symbol.clone()))
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests;
