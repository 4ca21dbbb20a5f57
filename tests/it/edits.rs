//! Typical mistakes in optimising attention kernels, on a machine without a GPU: each edit of a kernel
//! of this repository has to turn the right gate red, and nothing else needs to.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{copy, copy_of, copy_of_first, edit, root, run, stdout};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The kernels, unedited, with the figures of a first run agreed on.
fn agreed() -> TempDir {
    static FIRST: OnceLock<TempDir> = OnceLock::new();
    copy_of_first(&FIRST, || {
        let project = copy_of("tests/fixtures/edits");
        copy(&root().join("kernels"), &project.path().join("kernels"));
        let dir = project.path();
        run(dir, &["run", "--provision", "--device", "sim"], 0);
        run(dir, &["baseline", "update"], 0);
        run(dir, &["run", "--device", "sim"], 0);
        project
    })
}

/// Exit code 1, and all of `says` in what is printed, line breaks aside.
fn caught(file: &str, old: &str, new: &str, says: &[&str]) -> String {
    let project = agreed();
    edit(&project.path().join("kernels").join(file), old, new);
    let output = run(project.path(), &["run", "-v", "--device", "sim"], 1);
    let all = stdout(&output);
    let said = all.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in says {
        assert!(said.contains(part), "{part:?} is not in\n{all}");
    }
    said
}

#[test]
fn a_barrier_removed() {
    caught(
        "sdpa_fp8.cu",
        "        __syncthreads();  // all warps are done with the decoded tiles\n",
        "",
        &["race on shared memory"],
    );
}

#[test]
fn a_warp_barrier_removed_whose_absence_leaves_the_output_right() {
    let said = caught(
        "sdpa_fp8.cu",
        "        softmax.update(strip, row_factor, scale_log2, seq_len - first_key);\n        __syncwarp();\n",
        "        softmax.update(strip, row_factor, scale_log2, seq_len - first_key);\n",
        &["race within a warp on shared memory"],
    );
    assert!(!said.contains("max_err is"), "{said}");
}

#[test]
fn a_loosened_wait_for_cp_async() {
    caught(
        "sdpa_fp8.cu",
        "cp_async_wait<0>();",
        "cp_async_wait<1>();",
        &["while cp.async from"],
    );
}

#[test]
fn a_pad_removed() {
    caught(
        "attention.cuh",
        "SCORE_STRIDE = BLOCK_N + 4;",
        "SCORE_STRIDE = BLOCK_N;",
        &[
            "shared_load_wavefronts 12992 -> 16576",
            "(most at kernels/attention.cuh:316 inlined at kernels/sdpa_fp8.cu:227: 8192, ",
        ],
    );
}

#[test]
fn an_uncoalesced_load() {
    caught(
        "tiles.cuh",
        "    for_each_chunk<ROWS, 1, THREADS>(thread, [&](int row, int column) {\n",
        "    for_each_chunk<ROWS, 1, THREADS>(thread, [&](int chunk_row, int chunk_column) {\n        \
         const int position = chunk_row * HEAD_DIM + chunk_column;\n        \
         const int row = position % ROWS, column = position / ROWS;\n",
        // Copies of K and of V, and behind them a load in a header of the toolkit, at the line that calls it.
        &[
            "global_load_sectors 1328 -> 33072",
            "(most at kernels/tiles.cuh:55 inlined at several places: 32768, kernels/tiles.cuh:39 inlined at ",
        ],
    );
}

#[test]
fn an_index_one_past_the_end() {
    caught(
        "tiles.cuh",
        "const bool valid = row < valid_rows;",
        "const bool valid = row <= valid_rows;",
        &["past the end"],
    );
}

#[test]
fn shared_memory_read_before_it_is_written() {
    caught(
        "sdpa_fp8.cu",
        "        softmax.update(strip, row_factor, scale_log2, seq_len - first_key);\n        __syncwarp();\n        output.rescale(row_factor);\n",
        "        output.rescale(row_factor);\n        __syncwarp();\n        softmax.update(strip, row_factor, scale_log2, seq_len - first_key);\n        __syncwarp();\n",
        &["depends on shared memory", "that was never written"],
    );
}

#[test]
fn a_shuffle_with_the_wrong_mask() {
    caught(
        "attention.cuh",
        "new_max = fmaxf(new_max, __shfl_xor_sync(ALL_LANES, new_max, distance));",
        "new_max = fmaxf(new_max, __shfl_xor_sync(0x0000ffffu, new_max, distance));",
        &["member"],
    );
}
