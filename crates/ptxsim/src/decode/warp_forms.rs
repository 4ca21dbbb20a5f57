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
        match words {
            ["shfl", "sync", mode, "b32"] => {
                self.expect_operands(5..=5)?;
                let mode = match *mode {
                    "up" => ShflMode::Up,
                    "down" => ShflMode::Down,
                    "bfly" => ShflMode::Bfly,
                    "idx" => ShflMode::Idx,
                    _ => return self.unsupported(""),
                };
                let d = self.destination(&d, Class::R32)?;
                let a = self.value(&source, Class::R32, Ty::B32)?;
                let b = self.source(2, Class::R32, Ty::B32)?;
                let c = self.source(3, Class::R32, Ty::B32)?;
                self.emit_with(
                    Op::Exchange(Exchange::Shfl {
                        mode,
                        predicate: p.is_some(),
                    }),
                    [d, a, b, c, members, p.unwrap_or(0)],
                );
            }
            ["vote", "sync", mode, ty] => {
                self.expect_operands(3..=3)?;
                let (mode, class) = match (*mode, *ty) {
                    ("all", "pred") => (VoteMode::All, Class::Pred),
                    ("any", "pred") => (VoteMode::Any, Class::Pred),
                    ("uni", "pred") => (VoteMode::Uni, Class::Pred),
                    ("ballot", "b32") => (VoteMode::Ballot, Class::R32),
                    _ => return self.unsupported(""),
                };
                let d = self.destination(&d, class)?;
                let (a, negated) = match &source {
                    Operand::Not(n) => (self.predicate(n)?, true),
                    other => (self.value(other, Class::Pred, Ty::Pred)?, false),
                };
                let op = Op::Exchange(Exchange::Vote { mode, negated });
                self.emit_with(op, [d, a, 0, 0, members, 0]);
            }
            ["match", mode @ ("any" | "all"), "sync", ty] => {
                self.expect_operands(3..=3)?;
                let wide = *ty == "b64";
                let d = self.destination(&d, Class::R32)?;
                let class = if wide { Class::R64 } else { Class::R32 };
                let a = self.value(&source, class, Ty::B32)?;
                let op = Op::Exchange(Exchange::Match {
                    all: *mode == "all",
                    wide,
                    predicate: p.is_some(),
                });
                self.emit_with(op, [d, a, 0, 0, members, p.unwrap_or(0)]);
            }
            ["redux", "sync", op @ ("min" | "max"), dress @ .., "f32"]
                if matches!(dress, [] | ["abs"] | ["NaN"] | ["abs", "NaN"]) =>
            {
                self.expect_operands(3..=3)?;
                let op = ReduxOp::Floats(ReduxFloats {
                    smallest: *op == "min",
                    absolute: dress.contains(&"abs"),
                    keeps_nan: dress.contains(&"NaN"),
                });
                let d = self.destination(&d, Class::R32)?;
                let a = self.value(&source, Class::R32, Ty::F32)?;
                let op = Op::Exchange(Exchange::Redux(op));
                self.emit_with(op, [d, a, 0, 0, members, 0]);
            }
            ["redux", "sync", name, ty] => {
                self.expect_operands(3..=3)?;
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
                let d = self.destination(&d, Class::R32)?;
                let a = self.value(&source, Class::R32, Ty::B32)?;
                let op = Op::Exchange(Exchange::Redux(op));
                self.emit_with(op, [d, a, 0, 0, members, 0]);
            }
            _ => return self.unsupported(""),
        }
        Ok(())
    }
}
