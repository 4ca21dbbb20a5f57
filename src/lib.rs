//! gatekeeper: a regression gate for CUDA kernels.
//!
//! The way of a case through the house: `config` -> `build` -> `check` -> `measure` -> record ->
//! `verdict::judge` -> `report` -> exit code. `pipeline` alone knows that order.

// Outside of tests every file is read through `files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod apart;
pub mod build;
pub mod cache;
pub mod calibrate;
pub mod check;
pub mod cli;
pub mod cmd;
pub mod config;
pub mod counters;
pub mod device;
pub mod doctor;
pub mod error;
pub mod exit;
pub mod explain;
pub mod files;
pub mod history;
pub mod init;
pub mod limits;
pub mod measure;
pub mod micro;
pub mod pipeline;
pub mod process;
mod profiler;
pub mod repo;
pub mod report;
mod rivals;
pub mod shard;
mod sources;
pub mod store;
pub mod temporary;
pub mod toolchain;
pub mod tune;
pub mod worker;
