//! Quantises floats to the codes, scales and zero points that a kernel reads.

use super::Values;
use super::elem;
use super::error::CodecError;
use model::{Codec, CodecScheme, ElemType};
use rayon::prelude::*;

pub struct Coded {
    /// The codes in the element type, contiguous.
    pub bytes: Vec<u8>,
    /// The values that the codes stand for. They are computed with the scales that the kernel gets, which are rounded
    /// to f32.
    pub seen: Vec<f32>,
    /// The scales of the blocks, contiguous over `Codec::scale_dims`.
    pub scales: Vec<f32>,
    /// The zero points of affine codecs, shaped as the scales.
    pub zero_points: Option<Vec<i32>>,
}

/// The coding of one block: `code = x * multiplier + zero`, and a code means `(code - zero) * step`.
#[derive(Clone, Copy)]
struct BlockCode {
    /// The scale that the kernel gets.
    scale: f32,
    multiplier: f64,
    zero: f64,
    step: f64,
}

/// Quantises values.
///
/// # Errors
/// Fails if the codec does not fit the tensor or its element type, and for values that are not finite.
pub fn encode(
    codec: &Codec,
    elem: ElemType,
    dims: &[usize],
    values: &[f32],
) -> Result<Coded, CodecError> {
    if codec.block.len() != dims.len() || codec.block.contains(&0) {
        return Err(CodecError::Block {
            block: codec.block.clone(),
            dims: dims.to_vec(),
        });
    }
    let limits = code_range(&codec.scheme, elem)?;
    if let Some(&value) = values.iter().find(|value| !value.is_finite()) {
        return Err(CodecError::NotFinite(value));
    }
    let scale_dims = codec.scale_dims(dims);
    let count = if values.is_empty() {
        0
    } else {
        scale_dims.iter().product()
    };
    let blocks: Vec<BlockCode> = (0..count)
        .into_par_iter()
        .map(|which| {
            let (low, high) = extremes(codec, dims, &scale_dims, which, values);
            block(&codec.scheme, low, high)
        })
        .collect();

    let width = dims.last().copied().unwrap_or(1).max(1);
    let last_block = codec.block.last().copied().unwrap_or(1);
    let block_at = |row: usize, column: usize| {
        blocks[first_block(codec, dims, &scale_dims, row) + column / last_block]
    };
    let codes = rows(values, width, |row, column, &x| {
        let block = block_at(row, column);
        let code = f64::from(x) * block.multiplier;
        match limits {
            Some((low, high)) => (code.round_ties_even() + block.zero).clamp(low, high),
            None => code + block.zero,
        }
    });
    let codes = match limits {
        Some(_) => Values::I64(codes.into_iter().map(|code| code as i64).collect()),
        None => Values::F32(codes.into_iter().map(|code| code as f32).collect()),
    };
    let bytes = elem::encode(elem, &codes)?;
    let mean = |row, column, code: f64| {
        let block = block_at(row, column);
        (code - block.zero) * block.step
    };
    let seen = match elem::decode(elem, &bytes) {
        Values::F32(codes) => rows(&codes, width, |row, column, &code| {
            mean(row, column, f64::from(code))
        }),
        Values::F64(codes) => rows(&codes, width, |row, column, &code| mean(row, column, code)),
        Values::I64(codes) => rows(&codes, width, |row, column, &code| {
            mean(row, column, code as f64)
        }),
    };
    Ok(Coded {
        bytes,
        seen: seen.into_iter().map(|value| value as f32).collect(),
        scales: blocks.iter().map(|block| block.scale).collect(),
        zero_points: matches!(codec.scheme, CodecScheme::Affine { .. })
            .then(|| blocks.iter().map(|block| block.zero as i32).collect()),
    })
}

/// Returns the smallest and the largest code of an integer element type, or `None` for a float type.
fn code_range(scheme: &CodecScheme, elem: ElemType) -> Result<Option<(f64, f64)>, CodecError> {
    let range = elem.range();
    match *scheme {
        CodecScheme::Symmetric {
            levels,
            scale_divisor,
            zero_point,
        } => {
            let sound = |value: f64| value > 0.0 && value.is_finite();
            if !sound(levels.0) || !sound(scale_divisor.0) {
                return Err(CodecError::Levels);
            }
            match range {
                None => Ok(None),
                Some((low, high))
                    if (low..=high).contains(&zero_point) && high <= u32::MAX.into() =>
                {
                    Ok(Some((low as f64, high as f64)))
                }
                Some(_) => Err(CodecError::ZeroPoint { elem, zero_point }),
            }
        }
        CodecScheme::Blocks(_) => Err(CodecError::StoredScales),
        CodecScheme::Affine { low, high } => match range {
            Some((least, most))
                if least <= low && low < high && high <= most && most <= i32::MAX.into() =>
            {
                Ok(Some((low as f64, high as f64)))
            }
            _ => Err(CodecError::Affine { elem, low, high }),
        },
    }
}

fn block(scheme: &CodecScheme, least: f32, most: f32) -> BlockCode {
    match *scheme {
        CodecScheme::Symmetric {
            levels,
            zero_point,
            scale_divisor,
        } => {
            let amax = f64::from(most.max(-least));
            let scale = (amax / scale_divisor.0) as f32;
            // If amax is so small that its scale is no f32, the block reads as zeros, too.
            let (scale, multiplier) = match scale {
                0.0 => (1.0, 0.0),
                scale => (scale, levels.0 / amax),
            };
            BlockCode {
                scale,
                multiplier,
                zero: zero_point as f64,
                step: f64::from(scale) * scale_divisor.0 / levels.0,
            }
        }
        // `code_range` has refused this scheme.
        CodecScheme::Blocks(_) => BlockCode {
            scale: f32::NAN,
            multiplier: f64::NAN,
            zero: f64::NAN,
            step: f64::NAN,
        },
        CodecScheme::Affine { low, high } => {
            let (least, most) = (f64::from(least.min(0.0)), f64::from(most.max(0.0)));
            let scale = match ((most - least) / (high - low) as f64) as f32 {
                0.0 => 1.0,
                scale => scale,
            };
            let step = f64::from(scale);
            BlockCode {
                scale,
                multiplier: 1.0 / step,
                zero: (low as f64 - least / step)
                    .round_ties_even()
                    .clamp(low as f64, high as f64),
                step,
            }
        }
    }
}

/// Returns the least and the greatest value of one block.
fn extremes(
    codec: &Codec,
    dims: &[usize],
    scale_dims: &[usize],
    which: usize,
    values: &[f32],
) -> (f32, f32) {
    let start: Vec<usize> = super::layout::index(scale_dims, which)
        .iter()
        .zip(&codec.block)
        .map(|(index, block)| index * block)
        .collect();
    let extent: Vec<usize> = start
        .iter()
        .zip(&codec.block)
        .zip(dims)
        .map(|((start, block), dim)| (*block).min(dim - start))
        .collect();
    let (width, outer) = extent
        .split_last()
        .map_or((1, &[][..]), |(last, rest)| (*last, rest));
    let mut least = f32::INFINITY;
    let mut most = f32::NEG_INFINITY;
    for row in 0..outer.iter().product() {
        let mut index = super::layout::index(outer, row);
        index.push(0);
        let first = index
            .iter()
            .zip(&start)
            .zip(dims)
            .fold(0, |offset, ((index, start), dim)| {
                offset * dim + start + index
            });
        for &value in &values[first..first + width] {
            least = least.min(value);
            most = most.max(value);
        }
    }
    (least, most)
}

/// Returns the position of the scale of the first element of a row. A row runs along the last dimension.
fn first_block(codec: &Codec, dims: &[usize], scale_dims: &[usize], row: usize) -> usize {
    let Some((&scales_in_row, scale_dims)) = scale_dims.split_last() else {
        return 0;
    };
    let mut row = row;
    let mut block = 0;
    let mut weight = scales_in_row;
    for axis in (0..scale_dims.len()).rev() {
        block += row % dims[axis] / codec.block[axis] * weight;
        row /= dims[axis];
        weight *= scale_dims[axis];
    }
    block
}

fn rows<T: Sync>(
    values: &[T],
    width: usize,
    map: impl Fn(usize, usize, &T) -> f64 + Sync,
) -> Vec<f64> {
    let rows_per_task = (1 << 14) / width + 1;
    values
        .par_chunks(rows_per_task * width)
        .enumerate()
        .flat_map_iter(|(task, values)| {
            let map = &map;
            values
                .iter()
                .enumerate()
                .map(move |(at, value)| map(task * rows_per_task + at / width, at % width, value))
        })
        .collect()
}
