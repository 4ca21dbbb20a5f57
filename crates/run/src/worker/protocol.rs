//! Messages between the host and a worker, as lines of JSON. The module `worker` describes the protocol.

use crate::device::Failure;
use build::Artifact;
use model::{
    Case, CheckFacts, DeviceFacts, DriverFacts, PairFacts, Pairing, Schedule, Seen,
    SimulationFacts, Simulator, Singles, TimeFacts,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// One line on the worker's standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Comes back with every frame that belongs to it.
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
    /// One launch for a profiler around this worker, on buffers prepared as for timing.
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
    /// The seed of the data that a later launch finds, where the kernel keeps state from launch to launch.
    pub later_seed: u64,
    pub expected: ExpectedOutput,
    /// Write inputs, outputs and reference there as .npy.
    pub dump: Option<PathBuf>,
}

/// Where the right answer comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedOutput {
    /// Computed by the parent, as `check::cache` wrote it: over the inputs as the kernel sees them, and
    /// before quantisation where an input has a codec.
    Files {
        seen: PathBuf,
        original: Option<PathBuf>,
    },
    /// Another variant of the same kernel, run first in the same process.
    Variant { case: Box<Case>, artifact: Artifact },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeJob {
    pub case: Case,
    pub artifact: Artifact,
    pub seed: u64,
    pub schedule: Schedule,
}

/// Head and base of one case, side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairJob {
    pub head: Arm,
    pub base: Arm,
    pub seed: u64,
    /// Counted from 0 for each case.
    pub process: u32,
    pub schedule: Schedule,
    pub pairing: Pairing,
    pub singles: Singles,
}

/// A case as one of the two sides builds and calls it.
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
    /// Warp instructions after which it stops.
    pub limit: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulateJob {
    pub check: CheckJob,
    /// Warp instructions after which it stops.
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
pub struct Line {
    /// The order that it answers; 0 for what comes before the first.
    pub id: u64,
    pub frame: Frame,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// The first frame of every worker.
    Ready(Ready),
    /// The worker's next step; shown where nothing more is heard of it.
    Step(String),
    /// As `Step`, with the base revision alone: a worker that is never heard of again is then its doing.
    BaseStep(String),
    /// Facts of the driver. They come before the launches of a check, so that they are known even if a launch faults.
    Driver(Seen<DriverFacts>),
    /// Right before the end of a job: how long it used the device, in us.
    Spent {
        device_us: u64,
    },
    // The rest end a job.
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
