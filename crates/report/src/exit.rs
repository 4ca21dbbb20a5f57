//! Defines the exit codes, in one place.

use model::Conclusion;
use system::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Every required gate held. Skips are counted in the headline.
    Held = 0,
    /// A gate failed, or a kernel faulted.
    Failed = 1,
    /// The use or the configuration was wrong, or a filter matched nothing.
    Usage = 2,
    /// The result is inconclusive, or nothing was judged.
    Undecided = 3,
    /// The environment failed, and not a kernel.
    Environment = 4,
}

impl From<Conclusion> for Exit {
    fn from(conclusion: Conclusion) -> Self {
        match conclusion {
            Conclusion::Pass => Self::Held,
            Conclusion::Fail => Self::Failed,
            Conclusion::Environment => Self::Environment,
            Conclusion::Inconclusive | Conclusion::NothingJudged => Self::Undecided,
        }
    }
}

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::Usage(_) => Self::Usage,
            Error::Environment(_) => Self::Environment,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
