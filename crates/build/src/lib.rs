//! Turns source into machine code, and keeps what the compiler says of it.
//!
//! Knows nvcc's command line, its output and a cache of both. Knows nothing of limits or devices.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod apart;
pub mod assemble;
mod bounds;
mod cache;
pub mod code;
mod command;
mod compile;
mod cut;
pub mod depend;
mod entry;
pub mod files;
mod header;
mod identity;
pub mod inputs;
pub mod inventory;
pub mod missing;
pub mod ptxas;
mod refused;
pub mod search;
pub mod signature;
mod together;
pub mod toolchain;

use self::cache::{Artifacts, Stored};
pub use self::command::command_line;
use self::command::{CompileWay, NvccCall};
use self::compile::{CompileResult, Compiled, Workshop};
pub use self::entry::as_written;
use self::files::Files;
pub use self::header::{TOOLKIT, in_toolkit, is_of_system};
pub use self::identity::CubinError;
use self::inputs::Dependencies;
use self::search::SearchList;
use crate::apart::FileRead;
use crate::toolchain::Toolchain;
use model::{BuildFacts, Callable, Case, Fault, Seen, Unit};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use system::cache::Cache;
use system::error::{Error, Result};
use system::process::confine::Hidden;
use system::sources;
use system::temporary::TemporaryDir;
use tracing::{debug, debug_span};

/// The outcome of building one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    pub facts: Seen<BuildFacts>,
    /// The artifact, which is `None` exactly if there are no facts.
    pub artifact: Option<Artifact>,
    /// True if it was taken from the cache, and nvcc was not called.
    pub cached: bool,
    pub millis: u64,
    /// The files that it was made of. If it does not compile, the files that are known.
    pub read: Arc<[FileRead]>,
    /// The compiler's message without the hidden files, if the unit compiles only with them.
    pub unlisted: Option<String>,
}

/// The machine code's files, and the symbols in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Artifact {
    Cubin {
        path: PathBuf,
        /// The name as written and the symbol, for each step.
        entries: Vec<(String, String)>,
        /// The source of the machine code; paths in it are relative to the root. `None` for a cubin that was
        /// made elsewhere.
        ptx: Option<PathBuf>,
        constants: Vec<FilledConstant>,
    },
    /// PTX that the assembler refuses, and that only the simulator runs.
    Ptx {
        path: PathBuf,
        /// The entries, as for a cubin.
        entries: Vec<(String, String)>,
    },
    /// Several cubins, whose kernels are launched one after the other.
    Together {
        /// The modules, each of which is a cubin with one entry.
        modules: Vec<Artifact>,
        /// The number of the module for each step.
        steps: Vec<usize>,
    },
    Launcher {
        library: PathBuf,
        /// `int f(void** args)`, where `args[i]` points to the value of argument i.
        function: String,
        /// The declared entries in their order: name as written, and symbol.
        entries: Vec<(String, String)>,
    },
}

impl Artifact {
    /// Returns the variables that the host fills in each module. Only kernels that are launched together have several
    /// modules.
    pub fn constants(&self) -> Vec<&[FilledConstant]> {
        match self {
            Self::Cubin { constants, .. } => vec![constants],
            Self::Together { modules, .. } => modules.iter().flat_map(Self::constants).collect(),
            Self::Ptx { .. } | Self::Launcher { .. } => vec![&[]],
        }
    }

    /// Returns the artifact with the entries that a case launches.
    #[must_use]
    pub fn for_case(&self, case: &Case) -> Self {
        let mut of_case = self.clone();
        if let Self::Cubin { entries, .. } | Self::Ptx { entries, .. } = &mut of_case {
            *entries = case.choose(entries).into_iter().cloned().collect();
        }
        of_case
    }

    /// Returns the name as written and the symbol of the entry of each step. A launcher has none, because it decides
    /// itself what to launch.
    pub fn entries(&self) -> Vec<&(String, String)> {
        match self {
            Self::Cubin { entries, .. } | Self::Ptx { entries, .. } => entries.iter().collect(),
            Self::Together { modules, steps } => steps
                .iter()
                .filter_map(|at| modules.get(*at))
                .flat_map(Self::entries)
                .collect(),
            Self::Launcher { .. } => Vec::new(),
        }
    }
}

/// Returns the symbols of the `__device__` variables of a cubin.
///
/// # Errors
/// Returns an error if the bytes are no cubin.
pub fn written_variables(cubin: &[u8]) -> std::result::Result<Vec<String>, CubinError> {
    let cubin = identity::Cubin::parse(cubin)?;
    Ok(cubin
        .written()
        .into_iter()
        .map(|(symbol, _)| symbol.to_owned())
        .collect())
}

/// A `__constant__` or `__device__` variable of a cubin, and the tensor that fills it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilledConstant {
    /// The name as gates.yaml writes it.
    pub name: String,
    pub symbol: String,
    pub tensor: String,
}

/// The sources, the compiler and the cache of a build.
#[derive(Clone, Copy)]
pub struct Building<'a> {
    /// The directory that paths of sources are relative to.
    pub root: &'a Path,
    /// The files that the compiler cannot read.
    pub hidden: Option<&'a Hidden>,
    pub toolchain: &'a Toolchain,
    pub cache: &'a Cache,
    /// The number of compilations at a time.
    pub jobs: usize,
}

impl<'a> Building<'a> {
    /// Describes a build that hides nothing, and that compiles on all cores.
    pub fn new(root: &'a Path, toolchain: &'a Toolchain, cache: &'a Cache) -> Self {
        Self {
            root,
            hidden: None,
            toolchain,
            cache,
            jobs: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}

/// Builds every unit, in the order given. Units that share their source, definitions and flags are compiled together. A
/// unit that does not compile without the hidden files fails, and the files that it would have read are listed all the
/// same. `on_done` is called for each as it ends.
///
/// # Errors
/// Environment, if the machine failed. A source that does not compile is evidence, not an error.
pub fn build_all(
    building: Building,
    units: &[Unit],
    on_done: &(dyn Fn(&Unit, &Built) + Sync),
) -> Result<Vec<Built>> {
    if units.iter().any(Unit::is_group) {
        let built = |units: &[Unit]| build_all(building, units, &|_, _| {});
        return together::build(units, built, on_done);
    }
    let Building {
        root,
        toolchain,
        cache,
        ..
    } = building;
    let jobs = building.jobs.max(1);
    let mut outside: Vec<Outside> = units.iter().flat_map(Outside::list).collect();
    outside.sort_unstable();
    outside.dedup();
    let builder = Builder {
        building,
        artifacts: Artifacts::open(cache)?,
        files: Files::below(root),
        scratch: cache.dir("scratch")?,
        search_lists: Mutex::default(),
        outside,
        on_done,
    };
    let local: Vec<Unit> = units.iter().map(on_this_machine).collect();
    let mut calls: Vec<SameCall> = Vec::new();
    for (index, (unit, local)) in units.iter().zip(&local).enumerate() {
        let key = cache::request_key(unit, &NvccCall::for_unit(local), toolchain)?;
        let unit = local;
        match calls.iter_mut().find(|call| call.key == key) {
            Some(call) => call.others.push((index, unit)),
            None => calls.push(SameCall {
                key,
                first: (index, unit),
                others: Vec::new(),
            }),
        }
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| {
            Error::environment(format!("the compiler threads cannot be started: {error}"))
                .caused_by(error)
        })?;
    let built: Result<Vec<Vec<(usize, Built)>>> = pool.install(|| {
        let found: Vec<_> = calls
            .par_iter()
            .map(|call| builder.find(call).ok_or(call))
            .collect();
        let (mut built, mut missing) = (Vec::new(), Vec::new());
        for found in found {
            match found {
                Ok(found) => built.push(found),
                Err(call) => missing.push(call),
            }
        }
        let compiled: Result<Vec<_>> = group(missing, jobs)
            .par_iter()
            .map(|calls| builder.compile(calls))
            .collect();
        built.extend(compiled?);
        Ok(built)
    });
    let mut built: Vec<(usize, Built)> = built?.into_iter().flatten().collect();
    built.sort_by_key(|(index, _)| *index);
    Ok(built.into_iter().map(|(_, built)| built).collect())
}

/// Returns the content address of each unit's artifact, if the cache has it for the files below `root` as they are now.
///
/// # Errors
/// Environment, if the cache cannot be opened.
pub fn find_all(
    root: &Path,
    toolchain: &Toolchain,
    cache: &Cache,
    units: &[Unit],
) -> Result<Vec<Option<FoundArtifact>>> {
    let artifacts = Artifacts::open(cache)?;
    let files = Files::below(root);
    let find = |unit: &Unit| {
        // A group is found through its modules, when they are built.
        if unit.is_group() {
            return Ok(None);
        }
        let local = on_this_machine(unit);
        let key = cache::request_key(unit, &NvccCall::for_unit(&local), toolchain)?;
        let stored = artifacts.find(&key, &files);
        Ok(stored.map(|(stored, digests)| FoundArtifact {
            artifact: stored.facts.artifact,
            read: files_read(&files, digests),
        }))
    };
    units.iter().map(find).collect()
}

/// An artifact that the cache has.
pub struct FoundArtifact {
    /// The content address of the artifact.
    pub artifact: String,
    /// The files that the artifact was made of.
    pub read: Arc<[FileRead]>,
}

/// Returns the files that a kept compilation read. Their digests are unchanged.
fn files_read(files: &Files, digests: BTreeMap<String, String>) -> Arc<[FileRead]> {
    digests
        .into_iter()
        .map(|(file, digest)| files.file_read(&file, Some(digest)))
        .collect()
}

/// Returns the unit with directories as nvcc finds them. A variable that is gone by now stays as it was written, and
/// nvcc then finds no such directory.
fn on_this_machine(unit: &Unit) -> Unit {
    let here = |written: &String| {
        sources::expand(written, &sources::read_variable).unwrap_or_else(|_| written.clone())
    };
    Unit {
        include_dirs: unit.include_dirs.iter().map(here).collect(),
        ..unit.clone()
    }
}

/// A directory that a variable names: the compiler's messages name it as gates.yaml does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outside {
    here: String,
    written: String,
}

impl Outside {
    fn list(unit: &Unit) -> impl Iterator<Item = Self> {
        unit.include_dirs.iter().filter_map(|written| {
            let here = sources::expand(written, &sources::read_variable).ok()?;
            (here != *written).then(|| Self {
                here,
                written: written.clone(),
            })
        })
    }
}

/// Units that ask nvcc for the same thing, with their places in the plan.
struct SameCall<'a> {
    key: String,
    first: (usize, &'a Unit),
    others: Vec<(usize, &'a Unit)>,
}

/// Groups the calls that are compiled together. Spreads instances where cores would idle: reading a source twice at once takes
/// no longer than reading it once.
fn group<'a, 'b>(calls: Vec<&'a SameCall<'b>>, jobs: usize) -> Vec<Vec<&'a SameCall<'b>>> {
    let shared = |call: &SameCall| {
        let unit = call.first.1;
        let launcher = matches!(unit.call, Callable::Launcher { .. }).then(|| call.key.clone());
        (
            (unit.id.arch, CompileWay::for_unit(unit), launcher),
            (unit.source.clone(), unit.include_dirs.clone()),
            (unit.defines.clone(), unit.flags.clone()),
        )
    };
    let mut groups: Vec<(_, Vec<&SameCall>)> = Vec::new();
    for call in calls {
        let shared = shared(call);
        match groups.iter_mut().find(|(other, _)| *other == shared) {
            Some((_, group)) => group.push(call),
            None => groups.push((shared, vec![call])),
        }
    }
    let parts = (jobs / groups.len().max(1)).max(1);
    groups
        .into_iter()
        .flat_map(|(((_, way, _), ..), group)| {
            let size = match way {
                CompileWay::Instance => group.len().div_ceil(parts),
                CompileWay::Source | CompileWay::Library | CompileWay::Ptx | CompileWay::Cubin => {
                    group.len()
                }
            };
            group
                .chunks(size.max(1))
                .map(<[_]>::to_vec)
                .collect::<Vec<_>>()
        })
        .collect()
}

struct Builder<'a> {
    building: Building<'a>,
    artifacts: Artifacts,
    files: Files,
    scratch: PathBuf,
    outside: Vec<Outside>,
    /// The search lists by the flags of a unit. A list is `None` if the compiler does not say.
    search_lists: Mutex<BTreeMap<Vec<String>, Option<SearchList>>>,
    on_done: &'a (dyn Fn(&Unit, &Built) + Sync),
}

/// The time by which the clock that stamps files may lag, a tick of the operating system (at most 10 ms).
const TICK: Duration = Duration::from_millis(20);

impl Builder<'_> {
    fn find(&self, call: &SameCall) -> Option<Vec<(usize, Built)>> {
        let started = Instant::now();
        let unit = call.first.1;
        let _span = debug_span!("find_build", unit = %unit.id).entered();
        debug!(
            key = call.key,
            source = unit.source,
            arguments = ?NvccCall::for_unit(unit).args,
            compiler = self.building.toolchain.facts.version,
            "request"
        );
        let (stored, digests) = self.artifacts.find(&call.key, &self.files)?;
        let read = files_read(&self.files, digests);
        let made = Made {
            stored: Ok(stored),
            read,
            unlisted: None,
        };
        Some(self.hand_out(call, made, true, started))
    }

    fn compile(&self, calls: &[&SameCall]) -> Result<Vec<(usize, Built)>> {
        let started = Instant::now();
        let units: Vec<&Unit> = calls.iter().map(|call| call.first.1).collect();
        let ids: Vec<String> = units.iter().map(|unit| unit.id.to_string()).collect();
        let _span = debug_span!("compile", units = ?ids).entered();
        let scratch = TemporaryDir::new_in(&self.scratch).map_err(|error| {
            Error::environment(format!(
                "no directory can be created in {}: {error}",
                self.scratch.display()
            ))
            .caused_by(error)
        })?;
        let before = SystemTime::now();
        std::thread::sleep(TICK);
        let shop = Workshop {
            root: self.building.root,
            toolchain: self.building.toolchain,
            scratch: scratch.path(),
            outside: &self.outside,
            hidden: self.building.hidden,
            deadline: compile::DEADLINE,
        };
        let mut inputs: Vec<Inputs> = Vec::new();
        let mut built = Vec::new();
        let (outcomes, is_known) = match units.first() {
            Some(first) if CompileWay::for_unit(first) == CompileWay::Source => {
                self.compile_source(shop, first, &units, before)?
            }
            _ => (compile::compile(shop, &units)?, false),
        };
        let in_sight = self.compile_in_sight(shop, &units, &outcomes)?;
        for (at, ((call, outcome), in_sight)) in
            calls.iter().zip(outcomes).zip(in_sight).enumerate()
        {
            let made = match (outcome, in_sight) {
                (Ok(compiled), _) => {
                    let inputs = self.inputs_once(&mut inputs, call.first.1, &compiled, before);
                    let stored = self.artifacts.store(&call.key, inputs.reusable, compiled)?;
                    Made {
                        stored: Ok(stored),
                        read: inputs.read,
                        unlisted: None,
                    }
                }
                (Err(fault), Some(Ok(compiled))) => {
                    let inputs = self.inputs_once(&mut inputs, call.first.1, &compiled, before);
                    Made {
                        unlisted: Some(fault.message.clone()),
                        stored: Err(fault),
                        read: inputs.read,
                    }
                }
                (Err(fault), _) => Made {
                    stored: Err(fault),
                    read: Arc::default(),
                    unlisted: None,
                },
            };
            // All entries of a source are one compilation.
            let is_same_run =
                is_known || at > 0 && CompileWay::for_unit(call.first.1) != CompileWay::Instance;
            built.extend(self.hand_out(call, made, is_same_run, started));
        }
        Ok(built)
    }

    /// Compiles once more the units that failed without the hidden files, but with them. This only shows which files
    /// they need.
    fn compile_in_sight(
        &self,
        shop: Workshop,
        units: &[&Unit],
        outcomes: &[CompileResult],
    ) -> Result<Vec<Option<CompileResult>>> {
        let broken: Vec<&Unit> = outcomes
            .iter()
            .zip(units)
            .filter(|(outcome, _)| outcome.is_err() && self.building.hidden.is_some())
            .map(|(_, unit)| *unit)
            .collect();
        let mut again = Vec::new();
        if !broken.is_empty() {
            let scratch = shop.scratch.join("in-sight");
            std::fs::create_dir(&scratch).map_err(|error| {
                Error::environment(format!("the compiler: {}: {error}", scratch.display()))
                    .caused_by(error)
            })?;
            let shop = Workshop {
                hidden: None,
                scratch: &scratch,
                ..shop
            };
            again = compile::compile(shop, &broken)?;
        }
        let mut again = again.into_iter();
        Ok(outcomes
            .iter()
            .map(|outcome| outcome.is_err().then(|| again.next()).flatten())
            .collect())
    }

    /// Compiles a source. That gives all of its entries at once, and a later run can use those that this one does not
    /// need. Also returns whether an earlier run compiled it.
    fn compile_source(
        &self,
        shop: Workshop,
        first: &Unit,
        units: &[&Unit],
        before: SystemTime,
    ) -> Result<(Vec<CompileResult>, bool)> {
        let key = cache::source_key(first, &NvccCall::for_unit(first), self.building.toolchain)?;
        if let Some(source) = self.artifacts.find_source(&key, &self.files) {
            return Ok((source.units(units), true));
        }
        let source = match compile::compile_source(shop, first)? {
            Ok(source) => source,
            Err(fault) => return Ok((units.iter().map(|_| Err(fault.clone())).collect(), false)),
        };
        // Without inputs, no later run would find it.
        let inputs = self.inputs(first, &source.included, &[], before);
        if let Some(inputs) = inputs.reusable {
            self.artifacts.store_source(&key, Some(inputs), &source)?;
        }
        Ok((source.units(units), false))
    }

    /// Gives one outcome to all units that asked for it.
    fn hand_out(
        &self,
        call: &SameCall,
        made: Made,
        cached: bool,
        started: Instant,
    ) -> Vec<(usize, Built)> {
        let Made {
            stored,
            read,
            unlisted,
        } = made;
        let (artifact, facts) = match stored {
            Ok(stored) => (
                Some(artifact(call.first.1, &stored)),
                Seen::Got(stored.facts),
            ),
            Err(fault) => (None, Seen::Fault(fault)),
        };
        let millis = started.elapsed().as_millis() as u64;
        let first = Built {
            facts,
            artifact,
            cached,
            millis,
            read,
            unlisted,
        };
        let is_built = first.artifact.is_some();
        debug!(unit = %call.first.1.id, is_built, cached, millis, "build ended");
        let again = Built {
            cached: true,
            millis: 0,
            ..first.clone()
        };
        let others = call.others.iter().map(|&other| (other, again.clone()));
        let all = std::iter::once((call.first, first)).chain(others);
        all.map(|((index, unit), built)| {
            (self.on_done)(unit, &built);
            (index, built)
        })
        .collect()
    }

    /// Reads the inputs of units that were compiled together only once, because they are the same.
    fn inputs_once(
        &self,
        known: &mut Vec<Inputs>,
        unit: &Unit,
        compiled: &Compiled,
        before: SystemTime,
    ) -> Inputs {
        if let Some(inputs) = known
            .iter()
            .find(|inputs| inputs.included == compiled.included)
        {
            return inputs.clone();
        }
        let inputs = self.inputs(unit, &compiled.included, &compiled.loaded, before);
        known.push(inputs.clone());
        inputs
    }

    fn inputs(
        &self,
        unit: &Unit,
        included: &[String],
        loaded: &[String],
        before: SystemTime,
    ) -> Inputs {
        let now = Files::below(self.building.root);
        let listed = included.iter();
        let loaded = loaded.iter();
        // A file that was written while nvcc ran is read here, but nvcc may not have seen the same content.
        let read: Arc<[FileRead]> = listed
            .map(|file| {
                let digest = now.digest(file);
                now.file_read(file, digest.filter(|_| !now.touched_since(file, before)))
            })
            .chain(loaded.map(|file| FileRead::read_since(self.building.root, file, before)))
            .collect();
        let settled = read.iter().all(|file| file.digest.is_some());
        let reusable = settled
            .then(|| self.dependencies(unit, included, &now))
            .flatten();
        if reusable.is_none() {
            debug!(unit = %unit.id, settled, "not kept: its inputs are not all known");
        }
        Inputs {
            included: included.to_vec(),
            reusable,
            read,
        }
    }

    fn dependencies(&self, unit: &Unit, included: &[String], now: &Files) -> Option<Dependencies> {
        let named = inputs::headers_in_flags(&unit.flags)?;
        let search = self.search_list(unit)?;
        let definitions: Vec<&str> = unit
            .defines
            .values()
            .chain(&unit.flags)
            .map(String::as_str)
            .collect();
        Dependencies::collect(now, included, (&named, &definitions.join(" ")), &search)
    }

    /// Asks the compiler where it looks for headers, once for all units with the same flags.
    fn search_list(&self, unit: &Unit) -> Option<SearchList> {
        // Definitions do not name directories.
        let mut args = NvccCall::for_unit(unit).args;
        args.retain(|arg| !arg.starts_with("-D"));
        let known = || {
            self.search_lists
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(list) = known().get(&args) {
            return list.clone();
        }
        let list = SearchList::ask_nvcc(self.building.toolchain, self.building.root, &args);
        known().insert(args, list.clone());
        list
    }
}

/// The result of compiling one source.
struct Made {
    stored: std::result::Result<Stored, Fault>,
    read: Arc<[FileRead]>,
    unlisted: Option<String>,
}

/// The files that a compilation read.
#[derive(Clone)]
struct Inputs {
    included: Vec<String>,
    /// `None` if the same request may not be answered with this artifact again.
    reusable: Option<Dependencies>,
    read: Arc<[FileRead]>,
}

/// Returns an earlier build, if the cache still has it.
///
/// # Errors
/// Environment, if the cache cannot be used.
pub fn stored(
    cache: &Cache,
    toolchain: &Toolchain,
    unit: &Unit,
    facts: &BuildFacts,
) -> Result<Option<Artifact>> {
    let local = on_this_machine(unit);
    if unit.is_group() {
        return Ok(None);
    }
    let key = cache::request_key(unit, &NvccCall::for_unit(&local), toolchain)?;
    let stored = Artifacts::open(cache)?.load(&key, &facts.artifact);
    Ok(stored.map(|stored| artifact(&local, &stored)))
}

fn artifact(unit: &Unit, stored: &Stored) -> Artifact {
    let entries = stored
        .facts
        .entries
        .iter()
        .map(|entry| (entry.name.clone(), entry.symbol.clone()))
        .collect();
    let is_assembled = stored
        .facts
        .entries
        .iter()
        .all(|entry| entry.resources.is_some());
    match (&unit.call, &stored.ptx) {
        (Callable::Entries { .. }, Some(ptx)) if !is_assembled => Artifact::Ptx {
            path: ptx.clone(),
            entries,
        },
        (Callable::Entries { .. } | Callable::Compiled { .. } | Callable::Together { .. }, _) => {
            Artifact::Cubin {
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
            }
        }
        (Callable::Launcher { .. }, _) => Artifact::Launcher {
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
