//! Branches, calls, barriers, fences (PTX ISA 9.7.12, 9.7.13).

use super::scope::Symbol;
use super::{Decoder, Load};
use crate::exec::regs::Class;
use crate::parse::ast::*;
use crate::program::*;

impl Decoder<'_> {
    pub(super) fn control(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        match words[0] {
            "bra" => {
                let Operand::Name(label) = self.operand(i, 0)? else {
                    return self.invalid(i.pos, "a branch goes to a label");
                };
                self.branch_to(0, label, i.pos);
                self.emit(Op::Branch(0), [0; 6]);
            }
            "brx" => {
                let index = self.value(i, self.operand(i, 0)?, Class::R32, Ty::U32)?;
                let Operand::Name(list) = self.operand(i, 1)? else {
                    return self.invalid(i.pos, "brx.idx needs a list of labels");
                };
                let Some(labels) = self.branch_lists.get(list).cloned() else {
                    return self.invalid(i.pos, format!("there is no .branchtargets `{list}`"));
                };
                for (n, label) in labels.iter().enumerate() {
                    self.branch_to(n, label, i.pos);
                }
                self.emit(
                    Op::BranchIndexed(vec![0; labels.len()].into()),
                    [0, index, 0, 0, 0, 0],
                );
            }
            "call" => self.call(i)?,
            "ret" if self.is_kernel => self.emit(Op::Exit, [0; 6]),
            "ret" => self.emit(Op::Return, [0; 6]),
            "exit" => self.emit(Op::Exit, [0; 6]),
            "trap" | "brkpt" => self.emit(Op::Trap, [0; 6]),
            "bar" | "barrier" => self.barrier(i, words)?,
            // Execution here is sequentially consistent: a fence orders what is ordered already.
            "membar" => self.emit(
                Op::Fence {
                    device: words.get(1) != Some(&"cta"),
                },
                [0; 6],
            ),
            "fence" if !words.contains(&"proxy") => self.emit(
                Op::Fence {
                    device: !words.contains(&"cta"),
                },
                [0; 6],
            ),
            "nanosleep" => self.emit(Op::Sleep, [0; 6]),
            "pmevent" => self.emit(Op::Nop, [0; 6]),
            _ => return self.unsupported(i, ""),
        }
        Ok(())
    }

    fn branch_to(&mut self, which: usize, label: &str, pos: Pos) {
        let scope = self.scopes.current.unwrap_or(0);
        self.pending
            .push((self.code.len(), which, scope, label.into(), pos));
    }

    fn call(&mut self, i: &Instruction) -> Load<()> {
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
        if matches!(self.scopes.get(name), Some(Symbol::Register(..))) {
            return self.unsupported(i, "indirect calls");
        }
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
        let Some(callee) = self.placed.get(name) else {
            return self.unsupported(i, &format!("`{name}` has no body in this module"));
        };
        if callee.params.len() != from.len() || callee.returns.len() != to.len() {
            return self.invalid(i.pos, format!("`{name}` takes other arguments"));
        }
        let (entry, formal, result) = (callee.entry, callee.params.clone(), callee.returns.clone());
        for (&from, &(to, bytes)) in from.iter().zip(&formal) {
            self.emit(Op::CopyLocal { from, to, bytes }, [0; 6]);
        }
        self.emit(Op::Call(entry), [0; 6]);
        for (&(from, bytes), &to) in result.iter().zip(&to) {
            self.emit(Op::CopyLocal { from, to, bytes }, [0; 6]);
        }
        Ok(())
    }

    fn barrier(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let rest: Vec<&str> = words[1..].iter().copied().filter(|w| *w != "cta").collect();
        // bar is barrier.aligned
        let aligned = words[0] == "bar" || rest.contains(&"aligned");
        let kind: Vec<&str> = rest.into_iter().filter(|w| *w != "aligned").collect();
        if kind == ["warp", "sync"] {
            let members = self.value(i, self.operand(i, 0)?, Class::R32, Ty::B32)?;
            self.emit(Op::WarpSync, [0, members, 0, 0, 0, 0]);
            return Ok(());
        }
        let kind = match kind.as_slice() {
            ["sync"] => BarrierKind::Sync,
            ["arrive"] => BarrierKind::Arrive,
            ["red", "popc", "u32"] => BarrierKind::RedPopc,
            ["red", "and", "pred"] => BarrierKind::RedAnd,
            ["red", "or", "pred"] => BarrierKind::RedOr,
            _ => return self.unsupported(i, ""),
        };
        let red = matches!(
            kind,
            BarrierKind::RedPopc | BarrierKind::RedAnd | BarrierKind::RedOr
        );
        let first = usize::from(red);
        let id = self.value(i, self.operand(i, first)?, Class::R32, Ty::U32)?;
        let has_count = i.operands.len() == first + 2 + usize::from(red);
        let count = match has_count {
            true => self.value(i, self.operand(i, first + 1)?, Class::R32, Ty::U32)?,
            false => self.constant32(0),
        };
        let (mut d, mut p) = (0, 0);
        if red {
            d = match kind {
                BarrierKind::RedPopc => self.destination(i, self.operand(i, 0)?, Class::R32)?,
                _ => self.destination(i, self.operand(i, 0)?, Class::Pred)?,
            };
            p = match i.operands.last() {
                Some(Operand::Name(n)) => self.predicate(n, i)?,
                _ => return self.unsupported(i, "a negated predicate"),
            };
        }
        self.emit(Op::Barrier { kind, aligned }, [d, id, count, p, 0, 0]);
        Ok(())
    }
}
