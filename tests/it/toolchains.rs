//! Two compilers as the sides of a change. CUDA 13.2.51 drops a mask on sm_100 and newer: its cicc takes the word that
//! `ld.global.nc.b16` loads for a byte. 13.1 and 13.2.86 do not.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common::{
    RECORD, copies, edit, failed, gatekeeper, gates_that_failed, git, report, root, run, simulate,
    stderr, stdout,
};
use std::path::Path;
use tempfile::TempDir;

const OLD: &str = "13.0.88";
const NEW: &str = "13.2.51";

/// Makes a project with a kernel that splits words into bytes.
fn split() -> TempDir {
    crate::common::copy_of("tests/fixtures/split")
}

/// Makes a project with a kernel that needs more registers from a newer compiler.
fn heavier_when_newer() -> TempDir {
    let source = "#if __CUDACC_VER_MINOR__ >= 2\n\
        float all[24], sum = 0;\n\
        for (int j = 0; j < 24; ++j) all[j] = x[(i + j * 7) % 256];\n\
        for (int j = 0; j < 24; ++j) sum += all[j] * all[23 - j];\n\
        y[i] = sum > 1e30f ? sum : v;\n\
        #else\n\
        y[i] = v;\n\
        #endif";
    let project = copies(&[("copy", "", source)]);
    let gates = project.path().join("gates.yaml");
    edit(&gates, "{max_err: 0}", "{max_err: 0, registers: \"+0%\"}");
    project
}

fn compare(dir: &Path, base: &str, head: &str, code: i32) -> String {
    let args = ["--base-toolchain", base, "--toolchain", head, "--blame"];
    simulate(dir, &args, code)
}

#[test]
fn a_miscompiled_kernel_fails_and_the_part_that_did_it_is_named() {
    let project = split();
    let said = compare(project.path(), OLD, NEW, 1);
    assert_eq!(gates_that_failed(project.path()), ["max_err <= 0"]);
    assert!(
        said.contains("blame    nvvm 13.0.88 -> 13.2.51: 1 of 1 failed gate\n"),
        "{said}"
    );
    blame_is_in_every_report(project.path());
    // The part of the other compiler takes its place.
    let mended = format!("{NEW},nvvm={OLD}");
    let said = compare(project.path(), OLD, &mended, 0);
    assert!(!said.contains("blame"), "{said}");
    assert!(!report(project.path()).contains("blames"));
    let record = std::fs::read_to_string(project.path().join(RECORD)).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let record = &record["record"];
    let environment = &record["environment"];
    assert_eq!(environment["toolchain"], "13.2.51,nvvm=13.0.88");
    let head = &environment["compiler"]["got"]["version"];
    assert_eq!(head, "13.2.51+nvvm13.0.88", "{environment}");
    assert_eq!(environment["base_compiler"]["version"], "13.0.88");
    assert_eq!(record["policy"]["base"]["toolchain"], "13.0.88");
}

/// Plain instructions are the same on all of these architectures, and each is run.
#[test]
fn architectures_that_are_merely_newer_are_simulated() {
    let project = split();
    let dir = project.path();
    let gates = dir.join("gates.yaml");
    edit(
        &gates,
        "[sm_120]",
        "[sm_100, sm_103, sm_110, sm_120, sm_121]",
    );
    simulate(dir, &[], 0);
    let source = dir.join("split.cu");
    let wrong = "#if __CUDA_ARCH__ == 1030\n#define WRONG 1\n#else\n#define WRONG 0\n#endif\n";
    edit(&source, "extern", &format!("{wrong}extern"));
    edit(&source, "(word >> 8)", "((word >> 8) + WRONG)");
    let said = simulate(dir, &[], 1);
    assert!(said.contains("built for sm_103: max_err 1"), "{said}");
}

fn blame_is_in_every_report(dir: &Path) {
    let report: serde_json::Value = serde_json::from_str(&report(dir)).unwrap();
    let blames = report["blames"].as_array().unwrap();
    assert_eq!(blames.len(), 1, "{blames:?}");
    let change = serde_json::json!([{"part": "nvvm", "versions": [OLD, NEW]}]);
    assert_eq!(blames[0]["changes"], change);
    let gates = blames[0]["gates"].as_array().unwrap();
    assert_eq!(gates.len(), 1, "{gates:?}");
    assert_eq!(gates[0]["subject"]["case"]["kernel"], "split");
    for (format, says) in [
        (
            "terminal",
            "blame    nvvm 13.0.88 -> 13.2.51: 1 of 1 failed gate\n         split/default@default  max_err <= 0\n",
        ),
        (
            "markdown",
            "| nvvm 13.0.88 -&gt; 13.2.51 | `split/default@default` | max_err &lt;= 0 |",
        ),
        ("html", "nvvm 13.0.88 -&gt; 13.2.51"),
    ] {
        let shown = stdout(&run(dir, &["report", RECORD, "--format", format], 0));
        assert!(shown.contains(says), "{format}: {shown}");
    }
}

#[test]
fn registers_that_rise_with_the_compiler_fail() {
    let project = heavier_when_newer();
    let said = compare(project.path(), OLD, NEW, 1);
    let gates = gates_that_failed(project.path());
    assert_eq!(gates, ["registers +0%", "counters +0%"], "{said}");
    let blamed = "blame    nvcc 13.0.88 -> 13.2.51: 2 of 2 failed gates\n";
    assert!(said.contains(blamed), "{said}");
    let (_, message) = failed(project.path()).remove(0);
    assert!(message.starts_with("registers 10 -> "), "{message}");
    // In the other direction the kernel gets better.
    compare(project.path(), NEW, OLD, 0);
}

/// A bot that updates dependencies makes such a change. `--base` builds each side with the compiler that its gates.yaml
/// pins.
#[test]
fn a_pull_request_that_bumps_the_pinned_compiler_is_gated() {
    let project = split();
    let dir = project.path();
    let pin = |version: &str| format!("version: 1\ntoolchain: {{cuda: \"{version}\"}}");
    edit(&dir.join("gates.yaml"), "version: 1", &pin(OLD));
    git(dir, &["init", "--quiet"]);
    git(dir, &["add", "."]);
    git(dir, &["commit", "--quiet", "--message", "pinned"]);
    edit(&dir.join("gates.yaml"), &pin(OLD), &pin(NEW));
    let said = simulate(dir, &["--base", "HEAD"], 1);
    assert_eq!(gates_that_failed(dir), ["max_err <= 0"]);
    assert!(said.contains("nvcc 13.2.51 (base: 13.0.88)"), "{said}");
}

/// Makes links to a toolkit, with a file of its own that changes nothing.
fn another_of_the_same(into: &Path) {
    let nvcc = build::toolchain::testing::toolchain().nvcc;
    let bin = nvcc.parent().unwrap();
    for (from, to) in [
        (bin.parent().unwrap(), into.into()),
        (bin, into.join("bin")),
    ] {
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            if name != "bin" && name != "nvcc.profile" {
                std::os::unix::fs::symlink(entry.path(), to.join(name)).unwrap();
            }
        }
    }
    let profile = std::fs::read_to_string(bin.join("nvcc.profile")).unwrap();
    std::fs::write(into.join("bin/nvcc.profile"), profile + "\n").unwrap();
}

#[test]
fn the_same_compiler_under_another_digest_changes_nothing() {
    let project = split();
    let toolkit = tempfile::tempdir().unwrap();
    another_of_the_same(toolkit.path());
    let toolkit = toolkit.path().to_str().unwrap();
    let said = compare(project.path(), toolkit, OLD, 0);
    assert!(said.contains("nvcc 13.0.88 (base: 13.0.88)"), "{said}");
}

/// Makes a toolkit with a script in place of its nvcc.
fn with_nvcc(script: &str) -> TempDir {
    let toolkit = tempfile::tempdir().unwrap();
    another_of_the_same(toolkit.path());
    let bin = toolkit.path().join("bin");
    std::fs::rename(bin.join("nvcc"), bin.join("real")).unwrap();
    std::fs::write(bin.join("nvcc"), format!("#!/bin/sh\n{script}\n")).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bin.join("nvcc"), executable).unwrap();
    toolkit
}

/// CUDA 11.8 to 12.4 print no CICC_PATH. `.ci/run old-cuda` shows the same with their own programs.
#[test]
fn an_nvcc_that_names_cicc_only_by_its_path_builds_and_simulates() {
    let project = split();
    let toolkit = with_nvcc(
        "real=$(dirname \"$0\")/real\n\
         [ \"$1\" = --dryrun ] || exec \"$real\" \"$@\"\n\
         \"$real\" \"$@\" 2>&1 | grep -v 'CICC_PATH='",
    );
    let toolkit = toolkit.path().to_str().unwrap();
    let said = simulate(project.path(), &["--toolchain", toolkit], 0);
    assert!(said.contains("nvcc 13.0.88"), "{said}");
    edit(
        &project.path().join("split.cu"),
        "(word >> 8)",
        "(word >> 9)",
    );
    simulate(project.path(), &["--toolchain", toolkit], 1);
    assert_eq!(gates_that_failed(project.path()), ["max_err <= 0"]);
}

#[test]
fn an_nvcc_older_than_11_8_ends_the_run_and_names_what_is_supported() {
    let project = split();
    let toolkit = with_nvcc("echo 'Cuda compilation tools, release 11.7, V11.7.99'");
    let toolkit = toolkit.path().to_str().unwrap();
    for side in ["--toolchain", "--base-toolchain"] {
        let args = ["run", "--device", "sim", side, toolkit];
        assert_eq!(
            stderr(&run(project.path(), &args, 4)),
            format!(
                "error: nvcc at {toolkit}/bin/nvcc is 11.7.99, which is too old: gatekeeper works with CUDA 11.8 to 13.x\n  \
                 help: put a newer nvcc on PATH, or name its directory: --toolchain /usr/local/cuda-12.4\n  \
                 help: or run with --provision, which installs CUDA 13.0\n"
            )
        );
    }
}

#[test]
fn an_architecture_that_the_compiler_lacks_fails_with_those_that_it_has() {
    let project = split();
    edit(&project.path().join("gates.yaml"), "sm_120", "sm_50");
    let said = simulate(project.path(), &[], 1);
    let (gate, message) = failed(project.path()).remove(0);
    assert_eq!(gate, "built");
    let known = "nvcc 13.0.88 compiles for sm_75, sm_80,";
    assert!(message.contains(known), "{message}\n{said}");
}

#[test]
fn two_sides_that_are_one_are_refused() {
    let project = split();
    let same = |base: &str, head: &str| {
        let args = ["run", "--device", "sim", "--base-toolchain", base];
        let output = run(
            project.path(),
            &[&args[..], &["--toolchain", head]].concat(),
            2,
        );
        assert_eq!(
            stderr(&output),
            "error: nothing to compare: head and base are the same files, and both compilers are nvcc 13.0.88\n  \
             help: name another compiler with --toolchain or --base-toolchain\n"
        );
    };
    build::toolchain::testing::toolchain();
    same("13.0", "13.0");
    same("13.0", "13.0,ptxas=13.0.88");
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    let project = split();
    let says = |args: &[&str], what: &str| {
        let output = run(project.path(), args, 2);
        assert!(stderr(&output).contains(what), "{}", stderr(&output));
    };
    says(
        &["run", "--base-toolchain", "newest"],
        "`newest` is neither a version, such as 13.2 or 13.2.78, nor the path of a toolkit",
    );
    says(
        &["run", "--toolchain", "13.2,cicc=13.0"],
        "there is no part `cicc`; the parts are nvcc, headers, nvvm, ptxas",
    );
    says(
        &["run", "--base", "HEAD", "--base-toolchain", "13.0"],
        "cannot be used with",
    );
    says(&["run", "--blame"], "--base-toolchain");
    says(
        &["toolchain", "install", "12.4"],
        "error: CUDA 12.4 cannot be installed: PyPI has whole compilers from 13.0 on",
    );
    says(
        &["toolchain", "install", "13.2rc1"],
        "error: `13.2rc1` is not a version of CUDA",
    );
    says(
        &["toolchain", "install", "13.99"],
        "error: the package index has no CUDA compiler 13.99",
    );
}

#[test]
fn a_compiler_that_is_not_installed_is_said_to_be() {
    let project = split();
    let args = ["run", "--base-toolchain", "13.0.47", "--device", "sim"];
    let output = run(project.path(), &args, 4);
    assert!(
        stderr(&output).starts_with("error: CUDA 13.0.47 is neither installed nor on PATH"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("`gatekeeper toolchain install 13.0.47`"),
        "{}",
        stderr(&output)
    );
}

/// Without a network, the list has what is known, and says so.
#[test]
fn compilers_are_listed_without_a_network() {
    build::toolchain::testing::toolchain();
    let offline = |args: &[&str]| {
        let mut command = gatekeeper();
        command.env("PIP_NO_INDEX", "1").env("UV_OFFLINE", "1");
        command.current_dir(root()).args(args).output().unwrap()
    };
    let output = offline(&["toolchain", "list"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let listed = stdout(&output);
    let versions: Vec<_> = listed
        .lines()
        .map(|line| line.split_whitespace().next())
        .collect();
    for version in ["13.0.48", OLD, NEW, "13.5.37"] {
        assert!(versions.contains(&Some(version)), "{listed}");
    }
    let own = listed.lines().find(|line| line.starts_with(OLD)).unwrap();
    assert!(own.ends_with("bin/nvcc"), "{own}");
    assert!(
        stderr(&output).starts_with("PyPI was not reached: these are the versions"),
        "{}",
        stderr(&output)
    );
    // Without a network, such a compiler may exist or not.
    let output = offline(&["toolchain", "install", "13.99"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("could not look CUDA 13.99 up"),
        "{}",
        stderr(&output)
    );
}
