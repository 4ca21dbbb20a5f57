//! gates.yaml: what was written (`raw`) to a plan and its gates, with every expression evaluated.
//!
//! The whole file is resolved before anything is selected, so a mistake is found whatever is run. Knows
//! nothing of compilers, devices or evidence; from the disk it wants only whether a path is there.
//!
//! A variant may only add to its kernel or replace: its `gates` win metric by metric, and none can be
//! taken away. A limit on resources may be a mapping by architecture (all of them, or with a `default`),
//! any other limit a mapping by shape (a shape that is not named has no such limit). A limit that refers
//! to a variant outside the selection pulls nothing in; what is not run is judged as not run.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod accepted;
mod apply;
mod call;
mod condition;
mod context;
mod defaults;
mod expect;
mod fallback;
mod flags;
mod gates;
mod image;
mod kernel;
mod layout;
mod limit;
mod memory;
mod packed;
mod places;
mod raw;
mod reference;
mod rival;
mod scope;
mod select;
mod shape;
mod target;
mod tensor;
#[cfg(test)]
mod tests;
mod tree;
mod tune;
mod yaml;

pub use accepted::{load_acceptances, validate_acceptances};
pub use apply::{VariantChange, apply_variant};
pub use kernel::ResolvedVariant;
pub use limit::parse_change;
pub use places::{Owner, Places};
pub use select::{narrow, parse_filters};
pub use tune::{Budget, Tune, Tuning, load_tuning};

use kernel::{Outside, PathKind, Shared};
use model::{
    Arch, CaseId, DEFAULT_CONFIG, Gate, Metric, Pairing, Plan, Rule, Schedule, Simulation, Target,
};
use raw::RawSimulation;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use system::error::{Diagnostic, Error, Result};
use system::files::{self, Kind};
use system::sources;
use yaml::{Problem, Source, Spanned};

/// Version of the format that this program reads.
const VERSION: u32 = 1;

/// Warp instructions that a case may be given to be simulated: from the least kernel to a day.
pub const BUDGETS: RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// The part of the file to run. Empty means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `kernel`, `kernel/variant`, `kernel@shape`, `kernel/variant@shape`; each part a glob. A case is
    /// selected by any of them.
    pub filters: Vec<String>,
    /// Instead of those of the file.
    pub seeds: Option<Vec<u64>>,
    /// Batched samples of each process, instead of those of the file.
    pub iters: Option<u32>,
    /// Warp instructions that a case may be given to be simulated, instead of those of the file.
    pub sim_budget: Option<u64>,
}

/// The compiler that the file asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolchainPin {
    /// CUDA release: `13.0` or `13.0.2`.
    pub cuda: Option<String>,
}

/// A file with all of its cases, and with what the selection has instead of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    pub plan: Plan,
    pub gates: Vec<Gate>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// Directory of gates.yaml; paths of the plan are relative to it.
    pub root: PathBuf,
    /// Name of the file: `gates.yaml`.
    pub file: String,
    pub places: Places,
    pub plan: Plan,
    pub gates: Vec<Gate>,
    pub targets: Vec<Target>,
    pub toolchain: ToolchainPin,
    /// Every case of the file, selected or not.
    pub all: Vec<CaseId>,
    /// As if no filter had been asked for.
    pub whole: Whole,
    /// Whether the selection has other seeds than the file.
    pub reseeded: bool,
    /// Everything that can be tuned, selected or not.
    pub tunes: Vec<Tune>,
}

/// The gates file of the nearest directory above this one, as in `../../gates.yaml`, for a command that was typed
/// below it and names no other.
fn find_config_above(path: &Path) -> Option<String> {
    let here = std::env::current_dir().ok()?;
    let mut above = here.ancestors().skip(1);
    let steps = above.position(|dir| dir.join(DEFAULT_CONFIG).is_file())? + 1;
    (path == Path::new(DEFAULT_CONFIG)).then(|| format!("{}{DEFAULT_CONFIG}", "../".repeat(steps)))
}

/// Reads, checks and resolves `path`, and selects.
///
/// # Errors
/// Usage, for anything wrong with the file or the selection, with line, column and key.
pub fn load(path: &Path, selection: &Selection) -> Result<Loaded> {
    let file = File::read(path)?;
    let top = find_top(&file.root);
    load_file(file, top.as_deref(), selection)
}

/// The same for a file in a tree that need not be a repository, as the files of another revision are none.
///
/// # Errors
/// As above.
pub fn load_in_tree(top: &Path, path: &Path, selection: &Selection) -> Result<Loaded> {
    let top = std::fs::canonicalize(top).ok();
    load_file(File::read(path)?, top.as_deref(), selection)
}

fn load_file(file: File, top: Option<&Path>, selection: &Selection) -> Result<Loaded> {
    let File { root, name, text } = file;
    let disk = on_disk(&root, top);
    let mut resolved = parse(&name, &text, &disk, &sources::of_process).map_err(Error::Usage)?;
    drop(disk);
    let all = resolved.plan.cases.iter().map(|case| case.id.clone());
    let all = all.collect();
    let whole = select::select(&mut resolved, selection).map_err(Error::Usage)?;
    Ok(Loaded {
        root,
        places: Places {
            file: name.clone(),
            text,
        },
        file: name,
        plan: resolved.plan,
        gates: resolved.gates,
        targets: resolved.targets,
        toolchain: resolved.toolchain,
        all,
        whole,
        reseeded: selection.seeds.is_some(),
        tunes: resolved.tunes,
    })
}

/// A gates file as it is written.
struct File {
    /// Its directory.
    root: PathBuf,
    name: String,
    text: String,
}

impl File {
    fn read(path: &Path) -> Result<Self> {
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        let root = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let bytes = files::read(path, files::WRITTEN).map_err(|error| {
            let diagnostic = Diagnostic::new(format!("cannot be read: {error}")).at(path.display());
            Error::Usage(match error.kind() {
                std::io::ErrorKind::NotFound => match find_config_above(path) {
                    Some(there) => diagnostic.help(format!(
                        "there is one in a parent directory: --config {there}"
                    )),
                    None => diagnostic
                        .help("write one with `gatekeeper init`, or name another with --config"),
                },
                std::io::ErrorKind::IsADirectory => diagnostic.help(format!(
                    "name the file in it: --config {}",
                    path.join(DEFAULT_CONFIG).display()
                )),
                _ => diagnostic,
            })
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error
                .as_bytes()
                .get(..error.utf8_error().valid_up_to())
                .unwrap_or_default();
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            Error::usage("not valid UTF-8").at(format!("{name}:{line}"))
        })?;
        Ok(Self { root, name, text })
    }
}

/// Looks up the kind of a path below a directory, or above it in the same repository.
fn on_disk<'a>(root: &'a Path, top: Option<&'a Path>) -> impl Fn(&str) -> Option<PathKind> + 'a {
    move |path| {
        let place = root.join(path);
        let metadata = std::fs::metadata(&place).ok()?;
        if let Some(outside) = find_outside(top, path, &place) {
            return Some(PathKind::Outside(outside));
        }
        Some(match Kind::of(&metadata) {
            Kind::Directory => PathKind::Directory,
            Kind::File if metadata.len() > files::SOURCE => PathKind::LargeFile,
            Kind::File => PathKind::File,
            Kind::Special => PathKind::Special,
        })
    }
}

/// The top of the repository that a directory is in, with all links followed.
fn find_top(root: &Path) -> Option<PathBuf> {
    let root = std::fs::canonicalize(root).ok()?;
    let mut dirs = root.ancestors();
    // A worktree and a submodule have a file of this name.
    let top = dirs.find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
    Some(top.to_owned())
}

/// Why a path that goes up is none of the repository, if it is none.
fn find_outside(top: Option<&Path>, path: &str, place: &Path) -> Option<Outside> {
    if path != ".." && !path.starts_with("../") {
        return None;
    }
    let Some(top) = top else {
        return Some(Outside::Everything);
    };
    // Where links lead to, so that none leads out.
    let is_inside = std::fs::canonicalize(place).is_ok_and(|it| it.starts_with(top));
    (!is_inside).then_some(Outside::Repository)
}

/// Whether a text is a file of gates, by what it says: whatever its name, and right or wrong.
pub fn is_gates(text: &str) -> bool {
    let source = Source::parse("", text);
    source.is_ok_and(|source| ["version", "kernels"].iter().all(|key| source.has(key)))
}

/// How head is timed against a base revision.
pub fn pairing(unchanged: bool) -> Pairing {
    defaults::pairing(unchanged)
}

/// How times are taken without a gates.yaml.
pub fn default_timing() -> Schedule {
    defaults::TIMING
}

/// JSON Schema of gates.yaml, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(raw::GatesFile).to_value()
}

/// The file that `gatekeeper init` writes: the smallest useful one, with comments.
pub fn template() -> &'static str {
    include_str!("template.yaml")
}

/// Whether a text is a right file of gates in this directory.
///
/// # Errors
/// The mistakes in it.
pub fn check(root: &Path, text: &str) -> std::result::Result<(), Diagnostic> {
    let top = find_top(root);
    let disk = on_disk(root, top.as_deref());
    parse(DEFAULT_CONFIG, text, &disk, &sources::of_process).map(drop)
}

struct Resolved {
    plan: Plan,
    gates: Vec<Gate>,
    targets: Vec<Target>,
    toolchain: ToolchainPin,
    tunes: Vec<Tune>,
}

fn parse(
    file: &str,
    text: &str,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> std::result::Result<Resolved, Diagnostic> {
    let source = Source::parse(file, text)?;
    check_version(&source)
        .and_then(|()| source.read())
        .and_then(|raw| resolve_file(&raw, file, disk, environment))
        .map_err(|problem| source.diagnose(&problem))
}

/// Before anything else: another version may have other keys.
fn check_version(source: &Source<'_>) -> std::result::Result<(), Problem> {
    let first = source.first_entry();
    let help = format!("the first line must be `version: {VERSION}`");
    match first {
        Some((key, value)) if key.value == "version" => match value {
            Some(value) if value.value == VERSION.to_string() => Ok(()),
            Some(value) => Err(Problem::new(
                value.at,
                format!(
                    "unknown version {}: this gatekeeper reads version {VERSION}",
                    value.value
                ),
            )),
            None => Err(Problem::new(key.at, "the version must be a number").help(help)),
        },
        Some((key, _)) => Err(Problem::new(key.at, "`version` must come first").help(help)),
        None => Err(Problem::new(source.start(), "expected a mapping").help(help)),
    }
}

fn resolve_file(
    raw: &raw::GatesFile,
    file: &str,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> std::result::Result<Resolved, Problem> {
    let architectures = resolve_architectures(&raw.architectures)?;
    let shared = Shared {
        file,
        architectures: &architectures,
        flags: &raw.flags,
        disk,
        environment,
    };
    let mut resolved = Resolved {
        plan: Plan {
            simulation: resolve_simulation(&raw.simulation)?,
            ..Plan::empty(resolve_timing(&raw.timing)?)
        },
        gates: Vec::new(),
        targets: Vec::new(),
        toolchain: ToolchainPin {
            cuda: raw.toolchain.cuda.as_ref().map(check_release).transpose()?,
        },
        tunes: Vec::new(),
    };
    if raw.kernels.is_empty() {
        return Err(Problem::new(
            raw.kernels.at,
            "no kernels: nothing would be judged",
        ));
    }
    for (name, kernel) in raw.kernels.iter() {
        let kernel = kernel::resolve_kernel(name, kernel, &shared)?;
        resolved.plan.units.extend(kernel.units);
        resolved.plan.cases.extend(kernel.cases);
        resolved.plan.expected.extend(kernel.expected);
        resolved.plan.fallbacks.extend(kernel.fallbacks);
        resolved.gates.extend(kernel.gates);
        resolved.targets.extend(kernel.targets);
        resolved.plan.rivals.extend(kernel.rivals);
        resolved.tunes.extend(kernel.tunes);
    }
    if let Some(singles) = &raw.timing.singles {
        check_singles(singles, &resolved.gates)?;
    }
    Ok(resolved)
}

/// A limit that these could never decide is an error before anything is measured.
fn check_singles(singles: &Spanned<u32>, gates: &[Gate]) -> std::result::Result<(), Problem> {
    let limited = gates.iter().filter_map(|gate| match gate.rule {
        Rule::Limit { metric, .. } => Some(metric),
        _ => None,
    });
    let short = |metric: &Metric| singles.value < metric.least_singles();
    match limited.filter(short).max_by_key(|it| it.least_singles()) {
        None => Ok(()),
        Some(metric) => Err(Problem::new(
            singles.at,
            format!(
                "{} samples are too few for the limit on {metric}, which needs {}",
                singles.value,
                metric.least_singles()
            ),
        )),
    }
}

fn resolve_architectures(
    raw: &Spanned<Vec<Spanned<String>>>,
) -> std::result::Result<Vec<Arch>, Problem> {
    if raw.is_empty() {
        return Err(Problem::new(
            raw.at,
            "no architectures: nothing would be built",
        ));
    }
    let mut architectures = Vec::new();
    for name in raw.iter() {
        let arch: Arch = name
            .parse()
            .map_err(|error: model::BadArch| Problem::new(name.at, error.to_string()))?;
        if architectures.contains(&arch) {
            return Err(Problem::new(
                name.at,
                format!("duplicate architecture {arch}"),
            ));
        }
        architectures.push(arch);
    }
    Ok(architectures)
}

fn check_release(raw: &Spanned<String>) -> std::result::Result<String, Problem> {
    let parts: Vec<_> = raw.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if (2..=3).contains(&parts.len()) && parts.iter().all(number) {
        return Ok(raw.value.clone());
    }
    Err(
        Problem::new(raw.at, format!("`{}` is not a CUDA release", raw.value))
            .help("examples: \"13.0\", \"13.0.2\""),
    )
}

fn resolve_simulation(raw: &RawSimulation) -> std::result::Result<Simulation, Problem> {
    let warp_hazards = raw
        .warp_hazards
        .unwrap_or(defaults::SIMULATION.warp_hazards);
    let budget = defaults::SIMULATION.budget;
    match &raw.budget {
        None => Ok(Simulation {
            budget,
            warp_hazards,
        }),
        Some(budget) if BUDGETS.contains(&budget.value) => Ok(Simulation {
            budget: budget.value,
            warp_hazards,
        }),
        Some(budget) => Err(Problem::new(
            budget.at,
            format!(
                "the budget is {} warp instructions; it must be between {} and {}",
                budget.value,
                BUDGETS.start(),
                BUDGETS.end()
            ),
        )),
    }
}

fn resolve_timing(raw: &raw::Timing) -> std::result::Result<Schedule, Problem> {
    let count = |written: &Option<Spanned<u32>>, absent: u32, least: u32, most: u32| match written {
        None => Ok(absent),
        Some(count) if (least..=most).contains(&count.value) => Ok(count.value),
        Some(count) => Err(Problem::new(
            count.at,
            format!("{} must be between {least} and {most}", count.value),
        )),
    };
    let absent = defaults::TIMING;
    let processes = count(&raw.processes, absent.processes, 1, 100)?;
    let most = absent.max_processes.max(processes);
    Ok(Schedule {
        mode: raw.mode.unwrap_or(absent.mode),
        warmup: count(&raw.warmup, absent.warmup, 0, 100_000)?,
        iterations: count(&raw.iterations, absent.iterations, 1, 100_000)?,
        singles: count(&raw.singles, absent.singles, 1, 100_000)?,
        batch_ns: match &raw.batch {
            None => absent.batch_ns,
            Some(batch) => scope::parse_duration(batch, "a batch", 1e3..=1e9)? as u64,
        },
        processes,
        max_processes: count(&raw.max_processes, most, processes, 100)?,
    })
}
