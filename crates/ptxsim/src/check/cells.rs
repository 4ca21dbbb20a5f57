//! Remembers the accesses to each place in shared memory: the last write, and two reads by different warps.
//!
//! A place is as many bytes as the smallest access of the program to shared memory has, at most 4. Each remembered
//! access has the epoch of its warp, its lanes, its instruction and its strength. `race` decides with its vector clocks
//! whether an access is ordered before another one. This module keeps the accesses, and answers the frequent question
//! of one instruction at once for many places: may any of them be out of order?
//!
//! That question needs no clock of each warp. [`Before`] has two limits: the last epoch of the warp's own accesses that
//! is ordered before for all its lanes, and the last epoch that is known of every other warp. An access up to its limit
//! is ordered for certain. Above it, `race` looks closer. The first comparison is that of a whole block of places,
//! which keeps the largest epoch of its writes and of its reads.
//!
//! Eight neighbouring places share a [`Block`], field by field, so that one vector instruction looks at all of them.
//! The functions for a [`Touch`] do for eight places what [`Cells::note_write`] and [`Cells::note_read`] do for one.
//! The test compares the two.
//!
//! A write forgets the reads before it. If a third warp reads a place, the read that was kept longer stays, and the
//! newer one makes way, so that a race against it can be missed. Remembering less never invents a race: what is
//! remembered has happened.

use super::race::Strength;

/// An access as it is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The epoch of the warp; 0 if there is no access.
    pub epoch: u32,
    /// The lanes that accessed the place; one lane for a write.
    pub lanes: u32,
    pub mark: Mark,
}

/// The instruction, the strength and the warp of an access. A mark of a read also says whether other instructions of
/// the warp read there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark(u32);

/// The number of instructions that a mark can tell apart.
pub const MAX_INSTRUCTIONS: usize = 1 << 24;

const SEVERAL: u32 = 1 << 7;

impl Mark {
    pub fn new(instruction: u32, strength: Strength, warp: u32) -> Mark {
        Mark((instruction << 8) | ((strength as u32) << 5) | (warp % 32))
    }

    #[inline(always)]
    pub fn warp(self) -> u32 {
        self.0 % 32
    }

    pub fn strength(self) -> Strength {
        match self.0 >> 5 & 3 {
            0 => Strength::Weak,
            1 => Strength::Volatile,
            2 => Strength::Strong,
            _ => Strength::Atomic,
        }
    }

    pub fn instruction(self) -> u32 {
        self.0 >> 8
    }

    /// Returns true if the mark also represents reads by other instructions in the same epoch.
    pub fn several(self) -> bool {
        self.0 & SEVERAL != 0
    }
}

/// The number of places in a block.
pub const BLOCK: usize = 8;

/// A value for each place of a block.
pub type Row = [u32; BLOCK];

/// One of the remembered accesses, for each place of a block: the last write, or one of the reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Accesses {
    epochs: Row,
    lanes: Row,
    marks: Row,
}

// Lines of the cache have 64 bytes. A write of all places then touches four of them, and five from half of a line on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
struct Block {
    written: Accesses,
    /// The remembered reads, the newest first.
    read: [Accesses; 2],
    /// The upper bound of the epochs of all writes in the block, and below that of all reads. Most accesses need no
    /// look beyond these two.
    last_write: u32,
    last_read: u32,
}

/// The accesses of one warp's lanes in one block of places: the lanes of each place, and none for a place that they
/// leave alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The number of the block, counted from the block of the lowest place of the access.
    pub block: u32,
    pub lanes: Row,
}

const NONE: Row = [0; BLOCK];

/// The accesses that are ordered before a warp's present ones.
#[derive(Clone, Copy)]
pub struct Before {
    pub warp: u32,
    /// The last epoch of the warp's own accesses that is ordered before.
    pub own: u32,
    /// The last epoch that is ordered before, for every other warp.
    pub others: u32,
}

impl Before {
    /// Returns true if all accesses up to this epoch are ordered before, whichever warp made them.
    #[inline(always)]
    fn has_all_until(self, epoch: u32) -> bool {
        epoch <= self.own.min(self.others)
    }
}

/// Returns a mask of all ones or none.
#[inline(always)]
fn all_ones(yes: bool) -> u32 {
    0_u32.wrapping_sub(u32::from(yes))
}

/// Returns the bits of `yes` where the mask has ones, and those of `no` elsewhere.
#[inline(always)]
fn pick(mask: u32, yes: u32, no: u32) -> u32 {
    no ^ (yes ^ no) & mask
}

#[inline(always)]
fn row(f: impl Fn(usize) -> u32) -> Row {
    let mut out = [0; BLOCK];
    for (i, out) in out.iter_mut().enumerate() {
        *out = f(i);
    }
    out
}

/// Returns true if a value of the row is not 0.
#[inline(always)]
pub fn some(row: Row) -> bool {
    row.iter().fold(0, |x, y| x | y) != 0
}

impl Accesses {
    fn at(&self, i: usize) -> Seen {
        Seen {
            epoch: self.epochs[i],
            lanes: self.lanes[i],
            mark: Mark(self.marks[i]),
        }
    }

    fn set(&mut self, i: usize, seen: Seen) {
        self.epochs[i] = seen.epoch;
        self.lanes[i] = seen.lanes;
        self.marks[i] = seen.mark.0;
    }

    /// Returns all ones for the places of this block that may have no order with what `by` does there.
    #[inline(always)]
    fn late(&self, before: Before, by: &Row) -> Row {
        row(|i| {
            let limit = pick(
                all_ones(self.marks[i] % 32 == before.warp),
                before.own,
                before.others,
            );
            all_ones(self.epochs[i] > limit) & all_ones(by[i] != 0)
        })
    }
}

/// The remembered accesses to all places of a shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cells(Vec<Block>);

impl Cells {
    pub fn new(places: usize) -> Cells {
        Cells(vec![Block::default(); places.div_ceil(BLOCK)])
    }

    /// Returns the last write of a place.
    pub fn written(&self, place: usize) -> Seen {
        self.0[place / BLOCK].written.at(place % BLOCK)
    }

    /// Returns the remembered reads of a place, the newest first.
    pub fn read(&self, place: usize) -> [Seen; 2] {
        self.0[place / BLOCK].read.map(|r| r.at(place % BLOCK))
    }

    /// Remembers a write, and forgets the reads before it.
    pub fn note_write(&mut self, place: usize, seen: Seen) {
        let (block, i) = (&mut self.0[place / BLOCK], place % BLOCK);
        block.written.set(i, seen);
        block.last_write = block.last_write.max(seen.epoch);
        block.read[0].epochs[i] = 0;
        block.read[1].epochs[i] = 0;
    }

    /// Remembers a read. A read by the same warp in the same epoch joins the earlier one, with the lanes of both and
    /// the weaker strength.
    pub fn note_read(&mut self, place: usize, seen: Seen) {
        let (block, i) = (&mut self.0[place / BLOCK], place % BLOCK);
        block.last_read = block.last_read.max(seen.epoch);
        let [r0, r1] = &mut block.read;
        let (old0, old1) = (r0.at(i), r1.at(i));
        let mine = |s: Seen| s.epoch == 0 || s.mark.warp() == seen.mark.warp();
        let earlier = if mine(old0) {
            old0
        } else {
            // If two other warps have read here, the one that was kept longer stays, and the newer one is forgotten.
            r1.set(i, if mine(old1) { old0 } else { old1 });
            old1
        };
        let mut now = seen;
        if earlier.epoch == seen.epoch && mine(earlier) {
            now.lanes |= earlier.lanes;
            if earlier.mark.strength() < seen.mark.strength() {
                let (instruction, warp) = (seen.mark.instruction(), seen.mark.warp());
                now.mark = Mark::new(instruction, earlier.mark.strength(), warp);
            }
            if earlier.mark.several() || earlier.mark.instruction() != seen.mark.instruction() {
                now.mark.0 |= SEVERAL;
            }
        }
        r0.set(i, now);
    }

    /// Returns the places of a touch whose last write may have no order with it. One comparison with the newest write
    /// of the block answers most calls.
    #[inline(always)]
    pub fn late_writes(&self, base: usize, touch: &Touch, before: Before) -> Row {
        let block = &self.0[base + touch.block as usize];
        if before.has_all_until(block.last_write) {
            NONE
        } else {
            block.written.late(before, &touch.lanes)
        }
    }

    /// Returns the places of a touch with a remembered read that may have no order with it.
    #[inline(always)]
    pub fn late_reads(&self, base: usize, touch: &Touch, before: Before) -> Row {
        let block = &self.0[base + touch.block as usize];
        if before.has_all_until(block.last_read) {
            return NONE;
        }
        let [r0, r1] = &block.read;
        let (a, b) = (r0.late(before, &touch.lanes), r1.late(before, &touch.lanes));
        row(|i| a[i] | b[i])
    }

    /// Does what [`Cells::note_write`] does for a weak write at each place of a touch.
    #[inline(always)]
    pub fn note_writes(&mut self, base: usize, touch: &Touch, epoch: u32, mark: Mark) {
        let block = &mut self.0[base + touch.block as usize];
        block.last_write = block.last_write.max(epoch);
        let (old, by) = (*block, &touch.lanes);
        let here = row(|i| all_ones(by[i] != 0));
        block.written = Accesses {
            epochs: row(|i| pick(here[i], epoch, old.written.epochs[i])),
            lanes: row(|i| pick(here[i], by[i], old.written.lanes[i])),
            marks: row(|i| pick(here[i], mark.0, old.written.marks[i])),
        };
        block.read[0].epochs = row(|i| old.read[0].epochs[i] & !here[i]);
        block.read[1].epochs = row(|i| old.read[1].epochs[i] & !here[i]);
    }

    /// Does what [`Cells::note_read`] does for a weak read at each place of a touch.
    #[inline(always)]
    pub fn note_reads(&mut self, base: usize, touch: &Touch, epoch: u32, mark: Mark) {
        let block = &mut self.0[base + touch.block as usize];
        block.last_read = block.last_read.max(epoch);
        let [r0, r1] = &mut block.read;
        let (old, by, me) = (*r0, &touch.lanes, mark.warp());
        let mine =
            |a: &Accesses, i: usize| all_ones(a.epochs[i] == 0) | all_ones(a.marks[i] % 32 == me);
        let here = row(|i| all_ones(by[i] != 0));
        let mine0 = row(|i| mine(&old, i));
        // Epoch, lanes and mark of the warp's own read before, if there is one.
        let mut own = (old.epochs, old.lanes, old.marks);
        if some(row(|i| here[i] & !mine0[i])) {
            let second = *r1;
            let mine1 = row(|i| mine(&second, i));
            // This is seldom, as the second reader stays, so it is done place by place.
            let moves = row(|i| here[i] & !mine0[i] & mine1[i]);
            if some(moves) {
                for i in (0..BLOCK).filter(|&i| moves[i] != 0) {
                    r1.set(i, old.at(i));
                }
            }
            own = (
                row(|i| pick(mine0[i], old.epochs[i], second.epochs[i] & mine1[i])),
                row(|i| pick(mine0[i], old.lanes[i], second.lanes[i])),
                row(|i| pick(mine0[i], old.marks[i], second.marks[i])),
            );
        }
        let now = row(|i| all_ones(own.0[i] == epoch));
        let lanes = row(|i| by[i] | own.1[i] & now[i]);
        // Only the instruction can differ: a stronger read before is as good as a weak one.
        let other = |i: usize| all_ones((own.2[i] ^ mark.0) & !(3 << 5) != 0);
        let marks = row(|i| mark.0 | now[i] & other(i) & SEVERAL);
        *r0 = Accesses {
            epochs: row(|i| pick(here[i], epoch, old.epochs[i])),
            lanes: row(|i| pick(here[i], lanes[i], old.lanes[i])),
            marks: row(|i| pick(here[i], marks[i], old.marks[i])),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares eight places together with one place after another.
        #[test]
        fn eight_places_at_once(
            steps in prop::collection::vec((0..4_u32, 1..3_u32, any::<Row>(), 1..=u8::MAX, any::<bool>()), 1..40),
            (me, own, others) in (0..4_u32, 0..4_u32, 0..4_u32),
        ) {
            let (mut one, mut all) = (Cells::new(16), Cells::new(16));
            let before = Before { warp: me, own, others };
            for (n, (warp, epoch, bits, at, write)) in steps.into_iter().enumerate() {
                let lanes: Row = std::array::from_fn(|i| u32::from(at >> i & 1) << (bits[i] % 32));
                let mark = Mark::new(n as u32, Strength::Weak, warp);
                let touch = Touch { block: 0, lanes };
                let (writes, reads) = (all.late_writes(1, &touch, before), all.late_reads(1, &touch, before));
                for (i, &lanes) in lanes.iter().enumerate().filter(|(_, l)| **l != 0) {
                    let late = |s: Seen| s.epoch > if s.mark.warp() == me { own } else { others };
                    prop_assert_eq!(late(one.written(8 + i)), writes[i] != 0);
                    prop_assert_eq!(one.read(8 + i).into_iter().any(late), reads[i] != 0);
                    let seen = Seen { epoch, lanes, mark };
                    if write {
                        one.note_write(8 + i, seen);
                    } else {
                        one.note_read(8 + i, seen);
                    }
                }
                if write {
                    all.note_writes(1, &touch, epoch, mark);
                } else {
                    all.note_reads(1, &touch, epoch, mark);
                }
                prop_assert_eq!(&one, &all);
            }
        }
    }

    #[test]
    fn a_mark_holds_instruction_strength_and_warp() {
        let last = MAX_INSTRUCTIONS as u32 - 1;
        let mark = Mark::new(last, Strength::Atomic, 31);
        assert_eq!(
            (mark.instruction(), mark.strength(), mark.warp()),
            (last, Strength::Atomic, 31)
        );
    }
}
