//! Configurations as rows of figures, for a model: for a forest, which splits a row by one figure at a time, and for
//! a Gaussian process, which compares whole rows.

use crate::space::{Parameter, Point, Space};
use crate::value::Value;

/// The values of each parameter that has a choice, as numbers.
#[derive(Clone, Debug)]
pub(crate) struct Encoding(Vec<Option<Figures>>);

#[derive(Clone, Debug)]
struct Figures {
    /// The size of each value, or its place in the list where it is text.
    sizes: Vec<f64>,
    /// For each value, where they differ: the rest of it without its factors of two. On a GPU it matters whether
    /// 48 is more than 32, and also that it is no power of two: a tile divides a problem or a cache line or not.
    odd_parts: Option<Vec<f64>>,
    /// All sizes are above 0, so that products say something.
    positive: bool,
}

impl Encoding {
    pub fn new(space: &Space) -> Self {
        Self(space.parameters().iter().map(Figures::new).collect())
    }

    /// For a forest. The same width for all points of a space.
    pub fn row(&self, space: &Space, point: Point) -> Vec<f64> {
        let mut row = Vec::new();
        let mut factors: Vec<f64> = Vec::new();
        for (figures, &at) in self.0.iter().zip(space.choice(point)) {
            let Some(figures) = figures else { continue };
            let of = |values: &Vec<f64>| values.get(usize::from(at)).copied();
            let size = of(&figures.sizes);
            row.extend(size);
            row.extend(figures.odd_parts.as_ref().and_then(of));
            if figures.positive
                && let Some(size) = size
            {
                // Threads of a block, width of a tile, work of a thread: a tree would need many splits for them.
                row.extend(factors.iter().map(|it| it * size));
                factors.push(size);
            }
        }
        row
    }

    /// For a Gaussian process: figures from 0 to 1. Ratios count, so that products need no figure.
    pub fn scaled_row(&self, space: &Space, point: Point) -> Vec<f64> {
        let figures = self.0.iter().zip(space.choice(point));
        let known = figures.filter_map(|(figures, at)| Some((figures.as_ref()?, usize::from(*at))));
        let scaled = known.flat_map(|(figures, at)| {
            let columns = [Some(&figures.sizes), figures.odd_parts.as_ref()];
            let columns = columns.into_iter().flatten();
            columns.filter_map(move |column| Some(place(column, *column.get(at)?)))
        });
        scaled.collect()
    }

    /// The width of those rows.
    pub fn scaled_width(&self) -> usize {
        let figures = self.0.iter().flatten();
        let widths = figures.map(|it| 1 + usize::from(it.odd_parts.is_some()));
        widths.sum()
    }
}

/// Where a figure stands between the least and the greatest of its column: by ratio where all are above 0.
fn place(column: &[f64], of: f64) -> f64 {
    let least = column.iter().copied().fold(f64::INFINITY, f64::min);
    let most = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if least > 0.0 {
        (of / least).ln() / (most / least).ln()
    } else {
        (of - least) / (most - least)
    }
}

impl Figures {
    /// `None` where there is no choice.
    fn new(parameter: &Parameter) -> Option<Self> {
        let values = &parameter.values;
        if values.len() < 2 {
            return None;
        }
        let numbers: Option<Vec<f64>> = values.iter().map(Value::number).collect();
        let positive = numbers
            .as_ref()
            .is_some_and(|it| it.iter().all(|it| *it > 0.0));
        let odd: Option<Vec<f64>> = values.iter().map(odd_part).collect();
        Some(Self {
            sizes: numbers.unwrap_or_else(|| (0..values.len()).map(|at| at as f64).collect()),
            odd_parts: odd.filter(|it| it.iter().any(|part| Some(part) != it.first())),
            positive,
        })
    }
}

fn odd_part(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) if *number > 0 => Some((number >> number.trailing_zeros()) as f64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_sizes_and_odd_parts_and_that_of_a_forest_products() {
        let parameter = |name: &str, values: &[Value]| Parameter {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let integers =
            |values: &[i64]| -> Vec<Value> { values.iter().copied().map(Value::Integer).collect() };
        let space = Space::enumerate(
            vec![
                parameter("block", &integers(&[32, 48, 128])),
                parameter("fixed", &integers(&[7])),
                parameter("tile", &integers(&[1, 4])),
                parameter("padded", &integers(&[0, 1])),
                parameter(
                    "layout",
                    &["rows", "columns"].map(|it| Value::Text(it.to_owned())),
                ),
            ],
            |_| true,
        )
        .unwrap();
        let encoding = Encoding::new(&space);
        let point = space.find(&[1, 0, 1, 1, 1]).unwrap();
        // 48 and its odd part; 4 and 48 * 4; padded; the second layout.
        assert_eq!(
            encoding.row(&space, point),
            [48.0, 3.0, 4.0, 192.0, 1.0, 1.0]
        );
        // 48 is 1.5 times 32, of four times; all else is the greatest of two.
        let scaled = encoding.scaled_row(&space, point);
        assert_eq!(scaled[1..], [1.0; 4]);
        assert!((scaled[0] - 1.5f64.ln() / 4f64.ln()).abs() < 1e-12);
        assert_eq!(scaled.len(), encoding.scaled_width());
    }
}
