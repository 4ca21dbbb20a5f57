//! NVBench's JSON as a record: times and nothing else.
//!
//! A file is one process of a benchmark program; a directory of files is one record of as many timing
//! processes, in the order of their names. Nothing in them says that the kernels are right, what built
//! them, or what anyone asked of them.

mod file;
mod format;
pub mod render;
mod samples;
#[cfg(test)]
mod tests;

use file::File;
use format::Device;
use model::NotRun;
use model::{
    Case, CaseId, Costs, DEFAULT_CONFIG, Determinism, DeviceFacts, Environment, Evidence, Host,
    Mode, Plan, Policy, RECORD_SCHEMA, Record, Reference, Schedule, Seen,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::path::Path;
use system::error::{Error, Result};
use system::files;

/// Stands for values that NVBench does not give. It is part of the keys that two sides are compared under, so that they
/// never agree with gatekeeper's own measurements.
const UNKNOWN: &str = "unknown";

/// Whether it is NVBench's, which has no schema of its own.
pub(super) fn is_nvbench(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Keys {
        schema: Option<IgnoredAny>,
        #[serde(default)]
        devices: Option<IgnoredAny>,
        benchmarks: Option<IgnoredAny>,
    }
    serde_json::from_str(text).is_ok_and(|keys: Keys| {
        keys.schema.is_none() && keys.devices.is_some() && keys.benchmarks.is_some()
    })
}

/// The record of one process.
///
/// # Errors
/// Usage, where the file or one beside it is not what it should be.
pub(super) fn read_file(path: &Path, text: &str) -> Result<Record> {
    record(vec![File::parse(path, text)?])
}

/// The record of a directory: a timing process for each `*.json` in it.
///
/// # Errors
/// As `read_file`, and where files do not belong together.
pub(super) fn read_dir(dir: &Path) -> Result<Record> {
    let failed = |error: std::io::Error| {
        Error::usage(format!("the directory cannot be read: {error}")).at(dir.display())
    };
    let ours = dir.join("record.json");
    if ours.is_file() {
        return Err(Error::usage(
            "a directory stands for NVBench's files, and this one holds a record",
        )
        .at(dir.display())
        .help(format!("name the record: {}", ours.display())));
    }
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        return Err(Error::usage("there is no NVBench JSON in this directory")
            .at(dir.display())
            .help("a directory stands for NVBench's files of several processes; of a run of gatekeeper name its record.json"));
    }
    let mut files = Vec::new();
    for path in paths {
        let text = files::read_text(&path, files::made())
            .map_err(|error| refused(&path, format!("it cannot be read: {error}")))?;
        if !is_nvbench(&text) {
            return Err(refused(
                &path,
                "it is not NVBench's JSON, and a directory stands for files of NVBench alone",
            ));
        }
        files.push(File::parse(&path, &text)?);
    }
    record(files)
}

fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::usage(message).at(path.display()).help(
        "NVBench writes it, and the files of its samples next to it, with `--jsonbin FILE.json`",
    )
}

/// The record of files from one GPU and one writer, a process each.
fn record(files: Vec<File>) -> Result<Record> {
    let Some(first) = files.first() else {
        return Err(Error::usage("no file of NVBench was named"));
    };
    for file in &files {
        let differs = if file.device != first.device {
            Some(("device", file.device.name.clone(), &first.device.name))
        } else if file.writer != first.writer {
            Some(("writer", file.writer.clone(), &first.writer))
        } else {
            None
        };
        if let Some((what, theirs, ours)) = differs {
            return Err(refused(
                &file.path,
                format!(
                    "its {what} is {theirs}, and that of {} is {ours}: they are no processes of one run",
                    first.path.display()
                ),
            ));
        }
    }
    no_copies(&files)?;
    let mut cases = Vec::new();
    let mut known = BTreeSet::new();
    for (case, _) in files.iter().flat_map(|file| &file.cases) {
        if known.insert(case) {
            cases.push(self::case(case.clone()));
        }
    }
    let environment = environment(first);
    let timing = schedule(&files);
    let mut evidence = Vec::new();
    for (process, file) in (0u32..).zip(files) {
        for (case, facts) in file.cases {
            evidence.push(Evidence::Time {
                case,
                process,
                facts,
            });
        }
    }
    Ok(Record {
        schema: RECORD_SCHEMA.to_owned(),
        environment,
        plan: Plan {
            cases,
            ..Plan::empty(timing)
        },
        policy: Policy::NOTHING,
        evidence,
        costs: Costs::default(),
        took: Vec::new(),
        shard: None,
    })
}

/// Fewer than these can be the same by chance, of a clock with coarse steps.
const TELLING: usize = 10;

/// A process that stands there twice, as in `run-2.json` and a `latest.json`, would narrow the intervals: no two
/// measure every sample alike.
fn no_copies(files: &[File]) -> Result<()> {
    let samples = |file: &File| -> Vec<_> {
        let timed = file.cases.iter();
        let timed = timed.filter_map(|(case, seen)| Some((case.clone(), seen.got()?)));
        timed
            .map(|(case, facts)| (case, facts.batched_ns.clone(), facts.single_ns.clone()))
            .collect()
    };
    let mut seen: Vec<(&File, Vec<_>)> = Vec::new();
    for file in files {
        let own = samples(file);
        let telling = |(_, batched, _): &(_, Vec<u64>, _)| {
            batched.len() >= TELLING && batched.iter().any(|ns| batched.first() != Some(ns))
        };
        if own.iter().any(telling)
            && let Some((other, _)) = seen.iter().find(|(_, others)| *others == own)
        {
            return Err(refused(
                &file.path,
                format!(
                    "it has the samples of {}, each of them: a copy is no process of its own",
                    other.path.display()
                ),
            ));
        }
        seen.push((file, own));
    }
    Ok(())
}

fn environment(file: &File) -> Environment {
    Environment {
        gatekeeper: env!("CARGO_PKG_VERSION").to_owned(),
        started: UNKNOWN.to_owned(),
        command: file.command.clone(),
        config: DEFAULT_CONFIG.to_owned(),
        timing_protocol: file.protocol,
        host: Host {
            os: UNKNOWN.to_owned(),
            cpu: UNKNOWN.to_owned(),
            cores: 0,
        },
        commit: None,
        sources: None,
        checkout: None,
        compiler: Seen::NotRun(NotRun::OtherProgram {
            program: file.writer.clone(),
        }),
        device: Seen::Got(device(&file.device)),
        toolchain: None,
        base_compiler: None,
        simulator: None,
        parts: Vec::new(),
    }
}

fn device(device: &Device) -> DeviceFacts {
    let digit = |value: u32| u8::try_from(value).unwrap_or(u8::MAX);
    DeviceFacts {
        ordinal: device.id,
        name: device.name.clone(),
        uuid: UNKNOWN.to_owned(),
        major: digit(device.sm_version / 100),
        minor: digit(device.sm_version % 100 / 10),
        multiprocessors: device.number_of_sms,
        l2_bytes: device.l2_cache_size,
        memory_bytes: device.global_memory_size,
        driver: UNKNOWN.to_owned(),
        cuda_driver_version: 0,
        clock_policy: UNKNOWN.to_owned(),
        max_sm_mhz: device
            .sm_default_clock_rate
            .and_then(|hz| u32::try_from(hz / 1_000_000).ok()),
    }
}

/// Takes the existing samples as the plan: nobody else can say how many there should have been.
fn schedule(files: &[File]) -> Schedule {
    let timed = || {
        let cases = files.iter().flat_map(|file| &file.cases);
        cases.filter_map(|(_, seen)| seen.got())
    };
    let least = |counts: &mut dyn Iterator<Item = usize>| {
        let least = counts.min().unwrap_or_default();
        u32::try_from(least).unwrap_or(u32::MAX)
    };
    Schedule {
        mode: timed().next().map_or(Mode::Cold, |facts| facts.mode),
        warmup: 0,
        iterations: least(&mut timed().map(|facts| facts.batched_ns.len())),
        singles: least(&mut timed().map(|facts| facts.single_ns.len())),
        batch_ns: 0,
        processes: 1,
        max_processes: u32::try_from(files.len()).unwrap_or(u32::MAX),
    }
}

/// Times alone are known of it.
fn case(id: CaseId) -> Case {
    Case {
        id,
        dims: Default::default(),
        tensors: Vec::new(),
        steps: Vec::new(),
        seeds: Vec::new(),
        reference: Reference::Elsewhere,
        tolerance: None,
        determinism: Determinism::Declared {
            reason: "nothing is known of its outputs".to_owned(),
        },
        launches: 0,
        deadline_ms: 0,
        timed: true,
    }
}
