//! One of NVBench's JSON files, which is one process of a benchmark program, with the samples of its states.
//!
//! The format is what `nvbench/json_printer.cu` writes and `docs/json_output.md` describes (NVIDIA/nvbench, file version
//! 1.0.0). Its printer writes `null` for an empty list, and strings for all values of summaries and axes. Samples are in
//! files beside the JSON: little-endian float32, as many as the JSON says.

use super::{HELP, refused};
use crate::store::file::FileProblem;
use model::{CaseId, GpuState, Mode, NotRun, Num, Seen, TimeFacts, Unsupported};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path, PathBuf};
use system::error::{Error, Result};
use system::files;

/// The value of `meta.version.json.major` in files that can be read.
const MAJOR: u32 = 1;

/// The summary with the times of isolated launches, in seconds.
const SAMPLE_TIMES: &str = "nv/json/bin:nv/cold/sample_times";

/// The SM clock during each of them, in Hz.
const SAMPLE_FREQS: &str = "nv/json/freqs-bin:nv/cold/sample_freqs";

/// The variant of each case, and the shape of a benchmark without axes.
const ONLY: &str = "default";

/// The longest sample that is believed, in seconds: a day.
const MOST_SECONDS: f32 = 86_400.0;

#[derive(Deserialize)]
struct Root {
    meta: Meta,
    #[serde(default, deserialize_with = "nullable")]
    devices: Vec<NvbenchDevice>,
    #[serde(default, deserialize_with = "nullable")]
    benchmarks: Vec<Benchmark>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default, deserialize_with = "nullable")]
    argv: Vec<String>,
    version: Versions,
}

#[derive(Deserialize)]
struct Versions {
    json: Version,
    nvbench: Option<Version>,
}

#[derive(Deserialize)]
struct Version {
    major: u32,
    string: String,
}

#[derive(Clone, Deserialize, PartialEq)]
pub(super) struct NvbenchDevice {
    pub id: u32,
    pub name: String,
    /// The compute capability: 900 for 9.0.
    pub sm_version: u32,
    /// The default clock rate of the SMs in Hz.
    pub sm_default_clock_rate: Option<u64>,
    pub number_of_sms: u32,
    /// The size of device memory in bytes.
    pub global_memory_size: u64,
    pub l2_cache_size: u64,
}

#[derive(Deserialize)]
struct Benchmark {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    states: Vec<NvbenchState>,
}

#[derive(Deserialize)]
struct NvbenchState {
    device: u32,
    #[serde(default, deserialize_with = "nullable")]
    axis_values: Vec<NamedValue>,
    #[serde(default, deserialize_with = "nullable")]
    summaries: Vec<Summary>,
    is_skipped: bool,
    skip_reason: Option<String>,
}

#[derive(Deserialize)]
struct Summary {
    tag: String,
    #[serde(default, deserialize_with = "nullable")]
    data: Vec<NamedValue>,
}

impl Summary {
    fn get(&self, name: &str) -> Option<&str> {
        let value = self.data.iter().find(|value| value.name == name)?;
        Some(&value.value)
    }
}

#[derive(Deserialize)]
struct NamedValue {
    name: String,
    value: String,
}

fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

pub(super) struct NvbenchFile {
    pub path: PathBuf,
    /// The program that wrote the file: `NVBench 0.1.0`.
    pub writer: String,
    pub command: String,
    pub device: NvbenchDevice,
    pub cases: Vec<(CaseId, Seen<TimeFacts>)>,
}

impl NvbenchFile {
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self> {
        let root: Root = serde_json::from_str(text).map_err(|error| {
            let problem = FileProblem::json(&error);
            Error::Usage(problem.diagnostic(&path.display().to_string()).help(HELP))
        })?;
        let Meta { argv, version } = root.meta;
        if version.json.major != MAJOR {
            let version = version.json.string;
            return Err(refused(
                path,
                format!("its file version is {version}, and this gatekeeper reads {MAJOR}.x"),
            ));
        }
        let writer = match version.nvbench {
            Some(version) => format!("NVBench {}", version.string),
            None => "NVBench".to_owned(),
        };
        let mut cases = Vec::new();
        let mut known = BTreeSet::new();
        let mut used = BTreeSet::new();
        for benchmark in root.benchmarks {
            for state in &benchmark.states {
                let case = case_id(&benchmark.name, state);
                if !known.insert(case.clone()) {
                    return Err(refused(path, format!("it has {case} twice")));
                }
                let facts = facts(path, &writer, state).map_err(|problem| {
                    refused(path, format!("{case}: {problem}")).caused_by(problem)
                })?;
                cases.push((case, facts));
                used.insert(state.device);
            }
        }
        let device = the_device(root.devices, &used)
            .map_err(|problem| refused(path, problem.to_string()).caused_by(problem))?;
        Ok(Self {
            path: path.to_owned(),
            writer,
            command: argv.join(" "),
            device,
            cases,
        })
    }
}

/// The reason for which a file of NVBench makes no record.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("it has no states")]
    NoStates,
    #[error("its states ran on {0} devices, and a record is of one: run NVBench with `--devices`")]
    Devices(usize),
    #[error("it does not say what device {0} is")]
    UnknownDevice(u32),
    #[error("it does not say how many values {0} has")]
    NoSize(String),
    #[error("its samples, {0}, are not there")]
    NoSamples(String),
    #[error("{name} cannot be read: {source}")]
    Unread { name: String, source: io::Error },
    #[error("{name} has {bytes} bytes, and {values} values of 4 bytes were written")]
    Size {
        name: String,
        bytes: u64,
        values: u64,
    },
    #[error("value {at} of {name} is {value}, which is not a {kind}")]
    Value {
        at: usize,
        name: String,
        value: f32,
        kind: &'static str,
    },
}

/// Returns the device that all states ran on.
fn the_device(
    devices: Vec<NvbenchDevice>,
    used: &BTreeSet<u32>,
) -> std::result::Result<NvbenchDevice, Unusable> {
    let Some(id) = used.first() else {
        return Err(Unusable::NoStates);
    };
    if used.len() > 1 {
        return Err(Unusable::Devices(used.len()));
    }
    devices
        .into_iter()
        .find(|device| device.id == *id)
        .ok_or(Unusable::UnknownDevice(*id))
}

/// Names the case of a state. The benchmark is the kernel, and all axes together are the shape: `T=I32,Elements=1024`.
fn case_id(benchmark: &str, state: &NvbenchState) -> CaseId {
    let axes: Vec<_> = state
        .axis_values
        .iter()
        .map(|axis| format!("{}={}", axis.name, axis.value))
        .collect();
    let shape = if axes.is_empty() {
        ONLY.to_owned()
    } else {
        axes.join(",")
    };
    CaseId::new(benchmark, ONLY, shape)
}

fn facts(
    json: &Path,
    writer: &str,
    state: &NvbenchState,
) -> std::result::Result<Seen<TimeFacts>, Unusable> {
    if state.is_skipped {
        return Ok(Seen::NotRun(NotRun::PassedOver {
            said: state.skip_reason.clone(),
        }));
    }
    // Below 2^-6 s (15.6 ms) float32 is finer than a nanosecond.
    let samples = values(json, state, SAMPLE_TIMES, "time", |seconds| {
        let ns = (f64::from(seconds) * 1e9).round();
        (ns >= 1.0 && seconds <= MOST_SECONDS).then_some(ns as u64)
    })?;
    if samples.is_empty() {
        return Ok(Seen::Unsupported(Unsupported::SamplesNotKept {
            program: writer.to_owned(),
        }));
    }
    let clocks = values(json, state, SAMPLE_FREQS, "frequency", |hz| {
        (hz > 0.0 && hz.is_finite()).then_some(f64::from(hz))
    })?;
    let mean = clocks.iter().sum::<f64>() / clocks.len() as f64;
    let mhz = (!clocks.is_empty()).then_some(Num(mean / 1e6));
    Ok(Seen::Got(TimeFacts {
        // NVBench flushes L2 before each of its isolated launches.
        mode: Mode::Cold,
        launches_per_sample: 1,
        // NVBench has no batches of launches that repeat a case's memory state, so each launch stands for one batch.
        batched_ns: samples.clone(),
        tick_ns: smallest_step(&samples),
        single_ns: samples,
        empty_graph_ns: 0,
        gpu: GpuState {
            sm_mhz_before: mhz,
            sm_mhz_after: mhz,
            temperature_c: None,
            power_w: None,
            throttle_reasons: None,
            throttled: false,
            other_processes: None,
        },
    }))
}

/// Returns the smallest difference between any two samples that differ; 0 where none do.
fn smallest_step(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
        .array_windows()
        .map(|[low, high]| high - low)
        .min()
        .unwrap_or_default()
}

/// Reads the values in the file that a summary names. Returns none where NVBench kept none.
fn values<T>(
    json: &Path,
    state: &NvbenchState,
    tag: &str,
    kind: &'static str,
    convert: impl Fn(f32) -> Option<T>,
) -> std::result::Result<Vec<T>, Unusable> {
    let summary = state.summaries.iter().find(|summary| summary.tag == tag);
    // NVBench leaves the name out if it could not write the file.
    let Some((summary, name)) = summary.and_then(|found| Some((found, found.get("filename")?)))
    else {
        return Ok(Vec::new());
    };
    let size = summary.get("size").and_then(|size| size.parse().ok());
    let size: u64 = size.ok_or_else(|| Unusable::NoSize(name.to_owned()))?;
    let path = find(json, name)?;
    let failed = |source| Unusable::Unread {
        name: name.to_owned(),
        source,
    };
    let bytes = std::fs::metadata(&path).map_err(failed)?.len();
    if size.checked_mul(4) != Some(bytes) {
        return Err(Unusable::Size {
            name: name.to_owned(),
            bytes,
            values: size,
        });
    }
    let bytes = files::read(&path, bytes).map_err(failed)?;
    let (values, _) = bytes.as_chunks::<4>();
    values
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .enumerate()
        .map(|(at, value)| {
            convert(value).ok_or_else(|| Unusable::Value {
                at,
                name: name.to_owned(),
                value,
                kind,
            })
        })
        .collect()
}

/// Finds a file beside the JSON (`docs/json_output.md`). Older files name it from where NVBench was started. Of such a name
/// the part from `NAME.json-bin` on counts, as in NVBench's own `nvbench_compare_robust`.
fn find(json: &Path, name: &str) -> std::result::Result<PathBuf, Unusable> {
    let dir = json.parent().unwrap_or(Path::new(""));
    let json = json.file_name().unwrap_or_default().to_string_lossy();
    let kinds = [format!("{json}-bin"), format!("{json}-freqs-bin")];
    let moved: PathBuf = Path::new(name)
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .skip_while(|part| kinds.iter().all(|kind| part.as_os_str() != kind.as_str()))
        .collect();
    [dir.join(name), dir.join(moved)]
        .into_iter()
        .find(|path| path.is_file())
        .ok_or_else(|| Unusable::NoSamples(name.to_owned()))
}
