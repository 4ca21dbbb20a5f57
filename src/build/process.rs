//! One run of the compiler, with everything that it started, within a deadline.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub enum Ran {
    Success(String),
    /// The text is all that was printed; the signal, where one ended it.
    Failure {
        text: String,
        signal: Option<i32>,
    },
    TimedOut,
}

/// Both streams go to one file in `scratch`, in the order written: a grandchild that keeps a pipe open
/// cannot hold us.
pub fn run(mut command: Command, scratch: &Path, deadline: Duration) -> io::Result<Ran> {
    let mut output: File = tempfile::tempfile_in(scratch)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        // nvcc starts cicc and ptxas: all of them are to end with it.
        .process_group(0)
        .spawn()?;
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > deadline {
            let group = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
            killpg(group, Signal::SIGKILL).map_err(io::Error::from)?;
            child.wait()?;
            return Ok(Ran::TimedOut);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let mut bytes = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(if status.success() {
        Ran::Success(text)
    } else {
        Ran::Failure {
            text,
            signal: status.signal(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> Ran {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, &std::env::temp_dir(), deadline).unwrap()
    }

    #[test]
    fn output_and_status_are_kept() {
        let ran = shell("echo out; echo err >&2", Duration::from_secs(60));
        assert!(matches!(ran, Ran::Success(text) if text == "out\nerr\n"));
        let ran = shell("echo no; exit 3", Duration::from_secs(60));
        assert!(matches!(ran, Ran::Failure { text, signal: None } if text == "no\n"));
        let ran = shell("kill -9 $$", Duration::from_secs(60));
        assert!(matches!(
            ran,
            Ran::Failure {
                signal: Some(9),
                ..
            }
        ));
    }

    #[test]
    fn a_hang_ends_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().join("pids");
        // The grandchild outlives the shell unless its group is killed.
        let script = format!("sleep 600 & echo $! > {}; wait", pids.display());
        let ran = shell(&script, Duration::from_millis(300));
        assert!(matches!(ran, Ran::TimedOut));
        let grandchild: i32 = std::fs::read_to_string(&pids)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let gone = || {
            // A zombie that nobody has reaped yet counts as gone.
            std::fs::read_to_string(format!("/proc/{grandchild}/stat"))
                .map_or(true, |stat| stat.contains(") Z "))
        };
        for _ in 0..500 {
            if gone() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the grandchild is still running");
    }
}
