//! cp.async and its groups (PTX ISA 9.7.9.25). Several copies may be under way to one place, and each has to
//! be waited for: there is no order between them (9.7.9.25.3.1).

use super::access::address::{Site, addresses};
use super::access::transfer::word;
use super::access::{Counting, LaneAccess, Target};
use super::atomics::combine;
use super::observe::cost::whole_sectors;
use super::state::*;
use crate::check::race::Who;
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;
use std::collections::VecDeque;

impl Machine<'_> {
    /// Reads now, arrives at the wait: a kernel that reads too early sees the old bytes.
    pub fn cp_async<const CHECKS: bool>(
        &mut self,
        b: &mut BlockState,
        w: &mut Warp,
        to: &Access,
        from: &Access,
        bytes: u32,
        size: u32,
        s: Site,
    ) -> Run<()> {
        let target = addresses(&w.regs, to.address, to.offset);
        let source = addresses(&w.regs, from.address, from.offset);
        let sizes = w.regs.r32[size as usize].0;
        let write = LaneAccess::new(s, &target, bytes, Direction::Write).counted(Counting::Lanes);
        self.aligned(s, (AddressSpace::Shared, &target), bytes)?;
        self.in_window(&write, b.shared.len(), AddressSpace::Shared)?;
        let reading = lanes(s.mask).filter(|l| sizes[*l] != 0);
        let reading = reading.fold(0, |all, l| all | 1 << l);
        let read = LaneAccess::new(Site { mask: reading, ..s }, &source, bytes, Direction::Read);
        self.count_shared(&write);
        if reading != 0 {
            self.aligned(read.site, (AddressSpace::Global, &source), bytes)?;
            self.count_global(&read);
            let whole = lanes(reading).all(|l| sizes[l] == bytes)
                && (bytes < 16 || whole_sectors(&target, &source, reading));
            if let Some(cost) = self.cost(s.pc) {
                cost.requests -= 1;
                cost.split_copies += u64::from(!whole);
            }
        }
        let mut data = [[0; 32]; LANES];
        let mut undefined = [None; LANES];
        let mut together = None;
        if lanes(s.mask).all(|l| sizes[l] == bytes) {
            together = self.in_one(&read);
        }
        let mut rest = s.mask;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            let wanted = sizes[lane];
            let (i, at, mask) = match together.take() {
                Some((i, at)) => (i, at, rest),
                None if wanted > bytes => {
                    let what = format!("cp.async of {wanted} of {bytes} bytes");
                    return s
                        .only(lane)
                        .refuse_at(FaultKind::Undefined, source[lane], what);
                }
                None if wanted == 0 => {
                    rest &= rest - 1;
                    continue;
                }
                None => {
                    let read = LaneAccess {
                        bytes: wanted,
                        ..read
                    };
                    let (i, at) = self.locate(&read, lane)?;
                    (i, [at as u64; LANES], 1 << lane)
                }
            };
            rest &= !mask;
            let read = LaneAccess::new(Site { mask, ..s }, &at, wanted, Direction::Read);
            let seen = self.observe_global::<CHECKS>(b, w, i, &read);
            for l in lanes(mask) {
                let (at, n) = (at[l] as usize, wanted as usize);
                let held = &self.memory.at(i).content.bytes(seen)[at..at + n];
                data[l][..n].copy_from_slice(held);
                if CHECKS {
                    undefined[l] = self.missing(b, Target::Global(i), (at, wanted), s.pc);
                }
            }
        }
        // The write may happen from here on: what others still read, and what another copy still
        // writes, is in danger now.
        let write = LaneAccess {
            values: Some(&data),
            lowest: if CHECKS {
                self.arranged(&w.regs, to, s)
            } else {
                None
            },
            counting: Counting::Apart,
            ..write
        };
        let seen = self.observe_shared::<CHECKS>(b, w, None, &write);
        for l in lanes(s.mask) {
            b.under_way.begin_write(target[l] as u32, bytes, s.pc);
            let copy = CopyOp {
                lane: l as u32,
                undefined: undefined[l],
                seen,
                to: target[l] as u32,
                bytes,
                data: std::array::from_fn(|n| data[l][n]),
                instruction: s.pc,
            };
            w.copies.add(l as u32, copy);
        }
        Ok(())
    }

    /// Completes, for each lane, all but its last `keep` groups.
    pub fn cp_wait(&mut self, b: &mut BlockState, w: &mut Warp, keep: u32, mask: u32) {
        // Copies that report to an mbarrier come in, too. Too many arrivals are reported where warps wait at it.
        let warp = w.index;
        let _ = self.deliver(b, |d| {
            d.bytes.is_none() && d.warp == warp && mask >> d.lane & 1 == 1
        });
        for copy in w.copies.take_older(keep, mask) {
            b.land(w.index, &copy);
        }
    }
}

/// Copies that lanes have under way and wait for by groups.
pub struct Groups<T> {
    /// The lane of each, and what it asked for.
    open: Vec<(u32, T)>,
    /// Committed, oldest first: the lanes that committed, and what they had open.
    committed: VecDeque<(u32, Vec<(u32, T)>)>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups {
            open: Vec::new(),
            committed: VecDeque::new(),
        }
    }
}

impl<T> Groups<T> {
    pub fn add(&mut self, lane: u32, one: T) {
        self.open.push((lane, one));
    }

    fn take_of(all: &mut Vec<(u32, T)>, mask: u32) -> Vec<(u32, T)> {
        let (mine, rest) = all.drain(..).partition(|(lane, _)| mask >> lane & 1 == 1);
        *all = rest;
        mine
    }

    pub fn commit(&mut self, mask: u32) {
        let mine = Self::take_of(&mut self.open, mask);
        self.committed.push_back((mask, mine));
    }

    /// All but the last `keep` groups of each lane, oldest first.
    pub fn take_older(&mut self, keep: u32, mask: u32) -> Vec<T> {
        let mut newer = [0_u32; LANES];
        let mut taken = Vec::new();
        for (lanes_of, group) in self.committed.iter_mut().rev() {
            let mut done = 0;
            for l in lanes(*lanes_of & mask) {
                done |= u32::from(newer[l] >= keep) << l;
                newer[l] += 1;
            }
            *lanes_of &= !done;
            taken.push(Self::take_of(group, done));
        }
        self.committed
            .retain(|(lanes, group)| *lanes != 0 || !group.is_empty());
        let taken = taken.into_iter().rev().flatten();
        taken.map(|(_, one)| one).collect()
    }

    /// All that lanes have under way, oldest first.
    pub fn take(&mut self, mask: u32) -> Vec<T> {
        let mut all = Vec::new();
        let groups = self.committed.iter_mut().map(|(_, group)| group);
        for group in groups.chain([&mut self.open]) {
            let mine = Self::take_of(group, mask).into_iter();
            all.extend(mine.map(|(_, one)| one));
        }
        all
    }
}

impl BlockState {
    /// The bytes of a copy arrive.
    pub fn place_copy(&mut self, copy: &CopyOp) {
        let (at, n) = (copy.to as usize, copy.bytes as usize);
        self.shared.bytes_mut(copy.seen)[at..at + n].copy_from_slice(&copy.data[..n]);
        self.shared.mark(at, n);
        if let Some(missing) = copy.undefined {
            self.shared.leave(at, missing);
        }
        self.under_way.end_write(copy.to, copy.bytes);
    }

    /// The operand of a reduction arrives.
    pub fn reduce(&mut self, copy: &CopyOp, (op, width): (AtomOp, u32)) {
        let (at, n) = (copy.to as usize, width as usize);
        let operands = copy.data[..copy.bytes as usize].chunks_exact(n);
        let bytes = self.shared.bytes_mut(copy.seen);
        let places = bytes[at..at + copy.bytes as usize].chunks_exact_mut(n);
        for (place, operand) in places.zip(operands) {
            let new = combine(op, width, word(place, width), word(operand, width));
            place.copy_from_slice(&new.to_le_bytes()[..n]);
        }
    }

    /// A copy by a lane of the warp arrives.
    pub fn land(&mut self, warp: u32, copy: &CopyOp) {
        self.place_copy(copy);
        if let Some(shadow) = &mut self.shadow {
            // It arrives now, in the copying thread's name. Races were reported at the start.
            let who = Who::new(warp, copy.lane, copy.instruction);
            shadow.note_write(copy.to, copy.bytes, who);
        }
    }
}
