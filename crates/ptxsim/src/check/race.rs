//! Races in shared memory, by happens-before (vector clocks, after FastTrack: Flanagan and Freund
//! 2009).
//!
//! Every warp has a clock that ticks at each of its synchronisations. Between warps order is known
//! per warp: edges are barriers and atomics. Within a warp it is known per lane: the edges are
//! `bar.warp.sync` and barriers; running in step is none. Of the reads of a location the last two
//! by different warps are kept: a race against an older one can be missed, none is invented.

use crate::exec::pattern::Unit;

pub const WARPS: usize = 32;

/// How much an access is worth as synchronisation (PTX ISA 8.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    #[default]
    Weak,
    Strong,
    Atomic,
}

impl Strength {
    /// Whether two accesses without order are no race. Volatile accesses by lanes of one warp are:
    /// the order of lanes is nothing that a program may count on, and that is how it is done.
    #[inline(always)]
    pub fn excuses(self, other: Strength, same_warp: bool) -> bool {
        self.min(other) >= Strength::Strong && (!same_warp || self.max(other) == Strength::Atomic)
    }
}

/// What is known of an access that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    pub instruction: u32,
    pub warp: u8,
    pub lane: u8,
    pub was_write: bool,
}

#[derive(Clone, Copy, Default)]
struct Reader {
    /// 0: nobody.
    epoch: u32,
    instruction: u32,
    lanes: u32,
    warp: u8,
    strength: Strength,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    epoch: u32,
    instruction: u32,
    warp: u8,
    lane: u8,
    strength: Strength,
    readers: [Reader; 2],
}

impl Cell {
    #[inline(always)]
    fn note_read(
        &mut self,
        warp: u32,
        epoch: u32,
        instruction: u32,
        lanes: u32,
        strength: Strength,
    ) {
        let [r0, r1] = &mut self.readers;
        if r0.epoch != 0 && u32::from(r0.warp) != warp {
            std::mem::swap(r0, r1);
        }
        if u32::from(r0.warp) == warp && r0.epoch == epoch {
            r0.lanes |= lanes;
            r0.instruction = instruction;
            r0.strength = r0.strength.min(strength);
        } else {
            if r0.epoch != 0 && u32::from(r0.warp) != warp {
                *r1 = *r0;
            }
            *r0 = Reader {
                epoch,
                instruction,
                lanes,
                warp: warp as u8,
                strength,
            };
        }
    }
}

#[derive(Clone)]
struct WarpClock {
    /// What this warp knows of each warp; at its own place the present epoch.
    knows: [u32; WARPS],
    /// Up to this epoch of its own, all lanes know of one another.
    full: u32,
    /// lanes[l][m]: up to which epoch lane l knows of lane m; only kept after partial syncs.
    lanes: Option<Box<[[u32; 32]; 32]>>,
}

pub struct Shadow {
    /// log2 of the bytes that a cell stands for.
    shift: u32,
    cells: Vec<Cell>,
    warps: Vec<WarpClock>,
}

#[derive(Clone, Copy)]
pub struct Who {
    pub warp: u32,
    pub lane: u32,
    pub instruction: u32,
}

/// What barriers and atomics hand on.
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
                lanes: None,
            }
        };
        Shadow {
            shift: granule.trailing_zeros(),
            cells: vec![Cell::default(); bytes.div_ceil(granule) as usize],
            warps: (0..warps).map(clock).collect(),
        }
    }

    #[inline(always)]
    fn ordered(clock: &WarpClock, who: Who, warp: u8, lane: u32, epoch: u32) -> bool {
        if u32::from(warp) != who.warp {
            return epoch <= clock.knows[warp as usize % WARPS];
        }
        lane == who.lane
            || epoch <= clock.full
            || clock
                .lanes
                .as_ref()
                .is_some_and(|k| epoch <= k[who.lane as usize % 32][lane as usize % 32])
    }

    /// Of readers of the same warp: one that is not ordered before `who`.
    #[inline(always)]
    fn unordered_reader(clock: &WarpClock, who: Who, r: &Reader) -> Option<u32> {
        if r.epoch == 0 {
            return None;
        }
        if u32::from(r.warp) != who.warp {
            return (!Self::ordered(clock, who, r.warp, 0, r.epoch))
                .then(|| r.lanes.trailing_zeros());
        }
        if r.epoch <= clock.full {
            return None;
        }
        let mut others = r.lanes & !(1 << who.lane);
        while others != 0 {
            let lane = others.trailing_zeros();
            if !Self::ordered(clock, who, r.warp, lane, r.epoch) {
                return Some(lane);
            }
            others &= others - 1;
        }
        None
    }

    #[inline(always)]
    pub fn read(&mut self, offset: u32, bytes: u32, who: Who, strength: Strength) -> Option<Past> {
        let mut race = None;
        let first = (offset >> self.shift) as usize;
        let last = ((offset + bytes - 1) >> self.shift) as usize;
        let clock = &self.warps[who.warp as usize];
        let epoch = clock.knows[who.warp as usize % WARPS];
        for cell in &mut self.cells[first..=last] {
            if cell.epoch != 0
                && !strength.excuses(cell.strength, u32::from(cell.warp) == who.warp)
                && !Self::ordered(clock, who, cell.warp, u32::from(cell.lane), cell.epoch)
            {
                race = Some(Past {
                    instruction: cell.instruction,
                    warp: cell.warp,
                    lane: cell.lane,
                    was_write: true,
                });
            }
            cell.note_read(who.warp, epoch, who.instruction, 1 << who.lane, strength);
        }
        race
    }

    #[inline(always)]
    pub fn write(&mut self, offset: u32, bytes: u32, who: Who, strength: Strength) -> Option<Past> {
        let mut race = None;
        let first = (offset >> self.shift) as usize;
        let last = ((offset + bytes - 1) >> self.shift) as usize;
        let clock = &self.warps[who.warp as usize];
        let epoch = clock.knows[who.warp as usize % WARPS];
        for cell in &mut self.cells[first..=last] {
            if cell.epoch != 0
                && !strength.excuses(cell.strength, u32::from(cell.warp) == who.warp)
                && !Self::ordered(clock, who, cell.warp, u32::from(cell.lane), cell.epoch)
            {
                race = Some(Past {
                    instruction: cell.instruction,
                    warp: cell.warp,
                    lane: cell.lane,
                    was_write: true,
                });
            }
            for r in &cell.readers {
                if let Some(lane) = Self::unordered_reader(clock, who, r)
                    && !strength.excuses(r.strength, u32::from(r.warp) == who.warp)
                {
                    race = Some(Past {
                        instruction: r.instruction,
                        warp: r.warp,
                        lane: lane as u8,
                        was_write: false,
                    });
                }
            }
            *cell = Cell {
                epoch,
                instruction: who.instruction,
                warp: who.warp as u8,
                lane: who.lane as u8,
                strength,
                readers: [Reader::default(); 2],
            };
        }
        race
    }

    /// Whether an access in an earlier epoch of some warp comes before what all of `lanes` of `clock`'s
    /// warp do now. `false` also where only a closer look could tell.
    #[inline(always)]
    fn plainly_before(
        clock: &WarpClock,
        me: u32,
        lanes: u32,
        epoch: u32,
        warp: u8,
        by: u32,
    ) -> bool {
        if u32::from(warp) != me {
            epoch <= clock.knows[warp as usize % WARPS]
        } else {
            epoch <= clock.full || by == lanes && lanes.is_power_of_two()
        }
    }

    /// Reads by several lanes of a warp, at `units` from `base`, as [`Shadow::read`] for each lane.
    /// `false` where one of them may race: the same reads have to go through [`Shadow::read`], and
    /// what was noted here does no harm.
    #[inline(always)]
    pub fn read_plainly(
        &mut self,
        base: u32,
        units: &[Unit],
        bytes: u32,
        warp: u32,
        instruction: u32,
    ) -> bool {
        let clock = &self.warps[warp as usize];
        let epoch = clock.knows[warp as usize % WARPS];
        let cells_each = (bytes >> self.shift).max(1) as usize;
        for unit in units {
            let first = ((base + unit.at) >> self.shift) as usize;
            for cell in &mut self.cells[first..first + cells_each] {
                let by = 1 << (cell.lane % 32);
                if cell.epoch != 0
                    && !Self::plainly_before(clock, warp, unit.lanes, cell.epoch, cell.warp, by)
                {
                    return false;
                }
                cell.note_read(warp, epoch, instruction, unit.lanes, Strength::Weak);
            }
        }
        true
    }

    /// Writes, as [`Shadow::read_plainly`].
    #[inline(always)]
    pub fn write_plainly(
        &mut self,
        base: u32,
        units: &[Unit],
        bytes: u32,
        warp: u32,
        instruction: u32,
    ) -> bool {
        let clock = &self.warps[warp as usize];
        let epoch = clock.knows[warp as usize % WARPS];
        let cells_each = (bytes >> self.shift).max(1) as usize;
        for unit in units {
            // Two lanes that write one place race with one another.
            if !unit.lanes.is_power_of_two() {
                return false;
            }
            let before = |epoch: u32, by_warp: u8, by: u32| {
                epoch == 0 || Self::plainly_before(clock, warp, unit.lanes, epoch, by_warp, by)
            };
            let first = ((base + unit.at) >> self.shift) as usize;
            for cell in &mut self.cells[first..first + cells_each] {
                let [r0, r1] = &cell.readers;
                if !(before(cell.epoch, cell.warp, 1 << (cell.lane % 32))
                    && before(r0.epoch, r0.warp, r0.lanes)
                    && before(r1.epoch, r1.warp, r1.lanes))
                {
                    return false;
                }
                *cell = Cell {
                    epoch,
                    instruction,
                    warp: warp as u8,
                    lane: unit.lanes.trailing_zeros() as u8,
                    strength: Strength::Weak,
                    readers: [Reader::default(); 2],
                };
            }
        }
        true
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

    /// What a warp knows of each warp of the block, itself included.
    pub fn knowledge(&self, warp: u32) -> &Clock {
        &self.warps[warp as usize].knows
    }

    /// Whether the access of a lane in an epoch of its warp comes before what `who` does now.
    #[inline(always)]
    pub fn knows(&self, who: Who, warp: u8, lane: u32, epoch: u32) -> bool {
        Self::ordered(&self.warps[who.warp as usize], who, warp, lane, epoch)
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

    fn barrier(s: &mut Shadow) {
        let mut c = [0; WARPS];
        (0..2).for_each(|w| s.release(w, &mut c));
        (0..2).for_each(|w| s.acquire(w, &c, true));
    }

    #[test]
    fn barriers_order_warps() {
        let mut s = Shadow::new(64, 4, 2);
        assert_eq!(s.write(0, 4, who(0, 0), Weak), None);
        assert!(
            s.read(0, 4, who(1, 0), Weak)
                .is_some_and(|p| p.was_write && p.warp == 0)
        );
        barrier(&mut s);
        assert_eq!(s.read(0, 4, who(1, 0), Weak), None);
        assert!(
            s.write(0, 4, who(0, 5), Weak)
                .is_some_and(|p| !p.was_write && p.warp == 1)
        );
        barrier(&mut s);
        assert_eq!(s.write(0, 4, who(1, 1), Weak), None);
    }

    #[test]
    fn warp_syncs_order_lanes() {
        let mut s = Shadow::new(64, 4, 1);
        assert_eq!(s.write(8, 4, who(0, 3), Weak), None);
        assert!(s.read(8, 4, who(0, 4), Weak).is_some());
        s.warp_sync(0, 0b1_1000, u32::MAX);
        assert_eq!(s.read(8, 4, who(0, 4), Weak), None);
        assert!(s.read(8, 4, who(0, 5), Weak).is_some());
        s.warp_sync(0, u32::MAX, u32::MAX);
        assert_eq!(s.write(8, 4, who(0, 9), Weak), None);
    }

    #[test]
    fn neighbours_within_a_granule_only() {
        let mut s = Shadow::new(64, 2, 2);
        assert_eq!(s.write(0, 2, who(0, 0), Weak), None);
        assert_eq!(s.write(2, 2, who(1, 0), Weak), None);
        assert!(s.read(0, 4, who(1, 0), Weak).is_some());
    }

    #[test]
    fn atomics_do_not_race_with_atomics() {
        let mut s = Shadow::new(64, 4, 2);
        assert_eq!(s.write(0, 4, who(0, 0), Atomic), None);
        assert_eq!(s.write(0, 4, who(1, 0), Atomic), None);
        assert!(s.read(0, 4, who(0, 0), Weak).is_some());
    }
}
