//! One kernel over 4 tiles of 1024 ints: each comes by a bulk copy, is changed, and goes by another one. Compiled by
//! nvcc for sm_90 from what the CUDA C++ Programming Guide shows.

use crate::common::{failed, simulate, verdict};

const SOURCE: &str = r#"#include <cuda/barrier>
#include <cuda/ptx>
namespace ptx = cuda::ptx;
extern "C" __global__ void tiles(const int* x, int* y) {
    __shared__ alignas(16) int tile[1024];
#pragma nv_diag_suppress static_var_with_dynamic_init
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

const GATES: &str = "\
version: 1
architectures: [sm_90]
kernels:
  tiles:
    source: k.cu
    entry: tiles
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

fn project(old: &str, new: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert!(SOURCE.contains(old), "{old}");
    let source = SOURCE.replacen(old, new, 1);
    for (name, text) in [
        ("k.cu", &*source),
        ("gates.yaml", GATES),
        ("ref.cpp", REFERENCE),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

#[test]
fn a_right_kernel_passes() {
    let dir = project("", "");
    let said = simulate(dir.path(), &[], 0);
    assert!(said.contains("PASS"), "{said}");
    let (outcome, ..) = verdict(dir.path(), "tiles", "memory and races");
    assert_eq!(outcome, "pass", "{said}");
}

#[test]
fn a_fault_in_the_use_of_a_copy_fails() {
    for (old, new, says) in [
        // The tile is read and changed while it comes.
        (
            "bar.wait(std::move(token));",
            "",
            "while cp.async.bulk from ",
        ),
        // It is overwritten while it goes.
        (
            "        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());\n",
            "",
            "may still read it",
        ),
        // The wait lets one group be under way: the only one.
        (
            "read(ptx::n32_t<0>",
            "read(ptx::n32_t<1>",
            "may still read it",
        ),
        // The new values were never made visible to the copy.
        (
            "    ptx::fence_proxy_async(ptx::space_shared);  // before the tile goes\n",
            "",
            "no fence.proxy.async orders this cp.async.bulk",
        ),
        // One tile too far.
        (
            "x + 1024 * blockIdx.x",
            "x + 1024 * (blockIdx.x + 1)",
            "out of bounds",
        ),
        // Not a multiple of 16 bytes: ints 1 to 1024.
        (
            "x + 1024 * blockIdx.x",
            "x + 1 + 1024 * blockIdx.x",
            "misaligned access: 16 bytes",
        ),
        // More bytes are announced than come.
        (
            "auto token = bar.arrive();",
            "if (threadIdx.x == 0) cuda::device::barrier_expect_tx(bar, 64);\n    auto token = bar.arrive();",
            "to which 64 expected bytes were not copied",
        ),
    ] {
        let dir = project(old, new);
        simulate(dir.path(), &[], 1);
        let failed = failed(dir.path());
        let is_said =
            |(_, message): &(String, String)| message.contains(says) && message.contains("k.cu:");
        assert!(failed.iter().any(is_said), "{new}: {failed:#?}");
    }
}

/// A form that is not built is named, and is no pass.
#[test]
fn another_bulk_copy_is_unsupported() {
    let ahead = "asm volatile(\"cp.async.bulk.prefetch.L2.global [%0], 4096;\" ::\"l\"(x));\n    auto token";
    let dir = project("auto token", ahead);
    simulate(dir.path(), &[], 0);
    let (outcome, _, message) = verdict(dir.path(), "tiles", "memory and races");
    assert_eq!(outcome, "unsupported", "{message}");
    for part in ["`cp.async.bulk.prefetch.L2.global`", "(k.cu:15)"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}
