//! Checks. They observe; they never change what a kernel computes.

pub mod global;
pub mod order;
pub mod race;
