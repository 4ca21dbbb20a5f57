//! Races in global memory within a launch, by happens-before.
//!
//! Two accesses to a byte race if one of them writes, neither is ordered before the other by causality order (PTX ISA
//! 8.9), and they are not morally strong: both strong, each with a scope that includes the other's thread ([`Scoped`]).
//! The detector is one of vector clocks and epochs after FastTrack (Flanagan and Freund, PLDI 2009). The unit that has
//! a clock is the warp. Within a block the block's own clocks say what is ordered (barriers, warp syncs, atomics:
//! `race`), and order within a warp is known by lane. Between blocks the edges are what fences and strong accesses
//! handed on (`order`).
//!
//! For each place the last write is kept, writes that it hides, and two reads (`page`). An access is kept as a stamp
//! (block, warp, epoch, instruction, scope) and its lane. A new access is compared with what its place keeps, and then
//! kept itself. A place is as large as the smallest access that its page has seen, from 16 bytes to one, so that no
//! access covers a part of a place. Pages come into being when they are touched.
//!
//! **No race is invented.** Both accesses of a race have happened, and an order that may exist counts as one: within a
//! block each atomic and each flag orders without a fence.
//!
//! **What can be missed.** A race that two reads are too few for, that a doubtful flag would order, or that has no room
//! is reported as not judged ([`Unjudged`], `full`). These are missed without a word: a plain store behind atomics
//! whose old value was used (`Check::unordered`), and what the edges of this one execution order by chance. As in every
//! detector of this kind, an atomic that comes first here may come second on a GPU.

use super::order::{FlagSide, Inter};
use super::page::*;
use super::race::{Meets, Shadow, Strength, Who};
use crate::isa::{Order as Access, Scope};
use std::collections::BTreeSet;

const MAX_STAMPS: usize = 1 << (30 - STAMP_SHIFT);

/// The strength of an access as synchronisation, and the threads for which it has that strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scoped {
    pub strength: Strength,
    pub scope: Scope,
    /// True for an atomic whose thread waits for the old value ([`crate::isa::Atomic::answers`]).
    pub answers: bool,
}

impl Scoped {
    pub const WEAK: Scoped = Scoped {
        strength: Strength::Weak,
        scope: Scope::Device,
        answers: false,
    };

    pub fn new(strength: Strength, order: Access) -> Scoped {
        Scoped {
            strength,
            scope: match order {
                Access::Strong { scope, .. } => scope,
                Access::Weak => Scope::Device,
            },
            answers: false,
        }
    }

    /// Returns the strength of the access for a thread that shares only `scope` with it. A narrower access counts as
    /// weak.
    fn within(self, scope: Scope) -> Strength {
        if self.scope >= scope {
            self.strength
        } else {
            Strength::Weak
        }
    }

    /// Returns the strength of the access for a thread of another cluster.
    fn elsewhere(self) -> Strength {
        self.within(Scope::Device)
    }

    /// Returns true if two accesses are morally strong for threads that share the scope `needed`.
    fn excuses(self, other: Scoped, needed: Scope) -> bool {
        self.within(needed).excuses(other.within(needed))
    }

    /// Returns true if some access may race with `other` and not with this one.
    fn is_stronger(self, other: Scoped) -> bool {
        let worth = |scoped: Scoped| match scoped.strength {
            Strength::Weak => 0,
            _ => 1 + scoped.scope as u32,
        };
        worth(self) > worth(other)
    }
}

/// The accesses of a warp's lanes at one instruction between two synchronisations.
#[derive(Clone, Copy)]
struct Stamp {
    block: u32,
    epoch: u32,
    instruction: u32,
    warp: u8,
    scoped: Scoped,
    /// The lanes that wrote the same value to the place of another lane, in the same instruction.
    together: u32,
}

/// An earlier access that has no order with the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The lane of the present access.
    pub lane: u32,
    pub block: u32,
    pub warp: u32,
    /// The other lane, or `None` if it is another one than `lane` of the same warp.
    pub other_lane: Option<u32>,
    /// True if other lanes than that one conflict, too.
    pub many: bool,
    pub epoch: u32,
    pub instruction: u32,
    pub was_write: bool,
    /// The instruction that read what the other side handed on, and was no acquire.
    pub unfenced: Option<u32>,
}

/// The accesses that could not be judged, by instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unjudged {
    /// The writes of places that more warps have read than are remembered.
    pub readers: BTreeSet<u32>,
    /// The reads of flags, each with the side on which only a barrier leads from or to a fence.
    pub flags: BTreeSet<(FlagSide, u32)>,
}

impl Unjudged {
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.flags.is_empty()
    }
}

/// The accessing warp, and what is needed to judge its access.
pub struct Accessor<'a> {
    pub block: u32,
    pub warp: u32,
    pub instruction: u32,
    pub scoped: Scoped,
    pub clocks: &'a Shadow,
    pub inter: &'a Inter,
    /// The number of warps in a block.
    pub warps: u32,
    /// The lanes that write the same value to the place of another one.
    pub together: u32,
    /// Returns true if a conflict ends the search. It is false for a mere hazard within a warp, because a worse
    /// conflict may follow.
    pub grave: &'a dyn Fn(&Conflict) -> bool,
}

/// The number of blocks of a grid, and of its clusters, in each dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clustered {
    pub grid: [u32; 3],
    pub cluster: [u32; 3],
}

impl Clustered {
    /// Returns the coordinates of a block in the grid.
    pub fn place(self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.grid;
        [number % x, number / x % y, number / x / y]
    }

    /// Returns the narrowest scope that includes two different blocks.
    fn needed(self, a: u32, b: u32) -> Scope {
        if self.cluster == [1; 3] {
            return Scope::Device;
        }
        let (a, b) = (self.place(a), self.place(b));
        let same = |n: usize| a[n] / self.cluster[n] == b[n] / self.cluster[n];
        if (0..3).all(same) {
            Scope::Cluster
        } else {
            Scope::Device
        }
    }
}

/// The remembered accesses to all of global memory in a launch.
pub struct GlobalShadow {
    /// The pages of each allocation. A page is `None` until it is touched.
    pages: Vec<Vec<Option<Box<Page>>>>,
    /// The stamps that cells refer to by number. Number 0 means no access.
    stamps: Vec<Stamp>,
    /// The last stamp of each instruction.
    recent: Vec<u32>,
    grid: Clustered,
    /// True if the kernel has an instruction that can order blocks.
    blocks_meet: bool,
    /// The bytes of pages, and the largest number of them that is allowed.
    used: u64,
    limit: u64,
    /// True if a page found no room, so that not all was watched.
    pub full: bool,
    pub unjudged: Unjudged,
    /// The number of stamps at which those that no place bears any more are forgotten.
    sweep_at: usize,
}

impl GlobalShadow {
    /// Builds the record of a launch. `limit` is the number of bytes that it may take.
    pub fn new(
        instructions: usize,
        limit: u64,
        grid: Clustered,
        blocks_meet: bool,
    ) -> GlobalShadow {
        let nobody = Stamp {
            block: u32::MAX,
            epoch: 0,
            instruction: 0,
            warp: 0,
            scoped: Scoped::WEAK,
            together: 0,
        };
        GlobalShadow {
            pages: Vec::new(),
            stamps: vec![nobody],
            recent: vec![0; instructions],
            grid,
            blocks_meet,
            used: 0,
            limit,
            full: false,
            unjudged: Unjudged::default(),
            sweep_at: 1 << 20,
        }
    }

    /// Returns the bytes that the record takes.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of the stamp of a warp's accesses at this instruction and epoch, or 0 if there are too many
    /// stamps.
    fn stamp(&mut self, me: &Accessor, epoch: u32) -> u32 {
        let at = me.instruction as usize;
        let last = self.recent[at];
        let s = self.stamps[last as usize];
        if last != 0 && s.block == me.block && u32::from(s.warp) == me.warp && s.epoch == epoch {
            return last;
        }
        if self.stamps.len() >= self.sweep_at {
            self.sweep();
        }
        if self.stamps.len() >= MAX_STAMPS {
            self.full = true;
            return 0;
        }
        let id = self.stamps.len() as u32;
        self.stamps.push(Stamp {
            block: me.block,
            epoch,
            instruction: me.instruction,
            warp: me.warp as u8,
            scoped: me.scoped,
            together: 0,
        });
        self.recent[at] = id;
        id
    }

    /// Forgets the stamps that no place bears any more.
    #[cold]
    fn sweep(&mut self) {
        let mut now = vec![0_u32; self.stamps.len()];
        let mut cells = 0;
        let number = |c: Cell| ((c & KEPT) >> STAMP_SHIFT) as usize;
        for page in self.pages.iter().flatten().flatten() {
            for &c in page.cells() {
                now[number(c)] = 1;
                cells += 1;
            }
        }
        now[0] = 1;
        let mut kept = 0;
        for (old, n) in now.iter_mut().enumerate() {
            if *n != 0 {
                self.stamps[kept as usize] = self.stamps[old];
                *n = kept;
                kept += 1;
            }
        }
        self.stamps.truncate(kept as usize);
        for page in self.pages.iter_mut().flatten().flatten() {
            for c in page.cells_mut() {
                let rest = *c & !(KEPT >> STAMP_SHIFT << STAMP_SHIFT);
                *c = now[number(*c)] << STAMP_SHIFT | rest;
            }
        }
        self.recent.fill(0);
        self.sweep_at = (2 * self.stamps.len()).max(1 << 20).max(cells / 16);
    }

    /// Looks for races of an access, and notes it. Each of the lanes accesses `bytes` at its offset in one allocation
    /// of `size` bytes. A lane may stand for others of its warp as well ([`MANY`]) if they all read, or all write the
    /// same value.
    ///
    /// The conflicts go to `out`. Without `out`, the function returns false where a conflict would. The same access has
    /// to come again then, and what was noted of it does no harm.
    #[inline]
    pub fn access(
        &mut self,
        me: &Accessor,
        allocation: usize,
        size: usize,
        lanes: impl Iterator<Item = (u32, usize)>,
        bytes: u32,
        write: bool,
        mut out: Option<&mut Vec<Conflict>>,
    ) -> bool {
        let stamp = self.stamp(me, me.clocks.epoch(me.warp)) << STAMP_SHIFT;
        if stamp == 0 {
            return true;
        }
        if me.together != 0
            && let Some(s) = self.stamps.get_mut((stamp >> STAMP_SHIFT) as usize)
        {
            s.together |= me.together;
        }
        if self.pages.len() <= allocation {
            self.pages.resize_with(allocation + 1, Vec::new);
        }
        let pages = &mut self.pages[allocation];
        if pages.is_empty() {
            pages.resize_with(size.div_ceil(PAGE), || None);
        }
        let mut room = Room {
            used: &mut self.used,
            limit: self.limit,
        };
        // A size that is no power of two (a part of a copy) has the places of its smallest part.
        let shift = bytes.trailing_zeros().min(4);
        let check = Check {
            me,
            grid: self.grid,
            stamps: &self.stamps,
            write,
        };
        let mut reading = WarpReads::new(&check, self.blocks_meet);
        let (unjudged, mut unsure) = (&mut self.unjudged, false);
        let strong = me.scoped.strength > Strength::Weak;
        for (lanes, offset) in lanes {
            let lane = lanes & LANE;
            let Some(slot) = pages.get_mut(offset / PAGE) else {
                continue;
            };
            let page = match slot {
                Some(page) if page.shift <= shift && page.has(write) => page,
                _ => {
                    if !room.take(Page::cost(slot.as_deref(), shift, write)) {
                        self.full = true;
                        continue;
                    }
                    let page = slot.get_or_insert_with(|| Box::new(Page::new(shift)));
                    page.provide(shift, write);
                    page
                }
            };
            let first = (offset % PAGE) >> page.shift;
            let last = (offset % PAGE + bytes as usize - 1) >> page.shift;
            let last = last.min((PAGE >> page.shift) - 1);
            let (mut told, mut noted) = (false, false);
            // Returns false if the search cannot go on without `out`.
            let mut tell = |cell: Cell, was_write: bool, told: &mut bool| {
                match check.judge(cell, lane, was_write) {
                    Judged::Race(conflict) => {
                        let Some(out) = &mut out else { return false };
                        *told = (me.grave)(&conflict);
                        if *told || !std::mem::replace(&mut noted, true) {
                            out.push(conflict);
                        }
                    }
                    Judged::Flag(side, flag) => drop(unjudged.flags.insert((side, flag))),
                    Judged::Lanes => drop(unjudged.readers.insert(me.instruction)),
                }
                true
            };
            if !page.writes.is_empty() {
                let crowded = page.has_hidden();
                for at in first..=last {
                    let c = page.writes[at];
                    let ordered = c == 0 || check.after_write(c, lane);
                    if !ordered && !told && !tell(c, true, &mut told) {
                        return false;
                    }
                    if crowded && let Some(hidden) = page.hidden(at).filter(|h| check.may_race(h)) {
                        for c in hidden.all.iter().filter_map(|h| check.unordered(h, lane)) {
                            if !told && !tell(c, true, &mut told) {
                                return false;
                            }
                        }
                    }
                    if write {
                        let new = stamp | lanes;
                        page.writes[at] = new;
                        // A weak write that is in order comes after the last one.
                        let hides = c != 0 && (strong || !ordered) && !(&check).before(c, new);
                        if crowded && !strong {
                            page.reveal(at, &mut room, |h| !check.is_before(h, new));
                        }
                        if hides && !page.hide(at, check.hidden(c), &&check, &mut room) {
                            self.full = true;
                        }
                    }
                }
            }
            if !write {
                reading.turn_to(offset / PAGE);
                for at in first..=last {
                    page.read(at, stamp | lanes, &mut reading, &mut room);
                }
            } else if page.has(false) {
                for at in first..=last {
                    let readers = page.readers(at);
                    if readers[0] == 0 {
                        continue;
                    }
                    for c in readers {
                        let ordered = c == 0 || told || check.ordered(c, lane);
                        if !ordered && !tell(c, false, &mut told) {
                            return false;
                        }
                    }
                    let knows = |reads: &Forgotten| check.knows(lane, reads);
                    unsure |= !told && page.forgot(at, me.scoped.elsewhere(), knows);
                    page.clear_reads(at);
                }
            }
        }
        if unsure {
            unjudged.readers.insert(me.instruction);
        }
        true
    }

    /// Returns the end of what was read or written of an allocation, in bytes from its start.
    pub fn reach(&self, allocation: usize) -> usize {
        let pages = self.pages.get(allocation).map_or(&[][..], Vec::as_slice);
        pages
            .iter()
            .enumerate()
            .rev()
            .find_map(|(number, page)| Some(number * PAGE + page.as_ref()?.end()?))
            .unwrap_or(0)
    }

    /// Calls back with every place that was written: allocation, offset, bytes.
    pub fn written(&self, mut each: impl FnMut(usize, usize, usize)) {
        for (a, pages) in self.pages.iter().enumerate() {
            for (p, page) in pages.iter().enumerate() {
                let Some(page) = page else { continue };
                let bytes = 1 << page.shift;
                for (i, _) in page.writes.iter().enumerate().filter(|(_, c)| **c != 0) {
                    each(a, p * PAGE + i * bytes, bytes);
                }
            }
        }
    }

    /// Returns true if one of the two wrote a place that the other wrote or read.
    pub fn overlaps(&self, other: &GlobalShadow) -> bool {
        self.pages
            .iter()
            .zip(&other.pages)
            .flat_map(|(a, b)| a.iter().zip(b))
            .any(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => a.clobbers(b) || b.clobbers(a),
                _ => false,
            })
    }
}

struct Check<'a> {
    me: &'a Accessor<'a>,
    grid: Clustered,
    stamps: &'a [Stamp],
    write: bool,
}

/// The judgement on an access that is not ordered for certain.
enum Judged {
    Race(Conflict),
    /// It is ordered if one may count on a flag that this instruction read.
    Flag(FlagSide, u32),
    /// It is ordered or not, which depends on the lanes of the warp that read.
    Lanes,
}

impl Check<'_> {
    fn stamp_of(&self, cell: Cell) -> Stamp {
        self.stamps[((cell & KEPT) >> STAMP_SHIFT) as usize]
    }

    fn who(&self, lane: u32) -> Who {
        Who::new(self.me.warp, lane, self.me.instruction)
    }

    fn warp_of(&self, s: Stamp) -> u64 {
        u64::from(s.block) * u64::from(self.me.warps) + u64::from(s.warp)
    }

    /// Returns true if an access comes after a write. If several lanes wrote together, each of them has to come before.
    /// But a lane that reads what it wrote itself reads its own.
    #[inline(always)]
    fn after_write(&self, cell: Cell, lane: u32) -> bool {
        cell & MANY == 0 && self.ordered(cell, lane)
            || cell & MANY != 0 && self.after_writes(cell, lane)
    }

    #[cold]
    fn after_writes(&self, cell: Cell, lane: u32) -> bool {
        let (s, me) = (self.stamp_of(cell), self.me);
        if s.block != me.block || u32::from(s.warp) != me.warp {
            return self.ordered(cell, lane);
        }
        let own = !self.write && s.together >> lane & 1 == 1;
        let knows = |l: u32| me.clocks.knows(self.who(lane), me.warp, l, s.epoch);
        let all = (0..32).filter(|l| s.together >> l & 1 == 1).all(knows);
        own || all || me.scoped.excuses(s.scoped, Scope::Block)
    }

    /// Returns true if an earlier access is ordered before this one, or the two are morally strong.
    fn ordered(&self, cell: Cell, lane: u32) -> bool {
        let (s, me) = (self.stamp_of(cell), self.me);
        if s.block != me.block {
            return me
                .scoped
                .excuses(s.scoped, self.grid.needed(s.block, me.block))
                || s.epoch <= me.inter.known.epoch_of(self.warp_of(s));
        }
        let same_warp = u32::from(s.warp) == me.warp;
        let (who, other) = (self.who(lane), cell & LANE);
        me.scoped.excuses(s.scoped, Scope::Block)
            || me.clocks.knows(who, u32::from(s.warp), other, s.epoch)
                && (cell & MANY == 0 || !same_warp || me.clocks.meets(who, s.epoch) == Meets::All)
    }

    /// Returns the write of a place as an entry of those that its next one hides.
    fn hidden(&self, cell: Cell) -> HiddenWrite {
        let lanes = match cell & MANY {
            0 => 1 << (cell & LANE),
            _ => self.stamp_of(cell).together,
        };
        HiddenWrite {
            cell: cell & KEPT,
            lanes,
        }
    }

    /// Returns false where all of the hidden writes go together with this access for certain.
    fn may_race(&self, hidden: &Hidden) -> bool {
        hidden.has_weak || self.me.scoped.elsewhere() == Strength::Weak
    }

    /// Returns a cell for each lane of a hidden write if it matters which lane wrote, else one cell for all.
    fn cells(&self, hidden: &HiddenWrite) -> impl Iterator<Item = Cell> {
        let (s, me) = (self.stamp_of(hidden.cell), self.me);
        let own = s.block == me.block && u32::from(s.warp) == me.warp;
        let lanes = if own && hidden.cell & MANY == 0 {
            hidden.lanes
        } else {
            hidden.lanes & hidden.lanes.wrapping_neg()
        };
        let cell = hidden.cell & !LANE;
        (0..32)
            .filter(move |lane| lanes >> lane & 1 == 1)
            .map(move |lane| cell | lane)
    }

    /// Returns what of a hidden write has no order with this access.
    ///
    /// A plain store behind atomics whose old value was used is not reported, which can miss a race. The last block of a
    /// persistent kernel resets its counters this way. The ISA asks for fences there, and such kernels have none, but each
    /// thread waited for the old value before it went on.
    fn unordered(&self, hidden: &HiddenWrite, lane: u32) -> Option<Cell> {
        let is_weak = self.me.scoped.strength == Strength::Weak;
        if self.write && is_weak && self.stamp_of(hidden.cell).scoped.answers {
            return None;
        }
        self.cells(hidden)
            .find(|&cell| !self.after_write(cell, lane))
    }

    /// Returns true if all lanes of a hidden write come before the new access.
    fn is_before(&self, hidden: &HiddenWrite, new: Cell) -> bool {
        self.cells(hidden).all(|cell| (&self).before(cell, new))
    }

    /// Judges an access for which `ordered` is false.
    #[cold]
    fn judge(&self, cell: Cell, lane: u32, was_write: bool) -> Judged {
        let (s, me) = (self.stamp_of(cell), self.me);
        let race = |other_lane: Option<u32>, unfenced| {
            Judged::Race(Conflict {
                many: cell & MANY != 0,
                epoch: s.epoch,
                lane,
                block: s.block,
                warp: u32::from(s.warp),
                other_lane,
                instruction: s.instruction,
                was_write,
                unfenced,
            })
        };
        let (who, other) = (self.who(lane), cell & LANE);
        if s.block != me.block {
            let warp = self.warp_of(s);
            let flag = me.inter.flag;
            return match me.inter.doubt(warp, s.epoch) {
                Some(side) => Judged::Flag(side, flag),
                None => {
                    let unfenced = me.inter.unfenced(warp, s.epoch);
                    race(Some(other), unfenced.then_some(flag))
                }
            };
        }
        if !me.clocks.knows(who, u32::from(s.warp), other, s.epoch) {
            return race(Some(other), None);
        }
        match me.clocks.meets(who, s.epoch) {
            _ if was_write => race(None, None),
            Meets::None => race(None, None),
            Meets::Some | Meets::All => Judged::Lanes,
        }
    }

    /// Returns true if forgotten reads of a warp are ordered before what the lane does now.
    fn knows(&self, lane: u32, reads: &Forgotten) -> bool {
        let (me, warps) = (self.me, u64::from(self.me.warps));
        if reads.warp / warps != u64::from(me.block) {
            return reads.epoch <= me.inter.known.epoch_of(reads.warp);
        }
        let (who, warp) = (self.who(lane), (reads.warp % warps) as u32);
        (0..32)
            .filter(|l| reads.lanes >> l & 1 == 1)
            .all(|l| me.clocks.knows(who, warp, l, reads.epoch))
    }
}

impl Order for &Check<'_> {
    fn reader(&self, cell: Cell) -> Reader {
        let s = self.stamp_of(cell);
        Reader {
            block: s.block,
            warp: u32::from(s.warp),
            epoch: s.epoch,
            strength: s.scoped.elsewhere(),
        }
    }

    fn before(&self, cell: Cell, new: Cell) -> bool {
        let (s, me) = (self.stamp_of(cell), self.me);
        // An access that does not race with the new one may race with a weak one that came before.
        if me.scoped.is_stronger(s.scoped) {
            return false;
        }
        if s.block != me.block {
            return s.epoch <= me.inter.known.epoch_of(self.warp_of(s));
        }
        let (lane, other) = (new & LANE, cell & LANE);
        let who = self.who(lane);
        if u32::from(s.warp) != me.warp {
            return me.clocks.knows(who, u32::from(s.warp), other, s.epoch);
        }
        match (cell & MANY, new & MANY) {
            (0, 0) => me.clocks.knows(who, me.warp, other, s.epoch),
            // Whatever races with some lanes then races with some now.
            (MANY, MANY) if s.epoch == me.clocks.epoch(me.warp) => true,
            _ => me.clocks.meets(who, s.epoch) == Meets::All,
        }
    }

    fn replaces(&self, newer: Cell, older: Cell) -> bool {
        let (newer, older) = (self.stamp_of(newer), self.stamp_of(older));
        !newer.scoped.is_stronger(older.scoped)
    }

    fn warp_of_launch(&self, reader: Reader) -> u64 {
        u64::from(reader.block) * u64::from(self.me.warps) + u64::from(reader.warp)
    }
}

#[cfg(test)]
mod tests;
