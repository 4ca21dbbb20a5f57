//! Search strategies over the valid configurations of a tuning space.
//!
//! A [`Strategy`] is asked for the next configuration and told what came of it. It knows nothing of kernels, gates
//! or time: a cost is a number, and smaller is better. The same seed and the same answers give the same questions.

#![warn(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod best;
mod dice;
mod elite;
mod encode;
mod forest;
mod gaussian;
mod guided;
mod prediction;
mod space;
mod strategy;
#[cfg(test)]
mod tests;
mod unasked;
mod value;

pub use elite::Elite;
pub use guided::{Guided, Settings};
pub use space::{Parameter, Point, Space, Unusable};
pub use strategy::{Exhaustive, Outcome, Random, Strategy};
pub use value::Value;
