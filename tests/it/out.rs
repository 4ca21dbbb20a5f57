//! The files in `--out` when a command ends early: the results of an earlier run after a mistake in what was asked for, and
//! none after a run that began.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::common::{binary, edit, fresh_cache, git, project, run};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const OUT: &str = "gatekeeper-out";
const RESULTS: [&str; 5] = [
    "junit.xml",
    "record.json",
    "report.html",
    "report.json",
    "report.md",
];

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// Runs what has a mistake in it: the exit code is this, and what is in `out` stays.
fn keeps(dir: &Path, out: &str, args: &[&str], code: i32) {
    let before = files(&dir.join(out));
    assert!(before.keys().eq(RESULTS), "{:?}", before.keys());
    run(dir, args, code);
    assert!(files(&dir.join(out)) == before, "{args:?}");
}

/// The project, committed, after a run that passed.
fn committed() -> tempfile::TempDir {
    let project = project();
    let dir = project.path();
    fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "--quiet"]);
    commit(dir);
    run(dir, &["run", "--provision", "--device", "sim", "copy"], 0);
    project
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "change"]);
}

#[test]
fn a_mistake_in_what_a_run_is_asked_for_leaves_the_earlier_results() {
    let project = committed();
    let dir = project.path();
    for (named, code) in [
        (&["no_such_kernel"][..], 2),
        (&["--base", "no-such/branch"], 2),
        (&["--changed", "no-such/branch"], 2),
        (&["--changed", "HEAD~9", "--base", "HEAD"], 2),
        (&["--toolchain", "13.0,ptxas=99.1"], 4),
        (&["--base-toolchain", "99.1"], 4),
    ] {
        keeps(
            dir,
            OUT,
            &[&["run", "--device", "sim"], named].concat(),
            code,
        );
    }
    let gates = dir.join("gates.yaml");
    edit(&gates, "version: 1", "version: 7");
    keeps(dir, OUT, &["run"], 2);
    // The base has the mistake, and head mends it.
    commit(dir);
    edit(&gates, "version: 7", "version: 1");
    keeps(dir, OUT, &["run", "--base", "HEAD"], 2);
    keeps(dir, OUT, &["run", "--changed", "HEAD"], 2);
    // Against a base that can be read, results take their place.
    let before = files(&dir.join(OUT));
    run(
        dir,
        &["run", "--device", "sim", "--base", "HEAD~1", "copy"],
        0,
    );
    assert!(files(&dir.join(OUT)) != before);
}

#[test]
fn a_run_that_was_killed_in_the_build_leaves_no_results() {
    let project = committed();
    let dir = project.path();
    for base in [&[][..], &["--base", "HEAD"]] {
        let cache = fresh_cache("");
        run(dir, &["run", "--device", "sim", "copy"], 0);
        fs::write(dir.join(OUT).join("mine.txt"), "kept").unwrap();
        let mut child = Command::new(binary())
            .current_dir(dir)
            .args([&["run", "--device", "sim", "copy"], base].concat())
            .env("GATEKEEPER_CACHE", cache.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The compiler works in a directory of its own.
        let scratch = cache.path().join("scratch");
        let is_building = || fs::read_dir(&scratch).is_ok_and(|mut dir| dir.next().is_some());
        let began = Instant::now();
        while !is_building() {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing began");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(files(&dir.join(OUT)).keys().eq(["mine.txt"]), "{base:?}");
    }
}

/// A build of the base that reads files of head ends the run: what it would compare is not apart.
#[test]
fn a_run_that_fails_in_the_build_leaves_no_results() {
    let project = committed();
    let dir = project.path();
    let absolute = dir.canonicalize().unwrap().join("one.h");
    fs::write(&absolute, "#define ONE 1\n").unwrap();
    let source = fs::read_to_string(dir.join("copy.cu")).unwrap();
    let include = format!("#include \"{}\"\n{source}", absolute.display());
    fs::write(dir.join("copy.cu"), include).unwrap();
    commit(dir);
    run(
        dir,
        &["run", "--device", "sim", "--base", "HEAD", "copy"],
        2,
    );
    assert!(files(&dir.join(OUT)).is_empty());
}

#[test]
fn a_mistake_in_what_is_compared_leaves_the_earlier_results() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(
        dir.join("k.cu"),
        "extern \"C\" __global__ void k(int *p) { *p += 1; }\n",
    )
    .unwrap();
    nvcc(dir, &["-cubin", "-arch=sm_90", "k.cu", "-o", "k.cubin"]);
    let named = |head, base| ["binary", head, "--base", base, "--out", "out"];
    run(dir, &named("k.cubin", "k.cubin"), 0);
    for (head, base, code) in [
        ("k.cubin", "missing.cubin", 4),
        ("missing.cubin", "k.cubin", 4),
        ("k.cubin", "k.cu", 2),
    ] {
        keeps(dir, "out", &named(head, base), code);
    }
    let with = |option, value| [&named("k.cubin", "k.cubin")[..], &[option, value]].concat();
    keeps(dir, "out", &with("--toolchain", "99.1"), 4);
    keeps(dir, "out", &with("--arch", "sm_90"), 2);
    run(dir, &["merge", "--out", "merged", "out/record.json"], 2);
    assert!(!dir.join("merged").exists());
}
