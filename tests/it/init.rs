//! `init` in a repository with kernels: what it lists, and that what it writes validates, builds and runs.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{copy_of, edit, failed, report, run, stderr, stdout};
use serde_json::{Value, json};
use std::fs;

const FIXTURE: &str = "tests/fixtures/init";

#[test]
fn kernels_of_a_repository_are_listed_and_run() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    let command = "nvcc -DFACTOR=3 -Iinclude -std=c++20 --expt-relaxed-constexpr -c src/built.cu";
    let commands = json!([{"directory": dir, "file": "src/built.cu", "command": command}]);
    fs::create_dir(dir.join("build")).unwrap();
    fs::write(
        dir.join("build/compile_commands.json"),
        commands.to_string(),
    )
    .unwrap();
    let said = stdout(&run(dir, &["init", "--provision"], 0));
    assert!(
        said.starts_with(
            "wrote gates.yaml: 11 of 15 kernels in 3 sources, of which 1 did not compile as they are; what is \
             missing is named in it, with the reason\n"
        ),
        "{said}"
    );
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    // Every kernel has these lines.
    let alike = "    reference: none    # what is right?\n    gates:\n      max_err: 1e-3    # against the reference\n";
    assert_eq!(written.matches(alike).count(), 11);
    insta::assert_snapshot!("init", written.replace(alike, ""));
    assert!(stdout(&run(dir, &["validate"], 0)).contains("11 kernels"));

    // Everything that can be is checked, and nothing is called right.
    run(dir, &["run", "--device", "sim"], 3);
    let judged: Value = serde_json::from_str(&report(dir)).unwrap();
    let verdicts = judged["verdicts"].as_array().unwrap();
    let of = |outcome: &str| -> Vec<&Value> {
        let found = verdicts.iter().filter(|it| it["outcome"] == outcome);
        found.collect()
    };
    assert_eq!(failed(dir), []);
    let open = of("inconclusive");
    assert_eq!(open.len(), 11);
    assert!(
        open.iter().all(|it| it["code"] == "unreferenced"),
        "{open:?}"
    );
    let found = of("pass");
    let races = found.iter().filter(|it| it["gate"] == "memory and races");
    assert_eq!(races.count(), 11);

    // The author's knowledge completes it.
    edit(
        &dir.join("gates.yaml"),
        "  add:\n    # add(float const*, float const*, float*, int)\n",
        "  add:\n",
    );
    let text = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    let (before, add) = text.split_once("  add:\n").unwrap();
    let add = add.replacen(
        "reference: none    # what is right?",
        "reference: {binary: {a: a, b: b, out: out, op: add}}",
        1,
    );
    fs::write(dir.join("gates.yaml"), format!("{before}  add:\n{add}")).unwrap();
    run(dir, &["run", "--device", "sim", "add"], 0);
}

/// Facts of a build are not guessed: without it the source that needs it is named, and so is a file that says nothing.
#[test]
fn a_source_that_its_build_explains_needs_the_explanation() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    fs::write(dir.join("compile_commands.json"), "{}").unwrap();
    run(dir, &["init", "--provision"], 0);
    let written = fs::read_to_string(dir.join("gates.yaml")).unwrap();
    assert!(
        written.contains("\n# Not used: compile_commands.json: invalid type: map"),
        "{written}"
    );
    assert!(
        written
            .contains("# src/built.cu\n#   src/built.cu:3:2: error: #error \"the build says it\""),
        "{written}"
    );
    assert!(!written.contains("  times:"), "{written}");
}

/// Without a compiler nothing can be listed, and no file says so by being empty.
#[test]
fn sources_need_a_compiler() {
    let project = copy_of(FIXTURE);
    let dir = project.path();
    let output = common::gatekeeper()
        .current_dir(dir)
        .arg("init")
        .env("GATEKEEPER_CACHE", dir.join("cache"))
        .env("PATH", "/nowhere")
        .env("CUDA_HOME", "/nowhere")
        .env("CUDA_PATH", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("--provision"),
        "{}",
        stderr(&output)
    );
    assert!(!dir.join("gates.yaml").exists());
}
