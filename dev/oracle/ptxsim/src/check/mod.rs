//! Checks. They observe; they never change what a kernel computes.

pub mod cells;
pub mod global;
pub mod order;
pub mod page;
pub mod race;
