//! An operation of several kernels: checked, counted and judged as one, in the simulator; a step that is missing, in
//! the wrong place or wrong in itself goes red for its own reason.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, edit, failed, git, refused, root, simulate};
use serde_json::Value;
use std::fs;
use std::path::Path;

const PARTS: &str = "      - entry: sum_parts
        args: [{tensor: x}, {tensor: parts}, {i32: N}]
        launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
";
const ALL: &str = "      - entry: sum_all
        args: [{tensor: parts}, {tensor: y}, {i32: \"ceil_div(N, 256)\"}]
        launch: {grid: [1], block: [32]}
";
const DIVIDE: &str = "      - entry: divide
        args: [{tensor: y}, {f32: N}]
        launch: {grid: [1], block: [1]}
";

fn file(steps: &[&str]) -> String {
    format!(
        "version: 1
architectures: [sm_90]
kernels:
  mean:
    source: mean.cu
    shapes: {{few: {{N: 1000}}}}
    seeds: 2
    tensors:
      x: {{type: f32, shape: [N]}}
      parts: {{role: scratch, type: f32, shape: [\"ceil_div(N, 256)\"]}}
      y: {{role: out, type: f32, shape: [1]}}
    sequence:
{}    reference: {{reduce: {{x: x, out: y, op: mean, axes: [0]}}}}
    gates: {{registers: 64, spills: 0, max_err: 1e-6}}
",
        steps.concat()
    )
}

fn project(steps: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = root().join("tests/fixtures/kernels/mean.cu");
    fs::copy(from, dir.path().join("mean.cu")).unwrap();
    fs::write(dir.path().join("gates.yaml"), file(steps)).unwrap();
    dir
}

fn evidence(dir: &Path, of: &str) -> Vec<Value> {
    let record: Value =
        serde_json::from_str(&fs::read_to_string(dir.join(RECORD)).unwrap()).unwrap();
    let evidence = record["record"]["evidence"].as_array().unwrap();
    evidence
        .iter()
        .filter_map(|piece| piece.get(of))
        .map(|piece| piece["facts"]["got"].clone())
        .collect()
}

#[test]
fn steps_are_one_operation() {
    let project = project(&[PARTS, ALL, DIVIDE]);
    let dir = project.path();
    simulate(dir, &[], 0);
    // 125 sectors of x, one of the 4 parts, and one of y: counters are of all steps together.
    let counted = &evidence(dir, "simulation")[0];
    assert_eq!(counted["counters"]["global_load_sectors"], 127);
    assert_eq!(counted["counters"]["global_store_sectors"], 6);
    assert_eq!(counted["findings"], Value::Array(Vec::new()));
    // Resources are the worst of them.
    let entries = evidence(dir, "build")[0]["entries"].clone();
    let entries = entries.as_array().unwrap();
    let names: Vec<_> = entries.iter().map(|entry| &entry["name"]).collect();
    assert_eq!(names, ["sum_parts", "sum_all", "divide"]);
    let worst = entries
        .iter()
        .map(|entry| entry["resources"]["registers"].as_u64().unwrap())
        .max()
        .unwrap();
    edit(
        &dir.join("gates.yaml"),
        "registers: 64",
        &format!("registers: {}", worst - 1),
    );
    simulate(dir, &[], 1);
    let failed = failed(dir);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0]
            .1
            .starts_with(&format!("registers {worst}, limit"))
    );
}

#[test]
fn a_step_left_out_is_a_wrong_result() {
    let project = project(&[PARTS, ALL]);
    simulate(project.path(), &[], 1);
    let gates: Vec<_> = failed(project.path())
        .into_iter()
        .map(|(gate, _)| gate)
        .collect();
    assert_eq!(gates, ["max_err <= 1.000e-6"]);
}

/// Every tensor has to be passed to some step.
#[test]
fn a_tensor_that_no_step_takes_is_a_mistake() {
    let project = project(&[PARTS]);
    refused(
        project.path(),
        &["validate"],
        "error: gates.yaml:11:7: kernels.mean.tensors.y: no argument passes the tensor `y`\n  help: add {tensor: y} to args, or remove the tensor\n",
    );
}

#[test]
fn steps_in_the_wrong_order_read_unwritten_memory() {
    let project = project(&[ALL, PARTS, DIVIDE]);
    let dir = project.path();
    simulate(dir, &[], 1);
    let failed = failed(dir);
    let races = failed.iter().find(|(gate, _)| gate == "memory and races");
    let (_, message) = races.unwrap_or_else(|| panic!("{failed:?}"));
    for part in ["in sum_all: ", "`parts`", "mean.cu:"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // The step before the poison was written has left none of its values in what is compared.
    assert!(
        failed.iter().any(|(gate, _)| gate == "finite"),
        "{failed:?}"
    );
}

/// In scratch memory, a place that a step wrote has a value for the next one, and no other place has.
#[test]
fn a_part_that_no_step_wrote_has_no_value() {
    let project = project(&[PARTS, ALL, DIVIDE]);
    let dir = project.path();
    edit(
        &dir.join("mean.cu"),
        "parts[blockIdx.x] = all;",
        "if (blockIdx.x != 2) parts[blockIdx.x] = all;",
    );
    simulate(dir, &[], 1);
    let failed = failed(dir);
    let races = failed.iter().find(|(gate, _)| gate == "memory and races");
    let (_, message) = races.unwrap_or_else(|| panic!("{failed:?}"));
    assert!(message.contains("in sum_all: "), "{message}");
}

/// A fault is of a step, and says of which.
#[test]
fn a_fault_names_its_step() {
    let project = project(&[PARTS, ALL, DIVIDE]);
    let dir = project.path();
    edit(
        &dir.join("mean.cu"),
        "sum += parts[i];",
        "sum += parts[i + 100];",
    );
    let said = simulate(dir, &[], 1);
    assert!(said.contains("in sum_all: "), "{said}");
}

/// One kernel becomes three: compared with the base like any other change.
#[test]
fn an_entry_that_becomes_a_sequence_is_a_change_of_the_case() {
    let project = project(&[PARTS, ALL, DIVIDE]);
    let dir = project.path();
    let whole = "    sequence:
      - entry: mean
        args: [{tensor: x}, {tensor: parts}, {tensor: y}, {i32: N}]
        launch: {grid: [1], block: [32]}
";
    let sequence = format!("    sequence:\n{}", [PARTS, ALL, DIVIDE].concat());
    let plain = "    entry: mean
    args: [{tensor: x}, {tensor: parts}, {tensor: y}, {i32: N}]
    launch: {grid: [1], block: [32]}
";
    let yaml = dir.join("gates.yaml");
    edit(&yaml, &sequence, plain);
    git(dir, &["init", "-q"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-qm", "one kernel"]);
    // A sequence of one step is the same call.
    edit(&yaml, plain, whole);
    simulate(dir, &["--base", "HEAD"], 0);
    // Three of them count otherwise, which a base that counts less shows.
    edit(&yaml, whole, &sequence);
    simulate(dir, &["--base", "HEAD"], 1);
    let failed = failed(dir);
    assert!(
        failed.len() == 1
            && failed[0].1.starts_with("global_store_requests 1 -> 6")
            && failed[0].1.ends_with("limit +0 % of the base"),
        "{failed:?}"
    );
    // A step that a change drops shows itself in what is computed.
    git(dir, &["commit", "-qam", "three kernels"]);
    edit(&yaml, DIVIDE, "");
    simulate(dir, &["--base", "HEAD"], 1);
    let gates: Vec<_> = failed_gates(dir);
    assert_eq!(gates, ["max_err <= 1.000e-6"]);
}

fn failed_gates(dir: &Path) -> Vec<String> {
    failed(dir).into_iter().map(|(gate, _)| gate).collect()
}
