//! The search space: parameters, their values, and the combinations that are valid.

use crate::value::Value;
use std::collections::{HashMap, HashSet};
use thiserror::Error;

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: String,
    /// In the order in which they were written. None twice.
    pub values: Vec<Value>,
}

/// One valid configuration of a space: its place in [`Space::points`].
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
    /// For each configuration, which value each parameter has.
    choices: Vec<Box<[u16]>>,
    place: HashMap<Box<[u16]>, Point>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    #[error("parameter {0} is named twice")]
    ParameterTwice(String),
    #[error("parameter {0} has no values")]
    NoValues(String),
    #[error("parameter {parameter} has the value {value} twice")]
    ValueTwice { parameter: String, value: String },
    #[error("parameter {parameter} has {count} values; {most} is the most")]
    TooManyValues {
        parameter: String,
        count: usize,
        most: usize,
    },
    #[error("the parameters have {count} combinations; {most} is the most that can be listed")]
    TooManyCombinations { count: u128, most: u128 },
    #[error("a configuration has {found} values, and there are {wanted} parameters")]
    Width { found: usize, wanted: usize },
    #[error("parameter {parameter} has no value {value}")]
    NoSuchValue { parameter: String, value: String },
    #[error("the configuration {0} is listed twice")]
    ConfigurationTwice(String),
}

impl Space {
    /// Combinations that [`Space::enumerate`] looks at, at the most.
    pub const MOST_COMBINATIONS: u128 = 50_000_000;

    /// All combinations for which `valid` holds. It is given one value of each parameter, in their order.
    /// The last parameter turns fastest.
    ///
    /// # Errors
    /// A parameter without values, a name or value twice, or too many of them.
    pub fn enumerate(
        parameters: Vec<Parameter>,
        mut valid: impl FnMut(&[&Value]) -> bool,
    ) -> Result<Self, Unusable> {
        check(&parameters)?;
        let count = parameters
            .iter()
            .map(|it| it.values.len() as u128)
            .try_fold(1, u128::checked_mul)
            .unwrap_or(u128::MAX);
        if count > Self::MOST_COMBINATIONS {
            return Err(Unusable::TooManyCombinations {
                count,
                most: Self::MOST_COMBINATIONS,
            });
        }
        let mut choices = Vec::new();
        for combination in 0..count {
            let mut left = combination;
            let mut choice: Vec<u16> = parameters
                .iter()
                .rev()
                .map(|it| {
                    let of = it.values.len() as u128;
                    let digit = (left % of) as u16;
                    left /= of;
                    digit
                })
                .collect();
            choice.reverse();
            let values: Vec<&Value> = parameters
                .iter()
                .zip(&choice)
                .filter_map(|(parameter, &digit)| parameter.values.get(usize::from(digit)))
                .collect();
            if valid(&values) {
                choices.push(choice.into_boxed_slice());
            }
        }
        Ok(Self::of(parameters, choices))
    }

    /// The configurations that a recording lists, in its order.
    ///
    /// # Errors
    /// As [`Space::enumerate`], or a configuration that does not fit the parameters or is there twice.
    pub fn listed(
        parameters: Vec<Parameter>,
        configurations: impl IntoIterator<Item = Vec<Value>>,
    ) -> Result<Self, Unusable> {
        check(&parameters)?;
        let mut choices = Vec::new();
        let mut seen = HashSet::new();
        for values in configurations {
            if values.len() != parameters.len() {
                return Err(Unusable::Width {
                    found: values.len(),
                    wanted: parameters.len(),
                });
            }
            let choice = parameters
                .iter()
                .zip(&values)
                .map(|(parameter, value)| {
                    parameter
                        .values
                        .iter()
                        .position(|it| it == value)
                        .map(|at| at as u16)
                        .ok_or_else(|| Unusable::NoSuchValue {
                            parameter: parameter.name.clone(),
                            value: value.to_string(),
                        })
                })
                .collect::<Result<Box<[u16]>, _>>()?;
            if !seen.insert(choice.clone()) {
                let names: Vec<String> = values.iter().map(Value::to_string).collect();
                return Err(Unusable::ConfigurationTwice(names.join(",")));
            }
            choices.push(choice);
        }
        Ok(Self::of(parameters, choices))
    }

    fn of(parameters: Vec<Parameter>, choices: Vec<Box<[u16]>>) -> Self {
        let place = choices
            .iter()
            .zip(0..)
            .map(|(choice, at)| (choice.clone(), Point(at)))
            .collect();
        Self {
            parameters,
            choices,
            place,
        }
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
        // `of` numbered them with u32.
        (0..self.choices.len() as u32).map(Point)
    }

    /// The values of a configuration, in the order of the parameters.
    pub fn values(&self, point: Point) -> Vec<&Value> {
        self.parameters
            .iter()
            .zip(self.choice(point))
            .filter_map(|(parameter, &at)| parameter.values.get(usize::from(at)))
            .collect()
    }

    /// Which value each parameter has. Empty for a point of another space.
    pub fn choice(&self, point: Point) -> &[u16] {
        self.choices
            .get(point.index())
            .map_or(&[], |choice| &**choice)
    }

    /// The configuration with these choices, where it is valid.
    pub fn find(&self, choice: &[u16]) -> Option<Point> {
        self.place.get(choice).copied()
    }

    /// The valid configurations that differ from this one in one parameter.
    pub fn neighbours(&self, point: Point) -> Vec<Point> {
        let here = self.choice(point);
        let mut changed = here.to_vec();
        let mut found = Vec::new();
        for (at, parameter) in self.parameters.iter().enumerate().take(here.len()) {
            for value in 0..parameter.values.len() as u16 {
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

fn check(parameters: &[Parameter]) -> Result<(), Unusable> {
    let mut names = HashSet::new();
    for parameter in parameters {
        let name = || parameter.name.clone();
        if !names.insert(&parameter.name) {
            return Err(Unusable::ParameterTwice(name()));
        }
        let count = parameter.values.len();
        let most = usize::from(u16::MAX);
        if count == 0 {
            return Err(Unusable::NoValues(name()));
        }
        if count > most {
            return Err(Unusable::TooManyValues {
                parameter: name(),
                count,
                most,
            });
        }
        for (at, value) in parameter.values.iter().enumerate() {
            if parameter.values.iter().take(at).any(|it| it == value) {
                return Err(Unusable::ValueTwice {
                    parameter: name(),
                    value: value.to_string(),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(name: &str, values: &[i64]) -> Parameter {
        Parameter {
            name: name.to_owned(),
            values: values.iter().copied().map(Value::Integer).collect(),
        }
    }

    fn threads() -> Space {
        let parameters = vec![parameter("x", &[16, 32, 64]), parameter("y", &[1, 2, 4])];
        Space::enumerate(parameters, |values| {
            let threads: f64 = values.iter().filter_map(|it| it.number()).product();
            (32.0..=64.0).contains(&threads)
        })
        .unwrap()
    }

    fn shown(space: &Space, points: impl IntoIterator<Item = Point>) -> Vec<String> {
        let show = |point| {
            let values: Vec<String> = space
                .values(point)
                .iter()
                .map(|it| it.to_string())
                .collect();
            values.join(",")
        };
        points.into_iter().map(show).collect()
    }

    #[test]
    fn invalid_configurations_are_not_in_the_space() {
        let space = threads();
        assert_eq!(
            shown(&space, space.points()),
            ["16,2", "16,4", "32,1", "32,2", "64,1"]
        );
        assert_eq!(space.find(&[0, 0]), None);
    }

    #[test]
    fn neighbours_differ_in_one_parameter_and_are_valid() {
        let space = threads();
        let here = space.find(&[0, 1]).unwrap();
        assert_eq!(shown(&space, space.neighbours(here)), ["32,2", "16,4"]);
    }

    #[test]
    fn a_listed_space_keeps_its_order() {
        let all = threads();
        let mut listed: Vec<Vec<Value>> = all
            .points()
            .map(|it| all.values(it).into_iter().cloned().collect())
            .collect();
        listed.reverse();
        let space = Space::listed(all.parameters().to_vec(), listed).unwrap();
        assert_eq!(
            shown(&space, space.points()),
            ["64,1", "32,2", "32,1", "16,4", "16,2"]
        );
    }

    #[test]
    fn a_space_that_cannot_be_searched_is_refused() {
        let enumerate = |parameters| Space::enumerate(parameters, |_| true).map(|it| it.len());
        assert_eq!(
            enumerate(vec![parameter("x", &[])]),
            Err(Unusable::NoValues("x".to_owned()))
        );
        assert_eq!(
            enumerate(vec![parameter("x", &[1]), parameter("x", &[2])]),
            Err(Unusable::ParameterTwice("x".to_owned()))
        );
        let twice = enumerate(vec![parameter("x", &[4, 2, 4])]);
        assert_eq!(
            twice.unwrap_err().to_string(),
            "parameter x has the value 4 twice"
        );
        let wide: Vec<i64> = (0..1000).collect();
        let many = ["x", "y", "z"].map(|name| parameter(name, &wide)).to_vec();
        assert_eq!(
            enumerate(many),
            Err(Unusable::TooManyCombinations {
                count: 1_000_000_000,
                most: Space::MOST_COMBINATIONS
            })
        );
        let listed = |rows: &[&[i64]]| {
            let rows = rows
                .iter()
                .map(|row| row.iter().copied().map(Value::Integer).collect());
            Space::listed(vec![parameter("x", &[1, 2])], rows).map(|it| it.len())
        };
        assert_eq!(listed(&[&[1], &[2]]), Ok(2));
        assert_eq!(
            listed(&[&[1], &[1]]),
            Err(Unusable::ConfigurationTwice("1".to_owned()))
        );
        assert!(matches!(listed(&[&[3]]), Err(Unusable::NoSuchValue { .. })));
        assert!(matches!(listed(&[&[1, 2]]), Err(Unusable::Width { .. })));
    }
}
