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

use super::address::{Addresses, Site, addresses};
use super::async_copy::OfLane;
use super::atomics::combine;
use super::cost::Passes;
use super::mbarrier::Delivery;
use super::mem::{missing_of, word};
use super::state::*;
use super::tensor::BOX_ALIGN;
use super::undefined::Origin;
use super::visits::Remote;
use crate::check::global::Scoped;
use crate::check::race::{Strength, Who};
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;
use crate::switch::{Observer, is_off};
use model::{MapElement, Swizzle};
use std::mem;
use std::ops::Range;

/// Bytes that a copy moves as one. Sizes and addresses are multiples.
pub const PIECE: u32 = 16;
/// Bytes of shared memory that a GPU copies by itself, and bytes that global memory is read and written by.
const LINE: u32 = 128;
const SECTOR: u32 = 32;

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

struct PieceWrite {
    /// Allocation and offset.
    to: (usize, usize),
    bytes: u32,
    data: [u8; PIECE as usize],
    /// Bytes that hold no value, and where those came from.
    undefined: Option<(u32, Origin)>,
}

impl OfLane for BulkRead {
    fn lane(&self) -> u32 {
        self.lane
    }
}

impl OfLane for BulkWrite {
    fn lane(&self) -> u32 {
        self.lane
    }
}

impl BulkRead {
    /// Somebody of a lane and an instruction begins to read so many bytes.
    pub fn begin(
        b: &mut BlockState,
        (lane, instruction): (u32, u32),
        (from, bytes): (u32, u32),
    ) -> BulkRead {
        b.being_read.begin(from, bytes, instruction);
        BulkRead {
            lane,
            instruction,
            from,
            bytes,
        }
    }

    pub fn end(self, b: &mut BlockState, warp: u32) {
        b.being_read.end(self.from, self.bytes);
        if let Some(shadow) = &mut b.shadow {
            // It may have been read as late as now. Races were reported when it began.
            let who = Who {
                warp,
                lane: self.lane,
                instruction: self.instruction,
            };
            shadow.read(self.from, self.bytes, who, Strength::Weak, |_| true);
        }
    }
}

/// One thread's copy.
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
        Passes {
            taken,
            ideal: taken,
        }
    }
}

/// Whether two lanes copy from the same place to the same place.
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
        self.aligned(b, w, s, (AddressSpace::Shared, &to), align)?;
        let barriers = copy.barrier.as_ref();
        let barriers = barriers.map(|at| addresses(&w.regs, at.address, at.offset));
        if let Some(barriers) = barriers.as_ref().filter(|_| self.cluster.is_at_work()) {
            self.same_block(b, w, s, &to, barriers)?;
        }
        // Where it lies in whichever block: all have as much shared memory.
        let shared = if self.cluster.is_at_work() {
            to.map(|x| x & ((1 << CLUSTER_PAGE) - 1))
        } else {
            to
        };
        // Lanes that store, and how many bytes.
        let mut stored: Vec<(usize, u32)> = Vec::new();
        for lane in lanes(s.mask) {
            let s = Site {
                mask: 1 << lane,
                ..s
            };
            let same = stored
                .iter()
                .find(|(first, _)| copies_the_same(w, copy, size, [*first, lane]));
            if let Some(&(_, bytes)) = same {
                // As of stores of one value, one is enough. But each lane has a copy to wait for.
                let what = (shared[lane] as u32, bytes);
                let read = BulkRead::begin(b, (lane as u32, s.pc), what);
                w.bulk_reads.add(read);
                continue;
            }
            let stretch = match &copy.global {
                BulkGlobal::Line(place) => {
                    let bytes = w.regs.r32[size as usize].0[lane];
                    self.find_line(b, w, s, &shared, place, bytes, barriers.is_none())?
                }
                BulkGlobal::Box { map, at, walk } => {
                    let write = barriers.is_none();
                    Some(self.find_box(b, w, s, shared[lane], (map, at, walk), write)?)
                }
                BulkGlobal::Shared(place) => {
                    let bytes = w.regs.r32[size as usize].0[lane];
                    self.find_own(b, w, s, &shared, place, bytes)?
                }
            };
            let Some(stretch) = stretch else { continue };
            let reduction = self.reduction_of(b, w, copy, &stretch, s)?;
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
        b: &BlockState,
        w: &Warp,
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
        let at = At::lane(b, w, s.pc, stretch.lane as u32);
        self.fault(FaultKind::Undefined, at, what)
    }

    /// Nothing is fetched, but sizes, places and tensor maps have to be what a copy takes.
    pub fn bulk_prefetch(
        &mut self,
        b: &BlockState,
        w: &Warp,
        prefetch: &BulkPrefetch,
        size: u32,
        s: Site,
    ) -> Run<()> {
        for lane in lanes(s.mask) {
            let s = Site {
                mask: 1 << lane,
                ..s
            };
            match &prefetch.0 {
                BulkGlobal::Line(place) => {
                    let global = addresses(&w.regs, place.address, place.offset);
                    self.aligned(b, w, s, (AddressSpace::Global, &global), PIECE)?;
                    let bytes = w.regs.r32[size as usize].0[lane];
                    self.in_pieces(b, w, s, (bytes, global[lane]))?;
                }
                BulkGlobal::Box { map, at, walk } => {
                    self.check_prefetch(b, w, s, (map, at, walk))?;
                }
                // Nothing is fetched from there.
                BulkGlobal::Shared(_) => {}
            }
        }
        Ok(())
    }

    /// As `find_line`, in the block's own shared memory; to another one's.
    fn find_own(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        shared: &Addresses,
        place: &BulkPlace,
        bytes: u32,
    ) -> Run<Option<Stretch>> {
        let from = addresses(&w.regs, place.address, place.offset);
        self.aligned(b, w, s, (AddressSpace::Shared, &from), PIECE)?;
        let lane = s.mask.trailing_zeros() as usize;
        self.in_pieces(b, w, s, (bytes, from[lane]))?;
        for at in [shared, &from] {
            self.in_window(b, w, s, at, bytes, b.shared.len(), AddressSpace::Shared)?;
        }
        let piece = |n: u32| Piece {
            shared: shared[lane] as u32 + n,
            global: None,
        };
        Ok((bytes > 0).then(|| Stretch {
            lane,
            shared: shared[lane] as u32,
            bytes,
            own: Some(from[lane] as u32),
            row: bytes,
            pieces: (0..bytes).step_by(PIECE as usize).map(piece).collect(),
            fill: [0; PIECE as usize],
            tensor: None,
        }))
    }

    /// Bytes that a lane moves from or to an address.
    fn in_pieces(
        &self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (bytes, address): (u32, u64),
    ) -> Run<()> {
        if bytes.is_multiple_of(PIECE) {
            return Ok(());
        }
        let name = self.name_of(s.pc);
        let what = format!("{name} of {bytes} bytes, which is no multiple of {PIECE}");
        let at = At::lane(b, w, s.pc, s.mask.trailing_zeros()).address(address);
        self.fault(FaultKind::Undefined, at, &what)
    }

    /// `None`: there is nothing to copy.
    fn find_line(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        shared: &Addresses,
        place: &BulkPlace,
        bytes: u32,
        write: bool,
    ) -> Run<Option<Stretch>> {
        let global = addresses(&w.regs, place.address, place.offset);
        self.aligned(b, w, s, (AddressSpace::Global, &global), PIECE)?;
        let lane = s.mask.trailing_zeros() as usize;
        self.in_pieces(b, w, s, (bytes, shared[lane]))?;
        if bytes == 0 {
            return Ok(None);
        }
        self.in_window(b, w, s, shared, bytes, b.shared.len(), AddressSpace::Shared)?;
        let (i, at) = self.locate(b, w, s, (lane, global[lane]), bytes, write)?;
        let from = shared[lane] as u32;
        let piece = |n: u32| Piece {
            shared: from + n,
            global: Some(InGlobal {
                at: (i, at + n as usize),
                bytes: 0..PIECE,
            }),
        };
        Ok(Some(Stretch {
            lane,
            shared: from,
            bytes,
            own: None,
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
        for (target, barriers) in &targets {
            let reduces = reduction.is_some();
            self.bulk_begins::<CHECKS>(b, w, s, (target, bytes), barriers, reduces)?;
        }
        let copies = match stretch.own {
            Some(from) => self.read_own::<CHECKS>(b, w, stretch, from, s),
            None => self.read_pieces::<CHECKS>(b, w, stretch, s),
        };
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
                let other = self.cluster.blocks.get_mut(*rank as usize);
                other.and_then(Option::as_deref_mut)
            };
            if let Some(to) = to {
                for copy in &copies {
                    if let Some((_, swizzle)) = stretch.tensor
                        && !is_off(Observer::Layouts, s.pc)
                    {
                        to.layouts.note(copy.to, swizzle);
                    }
                    if reduction.is_none() {
                        to.in_flight.begin(copy.to, copy.bytes, s.pc);
                    }
                }
                to.deliveries.push(delivery);
            }
        }
        Ok(())
    }

    /// The checks of the shared side of a copy to shared memory.
    fn bulk_begins<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        s: Site,
        (target, bytes): (&Addresses, u32),
        barriers: &Addresses,
        reduces: bool,
    ) -> Run<()> {
        if !self.cluster.is_at_work() {
            self.at_mbarrier::<CHECKS>(b, w, s, barriers)?;
            self.bulk_begins_here::<CHECKS>(b, w, s, (target, bytes), reduces);
            return Ok(());
        }
        let barriers = barriers.map(|x| x & ((1 << CLUSTER_PAGE) - 1));
        self.by_block(
            b,
            w,
            (s, target, bytes),
            |m, b, w, s, target| {
                m.at_mbarrier::<CHECKS>(b, w, s, &barriers)?;
                m.bulk_begins_here::<CHECKS>(b, w, s, (target, bytes), reduces);
                Ok(())
            },
            |m, b, w, owner, s, target| {
                m.at_remote_mbarrier::<CHECKS>(b, w, owner, s, &barriers)?;
                if CHECKS {
                    let (scoped, does) = if reduces {
                        (Scoped::of(Strength::Atomic, Order::Weak), Remote::Update)
                    } else {
                        (Scoped::WEAK, Remote::Write(None))
                    };
                    m.check_remote(b, w, owner, (s, target, bytes), scoped, does);
                }
                Ok(())
            },
        )
    }

    fn bulk_begins_here<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        s: Site,
        (target, bytes): (&Addresses, u32),
        reduces: bool,
    ) {
        if CHECKS && reduces {
            self.check_shared_read(b, w, s, target, bytes, Strength::Atomic);
        } else if CHECKS {
            self.copies_under_way(b, w, s, target, bytes, |m, at, earlier| {
                let earlier = m.copy_at(earlier);
                format!(
                    "shared memory {at:#x} is overwritten by this cp.async.bulk while {earlier} is still in flight"
                )
            });
            self.sources_under_way(b, w, s, target, bytes);
            self.race_on_shared(b, w, s, target, bytes, Strength::Weak, &[[]; LANES]);
        }
    }

    /// The bytes of a copy from global memory.
    fn read_pieces<const CHECKS: bool>(
        &mut self,
        b: &BlockState,
        w: &Warp,
        stretch: &Stretch,
        s: Site,
    ) -> Vec<CopyOp> {
        let lane = stretch.lane;
        let mut copies = Vec::with_capacity(stretch.pieces.len());
        for piece in &stretch.pieces {
            let mut data = stretch.fill;
            let mut undefined = None;
            if let Some(InGlobal { at: (i, at), bytes }) = &piece.global {
                let (i, at, n) = (*i, *at, bytes.len());
                let to = data.iter_mut().skip(bytes.start as usize);
                for (to, from) in to.zip(&self.memory.at(i).data[at..at + n]) {
                    *to = *from;
                }
                if CHECKS {
                    self.watch_lane(b, w, s, (i, at, lane), n as u32, false, Scoped::WEAK);
                    let origin = self.undefined_in_global((i, at), n as u32, s.pc);
                    undefined = origin.map(|origin| {
                        let allocation = self.memory.at(i);
                        let missing = |k| allocation.missing(at + k, 1).is_some();
                        (missing_of(n as u32, missing) << bytes.start, origin)
                    });
                }
            }
            copies.push(CopyOp {
                lane: lane as u32,
                undefined,
                to: piece.shared,
                bytes: PIECE,
                data,
                instruction: s.pc,
            });
        }
        copies
    }

    /// The bytes of a copy from the block's own shared memory.
    fn read_own<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &Warp,
        stretch: &Stretch,
        from: u32,
        s: Site,
    ) -> Vec<CopyOp> {
        let &Stretch { lane, bytes, .. } = stretch;
        if CHECKS {
            let source = [u64::from(from); LANES];
            self.check_shared_read(b, w, s, &source, bytes, Strength::Weak);
            self.check_proxy_fence(b, w, s, (from, bytes));
        }
        let copy = |piece: &Piece| {
            let at = (from + (piece.shared - stretch.shared)) as usize;
            let mut data = [0; PIECE as usize];
            data.copy_from_slice(&b.shared[at..at + PIECE as usize]);
            let origin = if CHECKS {
                b.undefined_in_shared(at, PIECE as usize, s.pc)
            } else {
                None
            };
            let missing = |k| b.shared_known.missing(at + k, 1).is_some();
            CopyOp {
                lane: lane as u32,
                undefined: origin.map(|origin| (missing_of(PIECE, missing), origin)),
                to: piece.shared,
                bytes: PIECE,
                data,
                instruction: s.pc,
            }
        };
        stretch.pieces.iter().map(copy).collect()
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
        if CHECKS {
            let source = [u64::from(stretch.shared); LANES];
            self.check_shared_read(b, w, s, &source, bytes, Strength::Weak);
            self.check_proxy_fence(b, w, s, (stretch.shared, bytes));
        }
        let mut pieces = Vec::new();
        for piece in &stretch.pieces {
            let Some(inside) = &piece.global else {
                continue;
            };
            let (from, n) = (
                (piece.shared + inside.bytes.start) as usize,
                inside.bytes.len(),
            );
            let mut data = [0; PIECE as usize];
            data[..n].copy_from_slice(&b.shared[from..from + n]);
            let origin = if CHECKS {
                b.undefined_in_shared(from, n, s.pc)
            } else {
                None
            };
            let missing = |k| b.shared_known.missing(from + k, 1).is_some();
            pieces.push(PieceWrite {
                to: inside.at,
                bytes: n as u32,
                data,
                undefined: origin.map(|origin| (missing_of(n as u32, missing), origin)),
            });
        }
        let read = BulkRead::begin(b, (lane as u32, s.pc), (stretch.shared, bytes));
        w.bulk_reads.add(read);
        let write = BulkWrite {
            lane: lane as u32,
            instruction: s.pc,
            pieces,
            reduction,
        };
        if CHECKS {
            self.watch_bulk_write(b, w, &write);
        }
        w.bulk_writes.add(write);
    }

    /// Tells of a stretch of shared memory that the async proxy reads and may not see as threads wrote it.
    pub fn check_proxy_fence(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        (shared, bytes): (u32, u32),
    ) {
        if is_off(Observer::SharedRaces, s.pc) {
            return;
        }
        let program = self.program;
        let seen = |instruction: u32, warp: u32, epoch: u32| {
            let proxy = program.proxies.get(instruction as usize);
            proxy.is_some_and(|proxy| *proxy != Proxy::Generic) || epoch <= b.proxied[warp as usize]
        };
        let shadow = b.shadow.as_ref();
        let unseen = shadow.and_then(|shadow| shadow.unseen_write((shared, bytes), seen));
        let Some((write, thread)) = unseen else {
            return;
        };
        let at = At::lane(b, w, s.pc, s.mask.trailing_zeros()).address(u64::from(shared));
        self.find(FindingKind::SharedRace, at, Some(Other::by(write, thread)), |m| {
            format!(
                "no fence.proxy.async orders this {}, which reads shared memory, and the write at {} by \
                 thread {:?}",
                m.name_of(s.pc),
                m.place(write),
                m.thread(thread)
            )
        });
    }

    /// As a write by its thread, at this moment, or as relaxed updates of the device (PTX ISA,
    /// "cp.reduce.async.bulk").
    fn watch_bulk_write(&mut self, b: &BlockState, w: &Warp, write: &BulkWrite) {
        let s = Site {
            pc: write.instruction,
            mask: 1 << write.lane,
        };
        for piece in &write.pieces {
            let ((i, at), lane) = (piece.to, write.lane as usize);
            let scoped = match write.reduction {
                None => Scoped::WEAK,
                Some(_) => Scoped {
                    strength: Strength::Atomic,
                    ..Scoped::WEAK
                },
            };
            self.watch_lane(b, w, s, (i, at, lane), piece.bytes, true, scoped);
        }
    }

    /// Tells of lanes that write what a copy may still read.
    pub fn sources_under_way(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
    ) {
        if b.being_read.is_empty() || is_off(Observer::Copies, s.pc) {
            return;
        }
        for l in lanes(s.mask) {
            if let Some(copy) = b.being_read.to(a[l] as usize, bytes as usize) {
                let at = At::lane(b, w, s.pc, l as u32).address(a[l]);
                self.find(
                    FindingKind::AsyncBeforeWait,
                    at,
                    Some(Other::instruction(copy)),
                    |m| {
                        let copy = m.copy_at(copy);
                        format!(
                            "shared memory {:#x} is written while {copy} may still read it",
                            a[l]
                        )
                    },
                );
            }
        }
    }

    /// Completes, for each lane, all but its last `keep` groups, or what they read.
    pub fn bulk_wait<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        (keep, reads_only): (u32, bool),
        mask: u32,
    ) {
        for read in w.bulk_reads.take_older(keep, mask) {
            read.end(b, w.index);
        }
        if !reads_only {
            for write in w.bulk_writes.take_older(keep, mask) {
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
        for read in w.bulk_reads.take(s.mask) {
            if CHECKS && !is_off(Observer::Copies, read.instruction) {
                let at = At::lane(b, w, s.pc, read.lane).address(u64::from(read.from));
                self.find(
                    FindingKind::AsyncBeforeWait,
                    at,
                    Some(Other::instruction(read.instruction)),
                    |m| {
                        let copy = m.copy_at(read.instruction);
                        format!(
                            "the thread ends while {copy} may still read shared memory {:#x}",
                            read.from
                        )
                    },
                );
            }
            read.end(b, w.index);
        }
        for write in w.bulk_writes.take(s.mask) {
            self.bulk_lands::<CHECKS>(b, w, write);
        }
    }

    fn bulk_lands<const CHECKS: bool>(&mut self, b: &BlockState, w: &Warp, write: BulkWrite) {
        if CHECKS {
            self.watch_bulk_write(b, w, &write);
        }
        self.progress += 1;
        let s = Site {
            pc: write.instruction,
            mask: 1 << write.lane,
        };
        for mut piece in write.pieces {
            let ((i, at), n) = (piece.to, piece.bytes as usize);
            if let Some(reduction) = write.reduction {
                if CHECKS && let Some(origin) = self.undefined_in_global((i, at), piece.bytes, s.pc)
                {
                    let by = At::lane(b, w, s.pc, write.lane);
                    self.depends(by, origin, "the result of this");
                }
                piece.combine(&self.memory.at(i).data[at..at + n], reduction);
            }
            let allocation = self.memory.at_mut(i);
            allocation.data[at..at + n].copy_from_slice(&piece.data[..n]);
            allocation.cover(at, n);
            if let Some(what) = piece.undefined {
                self.leave_undefined(b, w, s, (i, at, write.lane as usize), what);
            }
        }
    }

    /// Reports copies to shared memory that are still on their way when their block ends: no thread is left to wait.
    pub fn tell_unawaited_copies(&mut self, b: &BlockState) {
        for d in b
            .deliveries
            .iter()
            .filter(|d| d.bytes.is_some() && d.from.is_none())
        {
            let Some(copy) = d.copies.first() else {
                continue;
            };
            if is_off(Observer::Copies, copy.instruction) {
                continue;
            }
            let at = At::thread(b.id, d.warp * LANES as u32 + d.lane, copy.instruction);
            let at = at.address(u64::from(copy.to));
            self.find(FindingKind::AsyncBeforeWait, at, None, |m| {
                let to = copy.to;
                let name = m.name_of(copy.instruction);
                format!("the block ends before anybody has waited for the {name} to shared memory {to:#x}")
            });
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
