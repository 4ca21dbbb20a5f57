//! Searches among the few best configurations so far, by changing some of their definitions. This is the population of
//! EvoEngineer-Full, with definitions in place of source code.

use crate::Strategy;
use crate::best::Best;
use crate::dice::Dice;
use crate::space::{Point, Space};
use crate::unasked::Unasked;
use std::sync::Arc;

/// The number of configurations that EvoEngineer-Full keeps.
const ELITES: usize = 3;
/// Configurations of generation 0, which are drawn and not changed from an elite.
const FIRST: usize = 9;
/// The number of changes of an elite that are tried before a configuration is drawn instead. Late in a search most of
/// them were asked for already.
const ATTEMPTS: usize = 64;

#[derive(Clone, Debug)]
pub struct Elite {
    space: Arc<Space>,
    unasked: Unasked,
    dice: Dice,
    best: Best,
}

impl Elite {
    pub fn new(space: Arc<Space>, seed: u64) -> Self {
        Self {
            unasked: Unasked::all(&space),
            space,
            dice: Dice::new(seed),
            best: Best::new(ELITES),
        }
    }

    /// Changes one definition of an elite, half of the time; a quarter of the time two, and so on. Returns `None` if
    /// the result is not valid.
    fn mutate(&mut self) -> Option<Point> {
        let drawn = self.dice.below(self.best.points().len());
        let elite = self.best.points().nth(drawn)?;
        let mut choice = self.space.choice(elite).to_vec();
        let parameters = self.space.parameters();
        loop {
            let at = self.dice.below(parameters.len());
            let values = parameters.get(at)?.values.len();
            *choice.get_mut(at)? = self.dice.below(values) as u32;
            if self.dice.below(2) == 0 {
                return self.space.find(&choice);
            }
        }
    }
}

impl Strategy for Elite {
    fn ask(&mut self) -> Option<Point> {
        if self.unasked.taken() >= FIRST {
            for _ in 0..ATTEMPTS {
                if let Some(point) = self.mutate()
                    && self.unasked.take(point)
                {
                    return Some(point);
                }
            }
        }
        self.unasked.draw(&mut self.dice)
    }

    fn tell(&mut self, point: Point, cost: Option<f64>) {
        self.unasked.take(point);
        if let Some(cost) = cost.filter(|cost| cost.is_finite()) {
            self.best.tell(point, cost);
        }
    }
}
