//! Machines that are short of something, and trees that want more than to be compiled: no GPU needed.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{binary, edit, fresh_cache, gatekeeper, project, run, stderr, stdout};
use std::path::Path;
use std::process::Output;

fn shell(dir: &Path, script: &str) -> Output {
    std::process::Command::new("bash")
        .current_dir(dir)
        .args(["-c", script])
        .env("GK", binary())
        .output()
        .unwrap()
}

#[test]
fn little_memory_is_a_sentence() {
    let project = project();
    let output = shell(project.path(), "ulimit -v 300000; \"$GK\" validate");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(
        stderr(&output),
        "error: the address space is limited to 292 MiB, and gatekeeper needs 1024 MiB\n  \
         help: raise the limit: ulimit -v unlimited\n"
    );
}

#[test]
fn a_hundred_thousand_threads_are_not_started() {
    let project = project();
    let output = gatekeeper()
        .current_dir(project.path())
        .arg("validate")
        .env("RAYON_NUM_THREADS", "100000")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_path_with_a_line_break_is_no_command_to_a_runner() {
    let project = project();
    edit(
        &project.path().join("gates.yaml"),
        "source: copy.cu",
        "source: \"x.cu\\n::error title=hi::pwned ##[error]x\"",
    );
    for args in [&["validate"][..], &["run"], &["doctor"]] {
        let output = gatekeeper()
            .current_dir(project.path())
            .args(args)
            .output()
            .unwrap();
        for text in [stdout(&output), stderr(&output)] {
            for line in text.lines() {
                assert!(!line.trim_start().starts_with("::"), "{args:?}: {line}");
                assert!(!line.contains("##["), "{args:?}: {line}");
            }
        }
    }
}

#[test]
fn flags_that_run_programs_are_mistakes_at_their_line() {
    let project = project();
    let gates = project.path().join("gates.yaml");
    edit(
        &gates,
        "    entry: copy\n",
        "    entry: copy\n    flags: [\"-Xcompiler=-fplugin=./x.so\"]\n",
    );
    let output = run(project.path(), &["validate"], 2);
    assert_eq!(
        stderr(&output),
        "error: gates.yaml:8:13: kernels.copy.flags[0]: `-Xcompiler=-fplugin=./x.so` is not allowed in `flags`: it \
         makes a compiler run another program\n  help: NVCC_CCBIN in the environment of gatekeeper names the host \
         compiler\n"
    );
}

/// nvcc runs other programs through a shell.
fn run_with_cache(name: &str) -> Output {
    let project = project();
    let cache = fresh_cache(name);
    gatekeeper()
        .current_dir(project.path())
        .arg("run")
        .env("GATEKEEPER_CACHE", cache.path())
        .output()
        .unwrap()
}

#[test]
fn paths_that_a_shell_would_read_work_or_are_refused() {
    let output = run_with_cache("a b';&(*#~[{!é%=,@+|<\\");
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    for refused in ['"', '$', '`', ':', '\n'] {
        let output = run_with_cache(&format!("a{refused}HOME"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(4), "{refused}: {said}");
        assert!(said.contains("which nvcc's shell would read"), "{said}");
        assert!(
            said.ends_with(
                "\n  help: set GATEKEEPER_CACHE to a directory without one in its path\n"
            )
        );
    }
}
