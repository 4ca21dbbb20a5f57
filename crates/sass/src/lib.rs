//! The text that nvdisasm prints of machine code, read into what `explain` compares: instructions by kind, source line
//! and loop. Knows nothing of gates, files or processes. The text is outside data: what is not understood is left out.

#![warn(clippy::disallowed_methods)]

mod facts;
mod flow;
mod kind;
mod listing;

pub use facts::entry;
pub use listing::{Listing, Section};

/// Grows whenever the same text may be read differently from before: part of the key of what is kept.
pub const READER: u32 = 1;
