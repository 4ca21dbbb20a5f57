//! Arithmetic that PTX defines and Rust does not have: directed rounding, narrow floating-point formats,
//! approximations. These are pure functions over bits.

pub mod approx;
pub mod exact;
pub mod narrow;
pub mod round;
