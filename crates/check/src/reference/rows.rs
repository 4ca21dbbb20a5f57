//! Computes softmax and normalisations over the last dimension, in f64 and rounded once.

use super::{NoAnswer, Scene, same_dims};
use crate::Values;
use rayon::prelude::*;

/// The centre of the mean square.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    Mean,
    Zero,
}

pub fn softmax(scene: Scene, x: &str, out: &str) -> Result<Values, NoAnswer> {
    over_rows(scene, x, out, |row, out| {
        let max = row
            .iter()
            .fold(f32::NEG_INFINITY, |max, &value| max.max(value));
        let weight = |value: &f32| libm::exp(f64::from(*value) - f64::from(max));
        let sum: f64 = row.iter().map(weight).sum();
        for (out, value) in out.iter_mut().zip(row) {
            *out = (weight(value) / sum) as f32;
        }
    })
}

/// Computes (x - centre) / sqrt(mean square around the centre + eps) * gamma + beta.
pub fn normalise(
    scene: Scene,
    x: &str,
    out: &str,
    affine: [Option<&String>; 2],
    eps: f64,
    centre: Centre,
) -> Result<Values, NoAnswer> {
    let width = scene.input(x)?.dims.last().copied().unwrap_or(1);
    let mut vectors = [None, None];
    for (vector, name) in vectors.iter_mut().zip(affine) {
        if let Some(name) = name {
            let array = scene.input(name)?;
            same_dims(name, array.dims, &[width])?;
            *vector = Some(array.values.floats());
        }
    }
    let [gamma, beta] = vectors;
    over_rows(scene, x, out, |row, out| {
        let count = row.len() as f64;
        let centre = match centre {
            Centre::Mean => row.iter().copied().map(f64::from).sum::<f64>() / count,
            Centre::Zero => 0.0,
        };
        let square = |value: &f32| (f64::from(*value) - centre) * (f64::from(*value) - centre);
        let deviation = (row.iter().map(square).sum::<f64>() / count + eps).sqrt();
        for (column, (out, value)) in out.iter_mut().zip(row).enumerate() {
            let mut normal = (f64::from(*value) - centre) / deviation;
            normal *= gamma.as_ref().map_or(1.0, |gamma| f64::from(gamma[column]));
            normal += beta.as_ref().map_or(0.0, |beta| f64::from(beta[column]));
            *out = normal as f32;
        }
    })
}

fn over_rows(
    scene: Scene,
    x: &str,
    out: &str,
    row: impl Fn(&[f32], &mut [f32]) + Sync,
) -> Result<Values, NoAnswer> {
    let input = scene.input(x)?;
    same_dims(out, &scene.output(out)?.dims, input.dims)?;
    let width = input.dims.last().copied().unwrap_or(1).max(1);
    let values = input.values.floats();
    let mut result = vec![0.0; values.len()];
    result
        .par_chunks_mut(width)
        .zip(values.par_chunks(width))
        .for_each(|(out, values)| row(values, out));
    Ok(Values::F32(result))
}
