//! A random forest whose trees are asked one by one, so that it says how sure it is.

use crate::prediction::Prediction;
use smartcore::ensemble::random_forest_regressor::{
    RandomForestRegressor, RandomForestRegressorParameters,
};
use smartcore::error::Failed;
use smartcore::linalg::basic::matrix::DenseMatrix;

const TREES: u64 = 30;

/// Learns `targets` from `rows` and predicts the targets of `others`. All rows have the same width.
pub(crate) fn predict(
    rows: &Vec<Vec<f64>>,
    targets: &Vec<f64>,
    others: &Vec<Vec<f64>>,
    seed: u64,
) -> Result<Vec<Prediction>, Failed> {
    let width = rows.first().map_or(0, Vec::len);
    let rows = DenseMatrix::from_2d_vec(rows)?;
    let others = DenseMatrix::from_2d_vec(others)?;
    let mut said: Vec<Vec<f64>> = Vec::new();
    for tree in 0..TREES {
        let parameters = RandomForestRegressorParameters::default()
            .with_n_trees(1)
            .with_m(width.div_ceil(2))
            .with_min_samples_split(3)
            .with_seed(seed.wrapping_add(tree));
        said.push(RandomForestRegressor::fit(&rows, targets, parameters)?.predict(&others)?);
    }
    let count = said.first().map_or(0, Vec::len);
    Ok((0..count)
        .map(|row| {
            let of_row = || said.iter().filter_map(|tree| tree.get(row));
            let mean = of_row().sum::<f64>() / TREES as f64;
            let variance = of_row().map(|value| (value - mean).powi(2)).sum::<f64>() / TREES as f64;
            Prediction::new(mean, variance)
        })
        .collect())
}
