//! Resolves `programs:`: commands whose launches are captured, and the limits on these launches. It does not know which
//! kernels a program has.

use super::defaults;
use super::floats::FloatTolerance;
use super::limit::{ProgramLimit, read_plain_limit};
use super::names::check_file_name;
use super::outputs::{ProgramOutput, resolve_outputs};
use super::paths::Shared;
use super::raw::{self, Command, Kernel, OUTPUT, ProgramGates, RawProgram, SAME, is_of_programs};
use super::rival::read_command;
use super::scope::parse_duration;
use super::written::{Key, merge_limits, read_texts};
use super::yaml::{Mistake, Ordered, Spanned};
use model::{CaseId, Facet, Limit, Metric, Rule};

/// A program, with the limits that its launches must keep.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    /// The words that run the program: its path and its arguments.
    pub command: Vec<String>,
    /// The command that builds the program.
    pub build: Option<Vec<String>>,
    /// Globs of kernel names. Without any, all kernels are meant.
    pub kernels: Vec<String>,
    pub regions: Vec<String>,
    /// The most launches that are captured of each kernel, in each region and process.
    pub launches: u32,
    /// The deadline of the build, and of the program, in ms.
    pub deadline_ms: u64,
    pub limits: Vec<ProgramLimit>,
    pub outputs: Vec<ProgramOutput>,
    /// How outputs without a reference are compared. `None` compares bit for bit.
    pub floats: Option<FloatTolerance>,
    /// The line in which the command is, such as `gates.yaml:4`.
    pub declared: String,
}

impl Program {
    /// Returns the filter `decode/*@*`, which takes every launch of the program.
    pub fn every_launch(&self) -> CaseId {
        CaseId::new(&self.name, "*", "*")
    }
}

pub fn resolve_program(
    name: &Spanned<String>,
    raw: &Spanned<RawProgram>,
    kernels: Option<&Spanned<Ordered<Spanned<Kernel>>>>,
    shared: &Shared<'_>,
) -> Result<Program, Mistake> {
    let file = shared.file;
    check_file_name(name, "program")?;
    if kernels.is_some_and(|kernels| kernels.names().any(|other_name| other_name == name.value)) {
        return Err(name
            .problem(format!("a kernel is called `{name}`, too"))
            .help("filters could not tell them apart: give one another name"));
    }
    for glob in raw.kernels.iter().chain(&raw.regions) {
        if glob.trim().is_empty() {
            return Err(glob.problem("an empty glob fits no name"));
        }
    }
    let launches = raw.launches.as_ref();
    if let Some(none) = launches.filter(|launch| launch.value == 0) {
        return Err(none.problem("nothing would be captured"));
    }
    let deadline = match &raw.deadline {
        None => defaults::PROGRAM_DEADLINE_NS,
        Some(deadline) => parse_duration(deadline, "a deadline", 1e9..=8.64e13)?,
    };
    let texts = |all: &[Spanned<String>]| all.iter().map(|text| text.value.clone()).collect();
    Ok(Program {
        name: name.value.clone(),
        command: resolve_command(&raw.command)?,
        build: raw.build.as_ref().map(resolve_command).transpose()?,
        kernels: texts(&raw.kernels),
        regions: texts(&raw.regions),
        launches: launches.map_or(1, |launch| launch.value),
        deadline_ms: (deadline / 1e6) as u64,
        limits: resolve_limits(&raw.gates, file)?,
        outputs: resolve_outputs(&raw.outputs, shared)?,
        floats: resolve_output(&raw.gates)?,
        declared: format!("{file}:{}", raw.command.at.line()),
    })
}

fn resolve_command(written: &Spanned<Command>) -> Result<Vec<String>, Mistake> {
    let words = match &written.value {
        Command::Shell(line) if line.trim().is_empty() => Vec::new(),
        Command::Shell(line) => ["sh", "-c", line]
            .map(|word| written.with(word.to_owned()))
            .into(),
        Command::Words(words) => words.clone(),
    };
    read_command(&written.with(words), "[python, bench.py]")
}

fn resolve_output(raw: &ProgramGates) -> Result<Option<FloatTolerance>, Mistake> {
    let Some(asked) = raw.0.get(OUTPUT) else {
        return Ok(None);
    };
    let known = match &asked.value {
        raw::Limits::One(text) if text == SAME => Some(None),
        raw::Limits::One(text) => text.parse().ok().map(Some),
        raw::Limits::All(_) | raw::Limits::By(_) => None,
    };
    known.ok_or_else(|| {
        asked.problem("the output of a launch is `same`, bit for bit, or floats that may differ by a share: \"f32:1e-5\"")
    })
}

fn resolve_limits(raw: &ProgramGates, file: &str) -> Result<Vec<ProgramLimit>, Mistake> {
    let limits = raw.0.iter().filter(|(name, _)| name.value != OUTPUT);
    let mut resolved = Vec::new();
    for written in merge_limits(limits)? {
        let metric = match written.key {
            Key::Metric(metric) if is_of_programs(metric) => metric,
            _ => {
                return Err(written
                    .name
                    .problem(format!("a captured launch has no `{}`", written.name.value))
                    .help(format!("it has {}, and {OUTPUT}", metrics())));
            }
        };
        let value = raw.0.get(&written.name.value);
        for text in value.map(read_texts).transpose()?.unwrap_or_default() {
            resolved.push(ProgramLimit {
                rule: Rule::Limit {
                    metric,
                    limit: resolve_limit(&text, metric)?,
                },
                declared: format!("{file}:{}", text.at.line()),
            });
        }
    }
    Ok(resolved)
}

fn metrics() -> String {
    Metric::ALL
        .into_iter()
        .filter(|metric| is_of_programs(*metric))
        .map(Metric::name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Resolves a bound, or a limit on the change from the baseline or the base.
fn resolve_limit(text: &Spanned<String>, metric: Metric) -> Result<Limit, Mistake> {
    let is_unit = metric.facet() == Facet::Resources;
    let limit = read_plain_limit(text, metric, |context| context.unit = is_unit)?;
    limit.ok_or_else(|| {
        text.problem("a limit on a captured launch must be a number or a relative limit")
            .help("examples: `128`, `400us`, `+1% of base`")
    })
}
