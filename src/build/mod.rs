//! From source to machine code, and what the compiler says of it.
//!
//! Knows nvcc's command line, its output and a cache of both. Knows nothing of limits or devices.

mod cache;
mod command;
mod compile;
mod depend;
mod entry;
mod files;
mod identity;
mod inputs;
pub mod ptxas;
pub mod signature;

use self::cache::{Artifacts, Stored};
use self::command::NvccCall;
pub use self::compile::{in_toolkit, is_of_system};
use self::files::Files;
use self::inputs::{Dependencies, HeaderSearch};
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::temporary::TemporaryDir;
use crate::toolchain::Toolchain;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
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
        /// Of each step: name as written, symbol.
        entries: Vec<(String, String)>,
        /// What the machine code was made from; paths in it are relative to the root.
        ptx: PathBuf,
        constants: Vec<FilledConstant>,
    },
    Launcher {
        library: PathBuf,
        /// `int f(void** args)`, where `args[i]` points to the value of argument i.
        function: String,
        /// Declared entries in their order: name as written, symbol.
        entries: Vec<(String, String)>,
    },
}

/// A `__constant__` variable of a cubin, and the tensor that fills it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilledConstant {
    /// As written.
    pub name: String,
    pub symbol: String,
    pub tensor: String,
}

/// Builds every unit, `jobs` at a time, in the order given. Units that ask nvcc for the same thing are
/// compiled once. `on_done` is called for each as it ends.
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
    let builder = Builder {
        root,
        toolchain,
        artifacts: Artifacts::open(cache)?,
        files: Files::below(root),
        scratch: cache.dir("scratch")?,
    };
    let mut groups: Vec<SameCall> = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        let request = NvccCall::of(unit);
        let key = cache::request_key(unit, &request, toolchain)?;
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.units.push((index, unit)),
            None => groups.push(SameCall {
                key,
                request,
                units: vec![(index, unit)],
            }),
        }
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs.max(1))
        .build()
        .map_err(|error| {
            Error::environment(format!("the compiler threads cannot be started: {error}"))
        })?;
    let built: Result<Vec<Vec<(usize, Built)>>> = pool.install(|| {
        groups
            .par_iter()
            .map(|group| builder.build(group, on_done))
            .collect()
    });
    let mut built: Vec<(usize, Built)> = built?.into_iter().flatten().collect();
    built.sort_by_key(|(index, _)| *index);
    Ok(built.into_iter().map(|(_, built)| built).collect())
}

/// Units that ask nvcc for the same thing, with their places in the plan.
struct SameCall<'a> {
    key: String,
    request: NvccCall,
    units: Vec<(usize, &'a Unit)>,
}

struct Builder<'a> {
    root: &'a Path,
    toolchain: &'a Toolchain,
    artifacts: Artifacts,
    files: Files,
    scratch: PathBuf,
}

/// The clock by which files are stamped may lag by a tick of the operating system (at most 10 ms).
const TICK: Duration = Duration::from_millis(20);

impl Builder<'_> {
    fn build(
        &self,
        group: &SameCall,
        on_done: &(dyn Fn(&Unit, &Built) + Sync),
    ) -> Result<Vec<(usize, Built)>> {
        let mut done: Vec<(usize, Built)> = Vec::new();
        for &(index, unit) in &group.units {
            let built = match done.first() {
                None => self.build_one(unit, group)?,
                Some((_, first)) => Built {
                    cached: true,
                    millis: 0,
                    ..first.clone()
                },
            };
            on_done(unit, &built);
            done.push((index, built));
        }
        Ok(done)
    }

    fn build_one(&self, unit: &Unit, group: &SameCall) -> Result<Built> {
        let started = Instant::now();
        let built = |stored: Stored, cached| Built {
            artifact: Some(artifact(unit, &stored)),
            facts: Seen::Got(stored.facts),
            cached,
            millis: started.elapsed().as_millis() as u64,
        };
        if let Some(stored) = self.artifacts.find(&group.key, &self.files) {
            return Ok(built(stored, true));
        }
        let scratch = TemporaryDir::new_in(&self.scratch).map_err(|error| {
            Error::environment(format!(
                "no directory can be created in {}: {error}",
                self.scratch.display()
            ))
        })?;
        let before = SystemTime::now();
        std::thread::sleep(TICK);
        let compiled = compile::compile(
            self.root,
            self.toolchain,
            scratch.path(),
            unit,
            &group.request,
            compile::DEADLINE,
        )?;
        match compiled {
            Ok(compiled) => {
                let inputs = self.inputs(unit, &compiled.included, before);
                self.artifacts
                    .store(&group.key, inputs, compiled)
                    .map(|stored| built(stored, false))
            }
            Err(fault) => Ok(Built {
                facts: Seen::Fault(fault),
                artifact: None,
                cached: false,
                millis: started.elapsed().as_millis() as u64,
            }),
        }
    }

    /// `None` where the same request may not be answered with this artifact again. A file that was
    /// written while nvcc ran is read here in a state that nvcc may not have seen.
    fn inputs(&self, unit: &Unit, included: &[String], before: SystemTime) -> Option<Dependencies> {
        let now = Files::below(self.root);
        let mut include_dirs = unit.include_dirs.clone();
        include_dirs.extend(inputs::include_dirs(&unit.flags)?);
        let search = HeaderSearch {
            include_dirs,
            toolkit: &self.toolchain.include,
        };
        let inputs = Dependencies::collect(&now, included, &search)?;
        let settled = included.iter().all(|file| !now.touched_since(file, before));
        settled.then_some(inputs)
    }
}

fn artifact(unit: &Unit, stored: &Stored) -> Artifact {
    let entries = stored.facts.entries.iter();
    let entries = entries
        .map(|entry| (entry.name.clone(), entry.symbol.clone()))
        .collect();
    match &unit.call {
        Callable::Entries { .. } => Artifact::Cubin {
            path: stored.file.clone(),
            entries,
            ptx: stored.ptx.clone(),
            constants: command::constants(&unit.call)
                .iter()
                .zip(&stored.facts.constants)
                .map(|(filled, facts)| FilledConstant {
                    name: facts.name.clone(),
                    symbol: facts.symbol.clone(),
                    tensor: filled.tensor.clone(),
                })
                .collect(),
        },
        Callable::Launcher { .. } => Artifact::Launcher {
            library: stored.file.clone(),
            function: command::SHIM.to_owned(),
            entries,
        },
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod reuse_tests;
