//! Makes a `Program` of an `ast::Module`: names become register numbers and addresses, dotted words become operations.
//!
//! The first word of an instruction leads to a function of one of the submodules (`Decoder::instruction`). It matches
//! the other words, checks the operands, and emits one [`Inst`] or several steps, of which the first one counts. A form
//! is accepted only if a pattern or a table has it. Everything else is refused here with its form and its line
//! ([`LoadError::Unsupported`]), and nothing is left for run time. A refusal concerns the kernels that may come to the
//! instruction, because only the functions that a kernel may call are decoded with it.
//!
//! Callees come before their caller in the code array. The scheduler runs the lanes with the lowest instruction number
//! first, so that lanes inside a callee return before the rest goes on.

mod arith;
mod atomic_forms;
mod bulk;
mod calls;
mod clusters;
mod control;
mod convert;
mod float_forms;
mod image_forms;
mod layout;
mod matrix_forms;
mod mbarrier;
mod memory_forms;
mod operand;
mod scaled_forms;
mod scope;
mod tensormap_forms;
mod video_forms;
mod warp_forms;
mod wgmma_forms;

pub use layout::lay_out;

use crate::alu::{AluOp, Operands};
use crate::isa::*;
use crate::parse::ast::*;
use crate::parse::lines::LineId;
use crate::program::*;
use crate::regs::Class;
use scope::{Scopes, Symbol};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The reason for which a module or a kernel cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Parse(#[from] crate::parse::ParseError),
    /// The form is valid PTX, or may be, and this library does not execute it.
    #[error("PTX line {}, column {}: `{form}` is not supported{detail} ({source_line})", pos.line, pos.column)]
    Unsupported {
        pos: Pos,
        form: String,
        detail: String,
        source_line: String,
    },
    #[error("PTX line {}, column {}: {message}", pos.line, pos.column)]
    Invalid { pos: Pos, message: String },
}

pub(crate) type Load<T> = Result<T, LoadError>;

/// The parts that all entries of a module share. They are found once, as a module may have hundreds of entries.
pub struct Common {
    calls: calls::Calls,
    asks_for_reserved: bool,
}

impl Common {
    pub fn new(module: &Module) -> Self {
        Self {
            calls: calls::Calls::new(module),
            asks_for_reserved: asks_for_reserved(module),
        }
    }
}

/// Decodes a kernel and the functions that it may call.
pub fn decode<'a>(
    module: &'a Module,
    common: &'a Common,
    entry: &'a Function,
    variables: &'a [ModuleVariable],
) -> Load<Program> {
    let mut d = Decoder::new(module, common, variables);
    d.kernel(entry)?;
    d.patch_calls()?;
    Ok(d.finish(entry))
}

/// The number of 32-bit registers of a multiprocessor.
const REGISTERS: u32 = 1 << 16;
/// The number of registers of a thread is a multiple of this.
const REGISTER_UNIT: u32 = 8;

/// Returns the number of registers of a thread at the entry of a kernel with `setmaxnreg`. That is the number of
/// `.maxnreg`, or as many as fit with `.minnctapersm` blocks of its size on a multiprocessor, but no more than the
/// largest `setmaxnreg.inc` asks for. Returns `None` if the kernel states neither, as ptxas then ignores `setmaxnreg`
/// ("unable to determine register count at entry"). Seen with ptxas 13.0.88.
fn entry_registers(entry: &Function, code: &[Inst]) -> Option<u32> {
    let changes = code.iter().filter_map(|inst| match inst.op {
        Op::SetRegisters(change) => Some(change),
        _ => None,
    });
    if let (Some(count), true) = (entry.max_registers, changes.clone().next().is_some()) {
        return Some(count.next_multiple_of(REGISTER_UNIT));
    }
    let threads = entry.required_threads.or(entry.max_threads)?;
    let threads = threads
        .iter()
        .try_fold(1_u32, |all, n| all.checked_mul(*n))?;
    let resident = threads
        .next_multiple_of(32)
        .checked_mul(entry.min_blocks?)?;
    let fitting = REGISTERS.checked_div(resident)? / REGISTER_UNIT * REGISTER_UNIT;
    let wanted = changes.filter(|change| change.takes).map(|c| c.count).max();
    Some(fitting.min(wanted.unwrap_or(256)))
}

/// Returns true if an instruction of the module reads the location of the shared memory that the system reserves.
fn asks_for_reserved(module: &Module) -> bool {
    let reserved =
        |o: &Operand| matches!(o, Operand::Name(n) if n.starts_with("%reserved_smem_offset_"));
    let bodies = module
        .functions
        .iter()
        .flat_map(|f| f.body.iter().flatten());
    bodies.into_iter().any(|s| match s {
        Statement::Instruction(i) => i.operands.iter().any(reserved),
        _ => false,
    })
}

/// The depth of functions that call functions, at most: each takes stack of this library.
const MAX_CALLS: usize = 256;

/// A device function that has been placed.
#[derive(Clone, Default)]
struct Placed {
    /// The address in local memory and the size in bytes of each parameter.
    params: Vec<(u32, u32)>,
    returns: Vec<(u32, u32)>,
}

/// The instruction at work before the first one.
static NO_INSTRUCTION: Instruction = Instruction {
    guard: None,
    words: Vec::new(),
    operands: Vec::new(),
    pos: Pos { line: 0, column: 0 },
    loc: LineId::NONE,
};

/// The state of decoding one kernel.
struct Decoder<'a> {
    module: &'a Module,
    variables: &'a [ModuleVariable],
    /// The PTX instruction that is being decoded.
    ptx: &'a Instruction,
    /// The program so far, without what [`Decoder::finish`] adds.
    program: Program,
    constants32: BTreeMap<u32, u32>,
    constants64: BTreeMap<u64, u32>,
    /// The registers with an address in a variable, and that address.
    addresses: Vec<((Class, u32), u64, Variable)>,
    specials: BTreeMap<(Special, Class), u32>,
    scopes: Scopes,
    placed: HashMap<String, Placed>,
    placing: HashSet<String>,
    /// The entries of functions whose body is placed.
    entries: HashMap<String, u32>,
    calls: &'a calls::Calls,
    /// The calls whose target is not placed yet: instruction, which of its targets, function.
    calls_to_patch: Vec<(usize, usize, String)>,
    /// The function at work, or `None` for the kernel, which nothing calls.
    caller: Option<String>,
    frame_numbers: HashMap<String, u32>,
    frames: HashMap<String, Frame>,
    /// The register of the stack pointer, which is unused if no function needs it.
    stack_pointer: u32,
    /// The bytes of variables of each activation of the function at work, if it may be entered again.
    activation: Option<u32>,
    /// The branches whose label is not placed yet: instruction, which target, scope, label.
    pending: Vec<(usize, usize, usize, String, Pos)>,
    branch_lists: HashMap<String, Vec<String>>,
    carry: Option<u32>,
    is_kernel: bool,
    kernel: String,
    /// The guard of the instruction at work, as in [`Inst::guard`].
    guard: u32,
    /// True until the instruction at work has emitted its first step, which counts.
    first_step: bool,
}

impl<'a> Decoder<'a> {
    fn new(module: &'a Module, common: &'a Common, variables: &'a [ModuleVariable]) -> Self {
        let reserved_shared = if common.asks_for_reserved {
            RESERVED_SHARED
        } else {
            0
        };
        Decoder {
            module,
            variables,
            ptx: &NO_INSTRUCTION,
            program: Program {
                lines: module.lines.clone(),
                // Number 0 of each file takes the results that are not wanted.
                registers: [1, 1, 1],
                shared_bytes: reserved_shared,
                reserved_shared,
                shared_granule: 16,
                ..Program::default()
            },
            constants32: BTreeMap::new(),
            constants64: BTreeMap::new(),
            addresses: Vec::new(),
            specials: BTreeMap::new(),
            scopes: Scopes::default(),
            placed: HashMap::new(),
            placing: HashSet::new(),
            entries: HashMap::new(),
            calls: &common.calls,
            calls_to_patch: Vec::new(),
            caller: None,
            frame_numbers: HashMap::new(),
            frames: HashMap::new(),
            stack_pointer: 0,
            activation: None,
            pending: Vec::new(),
            branch_lists: HashMap::new(),
            carry: None,
            is_kernel: true,
            kernel: String::new(),
            guard: 0,
            first_step: true,
        }
    }

    /// Adds to the program what is known when all is decoded.
    fn finish(self, entry: &Function) -> Program {
        let mut program = self.program;
        program.name.clone_from(&entry.name);
        program.entry_registers = entry_registers(entry, &program.code);
        program.max_threads = entry.max_threads;
        program.required_threads = entry.required_threads;
        program.clusters = entry.clusters.clone();
        program.shared_granule = program.shared_granule.clamp(1, 4);
        program.frames = vec![Frame::default(); self.frame_numbers.len()];
        for (name, n) in &self.frame_numbers {
            if let (Some(to), Some(frame)) =
                (program.frames.get_mut(*n as usize), self.frames.get(name))
            {
                *to = frame.clone();
            }
        }
        program.constants32 = self.constants32.into_iter().map(|(v, r)| (r, v)).collect();
        program.constants64 = self.constants64.into_iter().map(|(v, r)| (r, v)).collect();
        for ((class, register), address, variable) in self.addresses {
            match class {
                Class::R64 => program.constants64.push((register, address)),
                _ => program.constants32.push((register, address as u32)),
            }
            program.addresses.push(((class, register), variable));
        }
        let largest = self.frames.values().map(|f| f.stack).max().unwrap_or(0);
        if largest > 0 {
            let (pointer, base) = (self.stack_pointer, program.local_bytes.next_multiple_of(16));
            program.stack = Some(Stack { pointer, largest });
            program.constants64.push((pointer, u64::from(base)));
            program.local_bytes = base + STACK_BYTES;
        }
        let specials = self.specials.into_iter();
        program.specials = specials.map(|((s, c), r)| (s, c, r)).collect();
        program
    }

    /// Returns the number of a new register of a class.
    fn register(&mut self, class: Class) -> u32 {
        next(&mut self.program.registers, class)
    }

    /// Returns the register that holds a constant, one for each value.
    fn constant32(&mut self, value: u32) -> u32 {
        let registers = &mut self.program.registers;
        let known = self.constants32.entry(value);
        *known.or_insert_with(|| next(registers, Class::R32))
    }

    /// Returns the register that holds a constant, one for each value.
    fn constant64(&mut self, value: u64) -> u32 {
        let registers = &mut self.program.registers;
        let known = self.constants64.entry(value);
        *known.or_insert_with(|| next(registers, Class::R64))
    }

    /// Returns a register with an address in a variable, which is another one than for an equal number or an address in
    /// another variable.
    fn address_in(&mut self, variable: Variable, address: u64, class: Class) -> u32 {
        let known = self
            .addresses
            .iter()
            .find(|((of, _), value, other)| (*of, *value, other) == (class, address, &variable));
        if let Some(((_, register), ..)) = known {
            return *register;
        }
        let register = self.register(class);
        self.addresses.push(((class, register), address, variable));
        register
    }

    /// Returns the register that holds a special register, one for each of them.
    fn special(&mut self, special: Special, class: Class) -> u32 {
        let registers = &mut self.program.registers;
        let known = self.specials.entry((special, class));
        *known.or_insert_with(|| next(registers, class))
    }

    /// Adds an instruction whose operands are all in its `op`, as [`Self::emit_with`] does.
    fn emit(&mut self, op: Op) {
        self.emit_with(op, [0; 6]);
    }

    /// Adds an instruction with the present guard. The first step of a PTX instruction counts.
    fn emit_with(&mut self, op: Op, o: Operands) {
        let source = self.program.sources.len().saturating_sub(1) as u32;
        self.program.code.push(Inst {
            op,
            o,
            guard: self.guard,
            source,
            counts: self.first_step,
        });
        self.first_step = false;
    }

    /// Adds a step that accesses registers alone.
    fn alu(&mut self, op: AluOp, operands: &[u32]) {
        let mut o = [0; 6];
        o[..operands.len()].copy_from_slice(operands);
        self.emit_with(Op::Alu(op), o);
    }

    /// Adds a step whose result goes to a new register, which it returns.
    fn computed(&mut self, op: AluOp, sources: &[u32]) -> u32 {
        let result = self.register(op.classes()[0]);
        self.alu(op, &[&[result], sources].concat());
        result
    }

    /// Adds a step that computes an operand. The instruction itself counts, and not this step.
    fn operand_step(&mut self, op: AluOp, operands: &[u32]) {
        let first = std::mem::replace(&mut self.first_step, false);
        self.alu(op, operands);
        self.first_step = first;
    }

    /// Refuses the form of an instruction.
    fn unsupported<T>(&self, detail: &str) -> Load<T> {
        self.not_built(self.ptx.pos, self.ptx.form(), self.ptx.loc, detail)
    }

    /// Refuses an instruction, and counts those like it in the kernel, so that the message says how much is not built.
    fn refuse_all<T>(&self, what: &str, is_like: impl Fn(&Instruction) -> bool) -> Load<T> {
        let (mut reached, mut open) = (HashSet::new(), vec![&self.kernel]);
        while let Some(name) = open.pop() {
            if reached.insert(name) {
                open.extend(self.calls.direct(name));
            }
        }
        let places = match self
            .module
            .functions
            .iter()
            .filter(|f| reached.contains(&f.name))
            .flat_map(|f| f.body.iter().flatten())
            .filter(|s| matches!(s, Statement::Instruction(other) if is_like(other)))
            .count()
        {
            1 => "1 place".to_owned(),
            n => format!("{n} places"),
        };
        self.unsupported(&format!("{what}, {places} in this kernel"))
    }

    /// Returns the part, or refuses the form of the instruction if there is none.
    fn known<T>(&self, part: Option<T>) -> Load<T> {
        part.map_or_else(|| self.unsupported(""), Ok)
    }

    /// Refuses a form, with its position and its source line.
    fn not_built<T>(&self, pos: Pos, form: String, loc: LineId, detail: &str) -> Load<T> {
        let place = self.module.lines.place(loc);
        Err(LoadError::Unsupported {
            pos,
            form,
            detail: if detail.is_empty() {
                String::new()
            } else {
                format!(": {detail}")
            },
            source_line: place.unwrap_or_else(|| "no source line".into()),
        })
    }

    /// Refuses the instruction at work, because it is no valid PTX.
    fn invalid<T>(&self, message: impl Into<String>) -> Load<T> {
        self.invalid_at(self.ptx.pos, message)
    }

    /// Refuses text that is no valid PTX.
    fn invalid_at<T>(&self, pos: Pos, message: impl Into<String>) -> Load<T> {
        Err(LoadError::Invalid {
            pos,
            message: message.into(),
        })
    }

    /// Decodes the kernel, after the functions that it may call.
    fn kernel(&mut self, f: &'a Function) -> Load<()> {
        self.kernel.clone_from(&f.name);
        self.scopes.open();
        for var in &self.module.variables {
            if var.space == Space::Shared {
                self.shared_variable(var)?;
            }
        }
        for v in self.variables {
            self.scopes.insert(&v.name, Symbol::Address(v.address));
        }
        for (n, f) in self.module.functions.iter().enumerate() {
            if f.body.is_some() && !f.is_entry {
                self.scopes
                    .insert(&f.name, Symbol::Address(calls::address(n)));
            }
        }
        if let Some((directive, pos)) = &f.clusters.refused {
            let line_of = |s: &Statement| match s {
                Statement::Instruction(i) => Some((self.module.lines.at(i.loc), i.loc)),
                _ => None,
            };
            let first = f
                .body
                .iter()
                .flatten()
                .filter_map(line_of)
                .filter(|(at, _)| at.line > 0)
                .min();
            let (_, loc) = first.unwrap_or_default();
            return self.not_built(*pos, directive.clone(), loc, "grids that count clusters");
        }
        // It comes before the registers of the functions, which calls put aside.
        self.stack_pointer = self.register(Class::R64);
        self.callees(f)?;
        self.is_kernel = true;
        self.caller = None;
        self.activation = None;
        self.scopes.open();
        for p in &f.params {
            let Some(bytes) = p.bytes().filter(|&b| b <= 32764) else {
                return self.invalid_at(p.pos, "a kernel's parameters take at most 32764 bytes");
            };
            let offset = self
                .program
                .parameter_bytes
                .next_multiple_of(p.natural_align());
            self.program.parameter_bytes = offset + bytes as u32;
            self.program.parameters.push(Parameter {
                offset,
                bytes: bytes as u32,
            });
            self.scopes.insert(&p.name, Symbol::Parameter(offset));
        }
        self.program.entry = self.program.code.len() as u32;
        self.body(f)
    }

    /// Decodes what `f` calls, before `f`.
    fn callees(&mut self, f: &'a Function) -> Load<()> {
        let names: Vec<String> = self.calls.direct(&f.name).cloned().collect();
        for name in names {
            if self.entries.contains_key(&name) || !self.placing.insert(name.clone()) {
                continue;
            }
            let module = self.module;
            let body = |g: &&Function| g.name == name && g.body.is_some() && !g.is_entry;
            let Some(callee) = module.functions.iter().find(body) else {
                continue;
            };
            if self.placing.len() > MAX_CALLS {
                return self.invalid_at(callee.pos, "calls are nested too deeply");
            }
            self.callees(callee)?;
            self.function(callee)?;
            self.placing.remove(&name);
        }
        Ok(())
    }

    /// Gives a variable its place in local memory.
    fn local_slot(&mut self, var: &Var) -> Load<(u32, u32)> {
        let Some(bytes) = var.bytes().filter(|&b| b <= 512 << 10) else {
            return self.invalid_at(var.pos, "local memory is at most 512 KiB");
        };
        let at = self
            .program
            .local_bytes
            .next_multiple_of(var.natural_align());
        self.program.local_bytes = at + bytes as u32;
        if self.program.local_bytes > 512 << 10 {
            return self.invalid_at(var.pos, "local memory is at most 512 KiB");
        }
        Ok((at, bytes as u32))
    }

    /// Decodes a device function, once for each kernel that may call it.
    fn function(&mut self, f: &'a Function) -> Load<()> {
        let placed = self.declare(f)?;
        self.is_kernel = false;
        self.caller = Some(f.name.clone());
        self.scopes.open();
        let (mut locals, slots) = (Vec::new(), placed.params.iter().chain(&placed.returns));
        for (var, slot) in f.params.iter().chain(&f.returns).zip(slots) {
            self.scopes.insert(&var.name, Symbol::Local(slot.0, slot.1));
            locals.push(*slot);
        }
        self.activation = self.calls.recurs(&f.name).then_some(0);
        let (registers, local) = (self.program.registers, self.program.local_bytes);
        self.entries
            .insert(f.name.clone(), self.program.code.len() as u32);
        self.body(f)?;
        let [p, r, d] = [0, 1, 2].map(|n| (registers[n], self.program.registers[n]));
        locals.push((local, self.program.local_bytes - local));
        let frame = Frame {
            registers: [p, r, d],
            locals,
            stack: self.activation.unwrap_or(0).next_multiple_of(16),
        };
        self.frames.insert(f.name.clone(), frame);
        Ok(())
    }

    /// Decodes the body of a function, and resolves its labels. The scope is open already and is closed here.
    fn body(&mut self, f: &'a Function) -> Load<()> {
        self.pending.clear();
        self.branch_lists.clear();
        self.carry = None;
        let statements = f.body.as_deref().unwrap_or(&[]);
        for statement in statements {
            if let Statement::BranchTargets(name, targets) = statement {
                self.branch_lists.insert(name.clone(), targets.clone());
            }
        }
        let mut last = f.pos;
        for statement in statements {
            match statement {
                Statement::Open => self.scopes.open(),
                Statement::Close => self.scopes.close(),
                Statement::Label(name, pos) => {
                    if !self
                        .scopes
                        .insert_label(name, self.program.code.len() as u32)
                    {
                        return self.invalid_at(*pos, format!("duplicate label `{name}`"));
                    }
                }
                Statement::Variable(var) => self.variable(var)?,
                Statement::BranchTargets(..) => {}
                Statement::Instruction(i) => {
                    last = i.pos;
                    self.ptx = i;
                    self.instruction()?;
                }
            }
        }
        // A body may end without `ret`.
        self.guard = 0;
        self.program.sources.push(Source {
            pos: last,
            loc: LineId::default(),
            form: "end of the body".into(),
        });
        self.first_step = false;
        self.emit(if self.is_kernel { Op::Exit } else { Op::Return });
        for (at, which, scope, label, pos) in std::mem::take(&mut self.pending) {
            let Some(target) = self.scopes.label(scope, &label) else {
                return self.invalid_at(pos, format!("there is no label `{label}`"));
            };
            match &mut self.program.code[at].op {
                Op::Branch(to) => *to = target,
                Op::BranchIndexed(all) => all[which] = target,
                _ => {}
            }
        }
        self.scopes.close();
        Ok(())
    }

    /// Gives a variable its place in shared memory.
    fn shared_variable(&mut self, var: &Var) -> Load<()> {
        let Some(bytes) = var.bytes().filter(|&b| b <= 256 << 10) else {
            return self.invalid_at(var.pos, "shared memory is at most 256 KiB");
        };
        if var.elements == 0 || var.is_extern && bytes == 0 {
            // All dynamic arrays begin where static memory ends, at the widest alignment.
            self.scopes.insert(&var.name, Symbol::DynamicShared);
            return Ok(());
        }
        let offset = self
            .program
            .shared_bytes
            .next_multiple_of(var.natural_align());
        self.program.shared_bytes = offset + bytes as u32;
        self.program.shared.push(SharedVariable {
            name: var.name.clone(),
            offset,
            bytes: bytes as u32,
        });
        self.scopes.insert(&var.name, Symbol::Shared(offset));
        Ok(())
    }

    /// Gives a variable of a function its registers or its place in memory.
    fn variable(&mut self, var: &Var) -> Load<()> {
        match var.space {
            Space::Reg => {
                let (class, each) = match var.ty {
                    Ty::B128 => (Class::R64, 2),
                    ty => (class(ty), 1),
                };
                match var.count {
                    // Each element gets a register, as no instruction uses the whole.
                    None if var.vector != 1 && each == 1 => {
                        for element in ["x", "y", "z", "w"].iter().take(var.vector as usize) {
                            let register = self.register(class);
                            let symbol = Symbol::Register(class, register, var.ty);
                            self.scopes
                                .insert(&format!("{}.{element}", var.name), symbol);
                        }
                    }
                    _ if var.vector != 1 => {
                        let what =
                            "vector registers of 128 bits, or with numbers, are not supported";
                        return self.invalid_at(var.pos, what);
                    }
                    None => {
                        let r = self.register(class);
                        let symbol = match var.ty {
                            Ty::B128 => {
                                self.register(class);
                                Symbol::Wide(r)
                            }
                            ty => Symbol::Register(class, r, ty),
                        };
                        self.scopes.insert(&var.name, symbol);
                    }
                    Some(count) => {
                        let first = self.program.registers[class as usize];
                        // A range that is too long goes past the limit that is checked below.
                        let room = count.saturating_mul(each).min(1 << 21);
                        self.program.registers[class as usize] += room;
                        self.scopes
                            .insert_range(&var.name, count, class, first, var.ty);
                    }
                }
                if self.program.registers.iter().any(|&n| n > 1 << 20) {
                    return self.invalid_at(var.pos, "more than a million registers");
                }
                Ok(())
            }
            Space::Shared => self.shared_variable(var),
            Space::Local if let Some(used) = self.activation => {
                let at = used.next_multiple_of(var.natural_align());
                let bytes = var
                    .bytes()
                    .filter(|&b| b <= u64::from(STACK_BYTES - at.min(STACK_BYTES)));
                let Some(bytes) = bytes else {
                    return self.invalid_at(var.pos,
                        format!("variables of a function that calls itself take at most {STACK_BYTES} bytes"),
                    );
                };
                self.activation = Some(at + bytes as u32);
                self.scopes.insert(&var.name, Symbol::Frame(at));
                Ok(())
            }
            Space::Local | Space::Param => {
                let (at, bytes) = self.local_slot(var)?;
                self.scopes.insert(&var.name, Symbol::Local(at, bytes));
                Ok(())
            }
            Space::Global | Space::Const => self.invalid_at(
                var.pos,
                "variables of a function in global memory are not supported",
            ),
        }
    }

    /// Decodes the instruction at work: its guard, then the rest by its first word.
    fn instruction(&mut self) -> Load<()> {
        let ptx = self.ptx;
        self.program.sources.push(Source {
            pos: ptx.pos,
            loc: ptx.loc,
            form: ptx.form(),
        });
        self.first_step = true;
        self.guard = match &ptx.guard {
            None => 0,
            Some(g) => (self.predicate(&g.register)? + 1) * 2 + u32::from(g.negated),
        };
        let words: Vec<&str> = ptx.words.iter().map(String::as_str).collect();
        if words.contains(&"b128")
            && !matches!(
                words[0],
                "mov" | "ld" | "st" | "atom" | "clusterlaunchcontrol"
            )
        {
            return self.unsupported("");
        }
        match words[0] {
            "ld" | "ldu" | "st" | "atom" | "red" | "cp" | "cvta" | "isspacep" | "prefetch"
            | "prefetchu" | "discard" | "applypriority" | "createpolicy" => self.memory(&words),
            "mapa" | "getctarank" => self.in_cluster(&words),
            "bra" | "brx" | "call" | "ret" | "exit" | "bar" | "barrier" | "membar" | "fence"
            | "trap" | "brkpt" | "nanosleep" | "pmevent" | "griddepcontrol" => self.control(&words),
            "tcgen05" => self.refuse_all("tensor memory and its products", |other| {
                other.words.first() == ptx.words.first()
            }),
            "clusterlaunchcontrol" => self.refuse_all("clusters of blocks", |other| {
                other.words.first() == ptx.words.first()
            }),
            "mbarrier" => self.mbarrier(&words),
            "wgmma" => self.wgmma(&words),
            "tensormap" => self.tensor_map(&words),
            "setmaxnreg" => self.set_registers(&words),
            "shfl" | "vote" | "match" | "redux" | "activemask" | "wmma" | "mma" | "ldmatrix"
            | "stmatrix" | "movmatrix" | "elect" => self.warp(&words),
            "tex" | "tld4" | "txq" | "suld" | "sust" | "sured" | "suq" | "istypep" => {
                self.image(&words)
            }
            _ => self.arithmetic(&words),
        }
    }
}

/// Returns the number of a new register of a class.
fn next(registers: &mut [u32; 3], class: Class) -> u32 {
    let n = &mut registers[class as usize];
    *n += 1;
    *n - 1
}

/// Returns the class of the registers that values of a type live in.
pub(crate) fn class(ty: Ty) -> Class {
    match ty {
        Ty::Pred => Class::Pred,
        ty if ty.bytes() == 8 => Class::R64,
        _ => Class::R32,
    }
}
