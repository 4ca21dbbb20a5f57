//! Search guided by a model: a random forest learns cost from parameters, and from what is known of a
//! configuration before it is timed. It proposes what it expects most of.
//!
//! Half of the proposals are neighbours of the best so far. The other half is from anywhere: the forest alone stays
//! where it is sure, and neighbours alone stay in the first valley.

use crate::best::Best;
use crate::dice::Dice;
use crate::encode::Encoding;
use crate::forest::{self, Prediction};
use crate::space::{Point, Space};
use crate::strategy::{Outcome, Strategy};
use crate::unasked::Unasked;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Configurations that are drawn before there is a model.
    pub first: usize,
    /// Proposals of one model. The next model has learned from them.
    pub batch: usize,
    /// Drawn configurations of which the model chooses, beside the neighbours of the best.
    pub pool: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            first: 16,
            batch: 4,
            pool: 1000,
        }
    }
}

/// An unknown figure. Known ones are never below 0.
const UNKNOWN: f64 = -1.0;

#[derive(Clone, Debug)]
pub struct Guided {
    space: Arc<Space>,
    settings: Settings,
    encoding: Encoding,
    known: HashMap<Point, Vec<Option<f64>>>,
    /// Figures that are known of a configuration, at the most.
    width: usize,
    unasked: Unasked,
    dice: Dice,
    best: Best,
    first: std::vec::IntoIter<Point>,
    /// With the logarithm of the cost.
    told: Vec<(Point, Option<f64>)>,
    proposed: std::vec::IntoIter<Point>,
}

impl Guided {
    /// Starts with `seeds`, in this order. Drawn configurations fill them up.
    pub fn new(space: Arc<Space>, seed: u64, seeds: &[Point], settings: Settings) -> Self {
        let mut dice = Dice::new(seed);
        let first = Unasked::all(&space).generation(seeds, settings.first, &mut dice);
        Self {
            settings,
            encoding: Encoding::new(&space),
            known: HashMap::new(),
            width: 0,
            unasked: Unasked::all(&space),
            dice,
            best: Best::default(),
            first: first.into_iter(),
            told: Vec::new(),
            proposed: Vec::new().into_iter(),
            space,
        }
    }

    fn row(&self, point: Point) -> Vec<f64> {
        let mut row = self.encoding.row(&self.space, point);
        let known = self.known.get(&point);
        row.extend((0..self.width).map(|at| {
            known
                .and_then(|it| it.get(at).copied().flatten())
                .unwrap_or(UNKNOWN)
        }));
        row
    }

    /// The neighbours of the best, and drawn ones. All of them unasked.
    fn candidates(&mut self) -> (BTreeSet<Point>, BTreeSet<Point>) {
        let near: BTreeSet<Point> = self
            .best
            .points()
            .flat_map(|point| self.space.neighbours(point))
            .filter(|&point| self.unasked.contains(point))
            .collect();
        let mut all = near.clone();
        let unasked = self.unasked.points();
        if unasked.len() <= self.settings.pool {
            all.extend(unasked);
        } else {
            for _ in 0..self.settings.pool {
                all.extend(unasked.get(self.dice.below(unasked.len())));
            }
        }
        (near, all)
    }

    /// The next batch. Empty where there is nothing to learn from, and nothing to propose.
    fn propose(&mut self) -> Vec<Point> {
        let costs = self.told.iter().filter_map(|(_, cost)| *cost);
        let Some((least, most)) = costs.fold(None, |range, cost| {
            let (least, most) = range.unwrap_or((cost, cost));
            Some((cost.min(least), cost.max(most)))
        }) else {
            return Vec::new();
        };
        let rows = self
            .told
            .iter()
            .map(|(point, _)| self.row(*point))
            .collect();
        // A failed one counts as the worst that did not fail: next to it there are others that fail.
        let targets = self
            .told
            .iter()
            .map(|(_, cost)| cost.unwrap_or(most))
            .collect();
        let (near, all) = self.candidates();
        // Trees say the same of many: their order has to be drawn, or a batch is a row of the space.
        let mut all: Vec<Point> = all.into_iter().collect();
        self.dice.shuffle(&mut all);
        let others = all.iter().map(|&point| self.row(point)).collect();
        let seed = self.dice.word();
        // Rows without a figure, of a space without a choice.
        let Ok(predictions) = forest::predict(&rows, &targets, &others, seed) else {
            return Vec::new();
        };
        let mut ranked: Vec<(f64, Point)> = predictions
            .iter()
            .map(|it| expected_improvement(least, *it))
            .zip(all)
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut batch: Vec<Point> = Vec::new();
        for _ in 0..self.settings.batch {
            let from_near = self.dice.below(2) == 0;
            let fresh = |point: &Point| !batch.contains(point);
            let ranked = || ranked.iter().map(|(_, point)| *point).filter(fresh);
            let local = ranked().find(|point| from_near && near.contains(point));
            batch.extend(local.or_else(|| ranked().next()));
        }
        batch
    }
}

/// Of the logarithm of the cost, below the least so far, if the trees' answers are normal.
fn expected_improvement(least: f64, prediction: Prediction) -> f64 {
    let Prediction { mean, spread } = prediction;
    let normal = Normal::standard();
    let gain = least - mean;
    let scaled = gain / spread;
    gain * normal.cdf(scaled) + spread * normal.pdf(scaled)
}

impl Strategy for Guided {
    fn ask(&mut self) -> Option<Point> {
        let unasked = &mut self.unasked;
        if let Some(point) = self.first.find(|&point| unasked.take(point)) {
            return Some(point);
        }
        if let Some(point) = self.proposed.find(|&point| unasked.take(point)) {
            return Some(point);
        }
        self.proposed = self.propose().into_iter();
        let unasked = &mut self.unasked;
        self.proposed
            .find(|&point| unasked.take(point))
            .or_else(|| self.unasked.draw(&mut self.dice))
    }

    fn tell(&mut self, point: Point, outcome: Outcome) {
        self.unasked.take(point);
        self.best.tell(point, outcome);
        self.told.push((point, outcome.cost().map(log)));
    }

    fn know(&mut self, point: Point, figures: &[Option<f64>]) {
        self.width = self.width.max(figures.len());
        self.known.insert(point, figures.to_vec());
    }
}

/// Ratios count, not differences. Costs of 0 and below have their order as well.
fn log(cost: f64) -> f64 {
    let least = f64::MIN_POSITIVE;
    cost.signum() * (cost.abs().max(least).ln() - least.ln())
}
