use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One piece of evidence: observed, or one of three named ways of not having been observed.
///
/// There is no default on purpose: each reader of evidence has to handle all four.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    Got(T),
    /// It was tried and broke.
    Fault(Fault),
    /// This device or tool cannot do it, whatever the kernel.
    Unsupported(Unsupported),
    /// It was not tried: no device, or an earlier stage refused it.
    NotRun(NotRun),
}

impl<T> Seen<T> {
    pub fn got(&self) -> Option<&T> {
        match self {
            Self::Got(value) => Some(value),
            Self::Fault(_) | Self::Unsupported(_) | Self::NotRun(_) => None,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Got(value) => Seen::Got(f(value)),
            Self::Fault(fault) => Seen::Fault(fault),
            Self::Unsupported(why) => Seen::Unsupported(why),
            Self::NotRun(why) => Seen::NotRun(why),
        }
    }
}

coded! {
/// Why something was not tried. No fault: somebody decided so, or there is nothing to try it on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NotRun {
    /// The machine has no NVIDIA GPU. With what looking for one gave.
    NoDevice {
        problem: String,
    } = "no-device",
    /// The simulator was asked for.
    SimulatorAsked = "simulator-asked",
    /// `judge::admit` said no. Why follows from the evidence before it.
    EarlierStage = "earlier-stage",
    /// Warp instructions, over all seeds of the case.
    OverBudget {
        estimate: u64,
        budget: u64,
    } = "over-budget",
    /// Bytes of all tensors of the case.
    OverMemory {
        bytes: u64,
        limit: u64,
    } = "over-memory",
    /// A few blocks alone pass the budget, and the first seed alone was run.
    EstimateUnknown = "estimate-unknown",
    /// The variant that is its reference is not part of this run.
    NoReferenceVariant {
        variant: String,
    } = "no-reference-variant",
    /// Nothing was built for what this run executes on.
    NoArtifact = "no-artifact",
    /// The worker ended before it asked the driver.
    DriverNotAsked = "driver-not-asked",
    DeviceNotAsked = "device-not-asked",
    /// The build cache no longer has the machine code.
    CodeNotKept = "code-not-kept",
    /// There is no nvdisasm, which takes machine code apart.
    NoDisassembler = "no-disassembler",
    /// Another program ran the kernels and did not record it.
    OtherProgram {
        program: String,
    } = "other-program",
    /// Another program passed over it. In its own words.
    PassedOver {
        said: Option<String>,
    } = "passed-over",
}
}

coded! {
/// A thing that a device or tool cannot do, whatever the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Unsupported {
    /// Host code, in the simulator.
    Launcher = "launcher-not-simulated",
    /// Clusters of blocks, in the simulator.
    Clusters = "clusters-not-simulated",
    /// Machine code that was made elsewhere, in the simulator, which runs PTX.
    Cubin = "cubin-not-simulated",
    /// A figure that PTXAS tells and the machine code does not.
    NotInCubin = "not-in-cubin",
    /// PTX of a newer version than the PTXAS that is there: there is no machine code.
    NewerPtx = "ptx-too-new",
    /// The machine code of a launcher's kernels, which is inside its library.
    LauncherCode = "launcher-code-not-read",
    /// An instruction that the simulator does not have, or PTX that it does not understand.
    Ptx { problem: String } = "ptx-not-simulated",
    /// Memory of the device or of the simulator.
    OutOfMemory { problem: String } = "out-of-memory",
    /// The device has no clock to trust.
    Clock = "no-clock",
    /// There is no driver to ask, in the simulator.
    Driver = "no-driver",
    /// A thing that this driver cannot do, or comes without.
    DriverLacks { problem: String } = "driver-lacks",
    /// The launcher cannot be captured into a CUDA graph.
    Capture { problem: String } = "not-capturable",
    /// The host is too slow to keep its own time out of the samples.
    HostTooSlow { problem: String } = "host-too-slow",
    /// A GPU was asked to simulate.
    Simulation = "gpu-does-not-simulate",
    /// It is the reference that cannot be had.
    ReferenceVariant {
        variant: String,
        why: Box<Unsupported>,
    } = "reference-unsupported",
    /// Another program took times and kept no samples.
    SamplesNotKept { program: String } = "samples-not-kept",
    /// The GPU's architecture has no such counter, or the profiler knows none.
    NotCounted = "not-counted",
    /// A share of each of several kernels, of which there is none of all together.
    SeveralKernels { kernels: u32 } = "several-kernels",
    /// A confined program cannot be profiled.
    ProfiledConfined = "confined-not-profiled",
}
}

/// Something broke while a kernel was built, launched, checked or timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// The message of the compiler, driver or host, in full.
    pub message: String,
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

named! {
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FaultKind, code: &'static str {
    /// nvcc or the host compiler refused the source.
    Compile = "compile" => "does-not-compile",
    /// PTXAS reported nothing for the entry, or the entry is not in the cubin, or its name is ambiguous.
    EntryNotFound = "entry_not_found" => "entry-not-found",
    /// The arguments of gates.yaml do not fit the entry.
    Arguments = "arguments" => "arguments-do-not-fit",
    /// The driver refused the launch: too much shared memory, too many threads, bad cluster.
    LaunchRefused = "launch_refused" => "launch-refused",
    /// The kernel faulted on the device (illegal address, misaligned access, trap, assert).
    DeviceFault = "device_fault" => "kernel-faulted",
    /// The worker did not answer within its deadline and was killed.
    Hang = "hang" => "hung",
    /// The worker process died without a word of its own (signal or exit code in the message).
    WorkerDied = "worker_died" => "worker-died",
    /// nvdisasm broke, or what it wrote is not what is expected of it.
    Disassembler = "disassembler" => "disassembler-broke",
    /// The reference could not be computed.
    Reference = "reference" => "no-reference",
    /// The base revision's kernel broke while head's was timed against it.
    Base = "base" => "base-broke",
    /// A rival's process broke, or what it wrote is not what the protocol asks for.
    Rival = "rival" => "rival-broke",
    /// No profiler is installed.
    ProfilerMissing = "profiler_missing" => "no-profiler",
    /// The driver lets only administrators read the GPU's counters.
    CountersLocked = "counters_locked" => "counters-locked",
    /// Another user's profiler left a file that keeps others out.
    ProfilerLocked = "profiler_locked" => "profiler-locked",
    /// The profiler cannot profile this GPU with this driver, or its output cannot be read.
    ProfilerBroke = "profiler_broke" => "profiler-broke",
    /// A known-good kernel failed as well: device, driver or machine, not the kernel under gate.
    Environment = "environment" => "environment-failed",
}
}
