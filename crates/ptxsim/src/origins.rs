//! Finds the variables from whose address an access was computed, as far as the code shows it. A GPU has no bounds
//! between the variables of a state space: an access that leads out of one lies in the next, where nothing else can see
//! that it is wrong.
//!
//! Registers are followed as a whole, over all definitions, so that the order of instructions does not matter. An
//! address stays one of its variable through copies, conversions between windows, a number that is added, subtracted,
//! or'ed or xor'ed, and a mask that keeps its upper bits; through arguments of functions, too. A choice between two
//! variables is an address of either. Whatever else is made of an address (differences, shifts, products), what comes
//! from memory, and a choice between a variable and something unknown may lead anywhere.
//!
//! The variable counts in which the access lies, not the places that the address passes: `&s[-1]`, or a base that is
//! moved back by an offset that is added later, is right if the access lies in `s`. A compiler may split an array, but
//! joins none.
//!
//! What this misses: pointers that are loaded from memory (arrays of pointers, spilled ones), shuffled, or packed into
//! descriptors; members of one struct, arrays of one function in local memory, which are one variable in PTX, and parts
//! of dynamic shared memory, which is one block; the wrong one of two variables between which the program chooses; the
//! 65th variable of a program and those behind it.

use crate::isa::*;
use crate::program::*;
use crate::regs::Class;
use crate::switch::{Observer, is_off};
use std::collections::HashMap;

/// The values that a register may hold, over all instructions that write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// No value has been seen yet.
    Nothing,
    Number,
    /// An address that was computed from the address of one of these variables: a bit for each of the first 64.
    Of(u64),
    Anything,
}

impl Value {
    fn or(self, other: Value) -> Value {
        match (self, other) {
            (Value::Nothing, one) | (one, Value::Nothing) => one,
            (Value::Of(a), Value::Of(b)) => Value::Of(a | b),
            (a, b) if a == b => a,
            _ => Value::Anything,
        }
    }
}

/// For each instruction, the variables that its accesses may lie in.
#[derive(Default)]
pub struct Origins {
    variables: Vec<Variable>,
    /// The variables of each instruction, a bit for each; 0 if the access may lie anywhere.
    of: Vec<u64>,
}

impl Origins {
    pub fn new(program: &Program) -> Origins {
        let mut origins = Origins::default();
        let mut values = Values::new(program, &mut origins.variables);
        while values.pass(program) {}
        origins.of = program
            .code
            .iter()
            .map(|inst| {
                let joined = addresses(&inst.op)
                    .fold(Value::Nothing, |all, register| all.or(values.get(register)));
                match joined {
                    Value::Of(set) => set,
                    Value::Nothing | Value::Number | Value::Anything => 0,
                }
            })
            .collect();
        origins
    }

    /// Returns true if an access of `bytes` lies in a variable that its address was computed from, or if none of this
    /// space is known.
    #[inline(always)]
    pub fn hold(&self, pc: u32, space: AddressSpace, from: u64, bytes: u64) -> bool {
        let set = self.of.get(pc as usize).copied().unwrap_or_default();
        set == 0 || self.holds(set, space, from, bytes) || is_off(Observer::Bounds, pc)
    }

    fn holds(&self, set: u64, space: AddressSpace, from: u64, bytes: u64) -> bool {
        let mut none = true;
        for variable in self.all(set, space) {
            let last = from.wrapping_sub(variable.from).checked_add(bytes);
            let behind = variable.bytes.unwrap_or(u64::from(u32::MAX));
            if last.is_some_and(|last| last <= behind) {
                return true;
            }
            none = false;
        }
        none
    }

    fn all(&self, set: u64, space: AddressSpace) -> impl Iterator<Item = &Variable> {
        self.variables
            .iter()
            .enumerate()
            .filter(move |(n, variable)| set >> n & 1 == 1 && variable.space == space)
            .map(|(_, variable)| variable)
    }

    /// Returns the end of a message about an access that lies outside of the variables that its address was computed
    /// from. It is empty if none is known, or if it is only the one that the message has named already.
    pub fn named(&self, pc: u32, space: AddressSpace, already: Option<&str>) -> String {
        let set = self.of.get(pc as usize).copied().unwrap_or_default();
        let all: Vec<&Variable> = self.all(set, space).collect();
        if all
            .iter()
            .all(|variable| Some(variable.name.as_str()) == already)
        {
            return String::new();
        }
        let names: Vec<String> = all
            .into_iter()
            .map(|variable| match variable.bytes {
                Some(bytes) => format!("`{}` ({bytes} bytes)", variable.name),
                None => format!("`{}` (dynamic)", variable.name),
            })
            .collect();
        format!(
            "; it was computed from the address of {}",
            names.join(" or ")
        )
    }
}

/// Returns the registers that hold the addresses of an instruction, without the global side of a copy and without those of
/// tensor maps.
fn addresses(op: &Op) -> impl Iterator<Item = Register> {
    op.facts()
        .memory()
        .filter(|access| match access.object {
            Object::Data | Object::Texels => !(access.is_asynchronous() && access.is_global()),
            Object::Mbarrier => true,
            Object::TensorMap | Object::Heap | Object::Frame => false,
        })
        .filter_map(|access| access.address)
}

/// The values that registers and arguments of functions may hold.
struct Values {
    registers: [Vec<Value>; 3],
    constants: HashMap<Register, u64>,
    /// The values that are copied from a caller to a function, or back, by local address.
    arguments: HashMap<u64, Value>,
    changed: bool,
}

impl Values {
    fn new(program: &Program, variables: &mut Vec<Variable>) -> Values {
        let copied = program.code.iter().flat_map(|inst| match inst.op {
            Op::CopyLocal { from, to, bytes } => (0..bytes)
                .flat_map(|n| [u64::from(from + n), u64::from(to + n)])
                .collect(),
            _ => Vec::new(),
        });
        let mut values = Values {
            registers: program.registers.map(|n| vec![Value::Number; n as usize]),
            constants: program.constants().collect(),
            arguments: copied.map(|at| (at, Value::Nothing)).collect(),
            changed: false,
        };
        for register in program.code.iter().flat_map(Inst::written) {
            values.set(register, Value::Nothing);
        }
        for (register, variable) in &program.addresses {
            let known = variables.iter().position(|other| other == variable);
            let number = known.unwrap_or_else(|| {
                variables.push(variable.clone());
                variables.len() - 1
            });
            let value = match u32::try_from(number) {
                Ok(number @ 0..64) => Value::Of(1 << number),
                _ => Value::Anything,
            };
            values.set(*register, value);
        }
        values
    }

    fn get(&self, (class, number): Register) -> Value {
        let all = &self.registers[class as usize];
        all.get(number as usize).copied().unwrap_or(Value::Anything)
    }

    fn set(&mut self, (class, number): Register, value: Value) {
        if let Some(place) = self.registers[class as usize].get_mut(number as usize) {
            self.changed |= *place != value;
            *place = value;
        }
    }

    fn add(&mut self, register: Register, value: Value) {
        self.set(register, self.get(register).or(value));
    }

    /// Goes through the program once. Returns true if something new was found.
    fn pass(&mut self, program: &Program) -> bool {
        self.changed = false;
        for inst in &program.code {
            match &inst.op {
                Op::Alu(_) => {
                    if let Some((to, from)) = inst.arithmetic() {
                        self.add(to, self.result(program.form(inst), &from));
                    }
                }
                Op::CopyLocal { from, to, bytes } => {
                    for n in 0..*bytes {
                        let value = self.argument(u64::from(from + n)).unwrap_or(Value::Number);
                        self.hand_over(u64::from(to + n), value);
                    }
                }
                Op::Store(a) => {
                    for (at, register) in self.argument_places(a) {
                        self.hand_over(at, self.get(register));
                    }
                }
                Op::Load(a) => {
                    let arguments = self.argument_places(a);
                    for register in &a.registers {
                        let place = arguments.iter().find(|(_, other)| other == register);
                        let value = place.and_then(|(at, _)| self.argument(*at));
                        self.add(*register, value.unwrap_or(Value::Number));
                    }
                }
                _ => inst
                    .written()
                    .into_iter()
                    .for_each(|register| self.add(register, Value::Number)),
            }
        }
        self.changed
    }

    /// Returns the local address of each register that an access moves, and none if the address is no constant in local
    /// memory.
    fn argument_places(&self, a: &Access) -> Vec<(u64, Register)> {
        let base = self.constants.get(&a.address);
        let base = base.filter(|_| a.space == AddressSpace::Local);
        let Some(base) = base.map(|base| base.wrapping_add_signed(a.offset)) else {
            return Vec::new();
        };
        let places = (0..).map(|n: u64| base.wrapping_add(n * u64::from(a.width)));
        places.zip(a.registers.iter().copied()).collect()
    }

    fn argument(&self, at: u64) -> Option<Value> {
        self.arguments.get(&at).copied()
    }

    fn hand_over(&mut self, at: u64, value: Value) {
        if let Some(place) = self.arguments.get_mut(&at) {
            let joined = place.or(value);
            self.changed |= *place != joined;
            *place = joined;
        }
    }

    /// Returns the value of a result, from those of the operands.
    fn result(&self, form: &str, from: &[Register]) -> Value {
        let whole = |register: &&Register| register.0 != Class::Pred;
        let values: Vec<Value> = from.iter().filter(whole).map(|r| self.get(*r)).collect();
        if values.contains(&Value::Nothing) {
            return Value::Nothing;
        }
        if values.iter().all(|value| *value == Value::Number) {
            return Value::Number;
        }
        let moved = |pointer: Value, numbers: &[Value]| {
            let by_numbers = numbers.iter().all(|value| *value == Value::Number);
            if by_numbers { pointer } else { Value::Anything }
        };
        match (form.split('.').next(), values.as_slice()) {
            (Some("selp" | "slct"), [a, b, ..]) => a.or(*b),
            (Some("mov" | "cvt"), [pointer]) => *pointer,
            (Some("cvta" | "sub" | "mapa"), [pointer, rest @ ..]) => moved(*pointer, rest),
            (Some("mad"), [a, b, pointer]) => moved(*pointer, &[*a, *b]),
            (Some("add" | "or" | "xor"), [Value::Number, pointer]) => *pointer,
            (Some("add" | "or" | "xor"), [pointer, number]) => moved(*pointer, &[*number]),
            (Some("and"), [a, b]) => match (from, (a, b)) {
                ([_, mask], (pointer, Value::Number)) | ([mask, _], (Value::Number, pointer))
                    if self.keeps_upper_bits(*mask) =>
                {
                    *pointer
                }
                _ => Value::Anything,
            },
            _ => Value::Anything,
        }
    }

    /// Returns true for the constant of a mask that rounds an address down.
    fn keeps_upper_bits(&self, mask: Register) -> bool {
        let constant = self.constants.get(&mask);
        constant.is_some_and(|mask| mask >> 16 & 0xffff == 0xffff)
    }
}
