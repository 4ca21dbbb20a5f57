//! Copies by im2col (tests/fixtures/im2col.cu, as nvcc 13.0.88 compiled it for sm_90a), held against plain loops over
//! pixels. An H100 left the same bytes (CALIBRATION.md).

use crate::common::*;
use model::{Boxes, Im2col, MapElement, Swizzle, TensorMap};
use ptxsim::*;

/// The places of a copy: a coordinate for each dimension, and what is added to those of space. Innermost first.
#[derive(Clone, Debug)]
struct Copy {
    map: TensorMap,
    start: Vec<i32>,
    offsets: Vec<u16>,
}

impl Copy {
    /// A tensor of elements of two bytes, with its channels, positions of space and images.
    fn new(extents: &[u64], [lower, upper]: [&[i32]; 2], pixels: u32) -> Copy {
        let mut bytes = 2;
        let strides = extents.iter().take(extents.len() - 1).map(|extent| {
            bytes *= extent;
            bytes
        });
        let mut start = vec![0];
        start.extend(lower);
        start.push(0);
        Copy {
            map: TensorMap {
                element: MapElement::U16,
                extents: extents.to_vec(),
                strides: strides.collect(),
                boxes: Boxes::Im2col(Im2col {
                    lower: lower.to_vec(),
                    upper: upper.to_vec(),
                    channels: 32,
                    pixels,
                }),
                steps: vec![1; extents.len()],
                swizzle: Swizzle::None,
                fills_nan: false,
            },
            start,
            offsets: vec![0; lower.len()],
        }
    }

    fn from(self, start: &[i32]) -> Copy {
        let start = start.to_vec();
        Copy { start, ..self }
    }

    fn by(self, offsets: &[u16]) -> Copy {
        let offsets = offsets.to_vec();
        Copy { offsets, ..self }
    }

    fn change(mut self, change: impl FnOnce(&mut TensorMap)) -> Copy {
        change(&mut self.map);
        self
    }

    fn channels(self, channels: u32) -> Copy {
        self.change(|map| {
            let Boxes::Im2col(boxes) = &mut map.boxes else {
                panic!("a tile");
            };
            boxes.channels = channels;
        })
    }

    fn steps(self, steps: &[u32]) -> Copy {
        self.change(|map| map.steps = steps.to_vec())
    }

    fn columns(&self) -> &Im2col {
        match &self.map.boxes {
            Boxes::Im2col(boxes) => boxes,
            Boxes::Tiled(_) => panic!("a tile"),
        }
    }

    fn bytes(&self) -> usize {
        let elements = match &self.map.boxes {
            Boxes::Im2col(boxes) => boxes.channels * boxes.pixels,
            Boxes::Tiled(extents) => extents.iter().product(),
        };
        elements as usize * self.map.element.bytes() as usize
    }

    fn tensor_bytes(&self) -> usize {
        let elements: u64 = self.map.extents.iter().product();
        (elements * self.map.element.bytes()) as usize
    }

    /// Returns the first element of each pixel in the tensor, or `None` outside. Loops over images, and in them over
    /// the places within the corners, from `start` on.
    fn pixels(&self) -> Vec<Option<usize>> {
        let boxes = self.columns();
        let space = boxes.lower.len();
        let extent = |n: usize| self.map.extents[n + 1] as i64;
        let range = |n: usize| {
            if n < space {
                let (from, to) = (
                    i64::from(boxes.lower[n]),
                    extent(n) + i64::from(boxes.upper[n]),
                );
                (from..to).step_by(self.map.steps[n + 1] as usize)
            } else {
                (0..1).step_by(1)
            }
        };
        let mut all = Vec::new();
        for image in (0..).step_by(*self.map.steps.last().unwrap() as usize) {
            for d in range(2) {
                for h in range(1) {
                    for w in range(0) {
                        all.push((image, [w, h, d]));
                        if all.len() == 4096 {
                            return self.places(&all);
                        }
                    }
                }
            }
        }
        unreachable!()
    }

    fn places(&self, all: &[(i64, [i64; 3])]) -> Vec<Option<usize>> {
        let space = self.offsets.len();
        let coordinates: Vec<i64> = self.start.iter().map(|at| i64::from(*at)).collect();
        let begin = all.iter().position(|(image, at)| {
            *image == coordinates[space + 1] && at[..space] == coordinates[1..=space]
        });
        let pixels = &all[begin.unwrap()..][..self.columns().pixels as usize];
        let place = |(image, at): &(i64, [i64; 3])| {
            let mut index = 0;
            let mut pitch = self.map.extents[0] as i64;
            for n in 0..=space {
                let at = if n < space {
                    at[n] + i64::from(self.offsets[n])
                } else {
                    *image
                };
                let extent = self.map.extents[n + 1] as i64;
                if !(0..extent).contains(&at) {
                    return None;
                }
                index += at * pitch;
                pitch *= extent;
            }
            Some(index as usize)
        };
        pixels.iter().map(place).collect()
    }

    /// The byte of the tensor that each byte of the tile is, in the order of the tile.
    fn bytes_of_tile(&self) -> Vec<Option<usize>> {
        let each = self.map.element.bytes() as usize;
        let row = self.columns().channels as usize * each;
        let mut tile = vec![None; self.bytes()];
        for (number, pixel) in self.pixels().into_iter().enumerate() {
            for n in 0..row {
                let channel = i64::from(self.start[0]) + (n / each) as i64;
                let inside = (0..self.map.extents[0] as i64).contains(&channel);
                let from = pixel
                    .filter(|_| inside)
                    .map(|pixel| (pixel as i64 + channel) as usize * each + n % each);
                let at = number * row + n;
                let line = at / 128;
                let piece = match self.map.swizzle {
                    Swizzle::None => 0,
                    Swizzle::Bytes32 => line % 2,
                    Swizzle::Bytes64 => line % 4,
                    Swizzle::Bytes128 => line % 8,
                };
                tile[at ^ piece << 4] = from;
            }
        }
        tile
    }

    /// The tensor and the other buffer after the launch.
    fn run(&self, name: &str) -> (Result<Report, Fault>, [Vec<u8>; 2]) {
        self.run_in(name, 0)
    }

    fn run_in(&self, name: &str, from: u32) -> (Result<Report, Fault>, [Vec<u8>; 2]) {
        self.run_with(name, from, *self.map.extents.last().unwrap())
    }

    /// Runs a kernel with this number of images.
    fn run_with(
        &self,
        name: &str,
        from: u32,
        images: u64,
    ) -> (Result<Report, Fault>, [Vec<u8>; 2]) {
        let tensor_bytes =
            self.tensor_bytes() / *self.map.extents.last().unwrap() as usize * images as usize;
        let text = fixture("im2col");
        let module = load(&text);
        let space = self.offsets.len();
        let kernel = module.kernel(&format!("{name}{}", space + 2)).unwrap();
        let mut memory = Memory::default();
        let tensor: Vec<u8> = (1_u16..)
            .flat_map(u16::to_le_bytes)
            .take(tensor_bytes)
            .collect();
        let tensor = put(&mut memory, "tensor", &tensor);
        let other: Vec<u8> = (0..self.bytes()).map(|n| (n * 5 % 253) as u8).collect();
        let other = put(&mut memory, "other", &other);
        let mut place = [0_i32; 5];
        place[..=space].copy_from_slice(&self.start[..=space]);
        place[4] = self.start[space + 1];
        let mut offsets = [0_u16; 4];
        offsets[..space].copy_from_slice(&self.offsets);
        let mut params = encode_tensor_map(&self.map, tensor).unwrap().to_vec();
        params.extend(place.iter().flat_map(|n| n.to_le_bytes()));
        params.extend(offsets.iter().flat_map(|n| n.to_le_bytes()));
        params.extend(from.to_le_bytes());
        params.extend((self.bytes() as u32).to_le_bytes());
        params.resize(kernel.parameters()[4].0 as usize, 0);
        params.extend(other.to_le_bytes());
        let buffers = [(tensor, tensor_bytes), (other, self.bytes())];
        let kept = kept::Kept {
            text: &text,
            kernel,
            launch: Launch {
                grid: [1; 3],
                block: [128, 1, 1],
                cluster: None,
                cooperative: false,
                // The tile, and what there is before a multiple of 1024.
                dynamic_shared: self.bytes() as u32 + 1024,
            },
            params: &params,
            buffers: &buffers,
            limits: limits(),
        };
        let report = kept.launch(&mut memory, None);
        let left = buffers.map(|(at, bytes)| memory.read(at, bytes).unwrap().to_vec());
        (report, left)
    }
}

/// Three images of 5 x 7 with 64 channels.
const IMAGES: [u64; 4] = [64, 7, 5, 3];

/// Returns a copy of `channels` channels of this type, from 16 bytes behind the first, of images with a border.
fn with_type(element: MapElement, channels: u32) -> Copy {
    let each = element.bytes();
    let mut copy = Copy::new(&IMAGES, [&[-1, -1], &[-1, -1]], 30).by(&[1, 2]);
    copy.map.element = element;
    copy.map.extents[0] = 128 / each;
    copy.start[0] = (16 / each) as i32;
    copy.channels(channels)
}

fn copies() -> Vec<(&'static str, Copy)> {
    let none: [&[i32]; 2] = [&[0, 0], &[0, 0]];
    let padded: [&[i32]; 2] = [&[-1, -1], &[-1, -1]];
    let of = |corners, pixels| Copy::new(&IMAGES, corners, pixels);
    vec![
        ("whole_images", of(none, 105)),
        ("from_the_middle", of(none, 40).from(&[32, 3, 2, 1])),
        ("more_than_there_are", of(none, 48).from(&[0, 4, 3, 2])),
        ("padded", of(padded, 90)),
        ("padded_at_the_far_side", of(padded, 90).by(&[2, 2])),
        (
            "padded_in_the_middle",
            of(padded, 64).by(&[1, 1]).from(&[0, 2, 3, 1]),
        ),
        ("narrow", of([&[1, 2], &[-2, -1]], 30).by(&[1, 0])),
        ("wide", of([&[-3, -2], &[2, 1]], 120)),
        ("dilated", of([&[-2, -2], &[-2, -2]], 70).by(&[4, 2])),
        ("by_twos", of(none, 20).steps(&[1, 2, 2, 1])),
        (
            "by_twos_padded",
            of(padded, 24)
                .steps(&[1, 2, 2, 1])
                .by(&[2, 1])
                .from(&[0, 1, 1, 0]),
        ),
        (
            "by_threes_and_twos",
            of(padded, 15).steps(&[1, 3, 2, 1]).by(&[1, 2]),
        ),
        ("channels_outside", of(padded, 20).from(&[48, 1, 1, 1])),
        ("channels_before", of(padded, 20).from(&[-16, 1, 1, 1])),
        (
            "nan",
            of(padded, 30).change(|map| {
                map.element = MapElement::F16;
                map.fills_nan = true;
            }),
        ),
        (
            "swizzle_32",
            of(padded, 50)
                .channels(16)
                .change(|map| map.swizzle = Swizzle::Bytes32),
        ),
        (
            "swizzle_64",
            of(padded, 50)
                .by(&[1, 2])
                .change(|map| map.swizzle = Swizzle::Bytes64),
        ),
        (
            "swizzle_128",
            of(padded, 50)
                .by(&[0, 2])
                .channels(64)
                .change(|map| map.swizzle = Swizzle::Bytes128),
        ),
        (
            "lines",
            Copy::new(&[64, 37, 4], [&[-3], &[-2]], 100)
                .by(&[4])
                .from(&[0, 5, 0]),
        ),
        (
            "lines_by_fours",
            Copy::new(&[64, 37, 4], [&[-3], &[2]], 30)
                .steps(&[1, 4, 1])
                .by(&[1]),
        ),
        (
            "volumes",
            Copy::new(&[32, 5, 4, 3, 2], [&[-1, -1, -1], &[-1, -1, -1]], 110).by(&[2, 1, 0]),
        ),
        (
            "volumes_by_twos",
            Copy::new(&[32, 5, 4, 6, 3], [&[0, -1, -2], &[-1, 0, 1]], 40)
                .steps(&[1, 2, 1, 2, 1])
                .by(&[1, 0, 3])
                .from(&[0, 2, 1, 0, 1]),
        ),
        ("by_twos_of_images", of(none, 50).steps(&[1, 1, 1, 2])),
        (
            "lines_of_1024",
            Copy::new(&[16, 37, 4], [&[-3], &[-2]], 1024).channels(16),
        ),
        ("u8", with_type(MapElement::U8, 48)),
        ("f32", with_type(MapElement::F32, 12)),
        ("f64", with_type(MapElement::F64, 4)),
    ]
}

/// The sectors that ncu counted of each of these launches on the H100, each by one instruction.
const READ: &[(&str, u64)] = &[
    ("load_by_threes_and_twos", 30),
    ("load_by_twos_padded", 48),
    ("load_by_twos", 40),
    ("load_channels_before", 40),
    ("load_channels_outside", 40),
    ("load_dilated", 140),
    ("load_from_the_middle", 80),
    ("load_lines_by_fours", 60),
    ("load_lines", 200),
    ("load_more_than_there_are", 96),
    ("load_nan", 60),
    ("load_narrow", 60),
    ("load_padded_at_the_far_side", 180),
    ("load_padded_in_the_middle", 128),
    ("load_padded", 180),
    ("load_swizzle_128", 200),
    ("load_swizzle_32", 50),
    ("load_swizzle_64", 100),
    ("load_volumes_by_twos", 80),
    ("load_volumes", 220),
    ("load_whole_images", 210),
    ("load_wide", 240),
    ("load_f32", 64),
    ("load_f64", 58),
    ("load_lines_of_1024", 1024),
    ("load_by_twos_of_images", 100),
    ("sum_from_the_middle", 80),
    ("load_u8", 64),
    ("store_by_twos", 40),
    ("store_channels_outside", 20),
    ("store_from_the_middle", 80),
    ("store_lines", 200),
    ("store_more_than_there_are", 20),
    ("store_swizzle_64", 100),
    ("store_volumes", 54),
    ("store_whole_images", 210),
    ("store_within", 40),
];

fn read(name: &str) -> Option<u64> {
    let found = READ.iter().find(|(of, _)| *of == name);
    found.map(|(_, sectors)| *sectors)
}

#[test]
fn pixels_come_in_the_order_of_plain_loops() {
    for (name, copy) in copies() {
        kept::name_next(&format!("im2col.load_{name}"));
        let (report, [tensor, tile]) = copy.run("load");
        let counters = clean(report).counters;
        assert_eq!(counters.get(Counter::BulkLoads), 1);
        let sectors = counters.get(Counter::BulkLoadSectors);
        assert_eq!(Some(sectors), read(&format!("load_{name}")), "{name}");
        let fill = if copy.map.fills_nan {
            [0xf7, 0x7f]
        } else {
            [0; 2]
        };
        let byte = |(n, from): (usize, Option<usize>)| from.map_or(fill[n % 2], |at| tensor[at]);
        let want: Vec<u8> = copy
            .bytes_of_tile()
            .into_iter()
            .enumerate()
            .map(byte)
            .collect();
        assert_eq!(tile, want, "{name}");
    }
}

fn stores() -> Vec<(&'static str, Copy)> {
    let none: [&[i32]; 2] = [&[0, 0], &[0, 0]];
    let of = |corners, pixels| Copy::new(&IMAGES, corners, pixels);
    vec![
        ("whole_images", of(none, 105)),
        ("from_the_middle", of(none, 40).from(&[32, 3, 2, 1])),
        ("more_than_there_are", of(none, 48).from(&[0, 4, 3, 2])),
        ("within", of([&[1, 2], &[-2, -1]], 20).from(&[0, 1, 2, 0])),
        ("by_twos", of(none, 20).steps(&[1, 2, 2, 1])),
        ("channels_outside", of(none, 20).from(&[48, 1, 1, 1])),
        (
            "swizzle_64",
            of(none, 50).change(|map| map.swizzle = Swizzle::Bytes64),
        ),
        (
            "lines",
            Copy::new(&[64, 37, 4], [&[0], &[-2]], 100).from(&[0, 5, 0]),
        ),
        (
            "volumes",
            Copy::new(&[32, 5, 4, 3, 2], [&[0, 0, 0], &[-1, -1, -1]], 40).from(&[0, 1, 2, 1, 0]),
        ),
    ]
}

#[test]
fn stores_put_pixels_where_loads_take_them() {
    for (name, copy) in stores() {
        kept::name_next(&format!("im2col.store_{name}"));
        let (report, [tensor, tile]) = copy.run("store");
        let counters = clean(report).counters;
        assert_eq!(counters.get(Counter::BulkStores), 1);
        let sectors = counters.get(Counter::BulkStoreSectors);
        assert_eq!(Some(sectors), read(&format!("store_{name}")), "{name}");
        let mut want: Vec<u8> = (1_u16..)
            .flat_map(u16::to_le_bytes)
            .take(copy.tensor_bytes())
            .collect();
        for (byte, to) in tile.iter().zip(copy.bytes_of_tile()) {
            if let Some(to) = to {
                want[to] = *byte;
            }
        }
        assert!(tensor == want, "{name}");
    }
}

#[test]
fn sums_go_where_stores_go() {
    let none: [&[i32]; 2] = [&[0, 0], &[0, 0]];
    let copy = Copy::new(&[32, 7, 5, 3], none, 40)
        .channels(16)
        .from(&[16, 3, 2, 1]);
    let copy = copy.change(|map| {
        map.element = MapElement::U32;
        map.strides.iter_mut().for_each(|stride| *stride *= 2);
    });
    kept::name_next("im2col.sum_from_the_middle");
    let (report, [tensor, tile]) = copy.run("sum");
    let sectors = clean(report).counters.get(Counter::BulkReductionSectors);
    assert_eq!(Some(sectors), read("sum_from_the_middle"));
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes
            .chunks_exact(4)
            .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
            .collect()
    };
    let first: Vec<u8> = (1_u16..)
        .flat_map(u16::to_le_bytes)
        .take(copy.tensor_bytes())
        .collect();
    let (mut want, tile) = (words(&first), words(&tile));
    for (word, to) in tile.iter().zip(copy.bytes_of_tile().iter().step_by(4)) {
        if let Some(to) = to {
            want[to / 4] = want[to / 4].wrapping_add(*word);
        }
    }
    assert!(words(&tensor) == want);
}

/// An H100 stops at each with an illegal instruction, but for a large offset: what it then takes follows from how ptxas
/// joins offsets.
#[test]
fn copies_that_a_gpu_refuses_are_faults() {
    let none: [&[i32]; 2] = [&[0, 0], &[0, 0]];
    let padded: [&[i32]; 2] = [&[-1, -1], &[-1, -1]];
    let of = |corners, pixels| Copy::new(&IMAGES, corners, pixels);
    let lines = |start| Copy::new(&[64, 37, 4], [&[-3], &[-2]], 30).from(&[0, start, 0]);
    let volumes =
        |start| Copy::new(&[32, 5, 4, 3, 2], [&[0; 3], &[-1; 3]], 30).from(&[0, 0, 0, start, 0]);
    let within = "it has to lie within the corners";
    let outside = "pixels that are written cannot lie outside of the tensor";
    for (form, right, wrong, says) in [
        (
            "load",
            of(padded, 20).from(&[0, -1, -1, 0]),
            of(padded, 20).from(&[0, -2, -1, 0]),
            within,
        ),
        (
            "load",
            of(padded, 20).from(&[0, 5, 3, 0]),
            of(padded, 20).from(&[0, 6, 0, 0]),
            within,
        ),
        (
            "load",
            of(padded, 20).from(&[0, 5, 3, 0]),
            of(padded, 20).from(&[0, 0, 4, 0]),
            within,
        ),
        ("load", lines(-3), lines(-4), within),
        ("load", lines(34), lines(35), within),
        ("load", volumes(1), volumes(2), within),
        (
            "load",
            of(none, 5).from(&[0, 0, 2, 3]),
            of(none, 5).from(&[4, 0, 2, 3]),
            "no multiple of 16",
        ),
        (
            "load",
            of(padded, 20).by(&[255, 0]),
            of(padded, 20).by(&[256, 0]),
            "at most 255",
        ),
        (
            "load",
            lines(0).by(&[0xffff]),
            volumes(0).by(&[32, 0, 0]),
            "at most 31",
        ),
        (
            "store",
            of(none, 5),
            of([&[-1, 0], &[0, 0]], 2).from(&[0, 2, 2, 0]),
            outside,
        ),
        (
            "store",
            of([&[0, 0], &[0, -1]], 2),
            of([&[0, 0], &[0, 1]], 2).from(&[0, 2, 2, 0]),
            outside,
        ),
        (
            "store",
            of([&[2, 0], &[0, 0]], 5),
            of([&[2, 0], &[0, 0]], 5).from(&[0, 0, 2, 0]),
            within,
        ),
        (
            "store",
            of(none, 5),
            of(none, 5).from(&[-16, 0, 2, 0]),
            "cannot begin before the tensor",
        ),
        (
            "fetch",
            of(padded, 5),
            of(padded, 5).from(&[0, -3, 0, 0]),
            within,
        ),
        (
            "fetch",
            of(padded, 5),
            of(padded, 5).from(&[4, 0, 0, 0]),
            "no multiple of 16",
        ),
    ] {
        clean(right.run(form).0);
        let fault = wrong.run(form).0.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Undefined, "{fault}");
        assert!(fault.message.contains(says), "{fault}");
        assert!(fault.message.contains("im2col.cu:"), "{fault}");
    }
}

#[test]
fn a_tile_that_does_not_fit_or_begins_between_lines_is_a_fault() {
    let copy = Copy::new(&IMAGES, [&[0, 0], &[0, 0]], 20);
    for form in ["load", "store"] {
        clean(copy.run_in(form, 0).0);
        for (from, kind) in [
            (64, FaultKind::Misaligned),
            (1 << 20, FaultKind::OutOfBounds),
        ] {
            let fault = copy.run_in(form, from).0.unwrap_err();
            assert_eq!(fault.kind, kind, "{form}: {fault}");
        }
    }
    // The last image is not there: the map says more than the buffer has.
    let beyond = copy
        .clone()
        .from(&[0, 0, 0, 3])
        .change(|map| map.extents[3] = 4);
    let mut short = copy.clone();
    short.map = beyond.map.clone();
    clean(short.run_with("load", 0, 4).0);
    let fault = beyond.run_with("load", 0, 3).0.unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfBounds, "{fault}");
}

#[test]
fn copies_and_maps_of_other_modes_are_faults() {
    let mut copy = Copy::new(&IMAGES, [&[0, 0], &[0, 0]], 20);
    copy.map.boxes = Boxes::Tiled(vec![32, 4, 5, 1]);
    for form in ["load", "store", "fetch"] {
        let fault = copy.run(form).0.unwrap_err();
        let says = "a copy by im2col of a tiled tensor map";
        assert!(fault.message.contains(says), "{fault}");
    }
}
