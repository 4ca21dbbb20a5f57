//! NVBench's files through the real binary: written of a record, and read as one. No GPU, no compiler.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{copy_of, edit, refused, run, stderr, stdout, write_record};
use judge::fixture;
use std::fs;
use std::path::Path;

fn fixtures() -> tempfile::TempDir {
    copy_of("tests/fixtures/nvbench")
}

/// With times of a GPU, which this machine need not have.
fn record(dir: &Path) -> String {
    write_record(dir, "record.json", &fixture::record())
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn several_processes_a_side_decide() {
    let dir = fixtures();
    let output = run(
        dir.path(),
        &["compare", "-v", "base", "head", "--p50", "+2%"],
        1,
    );
    let said = stdout(&output);
    for says in [
        "✗ copy/default@default  p50 4.0 % slower ",
        "\n    p50 50.02 us -> 52.03 us, +4.0 % (95 % interval ",
        "skipped  not enough memory: 1 gate skipped: times of 1 case (sum/default@T=F32,Elements=16777216)",
        "times by NVBench 0.1.0",
        "\nFAIL: 2 problems (2 gates), 1 not judged\n",
    ] {
        assert!(said.contains(says), "{says}: {said}");
    }
    // There is nothing to run again: gatekeeper does not know these programs.
    assert!(!said.contains("gatekeeper run"), "{said}");
    run(dir.path(), &["compare", "base", "base", "--p50", "+2%"], 0);
    run(dir.path(), &["compare", "base", "head", "--p50", "+10%"], 0);
    let better = run(dir.path(), &["compare", "head", "base", "--p50", "+2%"], 0);
    assert!(
        stdout(&better).contains("\nbetter   "),
        "{}",
        stdout(&better)
    );
}

/// One process has no spread between processes: no claim follows from it, and never a pass.
#[test]
fn one_process_a_side_is_inconclusive() {
    let dir = fixtures();
    let (base, head) = ("base/run-0.json", "head/run-0.json");
    for pair in [[base, head], [base, base], ["base", head], [base, "head"]] {
        let output = run(
            dir.path(),
            &["compare", pair[0], pair[1], "--p50", "+2%"],
            3,
        );
        let said = stdout(&output);
        assert!(
            said.contains("one process") || said.contains("one timing process"),
            "{said}"
        );
        assert!(
            said.contains("\nINCONCLUSIVE: 1 problem (2 gates), 1 not judged\n"),
            "{said}"
        );
    }
}

/// For a case that the base has times of, a file without any is no reason to pass.
#[test]
fn a_file_without_its_samples_is_no_pass() {
    let dir = fixtures();
    for run in 0..3 {
        let file = dir.path().join(format!("head/run-{run}.json"));
        let text = fs::read_to_string(&file).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let states = json["benchmarks"][0]["states"].as_array_mut().unwrap();
        for state in states {
            state["summaries"] = serde_json::json!([]);
        }
        fs::write(&file, json.to_string()).unwrap();
    }
    let output = run(dir.path(), &["compare", "base", "head", "--p50", "+10%"], 3);
    let said = stdout(&output);
    assert!(said.contains("[head-passed-over]"), "{said}");
}

#[test]
fn a_case_that_head_does_not_have_is_no_pass() {
    let dir = fixtures();
    for run in 0..3 {
        edit(
            &dir.path().join(format!("head/run-{run}.json")),
            "\"name\": \"copy\"",
            "\"name\": \"other\"",
        );
    }
    let output = run(dir.path(), &["compare", "base", "head", "--p50", "+10%"], 1);
    let said = stdout(&output);
    assert!(
        said.contains("removed: head has no copy/default@default"),
        "{said}"
    );
}

#[test]
fn without_gates_there_is_nothing_to_judge() {
    let dir = fixtures();
    refused(
        dir.path(),
        &["compare", "base", "head"],
        "error: NVBench's files have no gates, so nothing would be judged\n  \
         help: limit how much slower than BASE the p50 of each case may be: --p50 +2%\n",
    );
    let said = stdout(&run(dir.path(), &["judge", "base"], 3));
    assert!(
        said.contains("NOTHING JUDGED: no gate was judged"),
        "{said}"
    );
    let markdown = ["report", "base/run-0.json", "--format", "markdown"];
    let said = stdout(&run(dir.path(), &markdown, 0));
    assert!(said.contains("| `copy/default@default` | - | "), "{said}");
    for p50 in ["2%", "-2%", "+2", "+x%", "+-2%"] {
        let output = run(dir.path(), &["compare", "base", "head", "--p50", p50], 2);
        assert!(stderr(&output).contains("+2%"), "{}", stderr(&output));
    }
}

#[test]
fn a_record_and_nvbenchs_files_are_never_compared() {
    let dir = fixtures();
    let record = record(dir.path());
    let says = |at: &str| {
        format!(
            "error: {at}: one is a record of gatekeeper and the other is NVBench's: they do not measure times the same way\n  \
             help: `gatekeeper report RECORD --nvbench DIR` converts a record to NVBench's format\n"
        )
    };
    for args in [["base", &record], [&record, "base"]] {
        refused(
            dir.path(),
            &["compare", args[0], args[1], "--p50", "+2%"],
            &says("base"),
        );
    }
    // Nor do times of another program become a baseline.
    for from in ["base", "base/run-0.json"] {
        run(dir.path(), &["baseline", "update", "--record", from], 2);
    }
}

#[test]
fn a_record_goes_there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let record = record(dir);
    let write = ["report", &record, "--nvbench", "out"];
    run(dir, &[&write[..], &["--format", "json"]].concat(), 2);
    let output = run(dir, &write, 0);
    assert_eq!(
        stdout(&output),
        "out: 3 files of NVBench's JSON, with their samples\n"
    );
    assert_eq!(
        names(&dir.join("out"))[..3],
        [
            "process-0.json",
            "process-0.json-bin",
            "process-0.json-freqs-bin"
        ]
    );
    // The single launches and the batches of each case; and the clock once.
    assert_eq!(names(&dir.join("out/process-0.json-bin")).len(), 8);
    assert_eq!(names(&dir.join("out/process-0.json-freqs-bin")).len(), 4);
    refused(
        dir,
        &write,
        "error: out: the directory is not empty; its files would be read as processes of this record\n  \
         help: name a new one\n",
    );
    let said = stdout(&run(dir, &["report", "out"], 0));
    // Four launches of a process show no tail.
    let line = "k/direct@small        -     100    -    -  0.9789 ";
    assert!(said.contains(line), "{said}");
    run(dir, &["compare", "out", "out", "--p50", "+1%"], 0);
}

/// Head and base of one record, each as NVBench would have written it.
#[test]
fn both_sides_of_a_record_against_a_base_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let record = write_record(dir, "record.json", &fixture::record_against_base());
    let args = ["report", &record, "--nvbench", "out"];
    let said = stdout(&run(dir, &args, 0));
    // Three processes timed the variant that did not change, six the other against the base.
    assert!(said.starts_with("out: 15 files "), "{said}");
    assert_eq!(names(&dir.join("out/base")), names(&dir.join("out/head")));
    let compare = ["compare", "out/base", "out/head", "--p50", "+2%"];
    let said = stdout(&run(dir, &compare, 0));
    assert!(said.contains("\nPASS: 2 passed\n"), "{said}");
}

#[test]
fn samples_that_are_damaged_are_refused() {
    let dir = fixtures();
    let bin = dir.path().join("head/run-1.json-bin/0.bin");
    let good = fs::read(&bin).unwrap();
    let says = |message: &str| {
        format!(
            "error: head/run-1.json: sum/default@T=F32,Elements=1048576: {message}\n  \
             help: NVBench writes it, and the files of its samples next to it, with `--jsonbin FILE.json`\n"
        )
    };
    let args = ["compare", "base", "head", "--p50", "+2%"];
    fs::write(&bin, &good[..20]).unwrap();
    let short = "run-1.json-bin/0.bin has 20 bytes, and 12 values of 4 bytes were written";
    refused(dir.path(), &args, &says(short));
    let mut nan = good.clone();
    nan[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&bin, nan).unwrap();
    refused(
        dir.path(),
        &args,
        &says("sample 0 of run-1.json-bin/0.bin is NaN s"),
    );
    fs::remove_file(&bin).unwrap();
    refused(
        dir.path(),
        &args,
        &says("its samples, run-1.json-bin/0.bin, are not there"),
    );
    fs::write(dir.path().join("head/run-1.json"), "{").unwrap();
    let said = stderr(&run(dir.path(), &args, 2));
    assert!(said.starts_with("error: head/run-1.json: "), "{said}");
}
