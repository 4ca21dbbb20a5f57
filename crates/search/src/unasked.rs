//! The configurations that nobody has asked for yet.

use crate::dice::Dice;
use crate::space::{Point, Space};

#[derive(Clone, Debug)]
pub(crate) struct Unasked {
    points: Vec<Point>,
    /// Where each point of the space stands in `points`.
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

    pub fn contains(&self, point: Point) -> bool {
        self.place.get(point.index()).is_some_and(Option::is_some)
    }

    /// False where it was taken before.
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

    /// Takes `seeds`, in their order, and draws until there are `count`.
    pub fn generation(mut self, seeds: &[Point], count: usize, dice: &mut Dice) -> Vec<Point> {
        let mut points: Vec<Point> = seeds.to_vec();
        points.retain(|&point| self.take(point));
        while points.len() < count
            && let Some(point) = self.draw(dice)
        {
            points.push(point);
        }
        points
    }

    pub fn draw(&mut self, dice: &mut Dice) -> Option<Point> {
        let point = self.points.get(dice.below(self.points.len())).copied()?;
        self.take(point);
        Some(point)
    }
}
