//! What a run observed, what was agreed, and what follows from both.
//!
//! Everything here is a pure function of its arguments: no files, no clock, no processes (clippy.toml
//! bans them). A record written on one machine is judged to the same bytes on any other.

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_methods)]

pub mod expr;
pub mod judge;
pub mod model;
pub mod occupancy;
pub mod stats;
