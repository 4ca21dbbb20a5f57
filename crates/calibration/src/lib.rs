//! How often a timing verdict is a false alarm, which slowdowns it detects and what it costs, counted from
//! recorded processes.
//!
//! A [`Recording`] holds what fresh processes measured: unchanged kernels and slowed ones. [`analyse`] draws
//! thousands of runs from it and lets the rule of `judge::stats::sequential` decide. Nothing here measures:
//! no files, clock or device (clippy.toml bans them).

#![forbid(unsafe_code)]
#![warn(clippy::disallowed_methods)]

mod analysis;
mod dice;
pub mod draw;
pub mod packed;
mod prepared;
mod recording;
mod settings;
mod share;
mod shortened;
pub mod table;

pub use analysis::{Analysis, analyse};
pub use dice::Dice;
pub use draw::{Cell, Counted, Runs};
pub use prepared::{How, Prepared, Spread, Timed, Unusable, prepare};
pub use recording::{
    Block, Bound, Change, Contest, Incompatible, Order, Process, Recording, Sides, median,
};
pub use settings::Settings;
pub use share::Share;
pub use shortened::Protocol;
