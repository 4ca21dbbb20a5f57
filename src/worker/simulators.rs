//! Workers without a GPU, side by side: each simulates one job at a time in a process of its own, so that
//! whatever a job does to its process is a fault of that job alone.

use super::host::{Lost, Worker};
use super::protocol::{Frame, Job, Ready};
use crate::device::{DeviceChoice, Failure};
use crate::error::{Error, Result};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use verdict::model::{Fault, FaultKind, Seen};

const START: Duration = Duration::from_secs(60);

/// Jobs are stopped by a count of instructions; this is for what that does not stop.
const DEADLINE: Duration = Duration::from_secs(900);

pub struct Simulators {
    program: PathBuf,
    /// Those that wait for work.
    idle: Mutex<Vec<Worker>>,
    side_by_side: usize,
    started: AtomicU32,
}

/// Worker processes that were started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    pub workers: u32,
}

impl Simulators {
    /// One for each core; none is started before there is work.
    ///
    /// # Errors
    /// Environment, where the system does not tell where this executable is.
    pub fn new() -> Result<Self> {
        let program = std::env::current_exe().map_err(|error| {
            Error::environment(format!(
                "the worker cannot be started, this executable is not found: {error}"
            ))
        })?;
        Ok(Self {
            program,
            idle: Mutex::new(Vec::new()),
            side_by_side: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            started: AtomicU32::new(0),
        })
    }

    pub fn spent(&self) -> Spent {
        Spent {
            workers: self.started.load(Ordering::Relaxed),
        }
    }

    /// Does all jobs, begun in their order; answers are in the same order. `on_done` hears the number of
    /// each job as it ends.
    pub fn run(&self, jobs: &[Job], on_done: &(dyn Fn(usize) + Sync)) -> Vec<Seen<Frame>> {
        let next = AtomicUsize::new(0);
        let answers: Mutex<Vec<(usize, Seen<Frame>)>> = Mutex::new(Vec::new());
        let work = || {
            while let Some((number, job)) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                jobs.get(number).map(|job| (number, job))
            } {
                let answer = self.one(job);
                held(&answers).push((number, answer));
                on_done(number);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.side_by_side.min(jobs.len()) {
                scope.spawn(work);
            }
        });
        let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        answers.sort_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    fn one(&self, job: &Job) -> Seen<Frame> {
        let idle = held(&self.idle).pop();
        let mut worker = match idle.map_or_else(|| self.start(), Ok) {
            Ok(worker) => worker,
            Err(message) => return fault(FaultKind::Environment, message),
        };
        match worker.run(job, DEADLINE, |_| {}) {
            Ok(end) => {
                held(&self.idle).push(worker);
                match end {
                    Frame::Failed(Failure::Fault { fault, .. }) => Seen::Fault(fault),
                    Frame::Failed(Failure::Unsupported { reason }) => Seen::Unsupported { reason },
                    frame => Seen::Got(frame),
                }
            }
            Err(Lost::Hang(message)) => fault(FaultKind::Hang, message),
            Err(Lost::Died(message)) => fault(FaultKind::WorkerDied, message),
        }
    }

    fn start(&self) -> std::result::Result<Worker, String> {
        let mut command = Command::new(&self.program);
        command
            .arg(super::SUBCOMMAND)
            .arg(DeviceChoice::Sim.to_string())
            // Of a panic the message is told, which a trace would push out.
            .env("RUST_BACKTRACE", "0");
        let mut worker = Worker::spawn(command)
            .map_err(|error| format!("no worker process could be started: {error}"))?;
        self.started.fetch_add(1, Ordering::Relaxed);
        match worker.greeting(START) {
            Ok(Frame::Ready(Ready::Simulator(_))) => Ok(worker),
            Ok(other) => Err(format!("the worker began with {other:?}")),
            Err(Lost::Hang(message) | Lost::Died(message)) => Err(message),
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fault(kind: FaultKind, message: String) -> Seen<Frame> {
    Seen::Fault(Fault { kind, message })
}
