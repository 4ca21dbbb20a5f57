//! Loads a gates file from the disk, resolves it to a plan and its gates, and selects cases.

use super::architectures::resolve_architectures;
use super::binaries;
use super::disk::{PathKind, find_top, on_disk};
use super::kernel;
use super::loaded::Loaded;
use super::paths::Shared;
use super::places::Places;
use super::programs;
use super::raw::{self, RawSimulation};
use super::select::{self, Selection};
use super::source::Source;
use super::yaml::{Mistake, Spanned};
use super::{defaults, scope};
use model::{DEFAULT_CONFIG, Metric, Plan, Rule, Schedule, Simulation};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use system::error::{self, Diagnostic, Error};
use system::files;
use system::sources;

/// The version of the format that this program reads.
const VERSION: u32 = 1;

/// The range of warp instructions that a simulated case may be given, from the smallest kernel to a day.
const BUDGETS: RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// Returns the nearest directory above this one that has a gates file, as `../..`.
pub fn find_above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut above = here.ancestors().skip(1);
    let steps = above.position(|dir| dir.join(DEFAULT_CONFIG).is_file())? + 1;
    Some(std::iter::repeat_n("..", steps).collect())
}

/// Reads, checks and resolves the file `path`, and selects cases.
///
/// # Errors
/// Usage, for anything wrong with the file or the selection, with line, column and key.
pub fn load(path: &Path, selection: &Selection) -> error::Result<Loaded> {
    let file = File::read(path)?;
    let top = find_top(&file.root);
    load_file(&file, top.as_deref(), selection)
}

/// Loads a file in a tree that need not be a repository. The files of another revision are such a tree.
///
/// # Errors
/// Returns the errors of [`load`].
pub fn load_in_tree(top: &Path, path: &Path, selection: &Selection) -> error::Result<Loaded> {
    let top = std::fs::canonicalize(top).ok();
    load_file(&File::read(path)?, top.as_deref(), selection)
}

fn load_file(file: &File, top: Option<&Path>, selection: &Selection) -> error::Result<Loaded> {
    let source = Source::parse(&file.name, &file.text).map_err(Error::Usage)?;
    let disk = on_disk(&file.root, top);
    let mut loaded = resolve_file(&source, &disk, &sources::read_variable)
        .map_err(|problem| Error::Usage(source.diagnose(&problem)))?;
    loaded.root.clone_from(&file.root);
    select::select(&mut loaded, selection).map_err(Error::Usage)?;
    Ok(loaded)
}

/// A gates file as it is written.
pub struct File {
    /// The directory that contains the gates file.
    root: PathBuf,
    pub name: String,
    pub text: String,
}

impl File {
    pub fn read(path: &Path) -> error::Result<Self> {
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        let root = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let bytes = files::read(path, files::WRITTEN).map_err(|error| {
            let diagnostic =
                Diagnostic::new(format!("cannot be read: {error}")).at(path.display().to_string());
            Error::Usage(match error.kind() {
                std::io::ErrorKind::NotFound => match find_above() {
                    Some(there) if path == Path::new(DEFAULT_CONFIG) => diagnostic.help(format!(
                        "one in a parent directory has another owner; if you trust it: --config {}/{DEFAULT_CONFIG}",
                        there.display()
                    )),
                    _ => diagnostic
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
            Error::Usage(Diagnostic::new("not valid UTF-8").at(format!("{name}:{line}")))
        })?;
        Ok(Self { root, name, text })
    }
}

/// Checks that a text is a correct file of gates in this directory.
///
/// # Errors
/// Returns the first mistake in it.
pub fn validate_text(root: &Path, text: &str) -> error::Result<()> {
    let file = File {
        root: root.to_owned(),
        name: DEFAULT_CONFIG.to_owned(),
        text: text.to_owned(),
    };
    load_file(&file, find_top(root).as_deref(), &Selection::default()).map(drop)
}

/// Checks the version first, because a file of another version may have other keys.
pub fn check_version(source: &Source<'_>) -> Result<(), Mistake> {
    let first = source.first_entry();
    let help = format!("the first line must be `version: {VERSION}`");
    match first {
        Some((key, value)) if key.value == "version" => match value {
            Some(value) if value.value == VERSION.to_string() => Ok(()),
            Some(value) => Err(value.problem(format!(
                "unknown version {value}: this gatekeeper reads version {VERSION}"
            ))),
            None => Err(key.problem("the version must be a number").help(help)),
        },
        Some((key, _)) => Err(key.problem("`version` must come first").help(help)),
        None => Err(Mistake::new(source.start(), "expected a mapping").help(help)),
    }
}

/// Resolves all of a file, and selects nothing.
pub fn resolve_file(
    source: &Source<'_>,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Mistake> {
    check_version(source)?;
    let raw: raw::GatesFile = source.read()?;
    let file = source.name();
    let missing = |key: &str, help: &str| {
        Mistake::new(source.start(), format!("the key `{key}` is missing")).help(help)
    };
    let architectures = match (&raw.architectures, &raw.kernels) {
        (Some(written), _) => resolve_architectures(written)?,
        (None, Some(_)) => return Err(missing("architectures", "architectures: [sm_90]")),
        (None, None) => Vec::new(),
    };
    let shared = Shared {
        file,
        architectures: &architectures,
        flags: &raw.flags,
        disk,
        environment,
    };
    let plan = Plan {
        simulation: resolve_simulation(&raw.simulation)?,
        ..Plan::empty(resolve_timing(&raw.timing)?)
    };
    let places = Places {
        file: file.to_owned(),
        text: source.text().to_owned(),
    };
    let mut loaded = Loaded::new(places, plan, Vec::new());
    loaded.toolchain.cuda = raw.toolchain.cuda.as_ref().map(check_release).transpose()?;
    match (&raw.kernels, &raw.binaries, &raw.programs) {
        (Some(kernels), ..) if kernels.is_empty() => {
            return Err(kernels.problem("no kernels: nothing would be judged"));
        }
        (_, Some(binaries), _) if binaries.is_empty() => {
            return Err(binaries.problem("no binaries: nothing would be judged"));
        }
        (.., Some(programs)) if programs.is_empty() => {
            return Err(programs.problem("no programs: nothing would be judged"));
        }
        (None, None, None) => {
            return Err(missing("kernels", "kernels: {NAME: {source: FILE.cu, entry: FUNCTION, ...}}")
                .help("or, for files that are compiled already: binaries: {NAME: {file: FILE.so, architectures: [sm_90]}}"));
        }
        _ => {}
    }
    for (name, binary) in raw.binaries.iter().flat_map(|all| all.iter()) {
        let binary = binaries::resolve_binary(name, binary, file)?;
        loaded.binaries.push(binary);
    }
    for (name, program) in raw.programs.iter().flat_map(|all| all.iter()) {
        let program = programs::resolve_program(name, program, raw.kernels.as_ref(), &shared)?;
        loaded.programs.push(program);
    }
    for (name, kernel) in raw.kernels.iter().flat_map(|all| all.iter()) {
        kernel::resolve_kernel(name, kernel, &shared, &mut loaded)?;
    }
    if let Some(singles) = &raw.timing.singles {
        let of_kernels = loaded.gates.iter().map(|gate| &gate.rule);
        let of_programs = loaded
            .programs
            .iter()
            .flat_map(|program| &program.limits)
            .map(|limit| &limit.rule);
        check_singles(singles, of_kernels.chain(of_programs))?;
    }
    let cases = loaded.plan.cases.iter();
    loaded.all = cases.map(|case| case.id.clone()).collect();
    Ok(loaded)
}

/// Refuses a limit that this number of single launches could never decide, before anything is measured.
fn check_singles<'a>(
    singles: &Spanned<u32>,
    rules: impl Iterator<Item = &'a Rule>,
) -> Result<(), Mistake> {
    let limited = rules.filter_map(Rule::metric);
    let short = |metric: &Metric| singles.value < metric.least_singles();
    match limited
        .filter(short)
        .max_by_key(|format| format.least_singles())
    {
        None => Ok(()),
        Some(metric) => Err(singles.problem(format!(
            "{singles} samples are too few for the limit on {metric}, which needs {}",
            metric.least_singles()
        ))),
    }
}

fn check_release(raw: &Spanned<String>) -> Result<String, Mistake> {
    let parts: Vec<_> = raw.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if (2..=3).contains(&parts.len()) && parts.iter().all(number) {
        return Ok(raw.value.clone());
    }
    Err(raw
        .problem(format!("`{raw}` is not a CUDA release"))
        .help("examples: \"13.0\", \"13.0.2\""))
}

fn resolve_simulation(raw: &RawSimulation) -> Result<Simulation, Mistake> {
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
        Some(budget) => Err(budget.problem(format!(
            "the budget is {budget} warp instructions; it must be between {} and {}",
            BUDGETS.start(),
            BUDGETS.end()
        ))),
    }
}

fn resolve_timing(raw: &raw::Timing) -> Result<Schedule, Mistake> {
    let count = |written: &Option<Spanned<u32>>, absent: u32, least: u32, most: u32| match written {
        None => Ok(absent),
        Some(count) if (least..=most).contains(&count.value) => Ok(count.value),
        Some(count) => Err(count.problem(format!("{count} must be between {least} and {most}"))),
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
