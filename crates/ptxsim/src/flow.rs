//! Facts that follow from the control flow of a program and the registers that its instructions read and write: guesses
//! of compare-and-swap loops, answers of atomics that are read, and waits.
//!
//! Control flow is read off the flat code: an instruction leads to the next one and to the targets of its branch. This
//! module does not look for points at which lanes meet again. At run time the lanes with the lowest instruction number
//! run first, and lanes that come to the same instruction go on together (`exec::warp`).

use crate::isa::wgmma::OperandA;
use crate::isa::*;
use crate::program::*;
use crate::regs::Class;
use std::collections::{HashMap, HashSet};

/// Marks the instructions that name a register of a `wgmma` and are none themselves.
pub fn mark_fragments(program: &mut Program) {
    let mut of_products: HashSet<u32> = HashSet::new();
    for inst in &program.code {
        if let Op::Wgmma(m) = &inst.op {
            of_products.extend(&m.d);
            if let OperandA::Registers(a) = &m.a {
                of_products.extend(a);
            }
        }
    }
    if of_products.is_empty() {
        return;
    }
    let has = |inst: &Inst| {
        let registers = inst.registers_of(|_| true).into_iter();
        let mut words = registers.filter(|(class, _)| *class == Class::R32);
        words.any(|(_, r)| of_products.contains(&r)) && !matches!(inst.op, Op::Wgmma(_))
    };
    program.fragments = program.code.iter().map(has).collect();
}

/// Marks the proxy of each instruction's accesses.
pub fn mark_proxies(program: &mut Program) {
    program.proxies = program
        .code
        .iter()
        .map(|inst| inst.op.facts().proxy())
        .collect();
}

/// The registers whose sum is an address, sorted, and the constant that is added to them.
type AddressTerms = (Vec<Register>, i64);

/// The number of registers that an address may be the sum of.
const MAX_TERMS: usize = 8;

/// The instructions that write each register, and those that read it.
struct Links<'a> {
    program: &'a Program,
    writers: HashMap<Register, Vec<usize>>,
    readers: HashMap<Register, Vec<usize>>,
    /// Destinations of branches and calls, in ascending order.
    targets: Vec<usize>,
}

impl<'a> Links<'a> {
    fn new(program: &'a Program) -> Links<'a> {
        let (mut writers, mut readers) = (HashMap::new(), HashMap::new());
        for (at, inst) in program.code.iter().enumerate() {
            inst.registers(|how, register| {
                let all: &mut HashMap<Register, Vec<usize>> = match how {
                    Use::Write => &mut writers,
                    _ => &mut readers,
                };
                let all = all.entry(register).or_default();
                if all.last() != Some(&at) {
                    all.push(at);
                }
            });
        }
        let mut targets: Vec<usize> = program
            .code
            .iter()
            .flat_map(|inst| inst.op.facts().control.targets())
            .map(|to| *to as usize)
            .collect();
        targets.sort_unstable();
        targets.dedup();
        Links {
            program,
            writers,
            readers,
            targets,
        }
    }

    fn inst(&self, at: usize) -> &Inst {
        &self.program.code[at]
    }

    /// Returns the target and the source of an instruction that copies a register, unchanged but for the window of an
    /// address.
    fn copied(&self, inst: &Inst) -> Option<(Register, Register)> {
        let (to, operands) = inst.arithmetic()?;
        let (form, from) = (self.program.form(inst), *operands.first()?);
        let plain = form.starts_with("mov.") && operands.len() == 1 || form.starts_with("cvta.");
        (plain && inst.counts && inst.guard == 0 && to.0 == from.0).then_some((to, from))
    }

    /// Follows copies to the register that they come from, as far as one instruction alone writes it.
    fn root(&self, mut register: Register) -> Register {
        for _ in 0..64 {
            let copied = match self.writers.get(&register).map(Vec::as_slice) {
                Some([one]) => self.copied(self.inst(*one)),
                _ => None,
            };
            match copied {
                Some((_, from)) => register = from,
                None => break,
            }
        }
        register
    }

    /// Returns the place that an access has. Sums are taken apart, because the two accesses to one place often have an
    /// address register each.
    fn place(&self, a: &Access) -> AddressTerms {
        let (mut terms, mut constant) = (Vec::new(), a.offset);
        let mut open = vec![a.address];
        while let Some(register) = open.pop() {
            let register = self.root(register);
            match (self.program.constant(register), self.summands(register)) {
                (Some(value), _) => constant = constant.wrapping_add_unsigned(value),
                (None, Some(both)) if open.len() + terms.len() < MAX_TERMS => open.extend(both),
                (None, _) => terms.push(register),
            }
        }
        terms.sort_unstable();
        (terms, constant)
    }

    /// Returns the two registers of 64 bits whose sum a register is, if one addition alone writes it.
    fn summands(&self, register: Register) -> Option<[Register; 2]> {
        let [one] = self.writers.get(&register)?.as_slice() else {
            return None;
        };
        let inst = self.inst(*one);
        let (to, operands) = inst.arithmetic()?;
        let adds = ["add.s64", "add.u64"].contains(&self.program.form(inst));
        let both = <[Register; 2]>::try_from(operands).ok()?;
        let wide = both.iter().all(|(class, _)| *class == Class::R64);
        (adds && wide && to == register && inst.counts && inst.guard == 0).then_some(both)
    }

    /// Returns the instruction that a register has its value from where `at` reads it: the last one before in straight
    /// code, or the only one there is.
    fn written_for(&self, register: Register, at: usize) -> Option<usize> {
        let all = self.writers.get(&register)?;
        let before = all.iter().rev().find(|writer| **writer < at);
        match (before, all.as_slice()) {
            (Some(&last), _) if self.inst(last).guard == 0 && self.straight_behind(last, at) => {
                Some(last)
            }
            (_, &[one]) => Some(one),
            _ => None,
        }
    }

    /// Returns the compare-and-swap at a place whose result a register holds where `at` reads it.
    fn swapped(&self, register: Register, place: &AddressTerms, at: usize) -> Option<&Atomic> {
        let mut register = register;
        for _ in 0..64 {
            let writer = self.written_for(register, at)?;
            match self.copied(self.inst(writer)) {
                Some((_, from)) => register = from,
                None => return self.swap(writer, place),
            }
        }
        None
    }

    /// Returns true if every value that a register can hold is the result of a compare-and-swap at `place`. Copies
    /// between registers are followed back to their writers.
    fn holds_swapped(&self, register: Register, place: &AddressTerms) -> bool {
        let (mut seen, mut open) = (HashSet::new(), vec![register]);
        while let Some(register) = open.pop() {
            let Some(writers) = self.writers.get(&register) else {
                return false;
            };
            for &at in writers {
                match self.copied(self.inst(at)) {
                    Some((_, from)) if seen.insert(from) => open.push(from),
                    Some(_) => {}
                    None if self.swap(at, place).is_some() => {}
                    None => return false,
                }
            }
        }
        true
    }

    /// Returns the compare-and-swap at an instruction, if it is one at this place.
    fn swap(&self, at: usize, place: &AddressTerms) -> Option<&Atomic> {
        match &self.inst(at).op {
            Op::Atom(a) if a.op == AtomOp::Cas && self.place(&a.access) == *place => Some(a),
            _ => None,
        }
    }

    /// Returns the two registers that an instruction compares for equality or inequality.
    fn compares(&self, inst: &Inst) -> Option<[Register; 2]> {
        let ((class, _), operands) = inst.arithmetic()?;
        let form = self.program.form(inst);
        let equal = form.starts_with("setp.eq.") || form.starts_with("setp.ne.");
        let sides = operands.try_into().ok()?;
        (equal && class == Class::Pred).then_some(sides)
    }

    /// Returns the destination of a branch for the case that a compare-and-swap at `place` found the value that it
    /// expected, where that value is in one of `guesses`. Returns `None` for all other instructions.
    fn found(&self, at: usize, place: &AddressTerms, guesses: &HashSet<Register>) -> Option<usize> {
        let inst = self.inst(at);
        let Op::Branch(to) = inst.op else { return None };
        let guard = inst.guard_register()?;
        let writer = self.written_for((Class::Pred, guard), at)?;
        let compare = self.inst(writer);
        let [a, b] = self.compares(compare)?;
        let expected = |result: Register, other: Register| {
            let swap = self.swapped(result, place, writer)?;
            let compared = swap.access.registers.first()?;
            let same = self.root(*compared) == self.root(other);
            (same && guesses.contains(compared)).then_some(())
        };
        expected(a, b).or_else(|| expected(b, a))?;
        let differs = self.program.form(compare).starts_with("setp.ne.");
        let taken = differs != (inst.guard & 1 == 0);
        (compare.guard == 0).then_some(if taken { to as usize } else { at + 1 })
    }

    /// Returns the instructions that can be reached from a load without a compare-and-swap at its place that finds the
    /// loaded value.
    fn not_found_from(
        &self,
        from: usize,
        place: &AddressTerms,
        guessed: Register,
    ) -> HashSet<usize> {
        let (code, guesses) = (&self.program.code, self.copies(guessed));
        let (mut seen, mut open) = (HashSet::new(), vec![from + 1]);
        while let Some(at) = open.pop() {
            if at >= code.len() || !seen.insert(at) {
                continue;
            }
            let inst = &code[at];
            let found = self.found(at, place, &guesses);
            let mut go = |to: usize| {
                if found != Some(to) {
                    open.push(to);
                }
            };
            let always = inst.guard == 0;
            let control = inst.op.facts().control;
            control.targets().iter().for_each(|to| go(*to as usize));
            let ends = !matches!(control, Control::Next | Control::Call(_));
            if !(ends && always) {
                go(at + 1);
            }
        }
        seen
    }

    /// Returns true if `at` can be reached only through `from`: no branch or call leads between them.
    fn straight_behind(&self, from: usize, at: usize) -> bool {
        let next = self.targets.partition_point(|to| *to <= from);
        from < at && self.targets.get(next).is_none_or(|to| *to > at)
    }

    /// Returns the register and all registers that it is copied to, directly or by other copies.
    fn copies(&self, register: Register) -> HashSet<Register> {
        let (mut all, mut open) = (HashSet::from([register]), vec![register]);
        while let Some(register) = open.pop() {
            for &at in self.readers.get(&register).into_iter().flatten() {
                if let Some((to, from)) = self.copied(self.inst(at))
                    && from == register
                    && all.insert(to)
                {
                    open.push(to);
                }
            }
        }
        all
    }

    /// Returns true if a load only reads a guess for a compare-and-swap loop. Such a loop reads a value without
    /// synchronisation, computes a new one from it, and stores that by a compare-and-swap, which fails if the value was
    /// an old one. The read then races with the stores of other threads, but a wrong guess has no effect.
    ///
    /// These conditions have to hold: a compare-and-swap at the same place compares with the value, the new value is
    /// computed from it and not from an older guess, and nothing else uses the value before a compare-and-swap has
    /// confirmed it. In doubt the load is no guess, and its races are reported.
    fn is_guess(&self, from: usize, load: &Access) -> bool {
        let [guessed] = load.registers.as_slice() else {
            return false;
        };
        let place = self.place(load);
        if !(0..self.program.code.len()).any(|at| self.swap(at, &place).is_some()) {
            return false;
        }
        // `raw` has the copies of the value, and `derived` what was computed from them, predicates too.
        let (mut raw, mut derived) = (HashSet::from([*guessed]), HashSet::new());
        let mut open = vec![*guessed];
        let mut swaps = Vec::new();
        let wrong_until = std::cell::OnceCell::new();
        // An instruction that can be reached before a compare-and-swap has confirmed the guess may use a wrong one.
        let may_be_wrong = |at: usize| {
            let reached = wrong_until.get_or_init(|| self.not_found_from(from, &place, *guessed));
            reached.contains(&at)
        };
        let is_result = |side: Register, at: usize| {
            self.swapped(side, &place, at).is_some() || self.holds_swapped(side, &place)
        };
        while let Some(register) = open.pop() {
            for &at in self.readers.get(&register).into_iter().flatten() {
                if !may_be_wrong(at) {
                    continue;
                }
                let inst = self.inst(at);
                if let Some((to, from)) = self.copied(inst)
                    && from == register
                    && raw.contains(&register)
                {
                    if raw.insert(to) {
                        open.push(to);
                    }
                    continue;
                }
                let steers = inst.registers_of(|how| matches!(how, Use::Address | Use::Control));
                if steers.contains(&register) {
                    return false;
                }
                if let Some(a) = self.swap(at, &place) {
                    // The value has to be compared as it was read.
                    let compared = a.access.registers.iter().all(|r| raw.contains(r));
                    if !compared {
                        return false;
                    }
                    swaps.push(a);
                    continue;
                }
                let Some((result, _)) = inst.arithmetic() else {
                    return false;
                };
                if raw.contains(&register)
                    && let Some(sides) = self.compares(inst)
                    && sides.iter().any(|side| is_result(*side, at))
                {
                    continue;
                }
                if derived.insert(result) {
                    open.push(result);
                }
            }
        }
        // The value swapped in follows from the value compared, and not from an older guess.
        let follows = |a: &&Atomic| {
            let Some(&compared) = a.access.registers.first() else {
                return false;
            };
            let mut seen = HashSet::new();
            let mut open: Vec<Register> = a.c.iter().map(|r| (a.class, *r)).collect();
            while let Some(register) = open.pop() {
                if !seen.insert(register) {
                    continue;
                }
                if raw.contains(&register) {
                    let again = self.writers.get(&register).is_some_and(|all| all.len() > 1);
                    if self.root(register) != self.root(compared) {
                        if self.copy_of_compared(register, compared, again) {
                            continue;
                        } else {
                            return false;
                        }
                    }
                    continue;
                }
                if derived.contains(&register) {
                    for &at in self.writers.get(&register).into_iter().flatten() {
                        open.extend(self.inst(at).registers_of(|how| how == Use::Value));
                    }
                }
            }
            true
        };
        !swaps.is_empty() && swaps.iter().all(follows)
    }

    /// Returns true if a register is written once, as a copy of what is compared.
    fn copy_of_compared(&self, register: Register, compared: Register, again: bool) -> bool {
        let copies = |at: &usize| {
            self.copied(self.inst(*at))
                .is_some_and(|(_, from)| self.root(from) == self.root(compared))
        };
        !again
            && self
                .writers
                .get(&register)
                .is_some_and(|all| all.iter().all(copies))
    }

    /// Returns true if a value that an instruction within a loop reads decides when the loop is left.
    fn decides(&self, at: usize, within: &std::ops::RangeInclusive<usize>) -> bool {
        let mut seen: HashSet<Register> = HashSet::new();
        let mut open = self.inst(at).written();
        while let Some(register) = open.pop() {
            if !seen.insert(register) {
                continue;
            }
            let readers = self.readers.get(&register).into_iter().flatten();
            for &at in readers.filter(|at| within.contains(at)) {
                let inst = self.inst(at);
                let outside = |to: usize| !within.contains(&to);
                let leaves = match inst.op.facts().control {
                    Control::Branch(to) => outside(*to as usize) || outside(at + 1),
                    Control::Table(_) | Control::Exit | Control::Return => true,
                    Control::Next | Control::Call(_) | Control::Stop => false,
                };
                if leaves {
                    return true;
                }
                open.extend(inst.written());
            }
        }
        false
    }
}

/// Marks the loads whose value is a guess of a compare-and-swap loop.
pub fn mark_guesses(program: &mut Program) {
    let swaps = |inst: &Inst| matches!(&inst.op, Op::Atom(a) if a.op == AtomOp::Cas);
    if !program.code.iter().any(swaps) {
        return;
    }
    let links = Links::new(program);
    let guesses: Vec<usize> = (0..program.code.len())
        .filter(|&at| match &program.code[at].op {
            Op::Load(a) => a.order == Order::Weak && links.is_guess(at, a),
            _ => false,
        })
        .collect();
    for at in guesses {
        if let Op::Load(a) = &mut program.code[at].op {
            a.guess = true;
        }
    }
}

/// Marks the atomics whose old value an instruction reads.
pub fn mark_answers(program: &mut Program) {
    let read: HashSet<Register> = program.code.iter().flat_map(Inst::read).collect();
    for inst in &mut program.code {
        if let Op::Atom(atom) = &mut inst.op {
            let is_read = |old: &u32| read.contains(&(atom.class, *old));
            atom.answers = atom.destinations.iter().any(is_read);
        }
    }
}

/// Returns, for each instruction, whether it waits in one of the loops for what others do. A strong read of shared
/// memory waits if it decides when the loop is left and no barrier of the block comes in each turn.
pub fn waits(program: &Program, loops: &[std::ops::RangeInclusive<usize>]) -> Vec<bool> {
    let links = Links::new(program);
    let meets = |within: &std::ops::RangeInclusive<usize>| {
        let code = program.code.get(within.clone()).unwrap_or_default();
        code.iter()
            .any(|inst| inst.op.facts().meeting == Meeting::Block)
    };
    (0..program.code.len())
        .map(|at| {
            let op = &program.code[at].op;
            let mut around = loops.iter().filter(|l| l.contains(&at));
            let in_shared = |access: MemoryAccess| access.space == AddressSpace::Shared;
            if !op.polls() {
                false
            } else if matches!(op, Op::Load(_)) && op.facts().memory().all(in_shared) {
                around.any(|l| !meets(l) && links.decides(at, l))
            } else {
                around.next().is_some()
            }
        })
        .collect()
}
