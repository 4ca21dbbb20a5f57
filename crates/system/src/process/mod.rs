//! Other programs, which may hang, crash or print without end: run within a deadline, with everything that
//! they start.

pub mod children;
pub mod confine;
pub mod dialogue;
pub mod helper;

use children::Group;
use confine::Rules;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
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
        failure(self.status, &self.log)
    }
}

/// How a program ended by itself, and what it answered.
#[derive(Debug)]
pub struct Answered {
    pub status: ExitStatus,
    /// stdout.
    pub output: Vec<u8>,
    /// The end of stderr.
    pub log: String,
}

impl Answered {
    /// As of [`Ended`].
    pub fn failure(&self) -> String {
        failure(self.status, &self.log)
    }
}

/// `failed (exit code 1):` and the log below it.
pub fn failure(status: ExitStatus, log: &str) -> String {
    let how = how(status);
    match log.trim_end() {
        "" => format!("failed ({how})"),
        log => format!("failed ({how}):\n{log}"),
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
/// killed. The last `most` bytes of its output are kept.
///
/// # Errors
/// Where it cannot be started.
pub fn run(mut command: Command, deadline: Duration, most: u64) -> io::Result<Option<Ended>> {
    // A file: unlike a pipe it never fills up, and a grandchild that keeps it open does not make us wait.
    let log = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    children::end_with_this_thread(&mut command);
    let (mut child, group) = Group::spawn(&mut command)?;
    let Some(status) = wait(&mut child, &group, deadline)? else {
        return Ok(None);
    };
    Ok(Some(Ended {
        status,
        log: end_of(log, most)?,
    }))
}

/// How much of the end of stderr is kept of a program that was asked.
const LOG: u64 = 4 << 10;

/// As [`run`], for a program that reads `input` on stdin and answers on stdout. If the answer is longer than `most`
/// bytes, one byte more is kept.
///
/// # Errors
/// Where it cannot be started.
pub fn ask(
    mut command: Command,
    input: &[u8],
    deadline: Duration,
    most: u64,
) -> io::Result<Option<Answered>> {
    let mut stdin = tempfile::tempfile()?;
    stdin.write_all(input)?;
    stdin.rewind()?;
    let mut stdout = tempfile::tempfile()?;
    let log = tempfile::tempfile()?;
    command
        .stdin(stdin)
        .stdout(stdout.try_clone()?)
        .stderr(log.try_clone()?);
    let (mut child, group) = Group::spawn(&mut command)?;
    let Some(status) = wait(&mut child, &group, deadline)? else {
        return Ok(None);
    };
    let mut output = Vec::new();
    stdout.rewind()?;
    stdout
        .take(most.saturating_add(1))
        .read_to_end(&mut output)?;
    Ok(Some(Answered {
        status,
        output,
        log: end_of(log, LOG)?,
    }))
}

/// The last `most` bytes.
fn end_of(mut log: File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    log.seek(SeekFrom::Start(log.metadata()?.len().saturating_sub(most)))?;
    log.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
    fn an_answer_is_kept_apart_from_the_log() {
        let asked = |script: &str, deadline_ms| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            ask(command, b"4 and 5", Duration::from_millis(deadline_ms), 8).unwrap()
        };
        let answered = asked("cat; echo warning >&2", 60_000).unwrap();
        assert!(answered.status.success());
        assert_eq!(answered.output, b"4 and 5");
        assert_eq!(answered.log, "warning\n");
        // One byte beyond what may be answered, so that the rest is missed.
        assert_eq!(
            asked("cat; cat /proc/version", 60_000)
                .unwrap()
                .output
                .len(),
            9
        );
        let failed = asked("echo no >&2; exit 3", 60_000).unwrap();
        assert_eq!(failed.failure(), "failed (exit code 3):\nno");
        assert!(asked("sleep 1000", 300).is_none());
    }

    #[test]
    fn a_program_that_is_not_there() {
        assert!(run(Command::new("/nowhere/x"), Duration::from_secs(1), MOST).is_err());
    }
}
