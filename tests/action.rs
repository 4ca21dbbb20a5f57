//! The script of action.yml, with a program in the place of gatekeeper that writes down how it was called.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::root;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What stands under `run: |` of the step `run`, as a shell gets it.
fn script() -> String {
    let action = fs::read_to_string(root().join("action.yml")).unwrap();
    let (_, step) = action.split_once("      id: run\n").unwrap();
    let (_, script) = step.split_once("      run: |\n").unwrap();
    let lines = script
        .lines()
        .map(|line| line.strip_prefix("        ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn git(dir: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    let done = Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(who)
        .args(args)
        .output();
    let done = done.unwrap();
    assert!(done.status.success(), "git {args:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// How gatekeeper is called, with the words that stand behind those that it always gets; and the exit code.
fn called(dir: &Path, inputs: &[(&str, &str)]) -> (Vec<String>, Option<i32>) {
    let temp = tempfile::tempdir().unwrap();
    let bin = temp.path().join("gatekeeper/bin");
    fs::create_dir_all(&bin).unwrap();
    let (program, log) = (bin.join("gatekeeper"), temp.path().join("log"));
    fs::write(
        &program,
        "#!/bin/bash\nprintf '%s\\n' \"$@\" > \"$LOG\"\nexit 3\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script()])
        .current_dir(dir)
        .env("RUNNER_TEMP", temp.path())
        .env("GITHUB_OUTPUT", temp.path().join("outputs"))
        .env("GITHUB_STEP_SUMMARY", temp.path().join("summary"))
        .env("LOG", &log)
        .envs([
            ("OUT", "out"),
            ("ARGS", ""),
            ("BASE", ""),
            ("ALLOW_LOOSENED", "false"),
        ])
        .envs(inputs.iter().copied());
    let code = bash.output().unwrap().status.code();
    let words = fs::read_to_string(log).unwrap();
    let words: Vec<_> = words.lines().map(str::to_owned).collect();
    let always = ["run", "--provision", "--out", "out"];
    assert_eq!(words.get(..4).unwrap(), always);
    (words.get(4..).unwrap().to_vec(), code)
}

#[test]
fn arguments_are_words_and_the_exit_code_is_gatekeepers() {
    let dir = tempfile::tempdir().unwrap();
    let (words, code) = called(dir.path(), &[("ARGS", "--require-gpu  $(id) sdpa_*\n")]);
    assert_eq!(words, ["--require-gpu", "$(id)", "sdpa_*"]);
    assert_eq!(code, Some(3));
}

#[test]
fn without_a_base_nothing_is_loosened() {
    let dir = tempfile::tempdir().unwrap();
    let (words, _) = called(dir.path(), &[("ALLOW_LOOSENED", "true")]);
    assert!(words.is_empty(), "{words:?}");
}

/// As actions/checkout leaves it: the last commit alone.
#[test]
fn the_base_of_a_shallow_clone_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let (origin, clone) = (dir.path().join("origin"), dir.path().join("clone"));
    fs::create_dir(&origin).unwrap();
    git(&origin, &["init", "--quiet", "--initial-branch=main"]);
    for message in ["base", "head"] {
        git(
            &origin,
            &["commit", "--quiet", "--allow-empty", "-m", message],
        );
    }
    let base = git(&origin, &["rev-parse", "HEAD~1"]);
    let url = format!("file://{}", origin.display());
    let to = clone.to_str().unwrap();
    git(dir.path(), &["clone", "--quiet", "--depth=1", &url, to]);
    let (words, _) = called(&clone, &[("BASE", &base)]);
    assert_eq!(words, [format!("--base={base}")]);
    assert_eq!(git(&clone, &["cat-file", "-t", &base]), "commit");

    let (words, _) = called(&clone, &[("BASE", &base), ("ALLOW_LOOSENED", "true")]);
    assert_eq!(
        words,
        [format!("--base={base}"), "--allow-loosened".to_owned()]
    );
    // What is no revision is gatekeeper's to refuse.
    let (words, _) = called(
        &clone,
        &[("BASE", "--upload-pack=x"), ("ALLOW_LOOSENED", "false")],
    );
    assert_eq!(words, ["--base=--upload-pack=x"]);
}

/// A workflow that says nothing of it compares a pull request with its base, and lets nothing be loosened.
#[test]
fn the_defaults_are_those_of_a_pull_request() {
    let action = fs::read_to_string(root().join("action.yml")).unwrap();
    let default = |input: &str| {
        let (_, rest) = action.split_once(&format!("\n  {input}:\n")).unwrap();
        let (_, rest) = rest.split_once("    default: ").unwrap();
        rest.lines().next().unwrap().to_owned()
    };
    assert_eq!(default("base"), "${{ github.event.pull_request.base.sha }}");
    assert_eq!(default("allow-loosened"), "\"false\"");
    for name in [
        "BASE: ${{ inputs.base }}",
        "ALLOW_LOOSENED: ${{ inputs.allow-loosened }}",
    ] {
        assert!(action.contains(name), "{name}");
    }
}
