//! Decodes operands: registers, constants, special registers, addresses of symbols.

use super::scope::{self, Symbol};
use super::{Decoder, Load};
use crate::alu::{op1, op2};
use crate::exec::int_ops;
use crate::isa::AddressSpace;
use crate::parse::ast::*;
use crate::program::Variable;
use crate::regs::Class;

impl<'a> Decoder<'a> {
    /// Reads a name as a predicate register.
    pub(super) fn predicate(&self, name: &str) -> Load<u32> {
        match self.scopes.get(name) {
            Some(Symbol::Register(Class::Pred, r, _)) => Ok(r),
            _ => self.invalid(format!("`{name}` is not a predicate register")),
        }
    }

    /// Returns the n-th operand. Fails if there are fewer.
    pub(super) fn operand(&self, n: usize) -> Load<&'a Operand> {
        match self.ptx.operands.get(n) {
            Some(operand) => Ok(operand),
            None => self.invalid(format!(
                "`{}` needs more than {n} operands",
                self.ptx.form()
            )),
        }
    }

    /// Fails if the instruction has another number of operands.
    pub(super) fn expect_operands(&self, n: std::ops::RangeInclusive<usize>) -> Load<()> {
        if n.contains(&self.ptx.operands.len()) {
            return Ok(());
        }
        self.invalid(format!(
            "`{}` has {} operands",
            self.ptx.form(),
            self.ptx.operands.len()
        ))
    }

    /// Reads the n-th operand as a register that the instruction writes.
    pub(super) fn result(&self, n: usize, class: Class) -> Load<u32> {
        self.destination(self.operand(n)?, class)
    }

    /// Reads the n-th operand as a value. `ty` says how a constant is written.
    pub(super) fn source(&mut self, n: usize, class: Class, ty: Ty) -> Load<u32> {
        self.value(self.operand(n)?, class, ty)
    }

    /// Reads an operand as a register that the instruction writes.
    pub(super) fn destination(&self, operand: &Operand, class: Class) -> Load<u32> {
        match operand {
            Operand::Name(name) if name == "_" => Ok(0),
            Operand::Name(name) => match self.scopes.get(name) {
                Some(Symbol::Register(c, r, _)) if c == class => Ok(r),
                Some(Symbol::Register(..)) => self.invalid(format!(
                    "the size of `{name}` is not that of `{}`",
                    self.ptx.form()
                )),
                _ => self.invalid(format!("`{name}` is not a register")),
            },
            _ => self.invalid("the destination is not a register"),
        }
    }

    /// Reads operands as registers that the instruction writes, or as values.
    pub(super) fn registers(
        &mut self,
        operands: &[Operand],
        (class, ty): (Class, Ty),
        write: bool,
    ) -> Load<Vec<u32>> {
        let mut register = |operand| {
            if write {
                self.destination(operand, class)
            } else {
                self.value(operand, class, ty)
            }
        };
        operands.iter().map(&mut register).collect()
    }

    /// Reads an operand as the two halves of a 128-bit register, lower first. A constant may be read, too.
    pub(super) fn wide(&mut self, operand: &Operand, write: bool) -> Load<[u32; 2]> {
        match operand {
            Operand::Name(name) if write && name == "_" => Ok([0; 2]),
            Operand::Name(name) => match self.scopes.get(name) {
                Some(Symbol::Wide(r)) => Ok([r, r + 1]),
                _ => self.invalid(format!("`{name}` is not a 128-bit register")),
            },
            Operand::Number(Number::Int(v)) if !write => {
                Ok([self.constant64(*v), self.constant64(0)])
            }
            _ => self.invalid("the operand is not a 128-bit register"),
        }
    }

    /// Returns the class and the type of a register, or `None` if the operand is none.
    pub(super) fn class_of(&self, operand: &Operand) -> Option<(Class, Ty)> {
        match operand {
            Operand::Name(name) => match self.scopes.get(name) {
                Some(Symbol::Register(class, _, ty)) => Some((class, ty)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads an operand as a value. `ty` says how a constant is written.
    pub(super) fn value(&mut self, operand: &Operand, class: Class, ty: Ty) -> Load<u32> {
        match operand {
            Operand::Number(n) => {
                let bits = match (*n, ty) {
                    (Number::Int(v), Ty::F32) => u64::from((v as i64 as f32).to_bits()),
                    (Number::Int(v), Ty::F64) => (v as i64 as f64).to_bits(),
                    (Number::Int(v), _) => v,
                    (Number::F32(v), Ty::F64) => f64::from(f32::from_bits(v)).to_bits(),
                    (Number::F32(v), _) => u64::from(v),
                    (Number::F64(v), Ty::F32) => u64::from((v as f32).to_bits()),
                    (Number::F64(v), _) => v.to_bits(),
                };
                match class {
                    Class::R32 if ty.bytes() == 2 => Ok(self.constant32(bits as u32 & 0xffff)),
                    Class::R32 => Ok(self.constant32(bits as u32)),
                    Class::R64 => Ok(self.constant64(bits)),
                    Class::Pred => {
                        // A predicate constant is the comparison of a constant with zero.
                        let r = self.register(Class::Pred);
                        let c = self.constant32(u32::from(bits != 0));
                        let guard = std::mem::replace(&mut self.guard, 0);
                        let not_zero = crate::alu::op1::<crate::exec::cmp_ops::NotZero>();
                        self.operand_step(not_zero, &[r, c]);
                        self.guard = guard;
                        Ok(r)
                    }
                }
            }
            Operand::Name(name) => match self.scopes.get(name) {
                Some(Symbol::Register(c, r, _)) if c == class => Ok(r),
                Some(Symbol::Register(..)) => self.invalid(format!(
                    "the size of `{name}` is not that of `{}`",
                    self.ptx.form()
                )),
                Some(symbol) => self.symbol_address(name, symbol, 0, class),
                // A predefined constant (PTX ISA 4.4).
                None if name == "WARP_SZ" => match class {
                    Class::R64 => Ok(self.constant64(32)),
                    _ => Ok(self.constant32(32)),
                },
                None => match scope::special(name) {
                    Some(s) => Ok(self.special(s, class)),
                    None => self.invalid(format!("`{name}` is not declared")),
                },
            },
            Operand::Offset(name, offset) => match self.scopes.get(name) {
                Some(symbol) => self.symbol_address(name, symbol, *offset, class),
                None => self.invalid(format!("`{name}` is not declared")),
            },
            _ => self.invalid("the operand is not a value"),
        }
    }

    /// Returns a register with the address of a variable of this activation.
    fn frame_address(&mut self, at: u32, offset: i64, class: Class) -> u32 {
        let by = self.constant64(u64::from(at).wrapping_add(offset as u64));
        let wide = self.register(Class::R64);
        self.operand_step(op2::<int_ops::w64::Add>(), &[wide, self.stack_pointer, by]);
        match class {
            Class::R64 => wide,
            _ => {
                let low = self.register(Class::R32);
                self.operand_step(op1::<int_ops::LowWord>(), &[low, wide]);
                low
            }
        }
    }

    /// Returns a register with the address of a symbol, plus an offset.
    pub(super) fn symbol_address(
        &mut self,
        name: &str,
        symbol: Symbol,
        offset: i64,
        class: Class,
    ) -> Load<u32> {
        let (space, from, bytes) = match symbol {
            Symbol::Frame(at) => return Ok(self.frame_address(at, offset, class)),
            Symbol::Address(a) => match self.variables.iter().find(|v| v.address == a) {
                Some(v) => (AddressSpace::Global, a, Some(v.bytes.len() as u64)),
                // A function, which has nothing to access.
                None => return Ok(self.constant64(a.wrapping_add(offset as u64))),
            },
            Symbol::Shared(a) => {
                let variable = self.program.shared.iter().find(|v| v.offset == a);
                let bytes = variable.map(|v| u64::from(v.bytes));
                (AddressSpace::Shared, u64::from(a), bytes)
            }
            Symbol::Local(a, bytes) => (AddressSpace::Local, u64::from(a), Some(u64::from(bytes))),
            Symbol::Parameter(a) => {
                let parameter = self.program.parameters.iter().find(|p| p.offset == a);
                let bytes = parameter.map(|p| u64::from(p.bytes));
                (AddressSpace::Param, u64::from(a), bytes)
            }
            // The size of the program's static part is known when all is decoded, but kernels declare their shared
            // variables before they use them.
            Symbol::DynamicShared => {
                let from = self.program.shared_bytes.next_multiple_of(128);
                (AddressSpace::Shared, u64::from(from), None)
            }
            _ => return self.invalid("this symbol has no address"),
        };
        let address = from.wrapping_add(offset as u64);
        let variable = Variable {
            name: name.to_owned(),
            space,
            from,
            bytes,
        };
        Ok(self.address_in(variable, address, class))
    }
}
