//! Values that nothing wrote, followed as memory checkers of CPUs do: reading them is no fault, using them is. A bit of
//! a register is undefined until it gets a value, and so is a byte of memory (`memory::Known`).
//!
//! A bit of a result is undefined if it depends on undefined bits of the operands. No rule for each operation says
//! whether it does. Instead the operation is tried: it runs once with the bits that the registers happen to hold, and
//! then up to [`FILLINGS`] times with other values in the undefined bits ([`filling`]). A bit of the result that
//! differs from the first run in any trial is undefined. In this way a bit that a mask takes away, a half of a pair and
//! a value that a select drops are distinguished from the others, whatever the operation.
//!
//! The trials can miss a dependence, if no filling makes a difference: a comparison may come out differently for a few
//! values only, and none of these be tried. The fillings are chosen against the frequent cases. All zeros and all ones
//! decide `and`, `or` and unsigned limits, the other operand and its complement decide equality, large numbers of
//! either sign decide comparisons of floats, and four values that look random do the rest.
//!
//! Within one operation no dependence is invented, because each trial is a possible run. Between operations one can be:
//! each register is filled by itself, so that the difference of two copies of one undefined value counts as undefined,
//! although it is 0.
//!
//! An undefined value *matters* where it decides what is done (a branch, a guard, members, counts), where it is an
//! address, where an atomic is given it, and where global memory holds it when the launch has ended. There it is
//! reported, and the register counts as defined from then on. A function that calls itself takes back registers that
//! are taken for defined.
//!
//! None of this runs in a warp whose registers are all defined: `Warp::undefined` is `None` there. Following undefined
//! values is slow, so those of a source line that is known to be at fault are followed for a while only ([`Followed`]):
//! the report has the finding, and its count is a lower bound.

use super::state::*;
use crate::isa::*;
use crate::memory::{Missing, Origin, Unwritten};
use crate::parse::lines::LineId;
use crate::quick::QuickMap;
use crate::regs::{Class, LANES, Regs, lanes};
use crate::report::{At, FindingKind};
use model::{Dependent, FindingEvent, MemoryPlace};
use std::collections::BTreeMap;

/// The bits of one register in each of 32 lanes. A predicate is the lowest bit.
type Bits = [u64; LANES];

/// The undefined bits of one register, and the access that one of them came from.
#[derive(Clone)]
struct Marked {
    bits: Bits,
    origin: Origin,
}

/// Undefined bits of a warp's registers.
#[derive(Clone, Default)]
pub struct Undefined {
    /// By class and number of the register, because each operand is looked up.
    marked: [Vec<Option<Box<Marked>>>; 3],
    /// The number of registers with undefined bits.
    count: usize,
}

impl Undefined {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline(always)]
    fn has(&self, register: Register) -> bool {
        self.bits(register).is_some()
    }

    /// Returns the undefined bits of each lane, or `None` if the register is defined in all lanes.
    #[inline(always)]
    fn bits(&self, (class, number): Register) -> Option<&Marked> {
        let of_class = &self.marked[class as usize];
        of_class.get(number as usize)?.as_deref()
    }

    /// Replaces the undefined bits of a register, and forgets the register if there are none.
    fn put(&mut self, (class, number): Register, bits: Bits, origin: Origin) {
        let of_class = &mut self.marked[class as usize];
        let at = number as usize;
        let new = if bits == [0; LANES] {
            None
        } else {
            Some(Marked { bits, origin })
        };
        if new.is_some() && of_class.len() <= at {
            of_class.resize(at + 1, None);
        }
        let Some(slot) = of_class.get_mut(at) else {
            return;
        };
        self.count += usize::from(new.is_some());
        self.count -= usize::from(slot.is_some());
        match (slot, new) {
            (Some(old), Some(new)) => **old = new,
            (slot, new) => *slot = new.map(Box::new),
        }
    }

    /// Marks a register as defined in the lanes of `mask`.
    fn clear(&mut self, register: Register, mask: u32) {
        let Some(marked) = self.bits(register) else {
            return;
        };
        let (mut bits, origin) = (marked.bits, marked.origin);
        lanes(mask).for_each(|l| bits[l] = 0);
        self.put(register, bits, origin);
    }

    /// Marks more bits of a register as undefined in one lane. The origin that is known first stays.
    fn add(&mut self, register: Register, lane: usize, more: u64, origin: Origin) {
        let old = self.bits(register);
        let (mut bits, origin) = old.map_or(([0; LANES], origin), |m| (m.bits, m.origin));
        bits[lane] |= more;
        self.put(register, bits, origin);
    }
}

fn get(regs: &Regs, (class, number): Register) -> Bits {
    let at = number as usize;
    match class {
        Class::Pred => std::array::from_fn(|l| u64::from(regs.pred[at] >> l & 1)),
        Class::R32 => regs.r32[at].0.map(u64::from),
        Class::R64 => regs.r64[at].0,
    }
}

fn set(regs: &mut Regs, (class, number): Register, values: &Bits) {
    let at = number as usize;
    match class {
        Class::Pred => {
            let bit = |l: usize| ((values[l] & 1) as u32) << l;
            regs.pred[at] = (0..LANES).fold(0, |all, l| all | bit(l));
        }
        Class::R32 => regs.r32[at].0 = values.map(|v| v as u32),
        Class::R64 => regs.r64[at].0 = *values,
    }
}

fn all_bits(class: Class) -> u64 {
    match class {
        Class::Pred => 1,
        Class::R32 => u64::from(u32::MAX),
        Class::R64 => u64::MAX,
    }
}

/// The number of trials, each with other values in the undefined bits.
const FILLINGS: u32 = 10;

/// Returns the value of a register in trial `n`. `other` is what the next operand of the operation holds. Large numbers
/// of either sign in all float formats are among the values, as are zeros, ones, and values that depend on the register
/// and the lane alone, so that every run is the same.
fn filling(n: u32, register: Register, lane: usize, other: u64) -> u64 {
    match n {
        0 => 0,
        1 => u64::MAX,
        2 => other,
        3 => !other,
        4 => 0x7b7b_7b7b_7b7b_7b7b,
        5 => 0xfbfb_fbfb_fbfb_fbfb,
        n => {
            let key = u64::from(n) << 48 | u64::from(register.1) << 8 | lane as u64;
            let x = (key ^ (register.0 as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let x = (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x ^ x >> 32
        }
    }
}

/// The registers that an operation reads and writes, each once.
struct Operands {
    reads: Vec<Register>,
    writes: Vec<Register>,
}

impl Operands {
    fn new(inst: &Inst) -> Operands {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        inst.registers(|how, register| match how {
            Use::Value if !reads.contains(&register) => reads.push(register),
            Use::Write if !writes.contains(&register) => writes.push(register),
            _ => {}
        });
        Operands { reads, writes }
    }
}

/// Runs an operation, and marks the bits of its results in the lanes of `mask` that depend on undefined bits of its
/// operands.
///
/// The registers end up as the first run left them. The trials only show what differs.
fn try_fillings(
    regs: &mut Regs,
    undefined: &mut Undefined,
    o: &Operands,
    mask: u32,
    run: impl Fn(&mut Regs),
) {
    let origin = o
        .reads
        .iter()
        .find_map(|r| undefined.bits(*r).map(|m| m.origin));
    let Some(origin) = origin else {
        run(regs);
        return o.writes.iter().for_each(|r| undefined.clear(*r, mask));
    };
    let held: Vec<Bits> = o.reads.iter().map(|r| get(regs, *r)).collect();
    run(regs);
    let now: Vec<Bits> = o.writes.iter().map(|r| get(regs, *r)).collect();
    let mut differs = vec![[0; LANES]; now.len()];
    for n in 0..FILLINGS {
        for (i, register) in o.reads.iter().enumerate() {
            let Some(Marked { bits, .. }) = undefined.bits(*register) else {
                // The operand may be the result as well, and then holds the result of the trial before.
                if o.writes.contains(register) {
                    set(regs, *register, &held[i]);
                }
                continue;
            };
            let other = &held[(i + 1) % held.len()];
            let mut values = held[i];
            for l in (0..LANES).filter(|&l| bits[l] != 0) {
                let fill = filling(n, *register, l, other[l]) & all_bits(register.0);
                values[l] = values[l] & !bits[l] | fill & bits[l];
            }
            set(regs, *register, &values);
        }
        run(regs);
        for ((register, now), differs) in o.writes.iter().zip(&now).zip(&mut differs) {
            let result = get(regs, *register);
            for l in 0..LANES {
                differs[l] |= result[l] ^ now[l];
            }
        }
        // No further filling could add to it.
        let is_full = |(r, bits): (&Register, &Bits)| lanes(mask).all(|l| bits[l] == all_bits(r.0));
        if o.writes.iter().zip(&differs).all(is_full) {
            break;
        }
    }
    let marked = |r: &Register| undefined.has(*r);
    o.reads
        .iter()
        .zip(&held)
        .filter(|(r, _)| marked(r))
        .for_each(|(r, v)| set(regs, *r, v));
    for ((register, now), differs) in o.writes.iter().zip(&now).zip(&differs) {
        set(regs, *register, now);
        let mut bits = undefined.bits(*register).map_or([0; LANES], |m| m.bits);
        lanes(mask).for_each(|l| bits[l] = differs[l]);
        undefined.put(*register, bits, origin);
    }
}

/// The known facts on the undefined values of one source line.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    /// The number of operations that were tried.
    tries: u32,
    /// True if a finding names a value of the line.
    told: bool,
    /// Stores to global memory.
    left: u32,
}

/// Places in global memory that hold undefined values, by the store and the origin of the value.
type Left = BTreeMap<(u32, u32), Vec<(usize, usize, At, Origin)>>;

/// Places of one store that are remembered to be looked at when the launch has ended. Places beyond those read as never
/// written.
const MOST_LEFT: usize = 1 << 16;

/// The undefined values that a launch follows.
#[derive(Default)]
pub struct Traces {
    followed: QuickMap<LineId, Followed>,
    left: Left,
}

impl Traces {
    /// Returns true if findings depend on all blocks: a value is missing in memory until one writes it, or the limit of
    /// values that are followed is reached.
    pub fn depend_on_others(&self) -> bool {
        !self.left.is_empty() || self.followed.values().any(Followed::is_enough)
    }

    /// Adds what other blocks did with the values that are followed.
    pub fn add(&mut self, others: &Self) {
        for (line, theirs) in &others.followed {
            let own = self.followed.entry(*line).or_default();
            own.tries = own.tries.saturating_add(theirs.tries);
            own.told |= theirs.told;
            own.left = own.left.saturating_add(theirs.left);
        }
    }

    /// Removes all places in global memory that hold undefined values, and returns them.
    pub fn take_left(&mut self) -> impl Iterator<Item = (usize, usize, At, Origin)> + use<> {
        std::mem::take(&mut self.left).into_values().flatten()
    }
}

/// The number of operations that are tried on undefined values of one line. Beyond it they are followed no more, if the
/// line is known to be at fault.
const MOST_TRIES: u32 = 4_000;
/// The number of stores to global memory that show that a line is at fault, although nothing is reported before the
/// launch ends.
const STORES_TOLD: u32 = 500;

impl Followed {
    /// Returns true if values of the line are followed no more, because the line is known to be at fault.
    fn is_enough(&self) -> bool {
        self.tries > MOST_TRIES && (self.told || self.left > STORES_TOLD)
    }
}

impl Machine<'_> {
    /// Notes that a store by `by` leaves an undefined value in global memory.
    pub fn note_left(&mut self, (allocation, at): (usize, usize), by: At, origin: Origin) {
        self.followed(origin).left += 1;
        let key = (by.instruction, origin.instruction);
        let group = self.traces.left.entry(key).or_default();
        if group.len() < MOST_LEFT {
            group.push((allocation, at, by, origin));
        }
    }

    /// Returns the facts on the source line of the instruction that read the value first.
    fn followed(&mut self, origin: Origin) -> &mut Followed {
        let inst = self.program.code.get(origin.instruction as usize);
        let source = inst.and_then(|i| self.program.sources.get(i.source as usize));
        let line = source.map(|s| s.loc).unwrap_or_default();
        self.traces.followed.entry(line).or_default()
    }

    /// Marks the registers of a load by the undefined bytes at its place: extended by the sign where the load is.
    pub fn read_undefined(
        &mut self,
        w: &mut Warp,
        access: &Access,
        lane: usize,
        (missing, origin): Missing,
    ) {
        if self.followed(origin).is_enough() {
            return;
        }
        let undefined = w.undefined.get_or_insert_default();
        for (e, &register) in access.registers.iter().enumerate() {
            let width = access.width as usize;
            let bytes = (0..width).filter(|i| missing >> (e * width + i) & 1 == 1);
            let mut bits = bytes.fold(0, |all, i| all | 0xff_u64 << (8 * i));
            if access.signed && width < 8 {
                let shift = 64 - 8 * width;
                bits = ((bits << shift) as i64 >> shift) as u64;
            }
            bits &= if access.narrow {
                0xffff
            } else {
                all_bits(register.0)
            };
            if bits != 0 {
                undefined.add(register, lane, bits, origin);
            }
        }
        if undefined.is_empty() {
            w.undefined = None;
        }
    }

    /// Returns the undefined bytes that a lane stores by an access, and their origin.
    pub fn stored_undefined(w: &Warp, access: &Access, lane: usize) -> Option<Missing> {
        let undefined = w.undefined.as_ref()?;
        let (mut bytes, mut origin) = (0_u32, None);
        for (e, &register) in access.registers.iter().enumerate() {
            let Some(marked) = undefined.bits(register) else {
                continue;
            };
            let width = access.width as usize;
            for i in (0..width).filter(|i| marked.bits[lane] >> (8 * i) & 0xff != 0) {
                bytes |= 1 << (e * width + i);
                origin = origin.or(Some(marked.origin));
            }
        }
        origin.map(|origin| (bytes, origin))
    }

    /// Returns true if a register that the access stores has undefined bits in some lane.
    #[inline(always)]
    pub fn may_store_undefined(w: &Warp, access: &Access) -> bool {
        w.undefined
            .as_ref()
            .is_some_and(|u| access.registers.iter().any(|r| u.has(*r)))
    }

    /// Moves the undefined bits of one register of 32 bits to another, in all lanes, shifted to the left by `shift`
    /// bits, or to the right if it is negative. With `merge`, the bits that the register has already stay undefined.
    pub fn move_undefined(w: &mut Warp, to: u32, from: u32, shift: i32, merge: bool) {
        let Some(undefined) = &mut w.undefined else {
            return;
        };
        let moved = undefined.bits((Class::R32, from)).cloned();
        let old = undefined.bits((Class::R32, to)).cloned().filter(|_| merge);
        let Some(origin) = old.as_ref().or(moved.as_ref()).map(|m| m.origin) else {
            return undefined.clear((Class::R32, to), u32::MAX);
        };
        let of = |m: &Option<Marked>, l: usize| m.as_ref().map_or(0, |m| m.bits[l]);
        let shifted = |x: u64| if shift < 0 { x >> -shift } else { x << shift };
        let bits = |l: usize| (of(&old, l) | shifted(of(&moved, l))) & u64::from(u32::MAX);
        undefined.put((Class::R32, to), std::array::from_fn(bits), origin);
    }

    /// Marks bits of one lane of a 32-bit register as undefined.
    pub fn add_undefined(w: &mut Warp, register: u32, lane: usize, bits: u64, origin: Origin) {
        let undefined = w.undefined.get_or_insert_default();
        undefined.add((Class::R32, register), lane, bits, origin);
    }

    /// Marks a 32-bit register as defined in all lanes.
    pub fn clear_undefined(w: &mut Warp, register: u32) {
        if let Some(undefined) = &mut w.undefined {
            undefined.clear((Class::R32, register), u32::MAX);
        }
    }

    /// Returns the undefined bits of one lane of a 32-bit register, if the register has any, and their origin.
    pub fn undefined_bits(w: &Warp, register: u32, lane: usize) -> Option<(u64, Origin)> {
        let marked = w.undefined.as_ref()?.bits((Class::R32, register))?;
        Some((marked.bits[lane], marked.origin))
    }

    /// Runs an exchange between lanes or a product, whose operands may have undefined bits.
    pub fn with_undefined(
        &mut self,
        w: &mut Warp,
        inst: &Inst,
        mask: u32,
        run: impl Fn(&mut Regs),
    ) {
        let Some(mut undefined) = w.undefined.take() else {
            return run(&mut w.regs);
        };
        if self.followed_among(&undefined, inst) {
            inst.registers(|_, r| undefined.clear(r, u32::MAX));
        }
        try_fillings(&mut w.regs, &mut undefined, &Operands::new(inst), mask, run);
        w.undefined = (!undefined.is_empty()).then_some(undefined);
    }

    /// Counts that an operation is tried. Returns true if the line of its undefined operand is followed no more.
    fn followed_among(&mut self, undefined: &Undefined, inst: &Inst) -> bool {
        let mut origin = None;
        inst.registers(|_, r| origin = origin.or(undefined.bits(r).map(|m| m.origin)));
        origin.is_some_and(|origin| {
            let followed = self.followed(origin);
            followed.tries += 1;
            followed.is_enough()
        })
    }

    /// Runs arithmetic of a warp that has undefined bits. `now` has the lanes that come to the instruction, and `mask`
    /// those that execute it.
    pub fn alu_undefined(&mut self, w: &mut Warp, inst: &Inst, now: u32, mask: u32) {
        let Op::Alu(op) = &inst.op else { return };
        let Some(undefined) = &mut w.undefined else {
            return op.run(&mut w.regs, &inst.o, mask);
        };
        let guard = inst.guard_register().map(|g| (Class::Pred, g));
        let open = guard.and_then(|g| undefined.bits(g)).cloned();
        let operands = op.classes().iter().zip(&inst.o);
        if open.is_none() && !operands.clone().any(|(c, r)| undefined.has((*c, *r))) {
            return op.run(&mut w.regs, &inst.o, mask);
        }
        if self.followed_among(undefined, inst) {
            inst.registers(|_, r| undefined.clear(r, u32::MAX));
            if undefined.is_empty() {
                w.undefined = None;
            }
            return op.run(&mut w.regs, &inst.o, mask);
        }
        try_fillings(&mut w.regs, undefined, &Operands::new(inst), mask, |regs| {
            op.run(regs, &inst.o, mask);
        });
        // Where the guard is undefined, the result is the new value or the old one.
        if let (Some(open), Some(&class)) = (open, op.classes().first()) {
            for l in lanes(now).filter(|l| open.bits[*l] != 0) {
                undefined.add((class, inst.o[0]), l, all_bits(class), open.origin);
            }
        }
        if undefined.is_empty() {
            w.undefined = None;
        }
    }

    /// Reports what depends on undefined bits in any instruction but arithmetic, before it is executed, and marks these
    /// bits as defined from there on. `now` has the lanes that come to the instruction, and `mask` those that execute
    /// it.
    pub fn before_undefined(
        &mut self,
        b: &BlockState,
        w: &mut Warp,
        inst: &Inst,
        (now, mask): (u32, u32),
        pc: u32,
    ) {
        let Some(mut undefined) = w.undefined.take() else {
            return;
        };
        let guard = inst.guard_register().map(|g| (Class::Pred, g));
        let facts = inst.op.facts();
        let mut told: Vec<(Register, u32, Origin, Dependent)> = Vec::new();
        inst.registers(|how, register| {
            let Some(marked) = undefined.bits(register) else {
                return;
            };
            let among = if guard == Some(register) { now } else { mask };
            let open = lanes(among)
                .filter(|l| marked.bits[*l] != 0)
                .fold(0, |all, l| all | 1_u32 << l);
            let what = match how {
                Use::Control if guard == Some(register) => match facts.control {
                    Control::Branch(_) => Dependent::Branch,
                    // A load with an undefined guard has an undefined result, which is marked below.
                    Control::Next if facts.only_reads() => return,
                    Control::Next
                    | Control::Table(_)
                    | Control::Call(_)
                    | Control::Return
                    | Control::Exit
                    | Control::Stop => Dependent::Execution,
                },
                Use::Control => Dependent::Effect,
                Use::Address => Dependent::Address,
                Use::Value if facts.values == Values::Act => Dependent::Operand,
                Use::Value | Use::Write => return,
            };
            if open != 0 {
                told.push((register, open, marked.origin, what));
            }
        });
        for (register, open, origin, what) in told {
            undefined.clear(register, open);
            let at = At::lane(b, w, pc, open.trailing_zeros());
            self.depends(at, origin, what);
        }
        // Exchanges and products look at their operands themselves. The results of all others have values now.
        if facts.values != Values::Compute {
            let open = guard.and_then(|g| undefined.bits(g)).cloned();
            inst.registers(|how, register| {
                if how != Use::Write {
                    return;
                }
                undefined.clear(register, mask);
                if let Some(open) = &open {
                    for l in lanes(now).filter(|l| open.bits[*l] != 0) {
                        undefined.add(register, l, all_bits(register.0), open.origin);
                    }
                }
            });
        }
        w.undefined = (!undefined.is_empty()).then_some(undefined);
    }

    /// Reports something that depends on an undefined value.
    #[cold]
    pub fn depends(&mut self, at: At, origin: Origin, dependent: Dependent) {
        self.followed(origin).told = true;
        let address = match origin.from {
            Unwritten::Global(i, offset) => self.memory.at(i).base + offset as u64,
            Unwritten::Shared(a) | Unwritten::Local(a) => u64::from(a),
        };
        let at = at.address(at.address.unwrap_or(address));
        self.find(
            FindingKind::Uninitialised,
            at,
            Some(Other::instruction(origin.instruction)),
            |m| {
                let memory = match origin.from {
                    Unwritten::Global(i, offset) => MemoryPlace::Buffer {
                        name: m.memory.at(i).name.clone(),
                        byte: offset as u64,
                    },
                    Unwritten::Shared(a) => MemoryPlace::Shared(u64::from(a)),
                    Unwritten::Local(a) => MemoryPlace::Local(u64::from(a)),
                };
                FindingEvent::Unwritten { dependent, memory }
            },
        );
    }
}
