//! Runs jobs on one GPU in workers, one worker after another.
//!
//! A fault ends its worker, because it may have poisoned the process. A fresh worker then runs a known-good kernel. If
//! that works, the fault was the job's, and the next job goes to the fresh worker. If it fails too, the machine is
//! broken, and nothing more is tried. Jobs with a launcher run in a confined worker, because a launcher is the user's
//! code on the CPU.

use super::host::{FAREWELL, Lost, Sent, Worker};
use super::protocol::{CheckJob, Frame, Job, PairJob, Ready, TimeJob};
use crate::device::lock::{self, GpuLock, LockState, SHARED, Use};
use crate::device::{DeviceChoice, Failure};
use model::NotRun;
use model::{
    Case, CheckFacts, DeviceFacts, DriverFacts, Fault, FaultKind, GpuState, PairFacts, Seen,
    TimeFacts,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use system::error::Error;
use system::process::confine::{self, Metadata, Rules, Sockets};
use system::process::helper;
use tracing::{debug, warn};
use wording::reasons;

/// The time that the driver may take to start. Without persistence mode it takes seconds to wake up eight GPUs.
const START: Duration = Duration::from_secs(120);
const START_VARIABLE: &str = "GATEKEEPER_DRIVER_TIMEOUT";
const KNOWN_GOOD: Duration = Duration::from_secs(60);
const COUNT: Duration = Duration::from_secs(60);

/// The most workers that stand by. Each takes some hundred megabytes of the GPU.
const MOST_STANDBY: usize = 4;

/// The time in which a profiler writes its report at the end.
const WRITING: Duration = Duration::from_secs(60);

/// The wall time that workers took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCosts {
    pub workers: u32,
    /// The time from spawning a worker until its device is open, and from telling it to end until it is gone.
    pub process: Duration,
    /// The time while jobs used the device, as workers report it. For a job that broke its worker, the time from
    /// sending the job to the end.
    pub device: Duration,
}

impl WorkerCosts {
    /// Returns the costs that were added since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            workers: self.workers.saturating_sub(before.workers),
            process: self.process.saturating_sub(before.process),
            device: self.device.saturating_sub(before.device),
        }
    }

    pub(super) fn and(self, more: Self) -> Self {
        Self {
            workers: self.workers + more.workers,
            process: self.process + more.process,
            device: self.device + more.device,
        }
    }
}

/// The result of one seed's check.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckAnswer {
    pub driver: Seen<DriverFacts>,
    pub check: Seen<CheckFacts>,
}

pub struct Crew<'a> {
    command: Box<dyn Fn() -> Command + Send>,
    worker: Option<Worker>,
    /// Workers that are open and idle, for the next uses. None of them has done anything yet.
    standby: Vec<(Worker, DeviceFacts)>,
    /// Workers that were started ahead of time and have not greeted yet.
    starting: Vec<Worker>,
    /// Workers that are idle for good. They end together, when the next ones start.
    done: Vec<Worker>,
    /// True if the worker may do no more than a user's launcher should.
    is_confined: bool,
    /// The facts of the first worker's device. Without a device, no job can run.
    device: Option<Seen<DeviceFacts>>,
    locks: PathBuf,
    /// The lock, which is held from the first job of its use until another use or `retire`.
    lock: Option<(Use, GpuLock)>,
    waiting: Box<dyn Fn(&str) + Send + 'a>,
    /// The fault of a known-good kernel. After it, nothing more is tried.
    broken: Option<Fault>,
    costs: WorkerCosts,
    /// The job after the next one.
    announced: Option<Job>,
    /// The time that a worker may take to end.
    farewell: Duration,
    /// The job that the worker was sent ahead of time.
    sent: Option<(Job, Sent)>,
}

impl<'a> Crew<'a> {
    /// Makes a crew whose workers are this executable, with the hidden subcommand.
    ///
    /// # Errors
    /// Environment, if the system does not tell where this executable is.
    pub fn new(choice: DeviceChoice) -> system::error::Result<Self> {
        Ok(Self::with_program(this_program()?, choice))
    }

    /// Makes a crew whose workers are another build of gatekeeper.
    pub fn with_program(program: PathBuf, choice: DeviceChoice) -> Self {
        let command = move || {
            let mut command = Command::new(&program);
            helper::keep_whole_lists(&mut command);
            command.arg(super::SUBCOMMAND).arg(choice.to_string());
            // With this variable, the host's part of each launch would be in the times.
            command.env_remove("CUDA_LAUNCH_BLOCKING");
            command
        };
        Self::with_command(command, SHARED.into())
    }

    /// Makes a crew whose workers are this executable, started by another program that passes on standard input and
    /// output.
    ///
    /// # Errors
    /// Environment, if the system does not tell where this executable is.
    pub fn wrapped(wrapper: Vec<OsString>, ordinal: u32) -> system::error::Result<Self> {
        let program = this_program()?;
        let command = move || {
            let mut words = wrapper.iter();
            let mut command = Command::new(words.next().map_or(program.as_os_str(), |word| word));
            helper::keep_whole_lists(&mut command);
            command.args(words).arg(&program);
            let choice = DeviceChoice::Cuda { ordinal };
            command.arg(super::SUBCOMMAND).arg(choice.to_string());
            command.env_remove("CUDA_LAUNCH_BLOCKING");
            command
        };
        Ok(Self {
            farewell: WRITING,
            ..Self::with_command(command, SHARED.into())
        })
    }

    pub(super) fn with_command(
        command: impl Fn() -> Command + Send + 'static,
        locks: PathBuf,
    ) -> Self {
        Self {
            command: Box::new(command),
            worker: None,
            standby: Vec::new(),
            starting: Vec::new(),
            done: Vec::new(),
            is_confined: false,
            device: None,
            locks,
            lock: None,
            waiting: Box::new(|_| {}),
            broken: None,
            costs: WorkerCosts::default(),
            announced: None,
            farewell: FAREWELL,
            sent: None,
        }
    }

    /// Sets a function that gets a message when the crew waits for another gatekeeper.
    #[must_use]
    pub fn on_waiting(mut self, say: impl Fn(&str) + Send + 'a) -> Self {
        self.waiting = Box::new(say);
        self
    }

    /// Returns the device, which is asked for only once: `NotRun` if there is none, `Fault` if it is broken.
    pub fn device(&mut self) -> Seen<DeviceFacts> {
        if self.device.is_none() {
            // This worker is not confined, because on a machine that was just booted the driver creates its device
            // files now.
            let device = self.start(None);
            self.device = Some(device.clone());
            return device;
        }
        self.device
            .clone()
            .unwrap_or(Seen::NotRun(NotRun::DeviceNotAsked))
    }

    /// Returns the number of devices that the worker sees, including this one.
    ///
    /// # Errors
    /// Environment, if there is no worker to ask or it does not tell.
    pub fn count(&mut self) -> Result<u32, Fault> {
        let counted = self
            .worker
            .as_mut()
            .map(|worker| worker.run(&Job::Count, COUNT, |_| {}));
        let why = match counted {
            Some(Ok(Frame::Counted(count))) => return Ok(count),
            Some(Ok(other)) => format!("the worker sent an unexpected frame: {other:?}"),
            Some(Err(Lost::Hang(message) | Lost::Died(message))) => message,
            None => "there is no worker to ask".to_owned(),
        };
        self.worker = None;
        Err(Fault::new(
            FaultKind::Environment,
            format!("the devices cannot be counted: {why}"),
        ))
    }

    /// Announces, before a job, which job of the same use is asked for after it. The worker then gets both at once, and
    /// reads the second job's files while the device works on the first.
    pub fn announce(&mut self, next: Option<Job>) {
        self.announced = next;
    }

    /// Checks one seed of a case. The deadline is the case's.
    pub fn check(&mut self, job: CheckJob) -> CheckAnswer {
        let deadline = deadline(&job.case);
        let mut driver = None;
        let end = self.run(Use::Check, &Job::Check(Box::new(job)), deadline, |frame| {
            if let Frame::Driver(facts) = frame {
                driver = Some(facts);
            }
        });
        let check = answer(end, |frame| match frame {
            Frame::Checked(facts) => Ok(*facts),
            other => Err(Box::new(other)),
        });
        CheckAnswer {
            driver: driver.unwrap_or_else(|| absent_driver(&check)),
            check,
        }
    }

    /// Times a case. The deadline is the case's. Call `retire` first to get a fresh timing process.
    pub fn time(&mut self, job: TimeJob) -> Seen<TimeFacts> {
        let deadline = deadline(&job.case);
        let end = self.run(Use::Measure, &Job::Time(Box::new(job)), deadline, |_| {});
        let timed = answer(end, |frame| match frame {
            Frame::Timed(facts) => Ok(*facts),
            other => Err(Box::new(other)),
        });
        timed.map(|mut facts| {
            self.leave_out_idle(&mut facts.gpu);
            facts
        })
    }

    /// Launches once for the profiler that wraps the worker. Call `retire` first to get a fresh process.
    pub fn profile(&mut self, job: TimeJob, deadline: Duration) -> Seen<()> {
        let job = Job::Profile(Box::new(job));
        let end = self.run(Use::Measure, &job, deadline, |_| {});
        answer(end, |frame| match frame {
            Frame::Profiled => Ok(()),
            other => Err(Box::new(other)),
        })
    }

    /// Times head and base side by side, like `time`.
    pub fn pair(&mut self, job: PairJob) -> Seen<PairFacts> {
        let deadline = deadline(&job.head.case);
        let mut at_base = false;
        let end = self.run(
            Use::Measure,
            &Job::Pair(Box::new(job)),
            deadline,
            |frame| match frame {
                Frame::BaseStep(_) => at_base = true,
                Frame::Step(_) => at_base = false,
                _ => {}
            },
        );
        let end = match end {
            Seen::Fault(fault) if at_base => Seen::Fault(blame_base(fault)),
            end => end,
        };
        let paired = answer(end, |frame| match frame {
            Frame::Paired(facts) => Ok(*facts),
            other => Err(Box::new(other)),
        });
        paired.map(|mut facts| {
            self.leave_out_idle(&mut facts.head.gpu);
            self.leave_out_idle(&mut facts.base.gpu);
            facts
        })
    }

    /// Removes idle workers from the list of the GPU's processes. They have the GPU open and compute nothing. If
    /// process ids are of another namespace, as many unnamed processes are removed as there are idle workers.
    fn leave_out_idle(&self, gpu: &mut GpuState) {
        let Some(others) = &mut gpu.other_processes else {
            return;
        };
        let standby = self.standby.iter().map(|(worker, _)| worker);
        let idle: Vec<u32> = self
            .done
            .iter()
            .chain(&self.starting)
            .chain(standby)
            .map(Worker::id)
            .collect();
        let mut unnamed = idle.len();
        others.retain(|process| match process.pid {
            Some(pid) => !idle.contains(&pid),
            None if unnamed > 0 => {
                unnamed -= 1;
                false
            }
            None => true,
        });
    }

    /// Ends all workers and releases the GPU. The next job starts a fresh worker.
    pub fn retire(&mut self) {
        debug!("all workers end, and the GPU is released");
        self.end_worker();
        self.end_idle();
        self.lock = None;
    }

    /// Releases the GPU, and prepares a fresh worker for the next job. `ahead` is the number of fresh workers that will
    /// be needed, including this one. If none is standing by, they start side by side before anything is measured,
    /// which takes about as long as starting one.
    pub fn renew(&mut self, ahead: usize) {
        debug!(
            ahead,
            standby = self.standby.len(),
            "times need a fresh worker"
        );
        self.sent = None;
        self.done.extend(self.worker.take());
        self.await_starting();
        if self.standby.is_empty() {
            self.end_idle();
            // A single worker is started when it is needed, and then reports why it cannot start.
            if ahead > 1 && self.broken.is_none() {
                self.spawn(ahead);
                self.await_starting();
            }
        }
        self.lock = None;
    }

    /// Starts as many workers for the first `renew`, which waits for them. They could disturb another gatekeeper, so
    /// none starts while that one measures. They start only if a worker is already open, because a GPU that accepts one
    /// process alone would refuse all others.
    pub fn start_ahead(&mut self, count: usize) {
        let Some(Seen::Got(device)) = &self.device else {
            return;
        };
        if lock::look(&self.locks, &device.uuid).1 == LockState::Free {
            self.spawn(count);
        }
    }

    /// Starts all of them before it waits for any.
    fn spawn(&mut self, count: usize) {
        for _ in 0..count.min(MOST_STANDBY) {
            let Ok(worker) = Worker::spawn((self.command)(), None) else {
                return;
            };
            self.costs.workers += 1;
            self.starting.push(worker);
        }
    }

    /// Waits until all workers have started, because no worker may start while another one measures.
    fn await_starting(&mut self) {
        let began = Instant::now();
        let Ok(deadline) = start_deadline() else {
            return;
        };
        for mut worker in self.starting.drain(..) {
            // A GPU that accepts one process alone refuses the others.
            if let Ok(Frame::Ready(Ready::Device(facts))) = worker.greeting(deadline) {
                self.standby.push((worker, facts));
            }
        }
        self.costs.process += began.elapsed();
    }

    fn end_idle(&mut self) {
        let began = Instant::now();
        let farewell = self.farewell;
        let standby = self.standby.drain(..).map(|(worker, _)| worker);
        let unheard = self.starting.drain(..);
        let idle: Vec<Worker> = self.done.drain(..).chain(unheard).chain(standby).collect();
        std::thread::scope(|scope| {
            for worker in idle {
                scope.spawn(move || worker.end(farewell));
            }
        });
        self.costs.process += began.elapsed();
    }

    /// Returns true if the crew holds the GPU for timings. Its worker is idle then, and another program may be timed.
    pub fn is_measuring(&self) -> bool {
        self.broken.is_none() && matches!(self.lock, Some((Use::Measure, _)))
    }

    fn end_worker(&mut self) -> String {
        self.sent = None;
        let began = Instant::now();
        let farewell = self.farewell;
        let said = self.worker.take().map(|worker| worker.end(farewell));
        let said = said.unwrap_or_default();
        self.costs.process += began.elapsed();
        said
    }

    pub fn costs(&self) -> WorkerCosts {
        self.costs
    }

    fn run(
        &mut self,
        wanted: Use,
        job: &Job,
        deadline: Duration,
        mut on_frame: impl FnMut(Frame),
    ) -> Seen<Frame> {
        if let Some(fault) = &self.broken {
            return environment(format!(
                "not run, the device had failed before: {}",
                fault.message
            ));
        }
        let has_launcher = job.has_launcher();
        let first = self.device();
        if self.is_confined != has_launcher {
            debug!(
                has_launcher,
                "the worker ends: launchers run confined, and others do not"
            );
            self.end_worker();
        }
        let device = match first {
            Seen::Got(_) if self.worker.is_none() => self.start(has_launcher.then_some(job)),
            device => device,
        };
        let device = match device {
            Seen::Got(device) => device,
            Seen::Fault(fault) => return Seen::Fault(fault),
            Seen::Unsupported(why) => return Seen::Unsupported(why),
            Seen::NotRun(why) => return Seen::NotRun(why),
        };
        if let Err(error) = self.hold(&device.uuid, wanted) {
            return environment(error.to_string());
        }
        let Some(worker) = &mut self.worker else {
            return environment("no worker could be started".to_owned());
        };
        let began = Instant::now();
        let sent = match self.sent.take() {
            None => worker.send(job),
            Some((ahead, sent)) if ahead == *job => Ok(sent),
            Some(_) => {
                return environment("the worker is at another job".into());
            }
        };
        // A worker that accepts no more jobs gives no answer either, and that shows at its next job.
        self.sent = self
            .announced
            .take()
            .filter(|next| next.has_launcher() == has_launcher)
            .and_then(|next| worker.send(&next).ok().map(|sent| (next, sent)));
        let mut spent = None;
        let end = sent.and_then(|sent| {
            worker.answer(sent, deadline, |frame| match frame {
                Frame::Spent { device_us } => spent = Some(Duration::from_micros(device_us)),
                frame => on_frame(frame),
            })
        });
        let whole = began.elapsed();
        self.costs.device += spent.unwrap_or(whole).min(whole);
        match end {
            Ok(Frame::Failed(Failure::Unsupported(why))) => Seen::Unsupported(why),
            Ok(Frame::Failed(Failure::Fault {
                fault,
                sticky: false,
            })) => Seen::Fault(fault),
            Ok(Frame::Failed(Failure::Fault {
                mut fault,
                sticky: true,
            })) => {
                // Standard error has the message of a failed assert.
                fault.message += &self.end_worker();
                Seen::Fault(self.classify_fault(fault))
            }
            Ok(frame) => Seen::Got(frame),
            Err(lost) => {
                self.end_worker();
                Seen::Fault(self.classify_fault(fault_of(lost)))
            }
        }
    }

    fn hold(&mut self, uuid: &str, wanted: Use) -> system::error::Result<()> {
        if self.lock.as_ref().is_none_or(|(held, _)| *held != wanted) {
            // The lock is released first: two processes that each hold a share would wait for each other for ever.
            self.lock = None;
            let lock = GpuLock::acquire(&self.locks, uuid, wanted, &self.waiting)?;
            self.lock = Some((wanted, lock));
        }
        Ok(())
    }

    /// Finds out whether the kernel or the machine caused a fault: runs a known-good kernel in a fresh worker. If that
    /// works, the fault is the kernel's, and the worker stays for the next job.
    fn classify_fault(&mut self, fault: Fault) -> Fault {
        warn!(
            ?fault,
            "a fresh worker runs a known-good kernel, to tell kernel from machine"
        );
        let verdict = match self.start(None) {
            Seen::Got(_) => match self
                .worker
                .as_mut()
                .map(|worker| worker.run(&Job::KnownGood, KNOWN_GOOD, |_| {}))
            {
                Some(Ok(Frame::Sane)) => None,
                Some(Ok(Frame::Failed(Failure::Fault { fault, .. }))) => Some(fault.message),
                Some(Ok(Frame::Failed(Failure::Unsupported(why)))) => {
                    Some(reasons::unsupported(&why))
                }
                Some(Ok(other)) => Some(format!("the worker sent an unexpected frame: {other:?}")),
                Some(Err(Lost::Hang(message) | Lost::Died(message))) => Some(message),
                None => Some("no worker could be started".to_owned()),
            },
            Seen::Fault(fault) => Some(fault.message),
            Seen::Unsupported(why) => Some(reasons::unsupported(&why)),
            Seen::NotRun(why) => Some(reasons::not_run(&why)),
        };
        let Some(why) = verdict else {
            warn!("the machine works: the fault is the kernel's, and the fresh worker goes on");
            return fault;
        };
        warn!(why, "the machine is broken: no worker is started any more");
        self.worker = None;
        let fault = Fault::new(
            FaultKind::Environment,
            format!(
                "a known-good kernel in a fresh worker failed too ({why}); before that: {}",
                fault.message
            ),
        );
        self.broken = Some(fault.clone());
        fault
    }

    /// Starts a worker, or takes one that stands by. A job with a launcher gets a confined worker.
    fn start(&mut self, launcher: Option<&Job>) -> Seen<DeviceFacts> {
        let deadline = match start_deadline() {
            Ok(deadline) => deadline,
            Err(error) => return environment(error.to_string()),
        };
        if launcher.is_none()
            && let Some((worker, facts)) = self.standby.pop()
        {
            debug!(pid = worker.id(), "a worker that stands by takes over");
            self.is_confined = false;
            self.worker = Some(worker);
            return Seen::Got(facts);
        }
        debug!(confined = launcher.is_some(), "a worker is started");
        let began = Instant::now();
        let command = (self.command)();
        self.is_confined = launcher.is_some();
        let started = match launcher {
            Some(job) => spawn_confined(command, job),
            None => Worker::spawn(command, None),
        };
        let mut worker = match started {
            Ok(worker) => worker,
            Err(error) => {
                return environment(format!("no worker process could be started: {error}"));
            }
        };
        let greeting = worker.greeting(deadline);
        self.costs.workers += 1;
        self.costs.process += began.elapsed();
        match greeting {
            Ok(Frame::Ready(Ready::Device(facts))) => {
                self.worker = Some(worker);
                Seen::Got(facts)
            }
            Ok(Frame::Ready(Ready::Absent(problem))) => Seen::NotRun(NotRun::NoDevice { problem }),
            Ok(Frame::Ready(Ready::Broken(message))) => environment(message),
            Ok(other) => environment(format!("the worker's first frame is {other:?}")),
            Err(Lost::Hang(message)) => environment(format!(
                "the GPU's driver hangs (libcuda or libnvidia-ml): {message}"
            )),
            Err(Lost::Died(message)) => environment(message),
        }
    }
}

/// A value of `START_VARIABLE` that is no number of seconds.
#[derive(Debug, thiserror::Error)]
#[error("{START_VARIABLE} is `{0}`, and a number of seconds is expected, 1 to 3600")]
struct BadDeadline(String);

fn start_deadline() -> std::result::Result<Duration, BadDeadline> {
    let Ok(text) = std::env::var(START_VARIABLE) else {
        return Ok(START);
    };
    match text.parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err(BadDeadline(text)),
    }
}

/// Starts a confined worker. A launcher is a stranger's code with the driver in its process: it can reach the GPU and
/// its services, can write what the run was asked to dump, and sees few environment variables.
fn spawn_confined(mut command: Command, job: &Job) -> std::io::Result<Worker> {
    let writes: Vec<&Path> = [Path::new("/dev")].into_iter().chain(job.dump()).collect();
    let told = [
        "PATH",
        "HOME",
        "LD_LIBRARY_PATH",
        "LANG",
        "LC_ALL",
        "TMPDIR",
        "CUDA_",
        "NVIDIA_",
        "RUST_",
        "RAYON_",
    ];
    confine::tell(&mut command, &told);
    let rules = Rules {
        writes: &writes,
        hidden: None,
        sockets: Sockets::Local,
        metadata: Metadata::Kept,
        memory: None,
        file: None,
    };
    Worker::spawn(command, Some(&rules))
}

/// Returns the path of this executable, which workers are started from.
///
/// # Errors
/// Environment, if the system does not tell it.
pub fn this_program() -> system::error::Result<PathBuf> {
    std::env::current_exe().map_err(|error| {
        Error::environment(format!(
            "the worker cannot be started, this executable is not found: {error}"
        ))
        .caused_by(error)
    })
}

fn deadline(case: &Case) -> Duration {
    Duration::from_millis(case.deadline_ms)
}

fn fault_of(lost: Lost) -> Fault {
    match lost {
        Lost::Hang(message) => Fault::new(FaultKind::Hang, message),
        Lost::Died(message) => Fault::new(FaultKind::WorkerDied, message),
    }
}

/// Turns a fault that happened while the worker was at the base into the base's fault, which says nothing about head.
fn blame_base(fault: Fault) -> Fault {
    let kind = match fault.kind {
        FaultKind::Hang | FaultKind::WorkerDied => FaultKind::Base,
        kind => kind,
    };
    Fault { kind, ..fault }
}

fn environment<T>(message: String) -> Seen<T> {
    Seen::Fault(Fault::new(FaultKind::Environment, message))
}

/// Returns what `pick` accepts of the last frame. Another frame means that the worker answered another question.
fn answer<T>(end: Seen<Frame>, pick: impl FnOnce(Frame) -> Result<T, Box<Frame>>) -> Seen<T> {
    match end.map(pick) {
        Seen::Got(Ok(facts)) => Seen::Got(facts),
        Seen::Got(Err(frame)) => Seen::Fault(Fault::new(
            FaultKind::WorkerDied,
            format!("the worker sent an unexpected frame: {frame:?}"),
        )),
        Seen::Fault(fault) => Seen::Fault(fault),
        Seen::Unsupported(why) => Seen::Unsupported(why),
        Seen::NotRun(why) => Seen::NotRun(why),
    }
}

/// Returns why the driver's facts are missing: the check ended before them, and its reason is theirs.
fn absent_driver(check: &Seen<CheckFacts>) -> Seen<DriverFacts> {
    match check {
        Seen::Got(_) => Seen::NotRun(NotRun::DriverNotAsked),
        Seen::Fault(fault) => Seen::Fault(fault.clone()),
        Seen::Unsupported(why) => Seen::Unsupported(why.clone()),
        Seen::NotRun(why) => Seen::NotRun(why.clone()),
    }
}
