//! One kernel over 4 tiles of 1024 ints: each comes by a bulk copy, is changed, and goes by another one. Compiled by
//! nvcc for sm_90 from what the CUDA C++ Programming Guide shows. All edits of it stand in one source, which nvcc reads
//! once: it spends a second on these headers.

use crate::common::{report, simulate};
use serde_json::Value;
use std::sync::OnceLock;

const HEAD: &str = "#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
#pragma nv_diag_suppress static_var_with_dynamic_init
";

const KERNEL: &str = r#"extern "C" __global__ void tiles(const int* x, int* y) {
    __shared__ alignas(16) int tile[1024];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    const int* from = x + 1024 * blockIdx.x;
    if (threadIdx.x == 0) cuda::memcpy_async(tile, from, cuda::aligned_size_t<16>(sizeof(tile)), bar);
    auto token = bar.arrive();
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) tile[i] += 1;
    ptx::fence_proxy_async(ptx::space_shared);  // before the tile goes
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + 1024 * blockIdx.x, tile, sizeof(tile));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
    __syncthreads();
    tile[threadIdx.x] = 0;
}
"#;

const GATES: &str = "    source: k.cu
    shapes: {s: {N: 4096}}
    tensors:
      x: {type: i32, shape: [N], fill: iota}
      y: {role: out, type: i32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [4], block: [128]}
    reference:
      user: {source: ref.cpp, function: reference, args: [{tensor: x}, {tensor: y}, {i32: N}]}
    gates: {max_err: 0}
";

const REFERENCE: &str = r#"extern "C" void reference(const int* x, int* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = x[i] + 1;
}
"#;

/// A name, and what is replaced by what.
type Edit = (&'static str, &'static str, &'static str);

/// A fault in the use of a copy, and the words of the failure.
const FAULTS: [(Edit, &str); 7] = [
    (
        (
            "reads_the_tile_while_it_comes",
            "bar.wait(std::move(token));",
            "",
        ),
        "while cp.async.bulk from ",
    ),
    (
        (
            "overwrites_the_tile_while_it_goes",
            "        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());\n",
            "",
        ),
        "may still read it",
    ),
    (
        (
            "lets_the_only_group_be_under_way",
            "read(ptx::n32_t<0>",
            "read(ptx::n32_t<1>",
        ),
        "may still read it",
    ),
    (
        (
            "never_shows_the_new_values_to_the_copy",
            "    ptx::fence_proxy_async(ptx::space_shared);  // before the tile goes\n",
            "",
        ),
        "no fence.proxy.async orders this cp.async.bulk",
    ),
    (
        (
            "reads_one_tile_too_far",
            "x + 1024 * blockIdx.x",
            "x + 1024 * (blockIdx.x + 1)",
        ),
        "out of bounds",
    ),
    (
        // Ints 1 to 1024 begin at no multiple of 16 bytes.
        (
            "copies_from_a_misaligned_place",
            "x + 1024 * blockIdx.x",
            "x + 1 + 1024 * blockIdx.x",
        ),
        "misaligned access: 16 bytes",
    ),
    (
        (
            "announces_more_bytes_than_come",
            "auto token = bar.arrive();",
            "if (threadIdx.x == 0) cuda::device::barrier_expect_tx(bar, 64);\n    auto token = bar.arrive();",
        ),
        "to which 64 expected bytes were not copied",
    ),
];

/// A form of the copy that is not built.
const REMOTE_SUM: Edit = (
    "adds_to_a_neighbour",
    "auto token",
    "asm volatile(\"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%0], 16, [%0];\" \
     ::\"r\"(0));\n    auto token",
);

/// The source as it is and with each edit.
fn source() -> String {
    let edits = FAULTS.iter().map(|(edit, _)| edit).chain([&REMOTE_SUM]);
    let edited = edits.map(|(name, old, new)| {
        assert!(KERNEL.contains(old), "{old}");
        let kernel = KERNEL.replacen(old, new, 1);
        kernel.replace(" tiles(", &format!(" {name}("))
    });
    [HEAD.to_owned(), KERNEL.to_owned()]
        .into_iter()
        .chain(edited)
        .collect()
}

/// The verdicts of all kernels, from one run.
fn verdicts() -> &'static [Value] {
    static FOUND: OnceLock<Vec<Value>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let names = FAULTS.iter().map(|(edit, _)| edit.0);
        let names = ["tiles", REMOTE_SUM.0].into_iter().chain(names);
        let kernels: String = names
            .map(|name| format!("  {name}:\n    entry: {name}\n{GATES}"))
            .collect();
        let gates = format!("version: 1\narchitectures: [sm_90]\nkernels:\n{kernels}");
        for (name, text) in [
            ("k.cu", &*source()),
            ("gates.yaml", &*gates),
            ("ref.cpp", REFERENCE),
        ] {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        simulate(dir.path(), &[], 1);
        let report: Value = serde_json::from_str(&report(dir.path())).unwrap();
        report["verdicts"].as_array().unwrap().clone()
    })
}

/// Gate, outcome and message of each verdict on a kernel.
fn of_kernel(kernel: &str) -> Vec<(&'static str, &'static str, &'static str)> {
    let text = |value: &'static Value| value.as_str().unwrap_or_default();
    let own = verdicts()
        .iter()
        .filter(|it| it["subject"]["case"]["kernel"] == kernel);
    own.map(|it| {
        (
            text(&it["gate"]),
            text(&it["outcome"]),
            text(&it["message"]),
        )
    })
    .collect()
}

#[test]
fn a_right_kernel_passes() {
    let verdicts = of_kernel("tiles");
    for (gate, outcome, message) in &verdicts {
        assert!(["pass", "skipped"].contains(outcome), "{gate}: {message}");
    }
    for gate in ["memory and races", "max_err <= 0"] {
        let found = verdicts.iter().find(|it| it.0 == gate).unwrap();
        assert_eq!(found.1, "pass", "{verdicts:#?}");
    }
}

#[test]
fn a_fault_in_the_use_of_a_copy_fails() {
    for (edit, says) in &FAULTS {
        let verdicts = of_kernel(edit.0);
        let is_said = |(_, outcome, message): &(&str, &str, &str)| {
            *outcome == "fail" && message.contains(says) && message.contains("k.cu:")
        };
        assert!(verdicts.iter().any(is_said), "{}: {verdicts:#?}", edit.0);
    }
}

/// A form that is not built is named, and is no pass.
#[test]
fn another_bulk_copy_is_unsupported() {
    let verdicts = of_kernel(REMOTE_SUM.0);
    let found = verdicts.iter().find(|it| it.0 == "memory and races");
    let (_, outcome, message) = *found.unwrap();
    assert_eq!(outcome, "unsupported", "{message}");
    let source = source();
    let line = source.lines().position(|line| line.contains("cp.reduce"));
    let place = format!("(k.cu:{})", line.unwrap() + 1);
    for part in [
        "`cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32`",
        &place,
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(!verdicts.iter().any(|it| it.1 == "fail"), "{verdicts:#?}");
}
