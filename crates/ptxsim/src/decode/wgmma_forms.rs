//! Decodes `wgmma` (PTX ISA 9.7.16), and the instruction by which warpgroups hand on registers.

use super::{Decoder, Load};
use crate::isa::mma::{self, Elem, Shape};
use crate::isa::wgmma::{OperandA, Wgmma};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

/// Returns true if `wgmma` has this product. Sparse products and products of single bits are not covered.
fn is_product(s: Shape, ab: [Elem; 2], sum: Elem) -> bool {
    use Elem::*;
    let columns = s.m == 64 && s.n.is_multiple_of(8) && (8..=256).contains(&s.n);
    let of_types = match (ab, s.k) {
        ([F16, F16], 16) | ([E4m3 | E5m2, E4m3 | E5m2], 32) => matches!(sum, F16 | F32),
        ([Bf16, Bf16], 16) | ([Tf32, Tf32], 8) => sum == F32,
        ([S8 | U8, S8 | U8], 32) => sum == S32 && (s.n.is_multiple_of(16) || s.n == 8 || s.n == 24),
        _ => false,
    };
    columns && of_types
}

impl Decoder<'_> {
    /// Decodes a product of a warpgroup, its fence, and its groups.
    pub(super) fn wgmma(&mut self, words: &[&str]) -> Load<()> {
        match words {
            [_, "fence", "sync", "aligned"] => self.emit(Op::WgmmaFence),
            [_, "commit_group", "sync", "aligned"] => self.emit(Op::WgmmaCommit),
            [_, "wait_group", "sync", "aligned"] => {
                let keep = self.groups_to_keep()?;
                self.emit(Op::WgmmaWait(keep));
            }
            [_, "mma_async", "sync", "aligned", shape, rest @ ..] => {
                self.wgmma_product(shape, rest)?;
            }
            [_, "mma_async", "sp", ..] => {
                let is_like = |other: &Instruction| {
                    other
                        .words
                        .iter()
                        .map(String::as_str)
                        .take(3)
                        .eq(["wgmma", "mma_async", "sp"])
                };
                return self.refuse_all("products of sparse matrices", is_like);
            }
            _ => return self.unsupported(""),
        }
        Ok(())
    }

    /// Decodes a product: d, a, b, the predicate that d is added to; then 1 or -1 for each of A and B, and whether each
    /// is transposed.
    fn wgmma_product(&mut self, shape: &str, rest: &[&str]) -> Load<()> {
        let (saturate, types) = match rest {
            ["satfinite", types @ ..] => (true, types),
            types => (false, types),
        };
        let types: Option<Vec<Elem>> = types.iter().map(|word| Elem::parse(word)).collect();
        let (Some(shape), Some(&[sum, a, b])) = (mma::shape(shape), types.as_deref()) else {
            return self.unsupported("");
        };
        let integers = sum == Elem::S32;
        if !is_product(shape, [a, b], sum) || saturate && !integers {
            return self.unsupported("this shape with these types");
        }
        let in_registers = matches!(self.operand(1)?, Operand::Vector(_));
        let signs = if integers { 0 } else { 2 };
        let transposes = match a.bits() {
            16 if in_registers => 1,
            16 => 2,
            _ => 0,
        };
        let operands = 4 + signs + transposes;
        self.expect_operands(operands..=operands)?;
        let d = self.fragment(0, sum, true)?;
        let needed = shape.n / 2 / sum.per_register();
        if d.len() != needed as usize {
            return self.invalid(format!("the result has {needed} registers"));
        }
        let in_a = if in_registers {
            OperandA::Registers(self.fragment(1, a, false)?)
        } else {
            OperandA::Descriptor(self.descriptor(1)?)
        };
        if matches!(&in_a, OperandA::Registers(r) if r.len() != 4) {
            return self.invalid("A has 4 registers");
        }
        let mut negated = [false; 2];
        for (n, negated) in negated.iter_mut().enumerate().take(signs) {
            *negated = match self.immediate(4 + n)? as i64 {
                1 => false,
                -1 => true,
                _ => return self.invalid("A and B are scaled by 1 or -1"),
            };
        }
        let mut transposed = [false; 2];
        let given = transposed.iter_mut().skip(2 - transposes);
        for (n, transposed) in given.enumerate() {
            *transposed = match self.immediate(4 + signs + n)? {
                0 => false,
                1 => true,
                _ => return self.invalid("a matrix is transposed or not: 1 or 0"),
            };
        }
        let b_at = self.descriptor(2)?;
        let adds = self.source(3, Class::Pred, Ty::Pred)?;
        self.watch_shared(AddressSpace::Shared, 4);
        let product = Wgmma {
            shape,
            ab: [a, b],
            sum,
            saturate,
            d,
            a: in_a,
            b: b_at,
            adds,
            negated,
            transposed,
        };
        self.emit(Op::Wgmma(Box::new(product)));
        Ok(())
    }

    /// Reads an operand as the descriptor of a matrix.
    fn descriptor(&mut self, operand: usize) -> Load<u32> {
        self.source(operand, Class::R64, Ty::B64)
    }

    /// Reads an operand as an integer constant.
    pub(super) fn immediate(&self, operand: usize) -> Load<u64> {
        match self.operand(operand)? {
            Operand::Number(Number::Int(n)) => Ok(*n),
            _ => self.invalid(format!("operand {operand} is not a constant")),
        }
    }

    /// Decodes `setmaxnreg`, as in `setmaxnreg.inc.sync.aligned.u32 count`.
    pub(super) fn set_registers(&mut self, words: &[&str]) -> Load<()> {
        let [_, way @ ("inc" | "dec"), "sync", "aligned", "u32"] = words else {
            return self.unsupported("");
        };
        self.expect_operands(1..=1)?;
        let count = self.immediate(0)?;
        if !(24..=256).contains(&count) || !count.is_multiple_of(8) {
            let what = format!("{count} registers: they are from 24 to 256, and a multiple of 8");
            return self.invalid(what);
        }
        let change = SetRegisters {
            count: count as u32,
            takes: *way == "inc",
        };
        self.emit(Op::SetRegisters(change));
        Ok(())
    }
}
