//! Tests `run --base REF`: what a change does to times, measured against the revision before it, and to gates.

use super::*;
use common::{commit_all, git};

/// Makes a project under git, with one commit.
pub fn committed() -> tempfile::TempDir {
    let project = project();
    let dir = project.path();
    // All tests share one limit, which can only be checked against a base.
    edit(
        &dir.join("gates.yaml"),
        "      p50: +2%\n",
        "      p50: [+2%, +0.5% of base]\n",
    );
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    commit_all(dir);
    project
}

/// Returns the outcome and the reason of a gate on the kernel that is timed.
pub fn verdict_on_dial(dir: &Path, asked: &str) -> (String, String) {
    let (_, outcome, reason) = verdicts(dir, "dial")
        .into_iter()
        .find(|(gate, ..)| gate == asked)
        .unwrap();
    (outcome, reason)
}

fn slow(dir: &Path, dial: u32) {
    let dial = format!("#define DIAL {dial}");
    edit(&dir.join("dial.cu"), "#define DIAL 1000", &dial);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn one_per_cent_slower_than_the_base() {
    let project = committed();
    let dir = project.path();
    slow(dir, 1011);
    let output = gate(dir, &["dial", "--base", "HEAD", "--require-gpu"], 1);
    let said = unwrapped(&stdout(&output));
    assert!(
        said.contains(" % (+") && said.contains("limit +0.5 % of the base"),
        "{said}"
    );
    assert_eq!(failed(dir, "dial"), ["p50 +0.5% of base"]);
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn other_code_as_fast_as_the_base() {
    let project = committed();
    let dir = project.path();
    // There is one more instruction after the loop, in a kernel of 30 us.
    edit(
        &dir.join("dial.cu"),
        "if (i < n) y[i] = value;",
        "if (i < n) y[i] = value + zero;",
    );
    gate(dir, &["dial", "--base", "HEAD", "--require-gpu"], 0);
    let (outcome, reason) = verdict_on_dial(dir, "p50 +0.5% of base");
    assert_eq!(outcome, "pass");
    assert!(reason.ends_with("limit +0.5 % of the base"), "{reason}");
}

/// The run is green if only the name is new, and red if the code is slower, too.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_slower_kernel_is_slower_under_a_new_name() {
    let project = committed();
    let dir = project.path();
    edit(&dir.join("gates.yaml"), "  dial:\n", "  knob:\n");
    let against_base = |code| {
        let args = ["knob", "--base", "HEAD", "--require-gpu"];
        let said = stdout(&gate(dir, &args, code));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(against_base(0).contains("renamed: kernel dial -> knob"));
    slow(dir, 1100);
    assert!(against_base(1).contains("✗ knob/default@filled "));
}

#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn unchanged_cases_are_not_timed() {
    let project = committed();
    let dir = project.path();
    edit(
        &dir.join("dial.cu"),
        "// x, y ",
        "// Nothing but words. x, y ",
    );
    gate(dir, &["dial", "--base", "HEAD", "--require-gpu"], 0);
    let (outcome, reason) = verdict_on_dial(dir, "p50 +2%");
    assert_eq!(outcome, "pass");
    assert_eq!(
        reason,
        "unchanged since HEAD: same machine code, launch and arguments"
    );
}

/// Two libraries with the same names are in one process, and each side must run its own.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_launcher_slower_than_the_bases() {
    let project = project();
    let dir = project.path();
    let host = "\nextern \"C\" void launch(const float* x, float* y, int n, int rounds, float one, float zero, \
                cudaStream_t stream)\n{\n    dial<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, rounds, one, zero);\n}\n";
    let source = std::fs::read_to_string(dir.join("dial.cu")).unwrap();
    std::fs::write(dir.join("dial.cu"), source + host).unwrap();
    let gates = dir.join("gates.yaml");
    edit(
        &gates,
        "    entry: dial\n",
        "    launcher: {function: launch, launches: [{entry: dial}]}\n",
    );
    edit(&gates, "{f32: 1}, {f32: 0}]", "{f32: 1}, {f32: 0}, stream]");
    edit(
        &gates,
        "    launch: {grid: [\"ceil_div(N, 256)\"], block: [256]}\n    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: [",
        "    reference: {unary: {x: x, out: y, op: copy}}\n    gates:\n      registers: [",
    );
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    commit_all(dir);
    slow(dir, 1030);
    gate(dir, &["dial", "--base", "HEAD", "--require-gpu"], 1);
    assert_eq!(failed(dir, "dial"), ["cycles +2%", "p50 +2%"]);
}

/// The base's kernel faults while it is timed. Head is not blamed, and does not pass either.
#[test]
#[ignore = "needs an NVIDIA GPU: cargo test -- --ignored"]
fn a_base_that_faults() {
    let project = project();
    let dir = project.path();
    git(dir, &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(dir.join(".gitignore"), "gatekeeper-out/\n").unwrap();
    edit(
        &dir.join("dial.cu"),
        "if (i < n) y[i] = value;",
        "if (i < n) y[i + 0x40000000] = value;",
    );
    commit_all(dir);
    edit(
        &dir.join("dial.cu"),
        "if (i < n) y[i + 0x40000000] = value;",
        "if (i < n) y[i] = value;",
    );
    gate(dir, &["dial", "--base", "HEAD", "--require-gpu"], 3);
    let (outcome, reason) = verdict_on_dial(dir, "p50 +2%");
    assert_eq!(outcome, "inconclusive");
    assert!(reason.starts_with("the base revision broke: "), "{reason}");
}
