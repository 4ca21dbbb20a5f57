//! New names with baselines that are moved, edited or in the way; the other attempts are in `tests/cases/renames`.

use crate::common::{self, commit_all, edit, git, stderr, stdout};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The fixture under git, committed with the baselines of its first run.
fn repository() -> TempDir {
    let repository = common::copy_of("tests/fixtures/changes");
    let dir = repository.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    common::run(dir, &["run", "--provision", "--device", "sim"], 0);
    common::run(dir, &["baseline", "update"], 0);
    commit_all(dir);
    repository
}

/// A run against HEAD. Its exit code is `code`, and the terminal says each of `says`, line breaks aside.
fn hold(dir: &Path, flags: &[&str], code: i32, says: &[&str]) {
    let args = ["run", "--provision", "--device", "sim", "--base", "HEAD"];
    let output = common::run(dir, &[&args[..], flags].concat(), code);
    let said = format!("{} {}", stdout(&output), stderr(&output));
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in says {
        assert!(said.contains(says), "{says:?} is not in\n{said}");
    }
}

fn gates(dir: &Path, old: &str, new: &str) {
    edit(&dir.join("gates.yaml"), old, new);
}

/// gates.yaml with these kernels, and nothing else.
fn kernels(dir: &Path, kernels: &[&str]) {
    let text = format!(
        "version: 1\narchitectures: [sm_90]\nkernels:\n{}",
        kernels.concat()
    );
    fs::write(dir.join("gates.yaml"), text).unwrap();
}

/// The section of one kernel in gates.yaml.
fn section(dir: &Path, name: &str) -> String {
    let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let (_, rest) = text.split_once(&format!("  {name}:\n")).unwrap();
    let lines: Vec<_> = rest
        .lines()
        .take_while(|line| line.starts_with("    "))
        .map(|line| format!("{line}\n"))
        .collect();
    format!("  {name}:\n{}", lines.concat())
}

/// Baselines under the new name with figures that are worse than they were, and files that git moved, which still
/// name the old kernel.
#[test]
fn baselines_moved_by_hand_are_compared_with_the_old_ones() {
    let repository = repository();
    let dir = repository.path();
    gates(dir, "  copy:\n", "  mirror:\n");
    git(dir, &["mv", "baselines/copy", "baselines/mirror"]);
    let says = "by its content, it should be at baselines/copy/default/";
    hold(dir, &[], 1, &[says, "gatekeeper baseline rename"]);
    git(dir, &["mv", "baselines/mirror", "baselines/copy"]);
    common::run(dir, &["baseline", "rename", "copy", "mirror"], 0);
    hold(dir, &[], 0, &[]);
    for entry in fs::read_dir(dir.join("baselines/mirror/default")).unwrap() {
        let file = entry.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("\"value\": 125.0", "\"value\": 500.0")).unwrap();
    }
    hold(
        dir,
        &[],
        1,
        &["mirror/default@small: baseline of counters: head's baseline is worse"],
    );
}

/// A rename over figures that are there would forget them.
#[test]
fn a_name_that_has_baselines_is_not_given_to_others() {
    let repository = repository();
    let dir = repository.path();
    for (from, to, says) in [
        ("copy", "twice", "is there already"),
        ("none", "some", "no baseline of none has this name"),
        ("copy", "copy/fast", "both names must have the same parts"),
        ("copy/", "copy/fast", "`copy/` names no baselines"),
        (
            "copy@large",
            "copy@small",
            "no baseline of copy has this name",
        ),
    ] {
        let output = common::run(dir, &["baseline", "rename", from, to], 2);
        assert!(
            stderr(&output).contains(says),
            "{from} {to}: {}",
            stderr(&output)
        );
    }
    let mut status = std::process::Command::new("git");
    let status = status
        .current_dir(dir)
        .args(["status", "--porcelain"])
        .output()
        .unwrap();
    assert_eq!(stdout(&status), "", "nothing was written");
}

/// Half of the file in a folder of its own, with its sources: green for both, and a link in its place is no file.
#[test]
fn a_part_of_the_gates_moves_to_a_folder_with_its_sources() {
    let repository = repository();
    let dir = repository.path();
    let (copy, twice) = (section(dir, "copy"), section(dir, "twice"));
    fs::create_dir_all(dir.join("two/baselines")).unwrap();
    for name in ["twice.cu", "ref.cpp", "ref.h", "baselines/twice"] {
        git(dir, &["mv", name, &format!("two/{name}")]);
    }
    kernels(&dir.join("two"), &[&twice]);
    kernels(dir, &[&copy]);
    let moved =
        "not judged by this run, as they moved to two/gates.yaml: 1 case (twice/default@small)";
    hold(dir, &[], 0, &[moved]);
    let there = ["--config", "two/gates.yaml"];
    hold(
        dir,
        &there,
        0,
        &["one check covers both: 1 case (twice/default@small)"],
    );
    edit(&dir.join("two/ref.h"), "2", "3");
    edit(&dir.join("two/twice.cu"), "y[i] = 2 *", "y[i] = 3 *");
    hold(
        dir,
        &there,
        1,
        &["reference: on the same inputs it computes something else"],
    );
    fs::rename(dir.join("two/gates.yaml"), dir.join("two/real.txt")).unwrap();
    std::os::unix::fs::symlink("real.txt", dir.join("two/gates.yaml")).unwrap();
    fs::write(dir.join(".gitignore"), "gatekeeper-out\nreal.txt\n").unwrap();
    hold(dir, &[], 1, &["removed: head has no twice/default@small"]);
}

/// The same on a GPU, by time: green under a new name alone, and red where the code is slower too.
#[test]
#[ignore = "needs a GPU"]
fn a_slower_kernel_is_slower_under_a_new_name() {
    let project = common::project();
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    commit_all(dir);
    gates(dir, "  dial:\n", "  knob:\n");
    let against_base = |code| {
        let args = [
            "run",
            "--provision",
            "--require-gpu",
            "--base",
            "HEAD",
            "knob",
        ];
        let said = stdout(&common::run(dir, &args, code));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(against_base(0).contains("renamed: kernel dial -> knob"));
    edit(
        &dir.join("dial.cu"),
        "#define DIAL 1000",
        "#define DIAL 1100",
    );
    assert!(against_base(1).contains("✗ knob/default@filled "));
}
