//! Changes of a repository whose committed baselines are those of other sources. The other changes are in
//! `tests/cases/changes`.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{broken_codes, commit_all, copy_of, edit, git, run};
use std::fs;
use std::path::Path;

/// The fixture under git, with the baselines of its first run.
fn repository() -> tempfile::TempDir {
    let repository = copy_of("tests/fixtures/changes");
    let dir = repository.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    run(dir, &["run", "--provision", "--device", "sim"], 0);
    run(dir, &["baseline", "update"], 0);
    commit_all(dir);
    repository
}

fn hold(dir: &Path, code: i32, broken: &[&str]) {
    run(dir, &["run", "--device", "sim", "--base", "HEAD~1"], code);
    assert_eq!(broken_codes(dir, None), broken);
}

/// Honest: the base does not compile, and its baselines tell what was before.
#[test]
fn a_mended_kernel_with_committed_baselines_passes() {
    let repository = repository();
    let dir = repository.path();
    let source = dir.join("copy.cu");
    edit(&source, "int n)", "int n, broken)");
    commit_all(dir);
    edit(&source, "int n, broken)", "int n)");
    commit_all(dir);
    hold(dir, 0, &[]);
}

/// A kernel that is made slower takes a name that has worse baselines, which nobody measured for it.
#[test]
fn a_new_name_that_has_looser_baselines_fails() {
    let repository = repository();
    let dir = repository.path();
    let rename = || edit(&dir.join("gates.yaml"), "  copy:\n", "  mirror:\n");
    // Right, and no two lanes of a warp in one sector.
    let scatter = || {
        edit(
            &dir.join("copy.cu"),
            "    if (i < n) y[i] = x[i];\n",
            "    const int t = threadIdx.x;\n    const int j = i - t + t % 32 * 8 + t / 32;\n    if (j < n) y[j] = x[j];\n",
        );
    };
    rename();
    scatter();
    run(dir, &["run", "--device", "sim"], 0);
    run(dir, &["baseline", "update", "--allow-worse"], 0);
    git(dir, &["checkout", "--quiet", "gates.yaml", "copy.cu"]);
    commit_all(dir);
    scatter();
    rename();
    fs::remove_dir_all(dir.join("baselines/copy")).unwrap();
    commit_all(dir);
    hold(dir, 1, &["loosened"]);
}
