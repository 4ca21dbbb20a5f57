use super::{Place, SourceLine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One piece of evidence: observed, or one of three named ways of not having been observed.
///
/// There is deliberately no default: each reader of evidence has to handle all four.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    Got(T),
    /// It was tried, and something broke.
    Fault(Fault),
    /// This device or tool cannot do it, whatever the kernel.
    Unsupported(Unsupported),
    /// It was not tried: there was no device, or an earlier stage refused it.
    NotRun(NotRun),
}

impl<T> Seen<T> {
    /// Returns the value, or `None` for any reason why there is none.
    pub fn got(&self) -> Option<&T> {
        match self {
            Self::Got(value) => Some(value),
            Self::Fault(_) | Self::Unsupported(_) | Self::NotRun(_) => None,
        }
    }

    /// Converts the value, and keeps any reason why there is none.
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
    [NotRun]
    /// The machine has no NVIDIA GPU.
    ///
    /// Run on a GPU.
    NoDevice {
        /// The message of the driver or of the search for it.
        problem: String,
    } = "no-device" [Skipped],
    /// `--device sim` was given; times are measured on a GPU.
    ///
    /// Run on a GPU.
    SimulatorAsked = "simulator-asked" [Skipped],
    /// Build or checks did not pass.
    ///
    /// Fix what they report.
    // `judge::admit` said no. Why follows from the evidence before it.
    EarlierStage = "earlier-stage" [Skipped],
    /// Simulating the case takes more warp instructions than the budget.
    ///
    /// Raise `simulation: {budget: ...}` or `--sim-budget`, or add a smaller shape.
    OverBudget {
        /// Warp instructions, over all seeds of the case.
        estimate: u64,
        budget: u64,
    } = "over-budget" [Skipped],
    /// The tensors of the case do not fit the simulator's memory.
    ///
    /// Add a smaller shape.
    OverMemory {
        /// The bytes of all tensors of the case together.
        bytes: u64,
        limit: u64,
    } = "over-memory" [Skipped],
    /// The cost of the case could not be estimated, so only its first seed was simulated.
    ///
    /// Raise the budget, or add a smaller shape.
    EstimateUnknown = "estimate-unknown" [Skipped],
    /// The variant that serves as reference is not part of this run.
    ///
    /// Select it too.
    NoReferenceVariant { variant: String } = "no-reference-variant" [Skipped],
    /// Nothing was built for this device.
    ///
    /// Add its architecture to `architectures`.
    NoArtifact = "no-artifact" [Skipped],
    /// The worker ended before it asked the driver.
    ///
    /// See the fault of the same case.
    DriverNotAsked = "driver-not-asked" [Skipped],
    /// This run asked for no device, so none was used.
    DeviceNotAsked = "device-not-asked" [Skipped],
    /// Machine code is not explained: the build cache of this machine does not have it.
    ///
    /// Explain on the machine that made both records, or run with `--base`.
    CodeNotKept = "code-not-kept" [Skipped],
    /// Machine code is not explained: there is no nvdisasm.
    ///
    /// Run `gatekeeper toolchain install`.
    NoDisassembler = "no-disassembler" [Skipped],
    /// The file was compiled already: only machine code is compared, and nothing is run.
    Compiled = "compiled-file" [Skipped],
    /// Another program ran the kernels and did not record it.
    OtherProgram { program: String } = "other-program" [Skipped],
    /// Another program skipped it. The message is that program's.
    PassedOver { said: Option<String> } = "passed-over" [Skipped],
}
}

coded! {
/// A thing that a device or tool cannot do, whatever the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Unsupported {
    [NotRun]
    /// A launcher is host code, and the simulator runs device code only.
    ///
    /// Run on a GPU.
    Launcher = "launcher-not-simulated" [Unsupported],
    /// The source is a cubin, and the simulator runs PTX.
    ///
    /// Run on a GPU, or give the .ptx that it was made from.
    Cubin = "cubin-not-simulated" [Unsupported],
    /// The source is a cubin, which does not tell the spills, or the size of the stack where it calls functions.
    ///
    /// Give the .ptx that it was made from.
    NotInCubin = "not-in-cubin" [Unsupported],
    /// The source is PTX that is too new for the installed PTXAS: no resources are known, and no GPU can run it. The
    /// simulator runs it.
    ///
    /// Use a newer compiler, or make older PTX.
    NewerPtx = "ptx-too-new" [Unsupported],
    /// Machine code is not explained: a launcher's kernels are inside its library.
    ///
    /// Declare the kernel itself, with `entry`.
    LauncherCode = "launcher-code-not-read" [Unsupported],
    /// The simulator does not have an instruction that the kernel uses.
    ///
    /// Run on a GPU.
    Ptx { problem: String } = "ptx-not-simulated" [Unsupported],
    /// The device or the simulator has too little memory.
    ///
    /// Add a smaller shape.
    OutOfMemory { problem: String } = "out-of-memory" [Unsupported],
    /// The device has no clock to trust.
    ///
    /// Run on a GPU.
    Clock = "no-clock" [Unsupported],
    /// The simulator has no driver to ask.
    ///
    /// Run on a GPU.
    Driver = "no-driver" [Unsupported],
    /// The driver cannot do what is needed.
    ///
    /// Update the driver.
    DriverLacks { problem: String } = "driver-lacks" [Unsupported],
    /// The launcher cannot be captured into a CUDA graph.
    ///
    /// Remove synchronisation and allocation from the launcher.
    Capture { problem: String } = "not-capturable" [Unsupported],
    /// The host is too slow to keep its own time out of the samples.
    ///
    /// Use a faster or quieter host.
    HostTooSlow { problem: String } = "host-too-slow" [Unsupported],
    /// A GPU was asked to simulate.
    ///
    /// Run with `--device sim`.
    Simulation = "gpu-does-not-simulate" [Unsupported],
    /// The reference variant cannot run on this device.
    ///
    /// See the rest of the message.
    ReferenceVariant { variant: String, why: Box<Unsupported> } = "reference-unsupported" [Unsupported],
    /// Another program kept no samples.
    ///
    /// Run NVBench with `--jsonbin`.
    SamplesNotKept { program: String } = "samples-not-kept" [Unsupported],
    /// The GPU's architecture has no counter for it, or the profiler knows none.
    ///
    /// Gate another metric.
    NotCounted = "not-counted" [Unsupported],
    /// The case launches several kernels, and shares do not add up.
    ///
    /// Gate a count, or profile the steps as cases of their own.
    SeveralKernels { kernels: u32 } = "several-kernels" [Unsupported],
    /// A launcher runs confined, which keeps a profiler out.
    ///
    /// Profile its kernels as entries of their own.
    ProfiledConfined = "confined-not-profiled" [Unsupported],
    /// A launch of a program that cannot be captured, or that was captured and cannot run here.
    ///
    /// See [what is left out](capture.md#what-is-left-out), or name other kernels under `kernels` of the program.
    NotCaptured { problem: String } = "not-captured" [Unsupported],
}
}

/// Something broke while a kernel was built, launched, checked or timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// The full message of the compiler, driver or host.
    pub message: String,
    /// Where a compiler or a simulated launch stopped. The hardware does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Box<FaultSite>>,
}

/// The place in the code where something broke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FaultSite {
    Launch(LaunchSite),
    /// The first line that a compiler refused.
    Source(SourceLine),
}

/// The instruction at which a simulated launch stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchSite {
    pub place: Place,
    pub block: [u32; 3],
    pub thread: [u32; 3],
}

impl FaultSite {
    pub fn line(&self) -> Option<&SourceLine> {
        match self {
            Self::Launch(site) => site.place.line.as_ref(),
            Self::Source(line) => Some(line),
        }
    }

    /// Returns true if both name the same place in the code.
    pub fn is_at(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Launch(one), Self::Launch(other)) => one.place == other.place,
            (Self::Source(one), Self::Source(other)) => one == other,
            _ => false,
        }
    }
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            site: None,
        }
    }
}

coded! {
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    [Wrong]
    /// nvcc or the host compiler rejected the source. The message is the compiler's.
    ///
    /// Fix the source, its flags or `include_dirs`.
    Compile = "does-not-compile" [Fail],
    /// The entry is not in the cubin, its name matches several, or PTXAS reported nothing for it.
    ///
    /// Correct `entry`; the message lists candidates.
    EntryNotFound = "entry-not-found" [Fail],
    /// An argument in gates.yaml is of another type or size than the kernel's parameter, or there are more or fewer of
    /// them.
    ///
    /// Change `args` at the line that the message names.
    Arguments = "arguments-do-not-fit" [Fail],
    /// The driver rejected the launch.
    ///
    /// Reduce threads, shared memory or cluster size; a cooperative grid has to fit the GPU as a whole.
    LaunchRefused = "launch-refused" [Fail],
    /// The kernel faulted: illegal or misaligned address, trap or assert.
    ///
    /// Fix the kernel. The simulator (`--device sim`) names the line.
    DeviceFault = "kernel-faulted" [Fail],
    /// The kernel did not finish before its deadline, and its process was ended.
    ///
    /// Look for a barrier that not all threads reach, or an endless loop.
    Hang = "hung" [Fail],
    /// The process that ran the kernel ended by a signal or an exit code.
    ///
    /// Look at host code: a launcher or a reference.
    WorkerDied = "worker-died" [Fail],
    /// The reference does not compile, or could not be computed.
    ///
    /// Fix the reference.
    Reference = "no-reference" [Fail],
    /// A program of gates.yaml, or its build, failed, was too late, or launched nothing that can be captured.
    ///
    /// Run its `build` and its `command` by hand, in the directory of gates.yaml.
    Program = "program-failed" [Fail],

    [NotRun]
    /// Machine code is not explained: nvdisasm failed, or its output cannot be read.
    ///
    /// Install the pinned one with `gatekeeper toolchain install`.
    Disassembler = "disassembler-broke" [Environment],
    /// Nsight Compute was not found.
    ///
    /// Install it (package `nsight-compute`), or put `ncu` on PATH.
    ProfilerMissing = "no-profiler" [Environment],
    /// The driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM).
    ///
    /// Set the driver's option `NVreg_RestrictProfilingToAdminUsers=0`, or run as root; in a container add the
    /// capability SYS_ADMIN.
    CountersLocked = "counters-locked" [Environment],
    /// Another user's profiler left a lock file.
    ///
    /// Have its owner remove the file that the message names, or set TMPDIR to a directory of your own.
    ProfilerLocked = "profiler-locked" [Environment],
    /// Nsight Compute cannot profile this GPU with this driver, or its output cannot be read.
    ///
    /// Try `ncu` by hand; install a version that knows the GPU.
    ProfilerBroke = "profiler-broke" [Environment],
    /// A known-good kernel failed as well: device, driver or machine.
    ///
    /// Run `gatekeeper doctor`.
    Environment = "environment-failed" [Environment],

    [Undecided]
    /// The base's kernel failed while head was timed against it.
    ///
    /// Fix the base, or name another one.
    Base = "base-broke" [Inconclusive],
    /// The rival failed, or its output does not follow the protocol.
    ///
    /// Fix the rival's command; see [rivals](gates.md#rivals).
    Rival = "rival-broke" [Inconclusive],
}
}
