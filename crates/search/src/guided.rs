//! Searches with the help of two models, which propose in turn what they expect most of: a random forest and a Gaussian
//! process. Both learn cost from parameters. If one of them is wrong the other goes on, because neither is better
//! everywhere.
//!
//! Half of the proposals are neighbours of one of the best so far, and the other half comes from anywhere: models miss
//! what they do not expect, and neighbours alone stay in the first valley. docs/tune.md has the numbers.

use crate::Strategy;
use crate::best::Best;
use crate::dice::Dice;
use crate::encode::Encoding;
use crate::forest;
use crate::gaussian::Gaussian;
use crate::prediction::Prediction;
use crate::space::{Point, Space};
use crate::unasked::Unasked;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The number of configurations that are drawn before there are models.
    pub first: usize,
    /// The number of proposals of the models until they learn again.
    pub batch: usize,
    /// The number of drawn configurations among which the models choose, in addition to the neighbours of the best.
    pub pool: usize,
}

const SETTINGS: Settings = Settings {
    first: 8,
    batch: 4,
    pool: 300,
};

/// The number of best configurations whose neighbours are proposed.
const ELITES: usize = 8;

#[derive(Clone, Debug)]
pub struct Guided {
    space: Arc<Space>,
    settings: Settings,
    encoding: Encoding,
    gaussian: Gaussian,
    unasked: Unasked,
    dice: Dice,
    best: Best,
    /// The reported points, with the logarithm of the cost.
    told: Vec<(Point, Option<f64>)>,
    proposed: std::vec::IntoIter<Point>,
}

impl Guided {
    pub fn new(space: Arc<Space>, seed: u64) -> Self {
        Self::with_settings(space, seed, SETTINGS)
    }

    pub(crate) fn with_settings(space: Arc<Space>, seed: u64, settings: Settings) -> Self {
        let encoding = Encoding::new(&space);
        Self {
            settings,
            gaussian: Gaussian::new(encoding.scaled_width()),
            encoding,
            unasked: Unasked::all(&space),
            dice: Dice::new(seed),
            best: Best::new(ELITES),
            told: Vec::new(),
            proposed: Vec::new().into_iter(),
            space,
        }
    }

    /// Returns the neighbours of each of the best, and all candidates: those and drawn ones. All of them are unasked.
    fn candidates(&mut self) -> (Vec<BTreeSet<Point>>, BTreeSet<Point>) {
        let neighbours = |point| {
            let mut near = self.space.neighbours(point);
            near.retain(|&point| self.unasked.contains(point));
            BTreeSet::from_iter(near)
        };
        let near: Vec<BTreeSet<Point>> = self.best.points().map(neighbours).collect();
        let mut all: BTreeSet<Point> = near.iter().flatten().copied().collect();
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

    /// Returns the next batch. It is empty where there is nothing to learn from, and nothing to propose.
    fn propose(&mut self) -> Vec<Point> {
        let costs = || self.told.iter().filter_map(|(_, cost)| *cost);
        let Some(least) = costs().min_by(f64::total_cmp) else {
            return Vec::new();
        };
        // The target is the part of the best speed that a configuration lacks, because how much slower a slow one is
        // says little about the fast ones.
        let lacks = |cost: f64| 1.0 - (least - cost).exp();
        // A failed one counts as the worst that did not fail, because others that fail are next to it.
        let most = costs().map(lacks).fold(0.0, f64::max);
        let told: Vec<(Point, f64)> = self
            .told
            .iter()
            .map(|(point, cost)| (*point, cost.map_or(most, lacks)))
            .collect();
        let (near, all) = self.candidates();
        // Trees give many the same value, so their order has to be drawn, or a batch would be a row of the space.
        let mut all: Vec<Point> = all.into_iter().collect();
        self.dice.shuffle(&mut all);
        let ranked: Vec<Vec<Point>> = self
            .predict(&told, &all)
            .iter()
            .map(|predictions| rank(predictions, &all))
            .collect();
        let mut batch: Vec<Point> = Vec::new();
        for _ in 0..self.settings.batch {
            let Some(ranked) = ranked.get(self.dice.below(ranked.len())) else {
                break;
            };
            let around = if self.dice.below(2) == 0 {
                near.get(self.dice.below(near.len()))
            } else {
                None
            };
            let mut fresh = ranked.iter().filter(|point| !batch.contains(point));
            let local = around.and_then(|near| fresh.clone().find(|point| near.contains(point)));
            batch.extend(local.or_else(|| fresh.next()).copied());
        }
        batch
    }

    /// Returns each model's prediction for all points, in their order. A model that cannot learn from these gives none.
    fn predict(&mut self, told: &[(Point, f64)], all: &[Point]) -> Vec<Vec<Prediction>> {
        let row = |point| self.encoding.row(&self.space, point);
        let rows = told.iter().map(|(point, _)| row(*point)).collect();
        let targets = told.iter().map(|(_, target)| *target).collect();
        let others = all.iter().map(|&point| row(point)).collect();
        let seed = self.dice.word();
        // A space without a choice has rows without numbers, which the forest does not accept.
        let forest = forest::predict(&rows, &targets, &others, seed).ok();
        let scaled = |point| self.encoding.scaled_row(&self.space, point);
        let told = told.iter().map(|(point, target)| (scaled(*point), *target));
        let others: Vec<Vec<f64>> = all.iter().map(|&point| scaled(point)).collect();
        let gaussian = self.gaussian.predict(told.collect(), &others);
        forest.into_iter().chain(gaussian).collect()
    }
}

/// Sorts points by their promise, the greatest first. The best so far lacks nothing.
fn rank(predictions: &[Prediction], points: &[Point]) -> Vec<Point> {
    let mut ranked: Vec<(f64, Point)> = predictions
        .iter()
        .map(|prediction| prediction.expected_improvement(0.0))
        .zip(points.iter().copied())
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked.into_iter().map(|(_, point)| point).collect()
}

impl Strategy for Guided {
    fn ask(&mut self) -> Option<Point> {
        if self.unasked.taken() < self.settings.first {
            return self.unasked.draw(&mut self.dice);
        }
        let unasked = &mut self.unasked;
        if let Some(point) = self.proposed.find(|&point| unasked.take(point)) {
            return Some(point);
        }
        self.proposed = self.propose().into_iter();
        let unasked = &mut self.unasked;
        self.proposed
            .find(|&point| unasked.take(point))
            .or_else(|| self.unasked.draw(&mut self.dice))
    }

    fn tell(&mut self, point: Point, cost: Option<f64>) {
        let cost = cost.filter(|cost| cost.is_finite());
        self.unasked.take(point);
        if let Some(cost) = cost {
            self.best.tell(point, cost);
        }
        self.told.push((point, cost.map(log)));
    }
}

/// Returns the logarithm: ratios count, not differences. Costs of 0 and below have their order as well.
fn log(cost: f64) -> f64 {
    let least = f64::MIN_POSITIVE;
    cost.signum() * (cost.abs().max(least).ln() - least.ln())
}
