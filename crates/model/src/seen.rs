use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One piece of evidence: observed, or one of three named ways of not having been observed.
///
/// There is no default on purpose: whoever reads evidence has to say what each of the four means.
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

/// Gives each variant a stable code, and lists them.
macro_rules! codes {
    ($of:ident: $($variant:ident => $code:literal,)*) => {
        impl $of {
            /// In the order of the documentation.
            pub const CODES: &[&str] = &[$($code),*];

            /// Stable: programs match on it.
            pub fn code(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $code,)*
                }
            }
        }
    };
}

/// Why something was not tried. No fault: somebody decided so, or there is nothing to try it on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NotRun {
    /// The machine has no NVIDIA GPU. With what looking for one gave.
    NoDevice {
        problem: String,
    },
    /// The simulator was asked for.
    SimulatorAsked,
    /// `judge::admit` said no. Why follows from the evidence before it.
    EarlierStage,
    /// Warp instructions, over all seeds of the case.
    OverBudget {
        estimate: u64,
        budget: u64,
    },
    /// Bytes of all tensors of the case.
    OverMemory {
        bytes: u64,
        limit: u64,
    },
    /// A few blocks alone pass the budget, and the first seed alone was run.
    EstimateUnknown,
    /// The variant that is its reference is not part of this run.
    NoReferenceVariant {
        variant: String,
    },
    /// Nothing was built for what this run executes on.
    NoArtifact,
    /// The worker ended before it asked the driver.
    DriverNotAsked,
    DeviceNotAsked,
    /// The build cache no longer has the machine code.
    CodeNotKept,
    /// There is no nvdisasm, which takes machine code apart.
    NoDisassembler,
    /// Another program ran the kernels and did not record it.
    OtherProgram {
        program: String,
    },
    /// Another program passed over it. In its own words.
    PassedOver {
        said: Option<String>,
    },
}

codes! { NotRun:
    NoDevice => "no-device",
    SimulatorAsked => "simulator-asked",
    EarlierStage => "earlier-stage",
    OverBudget => "over-budget",
    OverMemory => "over-memory",
    EstimateUnknown => "estimate-unknown",
    NoReferenceVariant => "no-reference-variant",
    NoArtifact => "no-artifact",
    DriverNotAsked => "driver-not-asked",
    DeviceNotAsked => "device-not-asked",
    CodeNotKept => "code-not-kept",
    NoDisassembler => "no-disassembler",
    OtherProgram => "other-program",
    PassedOver => "passed-over",
}

/// What a device or tool cannot do, whatever the kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Unsupported {
    /// Host code, in the simulator.
    Launcher,
    /// Clusters of blocks, in the simulator.
    Clusters,
    /// Machine code that was made elsewhere, in the simulator, which runs PTX.
    Cubin,
    /// A figure that PTXAS tells and the machine code does not.
    NotInCubin,
    /// PTX of a newer version than the PTXAS that is there: there is no machine code.
    NewerPtx,
    /// The machine code of a launcher's kernels, which is inside its library.
    LauncherCode,
    /// An instruction that the simulator does not have, or PTX that it does not understand.
    Ptx { problem: String },
    /// Of the device or of the simulator.
    OutOfMemory { problem: String },
    /// The device has no clock to trust.
    Clock,
    /// There is no driver to ask, in the simulator.
    Driver,
    /// What this driver cannot do, or comes without.
    DriverLacks { problem: String },
    /// The launcher cannot be captured into a CUDA graph.
    Capture { problem: String },
    /// The host is too slow to keep its own time out of the samples.
    HostTooSlow { problem: String },
    /// A GPU was asked to simulate.
    Simulation,
    /// It is the reference that cannot be had.
    ReferenceVariant {
        variant: String,
        why: Box<Unsupported>,
    },
    /// Another program took times and kept no samples.
    SamplesNotKept { program: String },
    /// The GPU's architecture has no such counter, or the profiler knows none.
    NotCounted,
    /// A share of each of several kernels, of which there is none of all together.
    SeveralKernels { kernels: u32 },
    /// What is run confined cannot be profiled.
    ProfiledConfined,
}

codes! { Unsupported:
    Launcher => "launcher-not-simulated",
    Clusters => "clusters-not-simulated",
    Cubin => "cubin-not-simulated",
    NotInCubin => "not-in-cubin",
    NewerPtx => "ptx-too-new",
    LauncherCode => "launcher-code-not-read",
    Ptx => "ptx-not-simulated",
    OutOfMemory => "out-of-memory",
    Clock => "no-clock",
    Driver => "no-driver",
    DriverLacks => "driver-lacks",
    Capture => "not-capturable",
    HostTooSlow => "host-too-slow",
    Simulation => "gpu-does-not-simulate",
    ReferenceVariant => "reference-unsupported",
    SamplesNotKept => "samples-not-kept",
    NotCounted => "not-counted",
    SeveralKernels => "several-kernels",
    ProfiledConfined => "confined-not-profiled",
}

/// Something broke while a kernel was built, launched, checked or timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// What the compiler, driver or host said, in full.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// nvcc or the host compiler refused the source.
    Compile,
    /// PTXAS reported nothing for the entry, or the entry is not in the cubin, or its name is ambiguous.
    EntryNotFound,
    /// What gates.yaml passes is not what the entry takes.
    Arguments,
    /// The driver refused the launch: too much shared memory, too many threads, bad cluster.
    LaunchRefused,
    /// The kernel faulted on the device (illegal address, misaligned access, trap, assert).
    DeviceFault,
    /// The worker did not answer within its deadline and was killed.
    Hang,
    /// The worker process died without a word of its own (signal or exit code in the message).
    WorkerDied,
    /// nvdisasm broke, or what it wrote is not what is expected of it.
    Disassembler,
    /// The reference could not be computed.
    Reference,
    /// The base revision's kernel broke while head's was timed against it.
    Base,
    /// A rival's process broke, or what it wrote is not what the protocol asks for.
    Rival,
    /// No profiler is installed.
    ProfilerMissing,
    /// The driver lets only administrators read the GPU's counters.
    CountersLocked,
    /// Another user's profiler left a file that keeps others out.
    ProfilerLocked,
    /// The profiler cannot profile this GPU with this driver, or its output cannot be read.
    ProfilerBroke,
    /// A known-good kernel failed as well: device, driver or machine, not the kernel under gate.
    Environment,
}

impl FaultKind {
    pub const ALL: [Self; 16] = [
        Self::Compile,
        Self::EntryNotFound,
        Self::Arguments,
        Self::LaunchRefused,
        Self::DeviceFault,
        Self::Hang,
        Self::WorkerDied,
        Self::Disassembler,
        Self::Reference,
        Self::Base,
        Self::Rival,
        Self::ProfilerMissing,
        Self::CountersLocked,
        Self::ProfilerLocked,
        Self::ProfilerBroke,
        Self::Environment,
    ];

    /// Stable: programs match on it.
    pub fn code(self) -> &'static str {
        match self {
            Self::Compile => "does-not-compile",
            Self::EntryNotFound => "entry-not-found",
            Self::Arguments => "arguments-do-not-fit",
            Self::LaunchRefused => "launch-refused",
            Self::DeviceFault => "kernel-faulted",
            Self::Hang => "hung",
            Self::WorkerDied => "worker-died",
            Self::Disassembler => "disassembler-broke",
            Self::Reference => "no-reference",
            Self::Base => "base-broke",
            Self::Rival => "rival-broke",
            Self::ProfilerMissing => "no-profiler",
            Self::CountersLocked => "counters-locked",
            Self::ProfilerLocked => "profiler-locked",
            Self::ProfilerBroke => "profiler-broke",
            Self::Environment => "environment-failed",
        }
    }
}
