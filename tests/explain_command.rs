//! `explain`: from two builds to a cause and its line.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{RECORD, edit, git, project, run, stdout};
use serde_json::Value;
use std::path::Path;

/// The project under git, with one commit.
fn committed() -> tempfile::TempDir {
    let project = project();
    let dir = project.path();
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "a base"]);
    project
}

fn run_beside_base(dir: &Path) {
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

/// Causes of the one case.
fn causes(dir: &Path, args: &[&str]) -> Vec<Value> {
    let all = [&["explain", RECORD, "--format", "json"], args].concat();
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
    run_beside_base(dir);
    let causes = causes(dir, &[]);
    let first = &causes[0];
    assert_eq!(first["class"], "barrier-added", "{causes:?}");
    assert_eq!(first["places"][0]["line"]["file"], "copy.cu");
    assert_eq!(first["places"][0]["line"]["number"], 15);
    assert_eq!(first["places"][0]["text"], "__syncthreads();");
    assert_eq!(first["figures"][0]["measure"]["code"], "barrier");
    // The record has all that it takes.
    std::fs::remove_file(dir.join("copy.cu")).unwrap();
    let said = stdout(&run(dir, &["explain", RECORD], 0));
    let line = "  1. [barrier-added] more barriers at copy.cu:15: barrier instructions 0 -> 1\n";
    assert!(said.contains(line), "{said}");
}

#[test]
fn where_nothing_changed_that_is_said() {
    let project = committed();
    let dir = project.path();
    edit(&dir.join("copy.cu"), "// y = x", "// It is y = x");
    run_beside_base(dir);
    let causes = causes(dir, &[]);
    assert_eq!(causes.len(), 1, "{causes:?}");
    assert_eq!(causes[0]["class"], "nothing-changed");
}

#[test]
fn a_record_without_a_base_is_refused_with_what_to_do() {
    let project = project();
    let dir = project.path();
    run(dir, &["run", "--provision", "--device", "sim", "copy"], 0);
    common::refused(
        dir,
        &["explain", RECORD],
        "error: gatekeeper-out/record.json: the record is of a run without a base: there is nothing to compare with\n  \
         help: name the record of the old state: --base RECORD\n  \
         help: or make the record with `gatekeeper run --base REF`\n",
    );
}
