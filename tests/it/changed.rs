//! `run --changed`: each edit runs the kernels that it touches, and no other.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{edit, git, run, stderr, stdout};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const KERNEL: &str = r#"#include "NAME.cuh"
extern "C" __global__ void NAME(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * FACTOR;
}
"#;

const GATES: &str = "
    source: NAME.cu
    entry: NAME
    shapes: {small: {N: 300}}
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 128)\"], block: [128]}
    reference: {user: {source: NAME.c, function: reference, args: [{i32: N}, {tensor: x}, {tensor: y}]}}
    gates: {registers: 32, max_err: 0}
";

const REFERENCE: &str = "#include <stdint.h>
void reference(int32_t n, const float* x, float* y) {
    for (int32_t i = 0; i < n; i++) y[i] = x[i] * 2;
}
";

/// Two kernels with a header and a reference each, committed, and built once.
fn committed() -> TempDir {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    let mut gates = "version: 1\narchitectures: [sm_90]\nkernels:".to_owned();
    for name in ["first", "second"] {
        let of = |text: &str| text.replace("NAME", name);
        fs::write(dir.join(of("NAME.cu")), of(KERNEL)).unwrap();
        fs::write(dir.join(of("NAME.cuh")), "#define FACTOR 2.0f\n").unwrap();
        fs::write(dir.join(of("NAME.c")), REFERENCE).unwrap();
        gates += &of(&format!("\n  NAME:{GATES}"));
    }
    fs::write(dir.join("gates.yaml"), gates).unwrap();
    fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "-q"]);
    git(dir, &["add", "."]);
    git(dir, &["commit", "-qm", "first"]);
    run(dir, &["run", "--provision", "--device", "sim"], 0);
    project
}

/// Exit code and first line on standard error.
fn changed(dir: &Path, more: &[&str], code: i32) -> String {
    let args = [&["run", "--device", "sim", "--changed", "HEAD"], more].concat();
    let output = run(dir, &args, code);
    let ran = stdout(&output);
    let said = stderr(&output).lines().next().unwrap().to_owned();
    let cases = ["first", "second"].map(|name| {
        let file = fs::read_to_string(dir.join("gatekeeper-out/record.json"));
        file.is_ok_and(|record| record.contains(&format!("\"kernel\":\"{name}\"")))
    });
    format!(
        "{said}{}",
        match (cases, ran.is_empty()) {
            ([false, false], true) => "; ran nothing",
            ([true, false], false) => "; ran first",
            ([false, true], false) => "; ran second",
            ([true, true], false) => "; ran both",
            _ => "; ran what?",
        }
    )
}

#[test]
fn an_edit_runs_only_affected_kernels() {
    let project = committed();
    let dir = project.path();
    assert_eq!(
        changed(dir, &[], 0),
        "0 of 2 kernels differ from HEAD's; ran nothing"
    );
    let edits = [
        ("first.cu", "int i", "unsigned i"),
        (
            "first.cuh",
            "2.0f",
            "(1.0f + 1.0f + 0.0f * FACTORS)\n#define FACTORS 1",
        ),
        ("first.c", "x[i] * 2", "x[i] * 4 / 2"),
        (
            "gates.yaml",
            "  first:\n",
            "  first:\n    define: {UNUSED: 1}\n",
        ),
    ];
    for (file, old, new) in edits {
        edit(&dir.join(file), old, new);
        assert_eq!(
            changed(dir, &[], 0),
            "1 of 2 kernels differ from HEAD's; ran first",
            "{file}"
        );
        git(dir, &["checkout", "-q", "."]);
    }
    // Lines that move the second kernel down are no change of it, and a filter leaves out the first.
    edit(&dir.join("gates.yaml"), "  first:\n", "\n\n  first:\n");
    assert_eq!(
        changed(dir, &[], 0),
        "0 of 2 kernels differ from HEAD's; ran nothing"
    );
    edit(&dir.join("first.cu"), "int i", "unsigned i");
    assert_eq!(
        changed(dir, &["second"], 0),
        "1 of 2 kernels differ from HEAD's; ran nothing"
    );
}

#[test]
fn a_mistake_fails_and_a_shared_setting_affects_all_kernels() {
    let project = committed();
    let dir = project.path();
    edit(&dir.join("second.cuh"), "2.0f", "2.5f");
    assert_eq!(
        changed(dir, &[], 1),
        "1 of 2 kernels differ from HEAD's; ran second"
    );
    git(dir, &["checkout", "-q", "."]);
    edit(&dir.join("gates.yaml"), "sm_90", "sm_80");
    assert_eq!(
        changed(dir, &[], 0),
        "2 of 2 kernels differ from HEAD's; ran both"
    );
    git(dir, &["checkout", "-q", "."]);
    let output = run(dir, &["run", "--changed", "nowhere"], 2);
    assert!(stderr(&output).contains("nowhere"), "{}", stderr(&output));
}
