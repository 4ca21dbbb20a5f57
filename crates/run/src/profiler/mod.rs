//! Runs Nsight Compute around a worker. Only this module knows its options, its columns and its names of counters. It
//! knows nothing of gates.
//!
//! The profiler starts the worker and passes on its standard input and output, so that the host talks to the worker as
//! always. The worker prepares a case as for timing, and marks one launch by the driver's cuProfilerStart and
//! cuProfilerStop. This launch is profiled kernel by kernel, and each kernel is run again for every group of counters
//! that fits in one pass. The counters go to a file, which is read after the worker has ended.

mod counters;
mod instruction;
mod log;
mod page;
#[cfg(test)]
mod tests;

use crate::worker::{Crew, Job, TimeJob};
use build::toolchain::Profiler;
use model::{DeviceFacts, Fault, FaultKind, Mode, ProfileFacts, Schedule, Seen, Unsupported};
use page::ReportError;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;
use system::files;
use system::process::{self, helper};

/// The most bytes of a report of one launch, as text. A kernel with ten thousand instructions has 4 MB.
const MOST_TEXT: u64 = 256 << 20;

/// The most bytes of the profiler's own output.
const MOST_LOG: u64 = 16 << 20;

/// The deadline for reading a report. It takes a second, and some seconds for large kernels.
const READING: Duration = Duration::from_secs(120);

/// The time that the profiler may take in addition to the case's own. It starts, patches the machine code, saves and
/// restores memory, and runs the launch some twenty times.
const OVERHEAD: Duration = Duration::from_secs(300);

/// Profiles a case once, in a process of its own.
pub fn profile(profiler: &Profiler, job: TimeJob, device: &DeviceFacts) -> Seen<ProfileFacts> {
    let job = Job::Profile(Box::new(job));
    if job.has_launcher() {
        return Seen::Unsupported(Unsupported::ProfiledConfined);
    }
    let Job::Profile(job) = job else {
        return broke("no job was made for it".to_owned());
    };
    let dir = match tempfile::tempdir() {
        Ok(dir) => dir,
        Err(error) => return broke(format!("no directory for its report: {error}")),
    };
    let schedule = job.schedule.clone();
    let log_file = dir.path().join("log");
    let report = dir.path().join("report.ncu-rep");
    let wrapper = arguments(profiler, &schedule, &report, &log_file);
    let mut crew = match Crew::wrapped(wrapper, device.ordinal) {
        Ok(crew) => crew,
        Err(error) => return broke(error.to_string()),
    };
    let deadline = Duration::from_millis(job.case.deadline_ms) + OVERHEAD;
    let done = crew.profile(*job, deadline);
    // The profiler writes its report after the worker has ended.
    crew.retire();
    let log = files::read(&log_file, MOST_LOG).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    match (log::find_trouble(&log), &done) {
        // A kernel that broke cannot be profiled.
        (Some(trouble), Seen::Fault(fault))
            if trouble.kind == FaultKind::ProfilerBroke && fault.kind != FaultKind::Environment => {
        }
        (Some(trouble), _) => {
            // Not every version's message about a lock is known.
            let lock = match trouble.kind {
                FaultKind::ProfilerBroke => log::find_lock(&std::env::temp_dir()),
                _ => None,
            };
            return Seen::Fault(lock.unwrap_or(trouble));
        }
        (None, _) => {}
    }
    let done = match done {
        Seen::Got(()) if !report.is_file() => {
            return broke(format!("it wrote no report; {}", log::end(&log)));
        }
        other => other,
    };
    match done {
        Seen::Got(()) => match read(profiler, &report) {
            Ok(kernels) => Seen::Got(ProfileFacts {
                profiler: format!("Nsight Compute {}", profiler.version),
                clock_policy: device.clock_policy.clone(),
                warmups: schedule.warmup,
                kernels,
            }),
            Err(problem) => broke(problem.to_string()),
        },
        Seen::Fault(fault) => Seen::Fault(fault),
        Seen::Unsupported(why) => Seen::Unsupported(why),
        Seen::NotRun(why) => Seen::NotRun(why),
    }
}

fn broke<T>(message: String) -> Seen<T> {
    Seen::Fault(Fault::new(FaultKind::ProfilerBroke, message))
}

/// Returns the command of the profiler. The worker's own command is its end.
fn arguments(profiler: &Profiler, schedule: &Schedule, report: &Path, log: &Path) -> Vec<OsString> {
    let caches = match schedule.mode {
        // Data stays in L2 if it fits, as in the timings before.
        Mode::Warm => "none",
        Mode::Cold => "all",
    };
    let mut all: Vec<OsString> = vec![profiler.program.clone().into()];
    let mut add = |texts: &[&str]| all.extend(texts.iter().map(OsString::from));
    // It would read options from a file in its working directory, which is the checkout.
    add(&["--config-file", "off"]);
    add(&["--profile-from-start", "off", "--replay-mode", "kernel"]);
    // The clocks are left alone, because only administrators may hold them, and not a gate.
    add(&["--clock-control", "none", "--cache-control", caches]);
    add(&["--section", "SourceCounters", "--metrics"]);
    add(&[&counters::all().join(",")]);
    add(&["--force-overwrite", "--export"]);
    all.push(report.into());
    // The profiler's messages go to a file, because standard output belongs to the worker.
    all.push("--log-file".into());
    all.push(log.into());
    all
}

/// Reads the report's values for each kernel, in the order of their launch.
fn read(profiler: &Profiler, report: &Path) -> Result<Vec<model::KernelProfile>, ReportError> {
    let page = |options: &[&str]| {
        let mut command = helper::command(&profiler.program);
        command
            .arg("--import")
            .arg(report)
            .args(["--csv"])
            .args(options);
        let answered = process::ask(command, b"", READING, MOST_TEXT);
        let answered = answered
            .map_err(ReportError::Unreadable)?
            .ok_or(ReportError::Late)?;
        if !answered.status.success() {
            return Err(ReportError::Failed(answered.failure()));
        }
        if answered.output.len() as u64 > MOST_TEXT {
            return Err(ReportError::TooLong(MOST_TEXT));
        }
        Ok(String::from_utf8_lossy(&answered.output).into_owned())
    };
    let raw = page(&["--page", "raw", "--print-units", "base"])?;
    let code = page(&["--page", "source", "--print-source", "sass"])?;
    // Without line tables or sources this page is empty, and the profile is still sound.
    let lines = page(&["--page", "source", "--print-source", "cuda,sass"]).unwrap_or_default();
    page::kernels(&raw, &code, &lines)
}
