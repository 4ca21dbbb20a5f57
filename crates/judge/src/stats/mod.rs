//! Statistics of timings. Knows nothing of kernels, gates or files.
//!
//! Two levels: a [`Sample`] holds the measurements of one process, a [`Group`] one value from each of
//! several processes. Uncertainty lives between processes, where clocks, placement and neighbours
//! differ; within one process thousands of samples agree on the wrong value.

mod group;
pub mod modes;
mod sample;
pub mod sequential;

pub use group::{Between, Comparison, Group, compare, predict};
pub use sample::Sample;
