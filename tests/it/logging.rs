//! `GATEKEEPER_LOG` shows on standard error what a run does, and leaves everything else as it is.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;
use crate::hostile::{STEERING, steers};

use common::{edit, fresh_cache, gatekeeper, project, stderr, stdout, write_record};
use model::{CaseId, Subject};
use std::path::Path;
use std::process::Output;

fn logged(dir: &Path, cache: &Path, level: &str, args: &[&str]) -> Output {
    let mut command = gatekeeper();
    command.current_dir(dir).args(args);
    command.env("GATEKEEPER_CACHE", cache);
    command.env("GATEKEEPER_LOG", level).output().unwrap()
}

/// Returns the log and what else is on standard error. Each line of the log begins with the time since the start.
fn split(output: &Output) -> (String, String) {
    let text = stderr(output);
    let is_logged = |line: &&str| line.starts_with("   ") && line.contains("s ");
    let (log, other): (Vec<&str>, Vec<&str>) = text.lines().partition(is_logged);
    (log.join("\n"), other.join("\n"))
}

/// Returns the report without its first line, which has the time.
fn judged(output: &Output) -> String {
    stdout(output)
        .lines()
        .skip(1)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_run_is_understood_from_its_log_and_prints_the_same() {
    let (project, cache) = (project(), fresh_cache("logging"));
    let args = ["run", "--device", "sim", "copy"];
    let run = |level| logged(project.path(), cache.path(), level, &args);
    let first = run("debug");
    let (log, said) = split(&first);
    for event in [
        "INFO gatekeeper::logging: gatekeeper starts version=",
        r#"arguments=["run", "--device", "sim", "copy"]"#,
        "DEBUG system::cache: cache opened own=",
        "INFO pipeline: prepared ",
        r#"INFO stage{name="simulate"}: pipeline: close time.busy="#,
        "find_build{unit=copy/default [sm_90]}: build: request key=",
        "build::cache: miss: no entry of this key place=",
        "/bin/nvcc\", \"-ccbin\"",
        r#"program ended pid="#,
        r#"status="exit code 0""#,
        "pipeline::results: miss: no entry of this key place=",
        "check::cache: miss: reference is computed case=copy/default@small seed=1",
        "run::worker::host: worker greets pid=",
        r#"job sent pid="#,
        r#"what="simulate" case=copy/default@small"#,
        "verdict subject=copy/default@small question=Gate(Finite) outcome=pass reason=\"held\"",
        r#"outcome=pass reason="within-limit" measured=Some(Num(0.0)) limit=Some(Num(0.0))"#,
        "judged conclusion=Pass",
    ] {
        assert!(log.contains(event), "{event}\n{log}");
    }

    let silent = run("");
    assert_eq!(stderr(&silent).trim_end(), said);
    assert_eq!(judged(&silent), judged(&first));
    assert_eq!(silent.status.code(), Some(0));

    let (log, said) = split(&run("info,build=debug,pipeline::results=debug"));
    assert_eq!(said, stderr(&silent).trim_end());
    assert!(log.contains("build::cache: hit place="), "{log}");
    assert!(log.contains("pipeline::results: hit place="), "{log}");
    assert!(!log.contains("system::"), "{log}");

    edit(
        &project.path().join("copy.cu"),
        "y[i] = staged",
        "y[i] = 1.0f * staged",
    );
    let (log, _) = split(&run("debug"));
    let changed = r#"input="copy.cu""#;
    let line = log
        .lines()
        .find(|line| line.contains("miss: an input changed"));
    assert!(line.is_some_and(|line| line.contains(changed)), "{log}");
}

#[test]
fn names_and_outputs_in_a_log_steer_no_terminal() {
    let mut record = judge::fixture::record();
    for gate in &mut record.policy.gates {
        if let Subject::Case(id) = &mut gate.subject {
            *id = CaseId::new("k", "v", STEERING);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = write_record(dir.path(), "record.json", &record);
    let source = project();
    let file = source.path().join("copy.cu");
    let printed = STEERING.replace(['\r', '\0'], " ");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("#error {printed} ##[error]\n{text}")).unwrap();
    let cache = fresh_cache("logging");
    for (dir, args) in [
        (dir.path(), &["judge", &path][..]),
        (source.path(), &["run", "--device", "sim", "copy"]),
    ] {
        let (log, _) = split(&logged(dir, cache.path(), "trace", args));
        assert!(log.contains("turned"), "{log}");
        assert_eq!(steers(&log), None, "{log:?}");
        assert!(!log.contains("##[") && !log.contains("\n::"), "{log}");
    }
}

#[test]
fn refuses_what_is_neither_a_level_nor_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let schema = |level| logged(dir.path(), dir.path(), level, &["schema"]);
    for good in [
        "debug",
        "INFO",
        "off",
        "info, build=trace",
        "run::worker=debug",
    ] {
        let output = schema(good);
        assert_eq!(output.status.code(), Some(0), "{good}: {}", stderr(&output));
    }
    for bad in ["build", "judge=debug", "build=loud", "debug,", "=info"] {
        assert_eq!(schema(bad).status.code(), Some(2), "{bad}");
    }
    let output = schema("debg");
    assert_eq!(
        stderr(&output),
        "error: GATEKEEPER_LOG is `debg`, and `debg` is neither a level nor a part with its level\n  \
         help: levels are off, error, warn, info, debug and trace: GATEKEEPER_LOG=debug\n  \
         help: parts are build, check, gatekeeper, pipeline, records, run, system: \
         GATEKEEPER_LOG=info,build=trace\n"
    );
    assert_eq!(
        (output.status.code(), stdout(&output).as_str()),
        (Some(2), "")
    );
}
