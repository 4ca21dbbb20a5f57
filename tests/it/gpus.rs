//! Tests `--device cuda:all`. With real GPUs, one is enough to run it, and several are its purpose. Without any, the
//! messages before a kernel runs are tested.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; what was spent is worth reading"
)]

use crate::common;

use common::{RECORD, edit, gatekeeper, project, root, run, stdout};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A library takes the driver's place. Nothing is run on the GPUs that it reports.
#[test]
fn two_models_of_gpu_are_no_machine_for_all() {
    let libraries = tempfile::tempdir().unwrap();
    for name in ["libcuda.so", "libcuda.so.1"] {
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-DVERSION=13000", "-DGPUS=2", "-o"])
            .arg(libraries.path().join(name))
            .arg(root().join("tests/fixtures/old-driver/cuda.c"))
            .status()
            .unwrap();
        assert!(built.success());
    }
    let project = project();
    let said = |args: &[&str]| {
        let output = gatekeeper()
            .current_dir(project.path())
            .args(args)
            .env("LD_LIBRARY_PATH", libraries.path())
            .output()
            .unwrap();
        let said = stdout(&output);
        let words: Vec<_> = said.split_whitespace().collect();
        (output.status.code(), words.join(" "))
    };
    let (code, run) = said(&["run", "--provision", "--device", "cuda:all"]);
    assert_eq!(code, Some(4), "{run}");
    for part in [
        "the GPUs of cuda:all differ: cuda:0 is GPU of a test, sm_90,",
        "; cuda:1 is GPU 1 of a test, sm_90,",
        "choose one with --device cuda:N",
    ] {
        assert!(run.contains(part), "{run}");
    }
    let (code, doctor) = said(&["doctor"]);
    assert_eq!(code, Some(0), "{doctor}");
    for part in [
        "cuda:0 limited GPU of a test,",
        "cuda:1 limited GPU 1 of a test,",
    ] {
        assert!(doctor.contains(part), "{doctor}");
    }
}

/// The checks do not depend on which GPU ran them, or on how many there are.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn all_gpus_find_the_same_as_one_in_the_same_order() {
    let project = project();
    let small = "      small: {N: 1000}\n";
    let more: String = (1..=20)
        .map(|n| format!("      n{n}: {{N: {}}}\n", 1000 * n + n))
        .collect();
    edit(
        &project.path().join("gates.yaml"),
        small,
        &format!("{small}{more}"),
    );
    let record = |device| {
        let args = ["run", "--provision", "--require-gpu", "--device", device];
        let output = run(project.path(), &args, 0);
        let text = fs::read_to_string(project.path().join(RECORD)).unwrap();
        let mut file: Value = serde_json::from_str(&text).unwrap();
        (file["record"].take(), stdout(&output))
    };
    let (one, _) = record("cuda");
    let (all, said) = record("cuda:all");
    let checks = |record: &Value| -> Vec<Value> {
        record["evidence"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|piece| piece.get("driver").or(piece.get("check")).is_some())
            .cloned()
            .collect()
    };
    assert_eq!(checks(&one).len(), 22 + 2 * 22);
    assert_eq!(checks(&all), checks(&one));
    assert_eq!(all["environment"]["device"], one["environment"]["device"]);
    assert_eq!(one["costs"]["gpus"], 1);
    let gpus = all["costs"]["gpus"].as_u64().unwrap();
    assert!(gpus >= 1);
    let side_by_side = format!(" on {gpus} GPUs side by side");
    let words: Vec<_> = said.split_whitespace().collect();
    assert_eq!(
        words.join(" ").contains(side_by_side.trim()),
        gpus > 1,
        "{said}"
    );
    let spent = |record: &Value| record["costs"].clone();
    println!("one: {}\n{gpus}: {}", spent(&one), spent(&all));
}
