//! Reads the profiler's log, and recognises known problems by their words.

use model::{Fault, FaultKind};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The number of lines of a log that a message has.
const LINES: usize = 6;

/// Lock files below the directory of temporary files. Versions before 2025 have the first one.
const LOCKS: [&str; 2] = ["nsight-compute-lock", "nvidia/nsight_compute/lock"];

/// Returns the fault of a lock that exists and that this user cannot take. Whatever the log says, this is why nothing
/// was profiled.
pub fn find_lock(temporary: &Path) -> Option<Fault> {
    let locks = LOCKS.iter().map(|lock| temporary.join(lock));
    let is_closed = |path: &PathBuf| match File::options().write(true).open(path) {
        Ok(_) => false,
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    let path = locks.into_iter().find(is_closed)?;
    let kind = FaultKind::ProfilerLocked;
    Some(Fault::new(
        kind,
        format!(
            "{} cannot be opened for writing{}",
            path.display(),
            mend(kind)
        ),
    ))
}

/// Returns the problem that kept the profiler from profiling, if there was one.
pub fn find_trouble(log: &str) -> Option<Fault> {
    let said = |words: &[&str]| {
        log.lines()
            .find(|line| words.iter().all(|word| line.contains(word)))
    };
    let (kind, line) = if let Some(line) = said(&["ERR_NVGPUCTRPERM"]) {
        (FaultKind::CountersLocked, line)
    } else if let Some(line) = LOCKS.iter().find_map(|lock| said(&[*lock])) {
        (FaultKind::ProfilerLocked, line)
    } else if let Some(line) = said(&["==ERROR=="]).or(said(&["No kernels were profiled"])) {
        (FaultKind::ProfilerBroke, line)
    } else {
        return None;
    };
    let message = line.trim_start_matches(['=', ' ']);
    let message = message
        .trim_start_matches("ERROR==")
        .trim_start_matches("WARNING==");
    let mut message = message.trim().to_owned();
    message.push_str(mend(kind));
    Some(Fault::new(kind, message))
}

/// Returns the remedy of a problem. The reader has the machine at hand.
fn mend(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::CountersLocked => {
            "; set the driver's option NVreg_RestrictProfilingToAdminUsers=0 and load it again, or run as root, in a container with the capability SYS_ADMIN"
        }
        FaultKind::ProfilerLocked => {
            "; another user's profiler left it: have its owner remove it, or set TMPDIR to a directory of your own"
        }
        _ => "",
    }
}

/// Returns the end of a log, for a message.
pub fn end(log: &str) -> String {
    let lines: Vec<&str> = log
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    match lines.get(lines.len().saturating_sub(LINES)..) {
        Some(last) if !last.is_empty() => format!("it said: {}", last.join("\n")),
        _ => "it said nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log that ncu 2025.3.1 wrote on an H100. None of its words is a problem.
    const GOOD: &str = include_str!("captured/good.log");
    const NOTHING: &str = include_str!("captured/nothing.log");

    #[test]
    fn a_log_of_a_profile_is_no_trouble() {
        assert_eq!(find_trouble(GOOD), None);
    }

    #[test]
    fn a_log_without_a_profile_is_recognised() {
        let fault = find_trouble(NOTHING).unwrap();
        assert_eq!(fault.kind, FaultKind::ProfilerBroke);
        assert_eq!(fault.message, "No kernels were profiled.");
    }

    /// The texts are NVIDIA's words from memory, because no machine with locked counters was at hand.
    #[test]
    fn troubles_of_the_machine_have_their_mend() {
        let log = "==PROF== Connected to process 12 (/usr/bin/gatekeeper)\n\
            ==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.\n";
        let fault = find_trouble(log).unwrap();
        assert_eq!(fault.kind, FaultKind::CountersLocked);
        assert!(fault.message.starts_with("ERR_NVGPUCTRPERM - The user"));
        assert!(
            fault
                .message
                .contains("NVreg_RestrictProfilingToAdminUsers=0")
        );
        let log = "==ERROR== Failed to open/create lock file /tmp/nsight-compute-lock. Please check that this process has write permissions on the file.\n";
        let fault = find_trouble(log).unwrap();
        assert_eq!(fault.kind, FaultKind::ProfilerLocked);
        assert!(
            fault.message.contains("/tmp/nsight-compute-lock") && fault.message.contains("TMPDIR")
        );
        let log = "==ERROR== Profiling is not supported on device 0. To find out supported GPUs refer --list-chips option.\n";
        let fault = find_trouble(log).unwrap();
        assert_eq!(fault.kind, FaultKind::ProfilerBroke);
        assert!(fault.message.starts_with("Profiling is not supported"));
    }

    #[test]
    fn finds_the_lock_file_of_another_user() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(find_lock(dir.path()), None);
        let lock = dir.path().join("nvidia/nsight_compute/lock");
        std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
        std::fs::write(&lock, "").unwrap();
        assert_eq!(find_lock(dir.path()), None);
        // Tests may run as root, for whom file modes do not matter. A directory in place of the lock file keeps
        // everyone out.
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();
        let fault = find_lock(dir.path()).unwrap();
        assert_eq!(fault.kind, FaultKind::ProfilerLocked);
        assert!(fault.message.starts_with(&lock.display().to_string()));
        assert!(fault.message.contains("TMPDIR"));
    }

    #[test]
    fn the_end_of_a_log_is_short() {
        assert_eq!(end(" \n"), "it said nothing");
        assert_eq!(end(GOOD).lines().count(), LINES);
    }
}
