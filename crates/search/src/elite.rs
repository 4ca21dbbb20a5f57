//! Elite search: the few best configurations so far, and changes of some of their definitions. It is the
//! population of EvoEngineer-Full, with definitions in the place of source code.

use crate::best::Best;
use crate::dice::Dice;
use crate::space::{Point, Space};
use crate::strategy::{Outcome, Strategy};
use crate::unasked::Unasked;
use std::sync::Arc;

/// As many as EvoEngineer-Full keeps.
const ELITES: usize = 3;
/// Configurations of generation 0, which no elite was changed into.
const FIRST: usize = 9;
/// Changes of an elite that are tried before a configuration is drawn instead: most of them were asked for.
const ATTEMPTS: usize = 64;

#[derive(Clone, Debug)]
pub struct Elite {
    space: Arc<Space>,
    unasked: Unasked,
    dice: Dice,
    best: Best,
    /// Points of generation 0, the next one first.
    first: std::vec::IntoIter<Point>,
}

impl Elite {
    /// Generation 0 starts with `seeds`, in this order. Drawn ones fill it up.
    pub fn new(space: Arc<Space>, seed: u64, seeds: &[Point]) -> Self {
        let mut dice = Dice::new(seed);
        let first = Unasked::all(&space).generation(seeds, FIRST, &mut dice);
        Self {
            unasked: Unasked::all(&space),
            space,
            dice,
            best: Best::of(ELITES),
            first: first.into_iter(),
        }
    }

    /// An elite with one definition changed, half of the time; a quarter of the time with two, and so on. `None`
    /// where that is not valid.
    fn mutate(&mut self) -> Option<Point> {
        let drawn = self.dice.below(self.best.points().len());
        let elite = self.best.points().nth(drawn)?;
        let mut choice = self.space.choice(elite).to_vec();
        let parameters = self.space.parameters();
        loop {
            let at = self.dice.below(parameters.len());
            let values = parameters.get(at)?.values.len();
            *choice.get_mut(at)? = self.dice.below(values) as u16;
            if self.dice.below(2) == 0 {
                return self.space.find(&choice);
            }
        }
    }
}

impl Strategy for Elite {
    fn ask(&mut self) -> Option<Point> {
        let unasked = &mut self.unasked;
        if let Some(point) = self.first.find(|&point| unasked.take(point)) {
            return Some(point);
        }
        for _ in 0..ATTEMPTS {
            if let Some(point) = self.mutate()
                && self.unasked.take(point)
            {
                return Some(point);
            }
        }
        self.unasked.draw(&mut self.dice)
    }

    fn tell(&mut self, point: Point, outcome: Outcome) {
        self.unasked.take(point);
        self.best.tell(point, outcome);
    }
}
