//! Remembers the few best configurations that were reported.

use crate::space::Point;

#[derive(Clone, Debug)]
pub(crate) struct Best {
    most: usize,
    /// The best configurations with their costs, best first.
    elites: Vec<(f64, Point)>,
}

impl Best {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            elites: Vec::new(),
        }
    }

    /// Remembers the cost of a point, if it is among the lowest. A new cost of a known point replaces the old one.
    pub fn tell(&mut self, point: Point, cost: f64) {
        self.elites.retain(|(_, elite)| *elite != point);
        self.elites.push((cost, point));
        self.elites.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.elites.truncate(self.most);
    }

    pub fn points(&self) -> impl ExactSizeIterator<Item = Point> {
        self.elites.iter().map(|(_, point)| *point)
    }
}
