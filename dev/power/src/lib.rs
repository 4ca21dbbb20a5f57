//! The timing rule against other comparers, and on processes whose truth is known. A development tool:
//! `gatekeeper calibrate` prints the figures of the rule alone (crates/calibration).

#![forbid(unsafe_code)]

pub mod comparison;
mod halves;
pub mod rivals;
pub mod simulate;
mod tables;

pub use comparison::{Comparer, Comparison, Point, compare};
