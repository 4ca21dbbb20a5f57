//! One thing is broken at a time; each has to fail for its own reason, and to say how to see it again.
//!
//! `GATEKEEPER_SHOW=1 cargo test --test regressions -- --nocapture` prints the terminal report of each.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests; reports of failing runs, where they are asked for"
)]

mod common;

use common::{edit, project, root, run, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// A run that has to fail: exit code 1, headline, reason and the command that shows it alone, each as a
/// line of the terminal's report.
fn fails(dir: &Path, args: &[&str], subject: &str, reason: &str) -> Output {
    let output = gate(dir, args, 1);
    let said = unwrapped(&stdout(&output));
    let heads = format!("FAIL {subject}: ");
    let case = subject.split(" [").next().unwrap_or(subject);
    let alone = format!("gatekeeper run '{case}'");
    let told = said.split("\n\n").any(|problem| {
        problem.starts_with(&heads) && problem.contains(reason) && problem.ends_with(&alone)
    });
    assert!(
        told,
        "no {heads:?} with {reason:?} and {alone:?} in\n{said}"
    );
    output
}

/// `run` with the compiler provisioned. What it found is judged again from its record, to the same bytes.
fn gate(dir: &Path, args: &[&str], code: i32) -> Output {
    let mut all = vec!["run", "--provision"];
    all.extend(args);
    let output = run(dir, &all, code);
    let again = run(dir, &["judge", common::RECORD, "--format", "json"], code);
    assert_eq!(stdout(&again), common::report(dir));
    if std::env::var_os("GATEKEEPER_SHOW").is_some() {
        println!("$ gatekeeper {}\n{}", all.join(" "), stdout(&output));
        println!("exit code {code}\n");
    }
    output
}

/// Reasons are wrapped to the width of a terminal, with this indent.
fn unwrapped(text: &str) -> String {
    text.replace("\n     ", " ")
}

/// Outcome and reason of every verdict on a subject, by gate.
fn verdicts(dir: &Path, kernel: &str) -> Vec<(String, String, String)> {
    let report: Value = serde_json::from_str(&common::report(dir)).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| {
            let subject = &verdict["subject"];
            subject["unit"]["kernel"] == kernel || subject["case"]["kernel"] == kernel
        })
        .map(|verdict| {
            (
                text(&verdict["gate"]),
                text(&verdict["outcome"]),
                text(&verdict["reason"]),
            )
        })
        .collect()
}

/// The gates that failed.
fn failed(dir: &Path, kernel: &str) -> Vec<String> {
    verdicts(dir, kernel)
        .into_iter()
        .filter(|(_, outcome, _)| outcome == "fail")
        .map(|(gate, ..)| gate)
        .collect()
}

const COPY: &str = "copy/default [sm_90]";

#[test]
fn one_register_over_the_limit() {
    let project = project();
    let dir = project.path();
    gate(dir, &["copy"], 0);
    let report: Value = serde_json::from_str(&common::report(dir)).unwrap();
    let registers = report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|verdict| verdict["metric"] == "registers")
        .and_then(|verdict| verdict["measured"].as_f64())
        .unwrap();
    let limit = registers - 1.0;
    edit(
        &dir.join("gates.yaml"),
        "registers: 32\n",
        &format!("registers: {registers}\n"),
    );
    gate(dir, &["copy"], 0);
    edit(
        &dir.join("gates.yaml"),
        &format!("registers: {registers}\n"),
        &format!("registers: {limit}\n"),
    );
    let reason = format!("registers is {registers}, and has to be <= {limit} by gates.yaml:21");
    fails(dir, &["copy"], COPY, &reason);
    assert_eq!(failed(dir, "copy"), [format!("registers <= {limit}")]);
}

/// Registers have no addresses, so an array that is indexed by data goes to the stack. Still right: the last
/// of the eight writes is where is read, which the compiler cannot know.
fn with_an_array_of_32_bytes(dir: &Path) {
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = staged[255 - threadIdx.x];\n",
        "    if (i >= n) return;\n    float kept[8];\n    #pragma unroll 1\n    for (int k = 0; k < 8; ++k)\n        \
         kept[(k * n) & 7] = k == 7 ? staged[255 - threadIdx.x] : x[k];\n    \
         y[i] = kept[(7 * n + blockDim.y - 1) & 7];\n",
    );
}

#[test]
fn thirty_two_bytes_of_stack() {
    let project = project();
    let dir = project.path();
    with_an_array_of_32_bytes(dir);
    fails(
        dir,
        &["copy"],
        COPY,
        "stack is 32 B, and has to be <= 0 B by gates.yaml:24",
    );
    // Stack is not spill.
    assert_eq!(failed(dir, "copy"), ["stack <= 0 B"]);
}

#[test]
fn spilled_registers() {
    let project = project();
    let dir = project.path();
    // 32 registers for each of 2048 threads, and 64 values that have to stay alive over a barrier.
    edit(
        &dir.join("copy.cu"),
        "__global__ void copy",
        "__global__ void __launch_bounds__(1024, 2) copy",
    );
    edit(
        &dir.join("copy.cu"),
        "    __syncthreads();\n",
        "    float kept[64];\n    #pragma unroll\n    \
         for (int k = 0; k < 64; ++k) kept[k] = x[(i + k * 7) % n];\n    __syncthreads();\n    \
         #pragma unroll\n    for (int k = 0; k < 64; ++k)\n        \
         if (kept[k] != kept[(k * 5 + 3) % 64] && n < 0) y[k] = kept[k] * kept[(k + 1) % 64];\n",
    );
    fails(
        dir,
        &["copy"],
        COPY,
        "and has to be <= 0 B by gates.yaml:23",
    );
    assert_eq!(failed(dir, "copy"), ["spills <= 0 B", "stack <= 0 B"]);
}

#[test]
fn shared_memory_over_the_limit_counts_what_the_launch_asks_for() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "block: [256]}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32",
        "block: [256], dynamic_shared: 4}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32",
    );
    fails(
        dir,
        &["copy"],
        COPY,
        "shared is 1028 B, and has to be <= 1 KiB by gates.yaml:22",
    );
    assert_eq!(failed(dir, "copy"), ["shared <= 1 KiB"]);
}

#[test]
fn occupancy_below_the_limit() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "block: [256]}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32\n      shared: 1KiB",
        "block: [256], dynamic_shared: 60000}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32\n      occupancy: 50%",
    );
    // 3 blocks of 8 warps in 227 KiB, of 64 warps that the multiprocessor holds.
    fails(
        dir,
        &["copy"],
        COPY,
        "occupancy is 37.5 %, and has to be >= 50 % by gates.yaml:22",
    );
    assert_eq!(failed(dir, "copy"), ["occupancy >= 50 %"]);
}

#[test]
fn a_macro_without_effect() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "      default: {}\n",
        "      default: {}\n      dead: {define: {UNUSED_MACRO: 1}}\n",
    );
    fails(
        dir,
        &["copy"],
        "copy/dead [sm_90]",
        "has effect no effect: same machine code, launches and arguments as `default`",
    );
    assert_eq!(failed(dir, "copy"), ["has effect"]);
    // Its line numbers are other ones now; what it does is not.
    edit(
        &dir.join("copy.cu"),
        "#ifndef",
        "#if UNUSED_MACRO\n\n#endif\n#ifndef",
    );
    gate(dir, &["copy"], 1);
    assert_eq!(failed(dir, "copy"), ["has effect"]);
    // And alive, it holds.
    edit(
        &dir.join("copy.cu"),
        "y[i] = staged",
        "y[i] = UNUSED_MACRO + staged",
    );
    // But for its result, which is another.
    gate(dir, &["copy"], 1);
    assert!(!failed(dir, "copy").contains(&"has effect".to_owned()));
}

#[test]
fn a_compile_error_is_told_once_with_its_line() {
    let project = project();
    let dir = project.path();
    edit(&dir.join("copy.cu"), "__syncthreads();", "__syncthread();");
    let output = fails(
        dir,
        &[],
        COPY,
        "does not compile: copy.cu(13): error: identifier \"__syncthread\" is undefined",
    );
    let said = stdout(&output);
    assert_eq!(said.matches("copy.cu(13): error").count(), 1, "{said}");
    // The rest goes on.
    assert!(!verdicts(dir, "dial").is_empty());
    assert_eq!(failed(dir, "dial"), Vec::<String>::new());
    for gate in ["built", "registers <= 32", "stack <= 0 B"] {
        assert!(failed(dir, "copy").contains(&gate.to_owned()));
    }
}

#[test]
fn an_entry_that_is_not_there() {
    let project = project();
    let dir = project.path();
    edit(&dir.join("gates.yaml"), "entry: copy\n", "entry: copi\n");
    fails(
        dir,
        &["copy"],
        COPY,
        "entry not found: entry `copi` of copy.cu: no such entry; there are `copy`",
    );
}

#[test]
fn a_limit_against_the_baseline() {
    let project = project();
    let dir = project.path();
    gate(dir, &["dial"], 0);
    common::gatekeeper()
        .current_dir(dir)
        .args(["baseline", "update"])
        .output()
        .unwrap();
    gate(dir, &["dial"], 0);
    // More alive at once than agreed, and still within the absolute limit.
    edit(
        &dir.join("dial.cu"),
        "value = fmaf(value, one, zero);",
        "value = fmaf(value, one, zero) + (blockDim.y > 7 ? sinf(value * turn) : 0.0f);",
    );
    fails(dir, &["dial"], "dial/default [sm_90]", "registers");
    assert_eq!(
        failed(dir, "dial").first().map(String::as_str),
        Some("registers +0%")
    );
}

// From here on, what only a GPU can show.

/// A run that may skip nothing for want of a GPU.
fn on_gpu(dir: &Path, filters: &[&str], code: i32) -> Output {
    let mut all = vec!["--require-gpu"];
    all.extend(filters);
    gate(dir, &all, code)
}

fn fails_on_gpu(dir: &Path, filters: &[&str], subject: &str, reason: &str) {
    let mut all = vec!["--require-gpu"];
    all.extend(filters);
    fails(dir, &all, subject, reason);
}

/// The project with a kernel of tests/fixtures/kernels before its own.
fn project_with(source: &str, kernel: &str) -> tempfile::TempDir {
    let project = project();
    let from = root().join("tests/fixtures/kernels").join(source);
    std::fs::copy(from, project.path().join(source)).unwrap();
    edit(
        &project.path().join("gates.yaml"),
        "kernels:\n",
        &format!("kernels:\n  broken:\n    source: {source}\n{kernel}"),
    );
    project
}

/// `copy`, which stands after what is broken, was judged as always, down to its last gate.
fn the_next_case_is_judged(dir: &Path) {
    let gates = verdicts(dir, "copy");
    for gate in [
        "built",
        "deterministic",
        "max_err <= 0",
        "agrees with driver",
    ] {
        assert!(
            gates
                .iter()
                .any(|(name, outcome, _)| name == gate && outcome == "pass"),
            "{gate}: {gates:?}"
        );
    }
    assert_eq!(failed(dir, "copy"), Vec::<String>::new());
}

const BROKEN: [&str; 2] = ["broken", "copy"];

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_kernel_slowed_by_3_percent() {
    let project = project();
    let dir = project.path();
    on_gpu(dir, &[], 0);
    let accepted = run(dir, &["baseline", "update"], 0);
    assert!(
        stdout(&accepted).contains("dial/default@filled p50: "),
        "{}",
        stdout(&accepted)
    );
    on_gpu(dir, &[], 0);
    assert!(
        verdicts(dir, "dial")
            .iter()
            .any(|(gate, outcome, _)| gate == "cycles +2%" && outcome == "pass"),
        "compared, not skipped"
    );
    edit(
        &dir.join("dial.cu"),
        "#define DIAL 1000",
        "#define DIAL 1030",
    );
    fails_on_gpu(
        dir,
        &[],
        "dial/default@filled",
        "% more against the baseline",
    );
    assert!(failed(dir, "dial").contains(&"cycles +2%".to_owned()));
    // The clock wanders, so p50 alone may be no more than undecided; it is never taken for a pass.
    assert!(
        verdicts(dir, "dial")
            .iter()
            .any(|(gate, outcome, _)| gate == "p50 +2%" && outcome != "pass")
    );
    assert_eq!(failed(dir, "copy"), Vec::<String>::new());
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_wrong_result() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("copy.cu"),
        "y[i] = staged[255 - threadIdx.x]",
        "y[i] = 0.5f + staged[255 - threadIdx.x]",
    );
    fails_on_gpu(dir, &["copy"], "copy/default@small", "max_err is ");
    assert_eq!(failed(dir, "copy"), ["max_err <= 0"]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn an_element_that_is_never_written() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = staged",
        "    if (i < n - 1) y[i] = staged",
    );
    fails_on_gpu(
        dir,
        &["copy"],
        "copy/default@small",
        "1 elements are never written",
    );
    assert!(failed(dir, "copy").contains(&"written".to_owned()));
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_race() {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    common::copy(&root().join("kernels"), &dir.join("kernels"));
    std::fs::write(
        dir.join("gates.yaml"),
        "\
version: 1
architectures: [sm_90]
flags: [-O3, -std=c++17]
kernels:
  sdpa_f16:
    source: kernels/sdpa_f16.cu
    entry: sdpa_f16
    include_dirs: [kernels]
    define: {BLOCK_M: 64, NUM_WARPS: 8, SYNC_POLICY: 2, USE_WMMA: 1, CAUSAL: 0}
    shapes:
      mission: {B: 2, H: 8, S: 512, D: 64}
      ragged_513: {B: 1, H: 3, S: 513, D: 64}
    seeds: 2
    tensors:
      q: {type: f16, shape: [B, H, S, D]}
      k: {type: f16, shape: [B, H, S, D]}
      v: {type: f16, shape: [B, H, S, D]}
      out: {role: out, type: f32, shape: [B, H, S, D]}
    args: [{tensor: q}, {tensor: k}, {tensor: v}, {tensor: out}, {i32: H}, {i32: S}]
    launch:
      grid: [\"ceil_div(S, BLOCK_M)\", H, B]
      block: [NUM_WARPS * 32]
      dynamic_shared: BLOCK_M * 420 + 18432
    reference:
      sdpa: {q: q, k: k, v: v, out: out}
    gates:
      max_err: 1e-3
",
    )
    .unwrap();
    on_gpu(dir, &[], 0);
    edit(&dir.join("gates.yaml"), "SYNC_POLICY: 2", "SYNC_POLICY: 0");
    for shape in ["mission", "ragged_513"] {
        let case = format!("sdpa_f16/default@{shape}");
        fails_on_gpu(dir, &[&case], &case, "");
        let gates = failed(dir, "sdpa_f16");
        assert!(
            gates
                .iter()
                .any(|gate| gate == "deterministic" || gate.starts_with("max_err")),
            "{gates:?}"
        );
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_hang() {
    let project = project_with("infinite_loop.cu", INFINITE_LOOP);
    let dir = project.path();
    fails_on_gpu(
        dir,
        &BROKEN,
        "broken/default@small",
        "hung past its deadline",
    );
    the_next_case_is_judged(dir);
}

const INFINITE_LOOP: &str = "    entry: infinite_loop
    deadline: 3s
    shapes: {small: {N: 1000}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      never: {type: i32, shape: [1], fill: {constant: 0}}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {tensor: never}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_write_out_of_bounds() {
    let project = project_with("oob_write.cu", OOB_WRITE);
    let dir = project.path();
    fails_on_gpu(dir, &BROKEN, "broken/default@small", "kernel faulted");
    the_next_case_is_judged(dir);
}

const OOB_WRITE: &str = "    entry: oob_write
    shapes: {small: {N: 1000}}
    seeds: 2
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn too_much_shared_memory_for_the_device() {
    let project = project_with("too_much_shared.cu", TOO_MUCH_SHARED);
    let dir = project.path();
    fails_on_gpu(dir, &BROKEN, "broken/default@small", "launch refused");
    the_next_case_is_judged(dir);
}

const TOO_MUCH_SHARED: &str = "    entry: too_much_shared
    shapes: {small: {N: 1024}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [\"N / 256\"], block: [256], dynamic_shared: 1048576}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_result_that_differs_between_launches() {
    let project = project_with("nondeterministic.cu", NONDETERMINISTIC);
    let dir = project.path();
    fails_on_gpu(
        dir,
        &BROKEN,
        "broken/default@many",
        "differs from the first in 1 elements",
    );
    assert_eq!(failed(dir, "broken"), ["deterministic"]);
    the_next_case_is_judged(dir);
    edit(
        &dir.join("gates.yaml"),
        "    entry: nondeterministic\n",
        "    entry: nondeterministic\n    nondeterministic: float atomics\n",
    );
    on_gpu(dir, &BROKEN, 0);
    assert!(
        verdicts(dir, "broken").contains(&(
            "deterministic".to_owned(),
            "skipped".to_owned(),
            "declared non-deterministic: float atomics".to_owned()
        )),
        "{:?}",
        verdicts(dir, "broken")
    );
}

// A sum of a million normal deviates is of the order of 1000, and wanders by far less than 1.
const NONDETERMINISTIC: &str = "    entry: nondeterministic
    shapes: {many: {N: 1000000}}
    seeds: 2
    tensors:
      x: {type: f32, shape: [N]}
      total: {role: inout, type: f32, shape: [], fill: {constant: 0}}
    args: [{tensor: x}, {tensor: total}, {i32: N}]
    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}
    reference: {reduce: {x: x, out: total, op: sum, axes: [0]}}
    gates: {max_err: 1}
";

/// The same faults without a GPU, each with the code and the reason of what broke.
#[test]
fn kernels_that_break_a_gpu_break_the_simulator() {
    for (source, kernel, reason) in [
        (
            "infinite_loop.cu",
            INFINITE_LOOP,
            "kernel faulted: livelock: everybody looks again and again, and nobody changes anything",
        ),
        (
            "oob_write.cu",
            OOB_WRITE,
            "kernel faulted: write of 4 bytes",
        ),
        (
            "too_much_shared.cu",
            TOO_MUCH_SHARED,
            "launch refused: 0 + 1048576 bytes of shared memory",
        ),
    ] {
        let project = project_with(source, kernel);
        let dir = project.path();
        let args = ["--device", "sim", "--sim-budget", "100000"];
        let args = [&BROKEN[..], &args].concat();
        fails(dir, &args, "broken/default@small", reason);
        assert_eq!(failed(dir, "copy"), Vec::<String>::new());
    }
    // What differs from launch to launch is beyond a device that repeats every bit.
    let project = project_with("nondeterministic.cu", NONDETERMINISTIC);
    let dir = project.path();
    gate(dir, &["broken", "--device", "sim"], 0);
    let gates = verdicts(dir, "broken");
    assert!(
        gates
            .iter()
            .any(|(gate, outcome, _)| gate == "deterministic" && outcome == "skipped"),
        "{gates:?}"
    );
}
