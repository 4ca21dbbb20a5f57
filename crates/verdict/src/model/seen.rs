use serde::{Deserialize, Serialize};

/// One piece of evidence: observed, or one of three named ways of not having been observed.
///
/// There is no default on purpose: whoever reads evidence has to say what each of the four means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    Got(T),
    /// It was tried and broke.
    Fault(Fault),
    /// This device or tool cannot do it, whatever the kernel.
    Unsupported {
        reason: String,
    },
    /// It was not tried: filtered out, no device, or an earlier stage refused it.
    NotRun {
        reason: String,
    },
}

impl<T> Seen<T> {
    pub fn got(&self) -> Option<&T> {
        match self {
            Self::Got(value) => Some(value),
            Self::Fault(_) | Self::Unsupported { .. } | Self::NotRun { .. } => None,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Got(value) => Seen::Got(f(value)),
            Self::Fault(fault) => Seen::Fault(fault),
            Self::Unsupported { reason } => Seen::Unsupported { reason },
            Self::NotRun { reason } => Seen::NotRun { reason },
        }
    }
}

/// Something broke while a kernel was built, launched, checked or timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    pub kind: FaultKind,
    /// What the compiler, driver or host said, in full.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// nvcc or the host compiler refused the source.
    Compile,
    /// PTXAS reported nothing for the entry, or the entry is not in the cubin, or its name is ambiguous.
    EntryNotFound,
    /// The driver refused the launch: too much shared memory, too many threads, bad cluster.
    LaunchRefused,
    /// The kernel faulted on the device (illegal address, misaligned access, trap, assert).
    DeviceFault,
    /// The worker did not answer within its deadline and was killed.
    Hang,
    /// The worker process died without a word of its own (signal or exit code in the message).
    WorkerDied,
    /// The reference could not be computed.
    Reference,
    /// The base revision's kernel broke where head's was timed beside it.
    Base,
    /// A known-good kernel failed as well: device, driver or machine, not the kernel under gate.
    Environment,
}

impl FaultKind {
    pub fn words(self) -> &'static str {
        match self {
            Self::Compile => "does not compile",
            Self::EntryNotFound => "entry not found",
            Self::LaunchRefused => "launch refused",
            Self::DeviceFault => "kernel faulted",
            Self::Hang => "hung past its deadline",
            Self::WorkerDied => "worker died",
            Self::Reference => "no reference",
            Self::Base => "the base revision broke",
            Self::Environment => "environment failed",
        }
    }
}
