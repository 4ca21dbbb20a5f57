//! `binaries:` of gates.yaml: compiled files that are held to limits, with their committed baselines, alone and as a change of a
//! repository.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::binaries::nvcc;
use crate::common::{edit, git, run, stderr, stdout};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// `HEAD` trades the stack for registers, `MORE` adds a kernel, `LONG` has more code.
const SOURCE: &str = r#"
#ifdef HEAD
#define BOUNDS __launch_bounds__(256)
#else
#define BOUNDS __launch_bounds__(256, 8)
#endif
extern "C" __global__ void BOUNDS busy_gemm(const float *x, float *y) {
    float a[64];
#pragma unroll
    for (int i = 0; i < 64; i++) a[i] = x[threadIdx.x + 256 * i];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 64; i++) sum = sum * a[63 - i] + a[i];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void same(float *y) {
    y[threadIdx.x] *= 2;
#ifdef LONG
#pragma unroll
    for (int i = 1; i < 40; i++) y[threadIdx.x + i] *= 3;
#endif
}
#ifdef MORE
extern "C" __global__ void more(float *y) { y[threadIdx.x] += 3; }
#endif
"#;

const GATES: &str = r#"version: 1
binaries:
  attention:
    file: lib.fatbin
    architectures: [sm_90, sm_100]
    count: "+0%"
    gates:
      - registers: "+0%"
        stack: "+0%"
        local_accesses: "+0%"
        code: "+5%"
      - kernels: ["*gemm*"]
        registers: "<= 128"
"#;

const BASELINE: &str = "baselines/binaries/attention.jsonl";
const BOTH: &[&str] = &[
    "-gencode",
    "arch=compute_90,code=sm_90",
    "-gencode",
    "arch=compute_100,code=sm_100",
];

/// By source and flags.
type Libraries = BTreeMap<(String, Vec<&'static str>), Vec<u8>>;

/// Compiles `k.cu`. One source and the same flags make one library, which holds no path.
fn build(dir: &Path, flags: &[&'static str]) {
    static BUILT: Mutex<Libraries> = Mutex::new(BTreeMap::new());
    let source = fs::read_to_string(dir.join("k.cu")).unwrap();
    let library = dir.join("lib.fatbin");
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = built.entry((source, flags.to_vec())).or_insert_with(|| {
        let always = ["-fatbin", "k.cu", "-o", "lib.fatbin"];
        nvcc(dir, &[&always, flags].concat());
        fs::read(&library).unwrap()
    });
    fs::write(&library, bytes).unwrap();
}

/// The files of a project, with a library for two architectures.
fn project(gates: &str, flags: &[&'static str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("k.cu"), SOURCE).unwrap();
    fs::write(dir.path().join("gates.yaml"), gates).unwrap();
    build(dir.path(), &[BOTH, flags].concat());
    dir
}

/// The same with a baseline.
fn agreed(gates: &str, flags: &[&'static str]) -> tempfile::TempDir {
    let project = project(gates, flags);
    run(project.path(), &["binary", "--update"], 0);
    project
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

const JUDGE: &[&str] = &["binary"];

#[test]
fn the_first_baseline_is_named_and_written() {
    let project = project(GATES, &[]);
    let dir = project.path();
    says(dir, JUDGE, 0, &["new", "binary --update", "not judged"]);
    says(
        dir,
        &["binary", "-v"],
        0,
        &["accept with `gatekeeper binary --update`"],
    );
    says(
        dir,
        &["binary", "--update"],
        0,
        &["attention.jsonl: 4 kernels"],
    );
    let first = fs::read_to_string(dir.join(BASELINE)).unwrap();
    assert_eq!(first.lines().count(), 5, "{first}");
    let judged = said(dir, JUDGE, 0);
    assert!(judged.contains("PASS: 22 passed"), "{judged}");
    assert!(!judged.contains("not judged"), "{judged}");
    // The same file gives the same bytes.
    run(dir, &["binary", "--update"], 0);
    assert_eq!(fs::read_to_string(dir.join(BASELINE)).unwrap(), first);
}

#[test]
fn values_that_got_worse_are_red_and_need_consent() {
    let project = agreed(GATES, &[]);
    let dir = project.path();
    let first = fs::read_to_string(dir.join(BASELINE)).unwrap();
    build(dir, &[BOTH, &["-DHEAD"]].concat());
    says(
        dir,
        &["binary", "-v"],
        1,
        &[
            "busy_gemm/attention [sm_90] registers 32 71",
            "gatekeeper binary --update --allow-worse",
        ],
    );
    says(
        dir,
        &["binary", "--update"],
        1,
        &["worse: busy_gemm/attention [sm_100] registers: 32 -> 71"],
    );
    assert_eq!(fs::read_to_string(dir.join(BASELINE)).unwrap(), first);
    run(dir, &["binary", "--update", "--allow-worse"], 0);
    run(dir, JUDGE, 0);
    // The other way round it is the stack, and the instructions that access it.
    build(dir, BOTH);
    says(
        dir,
        JUDGE,
        1,
        &["stack 0 B 288 B", "local_accesses 0 152", "code 2432 B"],
    );
}

/// As against an older file: by the same code, whether or not a limit is on it.
#[test]
fn what_got_worse_is_listed_the_costliest_first() {
    let project = agreed(GATES, &["-DHEAD"]);
    let dir = project.path();
    fs::copy(dir.join("lib.fatbin"), dir.join("old.fatbin")).unwrap();
    let same = said(dir, JUDGE, 0);
    assert!(!same.contains("worse"), "{same}");
    build(dir, &[BOTH, &["-DLONG"]].concat());
    let args = ["binary", "lib.fatbin", "--base", "old.fatbin"];
    let listed = |variant: &str| {
        [
            format!(
                "busy_gemm/{variant} [sm_90]: local memory instructions 0 -> 152, stack 0 -> 288, code 2432 -> 4864 (and for sm_100)"
            ),
            format!("same/{variant} [sm_90]: code 384 -> 2176, registers 8 -> 32 (and for sm_100)"),
        ]
    };
    let assert_lists = |said: &str, variant: &str| {
        let said = said.replace("&gt;", ">");
        let places = listed(variant).map(|line| said.find(&line));
        assert!(places[0].is_some() && places[0] < places[1], "{said}");
    };
    assert_lists(&said(dir, &args, 1), "-");
    assert_lists(&said(dir, JUDGE, 1), "attention");
    assert_lists(&said(dir, &["run"], 1), "attention");
    let markdown = ["binary", "--format", "markdown"];
    assert_lists(&said(dir, &markdown, 1), "attention");
    let written = fs::read_to_string(dir.join("gatekeeper-out/report.md")).unwrap();
    assert_lists(&written, "attention");
}

#[test]
fn each_limit_is_red_by_its_own() {
    let only = |limit: &str| {
        let head = GATES.split("    count:").next().unwrap();
        format!("{head}    gates:\n      - {limit}\n")
    };
    let project = agreed(&only("code: \"+5%\""), &["-DHEAD"]);
    let dir = project.path();
    build(dir, &[BOTH, &["-DHEAD", "-DLONG"]].concat());
    says(dir, JUDGE, 1, &["same/attention [sm_90]", "code 384 2176"]);
    fs::write(dir.join("gates.yaml"), only("code: \"+1000%\"")).unwrap();
    run(dir, JUDGE, 0);
    fs::write(dir.join("gates.yaml"), only("registers: 70")).unwrap();
    says(
        dir,
        JUDGE,
        1,
        &["busy_gemm/attention [sm_100]", "registers"],
    );
    fs::write(
        dir.join("gates.yaml"),
        only("{kernels: [\"sa*\"], registers: 70}"),
    )
    .unwrap();
    run(dir, JUDGE, 0);
    fs::write(
        dir.join("gates.yaml"),
        only("registers: {sm_90: 71, default: 70}"),
    )
    .unwrap();
    says(dir, JUDGE, 1, &["busy_gemm/attention [sm_100]"]);
    assert!(!said(dir, JUDGE, 1).contains("✗ busy_gemm/attention [sm_90]"));
    // Nothing accesses local memory, so nothing is spilled; where something does, nobody knows.
    fs::write(dir.join("gates.yaml"), only("spills: 0")).unwrap();
    run(dir, JUDGE, 0);
    build(dir, BOTH);
    says(
        dir,
        JUDGE,
        3,
        &[
            "busy_gemm/attention [sm_90]",
            "152 instructions use local memory",
        ],
    );
}

/// `busy_gemm` takes 71 registers for 32, and `MORE` is a third kernel.
#[test]
fn an_amount_is_by_how_many_a_value_may_be_more_than_in_the_baseline() {
    let gates = |registers: &str| {
        let gates = GATES.replacen(
            "registers: \"+0%\"",
            &format!("registers: \"{registers}\""),
            1,
        );
        gates.replacen("count: \"+0%\"", "count: \"+1\"", 1)
    };
    let project = agreed(&gates("+38"), &[]);
    let dir = project.path();
    run(dir, JUDGE, 0);
    build(dir, &[BOTH, &["-DHEAD", "-DMORE"]].concat());
    says(
        dir,
        JUDGE,
        1,
        &[
            "busy_gemm/attention [sm_90] registers 32 71",
            "registers 32 71 121.9 % more +38",
        ],
    );
    assert!(!said(dir, JUDGE, 1).contains("✗ all-kernels"));
    fs::write(dir.join("gates.yaml"), gates("+39")).unwrap();
    run(dir, JUDGE, 0);
    run(dir, &["run"], 0);
    // An acceptance of as many more, and of one less.
    fs::write(dir.join("gates.yaml"), gates("+0")).unwrap();
    for (limit, code) in [("+39", 0), ("+38", 1)] {
        accept(dir, "*gemm*/attention", "registers", "2999-01-31");
        edit(&dir.join("baselines/accepted.yaml"), "+200%", limit);
        run(dir, JUDGE, code);
    }
}

#[test]
fn a_missing_architecture_and_more_kernels_are_red() {
    let project = agreed(GATES, &[]);
    let dir = project.path();
    build(dir, &BOTH[..2]);
    says(
        dir,
        JUDGE,
        1,
        &[
            "all-kernels/attention [sm_100]",
            "the file has no machine code for sm_100",
        ],
    );
    says(
        dir,
        &["binary", "--update"],
        2,
        &["has no machine code for sm_100"],
    );
    build(dir, &[BOTH, &["-DMORE"]].concat());
    says(dir, JUDGE, 1, &["all-kernels/attention [sm_90] count 2 3"]);
    says(
        dir,
        &["binary", "--update"],
        1,
        &["count: 2 -> 3", "attention.jsonl: 4 kernels"],
    );
    run(dir, &["binary", "--update", "--allow-worse"], 0);
    run(dir, JUDGE, 0);
    let gates = dir.join("gates.yaml");
    edit(&gates, "count: \"+0%\"", "count: 2");
    says(dir, JUDGE, 1, &["count is 3, limit <= 2"]);
}

#[test]
fn a_file_that_cannot_be_judged_is_no_pass() {
    let project = agreed(GATES, &[]);
    let dir = project.path();
    let whole = fs::read_to_string(dir.join(BASELINE)).unwrap();
    let damaged = [
        (
            whole.replacen("\"arch\"", "\"arc\"", 1),
            "attention.jsonl:2",
        ),
        (
            whole.replacen("\"registers\":32", "\"registers\":\"many\"", 1),
            "attention.jsonl:2",
        ),
        (
            whole.rsplit_once("{\"arch\"").unwrap().0.to_owned(),
            "it has 3 kernels, and its first line says 4",
        ),
        (
            whole.replacen("binary/1", "binary/2", 1),
            "attention.jsonl:1",
        ),
        (format!("<<<<<<< ours\n{whole}"), "attention.jsonl:1"),
        (String::new(), "it is empty"),
    ];
    for (text, place) in damaged {
        fs::write(dir.join(BASELINE), text).unwrap();
        says(dir, JUDGE, 2, &[place, "gatekeeper binary --update"]);
        says(dir, &["run"], 2, &[place]);
    }
    fs::write(dir.join(BASELINE), whole).unwrap();
    fs::rename(dir.join("lib.fatbin"), dir.join("lib2.fatbin")).unwrap();
    says(
        dir,
        JUDGE,
        4,
        &["attention: there is no such file", "build it first"],
    );
    says(dir, &["run"], 4, &["attention: there is no such file"]);
    edit(&dir.join("gates.yaml"), "lib.fatbin", "lib*.fatbin");
    run(dir, JUDGE, 0);
    fs::copy(dir.join("lib2.fatbin"), dir.join("lib3.fatbin")).unwrap();
    says(
        dir,
        JUDGE,
        2,
        &["several files fit: lib2.fatbin, lib3.fatbin"],
    );
    fs::remove_file(dir.join("lib3.fatbin")).unwrap();
    edit(&dir.join("gates.yaml"), "*gemm*", "*gem");
    says(dir, JUDGE, 2, &["`*gem` fits no kernel", "gates.yaml:12"]);
}

#[test]
fn mistakes_in_gates_yaml_have_their_place() {
    let project = project(GATES, &[]);
    let dir = project.path();
    let mistakes = [
        (
            "stack: \"+0%\"",
            "stack: \"+0.5\"",
            "gates.yaml:9:16",
            "`+0.5` is not a relative limit: write `+2%`, or `+2` for as many",
        ),
        (
            "stack: \"+0%\"",
            "stack: +64",
            "gates.yaml:9:16",
            "`+64` without quotes is the number 64",
        ),
        (
            "stack: \"+0%\"",
            "p50: \"+0%\"",
            "gates.yaml:9:9",
            "a compiled file does not state `p50`",
        ),
        (
            "stack: \"+0%\"",
            "count: 3",
            "gates.yaml:9:9",
            "`count` is of the whole file",
        ),
        (
            "code: \"+5%\"",
            "code: \"+5% of v1.0\"",
            "gates.yaml:11:15",
            "against its baseline alone",
        ),
        (
            "code: \"+5%\"",
            "code: \"2 * stack\"",
            "gates.yaml:11:15",
            "must be a number or a relative limit",
        ),
        (
            "file: lib.fatbin",
            "file: \"*/lib.fatbin\"",
            "gates.yaml:4:11",
            "has a glob in a directory",
        ),
        (
            "[sm_90, sm_100]",
            "[]",
            "gates.yaml:5:20",
            "no architectures",
        ),
        ("sm_100]", "sm_x]", "gates.yaml:5:28", "sm_x"),
        (
            "count:",
            "counts:",
            "gates.yaml:6:5",
            "unknown key `counts`",
        ),
    ];
    for (old, new, place, words) in mistakes {
        fs::write(dir.join("gates.yaml"), GATES.replacen(old, new, 1)).unwrap();
        says(dir, &["validate"], 2, &[place, words]);
        run(dir, JUDGE, 2);
    }
    fs::write(dir.join("gates.yaml"), "version: 1\n").unwrap();
    says(
        dir,
        &["validate"],
        2,
        &["the key `kernels` is missing", "binaries:"],
    );
}

fn accept(dir: &Path, case: &str, metric: &str, until: &str) {
    let text = format!(
        "version: 1\naccepted:\n  - {{case: \"{case}\", metric: {metric}, limit: \"+200%\", reason: r, by: Ann, until: {until}}}\n"
    );
    fs::write(dir.join("baselines/accepted.yaml"), text).unwrap();
}

#[test]
fn acceptances_hold_end_and_must_be_needed() {
    let project = agreed(GATES, &[]);
    let dir = project.path();
    let registers = |until| accept(dir, "*gemm*/attention", "registers", until);
    registers("2999-01-31");
    says(
        dir,
        JUDGE,
        1,
        &[
            "*gemm*/attention",
            "unused: every gate holds without this acceptance",
        ],
    );
    build(dir, &[BOTH, &["-DHEAD"]].concat());
    says(dir, JUDGE, 0, &["PASS"]);
    run(dir, &["validate"], 0);
    run(dir, &["run"], 0);
    registers("2020-01-31");
    says(dir, JUDGE, 1, &["2020-01-31"]);
    accept(dir, "other*/attention", "registers", "2999-01-31");
    says(dir, JUDGE, 1, &["other*/attention"]);
}

#[test]
fn every_format_names_the_kernel() {
    let project = agreed(GATES, &[]);
    let dir = project.path();
    build(dir, &[BOTH, &["-DHEAD"]].concat());
    for format in ["markdown", "json", "html", "junit", "github", "sarif"] {
        says(dir, &["binary", "--format", format], 1, &["busy_gemm"]);
    }
    // The same of a run, and of its record.
    says(dir, &["run"], 1, &["busy_gemm"]);
    for format in ["markdown", "json", "sarif"] {
        let args = ["judge", "gatekeeper-out/record.json", "--format", format];
        says(dir, &args, 1, &["busy_gemm"]);
    }
    // They are none that a record updates.
    run(dir, &["baseline", "update"], 2);
}

fn commit(dir: &Path) {
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "change"]);
}

/// The project as a repository with its baseline committed.
fn repository() -> tempfile::TempDir {
    let project = agreed(GATES, &[]);
    let dir = project.path();
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\nlib.fatbin\n").unwrap();
    commit(dir);
    project
}

const CHANGE: &[&str] = &["run", "--base", "HEAD"];

/// Red, but by a label.
fn loosened(dir: &Path, words: &[&str]) {
    says(dir, CHANGE, 1, words);
    let allowed = [CHANGE, &["--allow-loosened"]].concat();
    run(dir, &allowed, 0);
    git(dir, &["checkout", "--quiet", "."]);
}

#[test]
fn a_change_cannot_loosen_what_it_is_held_to() {
    let project = repository();
    let dir = project.path();
    let gates = dir.join("gates.yaml");
    run(dir, CHANGE, 0);
    edit(&gates, "registers: \"+0%\"", "registers: \"+300%\"");
    loosened(dir, &["LOOSENED", "busy_gemm/attention [sm_90]"]);
    edit(&gates, "registers: \"+0%\"", "registers: \"+1\"");
    loosened(dir, &["LOOSENED", "busy_gemm/attention [sm_90]"]);
    // The same demand in other words.
    edit(&gates, "registers: \"+0%\"", "registers: \"+0\"");
    run(dir, CHANGE, 0);
    git(dir, &["checkout", "--quiet", "."]);
    edit(&gates, "registers: \"<= 128\"", "registers: \"<= 255\"");
    loosened(dir, &["LOOSENED", "busy_gemm/attention [sm_90]"]);
    edit(&gates, "        code: \"+5%\"\n", "");
    loosened(dir, &["LOOSENED", "same/attention [sm_100]"]);
    edit(&gates, "    count: \"+0%\"\n", "");
    loosened(dir, &["LOOSENED", "all-kernels/attention [sm_90]"]);
    edit(&gates, ", sm_100]", "]");
    loosened(dir, &["LOOSENED", "all-kernels/attention [sm_100]"]);
    edit(&dir.join(BASELINE), "\"registers\":32", "\"registers\":71");
    loosened(dir, &["LOOSENED", "registers 32 -> 71"]);
    fs::remove_file(dir.join(BASELINE)).unwrap();
    loosened(dir, &["LOOSENED", "busy_gemm/attention [sm_90]"]);
    accept(dir, "*gemm*/attention", "registers", "2999-01-31");
    build(dir, &[BOTH, &["-DHEAD"]].concat());
    says(dir, CHANGE, 1, &["LOOSENED", "without an acceptance"]);
    fs::remove_file(dir.join("baselines/accepted.yaml")).unwrap();
    // A regression with its baseline taken along.
    run(dir, &["binary", "--update", "--allow-worse"], 0);
    run(dir, JUDGE, 0);
    loosened(dir, &["LOOSENED", "registers 32 -> 71"]);
}

/// Where the section is renamed, nothing of the old one is asked any more.
#[test]
fn a_change_cannot_remove_the_section() {
    let project = repository();
    let dir = project.path();
    edit(&dir.join("gates.yaml"), "  attention:", "  other:");
    loosened(
        dir,
        &[
            "LOOSENED",
            "all-kernels/attention [sm_90]",
            "all-kernels/attention [sm_100]",
        ],
    );
    // A change that gets better is free to say so.
    build(dir, &[BOTH, &["-DMORE"]].concat());
    edit(
        &dir.join("gates.yaml"),
        "registers: \"<= 128\"",
        "registers: \"<= 100\"",
    );
    edit(
        &dir.join("gates.yaml"),
        "count: \"+0%\"",
        "count: [\"+0%\", 2]",
    );
    says(dir, CHANGE, 1, &["count 2 3"]);
}

/// A file with less in it would hold every limit.
#[test]
fn a_change_to_another_file_is_looser() {
    let project = repository();
    let dir = project.path();
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n*.fatbin\n").unwrap();
    commit(dir);
    fs::write(dir.join("k.cu"), SOURCE.replace("#ifdef HEAD", "#if 1")).unwrap();
    fs::create_dir(dir.join("build")).unwrap();
    fs::copy(dir.join("lib.fatbin"), dir.join("build/lib.fatbin")).unwrap();
    edit(&dir.join("gates.yaml"), "file: lib.fatbin", "file: build");
    // Kernels of a directory have the names of its files.
    says(
        dir,
        JUDGE,
        0,
        &["same/attention:lib.fatbin [sm_90]", "4 by name"],
    );
    loosened(
        dir,
        &["LOOSENED", "all-kernels/attention:lib.fatbin [sm_90]"],
    );
}

/// Moved into another directory, with its baseline and the name of the file as it is there.
fn move_gates(dir: &Path) {
    fs::create_dir_all(dir.join("ci/baselines/binaries")).unwrap();
    git(dir, &["mv", "gates.yaml", "ci/gates.yaml"]);
    git(dir, &["mv", BASELINE, &format!("ci/{BASELINE}")]);
    edit(
        &dir.join("ci/gates.yaml"),
        "file: lib.fatbin",
        "file: ../lib.fatbin",
    );
}

#[test]
fn gates_that_are_moved_are_held_against_what_they_were() {
    let project = repository();
    let dir = project.path();
    move_gates(dir);
    let moved = ["run", "--config", "ci/gates.yaml", "--base", "HEAD"];
    let held = said(dir, &moved, 0);
    assert!(!held.contains("LOOSENED"), "{held}");
    let gates = dir.join("ci/gates.yaml");
    edit(&gates, "registers: \"<= 128\"", "registers: \"<= 255\"");
    says(
        dir,
        &moved,
        1,
        &["LOOSENED", "busy_gemm/attention [sm_90]", "<= 255"],
    );
    run(dir, &[&moved[..], &["--allow-loosened"]].concat(), 0);
    edit(&gates, "registers: \"<= 255\"", "registers: \"<= 128\"");
    // The same words, and another file.
    fs::copy(dir.join("lib.fatbin"), dir.join("ci/lib.fatbin")).unwrap();
    edit(&gates, "file: ../lib.fatbin", "file: lib.fatbin");
    let other = "all-kernels/attention:../lib.fatbin [sm_90]";
    says(dir, &moved, 1, &["LOOSENED", other]);
}

/// Where the file stays, the run of another one answers for what it took alone.
#[test]
fn a_part_of_gates_that_is_moved_is_held_against_what_it_was() {
    let project = project(GATES, &[]);
    let dir = project.path();
    let section = GATES.split_once("binaries:\n").unwrap().1;
    let other = section.replace("attention", "other");
    let both = format!("{GATES}{other}");
    fs::write(dir.join("gates.yaml"), &both).unwrap();
    run(dir, &["binary", "--update"], 0);
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\nlib.fatbin\n").unwrap();
    commit(dir);
    fs::write(dir.join("gates.yaml"), GATES).unwrap();
    let new = format!("version: 1\nbinaries:\n{other}");
    // No ending tells what it is.
    fs::write(dir.join("other.conf"), &new).unwrap();
    let moved = ["run", "--config", "other.conf", "--base", "HEAD"];
    let held = said(dir, &moved, 0);
    assert!(!held.contains("LOOSENED"), "{held}");
    fs::write(dir.join("other.conf"), new.replace("128", "255")).unwrap();
    let looser = said(dir, &moved, 1);
    assert!(looser.contains("busy_gemm/other [sm_90]"), "{looser}");
    assert!(!looser.contains("/attention"), "{looser}");
    // The run of the old file names it, where it asks the same there, and misses it where it does not.
    fs::rename(dir.join("other.conf"), dir.join("other.yaml")).unwrap();
    let missed = said(dir, CHANGE, 1);
    assert!(missed.contains("LOOSENED"), "{missed}");
    assert!(missed.contains("all-kernels/other [sm_90]"), "{missed}");
    fs::write(dir.join("other.yaml"), &new).unwrap();
    says(
        dir,
        CHANGE,
        0,
        &["they moved to other.yaml: 2 units (2 of all-kernels/other)"],
    );
    // Another file under the same name is not the same.
    fs::write(
        dir.join("other.yaml"),
        new.replace("lib.fatbin", "./no.fatbin"),
    )
    .unwrap();
    says(dir, CHANGE, 1, &["LOOSENED", "all-kernels/other [sm_90]"]);
}

/// Nobody runs a file that is gone: the run of any other says so.
#[test]
fn gates_that_are_gone_are_said_by_the_run_of_others() {
    let project = repository();
    let dir = project.path();
    let other = GATES.replace("attention", "other");
    fs::write(dir.join("other.conf"), other).unwrap();
    run(dir, &["binary", "--update", "--config", "other.conf"], 0);
    commit(dir);
    run(dir, CHANGE, 0);
    git(dir, &["rm", "--quiet", "other.conf"]);
    says(
        dir,
        CHANGE,
        1,
        &[
            "all-kernels/other [sm_90]: gates of other.conf: removed: head has no such file of gates",
        ],
    );
    run(dir, &[CHANGE, &["--allow-loosened"]].concat(), 0);
}

/// Kernels that are gone are said, and are a failure where their number is held.
#[test]
fn kernels_that_are_gone_are_listed() {
    let project = agreed(
        &GATES.replace("\"+0%\"\n    gates", "\"== 3\"\n    gates"),
        &["-DMORE"],
    );
    let dir = project.path();
    run(dir, JUDGE, 0);
    build(dir, BOTH);
    for args in [JUDGE, &["run"]] {
        says(
            dir,
            args,
            1,
            &["removed 1 kernel: more", "count is 2, limit == 3"],
        );
    }
}

#[test]
fn a_shard_or_a_filter_judges_no_file() {
    let project = crate::common::project();
    let dir = project.path();
    fs::write(dir.join("k.cu"), SOURCE).unwrap();
    build(dir, BOTH);
    let gates = dir.join("gates.yaml");
    let text = fs::read_to_string(&gates).unwrap();
    let section = GATES.split_once('\n').unwrap().1;
    fs::write(&gates, text + section).unwrap();
    let run_all = ["run", "--provision", "--device", "sim"];
    let shard = [&run_all[..], &["--shard", "1/2"]].concat();
    says(
        dir,
        &shard,
        2,
        &["compiled files belong to no shard: attention"],
    );
    let filtered = [&run_all[..], &["copy"]].concat();
    says(
        dir,
        &filtered,
        0,
        &["1 compiled file not judged, as kernels are picked: attention"],
    );
    run(dir, &["binary", "--update"], 0);
    // `baseline update` takes what was built, and leaves the files alone.
    let written = fs::read_to_string(dir.join(BASELINE)).unwrap();
    run(dir, &["baseline", "update"], 0);
    assert_eq!(fs::read_to_string(dir.join(BASELINE)).unwrap(), written);
    build(dir, &[BOTH, &["-DHEAD"]].concat());
    // One record, one conclusion, with kernels that are built.
    says(
        dir,
        &run_all,
        1,
        &[
            "busy_gemm/attention [sm_90]",
            "FAIL: 1 problem (2 gates), 34 passed",
        ],
    );
    run(dir, &filtered, 0);
    accept(dir, "*gemm*/attention", "registers", "2999-01-31");
    run(dir, &filtered, 0);
}

/// A run of them would judge nothing.
#[test]
fn a_filter_that_names_a_kernel_of_a_file_alone_is_refused() {
    let help = "kernels of compiled files (attention) cannot be picked: `gatekeeper binary` judges all of them";
    let refused = |dir: &Path| {
        let args = ["run", "busy_gemm/attention"];
        let nothing = "the filter `busy_gemm/attention` matches nothing";
        says(dir, &args, 2, &[nothing, help]);
        assert!(!dir.join("gatekeeper-out").exists());
    };
    let alone = agreed(GATES, &[]);
    refused(alone.path());
    assert!(!said(alone.path(), &["run", "busy_gemm/attention"], 2).contains("kernel:"));
    let project = crate::common::project();
    let gates = project.path().join("gates.yaml");
    let text = fs::read_to_string(&gates).unwrap();
    let section = GATES.split_once('\n').unwrap().1;
    fs::write(&gates, text + section).unwrap();
    refused(project.path());
}

/// A compiled file has no inputs that a seed could give.
#[test]
fn a_change_of_files_alone_says_nothing_of_seeds() {
    let project = repository();
    let held = said(project.path(), CHANGE, 0);
    assert!(!held.contains("seed"), "{held}");
}

#[test]
fn kernels_that_are_built_have_no_limit_of_files() {
    let project = crate::common::project();
    let gates = project.path().join("gates.yaml");
    edit(
        &gates,
        "registers: 32\n",
        "registers: 32\n      code: 4KiB\n",
    );
    says(
        project.path(),
        &["validate"],
        2,
        &[
            "code is known of compiled files alone",
            "put the limit under `binaries`",
        ],
    );
}
