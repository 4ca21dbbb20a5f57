//! Tests that the real binary reads NVBench's files as a record. It needs no GPU and no compiler.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{copy_of, edit, refused, run, stderr, stdout, write_record};
use judge::fixture;
use std::fs;

fn fixtures() -> tempfile::TempDir {
    copy_of("tests/fixtures/nvbench")
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
    // There is no command that runs it again, because gatekeeper does not know these programs.
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

/// One process shows no spread between processes, so there is no claim and no pass.
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

/// If the base has times of a case, a file without them is no reason to pass.
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
    let record = write_record(dir.path(), "record.json", &fixture::record());
    let says = |at: &str| {
        format!(
            "error: {at}: one is a record of gatekeeper and the other is NVBench's: they do not measure times the same way\n  \
             help: measure both sides with the same program\n"
        )
    };
    for args in [["base", &record], [&record, "base"]] {
        refused(
            dir.path(),
            &["compare", args[0], args[1], "--p50", "+2%"],
            &says("base"),
        );
    }
    // Times of another program do not become a baseline either.
    for from in ["base", "base/run-0.json"] {
        run(dir.path(), &["baseline", "update", "--record", from], 2);
    }
}

#[test]
fn samples_that_are_damaged_are_refused() {
    let dir = fixtures();
    let bin = dir.path().join("head/run-1.json-bin/0.bin");
    let good = fs::read(&bin).unwrap();
    let args = ["compare", "base", "head", "--p50", "+2%"];
    fs::write(&bin, &good[..20]).unwrap();
    refused(
        dir.path(),
        &args,
        "error: head/run-1.json: sum/default@T=F32,Elements=1048576: run-1.json-bin/0.bin has 20 bytes, and 12 values of 4 bytes \
         were written\n  help: NVBench writes it, and the files of its samples next to it, with `--jsonbin FILE.json`\n",
    );
    fs::write(dir.path().join("head/run-1.json"), "{").unwrap();
    let said = stderr(&run(dir.path(), &args, 2));
    assert!(
        said.starts_with("error: head/run-1.json: it is not NVBench's JSON, "),
        "{said}"
    );
}
