//! Decodes atomics and reductions (PTX ISA 9.7.13.5 and 6).

use super::memory_forms::order;
use super::{Decoder, Load, class};
use crate::isa::*;
use crate::parse::ast::*;
use crate::regs::Class;

/// Returns the operation with this name on elements of a type, or `None` if there is none.
pub(super) fn operation(name: &str, ty: Ty) -> Option<AtomOp> {
    let signed = ty.is_signed();
    Some(match (name, ty) {
        ("add", Ty::F32) => AtomOp::AddF32,
        ("add", Ty::F64) => AtomOp::AddF64,
        ("add", Ty::F16x2) => AtomOp::AddF16x2,
        ("add", Ty::Bf16x2) => AtomOp::AddBf16x2,
        ("add", Ty::F16) => AtomOp::AddF16,
        ("add", Ty::Bf16) => AtomOp::AddBf16,
        ("add", Ty::U32 | Ty::S32 | Ty::U64 | Ty::S64) => AtomOp::Add,
        ("exch", _) if ty.bytes() >= 4 => AtomOp::Exch,
        ("cas", _) => AtomOp::Cas,
        (_, Ty::B128) => return None,
        ("and", _) => AtomOp::And,
        ("or", _) => AtomOp::Or,
        ("xor", _) => AtomOp::Xor,
        ("min", _) if signed => AtomOp::MinS,
        ("max", _) if signed => AtomOp::MaxS,
        ("min", Ty::U32 | Ty::U64) => AtomOp::MinU,
        ("max", Ty::U32 | Ty::U64) => AtomOp::MaxU,
        ("min", Ty::F16) => AtomOp::MinF16,
        ("min", Ty::Bf16) => AtomOp::MinBf16,
        ("max", Ty::F16) => AtomOp::MaxF16,
        ("max", Ty::Bf16) => AtomOp::MaxBf16,
        ("inc", Ty::U32) => AtomOp::Inc,
        ("dec", Ty::U32) => AtomOp::Dec,
        _ => return None,
    })
}

impl Decoder<'_> {
    /// Decodes `atom` and `red`, which differ in that `red` returns no old value.
    pub(super) fn atomic(&mut self, words: &[&str]) -> Load<()> {
        let mut space = AddressSpace::Generic;
        let (mut name, mut ty, mut count) = (None, None, 1);
        for &word in &words[1..] {
            match word {
                "relaxed" | "acquire" | "release" | "acq_rel" | "cta" | "cluster" | "gpu"
                | "sys" | "noftz" => {}
                "v2" => count = 2,
                "v4" => count = 4,
                "v8" => count = 8,
                "add" | "and" | "or" | "xor" | "exch" | "cas" | "min" | "max" | "inc" | "dec" => {
                    name = Some(word)
                }
                w => match (self.state_space(w), Ty::parse(w)) {
                    (Some(s), _) => space = s,
                    (_, Some(t)) => ty = Some(t),
                    _ => return self.unsupported(""),
                },
            }
        }
        let (Some(name), Some(ty)) = (name, ty) else {
            return self.unsupported("");
        };
        let op = self.known(operation(name, ty))?;
        // Sums of floats, and minima and maxima of halves, in vectors of up to 16 bytes in global memory. Halves by
        // themselves have only sums.
        let vector = count > 1;
        let of_vectors = match name {
            "add" => matches!(ty, Ty::F32 | Ty::F16 | Ty::Bf16 | Ty::F16x2 | Ty::Bf16x2),
            "min" | "max" => matches!(ty, Ty::F16 | Ty::Bf16),
            _ => false,
        };
        let only_vectors = of_vectors && name != "add";
        let elsewhere = !matches!(space, AddressSpace::Global | AddressSpace::Generic);
        let fits = of_vectors && !elsewhere && ty.bytes() * count <= 16;
        if vector && !fits || !vector && only_vectors {
            return self.unsupported("");
        }
        let is_red = words[0] == "red";
        let first = usize::from(!is_red);
        let needed = first + 2 + usize::from(op == AtomOp::Cas);
        self.expect_operands(needed..=needed)?;
        let count = count as usize;
        let destinations = if is_red {
            Vec::new()
        } else {
            self.elements(0, (ty, count), true)?
        };
        let (space, address, offset) = self.address(first, space)?;
        let b = self.elements(first + 1, (ty, count), false)?;
        let c = match op {
            AtomOp::Cas => self.elements(first + 2, (ty, count), false)?,
            _ => b.clone(),
        };
        let class = if ty == Ty::B128 {
            Class::R64
        } else {
            class(ty)
        };
        let width = ty.bytes().min(8);
        let registers = b.into_iter().map(|r| (class, r)).collect();
        let access = Access {
            order: order(words, true),
            ..Access::new(space, width, registers, address, offset)
        };
        self.watch_shared(space, width);
        self.emit(Op::Atom(Box::new(Atomic {
            access,
            op,
            class,
            destinations,
            c,
            answers: false,
        })));
        Ok(())
    }

    /// Reads an operand as the registers of a scalar, of a vector, or of the halves of 128 bits.
    fn elements(
        &mut self,
        operand: usize,
        (ty, count): (Ty, usize),
        write: bool,
    ) -> Load<Vec<u32>> {
        let operand = self.operand(operand)?;
        if ty == Ty::B128 {
            return Ok(self.wide(operand, write)?.to_vec());
        }
        let elements = match operand {
            Operand::Vector(v) if v.len() == count && count > 1 => v.as_slice(),
            // The old value is not wanted.
            Operand::Name(name) if write && name == "_" => return Ok(vec![0; count]),
            _ if count > 1 => return self.invalid("expected a vector in braces"),
            one => std::slice::from_ref(one),
        };
        self.registers(elements, (class(ty), ty), write)
    }
}
