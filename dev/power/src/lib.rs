//! How often a timing verdict is a false alarm, which slowdowns it detects and what it costs, counted from recorded
//! processes, and on processes whose truth is known. A development tool.
//!
//! A [`Recording`] holds what fresh processes measured: unchanged kernels and slowed ones. [`record`] makes one on a GPU, with
//! workers of a gatekeeper that is built. [`analyse`] draws thousands of runs from it and lets the rule of
//! `judge::stats::sequential` decide.

#![forbid(unsafe_code)]

mod analysis;
mod dice;
mod draw;
pub mod packed;
mod prepared;
pub mod record;
mod recording;
mod settings;
mod share;
mod shortened;
pub mod simulate;
mod table;

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
