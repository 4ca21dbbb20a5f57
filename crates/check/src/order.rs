//! Compares outputs whose order along an axis does not matter: top-k indices, sets, hash tables.

use super::Values;
use model::Tensor;
use std::cmp::Ordering;

/// Returns `got` with its slices along an axis moved to the places of those in `want` that they are compared with. Both
/// are sorted in ascending order by the first element, then the second, and so on. For slices of one element no other
/// order has a smaller largest error. For longer slices another order may have one, so only what is truly close can
/// pass.
pub fn ordered_as(got: &Values, want: &Values, tensor: &Tensor, axis: usize) -> Values {
    let count = tensor.dims.get(axis).copied().unwrap_or(1);
    let width = tensor.dims.iter().skip(axis + 1).product();
    match (got, want) {
        (Values::F32(got), Values::F32(want)) => {
            Values::F32(order(got, want, count, width, |a, b| {
                floats(f64::from(*a), f64::from(*b))
            }))
        }
        (Values::F64(got), Values::F64(want)) => {
            Values::F64(order(got, want, count, width, |a, b| floats(*a, *b)))
        }
        (Values::I64(got), Values::I64(want)) => {
            Values::I64(order(got, want, count, width, i64::cmp))
        }
        _ => got.clone(),
    }
}

/// Compares floats. NaN is the largest, whatever its sign.
fn floats(one: f64, other: f64) -> Ordering {
    one.partial_cmp(&other)
        .unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
}

fn order<T: Copy>(
    got: &[T],
    want: &[T],
    count: usize,
    width: usize,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Vec<T> {
    let ascending = |values: &[T]| -> Vec<usize> {
        let slice = |at: usize| &values[at * width..][..width];
        let mut places: Vec<usize> = (0..values.len() / width.max(1)).collect();
        places.sort_by(|&one, &other| {
            slice(one)
                .iter()
                .zip(slice(other))
                .map(|(one, other)| compare(one, other))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        places
    };
    let group = (count * width).max(1);
    let mut ordered = want.to_vec();
    for ((ordered, got), want) in ordered
        .chunks_mut(group)
        .zip(got.chunks(group))
        .zip(want.chunks(group))
    {
        for (to, from) in ascending(want).into_iter().zip(ascending(got)) {
            ordered[to * width..][..width].copy_from_slice(&got[from * width..][..width]);
        }
    }
    ordered
}
