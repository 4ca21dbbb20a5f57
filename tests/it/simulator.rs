//! Tests a machine without a GPU, on which kernels run in the simulator. `--device sim` makes any machine such a
//! machine. Kernels that fail for their own reason are in `tests/cases/simulator`.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{
    RECORD, copy_of, edit, gates_that_failed, project, report, root, run, simulate, stdout,
};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Returns the outcome and the reason of a gate on a case.
fn verdict(dir: &Path, case: &str, gate: &str) -> (String, String) {
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    let (kernel, shape) = case.split_once('@').unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let verdicts = report["verdicts"].as_array().unwrap();
    let found: Vec<_> = verdicts
        .iter()
        .filter(|verdict| {
            let subject = &verdict["subject"]["case"];
            subject["kernel"] == kernel && subject["shape"] == shape && verdict["gate"] == gate
        })
        .map(|verdict| (text(&verdict["outcome"]), text(&verdict["message"])))
        .collect();
    assert_eq!(found.len(), 1, "{case} {gate}: {found:?}");
    found[0].clone()
}

/// Makes a project with the kernel of `tests/cases/simulator/swap`.
fn swap() -> tempfile::TempDir {
    let dir = copy_of("tests/cases/simulator/swap/base");
    let source = root().join("tests/fixtures/kernels/swap.cu");
    fs::copy(source, dir.path().join("swap.cu")).unwrap();
    dir
}

const COPY: &str = "copy@small";
const FINDINGS: &str = "memory and races";

/// Returns the simulated launches, in the order of the record.
fn simulations(dir: &Path) -> Vec<Value> {
    let record: Value =
        serde_json::from_str(&fs::read_to_string(dir.join(RECORD)).unwrap()).unwrap();
    let evidence = record["record"]["evidence"].as_array().unwrap();
    evidence
        .iter()
        .filter_map(|piece| piece.get("simulation"))
        .cloned()
        .collect()
}

#[test]
fn a_right_kernel_is_checked_and_counted_to_the_same_bits_each_time() {
    let project = project();
    let dir = project.path();
    let said = simulate(dir, &["copy"], 0);
    assert!(said.contains(" · simulator · no GPU · nvcc 13."), "{said}");
    for gate in [
        "max_err <= 0",
        "finite",
        "written",
        "inputs intact",
        FINDINGS,
    ] {
        assert_eq!(verdict(dir, COPY, gate).0, "pass", "{gate}");
    }
    // One launch must not be reported as eight, nor as proof of what it cannot show.
    let (outcome, reason) = verdict(dir, COPY, "deterministic");
    assert_eq!(outcome, "skipped");
    assert!(reason.contains("launched once for each seed"), "{reason}");
    let record = fs::read_to_string(dir.join(RECORD)).unwrap();
    assert_eq!(record.matches("\"launches\":1,").count(), 2, "two seeds");

    let first = simulations(dir);
    assert_eq!(first.len(), 2);
    // 1000 floats of 4 bytes, each read once, are 125 sectors of 32 bytes.
    let counted = &first[0]["facts"]["got"]["counters"]["global_load_sectors"];
    assert_eq!(counted.as_u64(), Some(125));
    simulate(dir, &["copy"], 0);
    assert_eq!(simulations(dir), first);
}

/// The text that a kernel prints is next to the failure. In the JSON it is there even if nothing failed.
#[test]
fn output_of_a_kernel_is_reported() {
    let project = swap();
    let dir = project.path();
    let source = dir.join("swap.cu");
    let text = "#include <cstdio>\n".to_owned() + &fs::read_to_string(&source).unwrap();
    fs::write(&source, text).unwrap();
    edit(
        &source,
        "    y[start + t] =",
        "    if (start + t == 3) printf(\"y[%d] is %.1f\\n::error::no\\n\", t, 0.5f * t);\n    y[start + t] =",
    );
    let printed = || {
        let report: Value = serde_json::from_str(&report(dir)).unwrap();
        let notes = report["notes"].as_array().unwrap().clone();
        let all: Vec<_> = notes
            .iter()
            .filter_map(|note| note.get("printed"))
            .collect();
        assert_eq!(all.len(), 1, "{notes:?}");
        assert_eq!(all[0]["text"], "y[3] is 1.5\n::error::no\n");
        assert_eq!(all[0]["left_out"], 0);
    };
    let said = simulate(dir, &[], 0);
    printed();
    assert!(!said.contains("y[3] is"), "{said}");
    edit(&source, "= staged[t];", "= 0.5f + staged[t];");
    let said = simulate(dir, &[], 1);
    printed();
    assert!(
        said.contains("         | y[3] is 1.5\n         | ::error::no\n"),
        "{said}"
    );
}

#[test]
fn a_launcher_is_unsupported_and_never_a_pass() {
    let dir = copy_of("examples/launcher");
    let said = simulate(dir.path(), &[], 0);
    for gate in ["finite", FINDINGS, "counters +0%", "max_err <= 1.000e-5"] {
        let (outcome, reason) = verdict(dir.path(), "center_reversed@small", gate);
        assert_eq!(outcome, "unsupported", "{gate}");
        assert!(reason.starts_with("a launcher is host code"), "{reason}");
    }
    assert!(said.contains("unsupported"), "{said}");
}

/// Gates can rest on counters only as far as the simulator was compared with hardware.
#[test]
fn an_uncoalesced_load_fails_against_its_baseline() {
    let project = swap();
    let dir = project.path();
    simulate(dir, &[], 0);
    let (outcome, reason) = verdict(dir, "k@small", "counters +0%");
    assert_eq!(outcome, "skipped");
    assert!(reason.starts_with("new: no baseline yet"), "{reason}");
    let accepted = stdout(&run(dir, &["baseline", "update"], 0));
    assert!(
        accepted.contains("k/default@small global_load_sectors: 64 (new)"),
        "{accepted}"
    );
    simulate(dir, &[], 0);
    assert_eq!(verdict(dir, "k@small", "counters +0%").0, "pass");
    let shown = stdout(&run(dir, &["baseline", "show"], 0));
    assert!(
        shown.contains("k/default counters [sm_90, nvcc 13."),
        "{shown}"
    );

    // A warp takes a half of each sector of 32 bytes, so the same bytes need twice the sectors.
    fs::rename(dir.join("gatekeeper-out"), dir.join("base")).unwrap();
    edit(
        &dir.join("swap.cu"),
        "    staged[t ^ 32] = x[start + (t ^ 32)];",
        "    const int s = t % 8 * 32 + t / 8;\n    staged[s] = __ldg(x + start + s);",
    );
    simulate(dir, &[], 1);
    assert_eq!(gates_that_failed(dir), ["counters +0%"]);
    let (_, reason) = verdict(dir, "k@small", "counters +0%");
    // The load is in a header of the toolkit. The reported line is the user's, which calls it.
    assert!(
        reason.contains("global_load_sectors 64 -> 128, +100.0 % (most at swap.cu:"),
        "{reason}"
    );
    let report = fs::read_to_string(dir.join("gatekeeper-out/report.md")).unwrap();
    assert!(report.contains("### Counters that changed"), "{report}");
    // A comparison of two records does not let it pass either.
    run(dir, &["compare", "base/record.json", RECORD], 1);
}
