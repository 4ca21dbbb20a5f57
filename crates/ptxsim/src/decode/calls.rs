//! Calls. Arguments and results of a function lie at fixed places in local memory, and its registers
//! are its own: so a function that may be entered again has to be put aside before.

use super::scope::Symbol;
use super::{Decoder, Load, Placed};
use crate::exec::regs::Class;
use crate::parse::ast::*;
use crate::program::*;
use std::collections::{BTreeSet, HashMap, HashSet};

impl Decoder<'_> {
    pub(super) fn call(&mut self, i: &Instruction) -> Load<()> {
        let mut lists = i.operands.iter().filter_map(|o| match o {
            Operand::List(l) => Some(l.as_slice()),
            _ => None,
        });
        let returns_first = matches!(i.operands.first(), Some(Operand::List(_)));
        let returns = if returns_first {
            lists.next().unwrap_or(&[])
        } else {
            &[]
        };
        let params = lists.next().unwrap_or(&[]);
        let Some(Operand::Name(name)) = i.operands.get(usize::from(returns_first)) else {
            return self.invalid(i.pos, "a call names a function");
        };
        let scopes = &self.scopes;
        let slot = |n: usize| match params.get(n) {
            Some(Operand::Name(name)) => match scopes.get(name) {
                Some(Symbol::Local(at)) => Some(at),
                _ => None,
            },
            _ => None,
        };
        match name.as_str() {
            "vprintf" => {
                let [Some(text), Some(arguments)] = [slot(0), slot(1)] else {
                    return self.unsupported(i, "arguments that are no .param variables");
                };
                let count = self.register(Class::R32);
                self.emit(Op::Print([text, arguments]), [count, 0, 0, 0, 0, 0]);
                if let Some(Operand::Name(n)) = returns.first()
                    && let Some(Symbol::Local(at)) = self.scopes.get(n)
                {
                    let address = self.constant64(u64::from(at));
                    let access = Access {
                        space: AddressSpace::Local,
                        width: 4,
                        signed: false,
                        registers: vec![(Class::R32, count)],
                        narrow: false,
                        address: (Class::R64, address),
                        offset: 0,
                        order: Order::Weak,
                    };
                    self.emit(Op::Store(Box::new(access)), [0; 6]);
                }
                return Ok(());
            }
            // void __assertfail(text, file, line, function, size_t)
            "__assertfail" => {
                let told = match (slot(0), slot(1), slot(2), slot(3)) {
                    (Some(text), Some(file), Some(line), Some(function)) => {
                        Some([text, file, function, line])
                    }
                    _ => None,
                };
                self.emit(Op::Assert(told), [0; 6]);
                return Ok(());
            }
            _ => {}
        }
        let slots = |d: &Self, list: &[Operand]| -> Load<Vec<u32>> {
            list.iter()
                .map(|o| match o {
                    Operand::Name(n) => match d.scopes.get(n) {
                        Some(Symbol::Local(at)) => Ok(at),
                        _ => d.unsupported(i, "arguments that are no .param variables"),
                    },
                    _ => d.unsupported(i, "arguments that are no .param variables"),
                })
                .collect()
        };
        let (from, to) = (slots(self, params)?, slots(self, returns)?);
        if matches!(self.scopes.get(name), Some(Symbol::Register(..))) {
            return self.call_indirect(i, name, &from, &to);
        }
        let module = self.module;
        let known = |f: &&Function| f.name == *name && f.body.is_some() && !f.is_entry;
        let Some(callee) = module.functions.iter().find(known) else {
            return self.unsupported(i, &format!("`{name}` has no body in this module"));
        };
        let callee = self.declare(callee)?;
        if callee.params.len() != from.len() || callee.returns.len() != to.len() {
            return self.invalid(i.pos, format!("`{name}` takes other arguments"));
        }
        let caller = self.caller.clone().filter(|c| self.calls.reaches(name, c));
        let frame = match &caller {
            Some(caller) => Some(self.frame_of(i, caller)?),
            None => None,
        };
        if let Some(frame) = frame {
            self.emit(Op::Save(frame), [0; 6]);
        }
        for (&from, &(to, bytes)) in from.iter().zip(&callee.params) {
            self.emit(Op::CopyLocal { from, to, bytes }, [0; 6]);
        }
        self.calls_to_patch.push((self.code.len(), 0, name.clone()));
        self.emit(Op::Call(u32::MAX), [0; 6]);
        let results = callee.returns.iter().zip(&to);
        match frame {
            Some(frame) => {
                let results = results
                    .map(|(&(from, bytes), &to)| (from, to, bytes))
                    .collect();
                self.emit(Op::Restore { frame, results }, [0; 6]);
            }
            None => {
                for (&(from, bytes), &to) in results {
                    self.emit(Op::CopyLocal { from, to, bytes }, [0; 6]);
                }
            }
        }
        Ok(())
    }

    /// The function is one of those whose address the module takes and whose arguments fit.
    fn call_indirect(
        &mut self,
        i: &Instruction,
        target: &str,
        from: &[u32],
        to: &[u32],
    ) -> Load<()> {
        let target = self.value(i, &Operand::Name(target.into()), Class::R64, Ty::U64)?;
        let module = self.module;
        let mut fitting = Vec::new();
        for name in self.calls.taken.clone() {
            let Some((address, f)) = function(module, &name) else {
                continue;
            };
            let callee = self.declare(f)?;
            if callee.params.len() == from.len() && callee.returns.len() == to.len() {
                fitting.push((name, address, callee));
            }
        }
        if let Some(caller) = &self.caller
            && fitting
                .iter()
                .any(|(name, ..)| self.calls.reaches(name, caller))
        {
            return self.unsupported(i, "indirect calls that may come back to their caller");
        }
        for (_, _, callee) in &fitting {
            for (&from, &(to, bytes)) in from.iter().zip(&callee.params) {
                self.emit(Op::CopyLocal { from, to, bytes }, [0; 6]);
            }
        }
        for (n, (name, ..)) in fitting.iter().enumerate() {
            self.calls_to_patch.push((self.code.len(), n, name.clone()));
        }
        let o = [0, target, 0, 0, 0, 0];
        let targets = fitting.iter().map(|(_, address, _)| (*address, u32::MAX));
        self.emit(Op::CallIndirect(targets.collect()), o);
        for (n, &to) in to.iter().enumerate() {
            let result = |(_, address, callee): &(String, u64, Placed)| {
                let slot = callee.returns.get(n)?;
                Some((*address, slot.0))
            };
            let bytes = fitting
                .iter()
                .filter_map(|f| f.2.returns.get(n))
                .map(|s| s.1);
            let bytes = bytes.min().unwrap_or(0);
            let from = fitting.iter().filter_map(result).collect();
            self.emit(Op::CopyResult { from, to, bytes }, o);
        }
        Ok(())
    }

    /// Of a function that may be entered again while it waits for a call.
    fn frame_of(&mut self, i: &Instruction, caller: &str) -> Load<u32> {
        if self.guard != 0 {
            return self.unsupported(i, "recursive calls under a predicate");
        }
        let body = self.module.functions.iter().find(|f| f.name == caller);
        let mut statements = body.and_then(|f| f.body.as_deref()).into_iter().flatten();
        // A pointer to such a variable would point into the next activation.
        if statements.any(|s| matches!(s, Statement::Variable(v) if v.space == Space::Local)) {
            return self.unsupported(i, "recursive functions with variables in local memory");
        }
        let next = self.frame_numbers.len() as u32;
        Ok(*self.frame_numbers.entry(caller.into()).or_insert(next))
    }

    /// Where the arguments and the results of a function lie.
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
                    return self.invalid(var.pos, "parameters in registers (.reg) are not built");
                }
                list.push(self.local_slot(var)?);
            }
        }
        self.placed.insert(f.name.clone(), placed.clone());
        Ok(placed)
    }

    /// When all that is called has been placed.
    pub(super) fn patch_calls(&mut self) -> Load<()> {
        for (at, which, name) in std::mem::take(&mut self.calls_to_patch) {
            let Some(&entry) = self.entries.get(&name) else {
                let pos = self
                    .code
                    .get(at)
                    .and_then(|i| self.sources.get(i.source as usize));
                let pos = pos.map_or(Pos::default(), |s| s.pos);
                return self.invalid(
                    pos,
                    format!("a call of `{name}` in a way that is not known"),
                );
            };
            match &mut self.code[at].op {
                Op::Call(to) => *to = entry,
                Op::CallIndirect(all) => all[which].1 = entry,
                _ => {}
            }
        }
        Ok(())
    }
}

/// A function with a body, and its address.
fn function<'m>(module: &'m Module, name: &str) -> Option<(u64, &'m Function)> {
    let mut all = module.functions.iter().enumerate();
    let (n, f) = all.find(|(_, f)| f.name == name && f.body.is_some() && !f.is_entry)?;
    Some((address(n), f))
}

/// Of the n-th function of a module.
pub(super) fn address(n: usize) -> u64 {
    FUNCTION_BASE + 16 * n as u64
}

/// Who may call whom.
#[derive(Default)]
pub(super) struct Calls {
    edges: HashMap<String, BTreeSet<String>>,
    /// Functions whose address the module takes.
    pub taken: BTreeSet<String>,
}

impl Calls {
    pub fn of(module: &Module) -> Calls {
        let bodies = module
            .functions
            .iter()
            .filter(|f| f.body.is_some() && !f.is_entry);
        let names: HashSet<&str> = bodies.map(|f| f.name.as_str()).collect();
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

    /// What a function may call itself.
    pub fn direct(&self, name: &str) -> impl Iterator<Item = &String> {
        self.edges.get(name).into_iter().flatten()
    }

    /// Whether a call of one function may come to another.
    pub fn reaches(&self, from: &str, to: &str) -> bool {
        let (mut seen, mut open) = (HashSet::from([from]), vec![from]);
        while let Some(name) = open.pop() {
            if name == to {
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
