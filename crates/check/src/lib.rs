//! Seeded inputs, codecs, references and comparison: everything about correctness that needs no device.
//!
//! The crate knows the case, and nothing of CUDA, workers or verdicts. The device side asks for bytes to upload, and
//! hands back bytes to judge. If no right answer can be produced, that is a fault with a message, and never a skip.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod against_base;
pub mod cache;
mod captured;
mod codec;
pub mod compare;
pub mod compared;
mod elem;
mod error;
mod fill;
mod generator;
pub mod images;
pub mod inputs;
mod layout;
pub mod npy;
mod order;
mod packed;
pub mod poison;
mod reading;
mod recent;
pub mod reference;
mod special;
#[cfg(test)]
mod testing;
mod values;

pub use compared::ComparedElements;
pub use layout::{WrongBytes, decode};
pub use poison::same;
pub use recent::Recent;
pub use values::{Outputs, Values};
