//! Finds the boxes of tensors that bulk copies move (PTX ISA 5.5, "Tensors"): the pieces of a box in shared and in
//! global memory. `bulk` then copies them as any others.

use super::access::LaneAccess;
use super::access::address::{Site, addresses};
use super::bulk::{InGlobal, PIECE, Piece, Stretch};
use super::state::*;
use crate::isa::*;
use crate::regs::LANES;
use crate::report::*;
use crate::tensor_map::*;
use model::{Boxes, Im2col, TensorMap};

/// The number of bytes of which the address of a box in shared memory is a multiple.
pub const BOX_ALIGN: u32 = 128;

impl Machine<'_> {
    /// Returns the stretch of shared memory that a lane copies to or from, with the piece of the tensor that belongs to
    /// each 16 bytes.
    pub fn find_box(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        shared: u64,
        (place, at, walk): (&BulkPlace, &[u32], &Walk),
        direction: Direction,
    ) -> Run<Stretch> {
        let lane = s.mask.trailing_zeros() as usize;
        let (map, base) = self.map_of_box(w, s, (place, at.len(), walk))?;
        self.check_map(
            b,
            w,
            s,
            addresses(&w.regs, place.address, place.offset)[lane],
        );
        let start = start_of(w, s, at);
        let write = direction == Direction::Write;
        self.check_start(s, &map, &start, write)?;
        let row = row_bytes(&map);
        let rows = rows(&map);
        // A box that does not fit has more bytes than there is shared memory.
        let bytes = u32::try_from(row.saturating_mul(rows)).unwrap_or(u32::MAX);
        let size = b.shared.len();
        let all = [shared; LANES];
        let x = LaneAccess::new(s, &all, bytes, direction);
        self.in_window(&x, size, AddressSpace::Shared)?;
        let mut pieces = Vec::with_capacity((bytes / PIECE) as usize);
        let lines = match (&map.boxes, walk) {
            (Boxes::Im2col(im2col), Walk::Pixels(offsets)) => {
                let offsets = self.read_offsets(w, s, offsets)?;
                lines_of_pixels(&map, im2col, base, &start, &offsets)
            }
            (boxes, _) => lines_of_tile(&map, boxes, base, &start),
        };
        for (number, line) in (0..).zip(lines) {
            for n in (0..row).step_by(PIECE as usize) {
                let to = (shared + number * row + n) as u32;
                let to = exchange_pieces(map.swizzle, to, 0);
                if u64::from(to) + u64::from(PIECE) > size as u64 {
                    let all = [u64::from(to); LANES];
                    let x = LaneAccess::new(s, &all, PIECE, direction);
                    self.in_window(&x, size, AddressSpace::Shared)?;
                }
                let inside = line.and_then(|line| in_row(&map, line, start[0], n, write));
                let global = match inside {
                    None => None,
                    Some((address, bytes)) => {
                        let n = bytes.end - bytes.start;
                        let all = [address; LANES];
                        let x = LaneAccess::new(s, &all, n, direction);
                        let at = self.locate(&x, lane)?;
                        Some(InGlobal { at, bytes })
                    }
                };
                pieces.push(Piece { shared: to, global });
            }
        }
        Ok(Stretch {
            lane,
            shared: shared as u32,
            bytes,
            own: None,
            row: row as u32,
            pieces,
            fill: fill(&map),
            tensor: Some((map.element, map.swizzle)),
        })
    }

    /// Checks the start of a copy that only brings pixels to a cache, as `check_start` does.
    pub fn check_prefetch(
        &self,
        w: &Warp,
        s: Site,
        (place, at, walk): (&BulkPlace, &[u32], &Walk),
    ) -> Run<()> {
        let (map, _) = self.map_of_box(w, s, (place, at.len(), walk))?;
        match map.boxes {
            // No GPU has been asked yet which starts of a tile it refuses.
            Boxes::Tiled(_) => Ok(()),
            Boxes::Im2col(_) => self.check_start(s, &map, &start_of(w, s, at), false),
        }
    }

    /// Faults on a start of a box that is an illegal instruction on an H100 (CALIBRATION.md).
    fn check_start(&self, s: Site, map: &TensorMap, start: &[i64], write: bool) -> Run<()> {
        let name = self.name_of(s.pc);
        let first = start[0] * map.element.bytes() as i64;
        if first % i64::from(PIECE) != 0 {
            let what = format!(
                "{name} of a box that begins {first} bytes into the rows of the tensor, which is no multiple of {PIECE}"
            );
            return s.refuse(FaultKind::Undefined, what);
        }
        if write && let Some(before) = start.iter().find(|start| **start < 0) {
            let what = format!(
                "{name} to a box at coordinate {before}: one that is written cannot begin before the tensor"
            );
            return s.refuse(FaultKind::Undefined, what);
        }
        let Boxes::Im2col(im2col) = &map.boxes else {
            return Ok(());
        };
        let corners = im2col.lower.iter().zip(&im2col.upper);
        let of_space = start.iter().zip(&map.extents).skip(1).zip(corners);
        for ((start, extent), (lower, upper)) in of_space {
            if write && (*lower < 0 || *upper > 0) {
                let what = format!(
                    "{name} by a tensor map with corners at {lower} and {upper}: pixels that are written cannot lie outside of the tensor"
                );
                return s.refuse(FaultKind::Undefined, what);
            }
            let (lower, last) = (i64::from(*lower), *extent as i64 - 1 + i64::from(*upper));
            if !(lower..=last).contains(start) {
                let what = format!(
                    "{name} of pixels from coordinate {start}: it has to lie within the corners of the tensor map, {lower} and {last}"
                );
                return s.refuse(FaultKind::Undefined, what);
            }
        }
        Ok(())
    }

    /// Returns the offsets that im2col adds to each pixel's place in space. 16 bits hold the offsets of all dimensions
    /// together: of one, of two, or of three. Larger offsets are cut off or spill over to the next dimension, as ptxas
    /// joins them (CALIBRATION.md), and are a fault here.
    fn read_offsets(&self, w: &Warp, s: Site, registers: &[u32]) -> Run<Vec<i64>> {
        let lane = s.mask.trailing_zeros() as usize;
        let most = match registers.len() {
            0 | 1 => 0xffff,
            2 => 0xff,
            _ => 0x1f,
        };
        let mut offsets = Vec::with_capacity(registers.len());
        for register in registers {
            let offset = w.regs.r32[*register as usize].0[lane] & 0xffff;
            if offset > most {
                let what = format!(
                    "{} by an offset of {offset}: with so many dimensions it is at most {most}",
                    self.name_of(s.pc)
                );
                return s.refuse(FaultKind::Undefined, what);
            }
            offsets.push(i64::from(offset));
        }
        Ok(offsets)
    }

    /// Returns the tensor map of a lane's copy by `coordinates` coordinates, and the address of its tensor.
    pub fn map_of_box(
        &self,
        w: &Warp,
        s: Site,
        (place, coordinates, walk): (&BulkPlace, usize, &Walk),
    ) -> Run<(TensorMap, u64)> {
        let lane = s.mask.trailing_zeros();
        let address = addresses(&w.regs, place.address, place.offset)[lane as usize];
        let found = self.read_tensor_map(s, address)?;
        let dimensions = found.0.extents.len();
        let what = match (&found.0.boxes, walk) {
            _ if coordinates != dimensions => format!(
                "a copy by {coordinates} coordinates from a tensor of {dimensions} dimensions"
            ),
            (Boxes::Tiled(_), Walk::Tiles) | (Boxes::Im2col(_), Walk::Pixels(_)) => {
                return Ok(found);
            }
            (Boxes::Tiled(_), Walk::Pixels(_)) => "a copy by im2col of a tiled tensor map".into(),
            (Boxes::Im2col(_), Walk::Tiles) => "a copy of a tile of a tensor map of im2col".into(),
        };
        s.refuse_at(FaultKind::Undefined, address, what)
    }

    fn read_tensor_map(&self, s: Site, address: u64) -> Run<(TensorMap, u64)> {
        self.at_map(s, address)?;
        let bytes = match address.checked_sub(PARAM_WINDOW) {
            Some(offset) if offset >> 32 == 0 => {
                let from = self.job.params.get(offset as usize..);
                from.and_then(|from| from.get(..MAP_BYTES))
            }
            _ => self.memory.tensor_map(address),
        };
        let Some(bytes) = bytes else {
            let what = format!("a tensor map at {address:#x}, where no parameter or buffer is");
            return s.refuse_at(FaultKind::OutOfBounds, address, what);
        };
        match decode_tensor_map(bytes) {
            Some(map) => Ok(map),
            None => {
                let what = format!("the bytes at {address:#x} are no tensor map");
                s.refuse_at(FaultKind::Undefined, address, what)
            }
        }
    }
}

/// Returns the coordinates at which a lane's copy begins.
fn start_of(w: &Warp, s: Site, registers: &[u32]) -> Vec<i64> {
    let lane = s.mask.trailing_zeros() as usize;
    let coordinate = |r: &u32| i64::from(w.regs.r32[*r as usize].0[lane] as i32);
    registers.iter().map(coordinate).collect()
}

/// Returns the number of elements that a copy takes in each dimension of a box. Steps of the first one have no effect.
fn counts<'a>(map: &'a TensorMap, extents: &'a [u32]) -> impl Iterator<Item = u64> + 'a {
    extents
        .iter()
        .zip(&map.steps)
        .enumerate()
        .map(|(n, (extent, step))| match n {
            0 => u64::from(*extent),
            _ => u64::from(extent.div_ceil(*step)),
        })
}

/// Returns the number of rows that a copy takes: lines of a tile, or pixels.
fn rows(map: &TensorMap) -> u64 {
    match &map.boxes {
        Boxes::Tiled(extents) => counts(map, extents).skip(1).product(),
        Boxes::Im2col(im2col) => u64::from(im2col.pixels),
    }
}

/// Returns the address of element 0 of each row of a tile, or `None` for a row outside of the tensor.
fn lines_of_tile(map: &TensorMap, boxes: &Boxes, base: u64, start: &[i64]) -> Vec<Option<u64>> {
    let Boxes::Tiled(extents) = boxes else {
        return Vec::new();
    };
    let counts: Vec<u64> = counts(map, extents).skip(1).collect();
    let line = |mut number: u64| {
        let at: Vec<i64> = counts
            .iter()
            .zip(start.iter().zip(&map.steps).skip(1))
            .map(|(count, (start, step))| {
                let index = start + (number % count * u64::from(*step)) as i64;
                number /= count;
                index
            })
            .collect();
        line_at(map, base, &at)
    };
    (0..rows(map)).map(line).collect()
}

/// Returns the address of element 0 of each pixel, or `None` for a pixel outside of the tensor. Offsets move a pixel
/// only after its place within the corners is found.
fn lines_of_pixels(
    map: &TensorMap,
    im2col: &Im2col,
    base: u64,
    start: &[i64],
    offsets: &[i64],
) -> Vec<Option<u64>> {
    let mut at = start.get(1..).unwrap_or_default().to_vec();
    let mut lines = Vec::new();
    // The next pixel is one step further in the first dimension of space. Behind the upper corner of a dimension the
    // walk goes back to its lower corner, and on in the next dimension; behind the last one, to the next image.
    for _ in 0..im2col.pixels {
        let mut moved = at.clone();
        moved.iter_mut().zip(offsets).for_each(|(at, by)| *at += by);
        lines.push(line_at(map, base, &moved));
        let corners = im2col.lower.iter().zip(&im2col.upper);
        let of_space = map.extents.iter().zip(&map.steps).skip(1).zip(corners);
        let mut is_within = false;
        for (at, ((extent, step), (lower, upper))) in at.iter_mut().zip(of_space) {
            *at += i64::from(*step);
            is_within = *at < *extent as i64 + i64::from(*upper);
            if is_within {
                break;
            }
            *at = i64::from(*lower);
        }
        let images = at.last_mut().zip(map.steps.last());
        if let Some((image, step)) = images.filter(|_| !is_within) {
            *image += i64::from(*step);
        }
    }
    lines
}

/// Returns the address of element 0 of the row at these indices of all dimensions but the first, or `None` outside of
/// the tensor.
fn line_at(map: &TensorMap, base: u64, at: &[i64]) -> Option<u64> {
    let mut address = base;
    for ((index, extent), stride) in at.iter().zip(map.extents.iter().skip(1)).zip(&map.strides) {
        let index = u64::try_from(*index).ok().filter(|index| index < extent)?;
        address = address.wrapping_add(index.wrapping_mul(*stride));
    }
    Some(address)
}

/// Returns the part that lies in the tensor of a piece `n` bytes into a row that begins at element `first`: its
/// address, and which bytes of the piece. A piece that is written is written as a whole, also where the tensor ends in
/// it (CALIBRATION.md).
fn in_row(
    map: &TensorMap,
    line: u64,
    first: i64,
    n: u64,
    write: bool,
) -> Option<(u64, std::ops::Range<u32>)> {
    let each = map.element.bytes() as i64;
    let extent = *map.extents.first()? as i64;
    let from = first + n as i64 / each;
    let to = from + i64::from(PIECE) / each;
    let (low, high) = if write && (0..extent).contains(&from) {
        (from, to)
    } else {
        (from.max(0), to.min(extent))
    };
    let bytes = |elements: i64| (elements * each) as u32;
    (low < high).then(|| {
        let address = line.wrapping_add((low * each) as u64);
        (address, bytes(low - from)..bytes(high - from))
    })
}

/// Returns a piece of what elements outside of the tensor become: zeros, or NaNs.
fn fill(map: &TensorMap) -> [u8; PIECE as usize] {
    let element = not_a_number(map.element).filter(|_| map.fills_nan);
    let element = element.unwrap_or(0).to_le_bytes();
    let width = map.element.bytes() as usize;
    std::array::from_fn(|n| element[n % width])
}
