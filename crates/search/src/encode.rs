//! Configurations as rows of figures, for a model.

use crate::space::{Parameter, Point, Space};
use crate::value::Value;

/// The figures of each value of each parameter that has a choice.
#[derive(Clone, Debug)]
pub(crate) struct Encoding(Vec<Option<Vec<Vec<f64>>>>);

impl Encoding {
    pub fn new(space: &Space) -> Self {
        Self(space.parameters().iter().map(encode).collect())
    }

    pub fn row(&self, space: &Space, point: Point) -> Vec<f64> {
        let mut row = Vec::new();
        for (figures, &at) in self.0.iter().zip(space.choice(point)) {
            if let Some(figures) = figures.as_ref().and_then(|it| it.get(usize::from(at))) {
                row.extend(figures);
            }
        }
        row
    }
}

/// A number is its size and its odd part. On a GPU it matters whether 48 is more than 32, and also that it is no power
/// of two: a tile divides a problem or a cache line, or it does not. Text has its place in the list alone.
fn encode(parameter: &Parameter) -> Option<Vec<Vec<f64>>> {
    if parameter.values.len() < 2 {
        return None;
    }
    let odd: Option<Vec<f64>> = parameter.values.iter().map(odd_part).collect();
    // Powers of two alone, or numbers that have no odd part.
    let odd = odd.filter(|odd| odd.windows(2).any(|pair| pair[0] != pair[1]));
    let values = parameter.values.iter().enumerate();
    Some(
        values
            .map(|(at, value)| {
                let mut figures = vec![value.number().unwrap_or(at as f64)];
                figures.extend(odd.as_ref().and_then(|odd| odd.get(at)));
                figures
            })
            .collect(),
    )
}

fn odd_part(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) if *number > 0 => Some((number >> number.trailing_zeros()) as f64),
        _ => None,
    }
}
