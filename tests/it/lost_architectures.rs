//! Architectures that a compiled file is built for: red where a library lost one, alone and against a committed baseline; and
//! which machine code counts for which architecture.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::{nvcc, zip};
use crate::common::{copy_of_first, git, run, stderr, stdout};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

const SOURCE: &str = "extern \"C\" __global__ void one(float *x) { x[threadIdx.x] *= 2; }\n\
    extern \"C\" __global__ void two(float *x) { x[threadIdx.x] += 3; }\n";

/// `80+89.lib` has both kernels for sm_80 and sm_89, and `ptx.lib` has them as PTX alone.
fn built() -> tempfile::TempDir {
    static FIRST: OnceLock<tempfile::TempDir> = OnceLock::new();
    copy_of_first(&FIRST, || {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("k.cu"), SOURCE).unwrap();
        let of = ["80", "80+89", "80+89+100", "90", "90a", "80+100", "80+100a"];
        for architectures in of {
            let code: Vec<String> = architectures
                .split('+')
                .flat_map(|number| {
                    let code = format!("arch=compute_{number},code=sm_{number}");
                    ["-gencode".to_owned(), code]
                })
                .collect();
            let to = format!("{architectures}.lib");
            let mut args = vec!["-fatbin", "k.cu", "-o", &to];
            args.extend(code.iter().map(String::as_str));
            nvcc(dir.path(), &args);
        }
        let ptx = ["-gencode", "arch=compute_80,code=compute_80"];
        nvcc(
            dir.path(),
            &[&["-fatbin", "k.cu", "-o", "ptx.lib"], &ptx[..]].concat(),
        );
        dir
    })
}

/// Puts a library at a path of a directory.
fn put(dir: &Path, library: &str, path: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::copy(dir.join(format!("{library}.lib")), path).unwrap();
}

/// All that is printed, with single blanks.
fn said(dir: &Path, args: &[&str], code: i32) -> String {
    let output = run(dir, args, code);
    let said = stdout(&output) + &stderr(&output);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn says(dir: &Path, args: &[&str], code: i32, words: &[&str]) {
    let said = said(dir, args, code);
    for words in words {
        assert!(said.contains(words), "{words:?} is not in\n{said}");
    }
}

/// As in `cuda_bench` 0.2.1 and 0.1.0, whose two libraries are for CUDA 12 and 13.
#[test]
fn a_library_that_lost_an_architecture_is_red_though_another_has_it() {
    let project = built();
    let dir = project.path();
    for wheel in ["old", "new"] {
        put(dir, "80+89", &format!("{wheel}/cu12/libk.so"));
        put(dir, "80+89", &format!("{wheel}/cu13/libk.so"));
    }
    let compare = ["binary", "new", "--base", "old"];
    let same = said(dir, &compare, 0);
    assert!(!same.contains("lost"), "{same}");
    put(dir, "80", "new/cu13/libk.so");
    let lost = [
        "✗ all-kernels/cu13/libk.so [sm_89] built",
        "the file has no machine code for sm_89, and the older file has 2 kernels for it; it has sm_80.",
        "pass `--allow-loosened` with `--base`",
        "FAIL: 1 problem (1 gate)",
    ];
    says(dir, &compare, 1, &lost);
    assert!(!said(dir, &compare, 1).contains("binary --config"));
    // One that is gained is no loss.
    let back = ["binary", "old", "--base", "new"];
    run(dir, &back, 0);
    put(dir, "80+89+100", "new/cu13/libk.so");
    run(dir, &compare, 0);
    // Where the loss is meant, it is listed.
    put(dir, "80", "new/cu13/libk.so");
    let allowed = [&compare[..], &["--allow-loosened"]].concat();
    says(
        dir,
        &allowed,
        0,
        &["cu13/libk.so lost sm_89, with 2 kernels"],
    );
    // CI reads the record alone.
    run(dir, &[&compare[..], &["--out", "out"]].concat(), 1);
    says(dir, &["judge", "out/record.json"], 1, &lost);
}

#[test]
fn a_file_that_lost_an_architecture_is_red() {
    let project = built();
    let dir = project.path();
    let compare = |head: &str, base: &str, code: i32, words: &[&str]| {
        let [head, base] = [head, base].map(|name| format!("{name}.lib"));
        says(dir, &["binary", &head, "--base", &base], code, words);
    };
    compare("80", "80+89", 1, &["✗ all-kernels/- [sm_89] built"]);
    compare("80+89", "80+89", 0, &[]);
    compare("80+89+100", "80+89", 0, &["sm_100 is new, with 2 kernels"]);
    // PTX that a driver could compile is no machine code.
    compare(
        "ptx",
        "80",
        1,
        &["it has PTX for compute_80. Build it for sm_80."],
    );
    // sm_90a runs on every device of sm_90. sm_100a does not run on 10.3, and sm_100 does.
    compare("90a", "90", 3, &["sm_90a is new"]);
    compare(
        "80+100a",
        "80+100",
        1,
        &["✗ all-kernels/- [sm_100] built", "sm_80 and sm_100a"],
    );
    compare("80+100", "80+100a", 1, &["✗ all-kernels/- [sm_100a] built"]);
}

/// auditwheel puts libraries where their names have a version and a hash.
#[test]
fn a_library_of_the_next_wheel_is_found_under_its_next_name() {
    let project = built();
    let dir = project.path();
    let wheel = |name: &str, version: &str, hash: &str, library: &str| {
        let members = [
            format!("{library}.lib=k-{version}.libs/libk-{hash}.so.{version}"),
            "80+89.lib=pkg/other.so".to_owned(),
        ];
        zip(dir, name, &members.each_ref().map(String::as_str));
    };
    wheel("old.whl", "1.0", "0a1b2c3d", "80+89");
    wheel("good.whl", "2.0", "9f8e7d6c", "80+89");
    wheel("bad.whl", "2.0", "9f8e7d6c", "80");
    run(dir, &["binary", "good.whl", "--base", "old.whl"], 0);
    let path = "✗ all-kernels/k-2.0.libs/libk-9f8e7d6c.so.2.0 [sm_89] built";
    says(dir, &["binary", "bad.whl", "--base", "old.whl"], 1, &[path]);
}

fn gates(file: &str, architectures: &str, registers: &str) -> String {
    format!(
        "version: 1\nbinaries:\n  k:\n    file: {file}\n    architectures: [{architectures}]\n    \
         count: 2\n    gates:\n      - registers: {registers}\n"
    )
}

#[test]
fn an_architecture_is_answered_by_code_that_runs_on_all_its_devices() {
    let project = built();
    let dir = project.path();
    let judge = |file: &str, architectures: &str, code: i32, words: &[&str]| {
        let text = gates(file, architectures, "200");
        fs::write(dir.join("gates.yaml"), text).unwrap();
        says(dir, &["binary"], code, words);
    };
    judge("90a.lib", "sm_90", 0, &["PASS: 4 passed"]);
    // It is judged by the limits of the architecture that it answers.
    let text = gates("90a.lib", "sm_90", "{sm_90: 4}");
    fs::write(dir.join("gates.yaml"), text).unwrap();
    says(dir, &["binary"], 1, &["one/k [sm_90a]", "limit <= 4"]);
    judge("90a.lib", "sm_90a", 0, &[]);
    let has = "the file has no machine code for sm_100; it has sm_80 and sm_100a";
    judge(
        "80+100a.lib",
        "sm_80, sm_100",
        1,
        &["✗ all-kernels/k [sm_100]", has],
    );
    judge("80+100.lib", "sm_80, sm_100", 0, &[]);
    let has = "the file has no machine code for sm_90a; it has sm_90";
    judge("90.lib", "sm_90a", 1, &[has]);
    let ptx = "the file has no machine code for sm_80; it has PTX for compute_80";
    judge("ptx.lib", "sm_80", 1, &[ptx]);
}

#[test]
fn a_baseline_holds_each_library_to_its_architectures() {
    let project = built();
    let dir = project.path();
    put(dir, "80+89", "lib/cu12/libk.so");
    put(dir, "80+89", "lib/cu13/libk.so");
    let text = gates("lib", "sm_80, sm_89", "200").replace("count: 2", "count: 4");
    fs::write(dir.join("gates.yaml"), text).unwrap();
    run(dir, &["binary", "--update"], 0);
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\nlib\n*.lib\n").unwrap();
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "first"]);
    let change = ["run", "--base", "HEAD"];
    run(dir, &["binary"], 0);
    run(dir, &change, 0);
    // More than was asked for is no loss.
    put(dir, "80+89+100", "lib/cu13/libk.so");
    run(dir, &["binary"], 0);
    put(dir, "80", "lib/cu13/libk.so");
    let lost = [
        "✗ all-kernels/k:cu13/libk.so [sm_89]",
        "the older file has 2 kernels for it; it has sm_80.",
        "`gatekeeper binary --update --allow-worse`",
    ];
    says(dir, &["binary"], 1, &lost);
    says(dir, &change, 1, &lost);
    // The baseline keeps it without consent.
    let baseline = dir.join("baselines/binaries/k.jsonl");
    let first = fs::read_to_string(&baseline).unwrap();
    let worse = "worse: all-kernels/k:cu13/libk.so [sm_89] count: 2 -> 0";
    says(dir, &["binary", "--update"], 1, &[worse]);
    assert_eq!(fs::read_to_string(&baseline).unwrap(), first);
    run(dir, &["binary", "--update", "--allow-worse"], 0);
    run(dir, &["binary"], 0);
    says(
        dir,
        &change,
        1,
        &["LOOSENED", "all-kernels/k:cu13/libk.so [sm_89]"],
    );
    run(dir, &[&change[..], &["--allow-loosened"]].concat(), 0);
}
