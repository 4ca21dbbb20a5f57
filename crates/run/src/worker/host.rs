//! One child process: orders in, frames out, each order with a deadline. Knows nothing of what the
//! orders mean beyond which frame ends one.

use super::protocol::{Frame, Job, Line, Order};
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use system::process;
use system::process::children::Group;

/// A longer line is not a frame.
const MAX_LINE: u64 = 16 << 20;

/// How much of the end of a worker's standard error is kept.
const STDERR_TAIL: usize = 4096;
const STDERR_LINES: usize = 4;

/// How long a worker may take to end once its input is closed.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// How long a killed worker may take to be gone.
const REAPING: Duration = Duration::from_secs(30);

/// Why a worker sends no more frames. The message is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It did not answer in time and was killed.
    Hang(String),
    /// It ended, or said what is no frame and was killed.
    Died(String),
}

/// A running child, in a process group of its own. Killed and reaped when dropped.
pub struct Worker {
    child: Child,
    group: Group,
    /// `None` once it is to end.
    input: Option<Sender<Vec<u8>>>,
    lines: Receiver<Heard>,
    stderr: Tail,
    orders: u64,
}

/// A job that a worker was sent and has not answered.
pub struct Sent(u64);

enum Heard {
    Line(Box<Line>),
    Nonsense(String),
    End,
}

impl Worker {
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut child, group) = Group::spawn(&mut command)?;
        let input = child.stdin.take().map(write_lines);
        let (heard, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || listen(stdout, |said| heard.send(said).is_ok()));
        }
        let stderr = Tail::default();
        if let Some(pipe) = child.stderr.take() {
            stderr.follow(pipe);
        }
        Ok(Self {
            child,
            group,
            input,
            lines,
            stderr,
            orders: 0,
        })
    }

    /// The frame that a worker starts with.
    pub fn greeting(&mut self, deadline: Duration) -> Result<Frame, Lost> {
        self.wait_for(
            0,
            Instant::now() + deadline,
            deadline,
            "starting",
            |_| {},
            |frame| matches!(frame, Frame::Ready(_)),
        )
    }

    /// Sends one job and waits for its end.
    pub fn run(
        &mut self,
        job: &Job,
        deadline: Duration,
        on_frame: impl FnMut(Frame),
    ) -> Result<Frame, Lost> {
        let order = self.send(job)?;
        self.answer(order, deadline, on_frame)
    }

    /// Sends one job, which the worker does after those that it was sent before. After a `Lost` the worker
    /// is dead.
    pub fn send(&mut self, job: &Job) -> Result<Sent, Lost> {
        self.orders += 1;
        let id = self.orders;
        let order = Order {
            id,
            job: job.clone(),
        };
        let sent = serde_json::to_vec(&order)
            .ok()
            .zip(self.input.as_ref())
            .is_some_and(|(line, input)| input.send(line).is_ok());
        if sent {
            Ok(Sent(id))
        } else {
            Err(self.died("accepts no more jobs"))
        }
    }

    /// Waits for the frame that ends a job, the oldest of those sent; `on_frame` sees those before it. The
    /// deadline begins here. After a `Lost` the worker is dead.
    pub fn answer(
        &mut self,
        Sent(id): Sent,
        deadline: Duration,
        on_frame: impl FnMut(Frame),
    ) -> Result<Frame, Lost> {
        self.wait_for(
            id,
            Instant::now() + deadline,
            deadline,
            "taking the job",
            on_frame,
            Frame::ends_job,
        )
    }

    fn wait_for(
        &mut self,
        id: u64,
        until: Instant,
        deadline: Duration,
        first_step: &str,
        mut on_frame: impl FnMut(Frame),
        ends: impl Fn(&Frame) -> bool,
    ) -> Result<Frame, Lost> {
        let mut step = first_step.to_owned();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(Heard::Line(line)) if line.id == id && ends(&line.frame) => {
                    return Ok(line.frame);
                }
                Ok(Heard::Line(line)) if line.id == id => {
                    if let Frame::Step(next) | Frame::BaseStep(next) = &line.frame {
                        step.clone_from(next);
                    }
                    on_frame(line.frame);
                }
                Ok(Heard::Line(line)) => {
                    let said = format!("answered order {} while at order {id}", line.id);
                    return Err(self.killed_for(&said));
                }
                Ok(Heard::Nonsense(what)) => return Err(self.killed_for(&what)),
                Ok(Heard::End) | Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.died(&format!("ended while {step}")));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.kill();
                    return Err(Lost::Hang(format!(
                        "no answer within {:.1} s, last seen {step}; the worker was killed{}",
                        deadline.as_secs_f64(),
                        self.stderr.quoted()
                    )));
                }
            }
        }
    }

    fn killed_for(&mut self, what: &str) -> Lost {
        self.kill();
        Lost::Died(format!(
            "the worker {what} and was killed{}",
            self.stderr.quoted()
        ))
    }

    /// Its output is closed: it is gone, or will be.
    fn died(&mut self, what: &str) -> Lost {
        self.input = None;
        let how = match self.ended_within(FAREWELL) {
            Some(status) => process::how(status),
            None => {
                self.kill();
                "it did not exit and was killed".to_owned()
            }
        };
        Lost::Died(format!("the worker {what}: {how}{}", self.stderr.quoted()))
    }

    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => {}
                Ok(None) | Err(_) => return None,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(4));
        }
    }

    /// Its whole process group, then reaps it.
    fn kill(&mut self) {
        self.input = None;
        // A reaped child's number may be another's by now.
        if let Ok(None) = self.child.try_wait() {
            self.group.kill();
            // A process stuck in the driver is not to be waited for for ever.
            self.ended_within(REAPING);
        }
    }

    /// Ends it, and returns what it left on standard error: empty, or `; stderr: ...`.
    pub fn end(mut self, patience: Duration) -> String {
        self.input = None;
        if self.ended_within(patience).is_none() {
            self.kill();
        }
        self.stderr.quoted()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// On a thread of its own: a worker that does not read must not keep the host from its deadline. That
/// it did not take an order shows in its never being answered.
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

fn listen(stdout: impl Read, mut heard: impl FnMut(Heard) -> bool) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let said = match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => Heard::End,
            Ok(_) if line.ends_with(b"\n") => match serde_json::from_slice(&line) {
                Ok(line) => Heard::Line(Box::new(line)),
                Err(error) => Heard::Nonsense(format!(
                    "wrote a line that is not a frame ({error}): {}",
                    excerpt(&line)
                )),
            },
            Ok(length) if length as u64 == MAX_LINE => {
                Heard::Nonsense(format!("wrote a line longer than {} MiB", MAX_LINE >> 20))
            }
            // Cut off in the middle of a line: the process is gone.
            Ok(_) => Heard::End,
        };
        let last = !matches!(said, Heard::Line(_));
        if !heard(said) || last {
            return;
        }
    }
}

fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    match text.char_indices().nth(120) {
        Some((end, _)) => format!("{:?} ...", &text[..end]),
        None => format!("{text:?}"),
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

    /// For the end of a message: empty, or `; stderr: ...`. Called when the process is gone, whose
    /// last words may still be in the pipe.
    fn quoted(&self) -> String {
        if let Some(ended) = &*self.reader.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = ended.recv_timeout(Duration::from_millis(500));
        }
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = bytes.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim().lines().collect();
        let last = &lines[lines.len().saturating_sub(STDERR_LINES)..];
        match last {
            [] => String::new(),
            lines => format!("; stderr: {}", lines.join("\n")),
        }
    }
}
