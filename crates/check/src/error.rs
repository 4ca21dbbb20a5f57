//! The reasons for which inputs cannot be made. The reasons of an element type, of strides and of captured memory are in
//! their own modules.

use super::captured::CapturedError;
use super::elem::ElemError;
use super::layout::StridesError;
use model::{ElemType, Num};

/// The reason for which a tensor cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("only an input can have a codec")]
    OutputCodec,
    #[error("{captured} bytes were captured of {wanted}")]
    CapturedBytes { captured: usize, wanted: usize },
    #[error("{elem:?} elements cannot hold {value:e}")]
    Overflow { elem: ElemType, value: f32 },
    #[error("field `{name}`: {source}")]
    Field { name: String, source: FillError },
    #[error(transparent)]
    Place(#[from] FieldError),
    #[error(transparent)]
    Strides(#[from] StridesError),
    #[error(transparent)]
    Captured(#[from] CapturedError),
    #[error(transparent)]
    Fill(#[from] FillError),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Elem(#[from] ElemError),
}

/// The reason for which a fill does not suit its tensor.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    #[error("an input needs a fill")]
    Missing,
    #[error("a tensor of integers needs an integer fill or a codec")]
    Continuous,
    #[error("a normal distribution cannot have mean {mean} and standard deviation {std}")]
    Normal { mean: Num, std: Num },
    #[error("there is no f32 between {low} and {high}")]
    Uniform { low: Num, high: Num },
    #[error("{values} values for {elements} elements")]
    Values { values: usize, elements: usize },
    #[error("there is no integer in {low}..={high}")]
    Integers { low: i64, high: i64 },
    #[error("{0} is not an integer")]
    NotIntegral(f64),
    #[error("a pool of {pool} has no {blocks} distinct blocks")]
    Pool { pool: i64, blocks: usize },
    #[error("each field of a struct is drawn by itself")]
    Struct,
    #[error("captured memory is read, and not drawn")]
    Captured,
    #[error("offsets need at least one element")]
    NoOffsets,
    #[error("{sequences} sequences of at least {min} do not fit into {total}")]
    Offsets {
        sequences: usize,
        min: i64,
        total: i64,
    },
    #[error("{special} special values for {elements} elements")]
    Special { special: usize, elements: usize },
    #[error("integers have no infinities, NaN and denormal numbers")]
    SpecialIntegers,
    #[error("{0:?} inputs have no denormal numbers")]
    Denormal(ElemType),
    #[error(transparent)]
    Elem(#[from] ElemError),
}

/// The reason for which a codec cannot quantise values.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    #[error("the codec's block {block:?} does not fit dimensions {dims:?}")]
    Block { block: Vec<usize>, dims: Vec<usize> },
    #[error("the codec does not fit the tensor")]
    Misfit,
    #[error("{0} cannot be quantised")]
    NotFinite(f32),
    #[error("a codec's levels and scale_divisor are finite and above 0")]
    Levels,
    #[error("{elem:?} cannot hold codes around {zero_point}")]
    ZeroPoint { elem: ElemType, zero_point: i64 },
    #[error("{elem:?} cannot hold affine codes {low}..={high}")]
    Affine { elem: ElemType, low: i64, high: i64 },
    #[error("{elem:?} cannot hold a scale: it is {scale}")]
    Scale { elem: ElemType, scale: f32 },
    #[error("scales that are stored next to their codes")]
    StoredScales,
    #[error("codes are integers, and two of them share a u8")]
    Codes,
    #[error(transparent)]
    Elem(#[from] ElemError),
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// The reason for which a field is no part of its struct.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    #[error("a field without elements")]
    Empty,
    #[error("a field beyond the end of its struct")]
    Beyond,
}
