//! Tests that kernels written elsewhere are gated by YAML alone: every example builds with real nvcc, and on a GPU
//! holds its correctness gates.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{copy_of, edit, root, run, stdout};

const EXAMPLES: [&str; 8] = [
    "rms-norm",
    "paged-kv",
    "templated",
    "struct-arg",
    "int8-scales",
    "ragged-offsets",
    "launcher",
    "split-attention",
];

fn every_example(arguments: &[&str]) {
    for example in EXAMPLES {
        let project = copy_of(&format!("examples/{example}"));
        let mut all = vec!["run", "--provision"];
        all.extend(arguments);
        let output = run(project.path(), &all, 0);
        let report =
            std::fs::read_to_string(project.path().join("gatekeeper-out/report.json")).unwrap();
        assert!(
            report.contains("\"pass\""),
            "{example}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn every_example_is_listed() {
    let mut there: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    // Two directories have jobs to copy and no kernels, and tests/it/python.rs runs the kernels of the third.
    there.retain(|name| !["ci", "slurm", "triton"].contains(&name.as_str()));
    there.sort();
    let mut listed = EXAMPLES.map(str::to_owned);
    listed.sort();
    assert_eq!(there, listed);
}

#[test]
fn every_example_builds_and_holds_its_resource_gates() {
    every_example(&[]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn every_example_is_right_on_the_gpu() {
    every_example(&["--require-gpu"]);
}

/// An example, a file of it, a correct text in the file, and a wrong one that only a run of the kernel can detect.
const WRONG: [(&str, &str, &str, &str); 8] = [
    (
        "rms-norm",
        "gates.yaml",
        "{f32: 1e-6}, {i32: H}]",
        "{f32: 0.1}, {i32: H}]",
    ),
    (
        "paged-kv",
        "gather_kv.cu",
        "token % PAGE)",
        "(token + 1) % PAGE)",
    ),
    ("templated", "gates.yaml", "- f32: 0.5", "- f32: 0.75"),
    ("struct-arg", "gates.yaml", "- f64: 2.0", "- f64: 1.0"),
    (
        "int8-scales",
        "gates.yaml",
        "levels: 127, scale_divisor: 127",
        "levels: 127, scale_divisor: 128",
    ),
    (
        "ragged-offsets",
        "ragged_mean.cu",
        "token < end",
        "token + 1 < end",
    ),
    ("launcher", "center_reversed.cu", "columns - 1 - c", "c"),
    (
        "split-attention",
        "split_attention.cu",
        "weight * sum[first + s]",
        "sum[first + s]",
    ),
];

fn a_wrong_example_fails((example, file, right, wrong): (&str, &str, &str, &str), device: &str) {
    let project = copy_of(&format!("examples/{example}"));
    edit(&project.path().join(file), right, wrong);
    let output = run(
        project.path(),
        &["run", "--provision", "--device", device],
        1,
    );
    let said = stdout(&output);
    assert!(
        said.contains("max_err") || said.contains("rel_l2"),
        "{said}"
    );
}

/// Launchers are left out, because they need a GPU.
#[test]
fn a_wrong_example_fails_in_the_simulator() {
    for wrong in WRONG
        .into_iter()
        .filter(|(example, ..)| *example != "launcher")
    {
        a_wrong_example_fails(wrong, "sim");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_wrong_example_fails_on_the_gpu() {
    for wrong in WRONG {
        a_wrong_example_fails(wrong, "cuda");
    }
}

/// Arguments that do not fit are not a wrong kernel. They are refused, because the entry's name tells its parameters.
#[test]
fn a_tensor_of_another_type_is_named() {
    let project = copy_of("examples/rms-norm");
    let gates = project.path().join("gates.yaml");
    edit(&gates, "weight: {type: f16", "weight: {type: f32");
    let simulated = ["run", "--provision", "--device", "sim"];
    let said = stdout(&run(project.path(), &simulated, 1));
    let words: Vec<_> = said.split_whitespace().collect();
    let words = words.join(" ");
    for part in [
        "arguments do not fit [arguments-do-not-fit]",
        "│ weight: {type: f32} the kernel takes __half const*",
        "fix: type: f16",
    ] {
        assert!(words.contains(part), "{part}: {said}");
    }
}
