//! The process boundary. Kernels run in a child process of this same executable, the worker. The parent never calls
//! CUDA and survives whatever a kernel does.
//!
//! Host and worker exchange lines of JSON. The host writes orders to the worker's standard input: a number and a job.
//! The worker writes frames to its standard output, each with the number of the order that it belongs to. Its first
//! frame, with number 0, says which device it has opened. For each order it then sends frames about its progress, and
//! one frame that ends the job. A fault that poisoned the process ends the job and the worker. The host may send the
//! next order early, and the worker reads its files ahead, but orders are done one after another.
//!
//! The host trusts nothing that a worker writes, because a kernel's or launcher's fault may have damaged the process. A
//! line that is too long or no frame, an answer to another order, or silence until the deadline ends the worker. A
//! frame of progress names the step that comes next, so that a message about a lost worker can say what it was doing,
//! and whose code that was.
//!
//! `host` drives one child. `crew` replaces children that broke on a GPU, and `crews` has one crew for each GPU.
//! `simulators` runs several children side by side without a GPU. `child` is the worker's side. Neither side knows of
//! gates.

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
