//! Statistics of timings. The module knows nothing of kernels, gates or files. `times` defines p50, p90, p99 and cv,
//! once for everybody that uses them.
//!
//! There are two levels: a [`Sample`] holds the measurements of one process, and a [`ProcessGroup`] holds one value
//! from each of several processes. Uncertainty lives between processes, where clocks, placement and neighbours differ.
//! Within one process thousands of samples can agree on the wrong value.

mod group;
pub mod modes;
mod sample;
pub mod sequential;
mod times;

pub use group::{Between, Comparison, ProcessGroup, compare, predict};
pub use sample::Sample;
pub use times::{ProcessTimes, ProcessValue, over_processes, p50};
