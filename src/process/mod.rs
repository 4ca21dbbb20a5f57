//! Other programs, which may hang, crash or print without end: run within a deadline, with everything that
//! they start.

pub mod children;
pub mod confine;

use children::Group;
use confine::Rules;
use nix::sys::signal::Signal;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a program ended by itself, and what it printed.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// stdout and stderr, in the order written.
    pub log: String,
}

impl Ended {
    /// `failed (exit code 1):` and the log below it, for the end of a message.
    pub fn failure(&self) -> String {
        let how = how(self.status);
        match self.log.trim_end() {
            "" => format!("failed ({how})"),
            log => format!("failed ({how}):\n{log}"),
        }
    }
}

/// `exit code 1`, `killed by SIGSEGV`.
pub fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(number)) => match Signal::try_from(number) {
            Ok(signal) => format!("killed by {signal}"),
            Err(_) => format!("killed by signal {number}"),
        },
        (None, None) => status.to_string(),
    }
}

/// Runs a program in a process group of its own; `None` where the deadline passed and the whole group was
/// killed. Of what it prints, the last `most` bytes are kept.
///
/// # Errors
/// Where it cannot be started.
pub fn run(mut command: Command, deadline: Duration, most: u64) -> io::Result<Option<Ended>> {
    // A file: unlike a pipe it never fills up, and a grandchild that keeps it open does not make us wait.
    let mut log = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    children::end_with_this_thread(&mut command);
    let (mut child, group) = Group::spawn(&mut command)?;
    let Some(status) = wait(&mut child, &group, deadline)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    log.seek(SeekFrom::Start(log.metadata()?.len().saturating_sub(most)))?;
    log.take(most).read_to_end(&mut bytes)?;
    Ok(Some(Ended {
        status,
        log: String::from_utf8_lossy(&bytes).into_owned(),
    }))
}

/// As [`run`], with no more rights than `rules` gives.
///
/// # Errors
/// Where it cannot be confined or started.
pub fn run_confined(
    mut command: Command,
    rules: &Rules,
    deadline: Duration,
    most: u64,
) -> io::Result<Option<Ended>> {
    confine::confine(&mut command, rules)?;
    run(command, deadline, most)
}

/// `None` where the deadline passed; then nothing of the group is left.
fn wait(child: &mut Child, group: &Group, deadline: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= deadline {
            group.kill();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 16 << 10;

    fn shell(script: &str, deadline_ms: u64) -> Option<Ended> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, Duration::from_millis(deadline_ms), MOST).unwrap()
    }

    #[test]
    fn output_and_status_are_kept() {
        let ended = shell("echo out; echo err >&2", 60_000).unwrap();
        assert!(ended.status.success());
        assert_eq!(ended.log, "out\nerr\n");
        let ended = shell("echo no; exit 3", 60_000).unwrap();
        assert_eq!(ended.failure(), "failed (exit code 3):\nno");
        let ended = shell("kill -SEGV $$", 60_000).unwrap();
        assert_eq!(ended.failure(), "failed (killed by SIGSEGV)");
        let long = shell(
            "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done",
            60_000,
        )
        .unwrap();
        assert!(long.log.len() as u64 == MOST && long.log.ends_with("line 8999\n"));
    }

    #[test]
    fn a_hang_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        // The grandchild outlives the shell unless its group is killed.
        let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        assert!(shell(&script, 300).is_none());
        let grandchild: i32 = std::fs::read_to_string(pid)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // Killed at the same time; the init process may take a moment to reap it.
        let gone = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let stat =
                std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
        assert!(gone, "the grandchild still runs");
    }

    #[test]
    fn a_program_that_is_not_there() {
        assert!(run(Command::new("/nowhere/x"), Duration::from_secs(1), MOST).is_err());
    }
}
