//! The times of a record as NVBench's JSON with its binary side files, for its comparers
//! (`nvbench-compare`, `nvbench-compare-robust`) and other readers.
//!
//! A file is one timing process, as with NVBench itself; a case is one state of a benchmark named as its
//! kernel, with the axes `variant` and `shape`. Single launches are NVBench's cold (isolated) samples;
//! batched samples, of which p50 is taken, go along under tags of gatekeeper's own. Tags, names and the way
//! of the quantiles are those of `nvbench/detail/measure_cold.cu` and `nvbench/json_printer.cu` in
//! NVIDIA/nvbench. Settings of NVBench's stopping rules are left out: none of them was in force, and no
//! reader in its `python/scripts` asks for them.

use super::format::{
    Axis, AxisValue, BATCHED_TIMES, Benchmark, Device, Kind, Meta, Root, SAMPLE_FREQS,
    SAMPLE_TIMES, SHAPE, State, Summary, TIMING, VARIANT, VERSION, Value, Version, Versions,
};
use judge::stats::Sample;
use judge::{Index, View};
use model::{CaseId, DeviceFacts, Record, Seen, TimeFacts};
use std::collections::BTreeMap;
use system::error::{Error, Result};
use wording::reasons;

/// One file, by its path below the directory asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// `process-0.json` and its side files, and so on for every timing process; what was timed against a base
/// revision in two directories, `base/` and `head/`, with the same processes in both.
///
/// # Errors
/// Usage, where the record has no times.
pub fn render(record: &Record) -> Result<Vec<File>> {
    let index = Index::new(record);
    let processes = processes(record, index.head());
    let Some(device) = record
        .environment
        .device
        .got()
        .filter(|_| !processes.is_empty())
    else {
        return Err(Error::usage(
            "the record has no times, and NVBench's format holds nothing else",
        )
        .help("times come from a GPU: `gatekeeper run --require-gpu`"));
    };
    let last = processes.keys().map(|(_, process)| *process).max();
    let digits = last.unwrap_or_default().to_string().len();
    let mut files = Vec::new();
    for ((side, process), timed) in &processes {
        let name = format!("process-{process:0digits$}.json");
        let mut side_files = SideFiles::new(&name);
        let root = Root {
            meta: Some(Meta {
                argv: vec![record.environment.command.clone()],
                version: Versions {
                    json: Version::new(VERSION),
                    nvbench: None,
                    gatekeeper: Some(record.environment.gatekeeper.clone()),
                },
            }),
            devices: vec![self::device(device)],
            benchmarks: benchmarks(record, device, timed, &mut side_files),
        };
        let mut json = serde_json::to_vec_pretty(&root).map_err(|error| {
            Error::environment(format!("NVBench's JSON cannot be written: {error}"))
        })?;
        json.push(b'\n');
        files.push(File {
            path: format!("{side}{name}"),
            bytes: json,
        });
        files.extend(side_files.files.into_iter().map(|file| File {
            path: format!("{side}{}", file.path),
            ..file
        }));
    }
    Ok(files)
}

/// The work of each timing process of each side, by case.
type Processes<'a> = BTreeMap<(&'static str, u32), BTreeMap<&'a CaseId, Timed<'a>>>;

/// Its samples, or why there are none.
type Timed<'a> = std::result::Result<&'a TimeFacts, String>;

fn processes<'a>(record: &'a Record, view: View<'_, 'a>) -> Processes<'a> {
    let mut processes = Processes::new();
    for id in record.plan.cases.iter().map(|case| &case.id) {
        let mut add = |side, process, timed| {
            let cases: &mut BTreeMap<_, _> = processes.entry((side, process)).or_default();
            cases.insert(id, timed);
        };
        for (process, seen) in view.timed_alone(id) {
            add("", *process, timed(seen, |facts| facts));
        }
        for (process, seen) in view.timed_in_pairs(id) {
            add("head/", *process, timed(seen, |pair| &pair.head));
            add("base/", *process, timed(seen, |pair| &pair.base));
        }
    }
    processes
}

fn timed<T>(seen: &Seen<T>, of: impl FnOnce(&T) -> &TimeFacts) -> Timed<'_> {
    match seen {
        Seen::Got(facts) => Ok(of(facts)),
        Seen::Fault(fault) => Err(reasons::fault(fault)),
        Seen::Unsupported(why) => Err(reasons::unsupported(why)),
        Seen::NotRun(why) => Err(reasons::not_run(why)),
    }
}

fn device(facts: &DeviceFacts) -> Device {
    Device {
        id: facts.ordinal,
        name: facts.name.clone(),
        sm_version: u32::from(facts.major) * 100 + u32::from(facts.minor) * 10,
        sm_default_clock_rate: facts.max_sm_mhz.map(|mhz| u64::from(mhz) * 1_000_000),
        number_of_sms: facts.multiprocessors,
        global_memory_size: facts.memory_bytes,
        l2_cache_size: facts.l2_bytes,
    }
}

/// Kernels and their cases in the order of the plan.
fn benchmarks(
    record: &Record,
    device: &DeviceFacts,
    timed: &BTreeMap<&CaseId, Timed<'_>>,
    side_files: &mut SideFiles,
) -> Vec<Benchmark> {
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    for case in &record.plan.cases {
        let Some(timed) = timed.get(&case.id) else {
            continue;
        };
        let state = state(&case.id, device.ordinal, timed, record, side_files);
        let known = benchmarks
            .iter_mut()
            .find(|bench| bench.name == case.id.kernel);
        match known {
            Some(bench) => bench.states.push(state),
            None => benchmarks.push(Benchmark {
                name: case.id.kernel.clone(),
                index: benchmarks.len(),
                devices: vec![device.ordinal],
                axes: Vec::new(),
                states: vec![state],
            }),
        }
    }
    for bench in &mut benchmarks {
        bench.axes = [VARIANT, SHAPE]
            .map(|name| axis(name, &bench.states))
            .into();
    }
    benchmarks
}

/// With every value that a state has, in the order of the states.
fn axis(name: &str, states: &[State]) -> Axis {
    let mut values: Vec<&str> = Vec::new();
    for state in states {
        let value = state.axis_values.iter().find(|value| value.name == name);
        if let Some(value) = value
            && !values.contains(&value.value.as_str())
        {
            values.push(&value.value);
        }
    }
    Axis {
        name: name.to_owned(),
        kind: Kind::String,
        flags: String::new(),
        values: values
            .into_iter()
            .map(|value| AxisValue {
                input_string: value.to_owned(),
                description: String::new(),
                value: value.to_owned(),
            })
            .collect(),
    }
}

fn state(
    case: &CaseId,
    device: u32,
    timed: &Timed<'_>,
    record: &Record,
    side_files: &mut SideFiles,
) -> State {
    let (summaries, skip_reason) = match timed {
        Ok(facts) => (
            summaries(facts, record.environment.timing_protocol, side_files),
            None,
        ),
        Err(reason) => (Vec::new(), Some(reason.clone())),
    };
    State {
        name: format!(
            "Device={device} {VARIANT}={} {SHAPE}={}",
            case.variant, case.shape
        ),
        device,
        type_config_index: 0,
        axis_values: vec![
            Value::string(VARIANT, &case.variant),
            Value::string(SHAPE, &case.shape),
        ],
        summaries,
        is_skipped: skip_reason.is_some(),
        skip_reason,
    }
}

fn summaries(facts: &TimeFacts, protocol: u32, side_files: &mut SideFiles) -> Vec<Summary> {
    let mut all = Vec::new();
    if let Some(sample) = Sample::new(&facts.single_ns) {
        all.extend(cold(&sample, &facts.single_ns));
    }
    let hz = hz(facts);
    if let Some(hz) = hz {
        all.push(float(
            "nv/cold/sm_clock_rate/mean",
            "Clock Rate",
            "frequency",
            hz,
        ));
    }
    let launches = u64::from(facts.launches_per_sample);
    if let Some(sample) = Sample::new(&facts.batched_ns) {
        all.push(count(
            "nv/batch/sample_size",
            facts.batched_ns.len() as u64 * launches,
        ));
        let mean = seconds(sample.mean() / launches as f64);
        all.push(float(
            "nv/batch/time/gpu/mean",
            "Batch GPU",
            "duration",
            mean,
        ));
    }
    if !facts.single_ns.is_empty() {
        all.push(side_files.times(SAMPLE_TIMES, &facts.single_ns));
        if let Some(hz) = hz {
            // One figure for the process: what was measured, right before and right after.
            all.push(side_files.freqs(vec![hz as f32; facts.single_ns.len()]));
        }
    }
    if !facts.batched_ns.is_empty() {
        all.push(side_files.times(BATCHED_TIMES, &facts.batched_ns));
    }
    all.push(Summary {
        tag: TIMING.to_owned(),
        name: Some("gatekeeper's timing".to_owned()),
        description: Some("How gatekeeper took the samples.".to_owned()),
        hint: None,
        hide: Some("Not needed in table.".to_owned()),
        data: vec![
            Value::int64("protocol", protocol.into()),
            Value::string("mode", facts.mode.to_string()),
            Value::int64("launches_per_sample", launches),
            Value::int64("tick_ns", facts.tick_ns),
            Value::int64("empty_graph_ns", facts.empty_graph_ns),
            Value::int64("throttled", facts.gpu.throttled.into()),
        ],
    });
    all
}

/// SM clock in Hz, where it was measured.
fn hz(facts: &TimeFacts) -> Option<f64> {
    let (before, after) = facts.gpu.sm_mhz_before.zip(facts.gpu.sm_mhz_after)?;
    let hz = (before.0 + after.0) / 2.0 * 1e6;
    (hz > 0.0 && hz.is_finite()).then_some(hz)
}

/// Summaries of isolated launches, in NVBench's order.
fn cold(sample: &Sample, values: &[u64]) -> Vec<Summary> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let mean = seconds(sample.mean());
    // For fewer than five NVBench claims none either, and writes `inf` (`nvbench/detail/statistics.cuh`).
    let deviation = sample.deviation().filter(|_| values.len() >= 5);
    let deviation = deviation.map_or(f64::INFINITY, seconds);
    let [first, median, third] =
        [25, 50, 75].map(|percent| seconds(nearest_rank(&sorted, percent)));
    let duration =
        |what, name, value| float(&format!("nv/cold/time/gpu/{what}"), name, "duration", value);
    let relative = |what, name, value| {
        float(
            &format!("nv/cold/time/gpu/{what}/relative"),
            name,
            "percentage",
            value,
        )
    };
    vec![
        count("nv/cold/sample_size", values.len() as u64),
        duration("min", "Min GPU Time", seconds(sample.min())),
        duration("max", "Max GPU Time", seconds(sample.max())),
        duration("mean", "GPU Time", mean),
        duration("stdev/absolute", "StdDev", deviation),
        relative("stdev", "Noise", deviation / mean),
        duration("q1", "Q1 GPU Time", first),
        duration("median", "Median GPU Time", median),
        duration("q3", "Q3 GPU Time", third),
        duration("iqr/absolute", "IQR", third - first),
        relative("iqr", "Rel IQR", (third - first) / median),
    ]
}

/// NVBench takes the value at round(p (n - 1)), halves rounded up (`nvbench/detail/statistics.cuh`), and its
/// robust comparer the same of the samples.
fn nearest_rank(sorted: &[u64], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let value = sorted.get((percent * last + 50) / 100);
    value.map_or(f64::NAN, |&value| value as f64)
}

fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

fn count(tag: &str, value: u64) -> Summary {
    Summary {
        hint: Some("sample_size".to_owned()),
        ..summary(tag, "Samples", Value::int64("value", value))
    }
}

fn float(tag: &str, name: &str, hint: &str, value: f64) -> Summary {
    Summary {
        hint: Some(hint.to_owned()),
        ..summary(tag, name, Value::float64("value", value))
    }
}

fn summary(tag: &str, name: &str, value: Value) -> Summary {
    Summary {
        tag: tag.to_owned(),
        name: Some(name.to_owned()),
        description: None,
        hint: None,
        hide: None,
        data: vec![value],
    }
}

/// `NAME-bin/0.bin` and `NAME-freqs-bin/0.bin`, each kind counted from 0, beside the JSON file of that name.
struct SideFiles {
    json: String,
    times: usize,
    freqs: usize,
    files: Vec<File>,
}

impl SideFiles {
    fn new(json: &str) -> Self {
        Self {
            json: json.to_owned(),
            times: 0,
            freqs: 0,
            files: Vec::new(),
        }
    }

    fn times(&mut self, tag: &str, ns: &[u64]) -> Summary {
        let path = format!("{}-bin/{}.bin", self.json, self.times);
        self.times += 1;
        let seconds = ns.iter().map(|&ns| seconds(ns as f64) as f32);
        Summary {
            name: Some("Sample Times File".to_owned()),
            description: Some(
                "Binary file containing sample times as little-endian float32.".to_owned(),
            ),
            hint: Some("file/sample_times".to_owned()),
            ..self.file(tag, path, seconds.collect())
        }
    }

    fn freqs(&mut self, hz: Vec<f32>) -> Summary {
        let path = format!("{}-freqs-bin/{}.bin", self.json, self.freqs);
        self.freqs += 1;
        Summary {
            name: Some("Sample Frequencies File".to_owned()),
            description: Some(
                "Binary file containing sample frequencies as little-endian float32.".to_owned(),
            ),
            hint: Some("file/sample_freqs".to_owned()),
            ..self.file(SAMPLE_FREQS, path, hz)
        }
    }

    fn file(&mut self, tag: &str, path: String, values: Vec<f32>) -> Summary {
        let size = values.len() as u64;
        self.files.push(File {
            path: path.clone(),
            bytes: values.into_iter().flat_map(f32::to_le_bytes).collect(),
        });
        Summary {
            tag: tag.to_owned(),
            name: None,
            description: None,
            hint: None,
            hide: Some("Not needed in table.".to_owned()),
            data: vec![Value::string("filename", path), Value::int64("size", size)],
        }
    }
}
