//! Decodes exchanges within a warp: shuffles, votes, matches, reductions (PTX ISA 9.7.9.5, 9.7.13).

use super::{Decoder, Load};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

impl Decoder<'_> {
    /// Decodes an instruction that lanes of a warp execute together, by its first word.
    pub(super) fn warp(&mut self, words: &[&str]) -> Load<()> {
        match words[0] {
            // ptxas takes the words in either order, and CUB writes the other one.
            "vote" => match *words {
                [vote, mode, "sync", ty] => self.exchange(&[vote, "sync", mode, ty]),
                _ => self.exchange(words),
            },
            "shfl" | "match" | "redux" | "activemask" => self.exchange(words),
            "elect" => self.elect(words),
            "wmma" => self.wmma(words),
            "mma" => self.mma(words),
            "ldmatrix" | "stmatrix" => self.matrix(words),
            "movmatrix" => self.movmatrix(words),
            _ => self.unsupported(""),
        }
    }

    /// Decodes `elect.sync d|p, members` (PTX ISA 9.7.13.14). Which member is elected is left open, but it is always
    /// the same one; here it is the first.
    fn elect(&mut self, words: &[&str]) -> Load<()> {
        if words != ["elect", "sync"] {
            return self.unsupported("");
        }
        self.expect_operands(2..=2)?;
        let Operand::Pair(d, p) = self.operand(0)? else {
            return self.invalid("`elect.sync` gives a lane and a predicate");
        };
        let d = self.destination(&Operand::Name(d.clone()), Class::R32)?;
        let p = self.predicate(p)?;
        let members = self.source(1, Class::R32, Ty::B32)?;
        self.emit_with(Op::Exchange(Exchange::Elect), [d, 0, 0, 0, members, p]);
        Ok(())
    }

    /// Decodes a shuffle, a vote, a match, a reduction, or `activemask`.
    fn exchange(&mut self, words: &[&str]) -> Load<()> {
        if words == ["activemask", "b32"] {
            let d = self.result(0, Class::R32)?;
            self.emit_with(Op::ActiveMask, [d, 0, 0, 0, 0, 0]);
            return Ok(());
        }
        // The forms without .sync are gone since sm_70.
        if words.get(1) != Some(&"sync") && words.get(2) != Some(&"sync") {
            return self.unsupported("forms without .sync");
        }
        let (d, p) = match self.operand(0)? {
            Operand::Pair(d, p) => (Operand::Name(d.clone()), Some(self.predicate(p)?)),
            other => (other.clone(), None),
        };
        let members = self.source(
            self.ptx.operands.len().saturating_sub(1),
            Class::R32,
            Ty::B32,
        )?;
        let source = self.operand(1)?.clone();
        let predicate = p.is_some();
        let (exchange, result, (class, ty)) = match words {
            ["shfl", "sync", mode, "b32"] => {
                self.expect_operands(5..=5)?;
                let mode = self.known(ShflMode::parse(mode))?;
                let exchange = Exchange::Shfl { mode, predicate };
                (exchange, Class::R32, (Class::R32, Ty::B32))
            }
            ["vote", "sync", mode, ty] => {
                let (mode, result) = match (*mode, *ty) {
                    ("all", "pred") => (VoteMode::All, Class::Pred),
                    ("any", "pred") => (VoteMode::Any, Class::Pred),
                    ("uni", "pred") => (VoteMode::Uni, Class::Pred),
                    ("ballot", "b32") => (VoteMode::Ballot, Class::R32),
                    _ => return self.unsupported(""),
                };
                let negated = matches!(source, Operand::Not(_));
                let exchange = Exchange::Vote { mode, negated };
                (exchange, result, (Class::Pred, Ty::Pred))
            }
            ["match", mode @ ("any" | "all"), "sync", ty] => {
                let (all, wide) = (*mode == "all", *ty == "b64");
                let exchange = Exchange::Match {
                    all,
                    wide,
                    predicate,
                };
                let class = if wide { Class::R64 } else { Class::R32 };
                (exchange, Class::R32, (class, Ty::B32))
            }
            ["redux", "sync", op @ ("min" | "max"), dress @ .., "f32"]
                if matches!(dress, [] | ["abs"] | ["NaN"] | ["abs", "NaN"]) =>
            {
                let op = ReduxOp::Floats(ReduxFloats {
                    smallest: *op == "min",
                    absolute: dress.contains(&"abs"),
                    keeps_nan: dress.contains(&"NaN"),
                });
                (Exchange::Redux(op), Class::R32, (Class::R32, Ty::F32))
            }
            ["redux", "sync", name, ty] => {
                let op = match (*name, *ty) {
                    ("add", "u32" | "s32") => ReduxOp::Add,
                    ("min", "u32") => ReduxOp::MinU,
                    ("min", "s32") => ReduxOp::MinS,
                    ("max", "u32") => ReduxOp::MaxU,
                    ("max", "s32") => ReduxOp::MaxS,
                    ("and", "b32") => ReduxOp::And,
                    ("or", "b32") => ReduxOp::Or,
                    ("xor", "b32") => ReduxOp::Xor,
                    _ => return self.unsupported(""),
                };
                (Exchange::Redux(op), Class::R32, (Class::R32, Ty::B32))
            }
            _ => return self.unsupported(""),
        };
        let d = self.destination(&d, result)?;
        let a = match (&source, class) {
            (Operand::Not(name), Class::Pred) => self.predicate(name)?,
            (source, _) => self.value(source, class, ty)?,
        };
        let [b, c] = if matches!(exchange, Exchange::Shfl { .. }) {
            [
                self.source(2, Class::R32, Ty::B32)?,
                self.source(3, Class::R32, Ty::B32)?,
            ]
        } else {
            self.expect_operands(3..=3)?;
            [0; 2]
        };
        let o = [d, a, b, c, members, p.unwrap_or(0)];
        self.emit_with(Op::Exchange(exchange), o);
        Ok(())
    }
}
