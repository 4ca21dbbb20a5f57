//! Messages of a run while it works, which a command shows.

use std::fmt;

/// Messages of the pipeline while it works.
#[derive(Clone, Debug)]
pub enum Event {
    /// A phase began, or goes on, with this many more steps ahead.
    Began { phase: Phase, steps: u64 },
    /// One step is done. `what` is the next thing to read: a case or a unit.
    Stepped { phase: Phase, what: String },
    /// A phase is over before all of its steps were done.
    Ended { phase: Phase },
    /// A line of its own, on a terminal and in a log. It says what the run waits for, or something that a reader has to
    /// know.
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
