//! Decodes arithmetic that sm_100 added, into steps of what was there before: pairs of f32, f32 with f16 or bf16, and
//! the extreme of three (PTX ISA, "add", "sub", "mul", "fma", and "min" and "max" of f32).

use super::{Decoder, Load};
use crate::alu::*;
use crate::exec::{convert_ops, float_ops, int_ops};
use crate::num::round::Round;
use crate::parse::ast::*;
use crate::regs::Class;

/// Reads the words between the name of an instruction of floats and its type.
pub(super) fn modifiers(words: &[&str]) -> Option<float_ops::Modifiers> {
    let mut m = float_ops::Modifiers {
        mode: Round::Nearest,
        ftz: false,
        sat: false,
        nan: false,
        xorsign: false,
        relu: false,
        approx: false,
    };
    for (n, word) in words.iter().enumerate() {
        match *word {
            "xorsign" if words.get(n + 1) == Some(&"abs") => m.xorsign = true,
            "abs" if m.xorsign => {}
            "ftz" => m.ftz = true,
            "sat" => m.sat = true,
            "NaN" => m.nan = true,
            "relu" => m.relu = true,
            "approx" => m.approx = true,
            // The result is rounded, which is within the 2 ulp that are allowed.
            "full" => {}
            w => m.mode = Round::parse(w)?,
        }
    }
    Some(m)
}

impl Decoder<'_> {
    /// Decodes one of these forms. Returns false if it is none of them.
    pub(super) fn newer_floats(&mut self, words: &[&str]) -> Load<bool> {
        match words {
            [name @ ("add" | "sub" | "mul" | "fma"), middle @ .., "f32x2"] => {
                self.pairs_of_floats(name, middle)?;
            }
            [
                name @ ("add" | "sub" | "fma"),
                middle @ ..,
                "f32",
                narrow @ ("f16" | "bf16"),
            ] => {
                self.mixed_floats(name, middle, narrow)?;
            }
            [name @ ("min" | "max"), middle @ .., "f32"] if self.ptx.operands.len() == 4 => {
                self.extreme_of_three(name, middle)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the operation on f32 with this name and these modifiers.
    fn single_op(&self, name: &str, middle: &[&str]) -> Load<AluOp> {
        let op = modifiers(middle).and_then(|m| float_ops::lookup(name, Ty::F32, m));
        self.known(op)
    }

    /// Emits an operation on each f32 of a pair.
    fn pairs_of_floats(&mut self, name: &str, middle: &[&str]) -> Load<()> {
        let op = self.single_op(name, middle)?;
        let sources = op.classes().len() - 1;
        self.expect_operands(sources + 1..=sources + 1)?;
        let d = self.result(0, Class::R64)?;
        let mut halves = [
            vec![self.register(Class::R32)],
            vec![self.register(Class::R32)],
        ];
        for n in 1..=sources {
            let both = self.source(n, Class::R64, Ty::B64)?;
            let words = [op1::<int_ops::LowWord>(), op1::<int_ops::HighWord>()];
            for (half, word) in halves.iter_mut().zip(words) {
                half.push(self.computed(word, &[both]));
            }
        }
        for half in &halves {
            self.alu(op, half);
        }
        self.alu(
            op2::<int_ops::PackWords>(),
            &[d, halves[0][0], halves[1][0]],
        );
        Ok(())
    }

    /// Emits an operation on f32 whose sources are f16 or bf16, but for the last one.
    fn mixed_floats(&mut self, name: &str, middle: &[&str], narrow: &str) -> Load<()> {
        let op = self.single_op(name, middle)?;
        let sources = op.classes().len() - 1;
        self.expect_operands(sources + 1..=sources + 1)?;
        let mut o = vec![self.result(0, Class::R32)?];
        let (ty, widen) = match narrow {
            "f16" => (Ty::F16, op1::<convert_ops::HalfToF32>()),
            _ => (Ty::Bf16, op1::<convert_ops::Bf16ToF32>()),
        };
        for n in 1..sources {
            let a = self.source(n, Class::R32, ty)?;
            o.push(self.computed(widen, &[a]));
        }
        o.push(self.source(sources, Class::R32, Ty::F32)?);
        self.alu(op, &o);
        Ok(())
    }

    /// Emits a minimum or maximum of three as two of two.
    fn extreme_of_three(&mut self, name: &str, middle: &[&str]) -> Load<()> {
        let (of_magnitudes, rest) = match middle {
            [rest @ .., "abs"] => (true, rest),
            rest => (false, rest),
        };
        if rest.contains(&"xorsign") {
            return self.unsupported("");
        }
        let op = self.single_op(name, rest)?;
        let d = self.result(0, Class::R32)?;
        let mut sources = Vec::new();
        for n in 1..4 {
            let a = self.source(n, Class::R32, Ty::F32)?;
            sources.push(if of_magnitudes {
                let abs = self.single_op("abs", &[])?;
                self.computed(abs, &[a])
            } else {
                a
            });
        }
        let first = self.register(Class::R32);
        self.alu(op, &[first, sources[0], sources[1]]);
        self.alu(op, &[d, first, sources[2]]);
        Ok(())
    }
}
