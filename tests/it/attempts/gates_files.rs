//! Files of gates.yaml that are large, or whose sources lead elsewhere; the other attempts are in
//! `tests/cases/gates-files`.

use crate::common::{commit_all, copy_of, edit, git, refused, run, stderr};
use std::fs;
use std::path::Path;

/// The sources of `tests/cases/gates-files`, with this gates.yaml.
fn project(gates: &str) -> tempfile::TempDir {
    let dir = copy_of("tests/fixtures/gates-files");
    fs::write(dir.path().join("gates.yaml"), gates).unwrap();
    dir
}

fn file(kernel: &str) -> String {
    format!(
        "version: 1\narchitectures: [sm_90]\nkernels:\n  k:\n    source: k.cu\n    seeds: 1\n{kernel}"
    )
}

/// The exit code is 2, and these stand in the message.
fn is_refused(dir: &Path, parts: &[&str]) {
    let output = run(dir, &["validate"], 2);
    let said = stderr(&output);
    for part in parts {
        assert!(said.contains(part), "{part} is not in {said}");
    }
}

const SCALE: &str = "    entry: scale
    shapes: {small: {N: 100}}
    tensors:
      x: {type: f32, shape: [N]}
      y: {role: out, type: f32, shape: [N]}
    args: [{tensor: x}, {tensor: y}, {i32: N}]
    launch: {grid: [1], block: [128]}
    reference: {binary: {a: x, b: x, out: y, op: add}}
    gates: {max_err: 0}
";

/// Written values may be many; a short text that aliases make large may not.
#[test]
fn a_file_may_have_as_many_values_as_its_text() {
    let values = vec!["1"; 60_000].join(",");
    let tensor = format!("x: {{type: f32, shape: [N], fill: {{values: [{values}]}}}}");
    let kernel = SCALE
        .replace("x: {type: f32, shape: [N]}", &tensor)
        .replace("N: 100", "N: 60000");
    run(project(&file(&kernel)).path(), &["validate"], 0);
    // No file has over a million values for a kernel under test.
    let values = vec!["1"; 1_100_000].join(",");
    let tensor = format!("x: {{type: f32, shape: [N], fill: {{values: [{values}]}}}}");
    let kernel = SCALE.replace("x: {type: f32, shape: [N]}", &tensor);
    is_refused(
        project(&file(&kernel)).path(),
        &["more values than a file of this length may have"],
    );
}

/// Aliases of aliases: the text is short, and what it stands for is not; with a long comment, it may be no larger.
#[test]
fn aliases_do_not_make_a_short_text_a_large_file() {
    let bomb = |levels: usize| {
        let mut text = "version: 1\na0: &a0 [x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..levels {
            let aliases = vec![format!("*a{}", level - 1); 8].join(", ");
            text += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        text
    };
    for text in [
        bomb(6),
        bomb(7),
        bomb(12),
        format!("{}# {}\n", bomb(9), "x".repeat(4 << 20)),
    ] {
        let began = std::time::Instant::now();
        let project = project(&text);
        run(project.path(), &["validate"], 2);
        assert!(began.elapsed().as_secs() < 60);
    }
}

/// A repository with gates.yaml in `gpu/`, and what it needs beside it.
fn repository() -> tempfile::TempDir {
    let top = copy_of("tests/cases/gates-files/above-gates/base");
    fs::write(top.path().join(".gitignore"), "gatekeeper-out/\n").unwrap();
    git(top.path(), &["init", "-q"]);
    commit_all(top.path());
    top
}

/// Without a repository nobody knows where it ends.
#[test]
fn sources_above_gates_yaml_need_a_repository() {
    let top = repository();
    fs::remove_dir_all(top.path().join(".git")).unwrap();
    is_refused(
        &top.path().join("gpu"),
        &[
            "which is in no git repository",
            "put it below that directory",
        ],
    );
}

/// A link of the repository that names a file of the checkout by its whole path: the base's would be head's.
#[test]
fn a_link_of_the_base_into_the_head_is_refused() {
    let top = repository();
    let dir = top.path().join("gpu");
    let here = fs::canonicalize(top.path().join("kernels/k.cu")).unwrap();
    std::os::unix::fs::symlink(here, top.path().join("kernels/l.cu")).unwrap();
    edit(&dir.join("gates.yaml"), "kernels/k.cu", "kernels/l.cu");
    commit_all(top.path());
    edit(
        &top.path().join("include/factor.h"),
        "FACTOR 2",
        "FACTOR 2.0f",
    );
    let output = run(
        &dir,
        &["run", "--provision", "--device", "sim", "--base", "HEAD"],
        2,
    );
    assert!(
        stderr(&output).contains("leads out of the repository"),
        "{}",
        stderr(&output)
    );
}

/// A second document, a key that is given twice and an unknown key stay mistakes whatever the length of the file.
#[test]
fn a_long_file_is_read_as_strictly_as_a_short_one() {
    let long = "# x\n".repeat(100_000);
    for (text, says) in [
        (
            format!("{}---\nversion: 1\n", file(SCALE)),
            "a second YAML document starts here",
        ),
        (
            file(SCALE).replace("    seeds: 1\n", "    seeds: 1\n    seeds: 2\n"),
            "duplicate key `seeds`",
        ),
        (
            file(SCALE).replace("    seeds: 1\n", "    seed: 1\n"),
            "unknown key `seed`",
        ),
    ] {
        let project = project(&text.replacen("version: 1\n", &format!("version: 1\n{long}"), 1));
        is_refused(project.path(), &[says]);
    }
    let empty = project(&file(&SCALE.replace("gates: {max_err: 0}", "gates: {}")));
    refused(
        empty.path(),
        &["validate"],
        "error: gates.yaml:15:12: kernels.k.gates: k/default@small has no limit on its error\n  help: add max_err or rel_l2: without one the reference has no effect\n",
    );
}
