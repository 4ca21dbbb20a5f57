//! `outputs:` of programs: what a captured launch computes is held to a reference of the user's own.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{edit, git};
use crate::programs::{Project, with_body};
use crate::python::python;
use std::fs;

const GATES: &str = r#"version: 1
programs:
  decode:
    command: [python3, bench.py]
    gates: {p50: "+1% of base", registers: "+0"}
    outputs:
      "sc*":
        reference: {user: {source: refs.cpp, function: scale, args: [{tensor: x}, {i64: n}, {f32: factor}, {tensor: y}]}}
        scalars:
          n: {parameter: 0, offset: 8, type: i64}
          factor: {parameter: 1, type: f32}
        tensors:
          x: {parameter: 0, type: f32, shape: [n]}
          y: {parameter: 2, type: f32, shape: [n], role: out}
        max_err: 1e-3
"#;

const REFERENCE: &str = r#"extern "C" void scale(const float *x, long n, float factor, float *y) {
    for (long i = 0; i < n; i++) y[i] = x[i] * factor;
}
"#;

fn project() -> Project {
    let project = Project::new();
    fs::write(project.tree().join("gates.yaml"), GATES).unwrap();
    fs::write(project.tree().join("refs.cpp"), REFERENCE).unwrap();
    project
}

#[test]
fn an_output_is_held_to_its_reference() {
    let project = project();
    project.launch("scale twice");
    project.run(&[], 0);
    project.commit();
    let against_base = ["--base", "HEAD"];
    project.run(&against_base, 0);

    // Other bits than those that the program had, and near enough.
    project.compile(&with_body(
        "if (i < in.n) out[i] = in.data[i] * (factor * 1.0000002f);",
    ));
    project.run(&against_base, 0);
    project.edit_gates("max_err: 1e-3", "max_err: 1e-9");
    let said = project.run(&[], 1);
    assert!(
        said.contains("decode/scale@launch1  max_err <= 1.000e-9"),
        "{said}"
    );
    assert!(said.contains("by gates.yaml:15"), "{said}");
    git(&project.tree(), &["checkout", "--quiet", "gates.yaml"]);

    // Wrong in the tail.
    project.compile(&with_body(
        "if (i < in.n) out[i] = i == 999 ? 1 : in.data[i] * factor;",
    ));
    let said = project.run(&against_base, 1);
    assert!(said.contains("y[999] = 1, want 2997"), "{said}");
    assert!(!said.contains("decode/twice@launch1  "), "{said}");
    // Not written at all, where the memory happened to be right.
    project.compile(&with_body(
        "if (i < in.n - 1) out[i] = in.data[i] * factor;",
    ));
    let said = project.run(&[], 1);
    assert!(said.contains("not written"), "{said}");
}

#[test]
fn memory_around_an_output_is_what_the_program_left() {
    let project = project();
    // The launch writes 1000 floats, and 900 of them are known to the reference.
    project.edit_gates(
        "y: {parameter: 2, type: f32, shape: [n]",
        "y: {parameter: 2, type: f32, shape: [n - 100]",
    );
    edit(&project.tree().join("refs.cpp"), "i < n", "i < n - 100");
    project.run(&[], 0);
    project.compile(&with_body(
        "if (i < in.n) out[i] = i == 901 ? 1 : in.data[i] * factor;",
    ));
    let said = project.run(&[], 1);
    assert!(said.contains("at_200000001e10[1] = 1065353216"), "{said}");
    // By however little.
    project.compile(&with_body(
        "if (i < in.n) out[i] = in.data[i] * (i < 900 ? factor : factor * 1.0000002f);",
    ));
    let said = project.run(&[], 1);
    assert!(said.contains("at_200000001e10["), "{said}");
}

#[test]
fn a_reference_in_numpy_gets_tensors_and_scalars() {
    let project = project();
    project.edit_gates(
        "{user: {source: refs.cpp, function: scale, args: [{tensor: x}, {i64: n}, {f32: factor}, {tensor: y}]}}",
        "{user: {source: refs.py, function: scale, args: [{tensor: x}, {f32: factor}, {tensor: y}]}}",
    );
    let reference = project.tree().join("refs.py");
    fs::write(&reference, "import numpy as np\ndef scale(x, factor):\n    assert x.shape == (1000,) and x.dtype == np.float32\n    return x * np.float32(factor)\n").unwrap();
    project.run_with_python(python(), &[], 0);
    edit(
        &reference,
        "return x * np.float32(factor)",
        "return x * np.float32(factor + 1)",
    );
    let said = project.run_with_python(python(), &[], 1);
    assert!(said.contains("y[999] = 2997, want 3996"), "{said}");
    // A built-in one.
    project.edit_gates("{user: {source: refs.py, function: scale, args: [{tensor: x}, {f32: factor}, {tensor: y}]}}", "{binary: {a: x, b: x, out: y, op: add}}");
    let said = project.run(&[], 1);
    assert!(said.contains("y[999] = 2997, want 1998"), "{said}");
}

#[test]
fn a_looser_output_fails_and_so_does_another_reference() {
    let project = project();
    project.commit();
    let is_loosened = |says: &str| {
        let said = project.run(&["--base", "HEAD"], 1);
        assert!(said.contains("LOOSENED") && said.contains(says), "{said}");
        git(&project.tree(), &["checkout", "--quiet", "."]);
    };
    project.edit_gates("max_err: 1e-3", "max_err: 1e-2");
    is_loosened("max_err <= 0.001: head has max_err <= 0.01 (gates.yaml:15)");
    project.edit_gates("        max_err: 1e-3", "        rel_l2: 1e-3");
    is_loosened("max_err <= 0.001: removed");
    project.edit_gates(
        "        max_err: 1e-3",
        "        max_err: 1e-3\n        nondeterministic: atomics",
    );
    is_loosened("atomics");
    let (all, _) = GATES.split_once("    outputs:").unwrap();
    fs::write(project.tree().join("gates.yaml"), all).unwrap();
    is_loosened("reference");
    // The same in other words.
    edit(
        &project.tree().join("refs.cpp"),
        "x[i] * factor",
        "factor * x[i]",
    );
    project.run(&["--base", "HEAD"], 0);
    // Another one that the kernel is near enough to.
    edit(
        &project.tree().join("refs.cpp"),
        "y[i] = factor * x[i]",
        "y[i] = factor * x[i] + 1e-4f",
    );
    is_loosened("reference");
    // A reference ahead of which the output had to be bit for bit the base's.
    fs::write(project.tree().join("gates.yaml"), all).unwrap();
    project.commit();
    fs::write(project.tree().join("gates.yaml"), GATES).unwrap();
    is_loosened("max_err <= 0: head has max_err <= 0.001");
    project.run(&["--base", "HEAD"], 0);
}

#[test]
fn an_output_that_does_not_fit_its_launch_is_named_at_its_line() {
    let project = project();
    for (old, new, says) in [
        (
            "\"sc*\":",
            "gemm:",
            "gates.yaml:7: `gemm` fits no kernel that the program `decode` launches",
        ),
        (
            "y: {parameter: 2",
            "y: {parameter: 3",
            "gates.yaml:14: decode/scale@launch1: there is no parameter 3: the launch has 3, counted from 0",
        ),
        (
            "y: {parameter: 2",
            "y: {parameter: 1",
            "gates.yaml:14: decode/scale@launch1: parameter 1 has 4 bytes, and 8 bytes from byte 0 were to be read",
        ),
        (
            "offset: 8, type: i64",
            "offset: 12, type: i64",
            "gates.yaml:10: decode/scale@launch1: parameter 0 has 16 bytes, and 8 bytes from byte 12 were to be read",
        ),
        (
            "y: {parameter: 2",
            "y: {parameter: 0, offset: 8",
            "gates.yaml:14: decode/scale@launch1: tensor `y`: its pointer, 0x3e8, leads to no captured memory",
        ),
        (
            "y: {parameter: 2, type: f32, shape: [n]",
            "y: {parameter: 2, type: f32, shape: [n + 1]",
            "gates.yaml:14: decode/scale@launch1: tensor `y`: it has 4004 bytes, and its allocation 4000 from its pointer on",
        ),
        (
            "y: {parameter: 2",
            "y: {parameter: 0",
            "gates.yaml:14: decode/scale@launch1: tensor `y`: it overlaps `x`",
        ),
    ] {
        project.edit_gates(old, new);
        let said = project.run(&[], 2);
        assert!(said.contains(says), "{said}");
        fs::write(project.tree().join("gates.yaml"), GATES).unwrap();
    }
    project.edit_gates("        max_err: 1e-3\n", &format!("        max_err: 1e-3\n      scale: {}\n", "{reference: {unary: {x: x, out: y, op: copy}}, max_err: 1, tensors: {x: {parameter: 0, type: f32, shape: []}, y: {parameter: 2, type: f32, shape: [], role: out}}}"));
    let said = project.run(&[], 2);
    assert!(
        said.contains(
            "gates.yaml:16: `sc*` and `scale` both fit the kernel of decode/scale@launch1"
        ),
        "{said}"
    );
}

#[test]
fn a_reference_of_the_base_that_does_not_fit_compares_nothing() {
    let project = project();
    project.edit_gates("y: {parameter: 2", "y: {parameter: 3");
    project.commit();
    fs::write(project.tree().join("gates.yaml"), GATES).unwrap();
    let said = project.run(&["--base", "HEAD"], 3);
    assert!(said.contains("[base-unanswered]"), "{said}");
    assert!(
        project.report().contains("there is no parameter 3"),
        "{said}"
    );
}

#[test]
fn floats_of_an_output_may_differ_by_a_share() {
    let project = Project::new();
    project.edit_gates("[python3, bench.py]", "[env, ROUNDED=1, python3, bench.py]");
    let said = project.run(&[], 1);
    assert!(
        said.contains("decode/scale@launch1  max_err <= 0"),
        "{said}"
    );
    project.edit_gates("output: same", "output: \"f32:1e-5\"");
    project.run(&[], 0);
    project.commit();
    project.run(&["--base", "HEAD"], 0);
    project.edit_gates("f32:1e-5", "f32:1e-4");
    let said = project.run(&["--base", "HEAD"], 1);
    assert!(said.contains("LOOSENED"), "{said}");
    project.edit_gates("f32:1e-4", "f32:1e-8");
    project.run(&[], 1);
}
