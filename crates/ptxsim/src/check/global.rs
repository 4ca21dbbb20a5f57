//! Races in global memory within a launch, by happens-before.
//!
//! Of each place the last write is kept and one read. Within a block the block's own clocks say
//! what is ordered (barriers, warp syncs, atomics: `race`), between blocks what fences and strong
//! accesses handed on (`order`). A place is as large as the smallest access that its page has seen,
//! from 16 bytes to one; pages come into being when they are touched.
//!
//! A read that another block's read stands against is not noted: the older one is kept, unless the
//! two are ordered. A race against a read that was replaced can be missed, none is invented.

use super::order::Sparse;
use super::race::{Shadow, Strength, Who};

const PAGE: usize = 4096;
/// Bits of a cell for the lane; the rest is the number of the stamp.
const LANE_BITS: u32 = 5;
const MAX_STAMPS: usize = 1 << (32 - LANE_BITS);

/// What the lanes of a warp did at one instruction between two synchronisations.
#[derive(Clone, Copy)]
struct Stamp {
    block: u32,
    epoch: u32,
    instruction: u32,
    warp: u8,
    strength: Strength,
}

#[derive(Default)]
struct Page {
    /// log2 of the bytes of a place.
    shift: u32,
    /// Stamp << 5 | lane, 0 for none; empty until needed.
    reads: Vec<u32>,
    writes: Vec<u32>,
}

/// An earlier access that has no order with the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Of the present access.
    pub lane: u32,
    pub block: u32,
    pub warp: u32,
    pub other_lane: u32,
    pub instruction: u32,
    pub was_write: bool,
}

/// Who accesses.
pub struct Accessor<'a> {
    pub block: u32,
    pub warp: u32,
    pub instruction: u32,
    pub strength: Strength,
    pub clocks: &'a Shadow,
    pub known: &'a Sparse,
    /// Warps of a block.
    pub warps: u32,
}

pub struct GlobalShadow {
    /// By allocation.
    pages: Vec<Vec<Option<Box<Page>>>>,
    /// Number 0 is nobody.
    stamps: Vec<Stamp>,
    /// The last stamp of each instruction.
    recent: Vec<u32>,
    /// Stamps below this are of other blocks for certain.
    floor: u32,
    /// Something was handed on between blocks.
    pub synchronised: bool,
    /// Bytes of pages, and how many there may be.
    used: u64,
    limit: u64,
    /// A page found no room: not all was watched.
    pub full: bool,
    sweep_at: usize,
}

impl GlobalShadow {
    /// `limit`: bytes that the shadow may take.
    pub fn new(instructions: usize, limit: u64) -> GlobalShadow {
        let nobody = Stamp {
            block: u32::MAX,
            epoch: 0,
            instruction: 0,
            warp: 0,
            strength: Strength::Weak,
        };
        GlobalShadow {
            pages: Vec::new(),
            stamps: vec![nobody],
            recent: vec![0; instructions],
            floor: 0,
            synchronised: false,
            used: 0,
            limit,
            full: false,
            sweep_at: 1 << 20,
        }
    }

    pub fn used(&self) -> u64 {
        self.used
    }

    /// A block goes to work, for the first time or again.
    pub fn enter(&mut self, first_time: bool) {
        self.floor = if first_time {
            self.stamps.len() as u32
        } else {
            0
        };
    }

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
            strength: me.strength,
        });
        self.recent[at] = id;
        id
    }

    /// Forgets the stamps that no place bears any more.
    #[cold]
    fn sweep(&mut self) {
        let mut now = vec![0_u32; self.stamps.len()];
        let mut cells = 0;
        for page in self.pages.iter().flatten().flatten() {
            for &c in page.reads.iter().chain(&page.writes) {
                now[(c >> LANE_BITS) as usize] = 1;
                cells += 1;
            }
        }
        now[0] = 1;
        let mut kept = 0;
        let mut floor = 0;
        for (old, n) in now.iter_mut().enumerate() {
            if old as u32 == self.floor {
                floor = kept;
            }
            if *n != 0 {
                self.stamps[kept as usize] = self.stamps[old];
                *n = kept;
                kept += 1;
            }
        }
        self.floor = if self.floor as usize >= now.len() {
            kept
        } else {
            floor
        };
        self.stamps.truncate(kept as usize);
        for page in self.pages.iter_mut().flatten().flatten() {
            for c in page.reads.iter_mut().chain(&mut page.writes) {
                *c = now[(*c >> LANE_BITS) as usize] << LANE_BITS | *c & 31;
            }
        }
        self.recent.fill(0);
        self.sweep_at = (2 * self.stamps.len()).max(1 << 20).max(cells / 16);
    }

    /// An access of `bytes` by each of the lanes, at their offsets in one allocation of `size`
    /// bytes. What has no order with it goes to `out`. Without `out`: false where something would;
    /// the same access has to come again, and what was noted of it does no harm.
    #[allow(clippy::too_many_arguments)]
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
        let stamp = self.stamp(me, me.clocks.epoch(me.warp)) << LANE_BITS;
        if stamp == 0 {
            return true;
        }
        if self.pages.len() <= allocation {
            self.pages.resize_with(allocation + 1, Vec::new);
        }
        let pages = &mut self.pages[allocation];
        if pages.is_empty() {
            pages.resize_with(size.div_ceil(PAGE), || None);
        }
        // A size that is no power of two (a part of a copy) has the places of its smallest part.
        let shift = bytes.trailing_zeros().min(4);
        let check = Check {
            me,
            stamps: &self.stamps,
        };
        for (lane, offset) in lanes {
            let Some(slot) = pages.get_mut(offset / PAGE) else {
                continue;
            };
            let page = match slot {
                Some(page) if page.shift <= shift && page.has(write) => page,
                _ => {
                    let need = Page::cost(slot.as_deref(), shift, write);
                    if self.used + need > self.limit {
                        self.full = true;
                        continue;
                    }
                    self.used += need;
                    let page = slot.get_or_insert_with(|| {
                        Box::new(Page {
                            shift,
                            ..Page::default()
                        })
                    });
                    page.provide(shift, write);
                    page
                }
            };
            let first = (offset % PAGE) >> page.shift;
            let last = (offset % PAGE + bytes as usize - 1) >> page.shift;
            let last = last.min((PAGE >> page.shift) - 1);
            let mut told = false;
            if !page.writes.is_empty() {
                for c in &mut page.writes[first..=last] {
                    if *c != 0 && !told && !check.ordered(*c, lane) {
                        let Some(out) = &mut out else { return false };
                        out.push(check.conflict(*c, lane, true));
                        told = true;
                    }
                    if write {
                        *c = stamp | lane;
                    }
                }
            }
            if write {
                if !page.reads.is_empty() {
                    for c in &mut page.reads[first..=last] {
                        if *c != 0 && !told && !check.ordered(*c, lane) {
                            let Some(out) = &mut out else { return false };
                            out.push(check.conflict(*c, lane, false));
                            told = true;
                        }
                        *c = 0;
                    }
                }
            } else {
                for c in &mut page.reads[first..=last] {
                    let keep = *c != 0
                        && if *c >> LANE_BITS < self.floor {
                            !self.synchronised || !check.ordered(*c, lane)
                        } else {
                            check.stamps[(*c >> LANE_BITS) as usize].block != me.block
                                && !check.ordered(*c, lane)
                        };
                    if !keep {
                        *c = stamp | lane;
                    }
                }
            }
        }
        true
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

    /// Whether one wrote what the other wrote or read.
    pub fn overlaps(&self, other: &GlobalShadow) -> bool {
        let pairs = self.pages.iter().zip(&other.pages);
        pairs
            .flat_map(|(a, b)| a.iter().zip(b))
            .any(|(a, b)| match (a, b) {
                (Some(a), Some(b)) => a.clobbers(b) || b.clobbers(a),
                _ => false,
            })
    }
}

impl Page {
    fn has(&self, write: bool) -> bool {
        !if write { &self.writes } else { &self.reads }.is_empty()
    }

    /// Bytes that `provide` will add.
    fn cost(page: Option<&Page>, shift: u32, write: bool) -> u64 {
        let shift = page.map_or(shift, |p| p.shift.min(shift));
        let cells = |n: bool| u64::from(n) * (PAGE as u64 >> shift) * 4;
        let held = page.map_or(0, |p| (p.reads.len() + p.writes.len()) as u64 * 4);
        let (reads, writes) = page.map_or((false, false), |p| (p.has(false), p.has(true)));
        cells(reads || !write) + cells(writes || write) - held
    }

    /// Makes places as small as `1 << shift`, and room for reads or writes.
    fn provide(&mut self, shift: u32, write: bool) {
        if shift < self.shift {
            let times = 1 << (self.shift - shift);
            for cells in [&mut self.reads, &mut self.writes] {
                let finer = cells.iter().flat_map(|&c| std::iter::repeat_n(c, times));
                *cells = finer.collect();
            }
            self.shift = shift;
        }
        let cells = if write {
            &mut self.writes
        } else {
            &mut self.reads
        };
        if cells.is_empty() {
            *cells = vec![0; PAGE >> self.shift];
        }
    }

    fn clobbers(&self, other: &Page) -> bool {
        if self.writes.is_empty() {
            return false;
        }
        let theirs = |i: usize| {
            [&other.reads, &other.writes]
                .iter()
                .any(|cells| cells.get(i >> other.shift).is_some_and(|&c| c != 0))
        };
        let step = 1 << self.shift.min(other.shift);
        (0..PAGE)
            .step_by(step)
            .any(|i| self.writes.get(i >> self.shift).is_some_and(|&c| c != 0) && theirs(i))
    }
}

struct Check<'a> {
    me: &'a Accessor<'a>,
    stamps: &'a [Stamp],
}

impl Check<'_> {
    fn ordered(&self, cell: u32, lane: u32) -> bool {
        let (s, me) = (self.stamps[(cell >> LANE_BITS) as usize], self.me);
        let other = cell & 31;
        if s.block != me.block {
            let warp = u64::from(s.block) * u64::from(me.warps) + u64::from(s.warp);
            return me.strength.excuses(s.strength, false) || s.epoch <= me.known.epoch_of(warp);
        }
        let who = Who {
            warp: me.warp,
            lane,
            instruction: me.instruction,
        };
        me.strength
            .excuses(s.strength, u32::from(s.warp) == me.warp)
            || me.clocks.knows(who, u32::from(s.warp), other, s.epoch)
    }

    #[cold]
    fn conflict(&self, cell: u32, lane: u32, was_write: bool) -> Conflict {
        let s = self.stamps[(cell >> LANE_BITS) as usize];
        Conflict {
            lane,
            block: s.block,
            warp: u32::from(s.warp),
            other_lane: cell & 31,
            instruction: s.instruction,
            was_write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> [u64; 32] {
        std::array::from_fn(|l| offset + 4 * l as u64)
    }

    struct World {
        shadow: GlobalShadow,
        clocks: Shadow,
        known: Sparse,
    }

    impl World {
        fn new() -> World {
            World {
                shadow: GlobalShadow::new(4, 1 << 20),
                clocks: Shadow::new(0, 4, 2),
                known: Sparse::default(),
            }
        }

        fn go(&mut self, block: u32, warp: u32, at: [u64; 32], bytes: u32, write: bool) -> usize {
            let me = Accessor {
                block,
                warp,
                instruction: u32::from(write),
                strength: Strength::Weak,
                clocks: &self.clocks,
                known: &self.known,
                warps: 2,
            };
            let mut out = Vec::new();
            self.shadow.enter(false);
            let lanes = (0..32).map(|l| (l, at[l as usize] as usize));
            self.shadow
                .access(&me, 0, 8192, lanes, bytes, write, Some(&mut out));
            out.len()
        }
    }

    #[test]
    fn blocks_have_no_order() {
        let mut w = World::new();
        assert_eq!(w.go(0, 0, at(0), 4, true), 0);
        assert_eq!(w.go(0, 0, at(0), 4, false), 0);
        assert_eq!(w.go(1, 0, at(128), 4, true), 0);
        w.clocks.warp_sync(0, u32::MAX, u32::MAX);
        assert_eq!(w.go(1, 0, at(64), 4, false), 16);
        w.known = Sparse::of(vec![(0, 1)]);
        assert_eq!(w.go(1, 0, at(0), 4, true), 0, "told by somebody");
    }

    #[test]
    fn what_one_wrote_and_another_touched_overlaps() {
        let access = |offset: u64, bytes: u32, write: bool| {
            let mut w = World::new();
            let lanes = std::array::from_fn(|l| offset + u64::from(bytes) * l as u64);
            w.go(0, 0, lanes, bytes, write);
            w.shadow
        };
        let wrote = access(1024, 4, true);
        assert!(!wrote.overlaps(&access(1152, 4, true)));
        assert!(!access(0, 4, false).overlaps(&access(0, 4, false)));
        for (offset, bytes, write) in [(1148, 4, false), (640, 16, true), (1150, 2, false)] {
            let other = access(offset, bytes, write);
            assert!(wrote.overlaps(&other) && other.overlaps(&wrote));
        }
        assert!(!wrote.overlaps(&access(512, 16, true)));
        let mut places = Vec::new();
        wrote.written(|i, at, bytes| places.push((i, at, bytes)));
        assert_eq!(
            (places.len(), places[0], places[31]),
            (32, (0, 1024, 4), (0, 1148, 4))
        );
    }

    #[test]
    fn places_become_smaller_when_needed() {
        let mut w = World::new();
        let wide = std::array::from_fn(|l| 16 * l as u64);
        assert_eq!(w.go(0, 0, wide, 16, true), 0);
        assert_eq!(w.shadow.used(), 4096 / 16 * 4);
        let halves = std::array::from_fn(|l| 512 + 2 * l as u64);
        assert_eq!(w.go(1, 0, halves, 2, true), 0);
        assert_eq!(w.go(2, 0, halves.map(|x| x - 2), 2, false), 32);
    }

    #[test]
    fn stamps_are_swept_without_losing_one_in_use() {
        let mut w = World::new();
        assert_eq!(w.go(0, 0, at(0), 4, true), 0);
        for n in 0..100 {
            w.clocks.tick(1);
            assert_eq!(w.go(0, 1, at(256), 4, n % 2 == 0), 0);
        }
        let before = w.shadow.stamps.len();
        w.shadow.sweep();
        assert!(w.shadow.stamps.len() < 5 && before > 50);
        assert_eq!(w.go(1, 0, at(0), 4, false), 32);
    }

    #[test]
    fn no_room_is_said() {
        let mut w = World::new();
        w.shadow.limit = 4096;
        assert_eq!(w.go(0, 0, at(0), 4, true), 0);
        assert!(!w.shadow.full);
        assert_eq!(w.go(0, 0, at(4096), 4, true), 0);
        assert!(w.shadow.full);
    }
}
