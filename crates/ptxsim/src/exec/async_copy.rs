//! cp.async and its groups (PTX ISA 9.7.9.25). Several copies may be under way to one place, and each has to
//! be waited for: there is no order between them (9.7.9.25.3.1).

use super::address::{Addresses, Site, addresses};
use super::atomics::combine;
use super::cost::{Way, whole_sectors};
use super::mem::word;
use super::state::*;
use crate::check::global::Scoped;
use crate::check::race::{Strength, Who};
use crate::isa::*;
use crate::regs::{LANES, lanes};
use crate::report::*;
use crate::switch::{Observer, is_off};
use std::collections::VecDeque;
use std::ops::Range;

/// Names that messages have for asynchronous instructions. A longer name comes before its beginning.
const NAMES: [&str; 10] = [
    "cp.reduce.async.bulk.tensor",
    "cp.reduce.async.bulk",
    "cp.async.bulk.prefetch",
    "cp.async.bulk.tensor",
    "cp.async.bulk",
    "tensormap.replace",
    "tensormap.cp_fenceproxy",
    "wgmma.mma_async",
    "st.async",
    "red.async",
];

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
        self.aligned(b, w, s, (AddressSpace::Shared, &target), bytes)?;
        self.in_window(
            b,
            w,
            s,
            &target,
            bytes,
            b.shared.len(),
            AddressSpace::Shared,
        )?;
        self.count_shared(s, &target, bytes, Way::Store);
        let mut reading = 0;
        for l in lanes(s.mask) {
            reading |= u32::from(w.regs.r32[size as usize].0[l] != 0) << l;
        }
        if reading != 0 {
            let s = Site { mask: reading, ..s };
            self.aligned(b, w, s, (AddressSpace::Global, &source), bytes)?;
            self.count_global(s, &source, bytes);
            let cost = &mut self.costs[s.pc as usize];
            cost.requests -= u64::from(!is_off(Observer::Cost, s.pc));
            let sizes = &w.regs.r32[size as usize].0;
            let whole = lanes(reading).all(|l| sizes[l] == bytes)
                && (bytes < 16 || whole_sectors(&target, &source, reading));
            cost.split_copies += u64::from(!whole);
        }
        let mut data = [[0; 16]; LANES];
        let mut undefined = [None; LANES];
        let at_once = self.copied_at_once::<CHECKS>(w, &source, (bytes, size), s);
        if let Some((i, at)) = &at_once {
            if CHECKS {
                self.watch_reads(b, w, s, (*i, at), bytes);
            }
            let from = &self.memory.at(*i).data;
            for l in lanes(s.mask) {
                let some = &from[at[l] as usize..][..bytes as usize];
                data[l][..bytes as usize].copy_from_slice(some);
            }
        }
        for l in lanes(if at_once.is_some() { 0 } else { s.mask }) {
            let wanted = w.regs.r32[size as usize].0[l];
            if wanted > bytes {
                return self.fault(
                    FaultKind::Undefined,
                    At::lane(b, w, s.pc, l as u32).address(source[l]),
                    &format!("cp.async of {wanted} of {bytes} bytes"),
                );
            }
            if wanted > 0 {
                let (i, at) = self.locate(b, w, s, (l, source[l]), wanted, false)?;
                let from = &self.memory.at(i).data[at..at + wanted as usize];
                data[l][..wanted as usize].copy_from_slice(from);
                if CHECKS {
                    self.watch_lane(b, w, s, (i, at, l), wanted, false, Scoped::WEAK);
                    undefined[l] = self
                        .undefined_in_global((i, at), wanted, s.pc)
                        .map(|origin| {
                            let missing =
                                |n: &u32| self.memory.at(i).missing(at + *n as usize, 1).is_some();
                            let bytes = (0..wanted)
                                .filter(missing)
                                .fold(0, |all, n| all | 1_u32 << n);
                            (bytes, origin)
                        });
                }
            }
        }
        if CHECKS {
            // The write may happen from here on: what others still read, and what another copy still
            // writes, is in danger now.
            self.copies_under_way(b, w, s, &target, bytes, |m, at, earlier| {
                format!(
                    "shared memory {at:#x} is overwritten by this cp.async while the one from {} is still in flight",
                    m.place(earlier)
                )
            });
            self.sources_under_way(b, w, s, &target, bytes);
            if !self.steady_race(b, w, to, s) {
                self.race_on_shared(b, w, s, &target, bytes, Strength::Weak, &data);
            }
        }
        for l in lanes(s.mask) {
            b.in_flight.begin(target[l] as u32, bytes, s.pc);
            w.copies.add(CopyOp {
                lane: l as u32,
                undefined: undefined[l],
                to: target[l] as u32,
                bytes,
                data: data[l],
                instruction: s.pc,
            });
        }
        Ok(())
    }

    /// Where all lanes copy so many bytes from one allocation, which all have values: its number, and offsets in it.
    fn copied_at_once<const CHECKS: bool>(
        &mut self,
        w: &Warp,
        source: &Addresses,
        (bytes, size): (u32, u32),
        s: Site,
    ) -> Option<(usize, Addresses)> {
        let sizes = &w.regs.r32[size as usize].0;
        if lanes(s.mask).any(|l| sizes[l] != bytes) {
            return None;
        }
        let (i, at) = self.in_one(source, s, bytes, false)?;
        let from = self.memory.at(i);
        let known = |l: usize| from.holds(at[l] as usize, bytes as usize);
        (!CHECKS || from.all_known() || lanes(s.mask).all(known)).then_some((i, at))
    }

    /// Tells of lanes that access what a copy is still writing; `what` says it of an address and a copy.
    pub fn copies_under_way(
        &mut self,
        b: &BlockState,
        w: &Warp,
        s: Site,
        a: &Addresses,
        bytes: u32,
        what: impl Fn(&Self, u64, u32) -> String,
    ) {
        if b.in_flight.is_empty() || is_off(Observer::Copies, s.pc) {
            return;
        }
        for l in lanes(s.mask) {
            if let Some(copy) = b.in_flight.to(a[l] as usize, bytes as usize) {
                self.find(
                    FindingKind::AsyncBeforeWait,
                    At::lane(b, w, s.pc, l as u32).address(a[l]),
                    Some(Other::instruction(copy)),
                    |m| what(m, a[l], copy),
                );
            }
        }
    }

    /// A copy as messages name it.
    pub fn copy_at(&self, instruction: u32) -> String {
        let name = self.name_of(instruction);
        format!("{name} from {}", self.place(instruction))
    }

    /// Returns the name of what works asynchronously.
    pub fn name_of(&self, instruction: u32) -> &'static str {
        let inst = self.program.code.get(instruction as usize);
        let form = inst.map_or("", |inst| self.program.form(inst));
        NAMES
            .into_iter()
            .find(|name| form.starts_with(name))
            .unwrap_or("cp.async")
    }

    /// Completes, for each lane, all but its last `keep` groups.
    pub fn cp_wait(&mut self, b: &mut BlockState, w: &mut Warp, keep: u32, mask: u32) {
        for copy in w.copies.take_older(keep, mask) {
            b.land(w.index, &copy);
        }
    }
}

/// Something that one lane asked for.
pub trait OfLane {
    fn lane(&self) -> u32;
}

impl OfLane for CopyOp {
    fn lane(&self) -> u32 {
        self.lane
    }
}

/// Copies that lanes have under way and wait for by groups.
pub struct Groups<T> {
    open: Vec<T>,
    /// Committed, oldest first: the lanes that committed, and what they had open.
    committed: VecDeque<(u32, Vec<T>)>,
}

impl<T> Default for Groups<T> {
    fn default() -> Self {
        Groups {
            open: Vec::new(),
            committed: VecDeque::new(),
        }
    }
}

impl<T: OfLane> Groups<T> {
    pub fn add(&mut self, one: T) {
        self.open.push(one);
    }

    fn take_of(all: &mut Vec<T>, mask: u32) -> Vec<T> {
        let (mine, rest) = all.drain(..).partition(|c| mask >> c.lane() & 1 == 1);
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
        taken.into_iter().rev().flatten().collect()
    }

    /// All that lanes have under way, oldest first.
    pub fn take(&mut self, mask: u32) -> Vec<T> {
        let mut all = Vec::new();
        let groups = self.committed.iter_mut().map(|(_, group)| group);
        for group in groups.chain([&mut self.open]) {
            all.extend(Self::take_of(group, mask));
        }
        all
    }
}

/// Copies under way to each 4-byte word of shared memory.
#[derive(Default)]
pub struct InFlight {
    /// Up to the last one that a copy went to.
    words: Vec<Pending>,
    /// Words with at least one.
    busy: u32,
}

#[derive(Clone, Copy, Default)]
struct Pending {
    copies: u32,
    /// The instruction of the copy that began last.
    instruction: u32,
}

impl InFlight {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.busy == 0
    }

    fn words(at: usize, bytes: usize) -> Range<usize> {
        at / 4..(at + bytes).div_ceil(4)
    }

    pub fn begin(&mut self, at: u32, bytes: u32, instruction: u32) {
        let words = Self::words(at as usize, bytes as usize);
        if self.words.len() < words.end {
            self.words.resize(words.end, Pending::default());
        }
        for word in &mut self.words[words] {
            self.busy += u32::from(word.copies == 0);
            word.copies += 1;
            word.instruction = instruction;
        }
    }

    pub fn end(&mut self, at: u32, bytes: u32) {
        for word in &mut self.words[Self::words(at as usize, bytes as usize)] {
            word.copies -= 1;
            self.busy -= u32::from(word.copies == 0);
        }
    }

    /// The instruction of a copy that is still writing to one of these bytes.
    #[inline(always)]
    pub fn to(&self, at: usize, bytes: usize) -> Option<u32> {
        let Range { start, end } = Self::words(at, bytes);
        let words = self.words.get(start..end.min(self.words.len()))?;
        let busy = words.iter().find(|word| word.copies > 0);
        busy.map(|word| word.instruction)
    }
}

impl BlockState {
    /// The bytes of a copy arrive.
    pub fn place_copy(&mut self, copy: &CopyOp) {
        let at = copy.to as usize;
        self.shared[at..at + copy.bytes as usize]
            .copy_from_slice(&copy.data[..copy.bytes as usize]);
        self.shared_known.set(at, copy.bytes as usize);
        if let Some(what) = copy.undefined {
            self.leave_undefined_in_shared(at, what);
        }
        self.in_flight.end(copy.to, copy.bytes);
    }

    /// The operand of a reduction arrives.
    pub fn reduce(&mut self, copy: &CopyOp, (op, width): (AtomOp, u32)) {
        let (at, n) = (copy.to as usize, width as usize);
        let operands = copy.data[..copy.bytes as usize].chunks_exact(n);
        let places = self.shared[at..at + copy.bytes as usize].chunks_exact_mut(n);
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
            let who = Who {
                warp,
                lane: copy.lane,
                instruction: copy.instruction,
            };
            shadow.note_write(copy.to, copy.bytes, who);
        }
    }
}
