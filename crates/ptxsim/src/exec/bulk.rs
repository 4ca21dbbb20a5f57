//! Bulk copies between shared and global memory (PTX ISA 9.7.9.25.4), boxes of tensors among them (`tensor`). Each
//! belongs to one thread.
//!
//! A copy reads its source when it is issued and writes as late as it may: to shared memory when somebody waits for
//! the phase of the mbarrier that its bytes end, to global memory when its thread waits for its group or ends. Accesses
//! of others to either place in between are reported.
//!
//! Bulk copies go through the async proxy. A completed copy to shared memory is seen by whoever waited for it, without
//! a fence. A copy to global memory sees what threads wrote to shared memory only behind a `fence.proxy.async`: one by
//! any warp that knew of the write will do, so a fence that comes too late for the copy can be missed, and no missing
//! fence is invented. Nothing asks for fences before a copy *writes* (libcu++ has none there), behind
//! `mbarrier.init`, or in global memory.

use super::access::address::{Addresses, Site, addresses};
use super::access::transfer::word;
use super::access::{LaneAccess, Observed, Target};
use super::async_copy::Groups;
use super::atomics::combine;
use super::mbarrier::Delivery;
use super::observe::cost::Passes;
use super::state::*;
use super::tensor::BOX_ALIGN;
use crate::check::race::{Strength, Who};
use crate::isa::*;
use crate::memory::Missing;
use crate::regs::{LANES, lanes};
use crate::report::*;
use model::{MapElement, Swizzle};
use std::mem;
use std::ops::Range;

/// Bytes that a copy moves as one. Sizes and addresses are multiples.
pub const PIECE: u32 = 16;
/// Bytes of shared memory that a GPU copies by itself, and bytes that global memory is read and written by.
const LINE: u32 = 128;
const SECTOR: u32 = 32;

/// The bytes of a piece, those outside of a tensor filled in.
type PieceBytes = [u8; PIECE as usize];

/// A stretch of shared memory that a copy still has to read.
pub struct BulkRead {
    lane: u32,
    instruction: u32,
    from: u32,
    bytes: u32,
}

/// A stretch of global memory that a copy still has to write.
pub struct BulkWrite {
    lane: u32,
    instruction: u32,
    pieces: Vec<PieceWrite>,
    /// The operation on elements of so many bytes, where it does not replace them.
    reduction: Option<(AtomOp, u32)>,
}

/// The bulk copies of a warp to global memory, by what they still have to read and to write.
#[derive(Default)]
pub struct BulkCopies {
    reads: Groups<BulkRead>,
    writes: Groups<BulkWrite>,
}

impl BulkCopies {
    pub fn commit(&mut self, mask: u32) {
        self.reads.commit(mask);
        self.writes.commit(mask);
    }
}

struct PieceWrite {
    /// Allocation and offset.
    to: (usize, usize),
    bytes: u32,
    data: PieceBytes,
    undefined: Option<Missing>,
}

impl BulkRead {
    /// Somebody of a lane and an instruction begins to read so many bytes.
    pub fn begin(
        b: &mut BlockState,
        (lane, instruction): (u32, u32),
        (from, bytes): (u32, u32),
    ) -> BulkRead {
        b.under_way.begin_read(from, bytes, instruction);
        BulkRead {
            lane,
            instruction,
            from,
            bytes,
        }
    }

    pub fn end(self, b: &mut BlockState, warp: u32) {
        b.under_way.end_read(self.from, self.bytes);
        if let Some(shadow) = &mut b.shadow {
            // It may have been read as late as now. Races were reported when it began.
            let who = Who::new(warp, self.lane, self.instruction);
            let place = (self.from, self.bytes);
            shadow.access::<false>(place, who, Strength::Weak, 1 << who.lane, |_| true);
        }
    }
}

/// The part of a bulk copy that one thread started.
pub struct Stretch {
    pub lane: usize,
    /// All that it takes of shared memory: where, and bytes.
    pub shared: u32,
    pub bytes: u32,
    /// Where in the block's own shared memory it comes from, if it does.
    pub own: Option<u32>,
    /// Bytes of a row of a box; all of them, where there are no rows.
    pub row: u32,
    pub pieces: Vec<Piece>,
    /// A piece outside of a tensor.
    pub fill: [u8; PIECE as usize],
    /// The elements of a tensor, and how their places are exchanged.
    pub tensor: Option<(MapElement, Swizzle)>,
}

/// A part of a copy that lies side by side on both sides.
pub struct Piece {
    pub shared: u32,
    /// None outside of a tensor, and for what comes from shared memory.
    pub global: Option<InGlobal>,
}

pub struct InGlobal {
    /// Allocation and offset.
    pub at: (usize, usize),
    /// The bytes of the piece that are there, the others being outside of the tensor.
    pub bytes: Range<u32>,
}

impl Stretch {
    /// Sectors that it moves. A GPU asks for the part of each row of a box in each line of 128 bytes of shared memory by
    /// itself. What a load fills in moves, too, in sectors of shared memory (CALIBRATION.md).
    fn passes(&self, loads: bool) -> Passes {
        let mut taken = 0;
        let mut last = (None, None, None);
        for (n, piece) in self.pieces.iter().enumerate() {
            let at = n as u32 * PIECE;
            let part = Some((at / self.row, (self.shared + at) / LINE));
            if last.0 != part {
                last = (part, None, None);
            }
            let inside = piece.global.as_ref();
            let read = inside.map(|cell| (cell.at.0, cell.at.1 as u32 / SECTOR));
            let filled = (self.shared + at) / SECTOR;
            match read {
                Some(_) => taken += u64::from(mem::replace(&mut last.1, read) != read),
                None if loads => {
                    taken += u64::from(last.2.replace(filled) != Some(filled));
                }
                None => {}
            }
        }
        Passes::ideal(taken)
    }
}

/// Returns true if two lanes copy from the same place to the same place.
fn copies_the_same(w: &Warp, copy: &BulkCopy, size: u32, [one, other]: [usize; 2]) -> bool {
    let same = |place: &BulkPlace| {
        let at = addresses(&w.regs, place.address, place.offset);
        at[one] == at[other]
    };
    let equal = |register: &u32| {
        let values = &w.regs.r32[*register as usize].0;
        values[one] == values[other]
    };
    let source = match &copy.global {
        BulkGlobal::Line(place) | BulkGlobal::Shared(place) => same(place) && equal(&size),
        BulkGlobal::Box { map, at, walk } => {
            let offsets = match walk {
                Walk::Tiles => &[][..],
                Walk::Pixels(offsets) => offsets,
            };
            same(map) && at.iter().chain(offsets).all(equal)
        }
    };
    source && same(&copy.shared)
}

impl Machine<'_> {
    pub fn bulk_copy<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        copy: &BulkCopy,
        size: u32,
        s: Site,
    ) -> Run<()> {
        let to = addresses(&w.regs, copy.shared.address, copy.shared.offset);
        let align = match copy.global {
            BulkGlobal::Line(_) | BulkGlobal::Shared(_) => PIECE,
            BulkGlobal::Box { .. } => BOX_ALIGN,
        };
        self.aligned(s, (AddressSpace::Shared, &to), align)?;
        let barriers = copy.barrier.as_ref();
        // An H200 did so (2026-11-28, driver 580.159.04). A cluster of one block is enough for it.
        if copy.reduction.is_some() && barriers.is_some() && !self.job.explicit_cluster {
            let what = "cp.reduce.async.bulk to shared memory in a launch without a cluster dimension, which is an illegal \
                        instruction on a GPU: launch it with one, which may be 1";
            return s.refuse(FaultKind::Undefined, what);
        }
        let barriers = barriers.map(|at| addresses(&w.regs, at.address, at.offset));
        if let Some(barriers) = barriers.as_ref().filter(|_| self.cluster.is_at_work()) {
            self.same_block(b, s, &to, barriers)?;
        }
        // Where it lies in whichever block: all have as much shared memory.
        let shared = if self.cluster.is_at_work() {
            to.map(|x| x & ((1 << CLUSTER_PAGE) - 1))
        } else {
            to
        };
        let direction = if barriers.is_none() {
            Direction::Write
        } else {
            Direction::Read
        };
        // Lanes that store, and how many bytes.
        let mut stored: Vec<(usize, u32)> = Vec::new();
        for lane in lanes(s.mask) {
            let s = s.only(lane);
            let same = stored
                .iter()
                .find(|(first, _)| copies_the_same(w, copy, size, [*first, lane]));
            if let Some(&(_, bytes)) = same {
                // As of stores of one value, one is enough. But each lane has a copy to wait for.
                let what = (shared[lane] as u32, bytes);
                let read = BulkRead::begin(b, (lane as u32, s.pc), what);
                w.bulk.reads.add(lane as u32, read);
                continue;
            }
            let stretch = match &copy.global {
                BulkGlobal::Line(place) | BulkGlobal::Shared(place) => {
                    let space = match copy.global {
                        BulkGlobal::Shared(_) => AddressSpace::Shared,
                        _ => AddressSpace::Global,
                    };
                    let bytes = w.regs.r32[size as usize].0[lane];
                    self.find_line(b, w, s, &shared, (space, place), bytes, direction)?
                }
                BulkGlobal::Box { map, at, walk } => {
                    Some(self.find_box(b, w, s, shared[lane], (map, at, walk), direction)?)
                }
            };
            let Some(stretch) = stretch else { continue };
            let reduction = self.reduction_of(copy, &stretch, s)?;
            let Some(barriers) = &barriers else {
                self.add_global(s, stretch.bytes, stretch.passes(false));
                if reduction.is_none() {
                    stored.push((lane, stretch.bytes));
                }
                self.bulk_to_global::<CHECKS>(b, w, &stretch, reduction, s);
                continue;
            };
            let ranks = match copy.multicast {
                None => vec![rank_of(to[lane], b.rank)],
                Some(register) => {
                    let mask = w.regs.r32[register as usize].0[lane];
                    (0..16).filter(|rank| mask >> rank & 1 == 1).collect()
                }
            };
            if stretch.own.is_none() {
                let mut passes = stretch.passes(true);
                passes.taken *= ranks.len() as u64;
                self.add_global(s, stretch.bytes, passes);
            }
            let to = (&ranks[..], barriers[lane]);
            self.bulk_to_shared::<CHECKS>(b, w, &stretch, to, reduction, s)?;
        }
        Ok(())
    }

    /// The operation of a copy, and the bytes of an element.
    fn reduction_of(
        &self,
        copy: &BulkCopy,
        stretch: &Stretch,
        s: Site,
    ) -> Run<Option<(AtomOp, u32)>> {
        let all = match &copy.reduction {
            None => return Ok(None),
            Some(Reduction::Elements(op, bytes)) => return Ok(Some((*op, *bytes))),
            Some(Reduction::ByMap(all)) => all,
        };
        let element = stretch.tensor.map(|(element, _)| element);
        let found = all.iter().find(|(of, _)| Some(*of) == element);
        if let Some((element, op)) = found {
            return Ok(Some((*op, element.bytes() as u32)));
        }
        let what = "cp.reduce.async.bulk.tensor by an operation that elements of this tensor map do not have";
        s.refuse(FaultKind::Undefined, what)
    }

    /// Nothing is fetched, but sizes, places and tensor maps have to be what a copy takes.
    pub fn bulk_prefetch(
        &mut self,
        w: &Warp,
        prefetch: &BulkPrefetch,
        size: u32,
        s: Site,
    ) -> Run<()> {
        for lane in lanes(s.mask) {
            let s = s.only(lane);
            match &prefetch.0 {
                BulkGlobal::Line(place) => {
                    let global = addresses(&w.regs, place.address, place.offset);
                    self.aligned(s, (AddressSpace::Global, &global), PIECE)?;
                    let bytes = w.regs.r32[size as usize].0[lane];
                    self.in_pieces(s, (bytes, global[lane]))?;
                }
                BulkGlobal::Box { map, at, walk } => {
                    self.check_prefetch(w, s, (map, at, walk))?;
                }
                // Nothing is fetched from there.
                BulkGlobal::Shared(_) => {}
            }
        }
        Ok(())
    }

    /// Bytes that a lane moves from or to an address.
    fn in_pieces(&self, s: Site, (bytes, address): (u32, u64)) -> Run<()> {
        if bytes.is_multiple_of(PIECE) {
            return Ok(());
        }
        let name = self.name_of(s.pc);
        let what = format!("{name} of {bytes} bytes, which is no multiple of {PIECE}");
        s.refuse_at(FaultKind::Undefined, address, what)
    }

    /// A line between shared memory and global memory, or from the block's own shared memory to another one's. `None`: there
    /// is nothing to copy.
    fn find_line(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        shared: &Addresses,
        (space, place): (AddressSpace, &BulkPlace),
        bytes: u32,
        direction: Direction,
    ) -> Run<Option<Stretch>> {
        let other = addresses(&w.regs, place.address, place.offset);
        self.aligned(s, (space, &other), PIECE)?;
        let lane = s.mask.trailing_zeros() as usize;
        let from = shared[lane] as u32;
        let is_own = space == AddressSpace::Shared;
        let named = if is_own { other[lane] } else { shared[lane] };
        self.in_pieces(s, (bytes, named))?;
        if bytes == 0 && !is_own {
            return Ok(None);
        }
        let x = LaneAccess::new(s, shared, bytes, direction);
        self.in_window(&x, b.shared.len(), AddressSpace::Shared)?;
        let x = LaneAccess { at: &other, ..x };
        let global = if is_own {
            self.in_window(&x, b.shared.len(), AddressSpace::Shared)?;
            None
        } else {
            Some(self.locate(&x, lane)?)
        };
        let piece = |n: u32| Piece {
            shared: from + n,
            global: global.map(|(i, at)| InGlobal {
                at: (i, at + n as usize),
                bytes: 0..PIECE,
            }),
        };
        Ok((bytes > 0).then(|| Stretch {
            lane,
            shared: from,
            bytes,
            own: is_own.then_some(other[lane] as u32),
            row: bytes,
            pieces: (0..bytes).step_by(PIECE as usize).map(piece).collect(),
            fill: [0; PIECE as usize],
            tensor: None,
        }))
    }

    /// To the blocks of the cluster of these ranks, each of which has the mbarrier at the same place.
    fn bulk_to_shared<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        stretch: &Stretch,
        (ranks, barrier): (&[u32], u64),
        reduction: Option<(AtomOp, u32)>,
        s: Site,
    ) -> Run<()> {
        let &Stretch { lane, bytes, .. } = stretch;
        let page = |rank: u32, at: u64| {
            if self.cluster.is_at_work() {
                u64::from(rank + 1) << CLUSTER_PAGE | at & ((1 << CLUSTER_PAGE) - 1)
            } else {
                at
            }
        };
        let targets: Vec<(Addresses, Addresses)> = ranks
            .iter()
            .map(|rank| {
                let at = page(*rank, u64::from(stretch.shared));
                ([at; LANES], [page(*rank, barrier); LANES])
            })
            .collect();
        let mut seen = None;
        for (target, barriers) in &targets {
            let x = if reduction.is_some() {
                let update = LaneAccess::new(s, target, bytes, Direction::Update);
                update.with_strength(Strength::Atomic)
            } else {
                LaneAccess::new(s, target, bytes, Direction::Write)
            };
            let barriers = if self.cluster.is_at_work() {
                barriers.map(|x| x & ((1 << CLUSTER_PAGE) - 1))
            } else {
                *barriers
            };
            self.by_owner(b, w, AddressSpace::Cluster, &x, |m, b, w, mut owner, x| {
                m.at_mbarrier::<CHECKS>(b, w, owner.as_deref_mut(), x.site, &barriers)?;
                seen = Some(m.observe_shared::<CHECKS>(b, w, owner, x));
                Ok(())
            })?;
        }
        let pieces = match stretch.own {
            Some(from) => self.read_own::<CHECKS>(b, w, stretch, from, s),
            None => self.read_pieces::<CHECKS>(b, w, stretch, s),
        };
        // None where it goes to no block at all.
        let Some(seen) = seen else { return Ok(()) };
        let copy = |(piece, (data, undefined)): (&Piece, (PieceBytes, Option<Missing>))| CopyOp {
            lane: lane as u32,
            undefined,
            seen,
            to: piece.shared,
            bytes: PIECE,
            data,
            instruction: s.pc,
        };
        let copies: Vec<CopyOp> = stretch.pieces.iter().zip(pieces).map(copy).collect();
        for rank in ranks {
            let own = *rank == b.rank;
            let source = stretch
                .own
                .map(|from| BulkRead::begin(b, (lane as u32, s.pc), (from, bytes)));
            let delivery = Delivery {
                address: barrier as u32 & ((1 << CLUSTER_PAGE) - 1),
                warp: w.index,
                lane: lane as u32,
                copies: copies.clone(),
                bytes: Some(bytes),
                from: (!own).then_some(b.rank),
                source,
                reduction,
            };
            let to = if own {
                Some(&mut *b)
            } else {
                self.cluster.block_mut(*rank)
            };
            if let Some(to) = to {
                for copy in &copies {
                    if let Some((_, swizzle)) = stretch.tensor {
                        to.note_layout(copy, swizzle);
                    }
                    if reduction.is_none() {
                        to.under_way.begin_write(copy.to, copy.bytes, s.pc);
                    }
                }
                to.mbarriers.send(delivery);
            }
        }
        Ok(())
    }

    /// The bytes of a copy from global memory, piece by piece.
    fn read_pieces<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        stretch: &Stretch,
        s: Site,
    ) -> Vec<(PieceBytes, Option<Missing>)> {
        let mut all = Vec::with_capacity(stretch.pieces.len());
        for piece in &stretch.pieces {
            let (mut data, mut undefined) = (stretch.fill, None);
            if let Some(InGlobal { at: (i, at), bytes }) = &piece.global {
                let (i, at, n) = (*i, *at, bytes.len());
                let places = [at as u64; LANES];
                let read = LaneAccess::new(s, &places, n as u32, Direction::Read);
                let seen = self.observe_global::<CHECKS>(b, w, i, &read);
                let held = &self.memory.at(i).content.bytes(seen)[at..at + n];
                let to = data.iter_mut().skip(bytes.start as usize);
                for (to, from) in to.zip(held) {
                    *to = *from;
                }
                if CHECKS {
                    let missing = self.missing(b, Target::Global(i), (at, n as u32), s.pc);
                    undefined = missing.map(|(bits, origin)| (bits << bytes.start, origin));
                }
            }
            all.push((data, undefined));
        }
        all
    }

    /// Up to a piece of what a copy reads of the block's own shared memory, and what of it has no value.
    fn read_piece<const CHECKS: bool>(
        &self,
        b: &BlockState,
        (from, bytes): (u32, usize),
        seen: Observed,
        s: Site,
    ) -> (PieceBytes, Option<Missing>) {
        let from = from as usize;
        let mut data = [0; PIECE as usize];
        data[..bytes].copy_from_slice(&b.shared.bytes(seen)[from..from + bytes]);
        let missing = if CHECKS {
            self.missing(b, Target::Shared, (from, bytes as u32), s.pc)
        } else {
            None
        };
        (data, missing)
    }

    /// The bytes of a copy from the block's own shared memory, piece by piece.
    fn read_own<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        stretch: &Stretch,
        from: u32,
        s: Site,
    ) -> Vec<(PieceBytes, Option<Missing>)> {
        let source = [u64::from(from); LANES];
        let read = LaneAccess::new(s, &source, stretch.bytes, Direction::Read);
        let seen = self.observe_shared::<CHECKS>(b, w, None, &read);
        let at = |piece: &Piece| (from + (piece.shared - stretch.shared), PIECE as usize);
        stretch
            .pieces
            .iter()
            .map(|piece| self.read_piece::<CHECKS>(b, at(piece), seen, s))
            .collect()
    }

    fn bulk_to_global<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        stretch: &Stretch,
        reduction: Option<(AtomOp, u32)>,
        s: Site,
    ) {
        let &Stretch { lane, bytes, .. } = stretch;
        let source = [u64::from(stretch.shared); LANES];
        let read = LaneAccess::new(s, &source, bytes, Direction::Read);
        let seen = self.observe_shared::<CHECKS>(b, w, None, &read);
        let mut pieces = Vec::new();
        for piece in &stretch.pieces {
            let Some(inside) = &piece.global else {
                continue;
            };
            let (from, n) = (piece.shared + inside.bytes.start, inside.bytes.len());
            let (data, undefined) = self.read_piece::<CHECKS>(b, (from, n), seen, s);
            pieces.push(PieceWrite {
                to: inside.at,
                bytes: n as u32,
                data,
                undefined,
            });
        }
        let read = BulkRead::begin(b, (lane as u32, s.pc), (stretch.shared, bytes));
        w.bulk.reads.add(lane as u32, read);
        let write = BulkWrite {
            lane: lane as u32,
            instruction: s.pc,
            pieces,
            reduction,
        };
        for piece in &write.pieces {
            self.observe_piece::<CHECKS>(b, w, &write, piece);
        }
        w.bulk.writes.add(lane as u32, write);
    }

    /// As a write by its thread, at this moment, or as relaxed updates of the device (PTX ISA,
    /// "cp.reduce.async.bulk"). What an update reads is asked when it is done.
    fn observe_piece<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        write: &BulkWrite,
        piece: &PieceWrite,
    ) -> Observed {
        let s = Site::new(write.instruction, write.lane as usize);
        let (i, at) = piece.to;
        let at = [at as u64; LANES];
        let x = LaneAccess::new(s, &at, piece.bytes, Direction::Write);
        let x = match write.reduction {
            None => x,
            Some(_) => x.with_strength(Strength::Atomic),
        };
        self.observe_global::<CHECKS>(b, w, i, &x)
    }

    /// Completes, for each lane, all but its last `keep` groups, or what they read.
    pub fn bulk_wait<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (keep, reads_only): (u32, bool),
        mask: u32,
    ) {
        for read in w.bulk.reads.take_older(keep, mask) {
            read.end(b, w.index);
        }
        if !reads_only {
            for write in w.bulk.writes.take_older(keep, mask) {
                self.bulk_lands::<CHECKS>(b, w, write);
            }
        }
    }

    /// Lanes end. Their copies come in; what those still read is not theirs any more.
    pub fn end_bulk_copies<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        s: Site,
    ) {
        for read in w.bulk.reads.take(s.mask) {
            if CHECKS {
                let at = At::lane(b, w, s.pc, read.lane);
                self.tell_unfinished_read(at, read.instruction, read.from);
            }
            read.end(b, w.index);
        }
        for write in w.bulk.writes.take(s.mask) {
            self.bulk_lands::<CHECKS>(b, w, write);
        }
    }

    fn bulk_lands<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        mut write: BulkWrite,
    ) {
        let pieces = mem::take(&mut write.pieces);
        let seen: Vec<Observed> = pieces
            .iter()
            .map(|piece| self.observe_piece::<CHECKS>(b, w, &write, piece))
            .collect();
        self.progress += 1;
        let s = Site::new(write.instruction, write.lane as usize);
        for (mut piece, seen) in pieces.into_iter().zip(seen) {
            let ((i, at), n) = (piece.to, piece.bytes as usize);
            let target = Target::Global(i);
            if let Some(reduction) = write.reduction {
                let places = [at as u64; LANES];
                let x = LaneAccess::new(s, &places, piece.bytes, Direction::Update);
                if CHECKS {
                    self.check_updated(b, w, None, target, &x);
                }
                piece.combine(
                    &self.memory.at(i).content.bytes(seen)[at..at + n],
                    reduction,
                );
            }
            let content = &mut self.memory.at_mut(i).content;
            content.bytes_mut(seen)[at..at + n].copy_from_slice(&piece.data[..n]);
            content.cover(at, n);
            if let Some(missing) = piece.undefined {
                self.leave_undefined(b, w, s, (target, at, write.lane as usize), missing);
            }
        }
    }
}

impl PieceWrite {
    /// Becomes what an operation makes of these bytes of memory and its own. Unlike `red.add.f32`, a copy keeps subnormal
    /// sums (CALIBRATION.md).
    fn combine(&mut self, held: &[u8], (op, width): (AtomOp, u32)) {
        let width = width as usize;
        let own = self.data[..held.len()].chunks_exact_mut(width);
        for (own, held) in own.zip(held.chunks_exact(width)) {
            let bytes = width as u32;
            let new = combine(op, bytes, word(held, bytes), word(own, bytes));
            own.copy_from_slice(&new.to_le_bytes()[..width]);
        }
        if let Some((missing, _)) = &mut self.undefined {
            let element = (1_u32 << width) - 1;
            let each = (0..PIECE).step_by(width).map(|at| element << at);
            let touched = each.filter(|element| *missing & element != 0);
            *missing = touched.fold(0, |all, element| all | element);
        }
    }
}

impl BlockState {
    /// Bulk copies see what the warp knows of shared memory.
    pub fn proxy_fence(&mut self, warp: u32) {
        let Some(shadow) = &mut self.shadow else {
            return;
        };
        for (seen, known) in self.proxied.iter_mut().zip(shadow.knowledge(warp)) {
            *seen = (*seen).max(*known);
        }
        shadow.tick(warp);
    }
}
