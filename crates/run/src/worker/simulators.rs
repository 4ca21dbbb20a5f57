//! Runs workers without a GPU side by side. Each simulates one job at a time in a process of its own, so that a job
//! that breaks its process is a fault of that job alone.

use super::host::{Lost, Worker};
use super::protocol::{Frame, Job, Ready};
use crate::device::{DeviceChoice, Failure};
use model::{Fault, FaultKind, Seen};
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use system::error::Result;
use system::process::helper;

const START: Duration = Duration::from_secs(60);

/// The deadline of a job. A count of instructions stops most jobs, and the deadline stops the rest.
const DEADLINE: Duration = Duration::from_secs(900);

pub struct Simulators {
    command: Box<dyn Fn() -> Command + Sync>,
    /// The workers that wait for work.
    idle: Mutex<Vec<Worker>>,
    side_by_side: usize,
    started: AtomicU32,
}

/// The cost of the worker processes that were started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    pub workers: u32,
}

impl Simulators {
    /// Allows one worker for each core. No worker is started before there is work.
    ///
    /// # Errors
    /// Environment, if the system does not tell where this executable is.
    pub fn new() -> Result<Self> {
        let program = super::crew::this_program()?;
        let command = move || {
            let mut command = Command::new(&program);
            helper::keep_whole_lists(&mut command);
            command
                .arg(super::SUBCOMMAND)
                .arg(DeviceChoice::Sim.to_string())
                // Only the end of standard error is kept, and a trace would push the message of a panic out of it.
                .env("RUST_BACKTRACE", "0");
            command
        };
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self::with_command(command, cores))
    }

    fn with_command(command: impl Fn() -> Command + Sync + 'static, side_by_side: usize) -> Self {
        Self {
            command: Box::new(command),
            idle: Mutex::new(Vec::new()),
            side_by_side,
            started: AtomicU32::new(0),
        }
    }

    /// Returns the number of jobs that are done at the same time.
    pub fn side_by_side(&self) -> usize {
        self.side_by_side
    }

    pub fn spent(&self) -> Spent {
        Spent {
            workers: self.started.load(Ordering::Relaxed),
        }
    }

    /// Does all jobs. They begin in their order, and answers are in that order. `on_done` is called when a job ends,
    /// with its number, its answer, and the time that it took.
    pub fn run(
        &self,
        jobs: &[Job],
        on_done: &(dyn Fn(usize, &Seen<Frame>, Duration) + Sync),
    ) -> Vec<Seen<Frame>> {
        let next = AtomicUsize::new(0);
        let answers: Mutex<Vec<(usize, Seen<Frame>)>> = Mutex::new(Vec::new());
        let work = || {
            while let Some((number, job)) = {
                let number = next.fetch_add(1, Ordering::Relaxed);
                jobs.get(number).map(|job| (number, job))
            } {
                let began = Instant::now();
                let answer = self.one(job);
                on_done(number, &answer, began.elapsed());
                held(&answers).push((number, answer));
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
            Err(error) => return fault(FaultKind::Environment, error.to_string()),
        };
        match worker.run(job, DEADLINE, |_| {}) {
            Ok(end) => {
                held(&self.idle).push(worker);
                match end {
                    Frame::Failed(Failure::Fault { fault, .. }) => Seen::Fault(fault),
                    Frame::Failed(Failure::Unsupported(why)) => Seen::Unsupported(why),
                    frame => Seen::Got(frame),
                }
            }
            Err(Lost::Hang(message)) => fault(FaultKind::Hang, message),
            Err(Lost::Died(message)) => fault(FaultKind::WorkerDied, message),
        }
    }

    fn start(&self) -> std::result::Result<Worker, StartError> {
        let mut worker = Worker::spawn((self.command)(), None)?;
        self.started.fetch_add(1, Ordering::Relaxed);
        match worker.greeting(START) {
            Ok(Frame::Ready(Ready::Simulator(_))) => Ok(worker),
            Ok(other) => Err(StartError::Frame(Box::new(other))),
            Err(lost) => Err(lost.into()),
        }
    }
}

/// The reason for which a worker did not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("no worker process could be started: {0}")]
    Spawn(#[from] std::io::Error),
    #[error("the worker's first frame is {0:?}")]
    Frame(Box<Frame>),
    #[error(transparent)]
    Lost(#[from] Lost),
}

fn held<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fault(kind: FaultKind, message: String) -> Seen<Frame> {
    Seen::Fault(Fault::new(kind, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::protocol::{EstimateJob, WorkerLine};
    use build::Artifact;
    use model::{Case, CaseId, Reference, Simulator};

    fn job(variant: &str) -> Job {
        Job::Estimate(Box::new(EstimateJob {
            case: Case {
                seeds: vec![1],
                reference: Reference::Variant {
                    variant: "other".into(),
                },
                launches: 8,
                deadline_ms: 1000,
                ..Case::empty(CaseId::new("k", variant, "s"))
            },
            artifact: Artifact::Cubin {
                path: "k.cubin".into(),
                entries: vec![("k".into(), "k".into())],
                ptx: Some("k.ptx".into()),
                constants: vec![],
            },
            seed: 1,
            limit: 1,
        }))
    }

    fn line(id: u64, frame: Frame) -> String {
        serde_json::to_string(&WorkerLine { id, frame }).unwrap()
    }

    /// Returns workers that greet with `greeting`, answer every job, and die of a variant named `deadly`.
    fn simulators(greeting: Frame) -> Simulators {
        let script = format!(
            "echo '{}'; n=0; while read order; do n=$((n+1)); case \"$order\" in *deadly*) echo out of luck >&2; \
             exit 3;; esac; echo '{}' | sed s/999/$n/; done",
            line(0, greeting),
            line(999, Frame::Estimated(Some(7))),
        );
        let command = move || {
            let mut command = Command::new("sh");
            command.arg("-c").arg(&script);
            command
        };
        Simulators::with_command(command, 2)
    }

    fn ready() -> Frame {
        Frame::Ready(Ready::Simulator(Simulator { counter_model: 1 }))
    }

    #[test]
    fn a_job_that_kills_its_worker_is_the_only_one_that_fails() {
        let simulators = simulators(ready());
        let jobs: Vec<_> = (0..20)
            .map(|n| job(if n == 7 { "deadly" } else { "plain" }))
            .collect();
        let done = AtomicUsize::new(0);
        let answers = simulators.run(&jobs, &|_, _, _| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!((answers.len(), done.into_inner()), (20, 20));
        for (number, answer) in answers.iter().enumerate() {
            match (number, answer) {
                (7, Seen::Fault(fault)) => {
                    assert_eq!(fault.kind, FaultKind::WorkerDied);
                    assert!(fault.message.contains("exit code 3"), "{}", fault.message);
                    assert!(fault.message.contains("out of luck"), "{}", fault.message);
                }
                (7, other) => panic!("{other:?}"),
                (_, answer) => assert_eq!(*answer, Seen::Got(Frame::Estimated(Some(7)))),
            }
        }
        // The workers continue, and only the dead one was replaced.
        assert!(simulators.spent().workers <= 3);
    }

    #[test]
    fn a_worker_that_is_no_simulator_is_not_believed() {
        let simulators = simulators(Frame::Ready(Ready::Absent("no device".into())));
        match simulators.run(&[job("plain")], &|_, _, _| {}).as_slice() {
            [Seen::Fault(fault)] => assert_eq!(fault.kind, FaultKind::Environment),
            other => panic!("{other:?}"),
        }
    }
}
