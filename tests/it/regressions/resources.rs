//! Findings that need no GPU: what PTXAS reports, what nvcc refuses. More of them are in `tests/cases/resources`.

use super::*;

const COPY: &str = "copy/default [sm_90]";

#[test]
fn one_register_over_the_limit() {
    let project = project();
    let dir = project.path();
    gate(dir, &["copy"], 0);
    let report: Value = serde_json::from_str(&common::report(dir)).unwrap();
    let registers = report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|verdict| verdict["metric"] == "registers")
        .and_then(|verdict| verdict["measured"].as_f64())
        .unwrap();
    let limit = registers - 1.0;
    edit(
        &dir.join("gates.yaml"),
        "registers: 32\n",
        &format!("registers: {registers}\n"),
    );
    gate(dir, &["copy"], 0);
    edit(
        &dir.join("gates.yaml"),
        &format!("registers: {registers}\n"),
        &format!("registers: {limit}\n"),
    );
    let reason = format!("registers {registers}, limit <= {limit} by gates.yaml:21");
    fails(dir, &["copy"], COPY, &reason);
    assert_eq!(failed(dir, "copy"), [format!("registers <= {limit}")]);
}

#[test]
fn a_compile_error_is_told_once_with_its_line() {
    let project = project();
    let dir = project.path();
    edit(&dir.join("copy.cu"), "__syncthreads();", "__syncthread();");
    let output = fails(
        dir,
        &[],
        COPY,
        "does not compile: copy.cu(13): error: identifier \"__syncthread\" is undefined",
    );
    let said = stdout(&output);
    assert_eq!(said.matches("copy.cu(13): error").count(), 1, "{said}");
    // Everything that shows lines shows the kernel's.
    assert!(
        said.contains("\n    copy.cu\n    13 │ __syncthread();\n"),
        "{said}"
    );
    let as_format = |format: &str| {
        let again = run(dir, &["judge", common::RECORD, "--format", format], 1);
        stdout(&again)
    };
    let github = as_format("github");
    assert!(github.contains("::error file=copy.cu,line=13,"), "{github}");
    let sarif: Value = serde_json::from_str(&as_format("sarif")).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let result = results
        .iter()
        .find(|result| result["ruleId"] == "does-not-compile")
        .unwrap();
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "copy.cu");
    assert_eq!(place["region"]["startLine"], 13);
    let page = as_format("html");
    let problem = page.split_once("class=\"frame\"").unwrap().1;
    let (frame, _) = problem.split_once("does not compile").unwrap();
    assert!(frame.contains("copy.cu"), "{frame}");
    assert!(frame.contains("__syncthread();"), "{frame}");
    // The rest goes on.
    assert!(!verdicts(dir, "dial").is_empty());
    assert_eq!(failed(dir, "dial"), Vec::<String>::new());
    for gate in ["built", "registers <= 32", "stack <= 0 B"] {
        assert!(failed(dir, "copy").contains(&gate.to_owned()));
    }
}

#[test]
fn a_limit_against_the_baseline() {
    let project = project();
    let dir = project.path();
    gate(dir, &["dial"], 0);
    common::gatekeeper()
        .current_dir(dir)
        .args(["baseline", "update"])
        .output()
        .unwrap();
    gate(dir, &["dial"], 0);
    // More alive at once than agreed, and still within the absolute limit.
    edit(
        &dir.join("dial.cu"),
        "value = fmaf(value, one, zero);",
        "value = fmaf(value, one, zero) + (blockDim.y > 7 ? sinf(value * turn) : 0.0f);",
    );
    fails(dir, &["dial"], "dial/default [sm_90]", "registers");
    assert_eq!(
        failed(dir, "dial").first().map(String::as_str),
        Some("registers +0%")
    );
}
