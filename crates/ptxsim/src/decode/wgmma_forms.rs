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
    pub(super) fn wgmma(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        match words {
            [_, "fence", "sync", "aligned"] => self.emit(Op::WgmmaFence, [0; 6]),
            [_, "commit_group", "sync", "aligned"] => self.emit(Op::WgmmaCommit, [0; 6]),
            [_, "wait_group", "sync", "aligned"] => {
                let keep = self.groups_to_keep(i)?;
                self.emit(Op::WgmmaWait(keep), [0; 6]);
            }
            [_, "mma_async", "sync", "aligned", shape, rest @ ..] => {
                self.wgmma_product(i, shape, rest)?;
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
                return self.refuse_all(i, "products of sparse matrices", is_like);
            }
            _ => return self.unsupported(i, ""),
        }
        Ok(())
    }

    /// Decodes a product: d, a, b, the predicate that d is added to; then 1 or -1 for each of A and B, and whether each
    /// is transposed.
    fn wgmma_product(&mut self, i: &Instruction, shape: &str, rest: &[&str]) -> Load<()> {
        let (saturate, types) = match rest {
            ["satfinite", types @ ..] => (true, types),
            types => (false, types),
        };
        let types: Option<Vec<Elem>> = types.iter().map(|word| mma::element(word)).collect();
        let (Some(shape), Some(&[sum, a, b])) = (mma::shape(shape), types.as_deref()) else {
            return self.unsupported(i, "");
        };
        let integers = sum == Elem::S32;
        if !is_product(shape, [a, b], sum) || saturate && !integers {
            return self.unsupported(i, "this shape with these types");
        }
        let in_registers = matches!(self.operand(i, 1)?, Operand::Vector(_));
        let signs = if integers { 0 } else { 2 };
        let transposes = match a.bits() {
            16 if in_registers => 1,
            16 => 2,
            _ => 0,
        };
        let operands = 4 + signs + transposes;
        self.expect_operands(i, operands..=operands)?;
        let d = self.fragment(i, 0, sum, true)?;
        let needed = shape.n / 2 / sum.per_register();
        if d.len() != needed as usize {
            return self.invalid(i.pos, format!("the result has {needed} registers"));
        }
        let in_a = if in_registers {
            OperandA::Registers(self.fragment(i, 1, a, false)?)
        } else {
            OperandA::Descriptor(self.descriptor(i, 1)?)
        };
        if matches!(&in_a, OperandA::Registers(r) if r.len() != 4) {
            return self.invalid(i.pos, "A has 4 registers");
        }
        let mut negated = [false; 2];
        for (n, negated) in negated.iter_mut().enumerate().take(signs) {
            *negated = match self.immediate(i, 4 + n)? as i64 {
                1 => false,
                -1 => true,
                _ => return self.invalid(i.pos, "A and B are scaled by 1 or -1"),
            };
        }
        let mut transposed = [false; 2];
        let given = transposed.iter_mut().skip(2 - transposes);
        for (n, transposed) in given.enumerate() {
            *transposed = match self.immediate(i, 4 + signs + n)? {
                0 => false,
                1 => true,
                _ => return self.invalid(i.pos, "a matrix is transposed or not: 1 or 0"),
            };
        }
        let b_at = self.descriptor(i, 2)?;
        let adds = self.value(i, self.operand(i, 3)?, Class::Pred, Ty::Pred)?;
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
        self.emit(Op::Wgmma(Box::new(product)), [0; 6]);
        Ok(())
    }

    /// Reads an operand as the descriptor of a matrix.
    fn descriptor(&mut self, i: &Instruction, operand: usize) -> Load<u32> {
        self.value(i, self.operand(i, operand)?, Class::R64, Ty::B64)
    }

    /// Reads an operand as an integer constant.
    fn immediate(&self, i: &Instruction, operand: usize) -> Load<u64> {
        match self.operand(i, operand)? {
            Operand::Number(Number::Int(n)) => Ok(*n),
            _ => self.invalid(i.pos, format!("operand {operand} is not a constant")),
        }
    }

    /// Decodes `setmaxnreg`, as in `setmaxnreg.inc.sync.aligned.u32 count`.
    pub(super) fn set_registers(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let [_, way @ ("inc" | "dec"), "sync", "aligned", "u32"] = words else {
            return self.unsupported(i, "");
        };
        self.expect_operands(i, 1..=1)?;
        let count = self.immediate(i, 0)?;
        if !(24..=256).contains(&count) || !count.is_multiple_of(8) {
            let what = format!("{count} registers: they are from 24 to 256, and a multiple of 8");
            return self.invalid(i.pos, what);
        }
        let change = SetRegisters {
            count: count as u32,
            takes: *way == "inc",
        };
        self.emit(Op::SetRegisters(change), [0; 6]);
        Ok(())
    }
}
