//! Tests drivers that hang and GPUs that disappear. A library takes the driver's place, so no GPU is needed.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{RECORD, gatekeeper, project, report, root, run, stderr, stdout};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Makes a directory with libraries that are built from these sources.
fn libraries(all: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (source, library) in all {
        let source = root().join("tests/fixtures/stand-in").join(source);
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-shared", "-fPIC", "-o"]);
        compile.arg(dir.path().join(library)).arg(source);
        assert!(compile.status().unwrap().success());
    }
    dir
}

const DRIVER: (&str, &str) = ("cuda.c", "libcuda.so");
const MANAGEMENT: (&str, &str) = ("nvml.c", "libnvidia-ml.so.1");

fn with(libraries: &Path, dir: &Path, args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = gatekeeper();
    command.current_dir(dir).args(args);
    command.env("LD_LIBRARY_PATH", libraries);
    command.envs(environment.iter().copied());
    command.timeout(std::time::Duration::from_secs(300));
    command.output().unwrap()
}

#[test]
fn a_driver_that_hangs_is_killed_at_its_deadline() {
    let project = project();
    let dir = project.path();
    for (what, hangs) in [
        (&[DRIVER][..], Some(("STAND_IN_HANGS", "1"))),
        (&[DRIVER, MANAGEMENT], None),
    ] {
        let libraries = libraries(what);
        let mut environment = vec![("GATEKEEPER_DRIVER_TIMEOUT", "2")];
        environment.extend(hangs);
        for args in [&["run", "copy"][..], &["doctor"]] {
            let output = with(libraries.path(), dir, args, &environment);
            let said = format!("{}{}", stdout(&output), stderr(&output));
            assert_eq!(output.status.code(), Some(4), "{args:?}: {said}");
            assert!(
                said.contains("the GPU's driver hangs (libcuda or libnvidia-ml)"),
                "{args:?}: {said}"
            );
        }
    }
}

#[test]
fn a_deadline_that_is_no_number_is_told() {
    let project = project();
    let libraries = libraries(&[DRIVER]);
    let environment = [("GATEKEEPER_DRIVER_TIMEOUT", "soon")];
    let output = with(libraries.path(), project.path(), &["doctor"], &environment);
    assert_eq!(output.status.code(), Some(4));
    let said = stdout(&output);
    assert!(
        said.contains("GATEKEEPER_DRIVER_TIMEOUT is `soon`, and a number of seconds is expected"),
        "{said}"
    );
}

/// Returns the outcomes of the verdicts on a kernel.
fn outcomes(report: &Value, kernel: &str) -> Vec<String> {
    report["verdicts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|verdict| {
            let subject = verdict["subject"].to_string();
            subject.contains(kernel)
        })
        .map(|verdict| verdict["outcome"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns PTXAS's values for each kernel, so that the driver can report the same.
fn resources() -> Vec<(String, String)> {
    let project = project();
    run(
        project.path(),
        &["run", "--provision", "--device", "sim"],
        0,
    );
    let record = std::fs::read_to_string(project.path().join(RECORD)).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    let builds = record["record"]["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|piece| piece["build"]["facts"]["got"]["entries"].as_array());
    let of_entry = |entry: &Value| {
        let name = entry["symbol"].as_str().unwrap();
        let resources = &entry["resources"];
        let known = format!("{} {}", resources["registers"], resources["static_shared"]);
        (format!("STAND_IN_OF_{name}"), known)
    };
    builds.flatten().map(of_entry).collect()
}

#[test]
fn a_lost_gpu_exits_4_and_keeps_the_measurements() {
    let libraries = libraries(&[DRIVER]);
    let resources = resources();
    let launches = |dir: &Path| {
        let bytes = std::fs::read(dir.join("launches")).unwrap();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    };
    let run_until = |limit: &str, init: &str| {
        let project = project();
        let counted = project.path().join("launches");
        let mut environment = vec![
            ("STAND_IN_FALLS_OFF", limit),
            ("STAND_IN_INIT", init),
            ("STAND_IN_LAUNCHES", counted.to_str().unwrap()),
        ];
        environment.extend(resources.iter().map(|(name, known)| (&**name, &**known)));
        let args = ["run", "--provision", "--require-gpu"];
        let output = with(libraries.path(), project.path(), &args, &environment);
        (project, output)
    };
    let (whole, output) = run_until("1000000000000", "999");
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{said}");
    let all = launches(whole.path());
    assert!(all > 100, "{said}");

    // These are CUDA_ERROR_UNKNOWN and CUDA_ERROR_NO_DEVICE.
    for init in ["999", "100"] {
        let (broken, output) = run_until(&(all / 2).to_string(), init);
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(4), "{init}: {said}");
        let report: Value = serde_json::from_str(&report(broken.path())).unwrap();
        let copy = outcomes(&report, "copy");
        assert!(copy.iter().any(|outcome| outcome == "pass"), "{copy:?}");
        let all = [copy, outcomes(&report, "dial")].concat();
        assert!(
            all.iter().any(|outcome| outcome == "environment"),
            "{all:?}"
        );
        assert!(!all.iter().any(|outcome| outcome == "fail"), "{said}");
    }
}
