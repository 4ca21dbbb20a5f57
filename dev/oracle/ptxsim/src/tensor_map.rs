//! Tensor maps as kernels of this library get them: 128 bytes, as those of the driver, which no one but it can read.
//! The layout is this library's own, and begins with a mark, so that anything else is known for what it is.

use model::{Boxes, Im2col, MapElement, Swizzle, TensorMap};
use std::ops::Range;

pub const MAP_BYTES: usize = 128;
const MARK: [u8; 8] = *b"ptxsim:1";
const MOST_DIMENSIONS: usize = 5;

/// A part of a tensor map that a kernel can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapField {
    Address,
    Rank,
    Swizzle,
    Fill,
    /// Each is for one dimension.
    Extent,
    Stride,
    BoxExtent,
    Step,
}

/// Dimensions that corners of im2col have: all but channels and images.
const MOST_OF_SPACE: usize = 3;

impl MapField {
    /// Where it lies in the bytes of a map; `None` for a dimension that there is not.
    pub fn bytes(self, dimension: usize) -> Option<Range<usize>> {
        let dimensions = match self {
            MapField::Stride => MOST_DIMENSIONS - 1,
            _ => MOST_DIMENSIONS,
        };
        let (from, bytes) = match self {
            MapField::Address => (8, 8),
            MapField::Rank => (16, 1),
            MapField::Swizzle => (18, 1),
            MapField::Fill => (19, 1),
            MapField::Extent => (20 + 8 * dimension, 8),
            MapField::Stride => (60 + 8 * dimension, 8),
            MapField::BoxExtent => (100 + 3 * dimension, 2),
            MapField::Step => (102 + 3 * dimension, 1),
        };
        (dimension < dimensions).then_some(from..from + bytes)
    }

    /// The number that is stored for a value; one that no map has stays one that no map has.
    pub fn stored(self, value: u64) -> u64 {
        match self {
            MapField::Address | MapField::Extent | MapField::Stride => value,
            MapField::BoxExtent => value.min(u64::from(u16::MAX)),
            // That of the last dimension.
            MapField::Rank => value.saturating_add(1).min(u64::from(u8::MAX)),
            MapField::Swizzle | MapField::Fill | MapField::Step => value.min(u64::from(u8::MAX)),
        }
    }
}

/// Bytes that copies move as one, and that strides and rows of boxes are multiples of.
const PIECE: u64 = 16;

/// Why a tensor has no map (CUDA driver API, `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapError {
    #[error("a tensor map has 1 to 5 dimensions, not {0}")]
    Dimensions(usize),
    #[error(
        "a tensor map has as many box extents and steps as extents, and a stride for each but the first"
    )]
    Lengths,
    #[error("the tensor begins at {0:#x}, which is no multiple of 16")]
    Address(u64),
    #[error("an extent of {0} elements: they are from 1 to 2^32")]
    Extent(u64),
    #[error("a stride of {0} bytes: they are multiples of 16, and less than 2^40")]
    Stride(u64),
    #[error("a box of {0} elements in one dimension: it has from 1 to 256")]
    BoxExtent(u32),
    #[error("im2col takes tensors of 3 to 5 dimensions, not of {0}")]
    Im2colDimensions(usize),
    #[error("a corner at {0}: in a tensor of so many dimensions it is from {1} to {2}")]
    Corner(i32, i32, i32),
    #[error("{0} channels of a pixel: a copy takes 1 to 256")]
    Channels(u32),
    #[error("{0} pixels: a copy takes 1 to 1024")]
    Pixels(u32),
    #[error("rows of a box have {0} bytes, which is no multiple of 16")]
    BoxRow(u64),
    #[error("rows of a box have {0} bytes, which are more than the swizzle takes, {1}")]
    SwizzleTooNarrow(u64, u64),
    #[error("a step of {0} elements: they are from 1 to 8")]
    Step(u32),
    #[error("elements outside of the tensor can be NaN only where elements are floats")]
    NanOfIntegers,
}

/// The bytes that a kernel takes for a `CUtensorMap` of the tensor at `address`.
pub fn encode_tensor_map(map: &TensorMap, address: u64) -> Result<[u8; MAP_BYTES], TensorMapError> {
    check(map, address)?;
    let mut bytes = Vec::with_capacity(MAP_BYTES);
    bytes.extend(MARK);
    bytes.extend(address.to_le_bytes());
    bytes.extend([
        map.extents.len() as u8,
        number_of(map.element),
        map.swizzle as u8,
        u8::from(map.fills_nan),
    ]);
    let mut put = |numbers: &[u64]| {
        for n in 0..MOST_DIMENSIONS {
            bytes.extend(numbers.get(n).unwrap_or(&0).to_le_bytes());
        }
    };
    put(&map.extents);
    put(&map.strides);
    let (numbers, corners) = match &map.boxes {
        Boxes::Tiled(extents) => (extents.clone(), None),
        Boxes::Im2col(boxes) => (
            vec![boxes.channels, boxes.pixels],
            Some([&boxes.lower, &boxes.upper]),
        ),
    };
    for n in 0..MOST_DIMENSIONS {
        // At most 1024 and 8.
        bytes.extend((numbers.get(n).copied().unwrap_or(0) as u16).to_le_bytes());
        bytes.push(map.steps.get(n).copied().unwrap_or(0) as u8);
    }
    bytes.push(u8::from(corners.is_some()));
    for corner in corners.into_iter().flatten() {
        for n in 0..MOST_OF_SPACE {
            // At most 16 bits.
            bytes.extend((corner.get(n).copied().unwrap_or(0) as i16).to_le_bytes());
        }
    }
    bytes.resize(MAP_BYTES, 0);
    let mut all = [0; MAP_BYTES];
    all.copy_from_slice(&bytes);
    Ok(all)
}

/// The map that these bytes are, and where its tensor begins. `None` where they are none.
pub fn decode_tensor_map(bytes: &[u8]) -> Option<(TensorMap, u64)> {
    let mut rest = bytes.strip_prefix(&MARK)?;
    let mut take = |n: usize| {
        let (some, others) = rest.split_at_checked(n)?;
        rest = others;
        let number = some
            .iter()
            .rev()
            .fold(0_u64, |all, x| all << 8 | u64::from(*x));
        Some(number)
    };
    let address = take(8)?;
    let dimensions = take(1)? as usize;
    let element = *ELEMENTS.get(take(1)? as usize)?;
    let swizzle = *SWIZZLES.get(take(1)? as usize)?;
    let fills_nan = take(1)? == 1;
    let mut numbers =
        |bytes: usize| -> Option<Vec<u64>> { (0..MOST_DIMENSIONS).map(|_| take(bytes)).collect() };
    let (mut extents, mut strides) = (numbers(8)?, numbers(8)?);
    let (mut of_box, mut steps): (Vec<u32>, Vec<u32>) = (0..MOST_DIMENSIONS)
        .map(|_| Some((take(2)? as u32, take(1)? as u32)))
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .unzip();
    extents.truncate(dimensions);
    strides.truncate(dimensions.saturating_sub(1));
    steps.truncate(dimensions);
    let boxes = match take(1)? {
        0 => {
            of_box.truncate(dimensions);
            Boxes::Tiled(of_box)
        }
        _ => {
            let mut corner = || -> Option<Vec<i32>> {
                let each = (0..MOST_OF_SPACE).map(|_| Some(i32::from(take(2)? as i16)));
                let mut corner: Vec<i32> = each.collect::<Option<_>>()?;
                corner.truncate(dimensions.saturating_sub(2));
                Some(corner)
            };
            Boxes::Im2col(Im2col {
                lower: corner()?,
                upper: corner()?,
                channels: *of_box.first()?,
                pixels: *of_box.get(1)?,
            })
        }
    };
    let map = TensorMap {
        element,
        extents,
        strides,
        boxes,
        steps,
        swizzle,
        fills_nan,
    };
    check(&map, address).ok()?;
    Some((map, address))
}

/// Bytes of a row of a box: a step in the first dimension has no effect.
pub fn row_bytes(map: &TensorMap) -> u64 {
    u64::from(map.boxes.row()) * map.element.bytes()
}

/// Bytes of a row that a swizzle takes.
fn width(swizzle: Swizzle) -> u64 {
    match swizzle {
        Swizzle::None => u64::MAX,
        Swizzle::Bytes32 => 32,
        Swizzle::Bytes64 => 64,
        Swizzle::Bytes128 => 128,
    }
}

fn check(map: &TensorMap, address: u64) -> Result<(), TensorMapError> {
    let dimensions = map.extents.len();
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        return Err(TensorMapError::Dimensions(dimensions));
    }
    let boxes = match &map.boxes {
        Boxes::Tiled(extents) => extents.len() == dimensions,
        Boxes::Im2col(boxes) => {
            if dimensions < 3 {
                return Err(TensorMapError::Im2colDimensions(dimensions));
            }
            [boxes.lower.len(), boxes.upper.len()] == [dimensions - 2; 2]
        }
    };
    if !boxes || [map.steps.len(), map.strides.len() + 1] != [dimensions; 2] {
        return Err(TensorMapError::Lengths);
    }
    if !address.is_multiple_of(PIECE) {
        return Err(TensorMapError::Address(address));
    }
    if let Some(bad) = map.extents.iter().find(|e| !(1..=1 << 32).contains(*e)) {
        return Err(TensorMapError::Extent(*bad));
    }
    let is_stride = |s: &u64| s.is_multiple_of(PIECE) && *s < 1 << 40;
    if let Some(bad) = map.strides.iter().find(|s| !is_stride(s)) {
        return Err(TensorMapError::Stride(*bad));
    }
    match &map.boxes {
        Boxes::Tiled(extents) => {
            if let Some(bad) = extents.iter().find(|e| !(1..=256).contains(*e)) {
                return Err(TensorMapError::BoxExtent(*bad));
            }
        }
        Boxes::Im2col(boxes) => check_im2col(boxes)?,
    }
    if let Some(bad) = map.steps.iter().find(|s| !(1..=8).contains(*s)) {
        return Err(TensorMapError::Step(*bad));
    }
    let row = row_bytes(map);
    if !row.is_multiple_of(PIECE) {
        return Err(TensorMapError::BoxRow(row));
    }
    if row > width(map.swizzle) {
        return Err(TensorMapError::SwizzleTooNarrow(row, width(map.swizzle)));
    }
    if map.fills_nan && not_a_number(map.element).is_none() {
        return Err(TensorMapError::NanOfIntegers);
    }
    Ok(())
}

fn check_im2col(boxes: &Im2col) -> Result<(), TensorMapError> {
    // 16 bits hold the corners of one dimension, or of two, or of three.
    let most = match boxes.lower.len() {
        1 => 1 << 15,
        2 => 1 << 7,
        _ => 1 << 4,
    };
    if let Some(bad) = boxes
        .lower
        .iter()
        .chain(&boxes.upper)
        .find(|at| !(-most..most).contains(*at))
    {
        return Err(TensorMapError::Corner(*bad, -most, most - 1));
    }
    if !(1..=256).contains(&boxes.channels) {
        return Err(TensorMapError::Channels(boxes.channels));
    }
    if !(1..=1024).contains(&boxes.pixels) {
        return Err(TensorMapError::Pixels(boxes.pixels));
    }
    Ok(())
}

/// The bits of the NaN that elements outside become, as many as there are of them (CALIBRATION.md).
pub fn not_a_number(element: MapElement) -> Option<u64> {
    match element {
        MapElement::F16
        | MapElement::Bf16
        | MapElement::F32
        | MapElement::Tf32
        | MapElement::F64 => Some(0x7ff7_7ff7_7ff7_7ff7),
        MapElement::U8
        | MapElement::U16
        | MapElement::U32
        | MapElement::I32
        | MapElement::U64
        | MapElement::I64 => None,
    }
}

const ELEMENTS: [MapElement; 11] = [
    MapElement::U8,
    MapElement::U16,
    MapElement::U32,
    MapElement::I32,
    MapElement::U64,
    MapElement::I64,
    MapElement::F16,
    MapElement::F32,
    MapElement::F64,
    MapElement::Bf16,
    MapElement::Tf32,
];

const SWIZZLES: [Swizzle; 4] = [
    Swizzle::None,
    Swizzle::Bytes32,
    Swizzle::Bytes64,
    Swizzle::Bytes128,
];

fn number_of(element: MapElement) -> u8 {
    let at = ELEMENTS
        .iter()
        .position(|known_element| *known_element == element);
    at.unwrap_or_default() as u8
}

/// Where a byte of shared memory goes (PTX ISA, "Swizzling Modes"): the number of its line of 128 bytes, counted from
/// `first`, changes the number of its piece of 16.
#[inline(always)]
pub fn exchange_pieces(swizzle: Swizzle, address: u32, first: u32) -> u32 {
    let mask = match swizzle {
        Swizzle::None => 0,
        Swizzle::Bytes32 => 1,
        Swizzle::Bytes64 => 3,
        Swizzle::Bytes128 => 7,
    };
    address ^ ((address >> 7).wrapping_sub(first) & mask) << 4
}
