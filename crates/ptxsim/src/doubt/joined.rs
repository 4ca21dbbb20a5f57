//! Finds the accesses that ptxas may make into one: those in one stretch of code that lie side by side from the same
//! base, and loads of the same place.
//!
//! ptxas joins them if it can see that the whole is aligned, which is not looked at here. It joins accesses that lie
//! side by side in shared memory alone (ptxas 13.0.88: CALIBRATION.md). The code behind the label where an `if` ends
//! begins a stretch of its own, so that accesses before and behind an `if` are not compared.
//!
//! The base of an address is known as a symbol plus a constant ([`Value`]). Two registers have the same symbol if the
//! same operation was applied to the same values.

use crate::isa::{AddressSpace, Inst, Order};
use crate::isa::{Control, Direction, Facts, MemoryAccess, Object, Register};
use crate::program::Program;
use crate::regs::Class;
use std::collections::{BTreeMap, HashMap};

/// An unknown value, and the constant that was added to it. Constants are added to [`NOTHING`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Value {
    symbol: u32,
    plus: i64,
}

const NOTHING: u32 = 0;

impl Value {
    /// Returns the value with a constant added to it.
    fn plus(self, constant: i64) -> Self {
        let plus = self.plus.wrapping_add(constant);
        Self { plus, ..self }
    }
}

/// The widest access, in bytes: it cannot be joined with another.
const WIDEST: i64 = 16;

struct Values<'a> {
    program: &'a Program,
    constants: HashMap<Register, i64>,
    /// For each register that is written, whether several instructions write it.
    rewritten: HashMap<Register, bool>,
    now: HashMap<Register, Value>,
    /// The results of operations. An operation gives the same result for the same values.
    known: HashMap<(&'a str, Vec<Value>), Value>,
    symbols: u32,
}

impl<'a> Values<'a> {
    fn new(program: &'a Program) -> Self {
        let constants = program
            .constants()
            .map(|(register, value)| match register.0 {
                Class::R64 => (register, value as i64),
                Class::R32 | Class::Pred => (register, i64::from(value as i32)),
            })
            .collect();
        let mut rewritten = HashMap::new();
        for inst in &program.code {
            for register in inst.written() {
                let again = rewritten.contains_key(&register);
                rewritten.insert(register, again);
            }
        }
        Values {
            program,
            constants,
            rewritten,
            now: HashMap::new(),
            known: HashMap::new(),
            symbols: NOTHING,
        }
    }

    /// Returns a value that is like no other.
    fn unknown(&mut self) -> Value {
        self.symbols += 1;
        let symbol = self.symbols;
        Value { symbol, plus: 0 }
    }

    fn get(&mut self, register: Register) -> Value {
        if let Some(&plus) = self.constants.get(&register) {
            let symbol = NOTHING;
            return Value { symbol, plus };
        }
        if let Some(value) = self.now.get(&register) {
            return *value;
        }
        let value = self.unknown();
        self.now.insert(register, value);
        value
    }

    /// Forgets registers that several instructions write, because the code may come here from elsewhere.
    fn forget(&mut self) {
        let rewritten = &self.rewritten;
        self.now
            .retain(|register, _| !rewritten.get(register).copied().unwrap_or_default());
    }

    /// Follows the values through one instruction.
    fn step(&mut self, inst: &Inst) {
        let Some((to, from)) = inst.arithmetic() else {
            for register in inst.written() {
                self.now.remove(&register);
            }
            return;
        };
        let form = self.program.form(inst);
        let from: Vec<Value> = from
            .into_iter()
            .map(|register| self.get(register))
            .collect();
        let whole = inst.counts && inst.guard == 0;
        let mut words = form.split('.');
        let integer = form
            .rsplit('.')
            .next()
            .is_some_and(|ty| matches!(ty, "s32" | "u32" | "s64" | "u64" | "b32" | "b64"));
        let value = match (words.next(), from.as_slice()) {
            (Some("mov"), [a]) if whole => *a,
            (Some("add"), [a, b]) if whole && integer && a.symbol == NOTHING => b.plus(a.plus),
            // A compiler adds with `or` where it knows the bits to be free.
            (Some("add" | "or"), [a, b]) if whole && integer && b.symbol == NOTHING => {
                a.plus(b.plus)
            }
            (Some("sub"), [a, b]) if whole && integer && b.symbol == NOTHING => {
                a.plus(b.plus.wrapping_neg())
            }
            _ if whole => {
                let key = (form, from);
                match self.known.get(&key) {
                    Some(value) => *value,
                    None => {
                        let value = self.unknown();
                        self.known.insert(key, value);
                        value
                    }
                }
            }
            _ => self.unknown(),
        };
        self.now.insert(to, value);
    }
}

#[derive(Clone, Copy)]
struct JoinedAccess {
    at: usize,
    store: bool,
    space: AddressSpace,
    guard: u32,
    symbol: u32,
    from: i64,
    bytes: i64,
}

impl JoinedAccess {
    /// Returns true if ptxas may join the two accesses. `turn` is what the base of `other` has grown by since.
    fn may_join(&self, other: &JoinedAccess, turn: i64) -> bool {
        let from = other.from.wrapping_add(turn);
        let alike = (self.store, self.space, self.guard) == (other.store, other.space, other.guard);
        let narrow = self.bytes < WIDEST && other.bytes < WIDEST;
        let beside = self.from.wrapping_add(self.bytes) == from
            || from.wrapping_add(other.bytes) == self.from;
        let same = self.from == from && self.bytes == other.bytes && !self.store;
        alike
            && self.symbol == other.symbol
            && (same || beside && narrow && self.space == AddressSpace::Shared)
    }
}

/// Returns, for each instruction, whether it may become one with another.
pub fn joined(program: &Program) -> Vec<bool> {
    let code = &program.code;
    let mut found = vec![false; code.len()];
    let mut targets = vec![false; code.len() + 1];
    for inst in code {
        for to in inst.op.facts().control.targets() {
            if let Some(target) = targets.get_mut(*to as usize) {
                *target = true;
            }
        }
    }
    let mut values = Values::new(program);
    let mut stretch: Vec<JoinedAccess> = Vec::new();
    let mut first = 0;
    for (at, inst) in code.iter().enumerate() {
        if targets[at] {
            values.forget();
            stretch.clear();
            first = at;
        }
        let facts = inst.op.facts();
        if let Control::Branch(to) = facts.control {
            if *to as usize == first {
                unrolled(&values, &stretch, &mut found);
            }
            // Few instructions behind a branch forwards become predicated, and their loads go with those before it
            // (ptxas 13.0.88 does so across an `if` of three).
            if inst.guard == 0 || *to as usize <= at {
                stretch.clear();
            }
            first = at + 1;
        } else if apart(facts) {
            stretch.clear();
        }
        if let Some(access) = facts.memory().next().filter(MemoryAccess::is_plain)
            && let Some(a) = access.access
            && a.order == Order::Weak
            && matches!(a.space, AddressSpace::Shared | AddressSpace::Global)
        {
            let store = access.writes();
            let base = values.get(a.address);
            let place = JoinedAccess {
                at,
                store,
                space: a.space,
                guard: inst.guard,
                symbol: base.symbol,
                from: base.plus.wrapping_add(a.offset),
                bytes: i64::from(a.bytes()),
            };
            for other in stretch.iter().filter(|other| place.may_join(other, 0)) {
                found[at] = true;
                found[other.at] = true;
            }
            if store {
                // A load behind a store differs, unless they are seen to be at two places.
                stretch.retain(|p| p.store || p.space != a.space || p.symbol == place.symbol);
            }
            stretch.push(place);
        }
        values.step(inst);
    }
    found
}

/// Marks accesses of a loop without branches inside, which ptxas may unroll, by comparing those of one turn with those
/// of the next.
fn unrolled(values: &Values, stretch: &[JoinedAccess], found: &mut [bool]) {
    let grown: BTreeMap<u32, i64> = values
        .now
        .iter()
        .filter(|(register, _)| values.rewritten.get(register) == Some(&true))
        .map(|(_, value)| (value.symbol, value.plus))
        .filter(|(_, plus)| *plus != 0)
        .collect();
    for place in stretch {
        let Some(turn) = grown.get(&place.symbol) else {
            continue;
        };
        for other in stretch.iter().filter(|other| place.may_join(other, *turn)) {
            found[place.at] = true;
            found[other.at] = true;
        }
    }
}

/// Returns true if nothing is joined across an instruction with these facts.
fn apart(facts: Facts) -> bool {
    let leaves = match facts.control {
        Control::Table(_) | Control::Call(_) | Control::Return | Control::Exit => true,
        Control::Next | Control::Branch(_) | Control::Stop => false,
    };
    let changes = |access: MemoryAccess| {
        let update = access.direction == Direction::Update || access.object == Object::Mbarrier;
        update && !access.is_asynchronous()
    };
    leaves || facts.orders || facts.memory().any(changes)
}

/// Returns true if a register is 0 wherever it is read, and the code shows it: nothing but one `mov` of 0 writes it.
pub fn always_zero(program: &Program, register: Register) -> bool {
    let zero = |register: Register| {
        register.0 == Class::R32 && program.constants32.contains(&(register.1, 0))
    };
    let mut writes = program
        .code
        .iter()
        .filter(|inst| inst.written().contains(&register));
    match (writes.next(), writes.next()) {
        (None, _) => zero(register),
        (Some(inst), None) => {
            let moves = program.form(inst).starts_with("mov.") && inst.guard == 0;
            let operands = inst.arithmetic().map_or(Vec::new(), |(_, from)| from);
            moves && matches!(operands[..], [from] if zero(from))
        }
        (Some(_), Some(_)) => false,
    }
}
