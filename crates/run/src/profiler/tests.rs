//! Profiles with a script instead of the profiler. The script answers as a worker would, and returns what Nsight
//! Compute wrote.

use super::*;
use build::Artifact;
use judge::fixture;
use model::{ProfileMetric, Stall};
use std::os::unix::fs::PermissionsExt;

const RAW: &str = include_str!("captured/raw.csv");
const CODE: &str = include_str!("captured/code.csv");
const LINES: &str = include_str!("captured/lines.csv");
const GOOD: &str = include_str!("captured/good.log");
const NOTHING: &str = include_str!("captured/nothing.log");

const DONE: &str = r#"{"id":1,"frame":"profiled"}"#;
const FAULTED: &str = r#"{"id":1,"frame":{"failed":{"fault":{"fault":{"kind":"device_fault","message":"an illegal address"},"sticky":false}}}}"#;

/// The actions of the script in addition to a profiler's work.
struct Script<'a> {
    /// The worker's frame that ends its job.
    frame: &'a str,
    log: &'a str,
    writes_report: bool,
}

/// Returns a profiler in a directory, and the file in which it notes its arguments.
fn profiler(dir: &Path, script: &Script) -> Profiler {
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
    write("raw", RAW);
    write("sass", CODE);
    write("cuda,sass", LINES);
    write("log", script.log);
    let device = DeviceFacts {
        uuid: format!("GPU-of-{}", dir.display()).replace('/', "-"),
        ..fixture::device()
    };
    let facts = serde_json::to_string(&device).unwrap();
    write(
        "ready",
        &format!("{{\"id\":0,\"frame\":{{\"ready\":{{\"device\":{facts}}}}}}}\n"),
    );
    write("frame", &format!("{}\n", script.frame));
    let report = if script.writes_report {
        "echo report > \"$report\""
    } else {
        ":"
    };
    let text = format!(
        r#"#!/bin/sh
here={}
for word in "$@"; do
  case $before in
    --export) report=$word;;
    --log-file) log=$word;;
    --import) import=$word;;
    --page) page=$word;;
    --print-source) page=$word;;
  esac
  before=$word
done
if [ -n "$import" ]; then
  [ "$(cat "$import")" = report ] && cat "$here/$page"
  exit
fi
echo "$@" >> "$here/arguments"
cat "$here/ready"
while read order; do cat "$here/frame"; done
cp "$here/log" "$log"
{report}
"#,
        dir.display()
    );
    let program = dir.join("ncu");
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    Profiler {
        program,
        version: "2025.3.1.0".into(),
    }
}

fn job(mode: Mode) -> TimeJob {
    let plan = fixture::plan();
    TimeJob {
        case: plan.cases[0].clone(),
        artifact: Artifact::Cubin {
            path: "k.cubin".into(),
            entries: vec![("k".into(), "k".into())],
            ptx: None,
            constants: Vec::new(),
        },
        seed: 1,
        schedule: Schedule {
            mode,
            ..plan.timing
        },
    }
}

fn profiled(script: &Script) -> (Seen<ProfileFacts>, String) {
    let dir = tempfile::tempdir().unwrap();
    let profiler = profiler(dir.path(), script);
    let facts = profile(&profiler, job(Mode::Warm), &fixture::device());
    let arguments = std::fs::read_to_string(dir.path().join("arguments")).unwrap();
    (facts, arguments)
}

const WORKS: Script = Script {
    frame: DONE,
    log: GOOD,
    writes_report: true,
};

fn kind(seen: Seen<ProfileFacts>) -> FaultKind {
    match seen {
        Seen::Fault(fault) => fault.kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_worker_is_profiled_and_its_report_read() {
    let (facts, arguments) = profiled(&WORKS);
    let facts = facts.got().unwrap().clone();
    assert_eq!(facts.profiler, "Nsight Compute 2025.3.1.0");
    assert_eq!((facts.clock_policy.as_str(), facts.warmups), ("default", 5));
    assert_eq!(facts.kernels.len(), 6);
    let tensor = facts
        .kernels
        .iter()
        .find(|kernel| kernel.entry.starts_with("tensor"));
    let tensor = tensor.unwrap();
    assert!(
        tensor.metrics[&ProfileMetric::TensorActive]
            .got()
            .unwrap()
            .0
            > 0.98
    );
    assert!(tensor.stalls[&Stall::MathPipeThrottle].0 > 19.0);
    assert!(!facts.kernels[0].lines.is_empty());
    // Once, on the GPU of the run, with clocks left alone and only what the worker marks.
    assert_eq!(arguments.lines().count(), 1);
    for words in [
        "--config-file off",
        "--profile-from-start off",
        "--clock-control none",
        "--cache-control none",
        "--section SourceCounters",
        " __worker cuda:0",
    ] {
        assert!(arguments.contains(words), "{words}: {arguments}");
    }
}

#[test]
fn cold_timings_have_cold_profiles() {
    let dir = tempfile::tempdir().unwrap();
    let profiler = profiler(dir.path(), &WORKS);
    assert!(
        profile(&profiler, job(Mode::Cold), &fixture::device())
            .got()
            .is_some()
    );
    let arguments = std::fs::read_to_string(dir.path().join("arguments")).unwrap();
    assert!(arguments.contains("--cache-control all"), "{arguments}");
}

#[test]
fn each_obstacle_to_profiling_has_its_own_kind() {
    let locked = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n";
    let (facts, _) = profiled(&Script {
        log: locked,
        writes_report: false,
        ..WORKS
    });
    assert_eq!(kind(facts), FaultKind::CountersLocked);
    let (facts, _) = profiled(&Script {
        log: NOTHING,
        writes_report: false,
        ..WORKS
    });
    assert_eq!(kind(facts), FaultKind::ProfilerBroke);
    let (facts, _) = profiled(&Script {
        writes_report: false,
        ..WORKS
    });
    match facts {
        Seen::Fault(fault) => {
            assert_eq!(fault.kind, FaultKind::ProfilerBroke);
            assert!(
                fault.message.starts_with("it wrote no report; it said: "),
                "{}",
                fault.message
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kernel_that_faults_is_the_kernels_fault() {
    let (facts, _) = profiled(&Script {
        frame: FAULTED,
        log: NOTHING,
        writes_report: false,
    });
    assert_eq!(kind(facts), FaultKind::DeviceFault);
}

#[test]
fn a_launcher_is_not_profiled() {
    let launcher = TimeJob {
        artifact: Artifact::Launcher {
            library: "k.so".into(),
            function: "run".into(),
            entries: Vec::new(),
        },
        ..job(Mode::Warm)
    };
    let nowhere = Profiler {
        program: "/no/such/ncu".into(),
        version: String::new(),
    };
    let seen = profile(&nowhere, launcher, &fixture::device());
    assert_eq!(seen, Seen::Unsupported(Unsupported::ProfiledConfined));
    assert_eq!(
        kind(profile(&nowhere, job(Mode::Warm), &fixture::device())),
        FaultKind::Environment
    );
}
