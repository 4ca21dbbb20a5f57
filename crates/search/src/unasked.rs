//! Keeps the configurations that nobody has asked for yet.

use crate::dice::Dice;
use crate::space::{Point, Space};

#[derive(Clone, Debug)]
pub(crate) struct Unasked {
    points: Vec<Point>,
    /// The position of each point of the space in `points`.
    place: Vec<Option<usize>>,
}

impl Unasked {
    pub fn all(space: &Space) -> Self {
        let points: Vec<Point> = space.points().collect();
        let place = (0..points.len()).map(Some).collect();
        Self { points, place }
    }

    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Returns how many points were taken.
    pub fn taken(&self) -> usize {
        self.place.len() - self.points.len()
    }

    pub fn contains(&self, point: Point) -> bool {
        self.place.get(point.index()).is_some_and(Option::is_some)
    }

    /// Takes a point. Returns false if it was taken before.
    pub fn take(&mut self, point: Point) -> bool {
        let Some(at) = self.place.get_mut(point.index()).and_then(Option::take) else {
            return false;
        };
        self.points.swap_remove(at);
        if let Some(moved) = self.points.get(at)
            && let Some(place) = self.place.get_mut(moved.index())
        {
            *place = Some(at);
        }
        true
    }

    /// Takes a point at random, or returns `None` if none is left.
    pub fn draw(&mut self, dice: &mut Dice) -> Option<Point> {
        let point = self.points.get(dice.below(self.points.len())).copied()?;
        self.take(point);
        Some(point)
    }
}
