//! Remembers the accesses to a page of global memory: for each place the last write, and two reads.
//!
//! Two are enough for a block whose warps meet at whole barriers, and for blocks that nothing orders: of two reads
//! without order, each later write has none with one of them. Where flags or barriers of some warps order, a third read
//! can matter. It is not kept by place, but the page remembers which warps read in this way and in which epoch at the
//! latest. A write that comes after all of them is in order, and any other write is reported as not judged.
//!
//! Of writes the last one is enough as long as each comes after the one before: this is FastTrack's epoch (Flanagan and
//! Freund, "FastTrack: efficient and precise dynamic race detection", PLDI 2009). But two strong writes may go without
//! order and not race, and so may two that store the same value. Then the last one says nothing of the others, and the
//! place gets a list of those that it hides: FastTrack's read vector, which exists only where it is needed. A list has
//! one entry for each warp, lane and strength at most. The next write that comes after all of it empties it. If there
//! is no more room for lists, the report says that not all races are found.

use super::race::Strength;
use crate::quick::QuickMap;

pub const PAGE: usize = 4096;

/// A read or a write: flags, the number of the stamp, [`MANY`], and the lane.
pub type Cell = u32;

pub const LANE: u32 = 31;
/// Set if other lanes of the warp made the same access: they read as well, or wrote the same value.
pub const MANY: u32 = 1 << 5;
pub const STAMP_SHIFT: u32 = 6;
/// A mask of all of a cell but its flags.
pub const KEPT: u32 = (1 << 30) - 1;
const STAMP: u32 = KEPT & !(LANE | MANY);
/// Set on a first read if the second one is of another block.
const PAIR: u32 = 1 << 31;
/// Set on a second read if a third is forgotten, which was weak or strong.
const FORGOT_WEAK: u32 = 1 << 31;
const FORGOT_STRONG: u32 = 1 << 30;
const FORGOT: u32 = FORGOT_WEAK | FORGOT_STRONG;

#[derive(Default)]
pub struct Page {
    /// The logarithm to base 2 of the bytes of a place.
    pub shift: u32,
    /// The first remembered read of each place; 0 for none. Empty until the page is read.
    reads: Vec<Cell>,
    second: Vec<Cell>,
    pub writes: Vec<Cell>,
    /// The reads that are forgotten, and the number of the one that was the last.
    forgotten: Vec<Forgotten>,
    last: usize,
    /// The writes that a later one hides without coming after them, by place.
    hidden: QuickMap<usize, Hidden>,
    /// True if there was no room for second reads, or for forgotten ones.
    lost: bool,
}

/// The writes of a place that its last one does not come after, sorted by the warp's number in the launch.
#[derive(Clone, Default)]
pub struct Hidden {
    pub all: Vec<HiddenWrite>,
    /// True if one of them may race with a strong access of the device.
    pub has_weak: bool,
}

/// Writes by some lanes of a warp at one instruction.
#[derive(Clone, Copy, Debug)]
pub struct HiddenWrite {
    pub cell: Cell,
    pub lanes: u32,
}

impl Hidden {
    /// The bytes that a list takes for each entry, and those that the map takes for the list.
    const ENTRY: u64 = size_of::<HiddenWrite>() as u64;
    const LIST: u64 = 64;
}

/// The remainder of a warp's forgotten reads.
#[derive(Clone, Copy, Debug)]
pub struct Forgotten {
    /// The warp's number in the launch.
    pub warp: u64,
    /// The epoch of the newest forgotten read.
    pub epoch: u32,
    /// All lanes with a forgotten read.
    pub lanes: u32,
}

/// The known facts on a read, for deciding whether to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    pub epoch: u32,
    pub strength: Strength,
}

/// The budget of bytes that a page grows by.
pub struct Room<'a> {
    pub used: &'a mut u64,
    pub limit: u64,
}

impl Room<'_> {
    fn give_back(&mut self, bytes: u64) {
        *self.used = self.used.saturating_sub(bytes);
    }

    /// Takes bytes from the budget. Returns false if they do not fit.
    pub fn take(&mut self, bytes: u64) -> bool {
        let fits = *self.used + bytes <= self.limit;
        *self.used += if fits { bytes } else { 0 };
        fits
    }
}

/// The next state of a place that was read before, when it is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The new read replaces the remembered ones, which no longer matter.
    Replace,
    /// The first stays, the new one is the second.
    Second { pair: bool },
    /// The second becomes the first, the new one is the second; the first did not matter any more.
    Later { pair: bool },
    /// The first stays and the new one is the second; the former second is forgotten.
    ForgetSecond { pair: bool, strong: bool },
    /// The second becomes the first and the new one is the second; the former first is forgotten.
    ForgetFirst { pair: bool, strong: bool },
    /// Both remembered reads stay, and the new one is forgotten.
    ForgetNew,
    /// The new read is of the warp, epoch and instruction of the first or the second, and joins it.
    Join { second: bool },
}

/// Reads by the lanes of a warp at one instruction.
pub struct WarpReads<O> {
    pub order: O,
    /// True if something may order blocks of the launch.
    pub blocks_meet: bool,
    /// The last step on this page, which is mostly the step of lanes side by side, too.
    memo: Option<(u32, u32, Step)>,
    page: usize,
}

impl<O> WarpReads<O> {
    pub fn new(order: O, blocks_meet: bool) -> WarpReads<O> {
        WarpReads {
            order,
            blocks_meet,
            memo: None,
            page: usize::MAX,
        }
    }

    /// Notes the page of the next accesses.
    #[inline(always)]
    pub fn turn_to(&mut self, page: usize) {
        if self.page != page {
            (self.page, self.memo) = (page, None);
        }
    }
}

/// The order in time of a new read and those that are kept.
pub trait Order {
    /// Returns what is known of the thread that made an access.
    fn reader(&self, cell: Cell) -> Reader;
    /// Returns true if `cell` is ordered before the new read, so that whatever is ordered after the new one is after
    /// both.
    fn before(&self, cell: Cell, new: Cell) -> bool;
    /// Returns the number of the reader's warp in the launch.
    fn warp_of_launch(&self, reader: Reader) -> u64;
    /// Returns true if every access that is ordered after neither of two accesses by one lane, and races with the
    /// older, also races with the newer.
    fn replaces(&self, newer: Cell, older: Cell) -> bool;
}

impl Page {
    pub fn new(shift: u32) -> Page {
        Page {
            shift,
            ..Page::default()
        }
    }

    /// Returns true if the page keeps writes, or reads.
    pub fn has(&self, write: bool) -> bool {
        !if write { &self.writes } else { &self.reads }.is_empty()
    }

    /// Returns all cells that are kept by place.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.reads
            .iter()
            .chain(&self.second)
            .chain(&self.writes)
            .chain(
                self.hidden
                    .values()
                    .flat_map(|hidden| &hidden.all)
                    .map(|write| &write.cell),
            )
    }

    /// Returns the end of the last place that was accessed, in bytes.
    pub fn end(&self) -> Option<usize> {
        let last = |cells: &Vec<Cell>| cells.iter().rposition(|cell| *cell != 0);
        let last = last(&self.reads).max(last(&self.writes))?;
        Some((last + 1) << self.shift)
    }

    /// Returns the bytes of the page that depend on its number of places.
    pub fn bytes(&self) -> u64 {
        (self.reads.len() + self.second.len() + self.writes.len()) as u64 * 4
    }

    /// Returns all cells that are kept by place, to be changed.
    pub fn cells_mut(&mut self) -> impl Iterator<Item = &mut Cell> {
        let reads = self.reads.iter_mut().chain(&mut self.second);
        let hidden = self
            .hidden
            .values_mut()
            .flat_map(|hidden| &mut hidden.all)
            .map(|write| &mut write.cell);
        reads.chain(&mut self.writes).chain(hidden)
    }

    /// Returns the bytes that [`Page::provide`] will add.
    pub fn cost(page: Option<&Page>, shift: u32, write: bool) -> u64 {
        let shift = page.map_or(shift, |p| p.shift.min(shift));
        let cells = |n: bool| u64::from(n) * (PAGE as u64 >> shift) * 4;
        let held = page.map_or(0, Page::bytes);
        let (reads, writes) = page.map_or((false, false), |p| (p.has(false), p.has(true)));
        let second = page.is_some_and(|p| !p.second.is_empty());
        // Each of the smaller places gets a copy of the lists.
        let copies = page.map_or(0, |p| (1 << (p.shift - shift)) - 1);
        let lists = page.filter(|_| copies > 0).map_or(0, Page::hidden_bytes);
        cells(reads || !write) + cells(second) + cells(writes || write) - held + copies * lists
    }

    /// Returns the bytes of the lists of hidden writes.
    fn hidden_bytes(&self) -> u64 {
        let bytes = |hidden: &Hidden| Hidden::LIST + Hidden::ENTRY * hidden.all.len() as u64;
        self.hidden.values().map(bytes).sum()
    }

    /// Makes places as small as `1 << shift` bytes, and makes room for reads or writes.
    pub fn provide(&mut self, shift: u32, write: bool) {
        if shift < self.shift {
            let times = 1 << (self.shift - shift);
            for cells in [&mut self.reads, &mut self.second, &mut self.writes] {
                *cells = cells
                    .iter()
                    .flat_map(|&c| std::iter::repeat_n(c, times))
                    .collect();
            }
            self.hidden = std::mem::take(&mut self.hidden)
                .into_iter()
                .flat_map(|(at, hidden)| {
                    (at * times..(at + 1) * times).map(move |at| (at, hidden.clone()))
                })
                .collect();
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

    /// Remembers a read, and decides which of the earlier reads of the place to forget.
    #[inline(always)]
    pub fn read(
        &mut self,
        at: usize,
        new: Cell,
        reading: &mut WarpReads<impl Order>,
        room: &mut Room,
    ) {
        let first = self.reads[at];
        if first == 0 {
            self.reads[at] = new;
        } else if first & KEPT != new && (first & PAIR == 0 || reading.blocks_meet) {
            self.read_again(at, new, reading, room);
        }
    }

    /// Remembers a read of a place that was read before.
    fn read_again(
        &mut self,
        at: usize,
        new: Cell,
        reading: &mut WarpReads<impl Order>,
        room: &mut Room,
    ) {
        let first = self.reads[at] & KEPT;
        let second = self.second.get(at).copied().unwrap_or(0);
        let key = (first & STAMP, second & (STAMP | FORGOT));
        if let Some((f, s, step)) = reading.memo
            && (f, s) == key
        {
            if let Some(gone) = gone(step, first, second, new)
                && let Some(last) = self.forgotten.get_mut(self.last)
            {
                last.lanes |= lanes(gone);
            }
            return self.apply(at, step, new);
        }
        let (step, shared) = decide(first, second & KEPT, new, &reading.order);
        let mut shared = shared;
        if let Some(gone) = gone(step, first, second, new) {
            let reader = reading.order.reader(gone);
            let gone = Forgotten {
                warp: reading.order.warp_of_launch(reader),
                epoch: reader.epoch,
                lanes: lanes(gone),
            };
            self.forget(gone, room);
            let flag = forgot(reader.strength > Strength::Weak);
            if step == Step::ForgetNew
                && second & flag == 0
                && let Some(cell) = self.second.get_mut(at)
            {
                // The next place needs its flag as well.
                *cell |= flag;
                shared = false;
            }
        }
        if matches!(step, Step::Second { .. }) && self.second.is_empty() {
            if !room.take((PAGE as u64 >> self.shift) * 4) {
                self.lost = true;
                return;
            }
            self.second = vec![0; PAGE >> self.shift];
        }
        self.apply(at, step, new);
        reading.memo = shared.then_some((key.0, key.1, step));
    }

    /// Changes the remembered reads of a place by a step.
    fn apply(&mut self, at: usize, step: Step, new: Cell) {
        let first = self.reads[at] & KEPT;
        let second = self.second.get(at).copied().unwrap_or(0);
        let flag = |pair: bool| if pair { PAIR } else { 0 };
        let others = |cell: Cell| {
            let more = (cell ^ new) & LANE != 0 || new & MANY != 0;
            if more { MANY } else { 0 }
        };
        let (a, b) = match step {
            Step::Replace => (new, second & FORGOT),
            Step::Second { pair } => (first | flag(pair), new | second & FORGOT),
            Step::Later { pair } => (second & KEPT | flag(pair), new | second & FORGOT),
            Step::ForgetSecond { pair, strong } => {
                (first | flag(pair), new | second & FORGOT | forgot(strong))
            }
            Step::ForgetFirst { pair, strong } => (
                second & KEPT | flag(pair),
                new | second & FORGOT | forgot(strong),
            ),
            Step::ForgetNew => return,
            Step::Join { second: false } => (self.reads[at] | others(first), second),
            Step::Join { second: true } => (self.reads[at], second | others(second)),
        };
        self.reads[at] = a;
        if let Some(cell) = self.second.get_mut(at) {
            *cell = b;
        }
    }

    /// Adds a read to those that are forgotten.
    fn forget(&mut self, gone: Forgotten, room: &mut Room) {
        if let Some((at, known)) = self
            .forgotten
            .iter_mut()
            .enumerate()
            .rev()
            .find(|(_, f)| f.warp == gone.warp)
        {
            known.epoch = known.epoch.max(gone.epoch);
            known.lanes |= gone.lanes;
            self.last = at;
        } else if room.take(size_of::<Forgotten>() as u64) {
            self.last = self.forgotten.len();
            self.forgotten.push(gone);
        } else {
            (self.lost, self.last) = (true, usize::MAX);
        }
    }

    /// Returns the two remembered reads of a place without their flags; 0 for none.
    #[inline(always)]
    pub fn readers(&self, at: usize) -> [Cell; 2] {
        let of = |cells: &[Cell]| cells.get(at).map_or(0, |c| c & KEPT);
        [of(&self.reads), of(&self.second)]
    }

    /// Returns true if a read of a place was forgotten that may have no order with a write of this strength. `knows`
    /// returns true for reads that are ordered before the write. Forgotten reads are known for the page as a whole, so
    /// that the answer may be true for a place that needs no report.
    pub fn forgot(&self, at: usize, write: Strength, knows: impl Fn(&Forgotten) -> bool) -> bool {
        let matters = match write {
            Strength::Weak => FORGOT,
            Strength::Volatile | Strength::Strong | Strength::Atomic => FORGOT_WEAK,
        };
        let some = self.second.get(at).is_some_and(|c| c & matters != 0);
        self.lost || some && !self.forgotten.iter().all(knows)
    }

    /// Returns true if a write of some place hides others.
    #[inline(always)]
    pub fn has_hidden(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Returns the writes that the last one of a place hides.
    pub fn hidden(&self, at: usize) -> Option<&Hidden> {
        self.hidden.get(&at)
    }

    /// Keeps a write that the next one of its place does not come after. Returns false if there is no room for it.
    #[cold]
    pub fn hide(
        &mut self,
        at: usize,
        write: HiddenWrite,
        order: &impl Order,
        room: &mut Room,
    ) -> bool {
        if !self.hidden.contains_key(&at) && !room.take(Hidden::LIST) {
            return false;
        }
        let hidden = self.hidden.entry(at).or_default();
        let number = |write: &HiddenWrite| order.warp_of_launch(order.reader(write.cell));
        let warp = number(&write);
        let from = hidden.all.partition_point(|known| number(known) < warp);
        let to = hidden.all.partition_point(|known| number(known) <= warp);
        // Whoever comes after what a lane did last comes after what it did before.
        for known in hidden.all.get_mut(from..to).unwrap_or_default() {
            if order.replaces(write.cell, known.cell) {
                known.lanes &= !write.lanes;
            }
        }
        let before = hidden.all.len();
        hidden.all.retain(|known| known.lanes != 0);
        room.give_back(Hidden::ENTRY * (before - hidden.all.len()) as u64);
        let same = |known: &&mut HiddenWrite| (known.cell ^ write.cell) & !LANE == 0;
        if let Some(known) = hidden.all.iter_mut().skip(from).take(to - from).find(same) {
            known.lanes |= write.lanes;
            return true;
        }
        hidden.has_weak |= order.reader(write.cell).strength == Strength::Weak;
        let fits = room.take(Hidden::ENTRY);
        if fits {
            hidden.all.insert(from, write);
        }
        fits
    }

    /// Forgets the hidden writes of a place for which `stays` returns false.
    #[cold]
    pub fn reveal(&mut self, at: usize, room: &mut Room, stays: impl Fn(&HiddenWrite) -> bool) {
        let Some(hidden) = self.hidden.get_mut(&at) else {
            return;
        };
        let before = hidden.all.len();
        hidden.all.retain(stays);
        room.give_back(Hidden::ENTRY * (before - hidden.all.len()) as u64);
        if hidden.all.is_empty() {
            self.hidden.remove(&at);
            room.give_back(Hidden::LIST);
        }
    }

    /// Forgets the reads of a place, because a write came after them or was reported.
    #[inline(always)]
    pub fn clear_reads(&mut self, at: usize) {
        self.reads[at] = 0;
        if let Some(cell) = self.second.get_mut(at) {
            *cell = 0;
        }
    }

    /// Returns true if this page has a write at a place that the other page wrote or read.
    pub fn clobbers(&self, other: &Page) -> bool {
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

/// Returns the read that a step forgets, if any.
fn gone(step: Step, first: Cell, second: Cell, new: Cell) -> Option<Cell> {
    match step {
        Step::ForgetNew => Some(new),
        Step::ForgetFirst { .. } => Some(first),
        Step::ForgetSecond { .. } => Some(second & KEPT),
        Step::Replace | Step::Second { .. } | Step::Later { .. } | Step::Join { .. } => None,
    }
}

/// Returns the lanes that a read may stand for.
fn lanes(cell: Cell) -> u32 {
    if cell & MANY != 0 {
        u32::MAX
    } else {
        1 << (cell & LANE)
    }
}

fn forgot(strong: bool) -> u32 {
    if strong { FORGOT_STRONG } else { FORGOT_WEAK }
}

/// Decides the step, and whether it is the same for all lanes of the warp at places that the same two have read.
fn decide(first: Cell, second: Cell, new: Cell, order: &impl Order) -> (Step, bool) {
    let (a, n) = (order.reader(first), order.reader(new));
    let same_warp = |x: Reader| (x.block, x.warp) == (n.block, n.warp);
    let pair = |x: Reader| x.block != n.block;
    let joins = |cell: Cell| cell != 0 && (cell ^ new) & STAMP == 0;
    if joins(first) || joins(second) {
        return (
            Step::Join {
                second: !joins(first),
            },
            false,
        );
    }
    let keeps = |cell: Cell| cell != 0 && !order.before(cell, new);
    if second == 0 {
        let step = if keeps(first) {
            Step::Second { pair: pair(a) }
        } else {
            Step::Replace
        };
        return (step, !same_warp(a));
    }
    let b = order.reader(second);
    let shared = !same_warp(a) && !same_warp(b);
    let step = match (keeps(first), keeps(second)) {
        (false, false) => Step::Replace,
        (true, false) => Step::Second { pair: pair(a) },
        (false, true) => Step::Later { pair: pair(b) },
        (true, true) => third(a, b, n),
    };
    (step, shared)
}

/// Decides which of three reads without order is forgotten.
///
/// If one alone is strong, it makes way, because fewer writes race with it than with a weak one. Otherwise the two that
/// are kept are of different blocks if possible, or else of different warps. A later write that comes after all of one
/// block or warp then still meets a read of another one.
fn third(a: Reader, b: Reader, n: Reader) -> Step {
    let pair = |x: Reader| x.block != n.block;
    let strong = |x: Reader| x.strength > Strength::Weak;
    let (without_a, without_b) = (
        Step::ForgetFirst {
            pair: pair(b),
            strong: strong(a),
        },
        Step::ForgetSecond {
            pair: pair(a),
            strong: strong(b),
        },
    );
    match (strong(a), strong(b), strong(n)) {
        (true, false, false) => return without_a,
        (false, true, false) => return without_b,
        (false, false, true) => return Step::ForgetNew,
        _ => {}
    }
    if a.block == b.block && n.block != a.block {
        return without_b;
    }
    let one_warp = (a.block, a.warp) == (b.block, b.warp);
    if one_warp && n.block == a.block && n.warp != a.warp {
        return without_b;
    }
    Step::ForgetNew
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of writes of which the last one of a lane stands for those before it. Two stamps belong to each warp.
    struct Lanes;

    impl Order for Lanes {
        fn reader(&self, cell: Cell) -> Reader {
            Reader {
                block: 0,
                warp: (cell >> STAMP_SHIFT) / 2,
                epoch: 1,
                strength: Strength::Weak,
            }
        }
        fn before(&self, _: Cell, _: Cell) -> bool {
            false
        }
        fn warp_of_launch(&self, reader: Reader) -> u64 {
            reader.warp.into()
        }
        fn replaces(&self, _: Cell, _: Cell) -> bool {
            true
        }
    }

    #[test]
    fn hidden_writes_give_back_what_they_took() {
        let (mut used, mut page) = (0, Page::new(3));
        let mut room = Room {
            used: &mut used,
            limit: 1 << 20,
        };
        assert!(room.take(Page::cost(None, 3, true)));
        page.provide(3, true);
        // The last one takes the lane of the first and joins the second.
        for (stamp, lanes) in [(2, 1), (3, 2), (3, 1), (4, 1)] {
            let cell = stamp << STAMP_SHIFT;
            assert!(page.hide(0, HiddenWrite { cell, lanes }, &Lanes, &mut room));
        }
        assert_eq!(*room.used, page.bytes() + page.hidden_bytes());
        assert!(room.take(Page::cost(Some(&page), 2, true)));
        page.provide(2, true);
        assert_eq!(*room.used, page.bytes() + page.hidden_bytes());
        for at in 0..2 {
            page.reveal(at, &mut room, |_| false);
        }
        assert_eq!(used, page.bytes());
    }
}
