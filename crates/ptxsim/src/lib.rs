//! Executes PTX on the CPU, checks its memory accesses and counts what it costs.

pub mod num;
pub mod parse;
