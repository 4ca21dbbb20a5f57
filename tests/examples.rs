//! Kernels written elsewhere come under gate by YAML alone: every example builds with real nvcc, and on a
//! GPU holds its correctness gates.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{copy_of, edit, root, run, stdout};

const EXAMPLES: [&str; 5] = [
    "templated",
    "struct-arg",
    "int8-scales",
    "ragged-offsets",
    "launcher",
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

/// The same examples, each with one thing wrong that only a run on the GPU can see.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_wrong_example_fails_on_the_gpu() {
    for (example, file, right, wrong) in [
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
    ] {
        let project = copy_of(&format!("examples/{example}"));
        edit(&project.path().join(file), right, wrong);
        let output = run(project.path(), &["run", "--provision", "--require-gpu"], 1);
        assert!(
            stdout(&output).contains("max_err") || stdout(&output).contains("rel_l2"),
            "{}",
            stdout(&output)
        );
    }
}
