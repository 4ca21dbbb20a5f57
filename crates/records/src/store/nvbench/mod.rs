//! Reads NVBench's JSON as a record of times.
//!
//! A file is one process of a benchmark program. A directory of files is one record with a timing process for each
//! file, in the order of their names. Nothing in them says whether the kernels are right, what built them, or what
//! anybody asked of them.

mod file;
#[cfg(test)]
mod tests;

use file::{NvbenchDevice, NvbenchFile};
use model::{
    Case, CaseId, Costs, DEFAULT_CONFIG, Determinism, DeviceFacts, Environment, Evidence, Host,
    Mode, NotRun, Plan, Policy, RECORD_SCHEMA, Record, Reference, Schedule, Seen, TimeFacts,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeSet;
use std::path::Path;
use system::error::{Error, Result};
use system::files;

/// The value of everything that NVBench does not give. It is part of the keys that two sides are compared under, so
/// that they never equal gatekeeper's own measurements.
const UNKNOWN: &str = "unknown";

const HELP: &str =
    "NVBench writes it, and the files of its samples next to it, with `--jsonbin FILE.json`";

/// Returns true if this is NVBench's JSON, which names no schema.
pub(super) fn is_nvbench(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Keys {
        schema: Option<IgnoredAny>,
        devices: Option<IgnoredAny>,
        benchmarks: Option<IgnoredAny>,
    }
    serde_json::from_str(text).is_ok_and(|keys: Keys| {
        keys.schema.is_none() && keys.devices.is_some() && keys.benchmarks.is_some()
    })
}

/// Returns the record of one process.
///
/// # Errors
/// Fails with a usage error if the file or one beside it is not what it should be.
pub(super) fn read_file(path: &Path, text: &str) -> Result<Record> {
    record(vec![NvbenchFile::parse(path, text)?])
}

/// Returns the record of a directory: a timing process for each `*.json` in it.
///
/// # Errors
/// Fails as `read_file` does, and if files do not belong together.
pub(super) fn read_dir(dir: &Path) -> Result<Record> {
    let ours = dir.join("record.json");
    if ours.is_file() {
        return Err(Error::usage(
            "a directory stands for NVBench's files, and this one holds a record",
        )
        .at(dir.display())
        .help(format!("name the record: {}", ours.display())));
    }
    let mut paths = std::fs::read_dir(dir)
        .and_then(|entries| {
            entries
                .map(|entry| Ok(entry?.path()))
                .collect::<std::io::Result<Vec<_>>>()
        })
        .map_err(|error| {
            Error::usage(format!("the directory cannot be read: {error}"))
                .caused_by(error)
                .at(dir.display())
        })?;
    paths.retain(|path| path.extension().is_some_and(|found| found == "json"));
    paths.sort();
    if paths.is_empty() {
        return Err(Error::usage("there is no NVBench JSON in this directory")
            .at(dir.display())
            .help("a directory stands for NVBench's files of several processes; of a run of gatekeeper name its record.json"));
    }
    let files: Result<Vec<_>> = paths
        .iter()
        .map(|path| {
            let text = files::read_text(path, files::made())
                .map_err(|error| refused(path, format!("it cannot be read: {error}")))?;
            if !is_nvbench(&text) {
                return Err(refused(
                    path,
                    "it is not NVBench's JSON, and a directory stands for files of NVBench alone",
                ));
            }
            NvbenchFile::parse(path, &text)
        })
        .collect();
    record(files?)
}

fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::usage(message).at(path.display()).help(HELP)
}

/// Returns the record of files from one GPU and one writer, a process each.
fn record(files: Vec<NvbenchFile>) -> Result<Record> {
    let Some((first, others)) = files.split_first() else {
        return Err(Error::usage("no file of NVBench was named"));
    };
    for file in others {
        let (what, theirs, ours) = if file.device != first.device {
            ("device", &file.device.name, &first.device.name)
        } else if file.writer != first.writer {
            ("writer", &file.writer, &first.writer)
        } else {
            continue;
        };
        let first = first.path.display();
        return Err(refused(
            &file.path,
            format!(
                "its {what} is {theirs}, and that of {first} is {ours}: they are not processes of one run"
            ),
        ));
    }
    refuse_copies(&files)?;
    let mut known = BTreeSet::new();
    let cases = files
        .iter()
        .flat_map(|file| &file.cases)
        .filter(|(id, _)| known.insert(id))
        .map(|(id, _)| case(id.clone()))
        .collect();
    Ok(Record {
        schema: RECORD_SCHEMA.to_owned(),
        environment: environment(first),
        plan: Plan {
            cases,
            ..Plan::empty(schedule(&files))
        },
        policy: Policy::NOTHING,
        evidence: (0u32..)
            .zip(files)
            .flat_map(|(process, file)| {
                file.cases
                    .into_iter()
                    .map(move |(case, facts)| Evidence::Time {
                        case,
                        process,
                        facts,
                    })
            })
            .collect(),
        costs: Costs::default(),
        took: Vec::new(),
        shard: None,
    })
}

/// If the clock has coarse steps, fewer equal samples than this can be a coincidence.
const TELLING: usize = 10;

/// Refuses a process that is there twice, as `run-2.json` and `latest.json`: it would narrow the intervals. No two
/// processes measure every sample alike.
fn refuse_copies(files: &[NvbenchFile]) -> Result<()> {
    let tells = |(_, seen): &(CaseId, Seen<TimeFacts>)| {
        seen.got().is_some_and(|facts| {
            let samples = &facts.single_ns;
            samples.len() >= TELLING && samples.iter().any(|ns| samples.first() != Some(ns))
        })
    };
    let samples = |file: &NvbenchFile| -> Vec<_> {
        file.cases
            .iter()
            .filter_map(|(case, seen)| Some((case.clone(), seen.got()?.single_ns.clone())))
            .collect()
    };
    for (at, file) in files.iter().enumerate() {
        let earlier = files.iter().take(at);
        if file.cases.iter().any(tells)
            && let Some(other) = earlier
                .clone()
                .find(|other| samples(other) == samples(file))
        {
            return Err(refused(
                &file.path,
                format!(
                    "all its samples are those of {}: a copy is not a process of its own",
                    other.path.display()
                ),
            ));
        }
    }
    Ok(())
}

fn environment(file: &NvbenchFile) -> Environment {
    Environment {
        gatekeeper: env!("CARGO_PKG_VERSION").to_owned(),
        started: UNKNOWN.to_owned(),
        command: file.command.clone(),
        config: DEFAULT_CONFIG.to_owned(),
        timing_protocol: 0,
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

fn device(device: &NvbenchDevice) -> DeviceFacts {
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
fn schedule(files: &[NvbenchFile]) -> Schedule {
    let fewest = files
        .iter()
        .flat_map(|file| &file.cases)
        .filter_map(|(_, seen)| Some(seen.got()?.single_ns.len()))
        .min()
        .unwrap_or_default();
    let fewest = u32::try_from(fewest).unwrap_or(u32::MAX);
    Schedule {
        mode: Mode::Cold,
        warmup: 0,
        iterations: fewest,
        singles: fewest,
        batch_ns: 0,
        processes: 1,
        max_processes: u32::try_from(files.len()).unwrap_or(u32::MAX),
    }
}

/// Returns a case that has times and no other evidence.
fn case(id: CaseId) -> Case {
    Case {
        reference: Reference::Elsewhere,
        determinism: Determinism::Declared {
            reason: "nothing is known of its outputs".to_owned(),
        },
        launches: 0,
        timed: true,
        ..Case::empty(id)
    }
}
