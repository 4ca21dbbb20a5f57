//! Resolves the text of a gates file to a plan and its gates.

use super::architectures::resolve_architectures;
use super::binaries;
use super::disk::PathKind;
use super::kernel;
use super::loaded::Loaded;
use super::paths::Shared;
use super::places::Places;
use super::programs;
use super::raw::{self, RawSimulation};
use super::source::Source;
use super::yaml::{Problem, Spanned};
use super::{defaults, scope};
use model::{Metric, Plan, Rule, Schedule, Simulation};
use std::ops::RangeInclusive;
use system::error::Diagnostic;

/// Version of the format that this program reads.
const VERSION: u32 = 1;

/// Warp instructions that a case may be given to be simulated: from the least kernel to a day.
pub const BUDGETS: RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// Resolves all of a file, and selects nothing.
pub fn parse(
    file: &str,
    text: &str,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Diagnostic> {
    let source = Source::parse(file, text)?;
    check_version(&source)
        .and_then(|()| source.read())
        .and_then(|raw| resolve_file(&raw, &source, disk, environment))
        .map_err(|problem| source.diagnose(&problem))
}

/// Before anything else: another version may have other keys.
pub fn check_version(source: &Source<'_>) -> Result<(), Problem> {
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
        None => Err(Problem::new(source.start(), "expected a mapping").help(help)),
    }
}

fn resolve_file(
    raw: &raw::GatesFile,
    source: &Source<'_>,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Problem> {
    let file = source.name();
    let missing = |key: &str, help: &str| {
        Problem::new(source.start(), format!("the key `{key}` is missing")).help(help)
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

/// A limit that these could never decide is an error before anything is measured.
fn check_singles<'a>(
    singles: &Spanned<u32>,
    rules: impl Iterator<Item = &'a Rule>,
) -> Result<(), Problem> {
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

fn check_release(raw: &Spanned<String>) -> Result<String, Problem> {
    let parts: Vec<_> = raw.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if (2..=3).contains(&parts.len()) && parts.iter().all(number) {
        return Ok(raw.value.clone());
    }
    Err(raw
        .problem(format!("`{raw}` is not a CUDA release"))
        .help("examples: \"13.0\", \"13.0.2\""))
}

fn resolve_simulation(raw: &RawSimulation) -> Result<Simulation, Problem> {
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

fn resolve_timing(raw: &raw::Timing) -> Result<Schedule, Problem> {
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
