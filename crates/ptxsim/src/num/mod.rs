//! Arithmetic that PTX defines and Rust does not have: directed rounding, narrow floating-point formats,
//! approximations. These are pure functions over bits.

pub mod approx;
pub mod exact;
pub mod narrow;
pub mod round;

/// Returns the number that these bytes hold, the lowest first.
pub fn little_endian(bytes: &[u8]) -> u64 {
    let highest_first = bytes.iter().rev();
    highest_first.fold(0, |number, byte| number << 8 | u64::from(*byte))
}
