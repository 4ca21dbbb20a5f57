//! Reads the text that nvdisasm prints of machine code into what `explain` compares: instructions by kind, source line
//! and loop. It knows nothing of gates, files or processes. The text is outside data, and what is not understood is
//! left out.

#![warn(clippy::disallowed_methods)]

mod ahead;
mod facts;
mod flow;
mod kind;
mod listing;

pub use facts::entry;
pub use listing::{Listing, Section};

/// The version of the reader, which grows whenever the same text may be read differently. It is part of the key of what
/// is kept.
pub const READER: u32 = 2;
