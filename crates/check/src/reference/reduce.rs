//! Computes the references that reduce or permute axes.

use super::elementwise::least;
use super::{NoAnswer, Scene, same_dims};
use crate::Values;
use crate::layout::offsets;
use model::ReduceOp;
use rayon::prelude::*;

/// Reduces axes. Sums and means are accumulated in f64, or exactly in integers.
pub fn reduce(
    scene: Scene,
    x: &str,
    out: &str,
    op: ReduceOp,
    axes: &[usize],
) -> Result<Values, NoAnswer> {
    let input = scene.input(x)?;
    let out_tensor = scene.output(out)?;
    if let Some(axis) = axes.iter().find(|axis| **axis >= input.dims.len()) {
        return Err(NoAnswer::Reference(format!(
            "`{x}` {:?} has no axis {axis}",
            input.dims
        )));
    }
    let strides = contiguous(input.dims);
    let split = |reduced: bool| -> (Vec<usize>, Vec<usize>) {
        (0..input.dims.len())
            .filter(|axis| axes.contains(axis) == reduced)
            .map(|axis| (input.dims[axis], strides[axis]))
            .unzip()
    };
    let ((kept, kept_strides), (gone, gone_strides)) = (split(false), split(true));
    let with_ones: Vec<usize> = (0..input.dims.len())
        .map(|axis| {
            if axes.contains(&axis) {
                1
            } else {
                input.dims[axis]
            }
        })
        .collect();
    if out_tensor.dims != with_ones {
        same_dims(out, &out_tensor.dims, &kept)?;
    }
    let count: usize = gone.iter().product();
    if count == 0 {
        return Err(NoAnswer::Reference(format!(
            "`{x}` {:?} has nothing to reduce",
            input.dims
        )));
    }
    let bases: Vec<usize> = offsets(&kept, &kept_strides).collect();
    let inner = offsets(&gone, &gone_strides);
    Ok(match (input.values, op) {
        (Values::I64(values), ReduceOp::Sum | ReduceOp::Max | ReduceOp::Min) => {
            let reduced: Option<Vec<i64>> = bases
                .into_par_iter()
                .map(|base| {
                    let mut elements = inner.clone().map(|at| values[base + at]);
                    match op {
                        ReduceOp::Max => elements.max(),
                        ReduceOp::Min => elements.min(),
                        ReduceOp::Sum | ReduceOp::Mean => elements.try_fold(0, i64::checked_add),
                    }
                })
                .collect();
            Values::I64(reduced.ok_or("the sum of integers overflows 64 bits")?)
        }
        (values, _) => {
            let values = values.floats();
            Values::F32(
                bases
                    .into_par_iter()
                    .map(|base| {
                        let elements = inner.clone().map(|at| values[base + at]);
                        let sum = || elements.clone().map(f64::from).sum::<f64>();
                        match op {
                            ReduceOp::Sum => sum() as f32,
                            ReduceOp::Mean => (sum() / count as f64) as f32,
                            ReduceOp::Min => elements.fold(f32::INFINITY, least),
                            ReduceOp::Max => -elements.map(|x| -x).fold(f32::INFINITY, least),
                        }
                    })
                    .collect(),
            )
        }
    })
}

pub fn transpose(
    scene: Scene,
    x: &str,
    out: &str,
    permutation: &[usize],
) -> Result<Values, NoAnswer> {
    let input = scene.input(x)?;
    let mut sorted = permutation.to_vec();
    sorted.sort_unstable();
    if sorted.iter().copied().ne(0..input.dims.len()) {
        return Err(NoAnswer::Reference(format!(
            "{permutation:?} is not a permutation of the axes of `{x}` {:?}",
            input.dims
        )));
    }
    let strides = contiguous(input.dims);
    let (dims, strides): (Vec<usize>, Vec<usize>) = permutation
        .iter()
        .map(|&axis| (input.dims[axis], strides[axis]))
        .unzip();
    same_dims(out, &scene.output(out)?.dims, &dims)?;
    let sources = offsets(&dims, &strides);
    Ok(match input.values {
        Values::F32(values) => Values::F32(sources.map(|at| values[at]).collect()),
        Values::F64(values) => Values::F64(sources.map(|at| values[at]).collect()),
        Values::I64(values) => Values::I64(sources.map(|at| values[at]).collect()),
    })
}

fn contiguous(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    strides
}
