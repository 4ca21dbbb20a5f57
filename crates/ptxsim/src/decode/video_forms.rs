//! Scalar video instructions (PTX ISA, "Scalar Video Instructions"): arithmetic and comparisons of bytes, half-words and
//! words. Each becomes steps on 64 bits, which hold the 34 of its intermediate result.

use super::{Decoder, Load};
use crate::alu::*;
use crate::exec::{cmp_ops, convert_ops, int_ops};
use crate::parse::ast::*;
use crate::regs::Class;

/// The byte or half-word that `.b2` or `.h1` selects, or a whole register.
struct Part {
    register: Operand,
    first_bit: u32,
    bits: u32,
}

impl Part {
    fn new(operand: &Operand) -> Self {
        let (name, first_bit, bits) = match operand {
            Operand::Name(name) => match name.split_at_checked(name.len().saturating_sub(3)) {
                Some((name, ".b0")) => (name, 0, 8),
                Some((name, ".b1")) => (name, 8, 8),
                Some((name, ".b2")) => (name, 16, 8),
                Some((name, ".b3")) => (name, 24, 8),
                Some((name, ".h0")) => (name, 0, 16),
                Some((name, ".h1")) => (name, 16, 16),
                _ => (name.as_str(), 0, 32),
            },
            _ => ("", 0, 32),
        };
        let register = match operand {
            Operand::Name(_) => Operand::Name(name.to_owned()),
            other => other.clone(),
        };
        Self {
            register,
            first_bit,
            bits,
        }
    }

    /// Returns the type of the part, from that of the operand.
    fn ty(&self, whole: Ty) -> Ty {
        match (self.bits, whole) {
            (8, Ty::S32) => Ty::S8,
            (8, _) => Ty::U8,
            (16, Ty::S32) => Ty::S16,
            (16, _) => Ty::U16,
            (_, whole) => whole,
        }
    }
}

impl Decoder<'_> {
    /// `vadd.d.a.b.sat.max d, a.b0, b.h1, c` and `vset.a.b.lt d.b2, a, b, c`
    pub(super) fn video(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let (types, rest) = match words {
            ["vset", a, b, rest @ ..] => ([&"u32", a, b], rest),
            [_, d, a, b, rest @ ..] => ([d, a, b], rest),
            _ => return self.unsupported(i, ""),
        };
        let ty = |word: &&str| Ty::parse(word).filter(|ty| matches!(ty, Ty::U32 | Ty::S32));
        let [Some(d_type), Some(a_type), Some(b_type)] = types.map(ty) else {
            return self.unsupported(i, "");
        };
        let (modifier, second) = match rest {
            [rest @ .., second @ ("add" | "min" | "max")] => (rest, Some(*second)),
            rest => (rest, None),
        };
        let to = Part::new(self.operand(i, 0)?);
        let merges = to.bits < 32;
        if merges && second.is_some() {
            return self.unsupported(i, "");
        }
        let operands = 3 + usize::from(merges || second.is_some());
        self.expect_operands(i, operands..=operands)?;
        let d = self.destination(i, &to.register, Class::R32)?;
        let parts = [
            Part::new(self.operand(i, 1)?),
            Part::new(self.operand(i, 2)?),
        ];
        let name = words[0].strip_prefix('v').unwrap_or_default();
        // An H100 does not compare a result beyond the range of `d` as the ISA says.
        let stays_in_range = match (name, modifier) {
            ("set", _) | (_, ["sat"]) => true,
            ("min" | "max", _) if [a_type, b_type] == [d_type; 2] => true,
            _ => d_type == Ty::S32 && parts.iter().all(|part| part.bits < 32),
        };
        if matches!(second, Some("min" | "max")) && !stays_in_range {
            return self.unsupported(i, "");
        }
        let a = self.part(i, &parts[0], a_type)?;
        let b = self.part(i, &parts[1], b_type)?;
        let integer = |name: &str| int_ops::lookup(&[name], Ty::S64);
        let result = self.register(Class::R64);
        match (name, modifier) {
            ("set", [relation]) => {
                let op = self.known(i, cmp_ops::lookup(relation, Ty::S64, false))?;
                let (one, zero) = (self.constant64(1), self.constant64(0));
                let holds = self.register(Class::Pred);
                self.alu(op, &[holds, a, b]);
                self.alu(op3::<int_ops::w64::Selp>(), &[result, one, zero, holds]);
            }
            ("absdiff", [] | ["sat"]) => {
                self.alu(op2::<int_ops::w64::Sub>(), &[result, a, b]);
                let op = self.known(i, integer("abs"))?;
                self.alu(op, &[result, result]);
            }
            (name, [] | ["sat"]) => {
                let op = self.known(i, integer(name))?;
                self.alu(op, &[result, a, b]);
            }
            _ => return self.unsupported(i, ""),
        }
        if let ["sat"] = modifier {
            let op = self.known(i, convert_ops::clamp(true, to.ty(d_type)))?;
            self.alu(op, &[result, result]);
        }
        if let Some(second) = second {
            let c = Part::new(self.operand(i, 3)?);
            let (c, op) = (self.part(i, &c, d_type)?, self.known(i, integer(second))?);
            self.alu(op, &[result, result, c]);
        }
        if merges {
            let c = self.value(i, self.operand(i, 3)?, Class::R32, d_type)?;
            let low = self.register(Class::R32);
            let (first, bits) = (self.constant32(to.first_bit), self.constant32(to.bits));
            self.alu(op1::<int_ops::LowWord>(), &[low, result]);
            self.alu(rare4::<int_ops::w32::Bfi>(), &[d, low, c, first, bits]);
        } else {
            self.alu(op1::<int_ops::LowWord>(), &[d, result]);
        }
        Ok(())
    }

    /// Extends the part of a source to 64 bits.
    fn part(&mut self, i: &Instruction, part: &Part, whole: Ty) -> Load<u32> {
        let register = self.value(i, &part.register, Class::R32, whole)?;
        let (low, by) = (self.register(Class::R32), self.constant32(part.first_bit));
        self.alu(op2::<int_ops::w32::ShrU>(), &[low, register, by]);
        Ok(self.widen_integer(part.ty(whole), low))
    }
}
