//! A kernel whose output depends on what ran before it, or on which part of the machine ran it and when, in the
//! simulator: each form goes red for its reason, and its honest twin stays green.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, copies, edit, failed, simulate, verdict};
use serde_json::Value;
use std::fs;

const TICKET: &str = "  __shared__ unsigned ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(&NAME, 1);
  __syncthreads();
  y[i] = ticket < gridDim.x ? v : 0;
";

/// A number that is not reset, results that are remembered, a flag: right in the first launch, and red.
#[test]
fn right_in_the_first_launch_only_fails_and_names_the_variable() {
    let counter = TICKET.replace("NAME", "tickets");
    let project = copies(&[
        ("counter", "__device__ unsigned tickets;", &counter),
        (
            "memo",
            "__device__ float table[256];\n__device__ int known[256];",
            "  if (!known[i]) { table[i] = v; known[i] = 1; }\n  y[i] = table[i];",
        ),
        (
            "flag",
            "__device__ int started[256];",
            "  y[i] = started[i] ? v + 1 : v;\n  started[i] = 1;",
        ),
    ]);
    let dir = project.path();
    for (kernel, parts) in [
        (
            "counter",
            &[
                "right in its first launch only: launch 2 differs from the first launch in 256 elements with seed 1",
                "`tickets`, written at cuda/include/device_atomic_functions.hpp",
                "inlined at k.cu:7",
            ][..],
        ),
        (
            "memo",
            &[
                "after launches on the data of seed 1, one on that of seed 2 differs from a first launch on it in 256 \
                 elements, first at y[0]",
                "`table`, written at k.cu:",
                "`known`, written at k.cu:",
            ],
        ),
        ("flag", &["launch 2 differs", "`started`, written at k.cu:"]),
    ] {
        simulate(dir, &[kernel], 1);
        let (outcome, code, message) = verdict(dir, kernel, "deterministic");
        assert_eq!(
            (outcome.as_str(), code.as_str()),
            ("fail", "first-launch-only")
        );
        for part in parts {
            assert!(message.contains(part), "{kernel}: {message}");
        }
    }
}

/// State that the last block puts back, a table that depends on no input, a number that only grows: right in every
/// launch. Where nothing is left, nothing is launched again.
#[test]
fn a_kernel_that_keeps_state_and_is_right_in_every_launch_passes() {
    let reset = TICKET.replace("NAME", "tickets")
        + "  if (threadIdx.x == 0 && ticket == gridDim.x - 1) atomicExch(&tickets, 0);";
    let epoch = TICKET
        .replace("NAME", "epochs")
        .replace("ticket < gridDim.x", "ticket % gridDim.x < gridDim.x");
    let project = copies(&[
        ("reset", "__device__ unsigned tickets;", &reset),
        (
            "table",
            "__device__ float squares[256];\n__device__ int made[256];",
            "  if (!made[i]) { squares[i] = i * i; made[i] = 1; }\n  y[i] = v + (squares[i] - i * i);",
        ),
        ("epoch", "__device__ unsigned epochs;", &epoch),
        ("plain", "", "  y[i] = v;"),
    ]);
    let dir = project.path();
    simulate(dir, &[], 0);
    for (kernel, outcome, launches) in [
        ("reset", "skipped", 1),
        ("table", "pass", 2),
        ("epoch", "pass", 8),
        ("plain", "skipped", 1),
    ] {
        assert_eq!(verdict(dir, kernel, "deterministic").0, outcome, "{kernel}");
        let record: Value =
            serde_json::from_str(&fs::read_to_string(dir.join(RECORD)).unwrap()).unwrap();
        let evidence = record["record"]["evidence"].as_array().unwrap();
        let mut checks = evidence
            .iter()
            .filter_map(|evidence| evidence.get("check"))
            .filter(|check| check["case"]["kernel"] == kernel);
        let made = &checks.next().unwrap()["facts"]["got"]["launches"];
        assert_eq!(made.as_u64(), Some(launches), "{kernel}");
    }
}

/// `%reg` of `kind` into `r`.
fn read(register: &str, kind: &str, of: &str) -> String {
    format!(
        "  {kind} r; asm volatile(\"mov.{of} %0, {register};\" : \"={}\"(r));\n",
        if of == "u64" { "l" } else { "r" }
    )
}

#[test]
fn an_output_that_depends_on_the_machine_or_the_moment_is_a_finding_with_its_line() {
    let narrow = |register: &str| read(register, "unsigned", "u32");
    let wide = |register: &str| read(register, "unsigned long long", "u64");
    let late = "  y[i] = r > (1ull << 40) ? 0 : v;";
    let forms = [
        (
            "smid",
            narrow("%%smid") + "  y[i] = v + r;",
            "which multiprocessor ran it",
        ),
        (
            "nsmid",
            narrow("%%nsmid") + "  y[i] = v + (r - 1);",
            "which multiprocessor ran it",
        ),
        (
            "warpid",
            narrow("%%warpid") + "  y[i] = r == threadIdx.x / 32 ? v : 0;",
            "which warp slot",
        ),
        (
            "nwarpid",
            narrow("%%nwarpid") + "  if (r == 2) y[i] = v; else y[i] = 0;",
            "which warp slot",
        ),
        (
            "gridid",
            wide("%%gridid") + "  y[i] = v + r;",
            "the number of the grid",
        ),
        ("ticks64", wide("%%clock64") + late, "when it ran"),
        ("globaltimer", wide("%%globaltimer") + late, "when it ran"),
        (
            "ticks",
            narrow("%%clock") + "  y[i] = r > (1u << 30) ? 0 : v;",
            "when it ran",
        ),
        (
            "pm",
            narrow("%%pm3") + "  y[i] = r > (1u << 30) ? 0 : v;",
            "when it ran",
        ),
        (
            "smem",
            narrow("%%total_smem_size")
                + "  __shared__ float s[64]; s[threadIdx.x] = v; y[i] = r == 256 ? s[threadIdx.x] : 0;",
            "how much shared memory",
        ),
        (
            "envreg",
            narrow("%%envreg3") + "  y[i] = v + r;",
            "a register that the driver sets",
        ),
        (
            "workspace",
            narrow("%%envreg2") + "  y[i] = v + r;",
            "a register that the driver sets",
        ),
        (
            "address",
            "  y[i] = v + ((uintptr_t)x >> 12 & 1);".to_owned(),
            "bits of an address",
        ),
    ];
    let kernels: Vec<_> = forms
        .iter()
        .map(|(name, body, _)| (*name, "", body.as_str()))
        .collect();
    let project = copies(&kernels);
    let dir = project.path();
    for (kernel, _, depends) in &forms {
        simulate(dir, &[kernel], 1);
        let (outcome, code, message) = verdict(dir, kernel, "memory and races");
        assert_eq!(
            (outcome.as_str(), code.as_str()),
            ("fail", "findings"),
            "{kernel}"
        );
        assert!(
            message.contains(&format!("the output depends on {depends}")),
            "{kernel}: {message}"
        );
        assert!(message.contains("taken at k.cu:"), "{kernel}: {message}");
        let observed = message.contains("a launch on the same data with ")
            && message.contains(" gave different values in ")
            && message.contains(" output elements, the first of them y[");
        assert!(observed, "{kernel}: {message}");
        // Nothing else tells: with the values that it usually sees the output is right.
        if *kernel != "address" {
            let gates: Vec<_> = failed(dir).into_iter().map(|(gate, _)| gate).collect();
            assert_eq!(gates, ["memory and races"], "{kernel}");
        }
    }
}

/// Ordinary uses, which no output depends on: work that is picked by the multiprocessor, times in working memory,
/// waiting that gives up, a slot for each multiprocessor, a way for aligned pointers, a pointer that may be null.
#[test]
fn a_kernel_that_reads_the_machine_passes_if_results_agree() {
    let smid = read("%%smid", "unsigned", "u32");
    let picks = smid.clone()
        + "  __shared__ unsigned tile;
  for (unsigned turn = r & 1;; turn ^= 1) {
    if (threadIdx.x == 0) tile = atomicAdd(&taken[turn], 1);
    __syncthreads();
    const unsigned mine = tile;
    __syncthreads();
    if (mine >= 2) { if (turn != (r & 1)) break; continue; }
    const unsigned at = (turn * 2 + mine) * 64 + threadIdx.x;
    y[at] = x[at];
  }
  if (threadIdx.x == 0 && atomicAdd(&ended, 1) == gridDim.x - 1) { taken[0] = taken[1] = 0; ended = 0; }";
    let slots = smid
        + "  if (threadIdx.x == 0) atomicAdd(&slot[r], 1);
  y[i] = v;
  if (threadIdx.x == 0) atomicSub(&slot[r], 1);";
    let waits = "  if (i == 0) atomicExch(&ready, 1);
  const long long from = clock64();
  if (threadIdx.x == 0) while (!atomicAdd(&ready, 0) && clock64() - from < 1000000) __nanosleep(20);
  __syncthreads();
  y[i] = v;";
    let timed = "  const long long from = clock64();
  y[i] = v;
  times[i] = clock64() - from;";
    let aligned = "  if (((uintptr_t)x & 15) == 0 && ((uintptr_t)y & 15) == 0 && x != nullptr) {
    if (threadIdx.x < 16)
      reinterpret_cast<float4 *>(y)[blockIdx.x * 16 + threadIdx.x] =
          reinterpret_cast<const float4 *>(x)[blockIdx.x * 16 + threadIdx.x];
  } else y[i] = v;";
    let sized = read("%%dynamic_smem_size", "unsigned", "u32") + "  y[i] = v + r;";
    let project = copies(&[
        ("picks", "__device__ unsigned taken[2], ended;", &picks),
        ("slots", "__device__ unsigned slot[132];", &slots),
        ("waits", "__device__ int ready;", waits),
        ("timed", "", timed),
        ("aligned", "", aligned),
        ("sized", "", &sized),
    ]);
    let dir = project.path();
    edit(
        &dir.join("k.cu"),
        "timed(const float *x, float *y)",
        "timed(const float *x, float *y, long long *times)",
    );
    let yaml = dir.join("gates.yaml");
    let text = fs::read_to_string(&yaml).unwrap();
    let (before, after) = text.split_once("  timed:").unwrap();
    let after = after
        .replacen(
            "    args:",
            "      times: {role: scratch, type: i64, shape: [256]}\n    args:",
            1,
        )
        .replacen("{tensor: y}]", "{tensor: y}, {tensor: times}]", 1);
    fs::write(&yaml, format!("{before}  timed:{after}")).unwrap();
    simulate(dir, &[], 0);
}
