//! Tests `explain`, which finds the cause of a difference between two builds, and its line.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, edit, git, project, run, stdout};
use serde_json::Value;
use std::path::Path;

/// Makes a project under git, with one commit.
fn committed() -> tempfile::TempDir {
    let project = project();
    let dir = project.path();
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "a base"]);
    project
}

fn run_against_base(dir: &Path) {
    let args = [
        "run",
        "--provision",
        "--device",
        "sim",
        "--base",
        "HEAD",
        "copy",
    ];
    run(dir, &args, 0);
}

/// Returns the causes of the only case.
fn causes(dir: &Path, args: &[&str]) -> Vec<Value> {
    let all = [&["explain", "--format", "json"], args].concat();
    let explained: Value = serde_json::from_str(&stdout(&run(dir, &all, 0))).unwrap();
    assert_eq!(explained["schema"], "gatekeeper.explanation/1");
    let case = &explained["cases"][0];
    assert_eq!(case["gaps"].as_array().unwrap().len(), 0, "{explained}");
    case["causes"].as_array().unwrap().clone()
}

#[test]
fn a_barrier_is_found_with_its_line() {
    let project = committed();
    let dir = project.path();
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = staged[255 - threadIdx.x];\n",
        "    if (i < n) staged[255 - threadIdx.x] *= 1.0f;\n    __syncthreads();\n    if (i < n) y[i] = staged[255 - threadIdx.x];\n",
    );
    run_against_base(dir);
    let causes = causes(dir, &[]);
    let first = &causes[0];
    assert_eq!(first["class"], "barrier-added", "{causes:?}");
    assert_eq!(first["places"][0]["line"]["file"], "copy.cu");
    assert_eq!(first["places"][0]["line"]["number"], 15);
    assert_eq!(first["places"][0]["text"], "__syncthreads();");
    assert_eq!(first["values"][0]["measure"]["code"], "barrier");
    // The record has everything that is needed.
    std::fs::remove_file(dir.join("copy.cu")).unwrap();
    let said = stdout(&run(dir, &["explain"], 0));
    let line = "  1. [barrier-added] more barriers at copy.cu:15: barrier instructions 0 -> 1\n";
    assert!(said.contains(line), "{said}");
}

#[test]
fn explains_that_nothing_changed() {
    let project = committed();
    let dir = project.path();
    edit(&dir.join("copy.cu"), "// y = x", "// It is y = x");
    run_against_base(dir);
    let causes = causes(dir, &[]);
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0]["class"], "nothing-changed");
}

#[test]
fn compares_two_runs_with_code_from_the_cache() {
    let project = committed();
    let dir = project.path();
    let head = dir.join("copy.cu");
    run(dir, &["run", "--provision", "--device", "sim", "copy"], 0);
    std::fs::rename(dir.join(RECORD), dir.join("old.json")).unwrap();
    edit(
        &head,
        "    if (i < n) y[i] = staged[255 - threadIdx.x];\n",
        "    __syncthreads();\n    if (i < n) y[i] = staged[255 - threadIdx.x] * float(1.0 + 1e-12 * n);\n",
    );
    run(dir, &["run", "--provision", "--device", "sim", "copy"], 0);
    let causes = causes(dir, &["--base", "old.json"]);
    let classes: Vec<_> = causes.iter().map(|cause| cause["class"].clone()).collect();
    assert!(classes.contains(&"double-precision".into()), "{classes:?}");
    assert!(classes.contains(&"barrier-added".into()), "{classes:?}");

    // On a machine that built neither side, the command says so and gives no answer.
    let elsewhere = common::fresh_cache("gatekeeper-explain-");
    let output = common::gatekeeper()
        .current_dir(dir)
        .env("GATEKEEPER_CACHE", elsewhere.path())
        .args(["explain", "--base", "old.json"])
        .output()
        .unwrap();
    let said = stdout(&output);
    assert!(
        said.contains("not compared: machine code: the build cache no longer has it"),
        "{said}"
    );
    assert!(
        !said.contains("nothing in code or launch changed"),
        "{said}"
    );
}

/// The gate that fails says why, once. The table of the comment has all causes.
#[test]
fn a_gate_that_fails_prints_its_cause() {
    let project = committed();
    let dir = project.path();
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = staged[255 - threadIdx.x];\n",
        "    if (i >= n) return;\n    float kept[8];\n    #pragma unroll 1\n    for (int k = 0; k < 8; ++k)\n        \
         kept[(k * n) & 7] = k == 7 ? staged[255 - threadIdx.x] : x[k];\n    \
         y[i] = kept[(7 * n + blockDim.y - 1) & 7];\n",
    );
    let args = [
        "run",
        "--provision",
        "--device",
        "sim",
        "--base",
        "HEAD",
        "copy",
    ];
    let said = stdout(&run(dir, &args, 1)).replace("\n     ", " ");
    assert!(
        said.contains("cause: an array is in local memory at copy.cu:"),
        "{said}"
    );
    assert_eq!(said.matches("cause: ").count(), 1, "{said}");
    let comment = std::fs::read_to_string(dir.join("gatekeeper-out/report.md")).unwrap();
    let (open, folded) = comment.split_once("<details>").unwrap();
    let cause = "\nCause: an array is in local memory at copy.cu:";
    assert_eq!(open.matches(cause).count(), 1, "{comment}");
    assert!(
        open.starts_with("### ❌ gatekeeper: copy/default"),
        "{open}"
    );
    assert!(open.contains(" (copy.cu:"), "{open}");
    assert!(!folded.contains("an array is in local memory"), "{folded}");
}

#[test]
fn rejects_a_record_without_a_base_and_names_the_remedy() {
    let project = project();
    let dir = project.path();
    run(dir, &["run", "--provision", "--device", "sim", "copy"], 0);
    common::refused(
        dir,
        &["explain"],
        "error: gatekeeper-out/record.json: the record is of a run without a base: there is nothing to compare with\n  \
         help: name the record of the old state: --base RECORD\n  \
         help: or make the record with `gatekeeper run --base REF`\n",
    );
}
