//! The search space: parameters, their values, and the combinations that are valid.

use std::collections::HashMap;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: String,
    /// The values in the order in which they were written, each once.
    pub values: Vec<i64>,
}

/// One valid configuration of a space: its position in [`Space::points`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(u32);

impl Point {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The valid configurations of some parameters. It can be empty.
#[derive(Debug)]
pub struct Space {
    parameters: Vec<Parameter>,
    /// The choice of each parameter's value, for each configuration.
    choices: Vec<Box<[u32]>>,
    place: HashMap<Box<[u32]>, Point>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the parameters have {count} combinations; {} is the most that can be listed",
    Space::MOST_COMBINATIONS
)]
pub struct TooLarge {
    pub count: u128,
}

impl Space {
    /// The greatest number of combinations that [`Space::enumerate`] looks at.
    pub const MOST_COMBINATIONS: u128 = 50_000_000;

    /// Lists all combinations for which `valid` holds. It is given one value of each parameter, in their order.
    /// The last parameter turns fastest.
    ///
    /// # Errors
    /// There are too many combinations.
    pub fn enumerate(
        parameters: Vec<Parameter>,
        mut valid: impl FnMut(&[i64]) -> bool,
    ) -> Result<Self, TooLarge> {
        let count = parameters
            .iter()
            .map(|parameter| parameter.values.len() as u128)
            .try_fold(1, u128::checked_mul)
            .unwrap_or(u128::MAX);
        if count > Self::MOST_COMBINATIONS {
            return Err(TooLarge { count });
        }
        let mut space = Self {
            parameters,
            choices: Vec::new(),
            place: HashMap::new(),
        };
        for combination in 0..count {
            let mut left = combination;
            let mut choice: Vec<u32> = space
                .parameters
                .iter()
                .rev()
                .map(|parameter| {
                    let radix = parameter.values.len() as u128;
                    let digit = (left % radix) as u32;
                    left /= radix;
                    digit
                })
                .collect();
            choice.reverse();
            if valid(&space.values_of(&choice)) {
                let choice = choice.into_boxed_slice();
                space
                    .place
                    .insert(choice.clone(), Point(space.choices.len() as u32));
                space.choices.push(choice);
            }
        }
        Ok(space)
    }

    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    pub fn len(&self) -> usize {
        self.choices.len()
    }

    pub fn is_empty(&self) -> bool {
        self.choices.is_empty()
    }

    pub fn points(&self) -> impl ExactSizeIterator<Item = Point> + use<> {
        // `enumerate` numbered them with u32.
        (0..self.choices.len() as u32).map(Point)
    }

    /// Returns the values of a configuration, in the order of the parameters.
    pub fn values(&self, point: Point) -> Vec<i64> {
        self.values_of(self.choice(point))
    }

    fn values_of(&self, choice: &[u32]) -> Vec<i64> {
        self.parameters
            .iter()
            .zip(choice)
            .filter_map(|(parameter, &at)| parameter.values.get(at as usize).copied())
            .collect()
    }

    /// Returns which value each parameter has. Empty for a point of another space.
    pub fn choice(&self, point: Point) -> &[u32] {
        self.choices
            .get(point.index())
            .map_or(&[], |choice| &**choice)
    }

    /// Returns the configuration with these choices, where it is valid.
    pub fn find(&self, choice: &[u32]) -> Option<Point> {
        self.place.get(choice).copied()
    }

    /// Returns the valid configurations that differ from this one in one parameter.
    pub fn neighbours(&self, point: Point) -> Vec<Point> {
        let here = self.choice(point);
        let mut changed = here.to_vec();
        let mut found = Vec::new();
        for (at, parameter) in self.parameters.iter().enumerate().take(here.len()) {
            for value in 0..parameter.values.len() as u32 {
                if value != here[at] {
                    changed[at] = value;
                    found.extend(self.find(&changed));
                }
            }
            changed[at] = here[at];
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &str, values: &[i64]) -> Parameter {
        Parameter {
            name: name.to_owned(),
            values: values.to_vec(),
        }
    }

    fn threads() -> Space {
        let parameters = vec![parameter("x", &[16, 32, 64]), parameter("y", &[1, 2, 4])];
        Space::enumerate(parameters, |values| {
            let threads: i64 = values.iter().product();
            (32..=64).contains(&threads)
        })
        .unwrap()
    }

    fn shown(space: &Space, points: impl IntoIterator<Item = Point>) -> Vec<Vec<i64>> {
        points
            .into_iter()
            .map(|point| space.values(point))
            .collect()
    }

    #[test]
    fn invalid_configurations_are_not_in_the_space() {
        let space = threads();
        assert_eq!(
            shown(&space, space.points()),
            [[16, 2], [16, 4], [32, 1], [32, 2], [64, 1]]
        );
        assert_eq!(space.find(&[0, 0]), None);
    }

    #[test]
    fn neighbours_differ_in_one_parameter_and_are_valid() {
        let space = threads();
        let here = space.find(&[0, 1]).unwrap();
        assert_eq!(shown(&space, space.neighbours(here)), [[32, 2], [16, 4]]);
    }

    #[test]
    fn a_space_that_cannot_be_searched_is_refused() {
        let enumerate =
            |parameters| Space::enumerate(parameters, |_| true).map(|space| space.len());
        assert_eq!(enumerate(vec![parameter("x", &[])]), Ok(0));
        let wide: Vec<i64> = (0..1000).collect();
        let many = ["x", "y", "z"].map(|name| parameter(name, &wide)).to_vec();
        assert_eq!(
            enumerate(many),
            Err(TooLarge {
                count: 1_000_000_000
            })
        );
    }
}
