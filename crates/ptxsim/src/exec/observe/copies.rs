//! Asynchronous copies that are still under way: lanes that touch what one still writes, or write what one may still read.
//!
//! A copy is under way from its instruction until its thread has waited for its group, or somebody for the phase of the
//! mbarrier that its bytes end. Where several write to one place, the one that began last is named.

use crate::exec::access::LaneAccess;
use crate::exec::access::pattern::{Pattern, Stretch};
use crate::exec::state::*;
use crate::isa::{Direction, Op};
use crate::regs::{LANES, lanes};
use crate::report::{At, FindingKind};
use crate::switch::{Observer, is_off};
use model::{Clash, FindingEvent};
use std::ops::Range;

/// Names that messages have for asynchronous instructions. A longer name comes before its beginning.
const NAMES: [&str; 5] = [
    "cp.reduce.async.bulk.tensor",
    "cp.reduce.async.bulk",
    "cp.async.bulk.prefetch",
    "cp.async.bulk.tensor",
    "cp.async.bulk",
];

/// The copies under way to and from the shared memory of a block.
#[derive(Default)]
pub struct UnderWay {
    writing: InFlight,
    /// The copies to global memory, and products, that may still read shared memory.
    reading: InFlight,
}

impl UnderWay {
    /// Notes that a copy begins that writes these bytes.
    pub fn begin_write(&mut self, at: u32, bytes: u32, instruction: u32) {
        self.writing.begin(at, bytes, instruction);
    }

    pub fn end_write(&mut self, at: u32, bytes: u32) {
        self.writing.end(at, bytes);
    }

    /// Notes that a copy or a product begins that reads these bytes.
    pub fn begin_read(&mut self, at: u32, bytes: u32, instruction: u32) {
        self.reading.begin(at, bytes, instruction);
    }

    pub fn end_read(&mut self, at: u32, bytes: u32) {
        self.reading.end(at, bytes);
    }

    /// Returns true if a copy is under way that writes some of these bytes.
    pub fn writes(&self, at: usize, bytes: usize) -> bool {
        self.writing.to(at, bytes).is_some()
    }

    /// Returns true if no copy is under way to or from the places of an access.
    #[inline(always)]
    pub fn are_far(&self, p: &Pattern, from: usize) -> bool {
        [&self.writing, &self.reading].into_iter().all(|copies| {
            let far = |t: &Stretch| copies.to(from + t.at as usize, t.bytes as usize).is_none();
            copies.is_empty() || p.stretches.iter().all(far)
        })
    }
}

impl Machine<'_> {
    /// Reports an access to shared memory that a copy still writes to, or a write to memory that a copy may still read.
    /// `owner` is the block that has the memory, if it is another one.
    #[inline(always)]
    pub fn check_copies(
        &mut self,
        b: &BlockState,
        w: &Warp,
        owner: Option<&BlockState>,
        x: &LaneAccess,
    ) {
        let UnderWay { writing, reading } = &owner.unwrap_or(b).under_way;
        if writing.is_empty() && reading.is_empty() || is_off(Observer::Copies, x.site.pc) {
            return;
        }
        for (copies, writes) in [(writing, true), (reading, false)] {
            if copies.is_empty() || !(writes || x.writes()) {
                continue;
            }
            for lane in lanes(x.site.mask) {
                let Some(copy) = copies.to(x.at[lane] as usize, x.bytes as usize) else {
                    continue;
                };
                let at = At::lane(b, w, x.site.pc, lane as u32).address(x.at[lane]);
                let clash = self.copy_clash(x, owner.is_some(), writes);
                self.find_in_flight(at, Some(copy), clash, owner.map(|owner| owner.id));
            }
        }
    }

    /// Reports something that meets the operation of another instruction, or of this one if there is no other.
    #[cold]
    pub fn find_in_flight(
        &mut self,
        at: At,
        other: Option<u32>,
        clash: Clash,
        owner: Option<[u32; 3]>,
    ) {
        let kind = FindingKind::AsyncBeforeWait;
        self.find(kind, at, other.map(Other::instruction), |m| {
            let name = m.name_of(other.unwrap_or(at.instruction));
            FindingEvent::InFlight { name, clash, owner }
        });
    }

    /// Returns how an access meets a copy, which writes there if `writes` is true, and reads otherwise.
    fn copy_clash(&self, x: &LaneAccess, is_elsewhere: bool, writes: bool) -> Clash {
        let inst = self.program.code.get(x.site.pc as usize);
        match (is_elsewhere, x.direction, inst.map(|inst| &inst.op)) {
            _ if !writes => Clash::WritesSource,
            (false, Direction::Write, Some(Op::CpAsync { .. })) => Clash::Copies,
            (false, Direction::Write, Some(Op::Bulk(_))) => Clash::CopiesInBulk,
            (false, Direction::Read | Direction::Update, _) | (_, Direction::Read, _) => {
                Clash::Reads
            }
            _ => Clash::Writes,
        }
    }

    /// Reports a thread that ends while a copy of its own may still read shared memory.
    #[cold]
    pub fn tell_unfinished_read(&mut self, at: At, copy: u32, from: u32) {
        if is_off(Observer::Copies, copy) {
            return;
        }
        let at = at.address(u64::from(from));
        self.find_in_flight(at, Some(copy), Clash::ThreadEndsReading, None);
    }

    /// Reports copies to shared memory that are still on their way when their block ends: no thread is left to wait.
    pub fn tell_unawaited_copies(&mut self, b: &BlockState) {
        for d in b
            .mbarriers
            .under_way()
            .iter()
            .filter(|d| d.bytes.is_some() && d.from.is_none())
        {
            let Some(copy) = d.copies.first() else {
                continue;
            };
            if is_off(Observer::Copies, copy.instruction) {
                continue;
            }
            let at = At::thread(b.id, d.warp * LANES as u32 + d.lane, copy.instruction);
            let at = at.address(u64::from(copy.to));
            self.find_in_flight(at, None, Clash::NotAwaited, None);
        }
    }

    /// Returns the name of an instruction: its first two words if it has no longer name.
    pub fn name_of(&self, instruction: u32) -> String {
        let inst = self.program.code.get(instruction as usize);
        let form = inst.map_or("", |inst| self.program.form(inst));
        let name = NAMES.into_iter().find(|name| form.starts_with(name));
        name.map_or_else(
            || form.split('.').take(2).collect::<Vec<_>>().join("."),
            str::to_owned,
        )
    }
}

/// Copies under way to each 4-byte word of shared memory.
#[derive(Default)]
struct InFlight {
    /// The words up to the last one that a copy went to.
    words: Vec<Pending>,
    /// The number of words with at least one copy.
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
    fn is_empty(&self) -> bool {
        self.busy == 0
    }

    fn words(at: usize, bytes: usize) -> Range<usize> {
        at / 4..(at + bytes).div_ceil(4)
    }

    /// Notes that a copy to these bytes begins.
    fn begin(&mut self, at: u32, bytes: u32, instruction: u32) {
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

    /// Notes that a copy to these bytes has ended.
    fn end(&mut self, at: u32, bytes: u32) {
        for word in &mut self.words[Self::words(at as usize, bytes as usize)] {
            word.copies -= 1;
            self.busy -= u32::from(word.copies == 0);
        }
    }

    /// Returns the instruction of a copy under way to a word of these bytes, if there is one.
    #[inline(always)]
    fn to(&self, at: usize, bytes: usize) -> Option<u32> {
        let Range { start, end } = Self::words(at, bytes);
        let words = self.words.get(start..end.min(self.words.len()))?;
        let busy = words.iter().find(|word| word.copies > 0);
        busy.map(|word| word.instruction)
    }
}
