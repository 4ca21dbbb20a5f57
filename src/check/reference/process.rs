//! Programs that may hang, crash or talk without end.

use super::NoAnswer;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Of what a program said, this much of the end is kept.
const LOG: u64 = 16 << 10;

/// How a program ended by itself, and what it said.
pub struct Ended {
    pub status: ExitStatus,
    /// The end of stdout and stderr, interleaved.
    pub log: String,
}

impl Ended {
    /// `exit code 1`, `SIGSEGV`.
    pub fn how(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => Signal::try_from(signal)
                .map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string()),
            (None, None) => "no exit code".to_owned(),
        }
    }

    /// The log, indented below a message, or nothing.
    pub fn said(&self) -> String {
        match self.log.trim_end() {
            "" => String::new(),
            log => format!(":\n{log}"),
        }
    }
}

/// Runs a program in a process group of its own; past the deadline the whole group is killed.
///
/// # Errors
/// `Reference` where it was killed, `Environment` where it did not start.
pub fn run(mut command: Command, what: &str, deadline: Duration) -> Result<Ended, NoAnswer> {
    let broken = |error: std::io::Error| NoAnswer::Environment(format!("{what}: {error}"));
    // A file, as a pipe that nobody empties would stop the program.
    let mut log = tempfile::tempfile().map_err(broken)?;
    let (out, err) = (
        log.try_clone().map_err(broken)?,
        log.try_clone().map_err(broken)?,
    );
    command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0);
    let mut child = command.spawn().map_err(broken)?;
    let status = wait(&mut child, deadline).map_err(broken)?;
    let mut bytes = Vec::new();
    log.metadata()
        .and_then(|data| log.seek(SeekFrom::Start(data.len().saturating_sub(LOG))))
        .and_then(|_| log.read_to_end(&mut bytes))
        .map_err(broken)?;
    let log = String::from_utf8_lossy(&bytes).into_owned();
    match status {
        Some(status) => Ok(Ended { status, log }),
        None => Err(NoAnswer::Reference(format!(
            "{what} did not end within {} ms and was killed",
            deadline.as_millis()
        ))),
    }
}

/// `None` where the deadline passed; then nothing of the group is left.
fn wait(child: &mut Child, deadline: Duration) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= deadline {
            // Not reaped yet, so the id is still that of this group.
            killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL)?;
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

    fn shell(script: &str, deadline_ms: u64) -> Result<Ended, NoAnswer> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, "the script", Duration::from_millis(deadline_ms))
    }

    #[test]
    fn what_it_said_and_how_it_ended() {
        let ended = shell("echo out; echo err >&2; exit 3", 60_000).unwrap();
        assert_eq!(
            (ended.how().as_str(), ended.log.as_str()),
            ("exit code 3", "out\nerr\n")
        );
        assert_eq!(shell("kill -SEGV $$", 60_000).unwrap().how(), "SIGSEGV");
        let long = shell(
            "i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done",
            60_000,
        )
        .unwrap();
        assert!(long.log.len() as u64 == LOG && long.log.ends_with("line 8999\n"));
    }

    #[test]
    fn a_hang_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        let error = shell(&script, 300).err().unwrap();
        assert_eq!(
            error,
            NoAnswer::Reference("the script did not end within 300 ms and was killed".to_owned())
        );
        let child: i32 = std::fs::read_to_string(pid)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        // Killed at the same time; the init process may take a moment to reap it.
        let gone = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ")
        });
        assert!(gone, "the child of the script still runs");
    }

    #[test]
    fn a_program_that_is_not_there() {
        let error = run(Command::new("/nowhere/x"), "x", Duration::from_secs(1))
            .err()
            .unwrap();
        assert!(matches!(error, NoAnswer::Environment(_)));
    }
}
