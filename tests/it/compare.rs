//! `compare` from outside: exit codes where the head asks less than the base did.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{
    RECORD, after_a_run, edit, git, project, refused, run, simulate, stdout, write_record,
};
use judge::fixture;
use std::fs;

const REGISTERS: &str = "      registers: 32\n      shared: 1KiB\n      spills: 0\n";

/// A run, then gates.yaml edited, then another run to compare.
fn edited(old: &str, new: &str) -> tempfile::TempDir {
    let project = after_a_run(&[]);
    let dir = project.path();
    fs::rename(dir.join("gatekeeper-out"), dir.join("base")).unwrap();
    edit(&dir.join("gates.yaml"), old, new);
    run(dir, &["run"], 0);
    project
}

#[test]
fn a_loosened_gate_fails_until_it_is_allowed() {
    let project = edited(REGISTERS, "      registers: 64\n      shared: 1KiB\n");
    let output = run(project.path(), &["compare", "base/record.json", RECORD], 1);
    let said = stdout(&output);
    let (sides, _) = said.split_once("\n\n").unwrap();
    let (base, head) = sides.split_once('\n').unwrap();
    for (side, name) in [
        (base, "BASE base/record.json: "),
        (head, "HEAD gatekeeper-out/record.json: "),
    ] {
        assert!(side.starts_with(name) && side.contains(", nvcc "), "{said}");
    }
    for line in [
        "LOOSENED 2 gates are looser than at the base; only `--allow-loosened` allows it",
        "\n    copy/default [sm_90]: registers <= 32: head has registers <= 64 (gates.yaml:",
        "\n    copy/default [sm_90]: spills <= 0 B: removed: head has no such gate\n",
        "\nFAIL: 1 problem (2 gates), ",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let output = run(
        project.path(),
        &[
            "compare",
            "base/record.json",
            RECORD,
            "--allow-loosened",
            "--format",
            "junit",
        ],
        0,
    );
    assert!(stdout(&output).contains("no looser than the base: registers"));
    let markdown = ["compare", RECORD, RECORD, "--format", "markdown"];
    let said = stdout(&run(project.path(), &markdown, 0));
    let last = said.lines().last().unwrap();
    assert!(
        last.starts_with("<sub>BASE `gatekeeper-out/record.json`: ")
            && last.contains("<br>HEAD `gatekeeper-out/record.json`: "),
        "{said}"
    );
    // Stricter is fine: the other way round.
    let output = run(project.path(), &["compare", RECORD, "base/record.json"], 0);
    assert!(!stdout(&output).contains("LOOSENED"));
}

/// Other flags are another key, and an instruction that the simulator refuses takes all checks away: neither lets a
/// worse kernel pass.
#[test]
fn another_key_or_a_check_that_is_lost_is_no_way_around_the_base() {
    let project = project();
    let dir = project.path();
    let gates = dir.join("gates.yaml");
    edit(
        &gates,
        REGISTERS,
        &format!("{REGISTERS}      counters: \"+0%\"\n"),
    );
    run(dir, &["run", "--provision", "--device", "sim", "copy"], 0);
    fs::rename(dir.join("gatekeeper-out"), dir.join("base")).unwrap();
    let compare = |code| {
        run(dir, &["run", "--device", "sim", "copy"], 0);
        let said = stdout(&run(dir, &["compare", "base/record.json", RECORD], code));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let flags = "architectures: [sm_90]\nflags: [-O2]\n";
    edit(&gates, "architectures: [sm_90]\n", flags);
    compare(0);
    let source = dir.join("copy.cu");
    let whole = fs::read_to_string(&source).unwrap();
    let store = "    if (i < n) y[i] = staged[255 - threadIdx.x];\n";
    let scattered = "    const int t = threadIdx.x, k = t % 32 * 8 + t / 32, j = i - t + k;\n    if (j < n) y[j] = staged[255 - k];\n";
    edit(&source, store, scattered);
    let said = compare(1);
    assert!(said.contains("[counters-rose]"), "{said}");
    fs::write(&source, whole).unwrap();
    let refused = "float v = 0;\n    if (n < 0) asm volatile(\"multimem.ld_reduce.global.add.f32 %0, [%1];\" : \"=f\"(v) : \"l\"(x));\n    if (n < 0) y[0] = v;\n    __syncthreads();\n";
    edit(&source, "    __syncthreads();\n", &format!("    {refused}"));
    let said = compare(1);
    assert!(
        said.contains("nothing checks it") || said.contains("LOOSENED"),
        "{said}"
    );
}

#[test]
fn a_case_that_is_gone_fails_but_not_one_that_a_filter_left_out() {
    let project = edited("small: {N: 1000}", "tiny: {N: 1000}");
    let dir = project.path();
    let output = run(dir, &["compare", "base/record.json", RECORD], 1);
    let said = stdout(&output);
    assert!(
        said.contains("removed: head has no copy/default@small"),
        "{said}"
    );

    run(dir, &["run", "dial", "--out", "part"], 0);
    let output = run(dir, &["compare", "base/record.json", "part/record.json"], 0);
    let said = stdout(&output);
    assert!(!said.contains("LOOSENED"));
    let left_out =
        "not compared, as a filter left them out of the head: 1 case (copy/default@small)";
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(left_out), "{said}");
}

/// A fact, of whichever side: the usual state before a commit.
#[test]
fn the_headline_names_trees_with_uncommitted_changes() {
    let project = project();
    let dir = project.path();
    fs::write(dir.join(".gitignore"), "gatekeeper-out\nbase\n").unwrap();
    git(dir, &["init", "--quiet"]);
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "all"]);
    let out = |name: &str| fs::read_to_string(dir.join("gatekeeper-out").join(name)).unwrap();
    let against = ["--base", "HEAD", "copy"];
    // A file that git does not track is no change of the commit.
    fs::write(dir.join("notes.txt"), "").unwrap();
    let said = simulate(dir, &against, 0);
    let reports = said + &out("report.md") + &out("report.html") + &out("report.json");
    assert!(!reports.contains("uncommitted"), "{reports}");
    fs::rename(dir.join("gatekeeper-out"), dir.join("base")).unwrap();

    let source = dir.join("copy.cu");
    edit(&source, "// y = x", "// y is x");
    let said = simulate(dir, &against, 0);
    let headline = said.split_once("PASS: ").unwrap().1;
    let headline = headline.split_whitespace().collect::<Vec<_>>().join(" ");
    let (counts, tree) = headline.split_once("; head is ").unwrap();
    let commit = tree.strip_suffix(" with uncommitted changes").unwrap();
    assert_eq!(commit.len(), 12, "{headline}");
    let told = format!("PASS: {counts}; head is {commit} with uncommitted changes");
    assert!(out("report.md").starts_with(&format!("### ✅ gatekeeper: {told}\n")));
    assert!(out("report.html").contains(&format!("<h1>{told}</h1>")));
    assert!(out("report.json").contains(&format!("\"headline\": \"{told}\"")));
    // So are those of a comparison of two records, of both sides.
    for (base, head, side) in [
        ("base/record.json", RECORD, "head"),
        (RECORD, "base/record.json", "base"),
    ] {
        let said = stdout(&run(dir, &["compare", base, head, "--quiet"], 0));
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let ends = format!("; {side} is {commit} with uncommitted changes");
        assert!(said.ends_with(&ends), "{said}");
        assert_eq!(said.matches("uncommitted").count(), 1, "{said}");
    }
    // Where a problem leads the comment, too.
    edit(&source, "y[i] = staged", "y[i] = 2 * staged");
    simulate(dir, &against, 1);
    let markdown = out("report.md");
    let heading = markdown.lines().next().unwrap();
    assert!(
        heading.starts_with("### ❌ gatekeeper: copy/default@small: "),
        "{heading}"
    );
    assert!(
        heading.ends_with(&format!("; head is {commit} with uncommitted changes")),
        "{heading}"
    );
}

/// Records of the same plan: the first of a GPU, the second of the simulator.
#[test]
fn a_head_without_the_gpu_that_the_base_had_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let timed = write_record(dir.path(), "timed.json", &fixture::record());
    let simulated = write_record(dir.path(), "simulated.json", &fixture::record_simulated());
    refused(
        dir.path(),
        &["compare", &timed, &simulated],
        &format!(
            "error: {simulated}: BASE was made on NVIDIA H100 80GB HBM3 and HEAD without a GPU: no times would be compared\n  \
             help: run both on such a GPU, with --require-gpu\n  \
             help: --allow-loosened compares the rest\n"
        ),
    );
    let rest = ["compare", "-v", &timed, &simulated, "--allow-loosened"];
    let said = stdout(&run(dir.path(), &rest, 0));
    assert!(
        said.contains("PASS: ") && said.contains(" not judged"),
        "{said}"
    );
    run(dir.path(), &["compare", &simulated, &simulated], 0);
    run(dir.path(), &["compare", &timed, &timed], 0);
}
