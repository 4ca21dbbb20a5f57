//! Decodes calls. Arguments and results of a function lie at fixed places in local memory, and its registers are its
//! own. A function that may be entered again is therefore put aside before the call.

use super::scope::Symbol;
use super::{Decoder, Load, Placed};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;
use std::collections::{BTreeSet, HashMap, HashSet};

const NO_VARIABLES: &str = "arguments that are not .param variables";

impl Decoder<'_> {
    /// Decodes a call of a function, or of one that the system has.
    pub(super) fn call(&mut self) -> Load<()> {
        let mut lists = self.ptx.operands.iter().filter_map(|o| match o {
            Operand::List(l) => Some(l.as_slice()),
            _ => None,
        });
        let returns_first = matches!(self.ptx.operands.first(), Some(Operand::List(_)));
        let returns = if returns_first {
            lists.next().unwrap_or(&[])
        } else {
            &[]
        };
        let params = lists.next().unwrap_or(&[]);
        let Some(Operand::Name(name)) = self.ptx.operands.get(usize::from(returns_first)) else {
            return self.invalid("expected the name of a function");
        };
        let slot = |d: &Self, n: usize, needed: u32| {
            let (at, bytes) = d.slot(params.get(n)?)?;
            (bytes >= needed).then_some(at)
        };
        match name.as_str() {
            "vprintf" => {
                let [Some(text), Some(arguments)] = [0, 1].map(|n| slot(self, n, 8)) else {
                    return self.unsupported(NO_VARIABLES);
                };
                let count = self.register(Class::R32);
                self.emit_with(Op::Print([text, arguments]), [count, 0, 0, 0, 0, 0]);
                self.store_result(returns, (Class::R32, count));
                return Ok(());
            }
            // void __assertfail(text, file, line, function, size_t)
            "__assertfail" => {
                let places = [(0, 8), (1, 8), (3, 8), (2, 4)];
                let told = match places.map(|(n, bytes)| slot(self, n, bytes)) {
                    [Some(text), Some(file), Some(function), Some(line)] => {
                        Some([text, file, function, line])
                    }
                    _ => None,
                };
                self.emit(Op::Assert(told));
                return Ok(());
            }
            // CUDA C++ programming guide, "Dynamic Global Memory Allocation and Operations".
            "malloc" | "free" if !self.has_body(name) => {
                let Some(from) = slot(self, 0, 8) else {
                    return self.unsupported(NO_VARIABLES);
                };
                let (result, given) = (self.register(Class::R64), self.register(Class::R64));
                let read = self.argument(from, (Class::R64, given));
                self.emit(Op::Load(Box::new(read)));
                let o = [result, given, 0, 0, 0, 0];
                if name == "free" {
                    self.emit_with(Op::Free, o);
                    return Ok(());
                }
                self.emit_with(Op::Malloc, o);
                self.store_result(returns, (Class::R64, result));
                return Ok(());
            }
            _ => {}
        }
        let slots = |d: &Self, list: &[Operand]| -> Option<Vec<_>> {
            list.iter().map(|operand| d.slot(operand)).collect()
        };
        let (Some(from), Some(to)) = (slots(self, params), slots(self, returns)) else {
            return self.unsupported(NO_VARIABLES);
        };
        let module = self.module;
        if matches!(self.scopes.get(name), Some(Symbol::Register(..))) {
            // The function is one whose address the module takes and whose arguments fit.
            let target = self.source(usize::from(returns_first), Class::R64, Ty::U64)?;
            let mut fitting = Vec::new();
            for (address, f) in self.calls.taken.iter().filter_map(|f| function(module, f)) {
                let placed = self.declare(f)?;
                if fit(&placed, &from, &to) {
                    fitting.push((f.name.clone(), address, placed));
                }
            }
            self.call_one_of(Some(target), &fitting, &from, &to);
            return Ok(());
        }
        let Some((address, callee)) = function(module, name) else {
            return self.unsupported(&format!("`{name}` has no body in this module"));
        };
        let placed = self.declare(callee)?;
        if !fit(&placed, &from, &to) {
            return self.invalid(format!("`{name}` takes different arguments"));
        }
        self.call_one_of(None, &[(name.clone(), address, placed)], &from, &to);
        Ok(())
    }

    /// Emits a call of one function, or of that of several whose address is in a register: hands on the arguments and the
    /// results, and puts the caller aside if it may be entered again.
    fn call_one_of(
        &mut self,
        target: Option<u32>,
        functions: &[(String, u64, Placed)],
        from: &[(u32, u32)],
        to: &[(u32, u32)],
    ) {
        let calls = self.calls;
        let mut names = functions.iter().map(|(name, ..)| name);
        let caller = self.caller.clone();
        let caller = caller.filter(|c| names.any(|name| calls.needs_frame(c, name)));
        let frame = caller.map(|caller| self.frame_of(&caller));
        let over = frame.and_then(|frame| self.save(frame));
        for (.., placed) in functions {
            for (&(from, _), &(to, bytes)) in from.iter().zip(&placed.params) {
                self.emit(Op::CopyLocal { from, to, bytes });
            }
        }
        for (n, (name, ..)) in functions.iter().enumerate() {
            let at = self.program.code.len();
            self.calls_to_patch.push((at, n, name.clone()));
        }
        let o = [0, target.unwrap_or(0), 0, 0, 0, 0];
        let addresses = functions.iter().map(|(_, address, _)| *address);
        let op = match target {
            Some(_) => Op::CallIndirect(addresses.map(|address| (address, u32::MAX)).collect()),
            None => Op::Call(u32::MAX),
        };
        self.emit_with(op, o);
        let results = to.iter().enumerate().map(|(n, &(to, bytes))| {
            let slot = |f: &(String, u64, Placed)| Some((f.1, f.2.returns.get(n)?.0));
            let places: Box<[(u64, u32)]> = functions.iter().filter_map(slot).collect();
            let from = match (target, &*places) {
                (None, [(_, at)]) => ResultPlace::At(*at),
                _ => ResultPlace::OfFunction(places),
            };
            CallResult { from, to, bytes }
        });
        if let Some(frame) = frame {
            let results = results.collect();
            self.emit_with(Op::Restore { frame, results }, o);
            self.land(over);
            return;
        }
        for CallResult { from, to, bytes } in results {
            let op = match from {
                ResultPlace::At(from) => Op::CopyLocal { from, to, bytes },
                ResultPlace::OfFunction(from) => Op::CopyResult { from, to, bytes },
            };
            self.emit_with(op, o);
        }
    }

    /// Returns the address in local memory and the size of an argument or a result of a call, if it is a variable.
    fn slot(&self, operand: &Operand) -> Option<(u32, u32)> {
        let Operand::Name(name) = operand else {
            return None;
        };
        match self.scopes.get(name) {
            Some(Symbol::Local(at, bytes)) => Some((at, bytes)),
            _ => None,
        }
    }

    /// Stores the result of a function of the system, if the call has a place for it.
    fn store_result(&mut self, returns: &[Operand], register: (Class, u32)) {
        let slot = returns.first().and_then(|operand| self.slot(operand));
        let needed = if register.0 == Class::R64 { 8 } else { 4 };
        if let Some((at, _)) = slot.filter(|(_, bytes)| *bytes >= needed) {
            let access = self.argument(at, register);
            self.emit(Op::Store(Box::new(access)));
        }
    }

    fn has_body(&self, name: &str) -> bool {
        self.module
            .functions
            .iter()
            .any(|f| f.name == name && f.body.is_some())
    }

    /// Returns the access to an argument of a call at a place in local memory, by a register.
    fn argument(&mut self, at: u32, register: (Class, u32)) -> Access {
        let width = if register.0 == Class::R64 { 8 } else { 4 };
        let address = (Class::R64, self.constant64(u64::from(at)));
        Access::new(AddressSpace::Local, width, vec![register], address, 0)
    }

    /// Puts a function aside before a call. If the call has a guard, lanes without it branch past all of the call,
    /// because the guard's register belongs to another activation until it is taken back. Returns that branch, for
    /// [`Self::land`].
    fn save(&mut self, frame: u32) -> Option<usize> {
        let over = (self.guard != 0).then_some(self.program.code.len());
        if over.is_some() {
            self.guard ^= 1;
            self.emit(Op::Branch(u32::MAX));
            self.guard = 0;
        }
        self.emit(Op::Save(frame));
        over
    }

    /// Makes the branch of [`Self::save`] lead to this place.
    fn land(&mut self, over: Option<usize>) {
        let here = self.program.code.len() as u32;
        if let Some(inst) = over.and_then(|at| self.program.code.get_mut(at)) {
            inst.op = Op::Branch(here);
        }
    }

    /// Returns the number of the frame of a function that may be entered again while it waits for a call.
    fn frame_of(&mut self, caller: &str) -> u32 {
        let next = self.frame_numbers.len() as u32;
        *self.frame_numbers.entry(caller.into()).or_insert(next)
    }

    /// Lays out the arguments and the results of a function in local memory, once for each function.
    pub(super) fn declare(&mut self, f: &Function) -> Load<Placed> {
        if let Some(placed) = self.placed.get(&f.name) {
            return Ok(placed.clone());
        }
        let mut placed = Placed::default();
        for (list, vars) in [
            (&mut placed.params, &f.params),
            (&mut placed.returns, &f.returns),
        ] {
            for var in vars {
                if var.space == Space::Reg {
                    return self
                        .invalid_at(var.pos, "parameters in registers (.reg) are not supported");
                }
                list.push(self.local_slot(var)?);
            }
        }
        self.placed.insert(f.name.clone(), placed.clone());
        Ok(placed)
    }

    /// Fills in the targets of calls when all functions have been placed.
    pub(super) fn patch_calls(&mut self) -> Load<()> {
        for (at, which, name) in std::mem::take(&mut self.calls_to_patch) {
            let Some(&entry) = self.entries.get(&name) else {
                let pos = self
                    .program
                    .code
                    .get(at)
                    .and_then(|i| self.program.sources.get(i.source as usize));
                let pos = pos.map_or(Pos::default(), |s| s.pos);
                return self.invalid_at(pos, format!("a call of `{name}`, which was not decoded"));
            };
            match &mut self.program.code[at].op {
                Op::Call(to) => *to = entry,
                Op::CallIndirect(all) => all[which].1 = entry,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns true if a function takes as many arguments and gives as many results of these sizes.
fn fit(placed: &Placed, from: &[(u32, u32)], to: &[(u32, u32)]) -> bool {
    let sizes =
        |list: &[(u32, u32)]| -> Vec<u32> { list.iter().map(|(_, bytes)| *bytes).collect() };
    sizes(&placed.params) == sizes(from) && sizes(&placed.returns) == sizes(to)
}

/// Returns a function with a body, and its address.
fn function<'m>(module: &'m Module, name: &str) -> Option<(u64, &'m Function)> {
    let (n, f) = module
        .functions
        .iter()
        .enumerate()
        .find(|(_, f)| f.name == name && f.body.is_some() && !f.is_entry)?;
    Some((address(n), f))
}

/// Returns the address of the n-th function of a module.
pub(super) fn address(n: usize) -> u64 {
    FUNCTION_BASE + 16 * n as u64
}

/// The call graph: the functions that each function may call.
#[derive(Default)]
pub(super) struct Calls {
    edges: HashMap<String, BTreeSet<String>>,
    /// The functions whose address the module takes.
    pub taken: BTreeSet<String>,
}

impl Calls {
    pub fn new(module: &Module) -> Calls {
        let names: HashSet<&str> = module
            .functions
            .iter()
            .filter(|f| f.body.is_some() && !f.is_entry)
            .map(|f| f.name.as_str())
            .collect();
        let mut calls = Calls::default();
        let mut indirect = Vec::new();
        for init in module.variables.iter().flat_map(|v| &v.init) {
            if let Init::Symbol { name, .. } = init
                && names.contains(name.as_str())
            {
                calls.taken.insert(name.clone());
            }
        }
        for f in &module.functions {
            let edges = calls.edges.entry(f.name.clone()).or_default();
            for statement in f.body.iter().flatten() {
                let Statement::Instruction(i) = statement else {
                    continue;
                };
                let is_call = i.words.first().is_some_and(|w| w == "call");
                for operand in &i.operands {
                    let Operand::Name(name) = operand else {
                        continue;
                    };
                    match (is_call, names.contains(name.as_str())) {
                        (true, true) => drop(edges.insert(name.clone())),
                        (true, false) if name.starts_with('%') => indirect.push(f.name.clone()),
                        (false, true) => drop(calls.taken.insert(name.clone())),
                        _ => {}
                    }
                }
            }
        }
        for caller in indirect {
            let taken = calls.taken.iter().cloned();
            calls.edges.entry(caller).or_default().extend(taken);
        }
        calls
    }

    /// Returns the functions that a function may call itself.
    pub fn direct(&self, name: &str) -> impl Iterator<Item = &String> {
        self.edges.get(name).into_iter().flatten()
    }

    /// Returns true if a function may be entered again before it has returned.
    pub fn recurs(&self, name: &str) -> bool {
        self.direct(name).any(|callee| self.reaches(callee, name))
    }

    /// Returns true if the caller's state is saved during the call. That is needed if the call may enter the caller
    /// again, or if a recursive caller may reach another recursive function, whose activations lie above its own.
    pub fn needs_frame(&self, caller: &str, callee: &str) -> bool {
        let recurs = || self.recurs(caller) && self.reach(callee, |name| self.recurs(name));
        self.reaches(callee, caller) || recurs()
    }

    /// Returns true if a call of one function may reach another, or is a call of it.
    pub fn reaches(&self, from: &str, to: &str) -> bool {
        self.reach(from, |name| name == to)
    }

    /// Returns true if a call of `from` may reach a function for which `one` is true, including `from` itself.
    fn reach(&self, from: &str, one: impl Fn(&str) -> bool) -> bool {
        let (mut seen, mut open) = (HashSet::from([from]), vec![from]);
        while let Some(name) = open.pop() {
            if one(name) {
                return true;
            }
            open.extend(
                self.direct(name)
                    .map(String::as_str)
                    .filter(|n| seen.insert(n)),
            );
        }
        false
    }
}
