//! The machine below gatekeeper: files, other programs, temporary directories, limits, the cache and the one error
//! type. The crate knows nothing of kernels.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod cache;
pub mod error;
pub mod files;
pub mod limits;
pub mod process;
pub mod sources;
pub mod temporary;
