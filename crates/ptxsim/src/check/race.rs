//! Races in shared memory, by happens-before (vector clocks, after FastTrack: Flanagan and Freund 2009).
//!
//! Two accesses to one place race if at least one of them writes, none is ordered before the other, and their
//! [`Strength`] does not excuse them. Every warp has a clock, its epoch, that ticks at each of its synchronisations,
//! and remembers the last epoch of every other warp that is ordered before its present one. An earlier access is in
//! order if its epoch is among those. Between warps order is known per warp: the edges are barriers and atomics. Within
//! a warp it is known per lane: the edges are `bar.warp.sync` and barriers, and running in step is no edge.
//!
//! Each place remembers its last write and two reads by different warps, one of them the newest. A race against a
//! forgotten read is missed; no race is invented.

use super::cells::*;
use crate::report::{FindingKind, Findings};

pub const WARPS: usize = 32;

/// How much an access is worth as synchronisation (PTX ISA 8.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    #[default]
    Weak,
    Volatile,
    /// An access with `.relaxed`, `.acquire` or `.release`.
    Strong,
    Atomic,
}

impl Strength {
    /// Returns true if two accesses without order do not race, provided that the scope of each includes the other's
    /// thread: they are morally strong (PTX ISA 8.7.1), also between lanes of one warp.
    #[inline(always)]
    pub fn excuses(self, other: Strength) -> bool {
        self.min(other) >= Strength::Volatile
    }

    /// Returns true if a program that makes two such accesses to shared memory, by lanes of one warp, relies on lanes
    /// running in step. Reductions were written this way before `__syncwarp()` existed.
    pub fn counts_on_step(self, other: Strength) -> bool {
        self.min(other) == Strength::Volatile && self.max(other) < Strength::Atomic
    }
}

/// The known facts on an access that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub instruction: u32,
    pub warp: u8,
    pub lane: u8,
    pub was_write: bool,
    /// The lanes of the past access that have no order with the present one.
    pub lanes: u32,
    pub epoch: u32,
    /// True if other instructions of that warp read the place too.
    pub several: bool,
    /// Both are volatile, and of one warp: no race.
    pub is_volatile: bool,
}

#[derive(Clone)]
struct WarpClock {
    /// The known epoch of each warp; at its own place the present epoch.
    knows: [u32; WARPS],
    /// Last own epoch up to which every lane's accesses are ordered before those of all lanes now.
    full: u32,
    /// Last epoch that this warp knows of every other warp: the smallest of their entries in `knows`.
    others: u32,
    /// `lanes[l][m]` is the last epoch that lane l knows of lane m. It is kept only after synchronisations of a part of
    /// the warp.
    lanes: Option<Box<[[u32; 32]; 32]>>,
}

pub struct Shadow {
    /// log2 of the bytes that a cell stands for.
    shift: u32,
    cells: Cells,
    warps: Vec<WarpClock>,
    /// For [`Plain::Told`]: other instructions, and the lanes that race with each.
    pub racing: Vec<(u32, u32)>,
}

/// The result of a quick look at accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Some may race: each access needs a closer look.
    No,
    InOrder,
    /// They race as earlier accesses did whose race has been reported. The caller only counts it.
    Told,
}

#[derive(Clone, Copy)]
pub struct Who {
    pub warp: u32,
    pub lane: u32,
    pub instruction: u32,
}

impl Who {
    pub fn new(warp: u32, lane: u32, instruction: u32) -> Self {
        Self {
            warp,
            lane,
            instruction,
        }
    }
}

/// An instruction that a warp executes, and what is ordered before it.
#[derive(Clone, Copy)]
struct Now {
    warp: u32,
    instruction: u32,
    epoch: u32,
    before: Before,
}

/// The number of other lanes of a warp that a lane has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meets {
    None,
    Some,
    All,
}

/// The epochs that barriers and atomics hand on.
pub type Clock = [u32; WARPS];

impl Shadow {
    /// `granule`: bytes that a cell stands for, a power of two.
    pub fn new(bytes: u32, granule: u32, warps: usize) -> Shadow {
        let clock = |w: usize| {
            let mut knows = [0; WARPS];
            knows[w] = 1;
            WarpClock {
                knows,
                full: 0,
                others: 0,
                lanes: None,
            }
        };
        Shadow {
            shift: granule.trailing_zeros(),
            cells: Cells::new(bytes.div_ceil(granule) as usize),
            warps: (0..warps).map(clock).collect(),
            racing: Vec::new(),
        }
    }

    #[inline(always)]
    fn ordered(clock: &WarpClock, who: Who, warp: u32, lane: u32, epoch: u32) -> bool {
        if warp != who.warp {
            return epoch <= clock.knows[warp as usize % WARPS];
        }
        lane == who.lane
            || epoch <= clock.full
            || clock
                .lanes
                .as_ref()
                .is_some_and(|k| epoch <= k[who.lane as usize % 32][lane as usize % 32])
    }

    /// The lanes of an access that are not ordered before `who`.
    #[inline(always)]
    fn unordered(clock: &WarpClock, who: Who, seen: Seen) -> u32 {
        if seen.epoch == 0 {
            return 0;
        }
        let warp = seen.mark.warp();
        if warp != who.warp {
            let ordered = Self::ordered(clock, who, warp, 0, seen.epoch);
            return if ordered { 0 } else { seen.lanes };
        }
        if seen.epoch <= clock.full {
            return 0;
        }
        let mut unordered = seen.lanes & !(1 << who.lane);
        let mut others = unordered;
        while others != 0 {
            let lane = others.trailing_zeros();
            if Self::ordered(clock, who, warp, lane, seen.epoch) {
                unordered &= !(1 << lane);
            }
            others &= others - 1;
        }
        unordered
    }

    #[inline(always)]
    fn places(&self, offset: u32, bytes: u32) -> std::ops::RangeInclusive<usize> {
        let last = (offset + bytes - 1) >> self.shift;
        (offset >> self.shift) as usize..=last as usize
    }

    /// The present access of `who`, and of `lanes` with it, as it will be remembered.
    #[inline(always)]
    fn present(clock: &WarpClock, who: Who, lanes: u32, strength: Strength) -> Seen {
        Seen {
            epoch: clock.knows[who.warp as usize % WARPS],
            lanes,
            mark: Mark::new(who.instruction, strength, who.warp),
        }
    }

    /// Notes an access, and returns a race with an earlier one. A write is by `lanes`, all that write the same value there
    /// at once, `who` among them. A read is by `who` alone. If there are several races, the last is returned, unless only
    /// an earlier one is `grave`.
    pub fn access<const WRITE: bool>(
        &mut self,
        (offset, bytes): (u32, u32),
        who: Who,
        strength: Strength,
        lanes: u32,
        grave: impl Fn(&Past) -> bool,
    ) -> Option<Past> {
        let mut race: Option<Past> = None;
        let clock = &self.warps[who.warp as usize];
        let present = Self::present(clock, who, lanes, strength);
        for place in self.places(offset, bytes) {
            let written = self.cells.written(place);
            let mut compare = |seen: Seen, was_write: bool| {
                let lanes = Self::unordered(clock, who, seen);
                let (warp, other) = (seen.mark.warp(), seen.mark.strength());
                let is_volatile = warp == who.warp && strength.counts_on_step(other);
                if lanes == 0 || strength.excuses(other) && !is_volatile {
                    return;
                }
                let new = Past {
                    instruction: seen.mark.instruction(),
                    warp: warp as u8,
                    lane: lanes.trailing_zeros() as u8,
                    was_write,
                    lanes,
                    epoch: seen.epoch,
                    several: seen.mark.several(),
                    is_volatile,
                };
                if race.is_none_or(|old| grave(&new) || !grave(&old)) {
                    race = Some(new);
                }
            };
            // Who wrote the same as others reads its own value.
            let is_own = written.mark.warp() == who.warp && written.lanes >> who.lane & 1 == 1;
            if WRITE || !is_own {
                compare(written, true);
            }
            if WRITE {
                for read in self.cells.read(place) {
                    compare(read, false);
                }
                self.cells.note_write(place, present);
            } else {
                self.cells.note_read(place, present);
            }
        }
        race
    }

    /// A weak write by one lane that was checked before: it is remembered from here on.
    pub fn note_write(&mut self, offset: u32, bytes: u32, who: Who) {
        let clock = &self.warps[who.warp as usize];
        let present = Self::present(clock, who, 1 << who.lane, Strength::Weak);
        for place in self.places(offset, bytes) {
            self.cells.note_write(place, present);
        }
    }

    /// Returns true if an access is ordered before what all of `lanes` of the warp do at that place now. Returns false
    /// also if only a closer look can decide.
    fn plainly_before(clock: &WarpClock, me: u32, seen: Seen, lanes: u32) -> bool {
        let warp = seen.mark.warp();
        if warp != me {
            return seen.epoch <= clock.knows[warp as usize % WARPS];
        }
        seen.epoch <= clock.full || seen.lanes == lanes && lanes.is_power_of_two()
    }

    /// Weak accesses by lanes of a warp, as [`Shadow::access`] for each lane; `base`
    /// is the lowest address. [`Plain::No`] where one of them may race in a way that is not `told`: the
    /// same accesses have to go through those, and what was noted here does no harm. For writes, no place
    /// has two lanes.
    #[inline(always)]
    pub fn plainly(
        &mut self,
        base: u32,
        touches: &[Touch],
        (warp, instruction): (u32, u32),
        write: bool,
        told: &Findings,
    ) -> Plain {
        let clock = &self.warps[warp as usize];
        let now = Now {
            warp,
            instruction,
            epoch: clock.knows[warp as usize % WARPS],
            before: Before {
                warp,
                own: clock.full,
                others: clock.others,
            },
        };
        let base = (base >> self.shift) as usize / BLOCK;
        for (at, touch) in touches.iter().enumerate() {
            if some(self.late(base, touch, now, write)) {
                return self.look_closer(base, &touches[at..], now, write, told);
            }
            self.note(base, touch, now, write);
        }
        Plain::InOrder
    }

    /// Places of a touch that may not be in order.
    #[inline(always)]
    fn late(&self, base: usize, touch: &Touch, now: Now, write: bool) -> Row {
        let mut late = self.cells.late_writes(base, touch, now.before);
        if write {
            let reads = self.cells.late_reads(base, touch, now.before);
            for (l, r) in late.iter_mut().zip(reads) {
                *l |= r;
            }
        }
        late
    }

    #[inline(always)]
    fn note(&mut self, base: usize, touch: &Touch, now: Now, write: bool) {
        let mark = Mark::new(now.instruction, Strength::Weak, now.warp);
        if write {
            self.cells.note_writes(base, touch, now.epoch, mark);
        } else {
            self.cells.note_reads(base, touch, now.epoch, mark);
        }
    }

    /// Decides whether the late places of these touches are in order after all, or race in a way that is reported
    /// already. Nothing is noted before that is certain, because describing a race needs the former state of the place.
    #[cold]
    fn look_closer(
        &mut self,
        base: usize,
        touches: &[Touch],
        now: Now,
        write: bool,
        told: &Findings,
    ) -> Plain {
        let mut found = Plain::InOrder;
        let clock = &self.warps[now.warp as usize];
        let is_told = |other| told.knows((FindingKind::SharedRace, now.instruction, other));
        let mut last = None;
        for touch in touches {
            let late = self.late(base, touch, now, write);
            for i in (0..BLOCK).filter(|&i| late[i] != 0) {
                let place = (base + touch.block as usize) * BLOCK + i;
                let read = self.cells.read(place).into_iter().filter(|_| write);
                let seen = std::iter::once((self.cells.written(place), true));
                for (seen, was_write) in seen.chain(read.map(|seen| (seen, false))) {
                    if Self::plainly_before(clock, now.warp, seen, touch.lanes[i]) {
                        continue;
                    }
                    let other = seen.mark.instruction();
                    // The value that the same store left there may be the one that it stores now.
                    let again = write && was_write && other == now.instruction;
                    let within = seen.mark.warp() == now.warp;
                    if again || within || (last != Some(other) && !is_told(other)) {
                        return Plain::No;
                    }
                    last = Some(other);
                    if found == Plain::InOrder {
                        found = Plain::Told;
                        self.racing.clear();
                    }
                    // The last place of a lane counts, as where each is looked at.
                    let mut own = false;
                    for (instruction, lanes) in &mut self.racing {
                        if *instruction == other {
                            (own, *lanes) = (true, *lanes | touch.lanes[i])
                        } else {
                            *lanes &= !touch.lanes[i]
                        }
                    }
                    if !own {
                        self.racing.push((other, touch.lanes[i]));
                    }
                }
            }
        }
        for touch in touches {
            self.note(base, touch, now, write);
        }
        found
    }

    /// log2 of the bytes of a place.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    fn renew_others(&mut self, warp: usize) {
        let count = self.warps.len();
        let clock = &mut self.warps[warp];
        clock.others = clock
            .knows
            .iter()
            .take(count)
            .enumerate()
            .filter(|(w, _)| *w != warp)
            .map(|(_, e)| *e)
            .min()
            .unwrap_or(0);
    }

    /// `members` of a warp meet; `live` are those that have not ended.
    pub fn warp_sync(&mut self, warp: u32, members: u32, live: u32) {
        let w = warp as usize;
        let clock = &mut self.warps[w];
        let epoch = clock.knows[w % WARPS];
        if members & live == live {
            clock.full = epoch;
            clock.lanes = None;
        } else {
            let full = clock.full;
            let lanes = clock
                .lanes
                .get_or_insert_with(|| Box::new([[full; 32]; 32]));
            let mut joined = [0; 32];
            for l in (0..32).filter(|l| members >> l & 1 == 1) {
                for (j, k) in joined.iter_mut().zip(&lanes[l]) {
                    *j = (*j).max(*k);
                }
                joined[l] = epoch;
            }
            for l in (0..32).filter(|l| members >> l & 1 == 1) {
                lanes[l] = joined;
            }
        }
        clock.knows[w % WARPS] = epoch + 1;
    }

    /// The present epoch of a warp.
    #[inline(always)]
    pub fn epoch(&self, warp: u32) -> u32 {
        self.warps[warp as usize].knows[warp as usize % WARPS]
    }

    /// Returns the last epoch that a warp knows of each warp of the block, itself included.
    pub fn knowledge(&self, warp: u32) -> &Clock {
        &self.warps[warp as usize].knows
    }

    /// Returns true if the access of a lane in an epoch of its warp is ordered before what `who` does now.
    #[inline(always)]
    pub fn knows(&self, who: Who, warp: u32, lane: u32, epoch: u32) -> bool {
        Self::ordered(&self.warps[who.warp as usize], who, warp, lane, epoch)
    }

    /// Returns how many of the other lanes of the warp have their accesses of an epoch ordered before what `who` does.
    pub fn meets(&self, who: Who, epoch: u32) -> Meets {
        let clock = &self.warps[who.warp as usize];
        if epoch <= clock.full {
            return Meets::All;
        }
        let Some(lanes) = &clock.lanes else {
            return Meets::None;
        };
        let lane = who.lane as usize % 32;
        let mut others = (0..32).filter(|l| *l != lane);
        let known = others.clone().filter(|&l| epoch <= lanes[lane][l]).count();
        match known {
            0 => Meets::None,
            _ if others.all(|l| epoch <= lanes[lane][l]) => Meets::All,
            _ => Meets::Some,
        }
    }

    /// The first instruction that wrote to one of these bytes and is not `seen`, with its thread: lanes of a
    /// warp, in an epoch.
    pub fn unseen_write(
        &self,
        (offset, bytes): (u32, u32),
        seen: impl Fn(u32, u32, u32) -> bool,
    ) -> Option<(u32, u32)> {
        let written = self.places(offset, bytes).map(|at| self.cells.written(at));
        let mut unseen = written.filter(|seen_cell| {
            seen_cell.epoch > 0
                && !seen(
                    seen_cell.mark.instruction(),
                    seen_cell.mark.warp(),
                    seen_cell.epoch,
                )
        });
        let thread =
            |seen_cell: Seen| seen_cell.mark.warp() * 32 + seen_cell.lanes.trailing_zeros();
        unseen
            .next()
            .map(|cell| (cell.mark.instruction(), thread(cell)))
    }

    pub fn tick(&mut self, warp: u32) {
        self.warps[warp as usize].knows[warp as usize % WARPS] += 1;
    }

    /// Something that came by way of a lock or a flag: all lanes of a warp take it that what the
    /// warp did up to `epoch` is done. More than the ISA promises to those that did not look.
    pub fn lanes_know(&mut self, warp: u32, epoch: u32) {
        let clock = &mut self.warps[warp as usize];
        clock.full = clock.full.max(epoch);
    }

    /// Hands on what a warp has done so far.
    pub fn release(&mut self, warp: u32, to: &mut Clock) {
        let w = warp as usize;
        for (t, k) in to.iter_mut().zip(&self.warps[w].knows) {
            *t = (*t).max(*k);
        }
        self.warps[w].knows[w % WARPS] += 1;
    }

    /// Takes over what others have done; at a barrier the lanes of the warp meet as well.
    pub fn acquire(&mut self, warp: u32, from: &Clock, at_barrier: bool) {
        let w = warp as usize;
        let own = self.warps[w].knows[w % WARPS];
        for (k, f) in self.warps[w].knows.iter_mut().zip(from) {
            *k = (*k).max(*f);
        }
        self.warps[w].knows[w % WARPS] = own;
        if at_barrier {
            self.warps[w].full = own - 1;
            self.warps[w].lanes = None;
        }
        self.renew_others(w);
    }
}

#[cfg(test)]
mod tests {
    use super::Strength::*;
    use super::*;

    fn who(warp: u32, lane: u32) -> Who {
        Who {
            warp,
            lane,
            instruction: 1,
        }
    }

    fn read(s: &mut Shadow, at: u32, who: Who, strength: Strength) -> Option<Past> {
        s.access::<false>((at, 4), who, strength, 1 << who.lane, |_| true)
    }

    fn write(s: &mut Shadow, at: u32, who: Who, strength: Strength) -> Option<Past> {
        s.access::<true>((at, 4), who, strength, 1 << who.lane, |_| true)
    }

    fn barrier(s: &mut Shadow) {
        let mut c = [0; WARPS];
        (0..2).for_each(|w| s.release(w, &mut c));
        (0..2).for_each(|w| s.acquire(w, &c, true));
    }

    #[test]
    fn barriers_order_warps() {
        let mut s = Shadow::new(64, 4, 2);
        assert_eq!(write(&mut s, 0, who(0, 0), Weak), None);
        assert!(read(&mut s, 0, who(1, 0), Weak).is_some_and(|p| p.was_write && p.warp == 0));
        barrier(&mut s);
        assert_eq!(read(&mut s, 0, who(1, 0), Weak), None);
        assert!(write(&mut s, 0, who(0, 5), Weak).is_some_and(|p| !p.was_write && p.warp == 1));
        barrier(&mut s);
        assert_eq!(write(&mut s, 0, who(1, 1), Weak), None);
    }

    #[test]
    fn warp_syncs_order_lanes() {
        let mut s = Shadow::new(64, 4, 1);
        assert_eq!(write(&mut s, 8, who(0, 3), Weak), None);
        assert!(read(&mut s, 8, who(0, 4), Weak).is_some());
        s.warp_sync(0, 0b1_1000, u32::MAX);
        assert_eq!(read(&mut s, 8, who(0, 4), Weak), None);
        assert!(read(&mut s, 8, who(0, 5), Weak).is_some());
        s.warp_sync(0, u32::MAX, u32::MAX);
        assert_eq!(write(&mut s, 8, who(0, 9), Weak), None);
    }

    #[test]
    fn neighbours_within_a_granule_only() {
        let mut s = Shadow::new(64, 2, 2);
        let mut write = |at, warp| s.access::<true>((at, 2), who(warp, 0), Weak, 1, |_| true);
        assert_eq!((write(0, 0), write(2, 1)), (None, None));
        assert!(read(&mut s, 0, who(1, 0), Weak).is_some());
    }

    #[test]
    fn strong_accesses_do_not_race_with_one_another() {
        for (ours, theirs, warp, expected) in [
            (Strong, Strong, 0, None),
            (Strong, Strong, 1, None),
            (Volatile, Volatile, 1, None),
            (Strong, Atomic, 0, None),
            (Volatile, Atomic, 0, None),
            // No race, but order that depends on the lanes' running in step.
            (Volatile, Volatile, 0, Some(true)),
            (Volatile, Strong, 0, Some(true)),
            (Weak, Strong, 0, Some(false)),
            (Weak, Atomic, 0, Some(false)),
            (Strong, Weak, 1, Some(false)),
        ] {
            let mut s = Shadow::new(64, 4, 2);
            assert_eq!(write(&mut s, 0, who(0, 3), ours), None);
            let found = read(&mut s, 0, who(warp, 4), theirs);
            let found = found.map(|past| past.is_volatile);
            assert_eq!(found, expected, "{ours:?} {theirs:?} {warp}");
        }
    }

    #[test]
    fn the_graver_of_two_is_told() {
        for (grave_is_write, expected) in [(true, true), (false, false)] {
            let mut s = Shadow::new(64, 4, 1);
            write(&mut s, 0, who(0, 3), Weak);
            read(&mut s, 0, who(0, 4), Weak);
            let grave = |past: &Past| past.was_write == grave_is_write;
            let told = s.access::<true>((0, 4), who(0, 5), Weak, 1 << 5, grave);
            assert_eq!(told.map(|past| past.was_write), Some(expected));
        }
    }

    #[test]
    fn atomics_do_not_race_with_atomics() {
        let mut s = Shadow::new(64, 4, 2);
        assert_eq!(write(&mut s, 0, who(0, 0), Atomic), None);
        assert_eq!(write(&mut s, 0, who(1, 0), Atomic), None);
        assert!(read(&mut s, 0, who(0, 0), Weak).is_some());
    }
}
