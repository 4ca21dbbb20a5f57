//! The process boundary. Kernels run in a child process of this same executable; jobs go in and frames
//! come out, a JSON line each. The parent never calls CUDA and survives whatever a kernel does.
//!
//! `host` drives one child, `crew` replaces children that broke on a GPU, `crews` are one for each GPU,
//! `simulators` are several children side by side without one, `child` is the other side. Neither side knows
//! of gates.

pub mod child;
mod crew;
mod crews;
mod host;
mod protocol;
mod simulators;
#[cfg(test)]
mod tests;

pub use crew::{CheckAnswer, Crew, WorkerCosts, this_program};
pub use crews::Crews;
pub use protocol::{
    Arm, CheckJob, EstimateJob, ExpectedOutput, Frame, Job, PairJob, SimulateJob, Simulated,
    TimeJob,
};
pub use simulators::{Simulators, Spent};

/// The hidden subcommand that makes this executable a worker: `gatekeeper __worker auto`.
pub const SUBCOMMAND: &str = "__worker";
