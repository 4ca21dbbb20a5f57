//! The reasons for which statistics decide nothing. They are in this crate because reasons of verdicts carry them.

/// The reason for which a rule or a ratio decides nothing. It is never a pass.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Undecidable {
    #[error("the looks {0:?} do not ascend from at least two processes")]
    Looks(Vec<u32>),
    #[error("a tolerance of {0} is not a share from 0 up")]
    Tolerance(f64),
    #[error("a chance of error of {0} is not above 0 and below one half")]
    Chance(f64),
    #[error("a resolution of {0} is not a number from 0 up")]
    Resolution(f64),
    #[error("the ratio of process {index} is not a finite number above zero")]
    Ratio { index: usize },
    #[error("neither the first {processes} processes nor the clock show any spread")]
    NoSpread { processes: u32 },
}

/// With fewer single launches than this, two modes cannot be distinguished from one.
pub const LEAST_LAUNCHES_FOR_MODES: usize = 200;
