//! Messages of a run while it works; a command shows them.

use std::fmt;

/// Messages of the pipeline while it works.
#[derive(Clone, Debug)]
pub enum Event {
    /// So many more steps lie ahead of a phase, which began with them or goes on.
    Began { phase: Phase, steps: u64 },
    /// One step done; `what` is the next thing to read: a case, a unit.
    Stepped { phase: Phase, what: String },
    /// A phase is over before all of its steps were done.
    Ended { phase: Phase },
    /// A line of its own, on a terminal and in a log: what the run waits for, or what a reader has to know.
    Waiting(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Build,
    Reference,
    Check,
    Estimate,
    Simulate,
    Time,
    Profile,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Build => "building",
            Self::Reference => "references",
            Self::Check => "checking",
            Self::Estimate => "estimating",
            Self::Simulate => "simulating",
            Self::Time => "timing",
            Self::Profile => "profiling",
        })
    }
}
