//! Tests the diagnosis through the binary, on a machine without a GPU: estimates come from the simulator's counters.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{copy_of, edit, git, report, root, run, simulate, stdout};
use serde_json::Value;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn case(diagnosis: &Value) -> String {
    let part = |key: &str| diagnosis["case"][key].as_str().unwrap();
    format!("{}/{}@{}", part("kernel"), part("variant"), part("shape"))
}

/// Returns for each case what bounds it. If that is the small number of blocks, also returns what bounds these blocks.
fn bounds(dir: &Path, record: &str) -> Vec<(String, String)> {
    let args = ["report", record, "--diagnosis", "--format", "json"];
    let said = json(&stdout(&run(dir, &args, 0)));
    assert_eq!(said["schema"], "gatekeeper.diagnosis/1");
    let name = |bound: &Value| {
        let parts = ["kind", "resource", "stall"].map(|key| bound[key].as_str().unwrap_or(""));
        parts.join(" ").trim().replace("  ", " ")
    };
    said["diagnoses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|diagnosis| {
            let bound = &diagnosis["after"]["bound"];
            let busy = if bound["busy"].is_object() {
                format!(": {}", name(&bound["busy"]))
            } else {
                String::new()
            };
            (case(diagnosis), name(bound) + &busy)
        })
        .collect()
}

/// kernels/NOTES.md and the times in baselines/ show these bounds. A reduction of 17 MB is read from L2, where warm
/// inputs stay. A row of one element is over before it begins. Few blocks leave most of a GPU idle, and a matrix
/// product of 6 blocks of 8 warps waits for its tiles.
#[test]
fn kernels_of_this_repository_have_their_known_bounds() {
    let out = tempfile::tempdir().unwrap();
    let dir = out.path().to_str().unwrap();
    let args = ["run", "--provision", "--device", "sim", "--seeds", "1"];
    let cases = ["reduce@rows", "reduce@all", "softmax@one", "gemm@ragged"];
    run(&root(), &[&args[..], &cases, &["--out", dir]].concat(), 0);
    let record = out.path().join("record.json");
    let bounds = bounds(&root(), record.to_str().unwrap());
    let expected = [
        ("gemm/default@ragged", "few-blocks: latency barrier"),
        ("softmax/default@one", "launch"),
        ("reduce/default@rows", "resource l2"),
        ("reduce/default@all", "few-blocks: latency long_scoreboard"),
    ];
    let expected = expected.map(|(case, bound)| (case.to_owned(), bound.to_owned()));
    assert_eq!(bounds, expected);
}

/// Each thread takes a part of the row, which makes four times as many sectors.
#[test]
fn a_pull_request_names_old_and_new_bound_of_a_case() {
    let project = copy_of("examples/rms-norm");
    let dir = project.path();
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    simulate(dir, &[], 0);
    run(dir, &["baseline", "update"], 0);
    git(dir, &["init", "-q"]);
    git(dir, &["add", "-A"]);
    git(dir, &["commit", "-qm", "base"]);
    edit(
        &dir.join("fused_add_rms_norm.cu"),
        "    for (int i = threadIdx.x; i < hidden; i += BLOCK) {",
        "    const int stretch = hidden / BLOCK;\n    \
         for (int i = threadIdx.x * stretch; i < (threadIdx.x + 1) * stretch; ++i) {",
    );
    let said = simulate(dir, &["-v", "--base", "HEAD"], 1);
    let line = said.lines().find(|line| line.starts_with("bound "));
    assert!(line.unwrap().contains("rms_norm/default@decode"), "{said}");

    let diagnoses = json(&report(dir))["diagnoses"].clone();
    let diagnosis = diagnoses
        .as_array()
        .unwrap()
        .iter()
        .find(|diagnosis| case(diagnosis) == "rms_norm/default@prefill")
        .unwrap();
    assert_eq!(diagnosis["standing"], "failed");
    let sectors = |side: &str| {
        diagnosis[side]["traffic"]["loads"]["moved"]
            .as_u64()
            .unwrap()
    };
    assert!(sectors("after") >= 2 * sectors("before"), "{diagnosis}");
    let changed: Vec<_> = diagnosis["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["figure"].clone())
        .collect();
    assert!(
        changed.contains(&Value::from("load-sectors")),
        "{changed:?}"
    );

    let markdown = std::fs::read_to_string(dir.join("gatekeeper-out/report.md")).unwrap();
    let folded = "<details><summary>What bounds them, before and now</summary>";
    let (_, rest) = markdown.split_once(folded).unwrap();
    let block = rest.split_once("</details>").unwrap().0;
    assert!(block.contains("`rms_norm/default@prefill`"), "{block}");
    assert!(block.contains("load sectors: "), "{block}");
    // Only the terminal prints this line. A comment has the table alone.
    assert!(
        !markdown.contains("- rms_norm/default@prefill: bounded"),
        "{markdown}"
    );
}

#[test]
fn a_diagnosis_is_printed_as_terminal_markdown_or_json() {
    let project = common::after_a_run(&[]);
    let dir = project.path();
    let diagnosis = ["report", common::RECORD, "--diagnosis"];
    let said = |format| {
        stdout(&run(
            dir,
            &[&diagnosis[..], &["--format", format]].concat(),
            0,
        ))
    };
    assert!(said("markdown").starts_with("## gatekeeper: what bounds each case\n"));
    assert!(said("terminal").starts_with("case "));
    let output = run(dir, &[&diagnosis[..], &["--format", "junit"]].concat(), 2);
    let says = common::stderr(&output);
    assert!(
        says.contains("--diagnosis is printed as terminal, markdown or json"),
        "{says}"
    );
}
