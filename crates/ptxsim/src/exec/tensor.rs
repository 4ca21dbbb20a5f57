//! Boxes of tensors that bulk copies move (PTX ISA 5.5, "Tensors"): where the pieces of a box lie in shared and in
//! global memory. What then becomes of them is as with any bulk copy.

use super::address::{Site, addresses};
use super::bulk::{InGlobal, PIECE, Piece, Stretch};
use super::state::*;
use crate::program::*;
use crate::regs::LANES;
use crate::report::*;
use crate::tensor_map::*;
use model::TensorMap;

/// A box begins in shared memory at a multiple of so many bytes.
pub const BOX_ALIGN: u32 = 128;

impl Machine<'_> {
    /// The box that a lane copies.
    pub fn find_box(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        shared: u64,
        (place, at): (&BulkPlace, &[u32]),
        write: bool,
    ) -> Run<Stretch> {
        let lane = s.mask.trailing_zeros() as usize;
        let (map, base) = self.map_of_box(b, w, s, (place, at.len()))?;
        self.check_map(
            b,
            w,
            s,
            addresses(&w.regs, place.address, place.offset)[lane],
        );
        let start: Vec<i64> = at
            .iter()
            .map(|r| i64::from(w.regs.r32[*r as usize].0[lane] as i32))
            .collect();
        self.check_start(b, w, s, &map, &start, write)?;
        let counts = counts(&map);
        let row = row_bytes(&map);
        let rows: u64 = counts.iter().skip(1).product();
        // More than there is shared memory, where it does not fit.
        let bytes = u32::try_from(row.saturating_mul(rows)).unwrap_or(u32::MAX);
        self.in_window(b, w, s, &[shared; LANES], bytes, b.shared.len(), "shared")?;
        let mut pieces = Vec::with_capacity((bytes / PIECE) as usize);
        for number in 0..rows {
            let line = row_at(&map, base, &start, &counts, number);
            for n in (0..row).step_by(PIECE as usize) {
                let to = (shared + number * row + n) as u32;
                let to = exchange_pieces(map.swizzle, to, 0);
                if u64::from(to) + u64::from(PIECE) > b.shared.len() as u64 {
                    self.in_window(
                        b,
                        w,
                        s,
                        &[u64::from(to); LANES],
                        PIECE,
                        b.shared.len(),
                        "shared",
                    )?;
                }
                let inside = line.and_then(|line| in_row(&map, line, start[0], n, write));
                let global = match inside {
                    None => None,
                    Some((address, bytes)) => {
                        let n = bytes.end - bytes.start;
                        let at = self.locate(b, w, s, (lane, address), n, write)?;
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

    /// An H100 takes these for no legal instruction (CALIBRATION.md).
    fn check_start(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        map: &TensorMap,
        start: &[i64],
        write: bool,
    ) -> Run<()> {
        let name = self.name_of(s.pc);
        let at = At::lane(b, w, s.pc, s.mask.trailing_zeros());
        let first = start[0] * map.element.bytes() as i64;
        if first % i64::from(PIECE) != 0 {
            let what = format!(
                "{name} of a box that begins {first} bytes into the rows of the tensor, which is no multiple of {PIECE}"
            );
            return self.fault(FaultKind::Undefined, at, &what);
        }
        if write && let Some(before) = start.iter().find(|it| **it < 0) {
            let what = format!(
                "{name} to a box at coordinate {before}: one that is written cannot begin before the tensor"
            );
            return self.fault(FaultKind::Undefined, at, &what);
        }
        Ok(())
    }

    /// The tensor map of a lane's copy by so many coordinates, and where its tensor begins.
    pub fn map_of_box(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (place, coordinates): (&BulkPlace, usize),
    ) -> Run<(TensorMap, u64)> {
        let lane = s.mask.trailing_zeros();
        let address = addresses(&w.regs, place.address, place.offset)[lane as usize];
        let found = self.read_tensor_map(b, w, s, address)?;
        let dimensions = found.0.extents.len();
        if coordinates == dimensions {
            return Ok(found);
        }
        let what =
            format!("a copy by {coordinates} coordinates from a tensor of {dimensions} dimensions");
        let at = At::lane(b, w, s.pc, lane).address(address);
        self.fault(FaultKind::Undefined, at, &what)
    }

    fn read_tensor_map(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        address: u64,
    ) -> Run<(TensorMap, u64)> {
        self.at_map(b, w, s, address)?;
        let at = At::lane(b, w, s.pc, s.mask.trailing_zeros()).address(address);
        let bytes = match address.checked_sub(PARAM_WINDOW) {
            Some(offset) if offset >> 32 == 0 => {
                let from = self.params.get(offset as usize..);
                from.and_then(|from| from.get(..MAP_BYTES))
            }
            _ => self.memory.read(address, MAP_BYTES).ok(),
        };
        let Some(bytes) = bytes else {
            let what = format!("a tensor map at {address:#x}, where no parameter or buffer is");
            return self.fault(FaultKind::OutOfBounds, at, &what);
        };
        match decode_tensor_map(bytes) {
            Some(map) => Ok(map),
            None => {
                let what = format!("the bytes at {address:#x} are no tensor map");
                self.fault(FaultKind::Undefined, at, &what)
            }
        }
    }
}

/// Elements that a copy takes in each dimension. Steps of the first one have no effect.
fn counts(map: &TensorMap) -> Vec<u64> {
    let each = map.box_extents.iter().zip(&map.steps).enumerate();
    each.map(|(n, (extent, step))| match n {
        0 => u64::from(*extent),
        _ => u64::from(extent.div_ceil(*step)),
    })
    .collect()
}

/// Where element 0 of a row of the box lies; `None` for rows outside of the tensor.
fn row_at(
    map: &TensorMap,
    base: u64,
    start: &[i64],
    counts: &[u64],
    mut number: u64,
) -> Option<u64> {
    let mut address = base;
    let dimensions = map.extents.iter().zip(start).zip(counts).zip(&map.steps);
    let strides = map.strides.iter();
    for ((((extent, start), count), step), stride) in dimensions.skip(1).zip(strides) {
        let index = start + (number % count * u64::from(*step)) as i64;
        number /= count;
        let index = u64::try_from(index).ok().filter(|index| index < extent)?;
        address = address.wrapping_add(index.wrapping_mul(*stride));
    }
    Some(address)
}

/// The part of a piece, `n` bytes into a row that begins at element `first`, that lies in the tensor: its address and
/// which bytes. One that is written is written as a whole, also where the tensor ends in it (CALIBRATION.md).
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
    let (low, high) = match write && (0..extent).contains(&from) {
        true => (from, to),
        false => (from.max(0), to.min(extent)),
    };
    let bytes = |elements: i64| (elements * each) as u32;
    (low < high).then(|| {
        let address = line.wrapping_add((low * each) as u64);
        (address, bytes(low - from)..bytes(high - from))
    })
}

fn fill(map: &TensorMap) -> [u8; PIECE as usize] {
    let element = not_a_number(map.element).filter(|_| map.fills_nan);
    let element = element.unwrap_or(0).to_le_bytes();
    let width = map.element.bytes() as usize;
    std::array::from_fn(|n| element[n % width])
}
