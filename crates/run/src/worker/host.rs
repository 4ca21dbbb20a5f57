//! Drives one child process: sends orders, receives frames, and gives each order a deadline. It knows nothing of what
//! orders mean, except which frame ends one.

use super::protocol::{Frame, Job, WorkerJob, WorkerLine};
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};
use system::process;
use system::process::confine::Rules;
use system::process::dialogue::{Dialogue, Heard};
use tracing::{debug, trace, warn};

/// The most bytes of a line. A longer line is not a frame.
const MAX_LINE: u64 = 16 << 20;

/// The time that a worker may take to end once its input is closed.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);

/// The reason for which a worker sends no more frames. The message is complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub enum Lost {
    /// It did not answer in time and was killed.
    Hang(String),
    /// It ended, or it wrote a line that is not a frame and was killed.
    Died(String),
}

/// A running child process, which is killed and reaped when dropped.
pub struct Worker {
    dialogue: Dialogue,
    orders: u64,
}

/// A job that a worker was sent and has not answered.
pub struct Sent(u64);

impl Worker {
    pub fn spawn(command: Command, rules: Option<&Rules>) -> io::Result<Self> {
        Ok(Self {
            dialogue: Dialogue::start(command, rules, MAX_LINE)?,
            orders: 0,
        })
    }

    /// Returns the process id of the worker.
    pub fn id(&self) -> u32 {
        self.dialogue.id()
    }

    /// Waits for the frame with which a worker starts.
    pub fn greeting(&mut self, deadline: Duration) -> Result<Frame, Lost> {
        let greeting = self.wait_for(
            0,
            Instant::now() + deadline,
            deadline,
            "starting",
            |_| {},
            |frame| matches!(frame, Frame::Ready(_)),
        );
        debug!(pid = self.id(), ?greeting, "worker greets");
        greeting
    }

    /// Sends one job and waits until it ends.
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
        let order = WorkerJob {
            id,
            job: job.clone(),
        };
        let (what, case) = job.describe();
        debug!(
            pid = self.id(),
            id,
            what,
            case = case.map(tracing::field::display),
            "job sent"
        );
        let sent = serde_json::to_vec(&order).is_ok_and(|line| self.dialogue.send(line));
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
        let end = self.wait_for(
            id,
            Instant::now() + deadline,
            deadline,
            "taking the job",
            on_frame,
            Frame::ends_job,
        );
        debug!(pid = self.id(), id, answered = end.is_ok(), "job ended");
        end
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
            let line: WorkerLine = match self.dialogue.hear(left) {
                Heard::Line(line) => match serde_json::from_slice(&line) {
                    Ok(line) => line,
                    Err(error) => {
                        let said = excerpt(&line);
                        let said = format!("wrote a line that is not a frame ({error}): {said}");
                        return Err(self.killed_for(&said));
                    }
                },
                Heard::TooLong => {
                    let said = format!("wrote a line longer than {} MiB", MAX_LINE >> 20);
                    return Err(self.killed_for(&said));
                }
                Heard::End => return Err(self.died(&format!("ended while {step}"))),
                Heard::Nothing => {
                    self.dialogue.kill();
                    let why = format!(
                        "no answer within {:.1} s, last seen {step}; the worker was killed{}",
                        deadline.as_secs_f64(),
                        self.quoted()
                    );
                    warn!(pid = self.id(), why, "worker lost");
                    return Err(Lost::Hang(why));
                }
            };
            if line.id != id {
                let said = format!("answered order {} while at order {id}", line.id);
                return Err(self.killed_for(&said));
            }
            if ends(&line.frame) {
                return Ok(line.frame);
            }
            if let Frame::Step(next) | Frame::BaseStep(next) = &line.frame {
                trace!(pid = self.id(), id, step = next);
                step.clone_from(next);
            }
            on_frame(line.frame);
        }
    }

    fn killed_for(&mut self, what: &str) -> Lost {
        self.dialogue.kill();
        let why = format!("the worker {what} and was killed{}", self.quoted());
        warn!(pid = self.id(), why, "worker lost");
        Lost::Died(why)
    }

    /// Waits for the end of a worker that has closed its output, and says how it ended.
    fn died(&mut self, what: &str) -> Lost {
        let how = match self.dialogue.end(FAREWELL) {
            Some(status) => process::how(status),
            None => "it did not exit and was killed".to_owned(),
        };
        let why = format!("the worker {what}: {how}{}", self.quoted());
        warn!(pid = self.id(), why, "worker lost");
        Lost::Died(why)
    }

    /// Ends the worker, and returns what it left on standard error: empty, or `; stderr: ...`.
    pub fn end(mut self, patience: Duration) -> String {
        self.dialogue.end(patience);
        self.quoted()
    }

    /// Returns the end of a message: empty, or `; stderr: ...`. The process must have ended.
    fn quoted(&self) -> String {
        match self.dialogue.last_words() {
            empty if empty.is_empty() => empty,
            words => format!("; stderr: {words}"),
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
