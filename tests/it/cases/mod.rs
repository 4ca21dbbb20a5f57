//! Cases as files, under `tests/cases`. A new case is a new file, and no Rust.
//!
//! - A **directory** with a file `expect` is a base and its changes: `base/` is committed, `head/` is put over it or a
//!   patch applied, and commands run with exact exit codes and reason codes ([`change`] has the format).
//! - A **`.cu` or `.ptx` file** is simulated, and says on its own lines what must be found there ([`annotated`]).
//!
//! `GATEKEEPER_CASES=reuse cargo test --test it cases::` runs those alone whose path has `reuse` in it.
#![allow(clippy::unwrap_used, reason = "tests")]

mod annotated;
mod change;

use crate::common;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn changes_end_as_their_files_expect() {
    build::toolchain::testing::toolchain();
    change::hold(&change::find(), false);
}

#[test]
fn sources_have_the_findings_of_their_annotations() {
    build::toolchain::testing::toolchain();
    common::try_each(annotated::find().iter(), |file| annotated::hold(file));
}

#[test]
#[ignore = "needs a GPU"]
fn changes_end_as_their_files_expect_on_a_gpu() {
    crate::captures::place_library();
    change::hold(&change::find(), true);
}

/// Returns the paths under `tests/cases` that are cases, sorted.
fn find(is_case: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![directory()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if is_case(&path) {
                found.push(path.clone());
            }
            // The sources of a change are not cases of their own.
            if path.is_dir() && !path.join("expect").exists() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Returns true if `GATEKEEPER_CASES` is a part of the name, or is not set.
fn is_wanted(name: &str) -> bool {
    name.contains(&std::env::var("GATEKEEPER_CASES").unwrap_or_default())
}

fn directory() -> PathBuf {
    common::root().join("tests/cases")
}

/// Returns the path of a case below `tests/cases`.
fn name_of(path: &Path) -> String {
    let below = path.strip_prefix(directory()).unwrap();
    below.display().to_string()
}
