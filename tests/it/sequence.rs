//! Tests an operation of several kernels, which is checked, counted and judged as one, in the simulator. Steps that are
//! missing, in the wrong place or wrong in themselves are in `tests/cases/sequence`.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, copy_of, edit, failed, root, simulate};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn project() -> tempfile::TempDir {
    let dir = copy_of("tests/cases/sequence/three-steps/base");
    let source = root().join("tests/fixtures/kernels/mean.cu");
    fs::copy(source, dir.path().join("mean.cu")).unwrap();
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
    let project = project();
    let dir = project.path();
    simulate(dir, &[], 0);
    // Counters are of all steps together: 125 sectors of x, one of the 4 parts, and one of y.
    let counted = &evidence(dir, "simulation")[0];
    assert_eq!(counted["counters"]["global_load_sectors"], 127);
    assert_eq!(counted["counters"]["global_store_sectors"], 6);
    assert_eq!(counted["findings"], Value::Array(Vec::new()));
    // Resources are the worst of all steps.
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
