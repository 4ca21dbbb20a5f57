//! Values, names and reasons as people write them, and the one way to escape text from outside. Below everything that
//! prints. Decides nothing.

pub mod escape;
pub mod findings;
pub mod names;
pub mod problems;
pub mod reasons;
#[cfg(test)]
mod sentences;
pub mod words;
