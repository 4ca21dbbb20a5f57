//! Tests `explain --measure` on changes whose costs were planted.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{commit_all, copy_of, edit, git, root, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;

/// Makes a repository of the fixture and of a kernel that other tests have, too, with one commit.
fn committed() -> tempfile::TempDir {
    let project = copy_of("tests/fixtures/measure");
    let kernel = root().join("tests/fixtures/explain/transpose.cu");
    std::fs::copy(kernel, project.path().join("transpose.cu")).unwrap();
    std::fs::write(project.path().join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(project.path(), &["init", "--quiet"]);
    commit_all(project.path());
    project
}

fn run_against_base(dir: &Path, device: &str, kernel: &str, code: i32) {
    let args = [
        "run",
        "--provision",
        "--device",
        device,
        "--base",
        "HEAD",
        kernel,
    ];
    run(dir, &args, code);
}

/// Measures the only case of a record.
fn measured(dir: &Path) -> Value {
    let args = ["explain", "--measure", "--format", "json"];
    let explained: Value = serde_json::from_str(&stdout(&run(dir, &args, 0))).unwrap();
    explained["cases"][0]["measured"].clone()
}

/// Returns the places of the pieces of each part, and the first effect in both surroundings.
fn parts(measured: &Value) -> Vec<(Vec<String>, [f64; 2])> {
    let place = |piece: &Value| match piece.get("lines") {
        Some(lines) => format!(
            "{}:{}",
            lines["file"].as_str().unwrap(),
            lines["head"]["first"]
        ),
        None => piece.as_str().unwrap().to_owned(),
    };
    measured["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| {
            let pieces = part["pieces"].as_array().unwrap();
            let effect = |name: &str| part["effects"][0][name].as_f64().unwrap();
            (
                pieces.iter().map(place).collect(),
                [effect("added_to_base"), effect("taken_from_head")],
            )
        })
        .collect()
}

fn named(parts: &[(&[&str], [f64; 2])]) -> Vec<(Vec<String>, [f64; 2])> {
    parts
        .iter()
        .map(|(pieces, effect)| {
            (
                pieces.iter().map(|piece| (*piece).to_owned()).collect(),
                *effect,
            )
        })
        .collect()
}

/// The pad keeps 32 rows in 32 banks. Without it each of the 1,920 loads takes 32 passes, which is 59,520 more.
#[test]
fn a_hunk_has_the_passes_that_it_costs_and_the_others_have_none() {
    let project = committed();
    let dir = project.path();
    let source = dir.join("transpose.cu");
    edit(&source, "[TILE + 1]", "[TILE]");
    edit(
        &source,
        "__syncthreads();\n",
        "__syncthreads();\n    __syncthreads();\n",
    );
    edit(
        &dir.join("gates.yaml"),
        "version: 1\n",
        "version: 1\nflags: [--use_fast_math]\n",
    );
    run_against_base(dir, "sim", "transpose", 1);
    let measured = measured(dir);
    assert_eq!(measured["metrics"][0]["metric"], "shared_load_wavefronts");
    let expected = named(&[
        (&["transpose.cu:12"], [59_520.0; 2]),
        (&["transpose.cu:21"], [0.0; 2]),
        (&["flags"], [0.0; 2]),
    ]);
    assert_eq!(parts(&measured), expected);
    let said = stdout(&run(dir, &["explain", "--measure"], 0));
    let row = said
        .lines()
        .find(|line| line.starts_with("1 transpose.cu:12"));
    let cells: Vec<&str> = row.unwrap().split_whitespace().rev().take(3).collect();
    assert_eq!(cells, ["+59520", "+59520", "100"], "{said}");
}

/// A name that is changed in three places is one part, and so is a file that is new with the line that includes it.
#[test]
fn pieces_that_need_each_other_are_one_part() {
    let project = committed();
    let dir = project.path();
    let source = dir.join("transpose.cu");
    edit(&source, "first_row = blockIdx", "top = blockIdx");
    edit(&source, "first_row + i", "top + i");
    edit(
        &source,
        "row = first_row + threadIdx",
        "row = top + threadIdx",
    );
    edit(&source, "[TILE + 1]", "[TILE + PAD]");
    edit(
        &source,
        "#include <cuda_runtime.h>\n",
        "#include <cuda_runtime.h>\n#include \"pad.cuh\"\n",
    );
    std::fs::write(dir.join("pad.cuh"), "constexpr int PAD = 2;\n").unwrap();
    run_against_base(dir, "sim", "transpose", 1);
    let found = parts(&measured(dir));
    let pieces: Vec<Vec<String>> = found.into_iter().map(|(pieces, _)| pieces).collect();
    // The line of the array is next to the one with the name, so both are one hunk.
    let all = [
        "pad.cuh:1",
        "transpose.cu:5",
        "transpose.cu:13",
        "transpose.cu:18",
        "transpose.cu:25",
    ];
    assert_eq!(pieces, [all.map(str::to_owned).to_vec()]);
}

#[test]
fn refuses_what_it_cannot_measure_and_says_why() {
    let project = committed();
    let dir = project.path();
    let refuses = |why: &str| {
        let said = stderr(&run(dir, &["explain", "--measure"], 2));
        assert!(said.contains(why), "{said}");
    };
    run_against_base(dir, "sim", "transpose", 0);
    refuses(
        "transpose/default@sim cannot be taken apart: nothing that it is made of differs from the base",
    );
    run_against_base(dir, "sim", "*", 0);
    refuses("--measure takes one case, and 2 are selected");
    edit(&dir.join("transpose.cu"), "[TILE + 1]", "[TILE]");
    run_against_base(dir, "sim", "transpose", 1);
    edit(&dir.join("transpose.cu"), "[TILE]", "[TILE + 2]");
    refuses("the files are not those that the record is of any more");
}

/// Each of two edits costs in the whole change what it costs alone, within 20 %.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn hunks_cost_on_a_gpu_what_they_cost_alone() {
    let project = committed();
    let dir = project.path();
    let (first, second) = (dir.join("first.cuh"), dir.join("second.cuh"));
    let whole = |measured: &Value| {
        let metric = &measured["metrics"][0];
        assert_eq!(metric["metric"], "p50");
        metric["head"].as_f64().unwrap() - metric["base"].as_f64().unwrap()
    };
    edit(&first, "FIRST = 100", "FIRST = 400");
    run_against_base(dir, "auto", "loops", 1);
    let alone = whole(&measured(dir));
    edit(&first, "FIRST = 400", "FIRST = 100");
    edit(&second, "SECOND = 100", "SECOND = 200");
    run_against_base(dir, "auto", "loops", 1);
    let other = whole(&measured(dir));
    edit(&first, "FIRST = 100", "FIRST = 400");
    run_against_base(dir, "auto", "loops", 1);
    let both = measured(dir);
    println!("alone {alone} and {other} ns; together {both}");
    let found = parts(&both);
    assert_eq!(found.len(), 2, "{both}");
    for ((pieces, effects), cost) in found.iter().zip([alone, other]) {
        for effect in effects {
            assert!(
                (effect / cost - 1.0).abs() < 0.2,
                "{pieces:?}: {effect} of {cost}"
            );
        }
    }
}
