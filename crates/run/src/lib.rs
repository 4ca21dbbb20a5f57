//! Runs kernels: devices (a GPU or the simulator), workers, timing, the profiler and rivals. Appends evidence and
//! judges nothing.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod device;
pub mod machine;
pub mod measure;
pub mod profiler;
pub mod rivals;
pub mod worker;
