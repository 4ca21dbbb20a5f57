//! Findings that need no GPU: what PTXAS reports, what nvcc refuses.

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

/// Registers have no addresses, so an array that is indexed by data goes to the stack. Still right: the last
/// of the eight writes is where is read, which the compiler cannot know.
fn with_an_array_of_32_bytes(dir: &Path) {
    edit(
        &dir.join("copy.cu"),
        "    if (i < n) y[i] = staged[255 - threadIdx.x];\n",
        "    if (i >= n) return;\n    float kept[8];\n    #pragma unroll 1\n    for (int k = 0; k < 8; ++k)\n        \
         kept[(k * n) & 7] = k == 7 ? staged[255 - threadIdx.x] : x[k];\n    \
         y[i] = kept[(7 * n + blockDim.y - 1) & 7];\n",
    );
}

#[test]
fn thirty_two_bytes_of_stack() {
    let project = project();
    let dir = project.path();
    with_an_array_of_32_bytes(dir);
    fails(dir, &["copy"], COPY, "stack 32 B, limit <= 0 B");
    // Stack is not spill.
    assert_eq!(failed(dir, "copy"), ["stack <= 0 B"]);
}

#[test]
fn spilled_registers_break_their_limit() {
    let project = project();
    let dir = project.path();
    // 32 registers for each of 2048 threads, and 64 values that have to stay alive over a barrier.
    edit(
        &dir.join("copy.cu"),
        "__global__ void copy",
        "__global__ void __launch_bounds__(1024, 2) copy",
    );
    edit(
        &dir.join("copy.cu"),
        "    __syncthreads();\n",
        "    float kept[64];\n    #pragma unroll\n    \
         for (int k = 0; k < 64; ++k) kept[k] = x[(i + k * 7) % n];\n    __syncthreads();\n    \
         #pragma unroll\n    for (int k = 0; k < 64; ++k)\n        \
         if (kept[k] != kept[(k * 5 + 3) % 64] && n < 0) y[k] = kept[k] * kept[(k + 1) % 64];\n",
    );
    fails(dir, &["copy"], COPY, "B, limit <= 0 B");
    assert_eq!(failed(dir, "copy"), ["spills <= 0 B", "stack <= 0 B"]);
}

#[test]
fn shared_memory_over_the_limit_includes_dynamic_memory() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "block: [256]}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32",
        "block: [256], dynamic_shared: 4}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32",
    );
    fails(
        dir,
        &["copy"],
        COPY,
        "shared 1028 B, limit <= 1 KiB by gates.yaml:22",
    );
    assert_eq!(failed(dir, "copy"), ["shared <= 1 KiB"]);
}

#[test]
fn occupancy_below_the_limit() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "block: [256]}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32\n      shared: 1KiB",
        "block: [256], dynamic_shared: 60000}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: 32\n      occupancy: 50%",
    );
    // 3 blocks of 8 warps in 227 KiB, of 64 warps that the multiprocessor holds.
    fails(
        dir,
        &["copy"],
        COPY,
        "occupancy 37.5 %, limit >= 50 % by gates.yaml:22",
    );
    assert_eq!(failed(dir, "copy"), ["occupancy >= 50 %"]);
}

#[test]
fn a_macro_without_effect() {
    let project = project();
    let dir = project.path();
    edit(
        &dir.join("gates.yaml"),
        "      default: {}\n",
        "      default: {}\n      dead: {define: {UNUSED_MACRO: 1}}\n",
    );
    fails(
        dir,
        &["copy"],
        "copy/dead [sm_90]",
        "no effect: same machine code, launches and arguments as `default`",
    );
    assert_eq!(failed(dir, "copy"), ["has effect"]);
    // Its line numbers are other ones now; what it does is not.
    edit(
        &dir.join("copy.cu"),
        "#ifndef",
        "#if UNUSED_MACRO\n\n#endif\n#ifndef",
    );
    gate(dir, &["copy"], 1);
    assert_eq!(failed(dir, "copy"), ["has effect"]);
    // And alive, it holds.
    edit(
        &dir.join("copy.cu"),
        "y[i] = staged",
        "y[i] = UNUSED_MACRO + staged",
    );
    // But for its result, which is another.
    gate(dir, &["copy"], 1);
    assert!(!failed(dir, "copy").contains(&"has effect".to_owned()));
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
fn an_entry_that_is_not_there() {
    let project = project();
    let dir = project.path();
    edit(&dir.join("gates.yaml"), "entry: copy\n", "entry: copi\n");
    fails(
        dir,
        &["copy"],
        COPY,
        "entry not found: entry `copi` of copy.cu: no such entry; there is only `copy`",
    );
    // No line of the kernel is at fault.
    let again = run(dir, &["judge", common::RECORD, "--format", "github"], 1);
    let github = stdout(&again);
    assert!(github.contains("::error file=gates.yaml,line="), "{github}");
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
