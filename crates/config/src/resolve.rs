//! Resolves the text of a gates file to a plan and its gates.

use super::architectures::resolve_architectures;
use super::binaries::{self, BinaryGates};
use super::disk::PathKind;
use super::kernel::{self, Shared};
use super::programs::{self, Program};
use super::raw::{self, RawSimulation};
use super::source::Source;
use super::tune::Tune;
use super::yaml::{Problem, Spanned};
use super::{defaults, scope};
use model::{Gate, Metric, Plan, Rule, Schedule, Simulation, Target};
use std::ops::RangeInclusive;
use system::error::Diagnostic;

/// Version of the format that this program reads.
const VERSION: u32 = 1;

/// Warp instructions that a case may be given to be simulated: from the least kernel to a day.
pub const BUDGETS: RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// The compiler that the file asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolchainPin {
    /// CUDA release: `13.0` or `13.0.2`.
    pub cuda: Option<String>,
}

pub struct Resolved {
    pub plan: Plan,
    pub gates: Vec<Gate>,
    pub targets: Vec<Target>,
    pub toolchain: ToolchainPin,
    pub tunes: Vec<Tune>,
    pub binaries: Vec<BinaryGates>,
    pub programs: Vec<Program>,
}

pub fn parse(
    file: &str,
    text: &str,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, Diagnostic> {
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
    source: &Source<'_>,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Resolved, Problem> {
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
        binaries: Vec::new(),
        programs: Vec::new(),
    };
    match (&raw.kernels, &raw.binaries, &raw.programs) {
        (Some(kernels), ..) if kernels.is_empty() => {
            return Err(Problem::new(
                kernels.at,
                "no kernels: nothing would be judged",
            ));
        }
        (_, Some(binaries), _) if binaries.is_empty() => {
            return Err(Problem::new(
                binaries.at,
                "no binaries: nothing would be judged",
            ));
        }
        (.., Some(programs)) if programs.is_empty() => {
            return Err(Problem::new(
                programs.at,
                "no programs: nothing would be judged",
            ));
        }
        (None, None, None) => {
            return Err(missing("kernels", "kernels: {NAME: {source: FILE.cu, entry: FUNCTION, ...}}")
                .help("or, for files that are compiled already: binaries: {NAME: {file: FILE.so, architectures: [sm_90]}}"));
        }
        _ => {}
    }
    for (name, binary) in raw.binaries.iter().flat_map(|all| all.iter()) {
        let binary = binaries::resolve_binary(name, binary, file)?;
        resolved.binaries.push(binary);
    }
    for (name, program) in raw.programs.iter().flat_map(|all| all.iter()) {
        let program = programs::resolve_program(name, program, raw.kernels.as_ref(), &shared)?;
        resolved.programs.push(program);
    }
    for (name, kernel) in raw.kernels.iter().flat_map(|all| all.iter()) {
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
        let of_kernels = resolved.gates.iter().map(|gate| &gate.rule);
        let of_programs = resolved
            .programs
            .iter()
            .flat_map(|program| &program.limits)
            .map(|limit| &limit.rule);
        check_singles(singles, of_kernels.chain(of_programs))?;
    }
    Ok(resolved)
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

fn check_release(raw: &Spanned<String>) -> Result<String, Problem> {
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

fn resolve_timing(raw: &raw::Timing) -> Result<Schedule, Problem> {
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
