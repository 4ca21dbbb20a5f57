//! One file: one process, with the samples of its states.

use super::format::{
    BATCHED_TIMES, Benchmark, Device, Root, SAMPLE_FREQS, SAMPLE_TIMES, SHAPE, State, TIMING,
    VARIANT, VERSION, Version,
};
use super::refused;
use super::samples::{read_hz, read_ns};
use crate::store::file::FileProblem;
use model::NotRun;
use model::Unsupported;
use model::{CaseId, GpuState, Mode, Num, Seen, TimeFacts};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use system::error::Result;

/// The shape of a benchmark without axes.
const ONLY: &str = "default";

pub(super) struct File {
    pub path: PathBuf,
    /// `NVBench 0.1.0`.
    pub writer: String,
    pub command: String,
    pub device: Device,
    /// The protocol of files that gatekeeper wrote; 0 is NVBench's own.
    pub protocol: u32,
    pub cases: Vec<(CaseId, Seen<TimeFacts>)>,
}

impl File {
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self> {
        let root: Root = serde_json::from_str(text).map_err(|error| {
            let FileProblem { message, position } = FileProblem::json(&error);
            let at = position.map_or(String::new(), |position| format!("{position}: "));
            refused(path, format!("{at}{message}"))
        })?;
        let Some(meta) = root.meta else {
            return Err(refused(path, "it says no version, and is older than 1.0.0"));
        };
        let version = &meta.version.json;
        if version.major != VERSION[0] {
            let reads = Version::new(VERSION).string;
            return Err(refused(
                path,
                format!(
                    "it has NVBench's file version {}, and this gatekeeper reads {reads}",
                    version.string
                ),
            ));
        }
        let writer = match (&meta.version.gatekeeper, &meta.version.nvbench) {
            (Some(version), _) => format!("gatekeeper {version}, in NVBench's format"),
            (None, Some(version)) => format!("NVBench {}", version.string),
            (None, None) => "NVBench".to_owned(),
        };
        let mut cases = Vec::new();
        let mut known = BTreeSet::new();
        let mut protocols = BTreeSet::new();
        for (bench, state) in states(&root.benchmarks) {
            let case = case_id(bench, state);
            if !known.insert(case.clone()) {
                return Err(refused(path, format!("it has {case} twice")));
            }
            let timed = Timed {
                path,
                writer: &writer,
                case: &case,
                state,
            };
            protocols.insert(timed.count("protocol")?.unwrap_or_default());
            let facts = timed.facts()?;
            cases.push((case, facts));
        }
        let protocol = match protocols.into_iter().collect::<Vec<_>>().as_slice() {
            [one] => u32::try_from(*one).unwrap_or(u32::MAX),
            _ => return Err(refused(path, "its states were not all timed in one way")),
        };
        Ok(Self {
            path: path.to_owned(),
            command: meta.argv.join(" "),
            device: device(path, &root.devices, &root.benchmarks)?,
            writer,
            protocol,
            cases,
        })
    }
}

fn states(benchmarks: &[Benchmark]) -> impl Iterator<Item = (&Benchmark, &State)> {
    benchmarks
        .iter()
        .flat_map(|bench| bench.states.iter().map(move |state| (bench, state)))
}

/// The one that all states ran on.
fn device(path: &Path, devices: &[Device], benchmarks: &[Benchmark]) -> Result<Device> {
    let used: BTreeSet<_> = states(benchmarks).map(|(_, state)| state.device).collect();
    let id = match used.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => *one,
        [] => return Err(refused(path, "it has no states")),
        several => {
            return Err(refused(
                path,
                format!(
                    "its states ran on {} devices, and a record is of one: run NVBench with `--devices`",
                    several.len()
                ),
            ));
        }
    };
    match devices.iter().find(|device| device.id == id) {
        Some(device) => Ok(device.clone()),
        None => Err(refused(
            path,
            format!("it does not say what device {id} is"),
        )),
    }
}

/// The benchmark is the kernel. Where its axes are not gatekeeper's own, all of them together are the
/// shape: `T=I32,Elements=1024`.
fn case_id(bench: &Benchmark, state: &State) -> CaseId {
    let own = |name: &str| {
        let value = state.axis_values.iter().find(|value| value.name == name);
        value.map(|value| value.value.clone())
    };
    let others: Vec<_> = state
        .axis_values
        .iter()
        .filter(|value| value.name != VARIANT && value.name != SHAPE)
        .map(|value| format!("{}={}", value.name, value.value))
        .collect();
    let shape: Vec<_> = own(SHAPE).into_iter().chain(others).collect();
    CaseId::new(
        bench.name.clone(),
        own(VARIANT).unwrap_or_else(|| ONLY.to_owned()),
        match shape.is_empty() {
            true => ONLY.to_owned(),
            false => shape.join(","),
        },
    )
}

/// One state.
struct Timed<'a> {
    path: &'a Path,
    writer: &'a str,
    case: &'a CaseId,
    state: &'a State,
}

impl Timed<'_> {
    fn refused(&self, message: impl std::fmt::Display) -> system::error::Error {
        refused(self.path, format!("{}: {message}", self.case))
    }

    /// A value that gatekeeper kept in addition to its samples.
    fn count(&self, name: &str) -> Result<Option<u64>> {
        let Some(text) = self.state.get(TIMING).and_then(|own| own.get(name)) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(count) => Ok(Some(count)),
            Err(_) => Err(self.refused(format!("its {name} is `{text}`, which is no count"))),
        }
    }

    /// In a file beside the JSON; `None` where NVBench kept none.
    fn samples<T>(
        &self,
        tag: &str,
        read: impl FnOnce(&Path, &str, u64) -> std::result::Result<T, String>,
    ) -> Result<Option<T>> {
        let Some(summary) = self.state.get(tag) else {
            return Ok(None);
        };
        // NVBench leaves the name out where it could not write the file.
        let Some(name) = summary.get("filename") else {
            return Ok(None);
        };
        let size = summary.get("size").and_then(|size| size.parse().ok());
        let Some(size) = size else {
            return Err(self.refused(format!("it does not say how many values {name} has")));
        };
        let values = read(self.path, name, size);
        values.map(Some).map_err(|problem| self.refused(problem))
    }

    fn facts(&self) -> Result<Seen<TimeFacts>> {
        if self.state.is_skipped {
            let said = self.state.skip_reason.clone();
            return Ok(Seen::NotRun(NotRun::PassedOver { said }));
        }
        let single_ns = self.samples(SAMPLE_TIMES, read_ns)?.unwrap_or_default();
        let batched_ns = self.samples(BATCHED_TIMES, read_ns)?;
        if single_ns.is_empty() && batched_ns.is_none() {
            return Ok(Seen::Unsupported(Unsupported::SamplesNotKept {
                program: self.writer.to_owned(),
            }));
        }
        let clock = match self.samples(SAMPLE_FREQS, read_hz)? {
            Some(hz) if hz.len() != single_ns.len() => {
                return Err(self.refused(format!(
                    "it has {} samples and {} frequencies",
                    single_ns.len(),
                    hz.len()
                )));
            }
            Some(hz) if !hz.is_empty() => {
                let mean = hz.iter().copied().map(f64::from).sum::<f64>() / hz.len() as f64;
                Some(Num(mean / 1e6))
            }
            Some(_) | None => None,
        };
        let mode = match self.state.get(TIMING).and_then(|own| own.get("mode")) {
            // NVBench flushes L2 before each of its isolated launches.
            Some("cold") | None => Mode::Cold,
            Some("warm") => Mode::Warm,
            Some(other) => return Err(self.refused(format!("`{other}` is no mode"))),
        };
        let launches = self.count("launches_per_sample")?.unwrap_or(1);
        let Ok(launches_per_sample) = u32::try_from(launches) else {
            return Err(self.refused(format!("a sample of {launches} launches")));
        };
        Ok(Seen::Got(TimeFacts {
            mode,
            launches_per_sample,
            // Without batches of its own, each launch is one.
            batched_ns: batched_ns.unwrap_or_else(|| single_ns.clone()),
            tick_ns: match self.count("tick_ns")? {
                Some(tick) => tick,
                None => smallest_step(&single_ns),
            },
            single_ns,
            empty_graph_ns: self.count("empty_graph_ns")?.unwrap_or_default(),
            gpu: GpuState {
                sm_mhz_before: clock,
                sm_mhz_after: clock,
                temperature_c: None,
                power_w: None,
                throttle_reasons: None,
                throttled: self.count("throttled")?.unwrap_or_default() > 0,
                other_processes: None,
            },
        }))
    }
}

/// Between any two of them that differ; 0 where none do.
fn smallest_step(samples: &[u64]) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let steps = sorted.windows(2).filter_map(|pair| match pair {
        [low, high] => Some(high - low),
        _ => None,
    });
    steps.filter(|&step| step > 0).min().unwrap_or_default()
}
