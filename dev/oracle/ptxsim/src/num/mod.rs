//! Arithmetic that Rust does not have as PTX defines it: directed rounding, narrow floating-point
//! formats, approximations. Pure functions over bits.

pub mod approx;
pub mod exact;
pub mod narrow;
pub mod round;
