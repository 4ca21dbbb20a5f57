//! gatekeeper: a regression gate for CUDA kernels.
//!
//! The way of a case through the crates: `config` -> `build` -> `check` -> `run` -> record -> `judge` -> `report` -> exit
//! code. `pipeline` alone knows that order.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod bisect;
pub mod captures;
pub mod cli;
pub mod cmd;
pub mod compilers;
pub mod doctor;
pub mod init;
pub mod injection;
pub mod logging;
pub mod measure;
pub mod programs;
pub mod revisions;
pub mod tune;
