//! The few best configurations that were told.

use crate::space::Point;
use crate::strategy::Outcome;

/// As many as EvoEngineer-Full keeps.
const ELITES: usize = 3;

#[derive(Clone, Debug, Default)]
pub(crate) struct Best {
    /// Best first.
    elites: Vec<(f64, Point)>,
}

impl Best {
    pub fn tell(&mut self, point: Point, outcome: Outcome) {
        if let Some(cost) = outcome.cost() {
            self.elites.retain(|(_, it)| *it != point);
            self.elites.push((cost, point));
            self.elites.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.elites.truncate(ELITES);
        }
    }

    pub fn points(&self) -> impl ExactSizeIterator<Item = Point> {
        self.elites.iter().map(|(_, point)| *point)
    }
}
