//! cp.async and its groups (PTX ISA 9.7.9.25).

use super::address::{Site, addresses, lanes};
use super::cost::{Way, whole_sectors};
use super::regs::LANES;
use super::state::*;
use crate::check::race::{Strength, Who};
use crate::program::*;
use crate::report::*;

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
        self.aligned(b, w, s, &target, bytes)?;
        self.in_window(b, w, s, &target, bytes, b.shared.len(), "shared")?;
        self.count_shared(s, &target, bytes, Way::Store);
        let mut reading = 0;
        for l in lanes(s.mask) {
            reading |= u32::from(w.regs.r32[size as usize].0[l] != 0) << l;
        }
        if reading != 0 {
            let s = Site { mask: reading, ..s };
            self.aligned(b, w, s, &source, bytes)?;
            self.count_global(s, &source, bytes);
            let cost = &mut self.costs[s.pc as usize];
            cost.requests -= 1;
            let sizes = &w.regs.r32[size as usize].0;
            let whole = lanes(reading).all(|l| sizes[l] == bytes)
                && (bytes < 16 || whole_sectors(&target, &source, reading));
            cost.split_copies += u64::from(!whole);
        }
        for l in lanes(s.mask) {
            let wanted = w.regs.r32[size as usize].0[l];
            if wanted > bytes {
                return self.fault(
                    FaultKind::Undefined,
                    At::lane(b, w, s.pc, l as u32).address(source[l]),
                    &format!("cp.async of {wanted} of {bytes} bytes"),
                );
            }
            let mut data = [0; 16];
            if wanted > 0 {
                let (i, at) = self.locate(b, w, s, (l, source[l]), wanted, false)?;
                let from = &self.memory.at(i).data[at..at + wanted as usize];
                data[..wanted as usize].copy_from_slice(from);
                if CHECKS {
                    self.watch_lane(b, w, s, (i, at, l), wanted, false, Strength::Weak);
                    self.known(b, w, s, l, (i, at), wanted, "cp.async of");
                }
            }
            let words = target[l] as usize / 4..(target[l] as usize + bytes as usize).div_ceil(4);
            for word in &mut b.in_flight[words] {
                b.words_in_flight += u32::from(*word == 0);
                *word = s.pc + 1;
            }
            w.copies.open.push(CopyOp {
                lane: l as u32,
                to: target[l] as u32,
                bytes,
                data,
                instruction: s.pc,
            });
        }
        if CHECKS && let Some(mut shadow) = b.shadow.take() {
            // The write may happen from here on: what others still read is in danger now.
            for l in lanes(s.mask) {
                let who = Who {
                    warp: w.index,
                    lane: l as u32,
                    instruction: s.pc,
                };
                if let Some(past) = shadow.write(target[l] as u32, bytes, who, Strength::Weak) {
                    self.race(
                        At::lane(b, w, s.pc, l as u32).address(target[l]),
                        true,
                        past,
                    );
                }
            }
            b.shadow = Some(shadow);
        }
        Ok(())
    }

    pub fn cp_commit(&mut self, w: &mut Warp, mask: u32) {
        let copies = &mut w.copies;
        let (mine, rest): (Vec<_>, Vec<_>) =
            copies.open.drain(..).partition(|c| mask >> c.lane & 1 == 1);
        copies.open = rest;
        copies.groups.push_back((mask, mine));
    }

    /// Completes, for each lane, all but its last `keep` groups.
    pub fn cp_wait(&mut self, b: &mut BlockState, w: &mut Warp, keep: u32, mask: u32) {
        let mut newer = [0_u32; LANES];
        let mut arrived = Vec::new();
        for (lanes_of, copies) in w.copies.groups.iter_mut().rev() {
            let mut done = 0;
            for l in lanes(*lanes_of & mask) {
                done |= u32::from(newer[l] >= keep) << l;
                newer[l] += 1;
            }
            *lanes_of &= !done;
            let (now, later): (Vec<_>, Vec<_>) =
                copies.drain(..).partition(|c| done >> c.lane & 1 == 1);
            *copies = later;
            arrived.push(now);
        }
        w.copies
            .groups
            .retain(|(lanes, copies)| *lanes != 0 || !copies.is_empty());
        for copy in arrived.into_iter().rev().flatten() {
            b.land(w.index, &copy);
        }
    }
}

impl BlockState {
    /// A copy by a lane of the warp arrives.
    pub fn land(&mut self, warp: u32, copy: &CopyOp) {
        let at = copy.to as usize;
        self.shared[at..at + copy.bytes as usize]
            .copy_from_slice(&copy.data[..copy.bytes as usize]);
        self.shared_known.set(at, copy.bytes as usize);
        for word in &mut self.in_flight[at / 4..(at + copy.bytes as usize).div_ceil(4)] {
            self.words_in_flight -= u32::from(*word != 0);
            *word = 0;
        }
        if let Some(shadow) = &mut self.shadow {
            // It arrives now, in the copying thread's name. What raced was told at the start.
            let who = Who {
                warp,
                lane: copy.lane,
                instruction: copy.instruction,
            };
            shadow.write(copy.to, copy.bytes, who, Strength::Weak);
        }
    }
}

impl Copies {
    /// All that a lane has under way, oldest first.
    pub fn take(&mut self, lane: u32) -> Vec<CopyOp> {
        let mut all = Vec::new();
        let groups = self.groups.iter_mut().map(|(_, copies)| copies);
        for copies in groups.chain([&mut self.open]) {
            let (mine, rest): (Vec<_>, Vec<_>) = copies.drain(..).partition(|c| c.lane == lane);
            *copies = rest;
            all.extend(mine);
        }
        all
    }
}
