//! What head measures beside what the base measures: resources, counters, and checks that are lost.

use super::{Change, DISHONEST, HONEST, update_baselines};
use crate::common::edit;
use std::fs;
use std::path::Path;

/// Edits of the kernel `copy`.
fn copy(dir: &Path, new: &str) {
    edit(&dir.join("copy.cu"), "    if (i < n) y[i] = x[i];\n", new);
}

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

/// Still right, and no two lanes of a warp in one sector.
fn scatter(dir: &Path) {
    copy(
        dir,
        "    const int t = threadIdx.x;\n    const int j = i - t + t % 32 * 8 + t / 32;\n    \
         if (j < n) y[j] = x[j];\n",
    );
}

/// Still right, with the same traffic, and many values that live at once.
fn hoard(dir: &Path) {
    copy(
        dir,
        "    unsigned h[24];\n    \
         for (int k = 0; k < 24; ++k) h[k] = (i + k) * 2654435761u + k;\n    \
         for (int r = 0; r < n; ++r)\n        \
         for (int k = 0; k < 24; ++k) h[k] = h[(k + 7) % 24] * 1664525u + (h[k] >> 7);\n    \
         unsigned sum = 0;\n    for (int k = 0; k < 24; ++k) sum ^= h[k];\n    \
         if (i < n) y[i] = sum == 1u && n < 0 ? 0.0f : x[i];\n",
    );
}

pub const HONEST_CHANGES: &[Change] = &[
    Change {
        name: "comments",
        baselines: true,
        change: |dir| edit(&dir.join("copy.cu"), "// y = x\n", "// y is x.\n//\n"),
        ..HONEST
    },
    Change {
        name: "a kernel with fewer registers and accesses",
        baselines: true,
        before: |dir| {
            scatter(dir);
            update_baselines(dir);
        },
        change: |dir| {
            let source = fs::read_to_string(crate::common::root().join(COPY)).unwrap();
            fs::write(dir.join("copy.cu"), source).unwrap();
        },
        ..HONEST
    },
    Change {
        name: "a shape added",
        baselines: true,
        change: |dir| {
            gates(
                dir,
                "small: {N: 1000}\n    seeds: 2",
                "small: {N: 1000}\n      more: {N: 2000}\n    seeds: 2",
            )
        },
        ..HONEST
    },
];

const COPY: &str = "tests/fixtures/changes/copy.cu";

pub const DISHONEST_CHANGES: &[Change] = &[
    Change {
        name: "worse counters beside committed baselines",
        baselines: true,
        change: scatter,
        broken: &["counters-rose"],
        ..DISHONEST
    },
    Change {
        name: "more registers beside committed baselines",
        baselines: true,
        change: hoard,
        broken: &["beyond-change"],
        ..DISHONEST
    },
    Change {
        name: "a wrong kernel",
        change: |dir| copy(dir, "    if (i < n) y[i] = x[i] + 1;\n"),
        broken: &["beyond-limit"],
        ..DISHONEST
    },
];
