//! The kinds of source besides a .cu file of the repository: headers elsewhere, a .cuh, PTX, a cubin.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{RECORD, edit, gatekeeper, report, run, stderr, stdout};
use model::{Evidence, Record, Seen};
use std::path::{Path, PathBuf};
use std::process::Output;
use system::cache::Cache;

const GATES: &str = r#"version: 1
architectures: [sm_90]
kernels:
  scale:
    source: scale.cu
    entry: scale
    shapes: {small: {N: 1000}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: ["ceil_div(N, 256)"], block: [256]}
    reference: {binary: {a: x, b: x, out: y, op: add}}
    gates: {registers: 32, max_err: 0}
"#;

const SCALE: &str = r#"
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 2;
}
"#;

fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn record(dir: &Path) -> Record {
    records::store::read_record(&dir.join(RECORD)).unwrap()
}

/// The place of the only unit's machine code.
fn built(record: &Record) -> (String, PathBuf) {
    let facts = record
        .evidence
        .iter()
        .filter_map(|piece| match piece {
            Evidence::Build {
                facts: Seen::Got(facts),
                ..
            } => Some(facts),
            _ => None,
        })
        .next()
        .unwrap();
    let objects = Cache::open().unwrap().dir("build/objects").unwrap();
    let object = objects.join(&facts.artifact);
    (facts.identity.clone(), object)
}

const HEADER: &str = "#pragma once\n\
    __device__ inline float twice(const float* x, int i) {\n\
    \x20   return 2 * x[i];\n\
    }\n";

fn with_headers(headers: &Path, dir: &Path, code: i32) -> Output {
    let output = gatekeeper()
        .current_dir(dir)
        .env("SCALE_INCLUDE", headers)
        .args(["run", "--provision", "--device", "sim"])
        .output()
        .unwrap();
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(code), "{said}");
    output
}

#[test]
fn headers_outside_count_by_content_and_not_by_path() {
    let gates = GATES.replace(
        "entry: scale",
        "entry: scale\n    include_dirs: [\"${SCALE_INCLUDE}\"]",
    );
    let source = SCALE
        .replace("x[i] * 2", "twice(x, i)")
        .replace("\nextern", "\n#include <scale/twice.h>\nextern");
    let files = [("gates.yaml", gates.as_str()), ("scale.cu", &source)];
    let places = [
        project(&[("scale/twice.h", HEADER)]),
        project(&[("scale/twice.h", HEADER)]),
    ];
    let run_in = |headers: &Path, code| {
        let dir = project(&files);
        let output = with_headers(headers, dir.path(), code);
        (dir, output)
    };
    let [one, two] = places.each_ref().map(|place| {
        let (dir, _) = run_in(place.path(), 0);
        let text = std::fs::read_to_string(dir.path().join(RECORD)).unwrap() + &report(dir.path());
        assert!(text.contains("${SCALE_INCLUDE}"));
        assert!(!text.contains(&place.path().display().to_string()));
        record(dir.path())
    });
    assert_eq!(one.plan.units, two.plan.units);
    assert_eq!(built(&one).0, built(&two).0);

    // Another content is another code, in the same place; and a finding in it is said as gates.yaml names it.
    let header = places[0].path().join("scale/twice.h");
    edit(&header, "x[i]", "x[i + 1]");
    let (dir, output) = run_in(places[0].path(), 1);
    assert_ne!(built(&record(dir.path())).0, built(&one).0);
    assert!(
        stdout(&output).contains("${SCALE_INCLUDE}/scale/twice.h:3"),
        "{}",
        stdout(&output)
    );

    let dir = project(&files);
    let output = gatekeeper()
        .current_dir(dir.path())
        .env_remove("SCALE_INCLUDE")
        .args(["validate"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!(stderr(&output), @"
error: gates.yaml:7:20: kernels.scale.include_dirs[0]: the environment variable SCALE_INCLUDE is not set
  help: set SCALE_INCLUDE to the directory that headers are in
");
}

#[test]
fn a_header_and_ptx_are_sources() {
    let dir = project(&[("gates.yaml", GATES), ("scale.cu", SCALE)]);
    let sim = ["run", "--provision", "--device", "sim"];
    run(dir.path(), &sim, 0);
    let (identity, object) = built(&record(dir.path()));
    let gates = dir.path().join("gates.yaml");

    std::fs::write(
        dir.path().join("scale.cuh"),
        format!("#pragma once\n{SCALE}"),
    )
    .unwrap();
    edit(&gates, "scale.cu", "scale.cuh");
    run(dir.path(), &sim, 0);
    assert_eq!(built(&record(dir.path())).0, identity);

    let ptx = std::fs::read_to_string(object.join("unit.ptx")).unwrap();
    std::fs::write(dir.path().join("scale.ptx"), &ptx).unwrap();
    edit(&gates, "scale.cuh", "scale.ptx");
    run(dir.path(), &sim, 0);
    assert_eq!(built(&record(dir.path())).0, identity);
    // x + x, in PTX; and then not.
    assert_eq!(ptx.matches("add.f32").count(), 1, "{ptx}");
    std::fs::write(
        dir.path().join("scale.ptx"),
        ptx.replace("add.f32", "mul.f32"),
    )
    .unwrap();
    let output = run(dir.path(), &sim, 1);
    assert!(stdout(&output).contains("max_err"), "{}", stdout(&output));
}

#[test]
fn a_cubin_is_held_to_its_resources_and_left_to_a_gpu() {
    let dir = project(&[("gates.yaml", GATES), ("scale.cu", SCALE)]);
    let sim = ["run", "--provision", "--device", "sim"];
    run(dir.path(), &sim, 0);
    let (identity, object) = built(&record(dir.path()));
    std::fs::copy(object.join("unit.cubin"), dir.path().join("scale.cubin")).unwrap();
    let gates = dir.path().join("gates.yaml");
    edit(&gates, "scale.cu", "scale.cubin");
    let output = run(dir.path(), &sim, 0);
    assert_eq!(built(&record(dir.path())).0, identity);
    assert!(
        report(dir.path()).contains("cubin-not-simulated"),
        "{}",
        stdout(&output)
    );

    edit(&gates, "registers: 32", "registers: 2");
    let output = run(dir.path(), &sim, 1);
    assert!(stdout(&output).contains("registers"), "{}", stdout(&output));

    edit(&gates, "sm_90", "sm_80");
    let output = run(dir.path(), &sim, 1);
    let says = "scale.cubin is for sm_90, and gates.yaml asks for sm_80";
    assert!(stdout(&output).contains(says), "{}", stdout(&output));
}
