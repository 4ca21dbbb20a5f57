//! Search strategies over the valid configurations of a tuning space.
//!
//! A [`Strategy`] is asked for the next configuration and told its cost. It knows nothing of kernels, gates or time: a
//! cost is a number, and smaller is better. The same seed and the same costs give the same questions.

#![warn(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod best;
mod dice;
mod elite;
mod encode;
mod forest;
mod gaussian;
mod guided;
mod prediction;
mod space;
#[cfg(test)]
mod tests;
mod unasked;

pub use elite::Elite;
pub use guided::Guided;
pub use space::{Parameter, Point, Space, TooLarge};

/// A search. Several configurations may be asked for before the first cost is there, so that they can be built ahead.
pub trait Strategy {
    /// Returns the next configuration to try, never one that was asked for or told before. `None` after the last.
    fn ask(&mut self) -> Option<Point>;

    /// Reports the cost of a point: one that was asked for, or known from elsewhere. `None` where it failed: it does not
    /// build, is wrong, breaks a limit or hangs. A cost that is not finite counts as a failure.
    fn tell(&mut self, point: Point, cost: Option<f64>);
}
