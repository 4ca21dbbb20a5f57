//! Tests the output of a run as a person sees it, at the width of a terminal: one block for each problem, with the
//! cause before its consequences, and no more lines than it needs.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{copy_of, edit, gatekeeper, git, stdout, write_record};
use judge::fixture;
use model::Seen;
use std::path::Path;

/// Returns what `run --device sim` prints on a terminal of this width.
fn printed(dir: &Path, columns: usize, args: &[&str], code: i32) -> String {
    let mut command = gatekeeper();
    command
        .current_dir(dir)
        .args(["run", "--device", "sim"])
        .args(args);
    command.env("COLUMNS", columns.to_string());
    let output = command.output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// Returns the text without its first line, which has a date. Panics if it has more lines or columns than these.
fn body(text: &str, lines: usize, columns: usize) -> &str {
    assert!(text.lines().count() <= lines, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= columns, "{line}\n{text}");
    }
    text.split_once("\n\n").unwrap().1
}

fn project() -> tempfile::TempDir {
    copy_of("tests/fixtures/problems")
}

const BARRIER: &str = "  __syncthreads();\n  if (threadIdx.x == 0) {";
const NO_BARRIER: &str = "  if (threadIdx.x == 0) {";
const TILE_BARRIER: &str = "  __syncthreads();\n  y[blockIdx.x * 64 + i]";
const NO_TILE_BARRIER: &str = "  y[blockIdx.x * 64 + i]";

fn remove_barrier(dir: &Path) {
    edit(&dir.join("k.cu"), BARRIER, NO_BARRIER);
}

#[test]
fn passing_run_is_a_table_and_a_headline() {
    let project = project();
    for columns in [80, 120] {
        let text = printed(project.path(), columns, &[], 0);
        let text = body(&text, 26, columns);
        assert!(
            text.ends_with("\nPASS: 28 passed, 14 not judged\n"),
            "{text}"
        );
    }
    let quiet = printed(project.path(), 80, &["-q"], 0);
    assert_eq!(quiet, "PASS: 28 passed, 14 not judged\n");
}

#[test]
fn race_is_one_block_with_its_lines() {
    let project = project();
    remove_barrier(project.path());
    for columns in [80, 120] {
        let text = printed(project.path(), columns, &["row_max"], 1);
        let text = body(&text, 24, columns);
        let (block, _) = text.split_once("\n\n").unwrap();
        let lines: Vec<&str> = block.lines().map(str::trim).collect();
        assert!(
            lines[0].starts_with("✗ row_max/default@small, @large  race on shared memory "),
            "{text}"
        );
        assert!(lines[0].ends_with(" [findings]"), "{text}");
        assert_eq!(lines[1], "k.cu");
        assert!(
            lines[2].starts_with("10 │ if (lane == 0) part[warp] = best; "),
            "{text}"
        );
        assert!(lines[2].ends_with("  thread 32 writes"), "{text}");
        assert_eq!(lines[3], "│ (no barrier between the two)");
        assert!(lines[4].starts_with("12 │ for (int w = 1;"), "{text}");
        assert!(lines[4].ends_with("  thread 0 reads"), "{text}");
        assert_eq!(
            lines[5],
            "seed 1, block 0, 28 times; 1 more finding on the same lines"
        );
        assert!(
            lines[6].starts_with("probably follow from it: finite, written, max_err <= "),
            "{text}"
        );
        assert_eq!(
            lines.last(),
            Some(&"$ gatekeeper run --device sim 'row_max/default@small'")
        );
        assert!(text.contains("\nFAIL: 1 problem (8 gates), "), "{text}");
    }
    let verbose = printed(project.path(), 80, &["-v", "row_max"], 1);
    assert!(verbose.contains("are not ordered"), "{verbose}");
}

#[test]
fn arguments_of_another_type_are_named_before_wrong_values() {
    let project = project();
    let gates = project.path().join("gates.yaml");
    edit(&gates, "x: {type: bf16,", "x: {type: f32,");
    edit(
        &gates,
        "y: {role: out, type: bf16,",
        "y: {role: out, type: f32,",
    );
    for columns in [80, 120] {
        let text = printed(project.path(), columns, &["twice"], 1);
        let text = body(&text, 24, columns);
        let (block, _) = text.split_once("\n\n").unwrap();
        let lines: Vec<&str> = block.lines().map(str::trim).collect();
        assert!(
            lines[0].starts_with("✗ twice/default@small, @large  arguments do not fit "),
            "{text}"
        );
        assert!(lines[0].ends_with(" [arguments-do-not-fit]"), "{text}");
        assert_eq!(lines[1], "gates.yaml");
        assert!(lines[2].starts_with("33 │ x: {type: f32} "), "{text}");
        assert!(
            lines[2].ends_with("the kernel takes __nv_bfloat16 const*"),
            "{text}"
        );
        assert_eq!(lines[4], "fix: type: bf16");
        assert!(text.contains("\nFAIL: 1 problem ("), "{text}");
    }
}

/// In a history that somebody else wrote, the removed barrier was below races that the base had.
#[test]
fn race_of_the_change_comes_before_those_of_the_base() {
    let project = project();
    let dir = project.path();
    remove_barrier(dir);
    git(dir, &["init", "-q"]);
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-qm", "a race that is known"]);
    edit(&dir.join("k.cu"), TILE_BARRIER, NO_TILE_BARRIER);
    for columns in [80, 120] {
        let text = printed(dir, columns, &["--base", "HEAD"], 1);
        let text = body(&text, 28, columns);
        let (first, rest) = text.split_once("\n\n").unwrap();
        assert!(
            first.starts_with("✗ reverse/default@small  race on shared memory (new) "),
            "{text}"
        );
        assert!(
            first.ends_with("$ gatekeeper run --device sim --base 'HEAD' 'reverse/default@small'")
        );
        let rest = rest.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            rest.starts_with(
                "1 problem that the base has, too (8 gates): race on shared memory in \
                 row_max/default@small, @large"
            ),
            "{text}"
        );
    }
}

/// Baselines of one GPU say nothing about another. The next step is to take baselines, and not to run again.
#[test]
fn run_on_another_gpu_names_those_with_baselines_and_offers_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut record = fixture::record();
    let Seen::Got(device) = &mut record.environment.device else {
        panic!("the fixture has a GPU");
    };
    device.name = "NVIDIA H200".to_owned();
    let path = write_record(dir.path(), "record.json", &record);
    for columns in [80, 120] {
        let output = gatekeeper()
            .args(["judge", &path])
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        let text = body(&text, 40, columns);
        let (block, _) = text.split_once("\n\n").unwrap();
        assert!(block.starts_with("? "), "{text}");
        assert!(block.contains("[other-key]"), "{text}");
        let block = block.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(block.contains("NVIDIA H100 80GB HBM3"), "{text}");
        assert!(block.contains("NVIDIA H200"), "{text}");
        assert!(block.contains("$ gatekeeper baseline update"), "{text}");
        assert!(text.contains("\nINCONCLUSIVE: "), "{text}");
    }
}
