//! Messages between the host and a worker, as lines of JSON. The module `worker` describes the protocol.

use crate::device::Failure;
use build::Artifact;
use model::{
    Case, CaseId, CheckFacts, DeviceFacts, DriverFacts, PairFacts, Pairing, Schedule, Seen,
    SimulationFacts, Simulator, Singles, TimeFacts,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One line on the worker's standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerJob {
    /// The number of the order, which comes back with every frame that belongs to it.
    pub id: u64,
    pub job: Job,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Asks whether the device still works, by a known-good kernel.
    KnownGood,
    /// Asks for the number of devices.
    Count,
    Check(Box<CheckJob>),
    Time(Box<TimeJob>),
    Pair(Box<PairJob>),
    /// Launches once for a profiler around this worker, on buffers that are prepared as for timing.
    Profile(Box<TimeJob>),
    Estimate(Box<EstimateJob>),
    Simulate(Box<SimulateJob>),
}

impl Job {
    /// Returns true if the job runs a user's code in the worker itself, and not only on the device.
    pub fn has_launcher(&self) -> bool {
        let is_launcher = |artifact: &Artifact| matches!(artifact, Artifact::Launcher { .. });
        match self {
            Self::KnownGood | Self::Count => false,
            Self::Check(job) => job.artifacts().any(is_launcher),
            Self::Time(job) | Self::Profile(job) => is_launcher(&job.artifact),
            Self::Pair(job) => [&job.head, &job.base]
                .iter()
                .any(|arm| is_launcher(&arm.artifact)),
            Self::Estimate(job) => is_launcher(&job.artifact),
            Self::Simulate(job) => job.check.artifacts().any(is_launcher),
        }
    }

    /// Returns the case, and what is done with it, for logs.
    pub(super) fn describe(&self) -> (&'static str, Option<&CaseId>) {
        match self {
            Self::KnownGood => ("known-good kernel", None),
            Self::Count => ("count of devices", None),
            Self::Check(job) => ("check", Some(&job.case.id)),
            Self::Time(job) => ("time", Some(&job.case.id)),
            Self::Pair(job) => ("time against the base", Some(&job.head.case.id)),
            Self::Profile(job) => ("profile", Some(&job.case.id)),
            Self::Estimate(job) => ("estimate", Some(&job.case.id)),
            Self::Simulate(job) => ("simulate", Some(&job.check.case.id)),
        }
    }

    /// Returns the directory to which the job writes files.
    pub fn dump(&self) -> Option<&Path> {
        match self {
            Self::Check(job) => job.dump.as_deref(),
            _ => None,
        }
    }
}

impl CheckJob {
    fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let other = match &self.expected {
            ExpectedOutput::Variant { artifact, .. } => Some(artifact),
            ExpectedOutput::Files { .. } => None,
        };
        std::iter::once(&self.artifact).chain(other)
    }
}

/// A check of one seed of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckJob {
    pub case: Case,
    pub artifact: Artifact,
    pub seed: u64,
    /// The seed of the data that a later launch finds, for kernels that keep state from launch to launch.
    pub later_seed: u64,
    pub expected: ExpectedOutput,
    /// The directory to which inputs, outputs and the reference are written as .npy.
    pub dump: Option<PathBuf>,
}

/// The origin of the expected outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOutput {
    /// The host computed them, and `check::cache` wrote them: over the inputs as the kernel sees them, and over the
    /// inputs before quantisation if an input has a codec.
    Files {
        seen: PathBuf,
        original: Option<PathBuf>,
    },
    /// Another variant of the same kernel computes them first, in the same process.
    Variant { case: Box<Case>, artifact: Artifact },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeJob {
    pub case: Case,
    pub artifact: Artifact,
    pub seed: u64,
    pub schedule: Schedule,
}

/// Times head and base of one case side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairJob {
    pub head: Arm,
    pub base: Arm,
    pub seed: u64,
    /// The number of the process, from 0 for each case.
    pub process: u32,
    pub schedule: Schedule,
    pub pairing: Pairing,
    pub singles: Singles,
}

/// A case as one side builds and calls it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    pub case: Case,
    pub artifact: Artifact,
}

/// Asks for the cost of simulating one seed of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EstimateJob {
    pub case: Case,
    pub artifact: Artifact,
    pub seed: u64,
    /// The number of warp instructions after which it stops.
    pub limit: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulateJob {
    pub check: CheckJob,
    /// The number of warp instructions after which it stops.
    pub limit: u64,
    /// The number of cores that it may use.
    pub threads: usize,
}

/// The facts of one simulated launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulated {
    pub check: CheckFacts,
    pub simulation: SimulationFacts,
}

/// One line that the worker writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerLine {
    /// The order that it answers, or 0 before the first order.
    pub id: u64,
    pub frame: Frame,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// The first frame of every worker, about its device.
    Ready(Ready),
    /// The worker's next step. A message about a lost worker names it.
    Step(String),
    /// The next step, which only concerns the base revision. If the worker is lost in this step, the base is to blame.
    BaseStep(String),
    /// Facts of the driver. They come before the launches of a check, so that they are known even if a launch faults.
    Driver(Seen<DriverFacts>),
    /// The time for which a job used the device, in us. It comes right before the job's end.
    Spent {
        device_us: u64,
    },
    // All further frames end a job.
    Sane,
    /// The number of devices of the machine.
    Counted(u32),
    Checked(Box<CheckFacts>),
    Timed(Box<TimeFacts>),
    Paired(Box<PairFacts>),
    /// The launch is over. The profiler has the counters.
    Profiled,
    /// Warp instructions of the whole launch; `None` if a sample of its blocks alone passed the limit.
    Estimated(Option<u64>),
    Simulated(Box<Simulated>),
    Failed(Failure),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    Device(DeviceFacts),
    Simulator(Simulator),
    /// There is no device, and the user named none.
    Absent(String),
    Broken(String),
}

impl Frame {
    /// Returns true if the worker sends nothing more about the job after this message.
    pub fn ends_job(&self) -> bool {
        match self {
            Self::Ready(_)
            | Self::Step(_)
            | Self::BaseStep(_)
            | Self::Driver(_)
            | Self::Spent { .. } => false,
            Self::Sane
            | Self::Counted(_)
            | Self::Checked(_)
            | Self::Timed(_)
            | Self::Paired(_)
            | Self::Profiled
            | Self::Estimated(_)
            | Self::Simulated(_)
            | Self::Failed(_) => true,
        }
    }
}
