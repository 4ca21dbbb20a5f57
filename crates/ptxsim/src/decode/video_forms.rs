//! Decodes scalar video instructions (PTX ISA, "Scalar Video Instructions"): arithmetic and comparisons of bytes,
//! half-words and words. Each becomes steps on 64 bits, which hold the 34 of its intermediate result.
//!
//! Three parts of these instructions are refused, because an H200 computes something else there than the ISA says:
//! `.sat`, a minimum or maximum as second operation, and `vabsdiff` into a part of a register.

use super::{Decoder, Load};
use crate::alu::*;
use crate::exec::{cmp_ops, int_ops};
use crate::parse::ast::*;
use crate::regs::Class;

/// The byte or half-word that `.b2` or `.h1` selects, or a whole register.
struct SelectedPart {
    register: Operand,
    first_bit: u32,
    bits: u32,
}

/// The words that select a part, with its first bit and its number of bits.
const PARTS: [(&str, u32, u32); 6] = [
    (".b0", 0, 8),
    (".b1", 8, 8),
    (".b2", 16, 8),
    (".b3", 24, 8),
    (".h0", 0, 16),
    (".h1", 16, 16),
];

impl SelectedPart {
    fn new(operand: &Operand) -> Self {
        let selected = |(selector, first_bit, bits): (&str, u32, u32)| match operand {
            Operand::Name(name) => Some(Self {
                register: Operand::Name(name.strip_suffix(selector)?.to_owned()),
                first_bit,
                bits,
            }),
            _ => None,
        };
        PARTS.into_iter().find_map(selected).unwrap_or(Self {
            register: operand.clone(),
            first_bit: 0,
            bits: 32,
        })
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
    /// Decodes `vadd.d.a.b.add d, a.b0, b.h1, c` and `vset.a.b.lt d.b2, a, b, c`.
    pub(super) fn video(&mut self, words: &[&str]) -> Load<()> {
        let (types, rest) = match words {
            ["vset", a, b, rest @ ..] => ([&"u32", a, b], rest),
            [_, d, a, b, rest @ ..] => ([d, a, b], rest),
            _ => return self.unsupported(""),
        };
        let ty = |word: &&str| Ty::parse(word).filter(|ty| matches!(ty, Ty::U32 | Ty::S32));
        let [Some(d_type), Some(a_type), Some(b_type)] = types.map(ty) else {
            return self.unsupported("");
        };
        let (relation, adds) = match (words[0], rest) {
            ("vset", [relation]) => (Some(*relation), false),
            ("vset", [relation, "add"]) => (Some(*relation), true),
            ("vset", _) => return self.unsupported(""),
            (_, []) => (None, false),
            (_, ["add"]) => (None, true),
            _ => return self.unsupported(""),
        };
        let to = SelectedPart::new(self.operand(0)?);
        let merges = to.bits < 32;
        if merges && (adds || words[0] == "vabsdiff") {
            return self.unsupported("");
        }
        let operands = 3 + usize::from(merges || adds);
        self.expect_operands(operands..=operands)?;
        let d = self.destination(&to.register, Class::R32)?;
        let a = self.part(&SelectedPart::new(self.operand(1)?), a_type)?;
        let b = self.part(&SelectedPart::new(self.operand(2)?), b_type)?;
        let integer = |name: &str| int_ops::lookup(&[name], Ty::S64);
        let result = self.register(Class::R64);
        match relation {
            Some(relation) => {
                let op = self.known(cmp_ops::lookup(relation, Ty::S64, false))?;
                let (one, zero) = (self.constant64(1), self.constant64(0));
                let holds = self.computed(op, &[a, b]);
                self.alu(op3::<int_ops::w64::Selp>(), &[result, one, zero, holds]);
            }
            None if words[0] == "vabsdiff" => {
                self.alu(op2::<int_ops::w64::Sub>(), &[result, a, b]);
                let op = self.known(integer("abs"))?;
                self.alu(op, &[result, result]);
            }
            None => {
                let op = self.known(integer(&words[0][1..]))?;
                self.alu(op, &[result, a, b]);
            }
        }
        if adds {
            let c = self.part(&SelectedPart::new(self.operand(3)?), d_type)?;
            self.alu(op2::<int_ops::w64::Add>(), &[result, result, c]);
        }
        let low = if merges { self.register(Class::R32) } else { d };
        self.alu(op1::<int_ops::LowWord>(), &[low, result]);
        if merges {
            let c = self.source(3, Class::R32, d_type)?;
            let (first, bits) = (self.constant32(to.first_bit), self.constant32(to.bits));
            self.alu(rare4::<int_ops::w32::Bfi>(), &[d, low, c, first, bits]);
        }
        Ok(())
    }

    /// Extends the part of a source to 64 bits.
    fn part(&mut self, part: &SelectedPart, whole: Ty) -> Load<u32> {
        let register = self.value(&part.register, Class::R32, whole)?;
        let (low, by) = (self.register(Class::R32), self.constant32(part.first_bit));
        self.alu(op2::<int_ops::w32::ShrU>(), &[low, register, by]);
        Ok(self.widen_integer(part.ty(whole), low))
    }
}
