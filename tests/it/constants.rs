//! `__constant__` variables that the host fills by name, in the simulator.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{edit, failed, refused, root, simulate};
use std::fs;
use std::path::Path;

const FILE: &str = "version: 1
architectures: [sm_90]
kernels:
  k:
    source: constants.cu
    entry: scale_and_shift
    seeds: 2
    tensors:
      x: {type: f32, shape: [64]}
      scale: {type: f32, shape: [64]}
      none: {type: f32, shape: [64], fill: {constant: 0}}
      y: {role: out, type: f32, shape: [64]}
    constants: {SCALE: scale, ns::SHIFT: none}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [1], block: [64]}
    reference: {binary: {a: x, b: scale, out: y, op: mul}}
    gates: {registers: 64, max_err: 0}
";

fn project(yaml: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = root().join("tests/fixtures/kernels/constants.cu");
    fs::copy(from, dir.path().join("constants.cu")).unwrap();
    fs::write(dir.path().join("gates.yaml"), yaml).unwrap();
    dir
}

fn gates(dir: &Path) -> Vec<String> {
    failed(dir).into_iter().map(|(gate, _)| gate).collect()
}

#[test]
fn each_constant_holds_its_tensor() {
    let project = project(FILE);
    let dir = project.path();
    simulate(dir, &[], 0);
    // Another tensor gives another result.
    edit(
        &dir.join("gates.yaml"),
        "{SCALE: scale, ns::SHIFT: none}",
        "{SCALE: none, ns::SHIFT: scale}",
    );
    simulate(dir, &[], 1);
    assert_eq!(gates(dir), ["max_err <= 0"]);
}

/// A compiled-in value stays, and so a constant that nobody fills is zero.
#[test]
fn a_constant_that_is_not_filled_is_as_compiled() {
    let project = project(FILE);
    let dir = project.path();
    let yaml = dir.join("gates.yaml");
    edit(&yaml, ", ns::SHIFT: none", "");
    edit(
        &yaml,
        "      none: {type: f32, shape: [64], fill: {constant: 0}}\n",
        "",
    );
    simulate(dir, &[], 0);
    edit(
        &dir.join("constants.cu"),
        "float SHIFT[64];",
        "float SHIFT[64] = {0, 1};",
    );
    simulate(dir, &[], 1);
    assert_eq!(gates(dir), ["max_err <= 0"]);
}

#[test]
fn an_unknown_constant_lists_the_known_ones() {
    let project = project(&FILE.replace("ns::SHIFT", "ns::SHIFTS"));
    let dir = project.path();
    simulate(dir, &[], 1);
    let failed = failed(dir);
    assert_eq!(failed[0].0, "built");
    for part in [
        "constant `ns::SHIFTS` of constants.cu: no such __constant__ or __device__ variable; there are ",
        "::ns::(anonymous namespace)::SHIFT` [",
        "`SCALE`",
        "`BY`",
    ] {
        assert!(failed[0].1.contains(part), "{part}: {failed:?}");
    }
}

#[test]
fn another_size_is_refused_with_both() {
    let project = project(&FILE.replace("none: {type: f32", "none: {type: f16"));
    let dir = project.path();
    let said = simulate(dir, &[], 1);
    let words: Vec<_> = said.split_whitespace().collect();
    let message = "the constant ns::SHIFT has 256 bytes, and the tensor `none`, which fills it, 128: give the tensor the \
                   type and shape of the variable";
    assert!(words.join(" ").contains(message), "{said}");
}

#[test]
fn rejects_an_unfit_tensor_for_a_constant() {
    let output = project(&FILE.replace("ns::SHIFT: none", "ns::SHIFT: y"));
    refused(
        output.path(),
        &["validate"],
        "error: gates.yaml:13:42: kernels.k.constants.ns::SHIFT: a constant is filled from an input, and `y` is none\n  \
         help: leave out the tensor's `role`, or write `role: in`\n",
    );
    let unknown = project(&FILE.replace("ns::SHIFT: none", "ns::SHIFT: nine"));
    refused(
        unknown.path(),
        &["validate"],
        "error: gates.yaml:13:42: kernels.k.constants.ns::SHIFT: unknown tensor `nine`\n  help: did you mean `none`?\n",
    );
    let launcher = FILE
        .replace(
            "entry: scale_and_shift",
            "launcher: {function: f, launches: [{entry: scale_and_shift}]}",
        )
        .replace("    launch: {grid: [1], block: [64]}\n", "")
        .replace("{tensor: y}]", "{tensor: y}, stream]");
    refused(
        project(&launcher).path(),
        &["validate"],
        "error: gates.yaml:13:17: kernels.k.constants.SCALE: a launcher fills its constants itself: remove `constants`\n  \
         help: in the launcher: cudaMemcpyToSymbolAsync\n",
    );
}

/// The fill of a constant is a part of how a variant is called.
#[test]
fn variants_may_differ_by_values_of_constants_alone() {
    let variants = "    variants:
      one: {}
      other: {constants: {SCALE: none, ns::SHIFT: scale}, reference: {unary: {x: scale, out: y, op: copy}}}
";
    let file = FILE.replace("    seeds: 2\n", &format!("    seeds: 2\n{variants}"));
    simulate(project(&file).path(), &[], 0);
    let same = file.replace(
        "{SCALE: none, ns::SHIFT: scale}",
        "{SCALE: scale, ns::SHIFT: none}",
    );
    let same = same.replace(", reference: {unary: {x: scale, out: y, op: copy}}", "");
    let project = project(&same);
    simulate(project.path(), &[], 1);
    assert_eq!(gates(project.path()), ["has effect"]);
}

/// Each program has its variables for itself, also next to the variant that it is compared with.
#[test]
fn variants_have_variables_of_their_own() {
    let file = "version: 1
architectures: [sm_90]
kernels:
  k:
    source: constants.cu
    entry: twice
    variants:
      two: {}
      four: {define: {FACTOR: 4}, reference: {variant: two}}
    tensors:
      x: {type: f32, shape: [64]}
      y: {role: out, type: f32, shape: [64]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [1], block: [64]}
    reference: {binary: {a: x, b: x, out: y, op: add}}
    gates: {registers: 64, max_err: 0}
";
    simulate(project(file).path(), &[], 0);
}
