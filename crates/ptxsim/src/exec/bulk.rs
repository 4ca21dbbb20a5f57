//! Bulk copies between shared and global memory (PTX ISA 9.7.9.25.4). Each belongs to one thread.
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

use super::address::{Site, addresses};
use super::async_copy::OfLane;
use super::cost::Passes;
use super::mbarrier::Delivery;
use super::mem::missing_of;
use super::state::*;
use super::undefined::Origin;
use crate::check::global::Scoped;
use crate::check::race::{Strength, Who};
use crate::program::*;
use crate::regs::{LANES, lanes};
use crate::report::*;

/// Bytes that a copy moves as one. Sizes and addresses are multiples.
const PIECE: u32 = 16;

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
    /// Allocation and offset.
    to: (usize, usize),
    data: Vec<u8>,
    /// By piece: bytes that hold no value, and where those came from.
    undefined: Vec<(usize, (u32, Origin))>,
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
    fn end(self, b: &mut BlockState, warp: u32) {
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
struct Stretch {
    lane: usize,
    /// In shared memory.
    shared: u32,
    /// Allocation and offset.
    global: (usize, usize),
    bytes: u32,
}

impl Stretch {
    /// Where each piece of it begins, from its start.
    fn pieces(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.bytes as usize).step_by(PIECE as usize)
    }
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
        let shared = addresses(&w.regs, copy.shared.address, copy.shared.offset);
        let global = addresses(&w.regs, copy.global.address, copy.global.offset);
        self.aligned(b, w, s, &shared, PIECE)?;
        self.aligned(b, w, s, &global, PIECE)?;
        let barriers = match &copy.barrier {
            Some(barrier) => {
                let at = addresses(&w.regs, barrier.address, barrier.offset);
                self.at_mbarrier::<CHECKS>(b, w, s, &at)?;
                Some(at)
            }
            None => None,
        };
        let sizes = w.regs.r32[size as usize].0;
        for lane in lanes(s.mask) {
            let s = Site {
                mask: 1 << lane,
                ..s
            };
            let bytes = sizes[lane];
            if !bytes.is_multiple_of(PIECE) {
                let what =
                    format!("cp.async.bulk of {bytes} bytes, which is no multiple of {PIECE}");
                let at = At::lane(b, w, s.pc, lane as u32).address(shared[lane]);
                return self.fault(FaultKind::Undefined, at, &what);
            }
            if bytes == 0 {
                continue;
            }
            self.in_window(b, w, s, &shared, bytes, b.shared.len(), "shared")?;
            let found = self.locate(b, w, s, (lane, global[lane]), bytes, barriers.is_none())?;
            let first = global[lane] / 32;
            let last = (global[lane] + u64::from(bytes) - 1) / 32;
            let passes = Passes {
                taken: last - first + 1,
                ideal: u64::from(bytes.div_ceil(32)),
            };
            self.add_global(s, bytes, passes);
            let stretch = Stretch {
                lane,
                shared: shared[lane] as u32,
                global: found,
                bytes,
            };
            match &barriers {
                Some(barriers) => {
                    self.bulk_to_shared::<CHECKS>(b, w, &stretch, barriers[lane] as u32, s);
                }
                None => self.bulk_to_global::<CHECKS>(b, w, &stretch, s),
            }
        }
        Ok(())
    }

    fn bulk_to_shared<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        stretch: &Stretch,
        barrier: u32,
        s: Site,
    ) {
        let (&Stretch { lane, bytes, .. }, (i, at)) = (stretch, stretch.global);
        let target = [u64::from(stretch.shared); LANES];
        if CHECKS {
            self.copies_under_way(b, w, s, &target, bytes, |m, at, earlier| {
                let earlier = m.copy_at(earlier);
                format!(
                    "shared memory {at:#x} is overwritten by this cp.async.bulk while {earlier} is still in flight"
                )
            });
            self.sources_under_way(b, w, s, &target, bytes);
            self.race_on_shared(b, w, s, &target, bytes, Strength::Weak, &[[]; LANES]);
        }
        let mut copies = Vec::with_capacity((bytes / PIECE) as usize);
        for n in stretch.pieces() {
            let mut data = [0; PIECE as usize];
            data.copy_from_slice(&self.memory.at(i).data[at + n..][..PIECE as usize]);
            let mut undefined = None;
            if CHECKS {
                self.watch_lane(b, w, s, (i, at + n, lane), PIECE, false, Scoped::WEAK);
                let origin = self.undefined_in_global((i, at + n), PIECE, s.pc);
                undefined = origin.map(|origin| {
                    let allocation = self.memory.at(i);
                    let missing = |k| allocation.missing(at + n + k, 1).is_some();
                    (missing_of(PIECE, missing), origin)
                });
            }
            let to = stretch.shared + n as u32;
            b.in_flight.begin(to, PIECE, s.pc);
            copies.push(CopyOp {
                lane: lane as u32,
                undefined,
                to,
                bytes: PIECE,
                data,
                instruction: s.pc,
            });
        }
        b.deliveries.push(Delivery {
            address: barrier,
            warp: w.index,
            lane: lane as u32,
            copies,
            bytes: Some(bytes),
        });
    }

    fn bulk_to_global<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        stretch: &Stretch,
        s: Site,
    ) {
        let &Stretch { lane, bytes, .. } = stretch;
        let from = stretch.shared as usize;
        let mut undefined = Vec::new();
        if CHECKS {
            let source = [from as u64; LANES];
            self.check_shared_read(b, w, s, &source, bytes, Strength::Weak);
            self.check_proxy_fence(b, w, s, stretch);
            for n in stretch.pieces() {
                if let Some(origin) = b.undefined_in_shared(from + n, PIECE as usize, s.pc) {
                    let missing = |k| b.shared_known.missing(from + n + k, 1).is_some();
                    undefined.push((n, (missing_of(PIECE, missing), origin)));
                }
            }
        }
        b.being_read.begin(stretch.shared, bytes, s.pc);
        w.bulk_reads.add(BulkRead {
            lane: lane as u32,
            instruction: s.pc,
            from: stretch.shared,
            bytes,
        });
        let write = BulkWrite {
            lane: lane as u32,
            instruction: s.pc,
            to: stretch.global,
            data: b.shared[from..from + bytes as usize].to_vec(),
            undefined,
        };
        if CHECKS {
            self.watch_bulk_write(b, w, &write);
        }
        w.bulk_writes.add(write);
    }

    fn check_proxy_fence(&mut self, b: &BlockState, w: &Warp, s: Site, stretch: &Stretch) {
        let program = self.program;
        let by_copy = |at: u32| {
            matches!(
                program.code.get(at as usize).map(|i| &i.op),
                Some(Op::Bulk(_))
            )
        };
        let seen = |instruction: u32, warp: u32, epoch: u32| {
            by_copy(instruction) || epoch <= b.proxied[warp as usize]
        };
        let shadow = b.shadow.as_ref();
        let unseen = shadow.and_then(|it| it.unseen_write((stretch.shared, stretch.bytes), seen));
        let Some((write, thread)) = unseen else {
            return;
        };
        let at = At::lane(b, w, s.pc, stretch.lane as u32).address(u64::from(stretch.shared));
        self.find(FindingKind::SharedRace, at, Some(Other::by(write, thread)), |m| {
            format!(
                "no fence.proxy.async orders this cp.async.bulk, which reads shared memory, and the write at {} by \
                 thread {:?}",
                m.place(write),
                m.thread(thread)
            )
        });
    }

    /// As a write by its thread, at this moment.
    fn watch_bulk_write(&mut self, b: &BlockState, w: &Warp, write: &BulkWrite) {
        let s = Site {
            pc: write.instruction,
            mask: 1 << write.lane,
        };
        let ((i, at), lane) = (write.to, write.lane as usize);
        for n in (0..write.data.len()).step_by(PIECE as usize) {
            self.watch_lane(b, w, s, (i, at + n, lane), PIECE, true, Scoped::WEAK);
        }
    }

    /// Tells of lanes that write what a copy may still read.
    pub fn sources_under_way(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        a: &super::address::Addresses,
        bytes: u32,
    ) {
        if b.being_read.is_empty() {
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
            if CHECKS {
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
        let (i, at) = write.to;
        let allocation = self.memory.at_mut(i);
        allocation.data[at..at + write.data.len()].copy_from_slice(&write.data);
        allocation.cover(at, write.data.len());
        let s = Site {
            pc: write.instruction,
            mask: 1 << write.lane,
        };
        for (n, what) in write.undefined {
            self.leave_undefined(b, w, s, (i, at + n, write.lane as usize), what);
        }
    }

    /// Reports copies to shared memory that are still on their way when their block ends: no thread is left to wait.
    pub fn tell_unawaited_copies(&mut self, b: &BlockState) {
        for d in b.deliveries.iter().filter(|d| d.bytes.is_some()) {
            let Some(copy) = d.copies.first() else {
                continue;
            };
            let at = At::thread(b.id, d.warp * LANES as u32 + d.lane, copy.instruction);
            let at = at.address(u64::from(copy.to));
            self.find(FindingKind::AsyncBeforeWait, at, None, |_| {
                let to = copy.to;
                format!("the block ends before anybody has waited for the cp.async.bulk to shared memory {to:#x}")
            });
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
