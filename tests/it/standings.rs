//! Variants that are kept to fail, that fall back on another, and that miss a target: from outside, in the simulator.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, edit, git, project, report, run, stdout};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Each thread stages the element of another, which needs the barrier.
const MIRRORED: &str = "// y = x through shared memory, mirrored.
#ifndef RACY
#define RACY 0
#endif

extern \"C\" __global__ void copy(const float* x, float* y, int n)
{
    __shared__ float staged[256];
    const int first = blockIdx.x * 256, at = 255 - threadIdx.x;
    if (first + at < n) staged[at] = x[first + at];
#if !RACY
    __syncthreads();
#endif
    if (first + threadIdx.x < n) y[first + threadIdx.x] = staged[threadIdx.x];
}
";

/// The project with that kernel, and a variant of it beside `default`.
fn with_variant(variant: &str) -> tempfile::TempDir {
    let project = project();
    let dir = project.path();
    fs::write(dir.join("copy.cu"), MIRRORED).unwrap();
    edit(
        &dir.join("gates.yaml"),
        "      default: {}\n",
        &format!("      default: {{}}\n      {variant}\n"),
    );
    project
}

const KEPT: &str =
    "other: {define: {RACY: 1}, expect: {fail: [memory and races, finite, written, max_err]}}";

/// With a second barrier where there was none: right, and other code than that of `default`.
fn mend(dir: &Path) {
    edit(
        &dir.join("copy.cu"),
        "#if !RACY\n    __syncthreads();\n#endif\n",
        "#if RACY\n    __syncthreads();\n#endif\n    __syncthreads();\n",
    );
}

/// The output, line breaks aside; judged again from the record it comes to the same.
fn simulated(dir: &Path, args: &[&str], code: i32) -> String {
    let all = ["run", "--provision", "--device", "sim", "copy"];
    let output = run(dir, &[&all, args].concat(), code);
    let again = run(dir, &["judge", RECORD, "--format", "json"], code);
    assert_eq!(stdout(&again), report(dir));
    let said = stdout(&output);
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Outcome and code of each gate of `other` that did not pass.
fn of_other(dir: &Path) -> Vec<String> {
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| {
            let subject = &verdict["subject"];
            subject["case"]["variant"] == "other" || subject["unit"]["variant"] == "other"
        })
        .filter(|verdict| verdict["outcome"] != "pass" && verdict["outcome"] != "skipped")
        .map(|verdict| format!("{} {}", text(&verdict["outcome"]), text(&verdict["code"])))
        .collect()
}

#[test]
fn a_variant_kept_to_fail_is_red_once_it_holds() {
    let project = with_variant(KEPT);
    let dir = project.path();
    let said = simulated(dir, &[], 0);
    assert!(said.contains("failed as expected"), "{said}");
    let open = of_other(dir);
    assert!(open.len() >= 2, "{open:?}");
    assert!(
        open.iter().all(|line| line == "expected expected-failure"),
        "{open:?}"
    );
    run(dir, &["baseline", "update"], 0);
    let has_baselines = |variant: &str| dir.join("baselines/copy").join(variant).exists();
    assert_eq!(["default", "other"].map(has_baselines), [true, false]);

    mend(dir);
    let said = simulated(dir, &[], 1);
    assert_eq!(of_other(dir), ["fail expected-failure-passed"], "{said}");
}

#[test]
fn another_failure_than_the_expected_one_is_red() {
    let project = with_variant("other: {define: {RACY: 1}, expect: {fail: [max_err]}}");
    let dir = project.path();
    simulated(dir, &[], 1);
    let open = of_other(dir);
    assert!(
        open.contains(&"fail failed-otherwise".to_owned()),
        "{open:?}"
    );
    assert!(open.contains(&"fail findings".to_owned()), "{open:?}");

    edit(
        &dir.join("copy.cu"),
        "#if !RACY",
        "#if RACY\n#error none\n#endif\n#if !RACY",
    );
    simulated(dir, &[], 1);
    let open = of_other(dir);
    assert!(
        open.contains(&"fail failed-otherwise".to_owned()),
        "{open:?}"
    );
    assert!(
        open.contains(&"fail does-not-compile".to_owned()),
        "{open:?}"
    );
}

#[test]
fn a_change_that_gives_a_variant_up_is_a_loosened_gate() {
    let project = with_variant("other: {define: {RACY: 1}}");
    let dir = project.path();
    mend(dir);
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join(".gitignore"), "gatekeeper-out\n").unwrap();
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "right"]);
    fs::write(dir.join("copy.cu"), MIRRORED).unwrap();
    edit(&dir.join("gates.yaml"), "other: {define: {RACY: 1}}", KEPT);
    let said = simulated(dir, &["--base", "HEAD"], 1);
    let says = "copy/other@*: every gate holds: head expects it to fail memory and races, finite, written or max_err";
    assert!(said.contains(says), "{said}");
    simulated(dir, &["--base", "HEAD", "--allow-loosened"], 0);
}

#[test]
fn falls_back_on_a_variant_that_holds_if_allowed() {
    let project = with_variant("other: {define: {RACY: 1}, fallback: default}");
    let dir = project.path();
    simulated(dir, &[], 1);
    let failed = of_other(dir);
    assert!(failed.contains(&"fail findings".to_owned()), "{failed:?}");

    let said = simulated(dir, &["--allow-fallback"], 0);
    let open = of_other(dir);
    assert!(
        open.iter().all(|line| line == "replaced fell-back"),
        "{open:?}"
    );
    assert_eq!(open.len(), failed.len());
    let says = "falls back on `default`, which holds all of its own gates: not finite with seed 1";
    assert!(said.contains(says), "{said}");

    // Nothing stands on what is wrong itself.
    edit(&dir.join("copy.cu"), "#if !RACY", "#if 0");
    edit(
        &dir.join("copy.cu"),
        "y[first + threadIdx.x] =",
        "y[first + threadIdx.x] = RACY +",
    );
    simulated(dir, &["--allow-fallback"], 1);
    let open = of_other(dir);
    assert!(!open.contains(&"replaced fell-back".to_owned()), "{open:?}");
}

#[test]
fn targets_are_reported_and_block_nothing() {
    let target = "{registers: 1, max_err: {small: 0}, p50: {small: \"<= 0.9 * default.p50\"}, because: it has to hold an index}";
    let project = with_variant(&format!("other: {{define: {{RACY: 1}}, target: {target}}}"));
    let dir = project.path();
    mend(dir);
    let said = simulated(dir, &["-v"], 0);
    let missed = "missed copy/other [sm_90] registers <= 1:";
    assert!(
        said.contains(missed) && said.contains("because it has to hold an index"),
        "{said}"
    );
    assert!(
        said.contains("not measured: 1 target of 1 case (copy/other@small)"),
        "{said}"
    );
    let report: Value = serde_json::from_str(&report(dir)).unwrap();
    let standings: Vec<_> = report["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["standing"].as_str().unwrap())
        .collect();
    assert_eq!(standings, ["missed", "met", "not_measured"]);
    assert_eq!(report["counts"]["fail"], 0);
}
