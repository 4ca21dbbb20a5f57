//! Runs other programs, which may hang, crash or print without end, within a deadline. However they end, nothing that
//! they started is left.

pub mod children;
pub mod confine;
pub mod dialogue;
pub mod helper;
mod keeper;

use children::Kin;
use confine::Rules;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tracing::{debug, trace};

/// The exit status of a program that ended by itself, and what it printed.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// stdout and stderr, in the order written.
    pub log: String,
}

impl Ended {
    /// Returns the end of a message: `failed (exit code 1):` and the log below it.
    pub fn failure(&self) -> String {
        failure(self.status, &self.log)
    }
}

/// The exit status of a program that ended by itself, and what it answered.
#[derive(Debug)]
pub struct Answered {
    pub status: ExitStatus,
    /// The bytes that it wrote to stdout.
    pub output: Vec<u8>,
    /// The end of what it wrote to stderr.
    pub log: String,
}

impl Answered {
    /// Returns the end of a message, as [`Ended`] does.
    pub fn failure(&self) -> String {
        failure(self.status, &self.log)
    }
}

/// Returns `failed (exit code 1):` and the log below it.
pub fn failure(status: ExitStatus, log: &str) -> String {
    let how = how(status);
    match log.trim_end() {
        "" => format!("failed ({how})"),
        log => format!("failed ({how}):\n{log}"),
    }
}

/// Returns how a program ended: `exit code 1`, `killed by SIGSEGV`.
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

/// Runs a program. Returns `None` if the deadline passed and it was killed. The last `most` bytes of its output are
/// kept.
///
/// # Errors
/// Fails if it cannot be started.
pub fn run(command: Command, deadline: Duration, most: u64) -> io::Result<Option<Ended>> {
    run_under(command, None, deadline, most)
}

/// Runs a program as [`run`] does, with no more rights than `rules` gives.
///
/// # Errors
/// Fails if it cannot be confined or started.
pub fn run_confined(
    command: Command,
    rules: &Rules,
    deadline: Duration,
    most: u64,
) -> io::Result<Option<Ended>> {
    run_under(command, Some(rules), deadline, most)
}

fn run_under(
    mut command: Command,
    rules: Option<&Rules>,
    deadline: Duration,
    most: u64,
) -> io::Result<Option<Ended>> {
    // The output goes to a file. Unlike a pipe it never fills up, and a grandchild that keeps it open is not waited
    // for.
    let log = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    let (mut child, kin) = Kin::spawn(command, rules)?;
    let Some(status) = wait(&mut child, &kin, deadline)? else {
        return Ok(None);
    };
    let log = end_of(log, most)?;
    trace!(pid = kin.program, log, "output");
    Ok(Some(Ended { status, log }))
}

/// The number of bytes that are kept from the end of stderr of a program that was asked.
const LOG: u64 = 4 << 10;

/// Runs a program as [`run`] does, which reads `input` on stdin and answers on stdout. If the answer is longer than
/// `most` bytes, one byte more is kept.
///
/// # Errors
/// Fails if it cannot be started.
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
    let (mut child, kin) = Kin::spawn(command, None)?;
    let Some(status) = wait(&mut child, &kin, deadline)? else {
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

/// Returns at most `most` bytes from the end of a log.
fn end_of(mut log: File, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    log.seek(SeekFrom::Start(log.metadata()?.len().saturating_sub(most)))?;
    log.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Waits for a child. Returns `None` if the deadline passed. Nothing is left in any case.
fn wait(child: &mut Child, kin: &Kin, deadline: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            debug!(pid = kin.program, status = how(status), took = ?started.elapsed(), "program ended");
            return Ok(Some(status));
        }
        if started.elapsed() >= deadline {
            debug!(
                pid = kin.program,
                ?deadline,
                "program killed at its deadline"
            );
            kin.kill();
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

    /// Leaves a process, writes its process id, and ends in a way of its own.
    fn leaves(how: &str, ends: &str, rules: Option<&Rules>) {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let writes = [dir.path()];
        let rules = rules.map(|rules| Rules {
            writes: &writes,
            ..*rules
        });
        let mut command = Command::new("/bin/sh");
        let script = format!(
            "{how} >/dev/null 2>&1 & echo $! > {}; {ends}",
            pid.display()
        );
        command.args(["-c", &script]);
        let deadline = Duration::from_millis(match ends {
            "wait" => 500,
            _ => 60_000,
        });
        let ended = run_under(command, rules.as_ref(), deadline, MOST).unwrap();
        assert_eq!(ended.is_none(), ends == "wait", "{ended:?}");
        let pid = std::fs::read_to_string(pid).unwrap();
        let process = format!("/proc/{}", pid.trim());
        assert!(!std::fs::exists(process).unwrap(), "{how}; {ends}");
    }

    #[test]
    fn nothing_that_a_program_started_is_left_however_it_ends() {
        let confined = Rules {
            writes: &[],
            hidden: None,
            sockets: confine::Sockets::None,
            metadata: confine::Metadata::Kept,
            memory: None,
            file: None,
        };
        for how in [
            "sleep 1000",
            "setsid sleep 1000",
            "nohup setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000; sleep 1000'",
            "(exec sh -c 'setsid sleep 1000 & sleep 1000')",
        ] {
            for ends in ["exit 0", "exit 3", "kill -SEGV $$", "kill -KILL $$", "wait"] {
                leaves(how, ends, Some(&confined));
                leaves(how, ends, None);
            }
        }
        // This process is always another one.
        leaves(
            "sh -c 'f() { f & }; f'",
            "sleep 0.2; exit 0",
            Some(&confined),
        );
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
        // There is one byte more than may be answered, so that the rest is missed.
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
