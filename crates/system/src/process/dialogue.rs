//! Talks with a program that is sent lines and answers with lines, for as long as it is needed. The module does not
//! know what a line says.

use super::children::Kin;
use super::confine::Rules;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::debug;

/// The number of bytes that are kept from the end of standard error.
const STDERR_TAIL: usize = 4096;
const STDERR_LINES: usize = 4;

/// The time that a killed program may take to be gone.
const REAPING: Duration = Duration::from_secs(30);

/// A running program. When this is dropped, the program is killed with everything that it started.
pub struct Dialogue {
    child: Child,
    kin: Kin,
    /// Its exit status, once it was reaped. Its process id may then belong to another process.
    ended: Option<ExitStatus>,
    /// `None` once it is asked to end.
    input: Option<Sender<Vec<u8>>>,
    lines: Receiver<Heard>,
    stderr: Tail,
}

/// The result of waiting for a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line without its line end.
    Line(Vec<u8>),
    /// The line is longer than allowed. Nothing is read after it.
    TooLong,
    /// Its output is closed: it is gone, or will be.
    End,
    /// No line arrived before the deadline.
    Nothing,
}

impl Dialogue {
    /// Starts the program with no more rights than `rules` gives, if there are any.
    ///
    /// # Errors
    /// Fails if it cannot be confined or started.
    pub fn start(
        mut command: Command,
        rules: Option<&Rules>,
        longest_line: u64,
    ) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut child, kin) = Kin::spawn(command, rules)?;
        let input = child.stdin.take().map(write_lines);
        let (heard, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                listen(stdout, longest_line, |said| heard.send(said).is_ok());
            });
        }
        let stderr = Tail::default();
        if let Some(pipe) = child.stderr.take() {
            stderr.follow(pipe);
        }
        Ok(Self {
            child,
            kin,
            ended: None,
            input,
            lines,
            stderr,
        })
    }

    /// Returns the process id of the program.
    pub fn id(&self) -> u32 {
        self.kin.program
    }

    /// Sends a line. Returns true if the program still accepts lines. If it did not read one, an answer never comes.
    pub fn send(&self, line: Vec<u8>) -> bool {
        let input = self.input.as_ref();
        input.is_some_and(|input| input.send(line).is_ok())
    }

    /// Waits at most `within` for the next line. Returns [`Heard::Nothing`] if none came, and [`Heard::End`] if none
    /// can come.
    pub fn hear(&self, within: Duration) -> Heard {
        match self.lines.recv_timeout(within) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
        }
    }

    /// Closes its input, and waits for it to end by itself. Returns `None` if it had to be killed.
    pub fn end(&mut self, patience: Duration) -> Option<ExitStatus> {
        self.input = None;
        let status = self.ended_within(patience);
        if status.is_none() {
            self.kill();
        }
        status
    }

    /// Kills the program now, with everything that it started.
    pub fn kill(&mut self) {
        self.input = None;
        if self.ended.is_none() {
            debug!(pid = self.id(), "program killed");
            self.kin.kill();
            // A process that is stuck in the driver is not waited for for ever.
            self.ended_within(REAPING);
        }
    }

    /// Returns the last lines of its standard error, or an empty text. It is called when the program is gone.
    pub fn last_words(&self) -> String {
        self.stderr.lines()
    }

    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    debug!(
                        pid = self.id(),
                        status = super::how(status),
                        "program ended"
                    );
                    self.ended = Some(status);
                    return self.ended;
                }
                Ok(None) if Instant::now() < until => {}
                Ok(None) | Err(_) => return None,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(4));
        }
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Writes lines on a thread of its own, because a program that does not read must not keep this one from its deadline.
fn write_lines(mut stdin: ChildStdin) -> Sender<Vec<u8>> {
    let (sender, lines) = mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        for mut line in lines {
            line.push(b'\n');
            if stdin.write_all(&line).is_err() {
                return;
            }
        }
    });
    sender
}

fn listen(stdout: impl Read, longest: u64, mut heard: impl FnMut(Heard) -> bool) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let said = match reader.by_ref().take(longest).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => Heard::End,
            Ok(_) if line.ends_with(b"\n") => {
                line.pop();
                Heard::Line(line)
            }
            Ok(length) if length as u64 == longest => Heard::TooLong,
            // The output was cut off in the middle of a line, so the process is gone.
            Ok(_) => Heard::End,
        };
        let last = !matches!(said, Heard::Line(_));
        if !heard(said) || last {
            return;
        }
    }
}

/// The end of a stream that nobody waits for.
#[derive(Clone, Default)]
struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    reader: Arc<Mutex<Option<Receiver<()>>>>,
}

impl Tail {
    fn follow(&self, mut pipe: impl Read + Send + 'static) {
        let (done, ended) = mpsc::channel();
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        let bytes = Arc::clone(&self.bytes);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.extend(buffer.iter().take(read));
                let over = bytes.len().saturating_sub(STDERR_TAIL);
                bytes.drain(..over);
            }
            drop(done);
        });
    }

    /// Returns the last lines. Those of a process that is gone may still be in the pipe.
    fn lines(&self) -> String {
        if let Some(ended) = &*self.reader.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = ended.recv_timeout(Duration::from_millis(500));
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim().lines().collect();
        lines[lines.len().saturating_sub(STDERR_LINES)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = 1 << 10;
    const SOON: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Dialogue {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Dialogue::start(command, None, MOST).unwrap()
    }

    fn line(text: &str) -> Heard {
        Heard::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn one_program_answers_line_by_line_until_its_input_ends() {
        let mut dialogue = shell("while read it; do echo \"$$ $it\"; done; echo bye >&2; exit 3");
        assert!(dialogue.send(b"one".to_vec()));
        let Heard::Line(first) = dialogue.hear(SOON) else {
            panic!("no line");
        };
        let first = String::from_utf8(first).unwrap();
        let pid = first.strip_suffix(" one").unwrap();
        assert!(dialogue.send(b"two".to_vec()));
        assert_eq!(dialogue.hear(SOON), line(&format!("{pid} two")));
        assert_eq!(dialogue.end(SOON).unwrap().code(), Some(3));
        assert_eq!(dialogue.last_words(), "bye");
        assert_eq!(dialogue.hear(SOON), Heard::End);
        assert!(!dialogue.send(b"three".to_vec()));
    }

    #[test]
    fn nothing_that_a_program_left_behind_outlives_it() {
        let mut left = shell("setsid sleep 1000 >/dev/null 2>&1 & echo $!");
        let Heard::Line(pid) = left.hear(SOON) else {
            panic!("no line");
        };
        assert_eq!(left.end(SOON).unwrap().code(), Some(0));
        let process = format!("/proc/{}", String::from_utf8(pid).unwrap());
        assert!(!std::fs::exists(process).unwrap());
    }

    #[test]
    fn silence_a_long_line_and_half_a_line_are_no_answers() {
        let mut silent = shell("read it; sleep 1000");
        assert_eq!(silent.hear(Duration::from_millis(100)), Heard::Nothing);
        assert!(silent.end(Duration::from_millis(50)).is_none());
        let long = shell("head -c 4000 /dev/zero; sleep 1000");
        assert_eq!(long.hear(SOON), Heard::TooLong);
        let cut = shell("printf half");
        assert_eq!(cut.hear(SOON), Heard::End);
    }
}
