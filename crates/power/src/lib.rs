//! How often the timing verdict cries wolf, what it sees and what it costs, from recorded processes.
//!
//! A [`Recording`] holds what fresh processes measured, unchanged and slowed. [`analyse`] draws thousands
//! of runs from it, lets the rule of `verdict::stats::sequential` and its rivals decide on the same
//! samples, and counts. Nothing here measures: no files, clock or device (clippy.toml bans them).


pub mod packed;
pub mod recording;

pub mod rivals;
pub mod share;




pub use recording::{Block, Bound, Contest, Order, Process, Recording, Sides};
pub use share::Share;
