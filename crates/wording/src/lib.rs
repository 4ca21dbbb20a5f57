//! Writes values, names and reasons as people do, and escapes text from outside. Everything that prints depends on this
//! crate, and it decides nothing.

pub mod escape;
pub mod findings;
pub mod names;
pub mod problems;
pub mod reasons;
#[cfg(test)]
mod sentences;
pub mod words;
