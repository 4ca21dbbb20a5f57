//! Acceptances through the real binary: an intended regression passes under a name and until a day.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, after_a_run, edit, refused, run, stdout};
use std::fs;
use std::path::Path;

/// `copy` needs more registers than it may, by gates.yaml.
fn broken() -> tempfile::TempDir {
    let project = after_a_run(&["copy"]);
    let gates = project.path().join("gates.yaml");
    edit(&gates, "registers: 32", "registers: 8");
    run(project.path(), &["run", "copy"], 1);
    project
}

fn accept(dir: &Path, case: &str, limit: &str, until: &str) {
    fs::create_dir_all(dir.join("baselines")).unwrap();
    let text = format!(
        "version: 1
accepted:
  - case: {case}
    metric: registers
    limit: {limit}
    reason: two loads more in flight
    by: jane@example.org
    until: {until}
"
    );
    fs::write(dir.join("baselines/accepted.yaml"), text).unwrap();
}

/// A report with its lines put together again.
fn said(dir: &Path, args: &[&str], code: i32) -> String {
    let said = stdout(&run(dir, args, code));
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn an_accepted_regression_passes_and_every_report_lists_it() {
    let project = broken();
    let dir = project.path();
    accept(dir, "copy/default", "12", "2999-12-31");
    let text = said(dir, &["run", "copy"], 0);
    let reason = "registers 10, limit <= 8; `registers <= 12` accepted by jane@example.org until 2999-12-31: two loads more in flight";
    assert!(
        text.contains(&format!(
            "accepted copy/default [sm_90] registers <= 8: {reason} (baselines/accepted.yaml:3)"
        )),
        "{text}"
    );
    assert!(text.contains("broken and accepted"), "{text}");
    let reported = |format: &str| stdout(&run(dir, &["judge", RECORD, "--format", format], 0));
    assert!(reported("markdown").contains("### Broken, and accepted\n\n- copy/default [sm_90] "));
    assert!(reported("junit").contains("<system-out>accepted: registers 10"));
    let annotation = reported("github");
    assert!(
        annotation.starts_with("::warning file=baselines/accepted.yaml,line=3,title=accepted"),
        "{annotation}"
    );
    let json: serde_json::Value = serde_json::from_str(&reported("json")).unwrap();
    assert_eq!(json["accepted"][0]["message"], reason);
    let checked = said(dir, &["validate"], 0);
    assert!(
        checked.ends_with("gates, 1 accepted in baselines/accepted.yaml"),
        "{checked}"
    );
}

#[test]
fn too_little_expired_unused_and_of_nothing_each_fail_for_their_own_reason() {
    let project = broken();
    let dir = project.path();
    for (case, limit, until, says) in [
        (
            "copy/default",
            "9",
            "2999-12-31",
            "registers 10, limit <= 8; worse than `registers <= 9`, which jane@example.org accepted",
        ),
        (
            "copy/default",
            "12",
            "2020-01-01",
            "✗ copy/default [sm_90] acceptance of registers <= 12 [acceptance-expired] expired: jane@example.org accepted this until 2020-01-01, and this run is from ",
        ),
        (
            "copy/gone",
            "12",
            "2999-12-31",
            "✗ copy/gone@* acceptance of registers <= 12 [acceptance-of-nothing] gates.yaml has no `copy/gone`",
        ),
        (
            "copy/default",
            "\"+5%\"",
            "2999-12-31",
            "acceptance of registers +5% [acceptance-without-gate] no gate on `copy/default` has a limit of this kind",
        ),
    ] {
        accept(dir, case, limit, until);
        let text = said(dir, &["run", "copy"], 1);
        assert!(text.contains(says), "{says}: {text}");
    }
    accept(dir, "copy/default", "12", "2999-12-31");
    run(dir, &["run", "copy"], 0);
    edit(&dir.join("gates.yaml"), "registers: 8", "registers: 32");
    let text = said(dir, &["run", "copy"], 1);
    let unused = "✗ copy/default [sm_90] acceptance of registers <= 12 [acceptance-unused] unused: every gate holds without this acceptance, by jane@example.org until 2999-12-31; remove it by baselines/accepted.yaml:3";
    assert!(text.contains(unused), "{text}");
    // A kernel that was not run is unknown.
    run(dir, &["run", "dial"], 0);
}

/// Against a base revision an acceptance that the change adds is a loosened gate, until somebody allows it.
#[test]
fn acceptances_that_a_change_adds_are_loosened() {
    let project = broken();
    let dir = project.path();
    let git = |args: &[&str]| {
        let who = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let output = std::process::Command::new("git")
            .arg("-C")
            .arg(dir)
            .args([&who, args].concat())
            .output()
            .unwrap();
        assert!(output.status.success(), "{args:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "base"]);
    accept(dir, "copy/default", "12", "2999-12-31");
    let says = "copy/default [sm_90]: without an acceptance: head accepts registers <= 12, by jane@example.org until 2999-12-31 (baselines/accepted.yaml:3)";
    let args = ["run", "copy", "--base", "HEAD"];
    let text = said(dir, &args, 1);
    assert!(text.contains(says) && text.contains("LOOSENED"), "{text}");
    let text = said(dir, &[&args[..], &["--allow-loosened"]].concat(), 0);
    assert!(text.contains(says), "{text}");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "-m", "accepted"]);
    let text = said(dir, &["run", "copy", "--base", "HEAD"], 0);
    assert!(!text.contains("LOOSENED"), "{text}");
    assert!(text.contains("broken and accepted"), "{text}");
}

#[test]
fn a_file_that_is_wrong_is_refused_with_its_place() {
    let project = common::project();
    let dir = project.path();
    accept(dir, "copy/default", "12", "2026-13-01");
    let says = "error: baselines/accepted.yaml:8:12: accepted[0].until: `2026-13-01` is not a date\n  \
                help: write the last day on which it holds: 2027-01-31\n";
    refused(dir, &["run", "--provision"], says);
    refused(dir, &["validate"], says);
    accept(dir, "copy/gone", "12", "2026-12-01");
    refused(
        dir,
        &["validate"],
        "error: baselines/accepted.yaml:3: `copy/gone` matches no case of gates.yaml\n  \
         help: examples: sdpa_fp8, sdpa_fp8/stage2, sdpa_fp8/stage*@mission\n",
    );
    // Nothing else belongs there.
    fs::rename(
        dir.join("baselines/accepted.yaml"),
        dir.join("baselines/accepted.yml"),
    )
    .unwrap();
    let output = run(dir, &["run", "--provision"], 2);
    assert!(common::stderr(&output).contains("not a baseline"));
}

const SWAP: &str = "version: 1
architectures: [sm_90]
kernels:
  k:
    source: swap.cu
    entry: swap
    shapes: {small: {N: 512}}
    seeds: 1
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}]
    launch: {grid: [N / 256], block: [256]}
    reference: {unary: {x: x, out: y, op: copy}}
    gates: {max_err: 0}
";

fn accept_finding(dir: &Path, line: &str) {
    fs::create_dir_all(dir.join("baselines")).unwrap();
    let text = format!(
        "version: 1
accepted:
  - case: k
    finding: {{kind: shared_race, file: \"swap.cu\", line: {line:?}}}
    reason: warps keep step so far
    by: jane@example.org
    until: 2999-12-31
"
    );
    fs::write(dir.join("baselines/accepted.yaml"), text).unwrap();
}

/// Code of others with a race goes under gate today: the race is a note, the next one is red, and the acceptance
/// goes with what it is of.
#[test]
fn a_known_race_passes_and_a_new_one_beside_it_does_not() {
    let project = tempfile::tempdir().unwrap();
    let dir = project.path();
    let source = dir.join("swap.cu");
    fs::copy(
        common::root().join("tests/fixtures/kernels/swap.cu"),
        &source,
    )
    .unwrap();
    fs::write(dir.join("gates.yaml"), SWAP).unwrap();
    // Each thread writes again the value that stood there: without the barrier the values are right, the order is not.
    let again = |mask: u32| format!("    staged[t ^ {mask}] = x[start + (t ^ {mask})];\n");
    edit(&source, "    staged[t ^ 64] = 0;\n", &again(64));
    let right = fs::read_to_string(&source).unwrap();
    let barrier = "    y[start + t] = staged[t];\n    __syncthreads();\n";
    let racy = barrier.replace("    __syncthreads();\n", "");
    edit(&source, barrier, &racy);
    let args = ["run", "--provision", "--device", "sim"];
    let text = said(dir, &args, 1);
    assert!(text.contains("FAIL: 1 problem (1 gate), "), "{text}");
    // The report says what to write.
    let line = "y[start + t] = staged[t];";
    let entry = format!("`finding: {{kind: shared_race, file: \"swap.cu\", line: \"{line}\"}}`");
    assert!(text.contains(&entry), "{text}");

    accept_finding(dir, line);
    // Wherever the line is, and however it is indented.
    let moved = fs::read_to_string(&source).unwrap();
    let moved = format!(
        "// One line more.\n{}",
        moved.replace("    y[start", "\ty[start")
    );
    fs::write(&source, &moved).unwrap();
    let text = said(dir, &args, 0);
    let accepted = "accepted k/default@small memory and races: shared_race at swap.cu:11 (512 times) accepted by jane@example.org until 2999-12-31: warps keep step so far (baselines/accepted.yaml:3)";
    assert!(text.contains(accepted), "{text}");
    assert!(text.contains("1 of them broken and accepted"), "{text}");
    let judged = said(dir, &["judge", RECORD], 0);
    assert!(judged.contains(accepted), "{judged}");

    edit(&source, &again(64), &(again(64) + &again(96)));
    let text = said(dir, &args, 1);
    let told = "race on shared memory [findings]";
    let (_, told) = text.split_once(told).unwrap();
    let (told, _) = told.split_once("$ gatekeeper").unwrap();
    assert!(told.contains("13 │") && told.contains("12 │"), "{told}");
    assert!(!told.contains("11 │"), "{told}");

    // A wrong value is no finding, and stays red.
    fs::write(
        &source,
        moved.replace("= staged[t];", "= 0.5f + staged[t];"),
    )
    .unwrap();
    accept_finding(dir, "y[start + t] = 0.5f + staged[t];");
    let text = said(dir, &args, 1);
    assert!(text.contains("FAIL: 1 problem (1 gate), "), "{text}");
    assert!(text.contains("max_err <= 0 [beyond-limit]"), "{text}");

    fs::write(&source, &right).unwrap();
    accept_finding(dir, line);
    let text = said(dir, &args, 1);
    let gone = "✗ k/default@small acceptance of shared_race in swap.cu at `y[start + t] = staged[t];` [accepted-finding-gone] unused: the simulator does not find this";
    assert!(text.contains(gone), "{text}");
    fs::remove_file(dir.join("baselines/accepted.yaml")).unwrap();
    said(dir, &args, 0);
}
