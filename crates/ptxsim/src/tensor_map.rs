//! Tensor maps as kernels of this library get them: 128 bytes, as those of the driver, which only the driver can read.
//! The layout is this library's own, and begins with a mark, so that other bytes are not taken for a map.

use crate::num::little_endian;
use crate::words::words;
use model::{Boxes, Im2col, MapElement, Swizzle, TensorMap};
use std::ops::Range;

pub const MAP_BYTES: usize = 128;
const MARK: [u8; 8] = *b"ptxsim:1";
const MOST_DIMENSIONS: usize = 5;

words! {
    /// A part of a tensor map that a kernel can change.
    pub enum MapField {
        Address = "global_address",
        Rank = "rank",
        Swizzle = "swizzle_mode",
        Fill = "fill_mode",
        Extent = "global_dim",
        Stride = "global_stride",
        BoxExtent = "box_dim",
        Step = "element_stride",
    }
}

/// The number of dimensions that corners of im2col have: all but channels and images.
const MOST_OF_SPACE: usize = 3;

impl MapField {
    /// Returns true for a field that each dimension has.
    pub fn is_of_dimension(self) -> bool {
        matches!(
            self,
            MapField::Extent | MapField::Stride | MapField::BoxExtent | MapField::Step
        )
    }

    /// Returns the bytes of a map that hold the field, or `None` if there is no such dimension.
    pub fn bytes(self, dimension: usize) -> Option<Range<usize>> {
        let dimensions = match self {
            MapField::Stride => MOST_DIMENSIONS - 1,
            _ => MOST_DIMENSIONS,
        };
        // An instruction can name any number, and the distance of a large one overflows.
        if dimension >= dimensions {
            return None;
        }
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
        Some(from..from + bytes)
    }

    /// Returns the number that a map stores for a value. A value that no map can have is stored as one that no map can
    /// have.
    pub fn stored(self, value: u64) -> u64 {
        match self {
            MapField::Address | MapField::Extent | MapField::Stride => value,
            MapField::BoxExtent => value.min(u64::from(u16::MAX)),
            // An instruction gives the number of the last dimension, counted from 0, and a map stores the number of
            // dimensions.
            MapField::Rank => value.saturating_add(1).min(u64::from(u8::MAX)),
            MapField::Swizzle | MapField::Fill | MapField::Step => value.min(u64::from(u8::MAX)),
        }
    }
}

/// The number of bytes that copies move as one, and of which strides and rows of boxes are multiples.
const PIECE: u64 = 16;

/// The reason for which a tensor has no map (CUDA driver API, `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`).
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

/// Returns the bytes that a kernel accepts as a `CUtensorMap` of the tensor at `address`.
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
        // The numbers are at most 1024, and the steps at most 8.
        bytes.extend((numbers.get(n).copied().unwrap_or(0) as u16).to_le_bytes());
        bytes.push(map.steps.get(n).copied().unwrap_or(0) as u8);
    }
    bytes.push(u8::from(corners.is_some()));
    for corner in corners.into_iter().flatten() {
        for n in 0..MOST_OF_SPACE {
            // A corner has at most 16 bits.
            bytes.extend((corner.get(n).copied().unwrap_or(0) as i16).to_le_bytes());
        }
    }
    bytes.resize(MAP_BYTES, 0);
    let mut all = [0; MAP_BYTES];
    all.copy_from_slice(&bytes);
    Ok(all)
}

/// Reads a map from its bytes, and the address of its tensor. Returns `None` if the bytes are no map of this library.
pub fn decode_tensor_map(bytes: &[u8]) -> Option<(TensorMap, u64)> {
    let mut rest = bytes.strip_prefix(&MARK)?;
    let mut take = |n: usize| {
        let (some, others) = rest.split_at_checked(n)?;
        rest = others;
        Some(little_endian(some))
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

/// Returns the bytes of a row of a box. A step in the first dimension has no effect on it.
pub fn row_bytes(map: &TensorMap) -> u64 {
    u64::from(map.boxes.row()) * map.element.bytes()
}

/// Returns the largest number of bytes that a row may have with this swizzle.
fn width(swizzle: Swizzle) -> u64 {
    match swizzle {
        Swizzle::None => u64::MAX,
        Swizzle::Bytes32 => 32,
        Swizzle::Bytes64 => 64,
        Swizzle::Bytes128 => 128,
    }
}

/// Returns an error for a map that the driver would refuse.
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

/// Returns an error for boxes of im2col that the driver would refuse.
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

/// Returns the bits of the NaN that elements outside of the tensor become, repeated to 64 bits (CALIBRATION.md).
/// Returns `None` for integers.
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

/// Returns the number by which a map stores the element type.
fn number_of(element: MapElement) -> u8 {
    let at = ELEMENTS
        .iter()
        .position(|known_element| *known_element == element);
    at.unwrap_or_default() as u8
}

/// Returns the swizzled place of a byte of shared memory (PTX ISA, "Swizzling Modes"). The number of its line of 128
/// bytes, counted from `first`, changes the number of its piece of 16 bytes within the line.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_dimensions_that_no_map_has_have_no_bytes() {
        assert_eq!(MapField::Stride.bytes(3), Some(84..92));
        assert_eq!(MapField::Stride.bytes(4), None);
        assert_eq!(MapField::Extent.bytes(usize::MAX), None);
    }

    fn map() -> TensorMap {
        TensorMap {
            element: MapElement::F16,
            extents: vec![64, 77, 3],
            strides: vec![128, 9856],
            boxes: Boxes::Tiled(vec![64, 256, 1]),
            steps: vec![1, 2, 1],
            swizzle: Swizzle::Bytes128,
            fills_nan: true,
        }
    }

    #[test]
    fn a_map_survives_its_bytes_and_nothing_else_is_one() {
        for element in ELEMENTS {
            for swizzle in SWIZZLES {
                let few = (32 / element.bytes()) as u32;
                let map = TensorMap {
                    element,
                    swizzle,
                    boxes: Boxes::Tiled(vec![few, 1, 1]),
                    fills_nan: not_a_number(element).is_some(),
                    ..map()
                };
                let mut bytes = encode_tensor_map(&map, 0x1230).unwrap();
                assert_eq!(decode_tensor_map(&bytes), Some((map, 0x1230)));
                bytes[0] ^= 1;
                assert_eq!(decode_tensor_map(&bytes), None);
            }
        }
        assert_eq!(decode_tensor_map(&[0; MAP_BYTES]), None);
        assert_eq!(decode_tensor_map(&MARK), None);
    }

    /// Replaces each field where it lies, and compares the map with one that has the field.
    #[test]
    fn fields_are_replaced_where_they_lie() {
        type Change = fn(&mut TensorMap);
        let changes: [(MapField, usize, u64, Change); 8] = [
            (MapField::Extent, 1, 99, |m| m.extents[1] = 99),
            (MapField::Extent, 2, 7, |m| m.extents[2] = 7),
            (MapField::Stride, 1, 8192, |m| m.strides[1] = 8192),
            (MapField::BoxExtent, 1, 16, |m| {
                m.boxes = Boxes::Tiled(vec![64, 16, 1]);
            }),
            (MapField::Step, 2, 3, |m| m.steps[2] = 3),
            (MapField::Swizzle, 0, 0, |m| m.swizzle = Swizzle::None),
            (MapField::Fill, 0, 0, |m| m.fills_nan = false),
            (MapField::Rank, 0, 1, |m| {
                m.extents.pop();
                m.strides.pop();
                m.boxes = Boxes::Tiled(vec![64, 256]);
                m.steps.pop();
            }),
        ];
        for (field, dimension, value, change) in changes {
            let mut bytes = encode_tensor_map(&map(), 0x40).unwrap();
            let place = field.bytes(dimension).unwrap();
            let number = field.stored(value).to_le_bytes();
            bytes[place.clone()].copy_from_slice(&number[..place.len()]);
            let mut want = map();
            change(&mut want);
            assert_eq!(decode_tensor_map(&bytes), Some((want, 0x40)), "{field:?}");
        }
        assert_eq!(MapField::Stride.bytes(4), None);
        assert_eq!(MapField::Step.bytes(5), None);
        assert_eq!(MapField::BoxExtent.stored(1 << 16 | 64), 0xffff);
    }

    #[test]
    fn maps_that_the_driver_refuses() {
        type Change = fn(&mut TensorMap);
        let cases: [(Change, TensorMapError); 11] = [
            (|m| m.extents.clear(), TensorMapError::Dimensions(0)),
            (|m| m.extents = vec![1; 6], TensorMapError::Dimensions(6)),
            (|m| m.strides.clear(), TensorMapError::Lengths),
            (|m| m.extents[1] = 0, TensorMapError::Extent(0)),
            (|m| m.strides[0] = 136, TensorMapError::Stride(136)),
            (
                |m| m.boxes = Boxes::Tiled(vec![64, 257, 1]),
                TensorMapError::BoxExtent(257),
            ),
            (
                |m| m.boxes = Boxes::Tiled(vec![64, 256, 0]),
                TensorMapError::BoxExtent(0),
            ),
            (
                |m| m.boxes = Boxes::Tiled(vec![4, 256, 1]),
                TensorMapError::BoxRow(8),
            ),
            (
                |m| m.swizzle = Swizzle::Bytes64,
                TensorMapError::SwizzleTooNarrow(128, 64),
            ),
            (|m| m.steps[1] = 9, TensorMapError::Step(9)),
            (
                |m| m.element = MapElement::U16,
                TensorMapError::NanOfIntegers,
            ),
        ];
        for (change, expected) in cases {
            let mut map = map();
            change(&mut map);
            assert_eq!(encode_tensor_map(&map, 0), Err(expected));
        }
        assert_eq!(
            encode_tensor_map(&map(), 8),
            Err(TensorMapError::Address(8))
        );
    }

    #[test]
    fn maps_of_im2col_survive_their_bytes_and_hold_their_corners() {
        let im2col = Im2col {
            lower: vec![-3],
            upper: vec![-32768],
            channels: 64,
            pixels: 1024,
        };
        let of = |change: &dyn Fn(&mut Im2col)| {
            let mut im2col = im2col.clone();
            change(&mut im2col);
            TensorMap {
                boxes: Boxes::Im2col(im2col),
                ..map()
            }
        };
        let same = of(&|_| ());
        let bytes = encode_tensor_map(&same, 0x40).unwrap();
        assert_eq!(decode_tensor_map(&bytes), Some((same.clone(), 0x40)));
        type Change = fn(&mut Im2col);
        let cases: [(Change, TensorMapError); 5] = [
            (|m| m.lower.clear(), TensorMapError::Lengths),
            (
                |m| m.upper[0] = 32768,
                TensorMapError::Corner(32768, -32768, 32767),
            ),
            (|m| m.channels = 257, TensorMapError::Channels(257)),
            (|m| m.pixels = 1025, TensorMapError::Pixels(1025)),
            (|m| m.channels = 4, TensorMapError::BoxRow(8)),
        ];
        for (change, expected) in cases {
            assert_eq!(encode_tensor_map(&of(&change), 0), Err(expected));
        }
        let of_rank = |rank: usize, at: i32| TensorMap {
            extents: vec![64; rank],
            strides: vec![128; rank - 1],
            steps: vec![1; rank],
            ..of(&|m| (m.lower, m.upper) = (vec![at; rank.max(2) - 2], vec![-at; rank.max(2) - 2]))
        };
        for (rank, at, expected) in [
            (2, 0, Some(TensorMapError::Im2colDimensions(2))),
            (4, -127, None),
            (4, -129, Some(TensorMapError::Corner(-129, -128, 127))),
            (5, -15, None),
            (5, -16, Some(TensorMapError::Corner(16, -16, 15))),
        ] {
            assert_eq!(encode_tensor_map(&of_rank(rank, at), 0).err(), expected);
        }
    }

    #[test]
    fn pieces_are_exchanged_by_their_line() {
        let place = |swizzle, address| exchange_pieces(swizzle, address, 0);
        assert_eq!(place(Swizzle::Bytes128, 0x90), 0x80);
        assert_eq!(place(Swizzle::Bytes128, 0x3f4), 0x384);
        assert_eq!(place(Swizzle::Bytes64, 0x200), 0x200);
        assert_eq!(place(Swizzle::Bytes64, 0x180), 0x1b0);
        assert_eq!(place(Swizzle::Bytes32, 0x180), 0x190);
        assert_eq!(place(Swizzle::None, 0x180), 0x180);
    }
}
