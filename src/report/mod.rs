//! What a person or a program reads of a judgement. Decides nothing.

mod beside;
pub mod github;
pub mod json;
pub mod junit;
pub mod markdown;
mod names;
mod notes;
pub mod nvbench;
mod printed;
pub mod progress;
mod signature;
mod standing;
mod summary;
pub mod terminal;

#[cfg(test)]
mod tests;
