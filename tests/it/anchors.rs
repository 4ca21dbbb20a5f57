//! Anchors through the real binary: what an older revision agreed on, read from git.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, edit, git, project, run, stderr, stdout};
use std::path::Path;

fn commit(dir: &Path) {
    git(dir, &["add", "--all", "gates.yaml", "baselines"]);
    git(dir, &["commit", "--quiet", "-m", "agreed"]);
}

/// `copy` has baselines at the tag v1.0, made as if it had needed `registers` then; the last ones are true.
fn since(registers: &str) -> tempfile::TempDir {
    let project = project();
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    edit(
        &dir.join("gates.yaml"),
        "registers: 32\n      shared",
        "registers: [\"<= 32\", \"+0%\", \"+5% of v1.0\"]\n      shared",
    );
    let gates = std::fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let without = gates.replace(", \"+5% of v1.0\"", "");
    std::fs::write(dir.join("gates.yaml"), without).unwrap();
    run(dir, &["run", "--provision", "copy"], 0);
    run(dir, &["baseline", "update"], 0);
    let folder = dir.join("baselines/copy/default");
    let file = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.display().to_string().contains("/resources-"))
        .unwrap();
    let now = std::fs::read_to_string(&file).unwrap();
    let then = now.replace("\"value\": 10.0", &format!("\"value\": {registers}"));
    std::fs::write(&file, then).unwrap();
    commit(dir);
    git(dir, &["tag", "v1.0"]);
    std::fs::write(&file, now).unwrap();
    std::fs::write(dir.join("gates.yaml"), gates).unwrap();
    git(
        dir,
        &["commit", "--quiet", "--allow-empty", "-am", "agreed again"],
    );
    project
}

#[test]
fn small_steps_that_add_up_fail_against_the_tag() {
    let project = since("9.0");
    let dir = project.path();
    let said = stdout(&run(dir, &["run", "-v", "copy"], 1));
    for line in [
        "✗ copy/default [sm_90]  registers 11.1 % more ",
        "\n    registers 9 -> 10, +11.1 %, limit +5 % of v1.0 (",
        "\ndrift    copy/default [sm_90] registers since v1.0 (",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(!said.contains("registers +0%"), "{said}");
    // The record holds what was agreed then: it is judged again anywhere.
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::copy(dir.join(RECORD), elsewhere.path().join("r.json")).unwrap();
    let again = stdout(&run(elsewhere.path(), &["judge", "-v", "r.json"], 1));
    assert!(again.contains("+11.1 %, limit +5 % of v1.0 ("), "{again}");

    run(since("10.0").path(), &["run", "copy"], 0);
}

#[test]
fn an_anchor_that_is_not_there_is_a_mistake() {
    let project = since("10.0");
    let dir = project.path();
    git(dir, &["tag", "--delete", "v1.0"]);
    let output = run(dir, &["run", "copy"], 2);
    let said = stderr(&output);
    assert!(
        said.starts_with("error: gates.yaml:21: the anchor v1.0: there is no such revision in this clone\n  help: a shallow clone lacks it"),
        "{said}"
    );
    // One from before there were baselines is named, and decides nothing.
    git(dir, &["checkout", "--quiet", "--orphan", "empty"]);
    git(dir, &["commit", "--quiet", "-m", "all"]);
    git(dir, &["rm", "-r", "--quiet", "--cached", "baselines"]);
    git(dir, &["commit", "--quiet", "-m", "none"]);
    git(dir, &["tag", "v1.0"]);
    let said = stdout(&run(dir, &["run", "copy"], 0));
    assert!(
        said.contains("has no baseline for it: 1 gate skipped"),
        "{said}"
    );
}
