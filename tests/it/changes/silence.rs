//! Facts that a run knew and did not say: counters of which one side is in doubt, resources that no gate limits, and launches
//! that a declared architecture cannot do.

use super::{Change, commit_all, dishonest, honest};
use crate::common::{self, edit, run, stdout};
use std::fs;
use std::path::Path;

/// Puts the kernels of `tests/fixtures/silence` in place of the fixture's own.
fn kernels(dir: &Path) {
    common::copy(&common::root().join("tests/fixtures/silence"), dir);
    // The other fixture's own, in place of the toolkit's.
    let _ = fs::remove_file(dir.join("cuda_runtime.h"));
}

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

/// Lanes that leave a loop in different turns, which puts the base's sectors in doubt.
fn chunked(dir: &Path) {
    gates(dir, "ORDER: 0", "ORDER: 2");
}

fn more_shared(dir: &Path) {
    gates(dir, "SHARED: 32", "SHARED: 8192");
}

fn more_local(dir: &Path) {
    gates(dir, "LOCAL: 0", "LOCAL: 64");
}

/// Limits that leave room, in one line of all gates of `negate`.
fn limits(dir: &Path) {
    let file = dir.join("gates.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let (before, negate) = text.split_once("  negate:").unwrap();
    let limited = "gates: {max_err: 0, stack: 256, occupancy: 75%}";
    let negate = negate.replacen("gates: {max_err: 0}", limited, 1);
    fs::write(file, format!("{before}  negate:{negate}")).unwrap();
}

const fn for_row_max(row: Change) -> Change {
    Change {
        before: kernels,
        flags: &["row_max"],
        ..row
    }
}

const fn for_negate(row: Change) -> Change {
    Change {
        before: kernels,
        flags: &["negate"],
        ..row
    }
}

pub const HONEST_CHANGES: &[Change] = &[
    for_row_max(honest("the same sectors in doubt on both sides", |dir| {
        gates(dir, "ORDER: 0", "ORDER: 1")
    })),
    Change {
        before: |dir| {
            kernels(dir);
            chunked(dir);
        },
        ..for_row_max(honest("fewer sectors, which come into doubt", |dir| {
            gates(dir, "ORDER: 2", "ORDER: 0")
        }))
    },
    Change {
        flags: &["row_max", "--allow-loosened"],
        ..for_row_max(honest("more sectors that a maintainer allowed", chunked))
    },
    Change {
        before: kernels,
        flags: &["running"],
        says: &[
            "worse, and no gate asks",
            "running/default@some shared_load_requests 12 16",
        ],
        ..honest(
            "a race mended, with more loads that come into doubt",
            |dir| gates(dir, "FIXED: 0", "FIXED: 1"),
        )
    },
    Change {
        says: &[
            "worse, and no gate asks",
            "negate/default [sm_90] registers 12 31",
        ],
        ..for_negate(honest("more registers that no gate limits", |dir| {
            gates(dir, "LIVE: 1", "LIVE: 24")
        }))
    },
    Change {
        before: |dir| {
            kernels(dir);
            limits(dir);
        },
        ..for_negate(honest("more memory within limits", |dir| {
            more_shared(dir);
            more_local(dir);
        }))
    },
    Change {
        before: kernels,
        flags: &["reverse"],
        ..honest("an architecture that can do the launch", |dir| {
            gates(dir, "[sm_90]", "[sm_80, sm_90]")
        })
    },
];

pub const DISHONEST_CHANGES: &[Change] = &[
    Change {
        code: 3,
        says: &[
            "global_load_sectors 875 -> 3500",
            "leave the loop at row_max.cu:10",
            "2 counters withheld",
        ],
        ..for_row_max(dishonest(
            "four times as many sectors as in a loop in doubt",
            &["counters-in-doubt"],
            chunked,
        ))
    },
    Change {
        code: 3,
        before: |dir| {
            kernels(dir);
            chunked(dir);
        },
        ..for_row_max(dishonest(
            "more sectors that come into doubt",
            &["counters-in-doubt"],
            |dir| gates(dir, "ORDER: 2", "ORDER: 3"),
        ))
    },
    Change {
        code: 3,
        ..for_row_max(dishonest(
            "more sectors in doubt on both sides",
            &["counters-in-doubt"],
            |dir| gates(dir, "ORDER: 0", "ORDER: 3"),
        ))
    },
    Change {
        says: &["occupancy 100 % -> 75 %", "`gates: {occupancy: 75%}`"],
        ..for_negate(dishonest(
            "a lower occupancy that no gate limits",
            &["ungated-worse"],
            more_shared,
        ))
    },
    Change {
        says: &["stack 0 B -> 256 B"],
        ..for_negate(dishonest(
            "local memory that no gate limits",
            &["ungated-worse"],
            more_local,
        ))
    },
    Change {
        before: kernels,
        flags: &["reverse"],
        says: &[
            "reverse/default@wide cannot be launched on this architecture",
            "104448 B of shared memory, and can have 65536 at most",
            "104448 B of shared memory, and can have 101376 at most",
        ],
        ..dishonest(
            "architectures that cannot do the launch",
            &["launch-impossible"],
            |dir| gates(dir, "[sm_90]", "[sm_75, sm_89, sm_90]"),
        )
    },
];

/// Without a base, the committed baseline tells what was before.
#[test]
fn resources_are_held_to_a_committed_baseline_too() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    kernels(dir);
    common::git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    let negate = ["run", "--provision", "--device", "sim", "negate"];
    run(dir, &negate, 0);
    run(dir, &["baseline", "update"], 0);
    commit_all(dir);
    run(dir, &negate, 0);
    more_local(dir);
    let said = stdout(&run(dir, &negate, 1));
    assert!(said.contains("[ungated-worse]"), "{said}");
    assert!(said.contains("worse than the baseline"), "{said}");
    // An intended regression is accepted as the baseline.
    run(dir, &["baseline", "update", "--allow-worse"], 0);
    run(dir, &negate, 0);
}
