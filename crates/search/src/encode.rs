//! Configurations as rows of figures, for a model.

use crate::space::{Parameter, Point, Space};
use crate::value::Value;

/// Of each parameter that has a choice, the figures of its values.
#[derive(Clone, Debug)]
pub(crate) struct Encoding(Vec<Option<Figures>>);

#[derive(Clone, Debug)]
struct Figures {
    /// Of each value: its size, or its place in the list where it is text.
    sizes: Vec<f64>,
    /// Of each value, where they differ: what is left of it without its factors of two. On a GPU it matters whether
    /// 48 is more than 32, and also that it is no power of two: a tile divides a problem or a cache line or not.
    odd_parts: Option<Vec<f64>>,
    /// All sizes are above 0, so that products say something.
    positive: bool,
}

impl Encoding {
    pub fn new(space: &Space) -> Self {
        Self(space.parameters().iter().map(Figures::new).collect())
    }

    /// The same width for all points of a space.
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
    fn a_row_has_sizes_odd_parts_and_products() {
        let parameter = |name: &str, values: &[Value]| Parameter {
            name: name.to_owned(),
            values: values.to_vec(),
        };
        let integers =
            |values: &[i64]| -> Vec<Value> { values.iter().copied().map(Value::Integer).collect() };
        let space = Space::enumerate(
            vec![
                parameter("block", &integers(&[32, 48])),
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
    }
}
