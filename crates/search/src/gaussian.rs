//! A Gaussian process. Configurations with similar parameters have similar costs, and how similar is learned for each
//! parameter. With few evaluations it is smooth where a forest has steps.

use crate::prediction::Prediction;
use std::array;

/// The greatest number of rows that it learns from, the best ones. The work grows with their third power.
const MOST: usize = 300;
/// The number of evaluations after which the lengths are learned again.
const REFIT: usize = 10;
/// The range of the inverse of a length, in ranges of its column: from no effect to a new value at every step.
const INVERSE_LENGTHS: [f64; 2] = [0.02, 30.0];
/// The range of the noise, in variances of the targets.
const NOISES: [f64; 2] = [1e-5, 0.3];

#[derive(Clone, Debug)]
pub(crate) struct Gaussian {
    scales: Scales,
    /// The number of rows when the scales were learned.
    learned: usize,
}

#[derive(Clone, Debug)]
struct Scales {
    /// For each column, the inverse of the distance over which targets become dissimilar.
    inverse_lengths: Vec<f64>,
    noise: f64,
}

/// The parameters learned from some rows.
struct Fitted {
    /// The rows, in units of the learned lengths.
    rows: Vec<Vec<f64>>,
    factor: Factor,
    /// The targets, as the factor solves them.
    solved: Vec<f64>,
    variance: f64,
    likelihood: f64,
}

impl Gaussian {
    /// Returns a model for rows of this many columns, each from 0 to 1.
    pub fn new(width: usize) -> Self {
        Self {
            scales: Scales {
                inverse_lengths: vec![1.0; width],
                noise: 0.01,
            },
            learned: 0,
        }
    }

    /// Learns from rows with their targets and predicts the targets of `others`. Returns `None` if the numbers allow no
    /// answer.
    pub fn predict(
        &mut self,
        mut told: Vec<(Vec<f64>, f64)>,
        others: &[Vec<f64>],
    ) -> Option<Vec<Prediction>> {
        let count = told.len();
        told.sort_by(|a, b| a.1.total_cmp(&b.1));
        told.truncate(MOST);
        let (rows, mut targets): (Vec<Vec<f64>>, Vec<f64>) = told.into_iter().unzip();
        let mean = targets.iter().sum::<f64>() / targets.len() as f64;
        targets.iter_mut().for_each(|target| *target -= mean);
        if self.learned == 0 || count >= self.learned + REFIT {
            self.scales.learn(&rows, &targets);
            self.learned = count;
        }
        let fitted = self.scales.fit(&rows, &targets)?;
        let predict = |row: &Vec<f64>| {
            let row = self.scales.apply(row);
            let like: Vec<f64> = fitted
                .rows
                .iter()
                .map(|known_row| likeness(known_row, &row))
                .collect();
            let solved = fitted.factor.solve(&like);
            let unexplained = (1.0 - dot(&solved, &solved)).max(0.0);
            Prediction::new(
                mean + dot(&solved, &fitted.solved),
                unexplained * fitted.variance,
            )
        };
        Some(others.iter().map(predict).collect())
    }
}

impl Scales {
    fn apply(&self, row: &[f64]) -> Vec<f64> {
        row.iter()
            .zip(&self.inverse_lengths)
            .map(|(value, inverse)| value * inverse)
            .collect()
    }

    /// Learns the scales: doubles or halves one after another for as long as the targets become more likely.
    fn learn(&mut self, rows: &[Vec<f64>], targets: &[f64]) {
        let likelihood = |of: &Self| Some(of.fit(rows, targets)?.likelihood);
        let mut best = likelihood(self).unwrap_or(f64::NEG_INFINITY);
        for at in 0..=self.inverse_lengths.len() {
            for factor in [0.5, 2.0] {
                while let Some(changed) = self.change(at, factor)
                    && let Some(found) = likelihood(&changed)
                    && found > best + 1e-6
                {
                    best = found;
                    *self = changed;
                }
            }
        }
    }

    /// Returns the model with one scale changed. The noise follows the last length. Returns `None` at the end of its
    /// range.
    fn change(&self, at: usize, factor: f64) -> Option<Self> {
        let mut changed = self.clone();
        let (value, [low, high], factor) = match changed.inverse_lengths.get_mut(at) {
            Some(length) => (length, INVERSE_LENGTHS, factor),
            None => (&mut changed.noise, NOISES, factor * factor),
        };
        *value *= factor;
        (low..=high).contains(value).then_some(changed)
    }

    /// Fits the model, or returns `None` if the rows hold no finite numbers.
    fn fit(&self, rows: &[Vec<f64>], targets: &[f64]) -> Option<Fitted> {
        let rows: Vec<Vec<f64>> = rows.iter().map(|row| self.apply(row)).collect();
        let mut factor = Factor::default();
        for (at, row) in rows.iter().enumerate() {
            let before = rows
                .iter()
                .take(at)
                .map(|known_row| likeness(known_row, row))
                .collect();
            factor.push(before, 1.0 + self.noise)?;
        }
        let solved = factor.solve(targets);
        let count = rows.len() as f64;
        let variance = dot(&solved, &solved) / count;
        // A length is about the range of its column until the targets say otherwise.
        let unlikely = |inverse: &f64| 0.5 * (inverse.ln() / 1.2).powi(2);
        let prior: f64 = self.inverse_lengths.iter().map(unlikely).sum();
        let likelihood = -0.5 * count * variance.max(1e-12).ln() - factor.log() - prior;
        Some(Fitted {
            rows,
            factor,
            solved,
            variance,
            likelihood,
        })
    }
}

/// Returns the similarity of two rows by Matérn's function of order 5/2: 1 for a row with itself, near 0 many lengths
/// away.
fn likeness(a: &[f64], b: &[f64]) -> f64 {
    let away = (5.0 * a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>()).sqrt();
    (1.0 + away + away * away / 3.0) * (-away).exp()
}

/// Cholesky's factor of a matrix, row by row up to the diagonal.
#[derive(Default)]
struct Factor(Vec<Vec<f64>>);

impl Factor {
    /// Adds a row of the matrix: what is before its diagonal, and the diagonal. Returns `None` if the matrix is not
    /// positive definite.
    fn push(&mut self, before: Vec<f64>, diagonal: f64) -> Option<()> {
        let mut row = self.solve(&before);
        let rest = diagonal - dot(&row, &row);
        // This is false for NaN, too.
        if rest > 0.0 {
            row.push(rest.sqrt());
            self.0.push(row);
            Some(())
        } else {
            None
        }
    }

    /// Solves for the vector that the factor, multiplied by it, turns into `right`.
    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let mut solved = Vec::with_capacity(right.len() + 1);
        for (value, row) in right.iter().zip(&self.0) {
            if let Some((diagonal, row)) = row.split_last() {
                solved.push((value - dot(row, &solved)) / diagonal);
            }
        }
        solved
    }

    /// Returns half of the logarithm of the determinant.
    fn log(&self) -> f64 {
        self.0
            .iter()
            .filter_map(|row| row.last())
            .map(|value| value.ln())
            .sum()
    }
}

/// Returns the dot product of two vectors of one length.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    // Four sums save additions from waiting for each other.
    let (a_fours, a_rest) = a.as_chunks::<4>();
    let (b_fours, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a_fours.iter().zip(b_fours) {
        sums = array::from_fn(|at| sums[at] + a[at] * b[at]);
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rows whose targets follow the first column. The second has no effect.
    fn told() -> Vec<(Vec<f64>, f64)> {
        let row = |at: i32| {
            let x = f64::from(at) / 15.0;
            (vec![x, f64::from(at * 7 % 16) / 15.0], (6.0 * x).sin())
        };
        (0..16).map(row).collect()
    }

    #[test]
    fn learns_a_curve_and_is_unsure_away_from_its_points() {
        let mut gaussian = Gaussian::new(2);
        let others = [vec![0.5, 0.9], vec![6.0, 0.5]];
        let predicted = gaussian.predict(told(), &others).unwrap();
        let expected = 3f64.sin();
        assert!((predicted[0].mean - expected).abs() < 0.02, "{predicted:?}");
        assert!(
            predicted[1].spread > 10.0 * predicted[0].spread,
            "{predicted:?}"
        );
        let [used, unused] = gaussian.scales.inverse_lengths[..] else {
            panic!("{gaussian:?}");
        };
        assert!(used > 4.0 * unused, "{gaussian:?}");
    }

    #[test]
    fn a_factor_multiplied_by_itself_is_the_matrix() {
        let mut factor = Factor::default();
        factor.push(vec![], 4.0).unwrap();
        factor.push(vec![2.0], 5.0).unwrap();
        factor.push(vec![2.0, 3.0], 6.0).unwrap();
        assert_eq!(factor.0, [vec![2.0], vec![1.0, 2.0], vec![1.0, 1.0, 2.0]]);
        assert_eq!(factor.solve(&[2.0, 3.0, 4.0]), [1.0, 1.0, 1.0]);
        assert_eq!(factor.log(), 8f64.ln());
        assert!(factor.push(vec![4.0, 5.0, 6.0], 1.0).is_none());
    }

    #[test]
    fn rows_that_repeat_and_figures_that_are_none_are_no_panic() {
        let same = vec![(vec![0.5], 1.0); 40];
        let predicted = Gaussian::new(1).predict(same, &[vec![0.5]]).unwrap();
        assert!((predicted[0].mean - 1.0).abs() < 1e-9, "{predicted:?}");
        let wrong = vec![(vec![f64::NAN], 1.0), (vec![0.0], f64::INFINITY)];
        assert!(Gaussian::new(1).predict(wrong, &[vec![0.5]]).is_none());
    }

    #[test]
    fn the_sums_of_a_product_have_all_of_it() {
        for count in 0..11 {
            let numbers: Vec<f64> = (1..=count).map(f64::from).collect();
            let expected = f64::from(count * (count + 1) * (2 * count + 1) / 6);
            assert_eq!(dot(&numbers, &numbers), expected);
        }
    }
}
