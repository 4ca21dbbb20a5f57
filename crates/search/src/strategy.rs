//! The interface of a search, and the two that learn nothing.

use crate::dice::Dice;
use crate::space::{Point, Space};
use crate::unasked::Unasked;

/// The outcome of a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Smaller is better.
    Cost(f64),
    /// It has no cost: it does not build, is wrong, breaks a limit or hangs.
    Failed,
}

impl Outcome {
    /// `None` where there is no cost to compare: failed, or no finite number.
    pub fn cost(self) -> Option<f64> {
        match self {
            Self::Cost(cost) if cost.is_finite() => Some(cost),
            Self::Cost(_) | Self::Failed => None,
        }
    }
}

/// A search. Several configurations may be asked for before the first outcome is there, so that they can be built ahead.
pub trait Strategy {
    /// The next configuration to try, never one that was asked for or told before. `None` when all were.
    fn ask(&mut self) -> Option<Point>;

    /// Reports the outcome of a point: one that was asked for, or known from elsewhere.
    fn tell(&mut self, point: Point, outcome: Outcome);
}

/// All configurations, in the order of the space.
#[derive(Clone, Debug)]
pub struct Exhaustive {
    unasked: Unasked,
    order: std::vec::IntoIter<Point>,
}

impl Exhaustive {
    pub fn new(space: &Space) -> Self {
        Self {
            unasked: Unasked::all(space),
            order: space.points().collect::<Vec<_>>().into_iter(),
        }
    }
}

impl Strategy for Exhaustive {
    fn ask(&mut self) -> Option<Point> {
        let unasked = &mut self.unasked;
        self.order.find(|&point| unasked.take(point))
    }

    fn tell(&mut self, point: Point, _: Outcome) {
        self.unasked.take(point);
    }
}

/// Any configuration, each as likely as another.
#[derive(Clone, Debug)]
pub struct Random {
    unasked: Unasked,
    dice: Dice,
}

impl Random {
    pub fn new(space: &Space, seed: u64) -> Self {
        Self {
            unasked: Unasked::all(space),
            dice: Dice::new(seed),
        }
    }
}

impl Strategy for Random {
    fn ask(&mut self) -> Option<Point> {
        self.unasked.draw(&mut self.dice)
    }

    fn tell(&mut self, point: Point, _: Outcome) {
        self.unasked.take(point);
    }
}
