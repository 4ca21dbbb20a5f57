use super::super::read;
use super::*;
use model::Unsupported;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/fixtures/nvbench")
        .join(name)
}

fn times(record: &Record) -> BTreeMap<(String, u32), Seen<TimeFacts>> {
    record
        .evidence
        .iter()
        .filter_map(|piece| match piece {
            Evidence::Time {
                case,
                process,
                facts,
            } => Some(((case.to_string(), *process), facts.clone())),
            _ => None,
        })
        .collect()
}

/// Copies one process of the base, with its samples.
fn copy_process(name: &str, to: &Path) {
    fs::copy(fixture("base").join(name), to.join(name)).unwrap();
    for kind in ["bin", "freqs-bin"] {
        let dir = format!("{name}-{kind}");
        fs::create_dir(to.join(&dir)).unwrap();
        for file in ["0.bin", "1.bin"] {
            let path = format!("{dir}/{file}");
            fs::copy(fixture("base").join(&path), to.join(&path)).unwrap();
        }
    }
}

fn refusal(dir: &Path) -> String {
    match read(dir) {
        Err(Error::Usage(diagnostic)) => {
            assert!(!diagnostic.help.is_empty());
            let at = diagnostic.at.unwrap_or_default();
            let text = format!("{at}: {}", diagnostic.message);
            text.replace(&dir.display().to_string(), "D")
        }
        other => panic!("{other:?}"),
    }
}

/// Breaks one thing in a directory with one of NVBench's files, and returns the error.
fn broken(edit: impl FnOnce(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    copy_process("run-0.json", dir.path());
    assert!(read(dir.path()).is_ok());
    edit(dir.path());
    refusal(dir.path())
}

fn replace(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn files_of_nvbench_are_processes() {
    let record = read(&fixture("base")).unwrap();
    let cases: Vec<_> = record
        .plan
        .cases
        .iter()
        .map(|case| case.id.to_string())
        .collect();
    let [small, large, copy] = [
        "sum/default@T=F32,Elements=1048576",
        "sum/default@T=F32,Elements=16777216",
        "copy/default@default",
    ];
    assert_eq!(cases, [small, large, copy]);
    assert_eq!(record.environment.other_program(), Some("NVBench 0.1.0"));
    assert_eq!(record.environment.timing_protocol, 0);
    let device = record.environment.device.got().unwrap();
    assert_eq!((device.major, device.minor), (9, 0));
    let times = times(&record);
    assert_eq!(times.len(), 9);
    let sum = times[&(small.to_owned(), 2)].got().unwrap();
    assert_eq!(sum.mode, Mode::Cold);
    assert_eq!((sum.launches_per_sample, sum.single_ns.len()), (1, 12));
    assert_eq!(sum.batched_ns, sum.single_ns);
    assert_eq!(sum.tick_ns, 32);
    assert_eq!(sum.gpu.sm_mhz_before, Some(1980.0.into()));
    assert_eq!(
        times[&(large.to_owned(), 0)],
        Seen::NotRun(NotRun::PassedOver {
            said: Some("not enough memory".into())
        })
    );
    // A single file is one process.
    let one = read(&fixture("base/run-1.json")).unwrap();
    assert_eq!(one.plan.timing.max_processes, 1);
    assert_eq!(self::times(&one).len(), 3);
}

#[test]
fn a_file_of_means_alone_has_no_samples() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run-0.json");
    fs::copy(fixture("base/run-0.json"), &path).unwrap();
    replace(&path, "nv/json/bin:nv/cold/sample_times", "nv/other");
    assert_eq!(
        times(&read(&path).unwrap())[&("copy/default@default".to_owned(), 0)],
        Seen::Unsupported(Unsupported::SamplesNotKept {
            program: "NVBench 0.1.0".into()
        })
    );
}

/// Names were not always relative to the JSON file.
#[test]
fn finds_side_files_next_to_a_moved_file() {
    let dir = tempfile::tempdir().unwrap();
    copy_process("run-0.json", dir.path());
    let path = dir.path().join("run-0.json");
    replace(&path, "\"run-0.json-", "\"/tmp/not/here/run-0.json-");
    assert_eq!(
        times(&read(&path).unwrap()),
        times(&read(&fixture("base/run-0.json")).unwrap())
    );
}

#[test]
fn damaged_samples_are_refused() {
    let at = "D/run-0.json: sum/default@T=F32,Elements=1048576";
    let samples = "run-0.json-bin/0.bin";
    assert_eq!(
        broken(|dir| fs::remove_file(dir.join(samples)).unwrap()),
        format!("{at}: its samples, {samples}, are not there")
    );
    let written = |bytes: Vec<u8>| broken(|dir| fs::write(dir.join(samples), bytes).unwrap());
    for bytes in [47, 0] {
        assert_eq!(
            written(vec![0; bytes]),
            format!("{at}: {samples} has {bytes} bytes, and 12 values of 4 bytes were written")
        );
    }
    for (value, shown) in [
        (f32::NAN, "NaN"),
        (f32::INFINITY, "inf"),
        (-1e-6, "-0.000001"),
        (0.0, "0"),
        (1e6, "1000000"),
    ] {
        assert_eq!(
            written([value; 12].map(f32::to_le_bytes).concat()),
            format!("{at}: value 0 of {samples} is {shown}, which is not a time")
        );
    }
    let clocks = "run-0.json-freqs-bin/1.bin";
    assert_eq!(
        broken(|dir| fs::write(dir.join(clocks), [0; 48]).unwrap()),
        format!(
            "D/run-0.json: copy/default@default: value 0 of {clocks} is 0, which is not a frequency"
        )
    );
}

/// Each line of the table has a text in NVBench's file, what replaces it, and what the error says.
#[test]
fn broken_json_is_refused() {
    for row in include_str!("broken.tsv").lines() {
        let [from, to, says] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let from = from.replace("\\n", "\n          ");
        let said = broken(|dir| replace(&dir.join("run-0.json"), &from, to));
        assert!(
            said.starts_with("D/run-0.json:") && said.ends_with(says),
            "{said}: {says}"
        );
    }
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    assert_eq!(
        broken(|dir| fs::write(dir.join("other.json"), "{}").unwrap()),
        "D/other.json: it is not NVBench's JSON, and a directory stands for files of NVBench alone"
    );
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(
        refusal(empty.path()),
        "D: there is no NVBench JSON in this directory"
    );
    let copied = broken(|dir| {
        fs::copy(dir.join("run-0.json"), dir.join("latest.json")).unwrap();
    });
    assert_eq!(
        copied,
        "D/run-0.json: all its samples are those of D/latest.json: a copy is not a process of its own"
    );
    for (from, to, says) in [
        (
            "H100 80GB",
            "H200 141GB",
            "its device is NVIDIA H200 141GB HBM3, and that of D/run-0.json is NVIDIA H100 80GB HBM3",
        ),
        (
            "\"string\": \"0.1.0\"",
            "\"string\": \"0.2.0\"",
            "its writer is NVBench 0.2.0, and that of D/run-0.json is NVBench 0.1.0",
        ),
    ] {
        let said = broken(|dir| {
            copy_process("run-1.json", dir);
            replace(&dir.join("run-1.json"), from, to);
        });
        assert_eq!(
            said,
            format!("D/run-1.json: {says}: they are not processes of one run")
        );
    }
}

proptest! {
    /// Whatever the bytes, it ends in a record or in a message.
    #[test]
    fn garbage_never_panics(at in 0usize..8000, byte: u8, cut in 0usize..9000) {
        let dir = tempfile::tempdir().unwrap();
        let mut text = fs::read(fixture("base/run-0.json")).unwrap();
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
}
