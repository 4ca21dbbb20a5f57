//! Checks. They observe; they never change what a kernel computes.

pub mod race;
