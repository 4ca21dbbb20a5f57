//! Tensor maps, by which the tensor memory accelerator (TMA) of sm_90 and newer finds the boxes of a tensor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters of `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` (CUDA driver API, "Tensor Map Object
/// Management"), except for the address.
/// Dimension 0 is the innermost, whose elements lie side by side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TensorMap {
    pub element: MapElement,
    /// The number of elements of each of one to five dimensions.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next in each dimension but the first, so one fewer than `extents`.
    pub strides: Vec<u64>,
    pub boxes: Boxes,
    /// For each dimension, a copy takes every n-th element, and this is n.
    pub steps: Vec<u32>,
    pub swizzle: Swizzle,
    /// True if elements outside the tensor become NaN, and not 0.
    pub fills_nan: bool,
}

/// The elements that one copy takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Boxes {
    /// The elements of each dimension that one copy spans. It moves all of them if the step is 1.
    Tiled(Vec<u32>),
    Im2col(Im2col),
}

impl Boxes {
    /// Returns the number of elements in a row of what is copied.
    pub fn row(&self) -> u32 {
        match self {
            Boxes::Tiled(extents) => extents.first().copied().unwrap_or(0),
            Boxes::Im2col(im2col) => im2col.channels,
        }
    }
}

/// Pixels of images, one after the other (PTX ISA, "im2col mode"). Dimension 0 of the tensor counts the channels of a pixel,
/// the last one images. Those between are of space: a copy walks them within corners that each have an offset for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Im2col {
    /// The offset from the first pixel of an image to the first that a copy takes.
    pub lower: Vec<i32>,
    /// The offset from the last pixel of an image to the last that a copy takes.
    pub upper: Vec<i32>,
    pub channels: u32,
    pub pixels: u32,
}

/// The type of an element, by which the driver names its size and its fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MapElement {
    U8,
    U16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    Bf16,
    Tf32,
}

impl MapElement {
    pub fn bytes(self) -> u64 {
        match self {
            MapElement::U8 => 1,
            MapElement::U16 | MapElement::F16 | MapElement::Bf16 => 2,
            MapElement::U32 | MapElement::I32 | MapElement::F32 | MapElement::Tf32 => 4,
            MapElement::U64 | MapElement::I64 | MapElement::F64 => 8,
        }
    }
}

/// How 16-byte chunks of a row are exchanged in shared memory (PTX ISA, "Swizzling Modes").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}
