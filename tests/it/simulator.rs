//! A machine without a GPU: kernels run in the simulator, and each thing that is broken goes red for its own
//! reason. `--device sim` makes any machine such a machine.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{
    RECORD, copy_of, edit, gates_that_failed, project, report, root, run, simulate, stderr, stdout,
};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Outcome and reason of a gate on a case.
fn verdict(dir: &Path, case: &str, gate: &str) -> (String, String) {
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    let (kernel, shape) = case.split_once('@').unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let verdicts = report["verdicts"].as_array().unwrap();
    let found: Vec<_> = verdicts
        .iter()
        .filter(|verdict| {
            let subject = &verdict["subject"]["case"];
            subject["kernel"] == kernel && subject["shape"] == shape && verdict["gate"] == gate
        })
        .map(|verdict| (text(&verdict["outcome"]), text(&verdict["message"])))
        .collect();
    assert_eq!(found.len(), 1, "{case} {gate}: {found:?}");
    found[0].clone()
}

/// The project with one edit of its kernel `copy`.
fn copy_with(old: &str, new: &str) -> tempfile::TempDir {
    let project = project();
    edit(&project.path().join("copy.cu"), old, new);
    project
}

/// Whether the only unit is built.
fn built(dir: &Path) -> (String, String) {
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    let verdicts = report["verdicts"].as_array().unwrap();
    let found = verdicts
        .iter()
        .find(|verdict| verdict["gate"] == "built")
        .unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&found["outcome"]), text(&found["message"]))
}

const COPY: &str = "copy@small";
const FINDINGS: &str = "memory and races";

/// Simulated launches, in the order of the record.
fn simulations(dir: &Path) -> Vec<Value> {
    let record: Value =
        serde_json::from_str(&fs::read_to_string(dir.join(RECORD)).unwrap()).unwrap();
    let evidence = record["record"]["evidence"].as_array().unwrap();
    evidence
        .iter()
        .filter_map(|piece| piece.get("simulation"))
        .cloned()
        .collect()
}

#[test]
fn a_right_kernel_is_checked_and_counted_to_the_same_bits_each_time() {
    let project = project();
    let dir = project.path();
    let said = simulate(dir, &["copy"], 0);
    assert!(said.contains(" · simulator · no GPU · nvcc 13."), "{said}");
    for gate in [
        "max_err <= 0",
        "finite",
        "written",
        "inputs intact",
        FINDINGS,
    ] {
        assert_eq!(verdict(dir, COPY, gate).0, "pass", "{gate}");
    }
    // One launch is not claimed to be eight, nor to prove what it cannot.
    let (outcome, reason) = verdict(dir, COPY, "deterministic");
    assert_eq!(outcome, "skipped");
    assert!(reason.contains("launched once for each seed"), "{reason}");
    let record = fs::read_to_string(dir.join(RECORD)).unwrap();
    assert_eq!(record.matches("\"launches\":1,").count(), 2, "two seeds");

    let first = simulations(dir);
    assert_eq!(first.len(), 2);
    // 1000 floats of 4 bytes, each read once: 125 sectors of 32.
    let counted = &first[0]["facts"]["got"]["counters"]["global_load_sectors"];
    assert_eq!(counted.as_u64(), Some(125));
    simulate(dir, &["copy"], 0);
    assert_eq!(simulations(dir), first);
}

#[test]
fn a_wrong_result() {
    let project = copy_with("y[i] = staged", "y[i] = 0.5f + staged");
    let dir = project.path();
    simulate(dir, &["copy"], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0"]);
    let (_, reason) = verdict(dir, COPY, "max_err <= 0");
    assert!(
        reason.starts_with("max_err 0.5, limit <= 0; y["),
        "{reason}"
    );
}

/// The output that a kernel prints stands next to the failure, and in the JSON also where nothing failed.
#[test]
fn output_of_a_kernel_is_reported() {
    let project = project_with("swap.cu", SWAP);
    let dir = project.path();
    let source = dir.join("swap.cu");
    let text = "#include <cstdio>\n".to_owned() + &fs::read_to_string(&source).unwrap();
    fs::write(&source, text).unwrap();
    edit(
        &source,
        "    y[start + t] =",
        "    if (start + t == 3) printf(\"y[%d] is %.1f\\n::error::no\\n\", t, 0.5f * t);\n    y[start + t] =",
    );
    let printed = || {
        let report: Value = serde_json::from_str(&report(dir)).unwrap();
        let notes = report["notes"].as_array().unwrap().clone();
        let all: Vec<_> = notes
            .iter()
            .filter_map(|note| note.get("printed"))
            .collect();
        assert_eq!(all.len(), 1, "{notes:?}");
        assert_eq!(all[0]["text"], "y[3] is 1.5\n::error::no\n");
        assert_eq!(all[0]["left_out"], 0);
    };
    let said = simulate(dir, &[], 0);
    printed();
    assert!(!said.contains("y[3] is"), "{said}");
    edit(&source, "= staged[t];", "= 0.5f + staged[t];");
    let said = simulate(dir, &[], 1);
    printed();
    assert!(
        said.contains("         | y[3] is 1.5\n         | ::error::no\n"),
        "{said}"
    );
}

#[test]
fn an_element_that_is_never_written() {
    let project = copy_with("if (i < n) y[i]", "if (i < n - 1) y[i]");
    let dir = project.path();
    simulate(dir, &["copy"], 1);
    let (outcome, reason) = verdict(dir, COPY, "written");
    assert_eq!(outcome, "fail");
    assert_eq!(
        reason,
        "not written with seed 1: 1 element; the first is y[999]"
    );
}

#[test]
fn an_input_that_is_written_to() {
    let project = copy_with(
        "    if (i < n) y[i] =",
        "    if (i == 5) const_cast<float*>(x)[i] = 7;\n    if (i < n) y[i] =",
    );
    let dir = project.path();
    simulate(dir, &["copy"], 1);
    assert_eq!(
        verdict(dir, COPY, "inputs intact"),
        (
            "fail".to_owned(),
            "writes to its input x with seed 1".to_owned()
        )
    );
}

#[test]
fn an_index_one_past_the_end() {
    let project = copy_with("if (i < n) y[i]", "if (i <= n) y[i]");
    let dir = project.path();
    simulate(dir, &["copy"], 1);
    let (outcome, reason) = verdict(dir, COPY, FINDINGS);
    assert_eq!(outcome, "fail");
    for part in [
        "kernel faulted: ",
        "directly past the end of `y` (4000 bytes",
        "copy.cu:14",
        "block [3, 0, 0], thread [232, 0, 0]",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn a_read_of_shared_memory_that_nothing_wrote() {
    let project = copy_with("if (i < n) staged", "if (i < n && i != 7) staged");
    let dir = project.path();
    simulate(dir, &["copy"], 1);
    let (outcome, reason) = verdict(dir, COPY, FINDINGS);
    assert_eq!(outcome, "fail");
    for part in [
        "that was never written",
        "copy.cu:14",
        "block [0, 0, 0], thread [7, 0, 0]",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

/// A project with one kernel of the fixtures.
fn project_with(source: &str, kernel: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = root().join("tests/fixtures/kernels").join(source);
    fs::copy(from, dir.path().join(source)).unwrap();
    fs::write(
        dir.path().join("gates.yaml"),
        format!(
            "version: 1\narchitectures: [sm_90]\nkernels:\n  k:\n    source: {source}\n{kernel}"
        ),
    )
    .unwrap();
    dir
}

/// Each block adds its part to a sum, and the last to arrive writes it: the counter has to start at 0.
const LAST_BLOCK: &str = r#"
extern "C" __global__ void total(const int* x, unsigned* done, int* sum, int* y)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    atomicAdd(sum, x[i]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(done, 1) == gridDim.x - 1) *y = atomicAdd(sum, 0);
}
"#;

#[test]
fn scratch_that_has_to_be_zero() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("total.cu"), LAST_BLOCK).unwrap();
    fs::write(
        dir.join("gates.yaml"),
        "version: 1
architectures: [sm_90]
kernels:
  total:
    source: total.cu
    entry: total
    shapes: {small: {N: 256}}
    seeds: 2
    tensors:
      x: {type: i32, shape: [N], fill: {integers: {low: -9, high: 9}}}
      done: {role: scratch, type: u32, shape: [1], fill: zeros}
      sum: {role: scratch, type: i32, shape: [1], fill: zeros}
      y: {role: out, type: i32, shape: [1]}
    args: [{tensor: x}, {tensor: done}, {tensor: sum}, {tensor: y}]
    launch: {grid: [N / 64], block: [64]}
    reference: {user: {source: r.cpp, function: r, args: [{tensor: x}, {tensor: y}, {i32: N}]}}
    gates: {max_err: 0}
",
    )
    .unwrap();
    let reference =
        "extern \"C\" void r(const int* x, int* y, int n) { *y = 0; while (n--) *y += *x++; }\n";
    fs::write(dir.join("r.cpp"), reference).unwrap();
    simulate(dir, &[], 0);
    assert_eq!(verdict(dir, "total@small", "max_err <= 0").0, "pass");
    // Another start gives another sum, and none is a read of what nothing wrote.
    edit(
        &dir.join("gates.yaml"),
        "sum: {role: scratch, type: i32, shape: [1], fill: zeros}",
        "sum: {role: scratch, type: i32, shape: [1], fill: {constant: 5}}",
    );
    simulate(dir, &[], 1);
    let (_, reason) = verdict(dir, "total@small", "max_err <= 0");
    assert!(reason.starts_with("max_err 5,"), "{reason}");
    edit(&dir.join("gates.yaml"), ", fill: {constant: 5}}", "}");
    simulate(dir, &[], 1);
    let (_, reason) = verdict(dir, "total@small", FINDINGS);
    assert!(reason.contains("`sum`"), "{reason}");
}

/// The lower triangle of a square, and nothing above it.
const LOWER: &str = r#"
extern "C" __global__ void lower(const float* x, float* y, int n)
{
    const int i = blockIdx.x, j = threadIdx.x;
    if (i >= j) y[i * n + j] = 2 * x[i * n + j];
}
"#;

#[test]
fn a_part_of_an_output_that_nobody_cares_about() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (source, gates) = (dir.join("lower.cu"), dir.join("gates.yaml"));
    fs::write(&source, LOWER).unwrap();
    fs::write(
        &gates,
        "version: 1
architectures: [sm_90]
kernels:
  lower:
    source: lower.cu
    entry: lower
    shapes: {small: {N: 32}}
    seeds: 2
    tensors:
      x: {type: f32, shape: [N, N]}
      y: {role: out, type: f32, shape: [N, N], compare: {where: i >= j}}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [N], block: [N]}
    reference: {user: {source: r.cpp, function: r, args: [{tensor: x}, {tensor: y}, {i32: N}]}}
    gates: {max_err: 0}
",
    )
    .unwrap();
    // Above the diagonal it writes nothing, either.
    let reference = "extern \"C\" void r(const float* x, float* y, int n) {
        for (int i = 0; i < n; ++i) for (int j = 0; j <= i; ++j) y[i * n + j] = 2 * x[i * n + j];\n}\n";
    fs::write(dir.join("r.cpp"), reference).unwrap();
    let case = "lower@small";
    let said = simulate(dir, &[], 0);
    let note = "not compared, as `compare` leaves them out: 496 of 1024 elements (48.4 %)";
    assert!(said.contains(note), "{said}");
    for gate in ["max_err <= 0", "finite", "written", FINDINGS] {
        assert_eq!(verdict(dir, case, gate).0, "pass", "{gate}");
    }
    // The same in every other part of it.
    edit(&source, "if (i >= j)", "if (i > j)");
    simulate(dir, &[], 1);
    let (_, reason) = verdict(dir, case, "written");
    assert_eq!(
        reason,
        "not written with seed 1: 32 elements; the first is y[0, 0]"
    );
    edit(&source, "if (i > j)", "if (i >= j)");
    edit(
        &source,
        "= 2 * x[i * n + j]",
        "= (j == 3 ? 3 : 2) * x[i * n + j]",
    );
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0"]);
    edit(&source, "(j == 3 ? 3 : 2)", "2");
    // Nothing is left of it, by a mask.
    edit(
        &gates,
        "compare: {where: i >= j}}",
        "compare: {mask: m}}\n      m: {type: u8, shape: [N, N], fill: zeros}",
    );
    edit(
        &gates,
        "{i32: N}]\n    launch",
        "{i32: N}, {tensor: m}]\n    launch",
    );
    edit(&source, "int n)", "int n, const char*)");
    simulate(dir, &[], 1);
    let (_, reason) = verdict(dir, case, "max_err <= 0");
    assert!(
        reason.contains("`compare` leaves nothing of output `y`"),
        "{reason}"
    );
    // Every other element changes, and the reference has to have that, too.
    edit(&gates, "fill: zeros", "fill: {constant: 1}");
    simulate(dir, &[], 1);
    let (_, reason) = verdict(dir, case, "max_err <= 0");
    assert!(reason.contains("does not write `y`[0, 1]"), "{reason}");
}

const WIDE: &str = r#"
extern "C" __global__ void wide(const double* x, const unsigned short* index, const short* by, double* y, short* z)
{
    const int i = threadIdx.x;
    y[i] = x[index[i]] / 3.0 + by[i];
    z[i] = by[i] - index[i];
}
"#;

#[test]
fn f64_is_compared_in_f64_and_16_bit_integers_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let source = dir.join("wide.cu");
    fs::write(&source, WIDE).unwrap();
    fs::write(
        dir.join("gates.yaml"),
        "version: 1
architectures: [sm_90]
kernels:
  wide:
    source: wide.cu
    entry: wide
    shapes: {small: {N: 64}}
    seeds: 2
    tensors:
      x: {type: f64, shape: [N]}
      index: {type: u16, shape: [N], fill: permutation}
      by: {type: i16, shape: [N], fill: {integers: {low: -30000, high: 30000}}}
      y: {role: out, type: f64, shape: [N]}
      z: {role: out, type: i16, shape: [N]}
    args: [{tensor: x}, {tensor: index}, {tensor: by}, {tensor: y}, {tensor: z}]
    launch: {grid: [1], block: [N]}
    reference:
      user: {source: r.cpp, function: r, args: [{tensor: x}, {tensor: index}, {tensor: by}, {tensor: y}, {tensor: z}]}
    gates: {max_err: 0}
",
    )
    .unwrap();
    let reference = "extern \"C\" void r(const double* x, const unsigned short* index, const short* by, double* y, short* z) {
        for (int i = 0; i < 64; ++i) y[i] = x[index[i]] / 3.0 + by[i], z[i] = by[i] - index[i];\n}\n";
    fs::write(dir.join("r.cpp"), reference).unwrap();
    simulate(dir, &[], 0);
    // Seven digits are not enough.
    edit(&source, "/ 3.0 +", "/ 3.0f * (1 + 1e-9) +");
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0"]);
    edit(&source, "/ 3.0f * (1 + 1e-9) +", "/ 3.0 +");
    edit(&source, "z[i] = by[i]", "z[i] = 1 + by[i]");
    simulate(dir, &[], 1);
    let (_, reason) = verdict(dir, "wide@small", "max_err <= 0");
    assert!(reason.starts_with("max_err 1, limit <= 0; z["), "{reason}");
}

/// Blocks as llama.cpp has them, 4 bits by 8.
const BLOCKS: &str = r#"
#include <cuda_fp16.h>
struct block_q4_0 { __half d; unsigned char qs[16]; };
struct block_q8_1 { __half d, s; signed char qs[32]; };

extern "C" __global__ void mul_vec(const block_q4_0* w, const block_q8_1* x, float* y, int blocks)
{
    float sum = 0;
    for (int b = 0; b < blocks; ++b) {
        const block_q4_0* a = w + threadIdx.x * blocks + b;
        int dot = 0;
        for (int i = 0; i < 16; ++i)
            dot += (a->qs[i] & 15) * x[b].qs[i] + (a->qs[i] >> 4) * x[b].qs[i + 16];
        sum += __half2float(a->d) * (dot * __half2float(x[b].d) - 8 * __half2float(x[b].s));
    }
    y[threadIdx.x] = sum;
}

struct from { float a; short n[2]; };
struct to { short n[2]; float a; };

extern "C" __global__ void turn(const from* x, to* y)
{
    y[threadIdx.x] = {{x[threadIdx.x].n[0], x[threadIdx.x].n[1]}, -x[threadIdx.x].a};
}
"#;

#[test]
fn blocks_of_codes_beside_their_scales_and_plain_structs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (source, gates) = (dir.join("blocks.cu"), dir.join("gates.yaml"));
    fs::write(&source, BLOCKS).unwrap();
    fs::write(
        &gates,
        "version: 1
architectures: [sm_90]
kernels:
  mul_vec:
    source: blocks.cu
    entry: mul_vec
    shapes: {small: {R: 32, K: 256, BLOCKS: K / 32}}
    seeds: 2
    tensors:
      w:
        type: {struct: {d: {type: f16}, qs: {type: u8, count: 16}}}
        shape: [R, BLOCKS]
        codec: {blocks: {scale: d, codes: qs, nibbles: halves}}
      x:
        type: {struct: {d: {type: f16}, s: {type: f16}, qs: {type: i8, count: 32}}}
        shape: [1, BLOCKS]
        codec: {blocks: {scale: d, sum: s, codes: qs}}
      y: {role: out, type: f32, shape: [R, 1]}
    args: [{tensor: w}, {tensor: x}, {tensor: y}, {i32: BLOCKS}]
    launch: {grid: [1], block: [R]}
    reference: {gemm: {a: w, b: x, out: y, transpose_b: true}}
    gates: {max_err: 0.25}
  turn:
    source: blocks.cu
    entry: turn
    shapes: {small: {N: 32}}
    seeds: 2
    tensors:
      x: {type: {struct: {a: {type: f32}, n: {type: i16, count: 2, fill: {integers: {low: -999, high: 999}}}}}, shape: [N]}
      y: {role: out, type: {struct: {n: {type: i16, count: 2}, a: {type: f32}}}, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [1], block: [N]}
    reference: {user: {source: turn.cpp, function: turn, args: [{tensor: x}, {tensor: y}]}}
    gates: {max_err: 0}
",
    )
    .unwrap();
    let reference = "#include <cstring>
extern \"C\" void turn(const unsigned char* x, unsigned char* y) {
    for (int i = 0; i < 32; ++i, x += 8, y += 8) {
        float a; std::memcpy(&a, x, 4); a = -a;
        std::memcpy(y, x + 4, 4); std::memcpy(y + 4, &a, 4);
    }\n}\n";
    fs::write(dir.join("turn.cpp"), reference).unwrap();
    simulate(dir, &[], 0);
    // The other order of codes within a byte.
    edit(&gates, "nibbles: halves", "nibbles: pairs");
    simulate(dir, &["mul_vec"], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0.25"]);
    edit(&gates, "nibbles: pairs", "nibbles: halves");
    edit(&source, "x[threadIdx.x].n[0], ", "x[threadIdx.x].n[1], ");
    simulate(dir, &["turn"], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0"]);
    // A reference of the user's own has both: what the codes mean, and the bytes.
    edit(&source, "x[threadIdx.x].n[1], x", "x[threadIdx.x].n[0], x");
    edit(
        &gates,
        "gemm: {a: w, b: x, out: y, transpose_b: true}",
        "user: {source: m.cpp, function: m, args: [{tensor: w}, {bytes: w}, {tensor: x}, {tensor: y}]}",
    );
    let reference = "extern \"C\" void m(const float* w, const unsigned char* raw, const float* x, float* y) {
    for (int r = 0; r < 32; ++r) {
        float sum = 0;
        for (int k = 0; k < 256; ++k) {
            const unsigned char code = raw[(r * 8 + k / 32) * 18 + 2 + k % 16] >> (k % 32 / 16 * 4) & 15;
            if (code != 8 && (code < 8) != (w[r * 256 + k] < 0)) return;
            sum += w[r * 256 + k] * x[k];
        }
        y[r] = sum;
    }\n}\n";
    fs::write(dir.join("m.cpp"), reference).unwrap();
    simulate(dir, &[], 0);
}

const SWAP: &str = "    entry: swap
    shapes: {small: {N: 512}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [N / 256], block: [256]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

#[test]
fn a_removed_barrier_whose_result_is_right_by_luck() {
    let project = project_with("swap.cu", SWAP);
    let dir = project.path();
    simulate(dir, &[], 0);
    // The second one: nobody reads what is then overwritten too early, if warps happen to keep step.
    edit(
        &dir.join("swap.cu"),
        "    y[start + t] = staged[t];\n    __syncthreads();\n",
        "    y[start + t] = staged[t];\n",
    );
    simulate(dir, &[], 1);
    let (outcome, reason) = verdict(dir, "k@small", FINDINGS);
    assert_eq!(outcome, "fail");
    for part in [
        "race on shared memory",
        "swap.cu:10",
        "swap.cu:11",
        "block [0, 0, 0]",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

const TURN: &str = "    entry: turn
    shapes: {small: {N: 512}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      turned: {role: scratch, type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: turned}, {tensor: y}, {i32: N}]
    launch: {grid: [N / 64], block: [64], cooperative: true}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

#[test]
fn a_grid_that_synchronises() {
    let project = project_with("turn.cu", TURN);
    let dir = project.path();
    let (source, gates) = (dir.join("turn.cu"), dir.join("gates.yaml"));
    simulate(dir, &[], 0);
    for gate in ["max_err <= 0", FINDINGS] {
        assert_eq!(verdict(dir, "k@small", gate).0, "pass", "{gate}");
    }

    edit(&gates, ", cooperative: true", "");
    simulate(dir, &[], 1);
    let (outcome, reason) = verdict(dir, "k@small", "max_err <= 0");
    assert_eq!(outcome, "fail");
    for part in ["the launch is not cooperative", "inlined at turn.cu:8"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }

    // 265 blocks of 1024 threads are one more than 132 multiprocessors hold.
    edit(
        &gates,
        "N / 64], block: [64]",
        "N / 1024], block: [1024], cooperative: true",
    );
    edit(&gates, "N: 512", "N: 271360");
    simulate(dir, &[], 1);
    let (outcome, reason) = verdict(dir, "k@small", "max_err <= 0");
    assert_eq!(outcome, "fail");
    assert!(reason.contains("hold 264 at a time at most"), "{reason}");

    edit(&gates, "N: 271360", "N: 4096");
    edit(&source, "    cooperative_groups::this_grid().sync();\n", "");
    simulate(dir, &[], 1);
    let (outcome, reason) = verdict(dir, "k@small", FINDINGS);
    assert_eq!(outcome, "fail");
    for part in ["race on `turned`", "turn.cu:7", "turn.cu:8"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

/// Each block reads what the next one of its cluster has in shared memory.
const NEXT: &str = "    entry: next
    shapes: {small: {N: 512}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [N / 64], block: [64], cluster: [2]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

#[test]
fn blocks_of_a_cluster_read_shared_memory_of_each_other() {
    let project = project_with("next.cu", NEXT);
    let dir = project.path();
    simulate(dir, &[], 0);
    for gate in ["max_err <= 0", FINDINGS] {
        assert_eq!(verdict(dir, "k@small", gate).0, "pass", "{gate}");
    }

    // The owner may have ended.
    let source = dir.join("next.cu");
    edit(&source, "cluster.sync();\n}", "}");
    simulate(dir, &[], 1);
    let (outcome, reason) = verdict(dir, "k@small", FINDINGS);
    assert_eq!(outcome, "fail");
    for part in [
        "goes to the shared memory of block",
        "nothing orders it before that block's exit",
        "next.cu:11",
    ] {
        assert!(reason.contains(part), "{part}: {reason}");
    }

    edit(&source, "    cluster.sync();\n", "");
    simulate(dir, &[], 1);
    let (outcome, reason) = verdict(dir, "k@small", FINDINGS);
    assert_eq!(outcome, "fail");
    for part in ["race on shared memory", "next.cu:9", "next.cu:10"] {
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

#[test]
fn an_unknown_instruction_is_unsupported_and_never_a_pass() {
    let dir = copy_of("examples/launcher");
    let said = simulate(dir.path(), &[], 0);
    for gate in ["finite", FINDINGS, "counters +0%", "max_err <= 1.000e-5"] {
        let (outcome, reason) = verdict(dir.path(), "center_reversed@small", gate);
        assert_eq!(outcome, "unsupported", "{gate}");
        assert!(reason.starts_with("a launcher is host code"), "{reason}");
    }
    assert!(said.contains("unsupported"), "{said}");

    let dir = project();
    edit(
        &dir.path().join("copy.cu"),
        "    __syncthreads();\n",
        "    __syncthreads();\n    asm volatile(\"fence.proxy.alias;\");\n",
    );
    edit(&dir.path().join("gates.yaml"), "[sm_90]", "[sm_90a]");
    simulate(dir.path(), &["copy"], 0);
    for gate in ["max_err <= 0", FINDINGS] {
        let (outcome, reason) = verdict(dir.path(), COPY, gate);
        assert_eq!(outcome, "unsupported", "{gate}");
        for part in [
            "the simulator does not support it: PTX line ",
            "fence.proxy.alias",
            "copy.cu:14",
        ] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
}

/// A kernel with a form that is not built takes none of its neighbours with it.
#[test]
fn one_unsupported_kernel_leaves_the_others_of_its_source_alone() {
    let dir = project_with("swap.cu", SWAP);
    let dir = dir.path();
    let (source, gates) = (dir.join("swap.cu"), dir.join("gates.yaml"));
    let text = fs::read_to_string(&source).unwrap()
        + "extern \"C\" __global__ void fetch(unsigned long long t, const float* x, float* y)\n{\n    const int i = blockIdx.x * 256 + threadIdx.x;\n    float a, b, c;\n    asm(\"tex.cube.v4.f32.f32 {%0, %1, %2, %3}, [%4, {%5, %5, %5, %5}];\" : \"=f\"(y[i]), \"=f\"(a), \"=f\"(b), \"=f\"(c) : \"l\"(t), \"f\"(x[i]));\n}\n";
    fs::write(&source, text).unwrap();
    let fetch = SWAP.replace("entry: swap", "entry: fetch").replace(
        "{tensor: x}, {tensor: y}",
        "{u64: 0}, {tensor: x}, {tensor: y}",
    );
    let text = fs::read_to_string(&gates).unwrap() + "  fetch:\n    source: swap.cu\n" + &fetch;
    fs::write(&gates, text).unwrap();
    simulate(dir, &[], 0);
    for gate in ["max_err <= 0", FINDINGS] {
        assert_eq!(verdict(dir, "k@small", gate).0, "pass", "{gate}");
        let (outcome, reason) = verdict(dir, "fetch@small", gate);
        assert_eq!(outcome, "unsupported", "{gate}");
        for part in [
            "the simulator does not support it: PTX line ",
            "`tex.cube.v4.f32.f32`",
            "(swap.cu:18)",
        ] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
    // The one that is simulated still goes red.
    edit(&source, "staged[t ^ 64] = 0", "y[start + t] = 1");
    simulate(dir, &[], 1);
    assert_eq!(verdict(dir, "k@small", "max_err <= 0").0, "fail");
    assert_eq!(verdict(dir, "fetch@small", "max_err <= 0").0, "unsupported");
}

#[test]
fn a_case_over_the_budget_is_skipped_by_name_with_its_estimate() {
    let project = project();
    let dir = project.path();
    let said = simulate(dir, &["-v", "--sim-budget", "1000"], 0);
    assert!(said.contains("copy/default@small about 1"), "{said}");
    let (outcome, reason) = verdict(dir, COPY, "max_err <= 0");
    assert_eq!(outcome, "skipped");
    let start = "over the simulator's budget of 1000 warp instructions a case (--sim-budget raises it): about 1";
    assert!(reason.starts_with(start), "{reason}");
    // The same from the file; the command line wins.
    edit(
        &dir.join("gates.yaml"),
        "kernels:\n",
        "simulation: {budget: 1000}\nkernels:\n",
    );
    simulate(dir, &["copy"], 0);
    assert_eq!(verdict(dir, COPY, "max_err <= 0").0, "skipped");
    simulate(dir, &["copy", "--sim-budget", "100000"], 0);
    assert_eq!(verdict(dir, COPY, "max_err <= 0").0, "pass");
}

#[test]
fn times_come_from_a_gpu() {
    let project = project();
    let dir = project.path();
    simulate(dir, &["dial"], 0);
    assert_eq!(
        verdict(dir, "dial@filled", "p50 +2%"),
        (
            "skipped".to_owned(),
            "--device sim: times are measured on a GPU".to_owned()
        )
    );
    simulate(dir, &["copy", "--require-gpu"], 4);
    assert!(simulations(dir).is_empty());
}

#[test]
fn a_counter_that_no_gpu_has_confirmed_is_no_gate() {
    let project = project();
    edit(
        &project.path().join("gates.yaml"),
        "      registers: 32\n",
        "      registers: 32\n      instructions: 1000\n",
    );
    let said = stderr(&run(project.path(), &["validate"], 2));
    let start = "error: gates.yaml:22:21: kernels.copy.gates.instructions: instructions is shown for information and cannot be gated";
    assert!(said.starts_with(start), "{said}");
}

/// Whether gates can rest on counters at all follows from what was compared with hardware.
#[test]
fn an_uncoalesced_load_fails_against_its_baseline() {
    let project = project_with("swap.cu", SWAP);
    let dir = project.path();
    simulate(dir, &[], 0);
    let (outcome, reason) = verdict(dir, "k@small", "counters +0%");
    assert_eq!(outcome, "skipped");
    assert!(reason.starts_with("new: no baseline yet"), "{reason}");
    let accepted = stdout(&run(dir, &["baseline", "update"], 0));
    assert!(
        accepted.contains("k/default@small global_load_sectors: 64 (new)"),
        "{accepted}"
    );
    simulate(dir, &[], 0);
    assert_eq!(verdict(dir, "k@small", "counters +0%").0, "pass");
    let shown = stdout(&run(dir, &["baseline", "show"], 0));
    assert!(
        shown.contains("k/default counters [sm_90, nvcc 13."),
        "{shown}"
    );

    // A warp takes a half of each sector of 32 bytes: the same bytes, twice the sectors.
    fs::rename(dir.join("gatekeeper-out"), dir.join("base")).unwrap();
    edit(
        &dir.join("swap.cu"),
        "    staged[t ^ 32] = x[start + (t ^ 32)];",
        "    const int s = t % 8 * 32 + t / 8;\n    staged[s] = __ldg(x + start + s);",
    );
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["counters +0%"]);
    let (_, reason) = verdict(dir, "k@small", "counters +0%");
    // The load is in a header of the toolkit; the line is the user's that calls it.
    assert!(
        reason.contains("global_load_sectors 64 -> 128, +100.0 % (most at swap.cu:"),
        "{reason}"
    );
    let report = fs::read_to_string(dir.join("gatekeeper-out/report.md")).unwrap();
    assert!(report.contains("### Counters that changed"), "{report}");
    // Nor does a comparison of two records let it through.
    run(dir, &["compare", "base/record.json", RECORD], 1);
}

#[test]
fn a_case_that_no_memory_holds_is_skipped_before_its_inputs_are_made() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "      small: {N: 1000}\n    seeds: 2\n",
        "      small: {N: 1000}\n      vast: {N: 2000000000}\n    seeds: 2\n",
    );
    simulate(dir, &["copy"], 0);
    assert_eq!(
        verdict(dir, "copy@vast", "max_err <= 0"),
        (
            "skipped".to_owned(),
            "over the simulator's memory: 15258 MiB of tensors, limit 4096 MiB".to_owned()
        )
    );
    assert_eq!(verdict(dir, COPY, "max_err <= 0").0, "pass");
}

/// A driver takes the launch and reads whatever lies behind the arguments.
#[test]
fn arguments_that_are_not_the_kernels_are_refused() {
    for (args, reason) in [
        (
            "[{tensor: x}, {tensor: y}, {i32: N}]",
            "gates.yaml:LINE: gates.yaml gives 3 arguments, and swap takes 2:\n  \
             1: a pointer or an integer of 8 bytes, given tensor x\n  \
             2: a pointer or an integer of 8 bytes, given tensor y\n  3: nothing, given i32",
        ),
        (
            "[{tensor: x}, {struct: [{tensor: y}, {i32: N}]}]",
            "gates.yaml:LINE: argument 2 of swap is a struct of 16 bytes in gates.yaml, and the kernel takes \
             a pointer or an integer of 8 bytes",
        ),
    ] {
        let project = project_with("swap.cu", SWAP);
        let dir = project.path();
        let gates = dir.join("gates.yaml");
        edit(&gates, "[{tensor: x}, {tensor: y}]", args);
        let text = fs::read_to_string(&gates).unwrap();
        let line = 1 + text.lines().position(|line| line.contains(args)).unwrap();
        let reason = reason.replace("LINE", &line.to_string());
        simulate(dir, &[], 1);
        assert_eq!(
            built(dir),
            ("fail".to_owned(), format!("arguments do not fit: {reason}"))
        );
    }
}

/// Without a reference everything else is still looked at, and nothing says that the output is right.
#[test]
fn a_kernel_without_a_reference_is_never_right() {
    let kernel = SWAP.replace("{unary: {x: x, out: y, op: copy}}", "none");
    let project = project_with("swap.cu", &kernel);
    let dir = project.path();
    simulate(dir, &[], 3);
    assert_eq!(
        verdict(dir, "k@small", "max_err <= 0"),
        (
            "inconclusive".to_owned(),
            "gates.yaml has no reference (`reference: none`): whether the output is right is not known"
                .to_owned()
        )
    );
    for gate in ["finite", "written", "inputs intact", "memory and races"] {
        assert_eq!(verdict(dir, "k@small", gate).0, "pass", "{gate}");
    }
    let report = fs::read_to_string(dir.join("gatekeeper-out/record.json")).unwrap();
    assert!(report.contains("\"reference\":\"none\""), "{report}");
    // A mistake by itself is found.
    edit(
        &dir.join("swap.cu"),
        "y[start + t] = ",
        "y[start + t] = t == 7 ? nanf(\"\") : ",
    );
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["finite"]);
}

#[test]
fn an_argument_of_another_type_is_told_at_its_line() {
    let args = "    args:\n      - {tensor: x}\n      - {tensor: y}\n      - {i32: N}\n";
    let kernel = SWAP.replace("    args: [{tensor: x}, {tensor: y}]\n", args);
    for (head, takes) in [
        (
            "__global__ void swap(const float* x, float* y, int n)",
            "int",
        ),
        (
            "extern \"C\" __global__ void swap(const float* x, float* y, int n)",
            "an integer of 4 bytes",
        ),
    ] {
        let project = project_with("swap.cu", &kernel);
        let dir = project.path();
        let old = "extern \"C\" __global__ void swap(const float* x, float* y)";
        edit(&dir.join("swap.cu"), old, head);
        simulate(dir, &[], 0);
        edit(&dir.join("gates.yaml"), "{i32: N}", "{f32: N}");
        simulate(dir, &[], 1);
        let reason = format!(
            "arguments do not fit: gates.yaml:15: argument 3 of swap is f32 in gates.yaml, \
             and the kernel takes {takes}"
        );
        assert_eq!(built(dir), ("fail".to_owned(), reason));
    }
}

/// Every output of a strided tensor is written, and so is what lies between its rows.
#[test]
fn a_write_between_the_strides_of_an_output() {
    let project = project_with("swap.cu", SWAP);
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "y: {role: out, type: f32, shape: [N]}",
        "y: {role: out, type: f32, shape: [2, N / 4], strides: [N / 2, 1]}",
    );
    edit(
        &dir.join("gates.yaml"),
        "x: {type: f32, shape: [N]}",
        "x: {type: f32, shape: [2, N / 4], strides: [N / 2, 1]}",
    );
    edit(
        &dir.join("swap.cu"),
        "y[start + t] = staged[t];",
        "if (t < 128) y[start + t] = staged[t];",
    );
    edit(
        &dir.join("swap.cu"),
        "    staged[t ^ 32] = x[start + (t ^ 32)];",
        "    staged[t ^ 32] = t < 128 ? x[start + (t ^ 32)] : 0;",
    );
    simulate(dir, &[], 0);
    assert_eq!(verdict(dir, "k@small", "inputs intact").0, "pass");
    edit(
        &dir.join("swap.cu"),
        "if (t < 128) y[",
        "if (t < 129 && start + t < 384) y[",
    );
    simulate(dir, &[], 1);
    let (outcome, reason) = verdict(dir, "k@small", "inputs intact");
    assert_eq!(outcome, "fail");
    assert!(
        reason.contains("y: 1 elements between its strides"),
        "{reason}"
    );
}

#[test]
fn a_loop_without_end() {
    let project = copy_with(
        "    __syncthreads();\n",
        "    for (unsigned k = 1; k != 0; k += 2) staged[0] = k;\n    __syncthreads();\n",
    );
    let dir = project.path();
    // However small the budget: what does not end is not taken for what is too large.
    simulate(dir, &["copy", "--sim-budget", "1000"], 1);
    let (outcome, reason) = verdict(dir, COPY, "max_err <= 0");
    assert_eq!(outcome, "fail");
    let start = "hung past its deadline: still running after 20 million warp instructions: an endless loop, ";
    assert!(reason.starts_with(start), "{reason}");
}

/// A few of its blocks pass the budget, and come to their end.
#[test]
fn heavy_blocks_are_no_endless_loop() {
    let project = copy_with(
        "    __syncthreads();\n",
        "    for (unsigned k = 0; k < 12000000; k++) asm volatile(\"\");\n    __syncthreads();\n",
    );
    let dir = project.path();
    simulate(dir, &["copy", "--sim-budget", "1000"], 0);
    let (outcome, reason) = verdict(dir, COPY, "max_err <= 0");
    assert_eq!(outcome, "skipped");
    assert!(
        reason.starts_with("over the simulator's budget of 1000 ")
            && reason.contains(": about 18 million"),
        "{reason}"
    );
}
