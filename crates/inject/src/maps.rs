//! Remembers the tensor maps that the program had the driver encode. Only the driver knows what the 128 bytes of a map
//! mean, so their meaning must be noted when they are made.

use capture::{EncodedMap, PlacedMap};
use model::{Boxes, Im2col, MapElement, Swizzle, TensorMap};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ffi::{c_int, c_uint};

/// The size of a CUtensorMap in bytes.
pub const MAP_BYTES: usize = 128;
pub type MapBytes = [u8; MAP_BYTES];
/// The alignment of maps: kernels can read a map only at multiples of this.
const ALIGNMENT: usize = 64;
/// The number of bytes by which a map is looked for.
const FIRST: usize = 8;

/// The most maps that are kept. A program that makes a map for each launch must not fill the memory.
const MOST: usize = 1 << 16;

/// The encoded maps, by their bytes.
#[derive(Default)]
pub struct Maps {
    known: BTreeMap<MapBytes, EncodedMap>,
    /// The maps from the oldest to the newest.
    order: VecDeque<MapBytes>,
}

impl Maps {
    pub fn add(&mut self, bytes: MapBytes, map: EncodedMap) {
        if self.known.insert(bytes, map).is_some() {
            return;
        }
        self.order.push_back(bytes);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Notes a map after `cuTensorMapReplaceAddress`. `before` is the map as it was, of another tensor.
    pub fn add_moved(&mut self, before: &MapBytes, after: MapBytes, address: u64) {
        let Some(moved) = self.known.get(before) else {
            return;
        };
        let moved = match moved.clone() {
            EncodedMap::Described { map, .. } => EncodedMap::Described { address, map },
            known_by_name => known_by_name,
        };
        self.add(after, moved);
    }

    /// Returns the maps in a parameter of a launch, or in memory. Both are aligned as maps are. The offset of a map in
    /// a parameter need not be, as it is counted from where the driver puts the parameters.
    pub fn find(&self, bytes: &[u8]) -> Vec<PlacedMap> {
        // Most programs make no maps, and memory is large. A single word excludes nearly all places.
        if self.known.is_empty() {
            return Vec::new();
        }
        let firsts: HashSet<&[u8]> = self.known.keys().map(|section| &section[..FIRST]).collect();
        let places = (0..bytes.len()).step_by(ALIGNMENT);
        places
            .filter_map(|offset| {
                let block: &MapBytes = bytes.get(offset..)?.first_chunk()?;
                let is_map = firsts.contains(&block[..FIRST]);
                Some(PlacedMap {
                    offset: offset as u64,
                    map: is_map.then(|| self.known.get(block)).flatten()?.clone(),
                })
            })
            .collect()
    }
}

/// The arguments that `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` share.
pub struct Given {
    pub data_type: c_uint,
    pub rank: c_uint,
    pub address: u64,
    pub interleave: c_uint,
    pub swizzle: c_uint,
    pub fill: c_uint,
    pub extents: *const u64,
    pub strides: *const u64,
    pub steps: *const u32,
}

/// The arguments in which the two functions that encode maps differ.
pub enum GivenBoxes {
    Tiled(*const u32),
    Im2col {
        lower: *const c_int,
        upper: *const c_int,
        channels: c_uint,
        pixels: c_uint,
    },
}

/// Describes a map by the arguments with which it was encoded.
///
/// # Safety
/// The lists must be those that the driver has just read.
pub unsafe fn describe(given: &Given, boxes: &GivenBoxes) -> EncodedMap {
    let element = match given.data_type {
        0 => MapElement::U8,
        1 => MapElement::U16,
        2 => MapElement::U32,
        3 => MapElement::I32,
        4 => MapElement::U64,
        5 => MapElement::I64,
        6 => MapElement::F16,
        7 => MapElement::F32,
        8 => MapElement::F64,
        9 => MapElement::Bf16,
        11 => MapElement::Tf32,
        // These are f32 and tf32 whose subnormal numbers are flushed, and packed numbers of 4 and 6 bits.
        number => return EncodedMap::DataType { number },
    };
    let swizzle = match given.swizzle {
        0 => Swizzle::None,
        1 => Swizzle::Bytes32,
        2 => Swizzle::Bytes64,
        3 => Swizzle::Bytes128,
        number => return EncodedMap::Swizzle { number },
    };
    if given.interleave != 0 {
        return EncodedMap::Interleaved;
    }
    let rank = given.rank as usize;
    // SAFETY: as many values as the driver reads for this rank.
    let map = unsafe {
        TensorMap {
            element,
            extents: list(given.extents, rank),
            strides: list(given.strides, rank.saturating_sub(1)),
            boxes: match *boxes {
                GivenBoxes::Tiled(extents) => Boxes::Tiled(list(extents, rank)),
                GivenBoxes::Im2col {
                    lower,
                    upper,
                    channels,
                    pixels,
                } => Boxes::Im2col(Im2col {
                    // The lists have all dimensions except channels and images.
                    lower: list(lower, rank.saturating_sub(2)),
                    upper: list(upper, rank.saturating_sub(2)),
                    channels,
                    pixels,
                }),
            },
            steps: list(given.steps, rank),
            swizzle,
            fills_nan: given.fill == 1,
        }
    };
    EncodedMap::Described {
        address: given.address,
        map,
    }
}

/// Copies a list.
///
/// # Safety
/// `from` must have this many values, or `count` must be 0.
unsafe fn list<T: Copy>(from: *const T, count: usize) -> Vec<T> {
    match count {
        0 => Vec::new(),
        // SAFETY: as the caller says.
        _ => unsafe { std::slice::from_raw_parts(from, count) }.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_found_where_kernels_can_read_them() {
        let mut maps = Maps::default();
        maps.add([7; MAP_BYTES], EncodedMap::Interleaved);
        let mut bytes = vec![0; 500];
        bytes[128..256].fill(7);
        bytes[300..428].fill(7);
        let map = EncodedMap::Interleaved;
        assert_eq!(maps.find(&bytes), [PlacedMap { offset: 128, map }]);
    }

    #[test]
    fn maps_for_images_are_described_with_their_corners() {
        let (extents, strides) = ([8, 9, 10, 2], [16, 144, 1440]);
        let (lower, upper, steps) = ([-1, -2], [1, 2], [1, 2, 1, 1]);
        let given = |interleave| Given {
            data_type: 6,
            rank: 4,
            address: 0x1000,
            interleave,
            swizzle: 0,
            fill: 1,
            extents: extents.as_ptr(),
            strides: strides.as_ptr(),
            steps: steps.as_ptr(),
        };
        let boxes = GivenBoxes::Im2col {
            lower: lower.as_ptr(),
            upper: upper.as_ptr(),
            channels: 8,
            pixels: 64,
        };
        let map = TensorMap {
            element: MapElement::F16,
            extents: extents.to_vec(),
            strides: strides.to_vec(),
            boxes: Boxes::Im2col(Im2col {
                lower: lower.to_vec(),
                upper: upper.to_vec(),
                channels: 8,
                pixels: 64,
            }),
            steps: steps.to_vec(),
            swizzle: Swizzle::None,
            fills_nan: true,
        };
        // SAFETY: lists of four dimensions, two of them of space.
        let [described, interleaved] =
            [0, 1].map(|interleave| unsafe { describe(&given(interleave), &boxes) });
        assert_eq!(interleaved, EncodedMap::Interleaved);
        let of = |address| EncodedMap::Described {
            address,
            map: map.clone(),
        };
        assert_eq!(described, of(0x1000));
        let mut maps = Maps::default();
        maps.add([1; MAP_BYTES], described);
        maps.add_moved(&[1; MAP_BYTES], [2; MAP_BYTES], 0x2000);
        let found: Vec<_> = maps.find(&[2; MAP_BYTES]);
        assert_eq!(
            found,
            [PlacedMap {
                offset: 0,
                map: of(0x2000)
            }]
        );
    }

    #[test]
    fn the_oldest_maps_are_forgotten() {
        let mut maps = Maps::default();
        let bytes = |n: usize| {
            let mut bytes = [0; MAP_BYTES];
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            bytes
        };
        for n in 0..MOST + 1 {
            maps.add(bytes(n), EncodedMap::Interleaved);
        }
        let found = [0, 1, MOST].map(|n| maps.find(&bytes(n)).len());
        assert_eq!(found, [0, 1, 1]);
    }
}
