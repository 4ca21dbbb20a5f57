//! Encodes configurations as rows of numbers for a model: for a forest, which splits a row by one number at a time, and
//! for a Gaussian process, which compares whole rows.

use crate::space::{Parameter, Point, Space};

/// The numbers that stand for each parameter's values.
#[derive(Clone, Debug)]
pub(crate) struct Encoding(Vec<Figures>);

#[derive(Clone, Debug)]
struct Figures {
    /// Columns with a number for each value.
    columns: Vec<Vec<f64>>,
    /// The columns scaled to 0 to 1.
    scaled: Vec<Vec<f64>>,
    /// True if all values are above 0, so that products have a meaning.
    positive: bool,
}

impl Encoding {
    pub fn new(space: &Space) -> Self {
        let figures = |parameter: &Parameter| {
            let columns = columns(&parameter.values);
            Figures {
                scaled: columns.iter().map(|column| scale(column)).collect(),
                columns,
                positive: parameter.values.iter().all(|value| *value > 0),
            }
        };
        Self(space.parameters().iter().map(figures).collect())
    }

    /// Returns a row for a forest, with products of sizes: threads of a block, width of a tile, work of a thread. A tree
    /// would need many splits for them.
    pub fn row(&self, space: &Space, point: Point) -> Vec<f64> {
        let mut row = Vec::new();
        let mut factors: Vec<f64> = Vec::new();
        for (figures, &at) in self.0.iter().zip(space.choice(point)) {
            let value = |column: &Vec<f64>| column.get(at as usize).copied();
            row.extend(figures.columns.iter().filter_map(value));
            if figures.positive
                && let Some(size) = figures.columns.first().and_then(value)
            {
                row.extend(factors.iter().map(|factor| factor * size));
                factors.push(size);
            }
        }
        row
    }

    /// Returns a row for a Gaussian process: figures from 0 to 1. Ratios count, so that products need no figure.
    pub fn scaled_row(&self, space: &Space, point: Point) -> Vec<f64> {
        self.0
            .iter()
            .zip(space.choice(point))
            .flat_map(|(figures, &at)| {
                figures
                    .scaled
                    .iter()
                    .filter_map(move |column| column.get(at as usize))
            })
            .copied()
            .collect()
    }

    /// Returns the width of a scaled row.
    pub fn scaled_width(&self) -> usize {
        self.0.iter().map(|figures| figures.scaled.len()).sum()
    }
}

/// Returns the sizes of the values, and what is left of each without its factors of two. On a GPU it matters whether 48 is
/// more than 32, and also that it is no power of two: a tile divides a problem or a cache line or not. A column whose
/// figures are all the same says nothing, and is left out.
fn columns(values: &[i64]) -> Vec<Vec<f64>> {
    let odd_parts: Option<Vec<i64>> = values
        .iter()
        .map(|value| (*value > 0).then(|| value >> value.trailing_zeros()))
        .collect();
    [Some(values.to_vec()), odd_parts]
        .into_iter()
        .flatten()
        .filter(|column| column.iter().any(|figure| Some(figure) != column.first()))
        .map(|column| column.iter().map(|figure| *figure as f64).collect())
        .collect()
}

/// Places each number between the least and the greatest: by ratio if all are above 0.
fn scale(column: &[f64]) -> Vec<f64> {
    let least = column.iter().copied().fold(f64::INFINITY, f64::min);
    let most = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    column
        .iter()
        .map(|figure| {
            if least > 0.0 {
                (figure / least).ln() / (most / least).ln()
            } else {
                (figure - least) / (most - least)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_sizes_and_odd_parts_and_that_of_a_forest_products() {
        let parameter = |name: &str, values: &[i64]| Parameter {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let space = Space::enumerate(
            vec![
                parameter("block", &[32, 48, 128]),
                parameter("fixed", &[7]),
                parameter("tile", &[1, 4]),
                parameter("padded", &[0, 1]),
            ],
            |_| true,
        )
        .unwrap();
        let encoding = Encoding::new(&space);
        let point = space.find(&[1, 0, 1, 1]).unwrap();
        // The row has 48 and its odd part, 4 and 48 * 4, and padding.
        assert_eq!(encoding.row(&space, point), [48.0, 3.0, 4.0, 192.0, 1.0]);
        // 48 is 1.5 times 32, of four times. Everything else is the greatest of two.
        let scaled = encoding.scaled_row(&space, point);
        assert_eq!(scaled[1..], [1.0; 3]);
        assert!((scaled[0] - 1.5f64.ln() / 4f64.ln()).abs() < 1e-12);
        assert_eq!(scaled.len(), encoding.scaled_width());
    }
}
