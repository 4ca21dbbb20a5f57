use super::super::read;
use super::render::render;
use super::*;
use judge::fixture;
use model::{Num, TimeFacts, Unsupported};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;

fn golden(side: &str) -> std::path::PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/fixtures/nvbench")
        .join(side)
}

fn write(record: &Record, dir: &Path) {
    for file in render(record).unwrap() {
        let path = dir.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.bytes).unwrap();
    }
}

fn there_and_back(record: &Record) -> Record {
    let dir = tempfile::tempdir().unwrap();
    write(record, dir.path());
    read(dir.path()).unwrap()
}

fn times(record: &Record) -> BTreeMap<(String, u32), Seen<TimeFacts>> {
    let times = record.evidence.iter().filter_map(|piece| match piece {
        Evidence::Time {
            case,
            process,
            facts,
        } => Some(((case.to_string(), *process), facts.clone())),
        _ => None,
    });
    times.collect()
}

/// The facts that NVBench's format has a place for.
fn without_the_rest(mut facts: TimeFacts) -> TimeFacts {
    let gpu = &mut facts.gpu;
    let clock = gpu
        .sm_mhz_before
        .zip(gpu.sm_mhz_after)
        // Hz as float32.
        .map(|(before, after)| Num(f64::from(((before.0 + after.0) / 2.0 * 1e6) as f32) / 1e6));
    gpu.sm_mhz_before = clock;
    gpu.sm_mhz_after = clock;
    gpu.temperature_c = None;
    gpu.power_w = None;
    gpu.throttle_reasons = None;
    gpu.other_processes = None;
    facts
}

fn refused(dir: &Path) -> String {
    match read(dir) {
        Err(Error::Usage(diagnostic)) => {
            assert!(!diagnostic.help.is_empty());
            let at = diagnostic.at.unwrap_or_default();
            let at = at.replace(&dir.display().to_string(), "D");
            format!("{at}: {}", diagnostic.message)
        }
        other => panic!("{other:?}"),
    }
}

/// NVBench's own file of one process, in a directory of its own, with one thing broken.
fn broken(edit: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "run-0.json",
        "run-0.json-bin/0.bin",
        "run-0.json-bin/1.bin",
        "run-0.json-freqs-bin/0.bin",
        "run-0.json-freqs-bin/1.bin",
    ] {
        let to = dir.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(golden("base").join(name), to).unwrap();
    }
    assert!(read(dir.path()).is_ok());
    edit(dir.path());
    refused(dir.path())
}

fn replaced(from: &str, to: &str) -> String {
    broken(|dir| {
        let json = dir.join("run-0.json");
        let text = fs::read_to_string(&json).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(&json, text.replacen(from, to, 1)).unwrap();
    })
}

#[test]
fn a_record_comes_back_with_its_samples() {
    let record = fixture::record();
    let back = there_and_back(&record);
    let expected: BTreeMap<_, _> = times(&record)
        .into_iter()
        .map(|(key, seen)| (key, seen.map(without_the_rest)))
        .collect();
    assert_eq!(times(&back), expected);
    let ids = |record: &Record| -> Vec<_> {
        record
            .plan
            .cases
            .iter()
            .map(|case| case.id.clone())
            .collect()
    };
    assert_eq!(ids(&back), ids(&record));
    assert_eq!(
        back.environment.timing_protocol,
        record.environment.timing_protocol
    );
    assert_eq!(
        back.environment.other_program(),
        Some("gatekeeper 0.1.0, in NVBench's format")
    );
    // And a second time without any loss.
    assert_eq!(times(&there_and_back(&back)), times(&back));
}

fn interrupted<T>() -> Seen<T> {
    Seen::NotRun(NotRun::PassedOver {
        said: Some("the run was interrupted".into()),
    })
}

#[test]
fn untimed_cases_say_why() {
    let mut record = fixture::record();
    for piece in &mut record.evidence {
        if let Evidence::Time {
            process: 1, facts, ..
        } = piece
        {
            *facts = interrupted();
        }
    }
    let back = times(&there_and_back(&record));
    let second = back.iter().filter(|((_, process), _)| *process == 1);
    for (_, seen) in second {
        assert_eq!(*seen, interrupted());
    }
    let mut record = fixture::record();
    record
        .evidence
        .retain(|piece| !matches!(piece, Evidence::Time { .. }));
    assert!(matches!(render(&record), Err(Error::Usage(_))));
}

#[test]
fn throttled_stays_throttled() {
    let mut record = fixture::record();
    for piece in &mut record.evidence {
        if let Evidence::Time {
            process: 2,
            facts: Seen::Got(facts),
            ..
        } = piece
        {
            facts.gpu.throttled = true;
        }
    }
    let back = times(&there_and_back(&record));
    for ((_, process), seen) in back {
        let facts = seen.got().unwrap();
        assert_eq!(facts.gpu.throttled, process == 2);
    }
}

#[test]
fn the_files_are_as_nvbench_writes_them() {
    let mut record = fixture::record();
    record.plan.cases.truncate(2);
    let files = render(&record).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(
        names[..5],
        [
            "process-0.json",
            "process-0.json-bin/0.bin",
            "process-0.json-freqs-bin/0.bin",
            "process-0.json-bin/1.bin",
            "process-0.json-bin/2.bin",
        ]
    );
    record.plan.cases.truncate(1);
    let json = render(&record).unwrap().swap_remove(0).bytes;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let [benchmark] = json["benchmarks"].as_array().unwrap().as_slice() else {
        panic!("{json}")
    };
    let mut state = benchmark["states"][0].clone();
    let summaries = state["summaries"].take();
    // A line for each part, and one for each summary.
    let parts = ["name", "index", "devices", "axes"].map(|part| &benchmark[part]);
    let lines = [&json["meta"], &json["devices"], &state].into_iter();
    let lines = lines.chain(parts).chain(summaries.as_array().unwrap());
    insta::assert_snapshot!(lines.map(|part| format!("{part}\n")).collect::<String>());
    let sample = |at: usize| f32::from_le_bytes(files[1].bytes[4 * at..][..4].try_into().unwrap());
    assert_eq!(files[1].bytes.len(), 16);
    assert_eq!(sample(0), 101.9e-6);
}

#[test]
fn files_of_nvbench_are_processes() {
    let record = read(&golden("base")).unwrap();
    let cases: Vec<_> = record
        .plan
        .cases
        .iter()
        .map(|case| case.id.to_string())
        .collect();
    assert_eq!(
        cases,
        [
            "sum/default@T=F32,Elements=1048576",
            "sum/default@T=F32,Elements=16777216",
            "copy/default@default"
        ]
    );
    assert_eq!(record.environment.other_program(), Some("NVBench 0.1.0"));
    assert_eq!(record.environment.timing_protocol, 0);
    let device = record.environment.device.got().unwrap();
    assert_eq!((device.major, device.minor), (9, 0));
    let times = times(&record);
    assert_eq!(times.len(), 9);
    let sum = times[&("sum/default@T=F32,Elements=1048576".to_owned(), 2)]
        .got()
        .unwrap();
    assert_eq!(sum.mode, Mode::Cold);
    assert_eq!((sum.launches_per_sample, sum.single_ns.len()), (1, 12));
    assert_eq!(sum.batched_ns, sum.single_ns);
    assert_eq!(sum.tick_ns, 32);
    assert_eq!(sum.gpu.sm_mhz_before, Some(1980.0.into()));
    assert_eq!(
        times[&("sum/default@T=F32,Elements=16777216".to_owned(), 0)],
        Seen::NotRun(NotRun::PassedOver {
            said: Some("not enough memory".into())
        })
    );
    // One file alone is one process.
    let one = read(&golden("base/run-1.json")).unwrap();
    assert_eq!(one.plan.timing.max_processes, 1);
    assert_eq!(self::times(&one).len(), 3);
}

#[test]
fn a_process_that_stands_there_twice_is_refused() {
    let said = broken(|dir| {
        fs::copy(dir.join("run-0.json"), dir.join("latest.json")).unwrap();
    });
    assert!(
        said.starts_with("D/run-0.json: it has the samples of ")
            && said.ends_with("latest.json, each of them: a copy is no process of its own"),
        "{said}"
    );
}

#[test]
fn a_file_of_means_alone_has_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(golden("base/run-0.json")).unwrap();
    let text = text
        .replace("nv/json/bin:nv/cold/sample_times", "nv/other")
        .replace("nv/json/freqs-bin:nv/cold/sample_freqs", "nv/another");
    fs::write(dir.path().join("run-0.json"), text).unwrap();
    let record = read(&dir.path().join("run-0.json")).unwrap();
    assert_eq!(
        times(&record)[&("copy/default@default".to_owned(), 0)],
        Seen::Unsupported(Unsupported::SamplesNotKept {
            program: "NVBench 0.1.0".into()
        })
    );
}

/// Before names were relative to the JSON file.
#[test]
fn finds_side_files_next_to_a_moved_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = fs::read_to_string(golden("base/run-0.json")).unwrap();
    let text = text.replace("run-0.json-", "/tmp/not/here/run-0.json-");
    fs::write(dir.join("run-0.json"), text).unwrap();
    for kind in ["bin", "freqs-bin"] {
        let to = dir.join(format!("run-0.json-{kind}"));
        fs::create_dir(&to).unwrap();
        for name in ["0.bin", "1.bin"] {
            let from = golden("base").join(format!("run-0.json-{kind}"));
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
    assert_eq!(
        times(&read(&dir.join("run-0.json")).unwrap()),
        times(&read(&golden("base/run-0.json")).unwrap())
    );
}

#[test]
fn damage_has_a_name_and_a_place() {
    let small = "sum/default@T=F32,Elements=1048576";
    let bin = |dir: &Path| dir.join("run-0.json-bin/0.bin");
    let with = |bytes: Vec<u8>| broken(|dir| fs::write(bin(dir), bytes).unwrap());
    assert_eq!(
        broken(|dir| fs::remove_file(bin(dir)).unwrap()),
        format!("D/run-0.json: {small}: its samples, run-0.json-bin/0.bin, are not there")
    );
    assert_eq!(
        with(vec![0; 47]),
        format!(
            "D/run-0.json: {small}: run-0.json-bin/0.bin has 47 bytes, and 12 values of 4 bytes were written"
        )
    );
    assert_eq!(
        with(Vec::new()),
        format!(
            "D/run-0.json: {small}: run-0.json-bin/0.bin has 0 bytes, and 12 values of 4 bytes were written"
        )
    );
    for (value, shown) in [
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
        (-1e-6, "-0.000001"),
        (0.0, "0"),
        (1e6, "1000000"),
    ] {
        let bytes = [value; 12].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(
            with(bytes),
            format!("D/run-0.json: {small}: sample 0 of run-0.json-bin/0.bin is {shown} s")
        );
    }
    assert_eq!(
        broken(|dir| fs::write(dir.join("run-0.json-freqs-bin/1.bin"), [0; 48]).unwrap()),
        "D/run-0.json: copy/default@default: frequency 0 of run-0.json-freqs-bin/1.bin is no frequency"
    );
    assert_eq!(
        replaced("\"name\": \"size\"", "\"name\": \"sighs\""),
        format!("D/run-0.json: {small}: it does not say how many values run-0.json-bin/0.bin has")
    );
}

#[test]
fn a_file_that_is_not_nvbenchs_is_refused() {
    assert_eq!(
        broken(|dir| {
            let json = dir.join("run-0.json");
            let text = fs::read_to_string(&json).unwrap();
            let text = text
                .replacen("\"major\": 1", "\"major\": 2", 1)
                .replacen("1.0.0", "2.0.0", 1);
            fs::write(json, text).unwrap();
        }),
        "D/run-0.json: it has NVBench's file version 2.0.0, and this gatekeeper reads 1.0.0"
    );
    assert_eq!(
        replaced("\"meta\"", "\"mata\""),
        "D/run-0.json: it says no version, and is older than 1.0.0"
    );
    assert_eq!(
        replaced("\"device\": 0", "\"device\": 1"),
        "D/run-0.json: its states ran on 2 devices, and a record is of one: run NVBench with `--devices`"
    );
    assert_eq!(
        replaced("\"id\": 0", "\"id\": 7"),
        "D/run-0.json: it does not say what device 0 is"
    );
    assert_eq!(
        replaced("\"value\": \"16777216\"", "\"value\": \"1048576\""),
        "D/run-0.json: it has sum/default@T=F32,Elements=1048576 twice"
    );
    assert!(replaced("\"is_skipped\": false", "\"is_skipped\": 3").starts_with("D/run-0.json: 1"));
    assert_eq!(
        broken(|dir| fs::write(dir.join("other.json"), "{}").unwrap()),
        "D/other.json: it is not NVBench's JSON, and a directory stands for files of NVBench alone"
    );
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(
        refused(empty.path()),
        "D: there is no NVBench JSON in this directory"
    );
    let message = broken(|dir| {
        for name in ["run-1.json", "run-1.json-bin", "run-1.json-freqs-bin"] {
            let (from, to) = (golden("base").join(name), dir.join(name));
            if from.is_dir() {
                fs::create_dir(&to).unwrap();
                for file in ["0.bin", "1.bin"] {
                    fs::copy(from.join(file), to.join(file)).unwrap();
                }
            } else {
                let text = fs::read_to_string(from).unwrap();
                fs::write(to, text.replace("H100 80GB", "H200 141GB")).unwrap();
            }
        }
    });
    assert!(
        message.starts_with("D/run-1.json: its device is NVIDIA H200 141GB HBM3, and that of "),
        "{message}"
    );
}

proptest! {
    /// Whatever the bytes, it ends in a record or in a message.
    #[test]
    fn garbage_never_panics(at in 0usize..8000, byte: u8, cut in 0usize..9000) {
        let dir = tempfile::tempdir().unwrap();
        let mut text = fs::read(golden("base/run-0.json")).unwrap();
        if let Some(place) = text.get_mut(at) {
            *place = byte;
        }
        text.truncate(cut.max(10));
        let path = dir.path().join("run-0.json");
        fs::write(&path, text).unwrap();
        if let Err(error) = read(&path) {
            prop_assert!(matches!(error, Error::Usage(_)));
        }
    }

    #[test]
    fn samples_keep_float32s_precision(ns in prop::collection::vec(1u64..10_000_000_000, 1..20)) {
        let mut record = fixture::record();
        record.evidence.retain(|piece| !matches!(piece, Evidence::Time { .. }));
        let case = fixture::case_id("fast", "small");
        let facts = TimeFacts { single_ns: ns.clone(), batched_ns: ns.clone(), ..fixture::time_facts(1000, 0) };
        record.evidence.push(Evidence::Time { case, process: 0, facts: Seen::Got(facts) });
        let back = there_and_back(&record);
        let times = times(&back);
        let facts = times.values().next().and_then(Seen::got).unwrap();
        for (kept, was) in facts.single_ns.iter().zip(&ns) {
            let allowed = (*was as f64 * f64::from(f32::EPSILON) / 2.0 + 0.5).ceil();
            prop_assert!(kept.abs_diff(*was) as f64 <= allowed, "{} {}", kept, was);
            if *was < 15_000_000 {
                prop_assert_eq!(kept, was);
            }
        }
        prop_assert_eq!(&facts.batched_ns, &facts.single_ns);
    }
}
