//! How often the timing verdict cries wolf, what it sees and what it costs, from recorded processes.
//!
//! A [`Recording`] holds what fresh processes measured, unchanged and slowed. [`analyse`] draws thousands
//! of runs from it, lets the rule of `verdict::stats::sequential` and its rivals decide on the same
//! samples, and counts. Nothing here measures: no files, clock or device (clippy.toml bans them).

#![forbid(unsafe_code)]

pub mod analysis;
pub mod packed;
pub mod prepared;
pub mod recording;
mod resample;
pub mod rivals;
pub mod share;
pub mod simulate;
mod table;

pub use analysis::{Analysis, Settings, analyse};
pub use recording::{Block, Bound, Change, Contest, Order, Process, Recording, Sides};
pub use share::Share;
