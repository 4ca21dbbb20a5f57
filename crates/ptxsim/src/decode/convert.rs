//! Decodes `cvt` (PTX ISA 9.7.9.21). Frequent pairs of types are one step, and the others go through 64 bits.

use super::{Decoder, Load, class};
use crate::alu::*;
use crate::exec::{convert_ops, int_ops};
use crate::num::round::Round;
use crate::parse::ast::*;
use crate::regs::Class;

impl Decoder<'_> {
    /// Decodes a conversion, by the kinds of its two types.
    pub(super) fn convert(&mut self, words: &[&str]) -> Load<()> {
        let (mut mode, mut ftz, mut sat, mut relu) = (None, false, false, false);
        let mut types = Vec::new();
        for &word in &words[1..] {
            match word {
                "ftz" => ftz = true,
                "sat" => sat = true,
                "relu" => relu = true,
                w if Round::parse(w).is_some() => mode = Round::parse(w),
                w => types.push(w),
            }
        }
        // These are forms of one step each. They have no `.ftz`, and `.satfinite` in place of `.sat`.
        let satfinite = words.contains(&"satfinite");
        let key: Vec<&str> = words[1..]
            .iter()
            .copied()
            .filter(|w| !matches!(*w, "relu" | "satfinite"))
            .collect();
        let packed = convert_ops::packed(&key, satfinite, relu);
        if let Some(op) = packed {
            return self.plain(op, Ty::B32);
        }
        let [Some(to), Some(from)] = types.iter().map(|w| Ty::parse(w)).collect::<Vec<_>>()[..]
        else {
            return self.unsupported("");
        };
        if matches!(to, Ty::F16x2 | Ty::Bf16x2) || matches!(from, Ty::F16x2 | Ty::Bf16x2) {
            return self.unsupported("");
        }
        // bf16 has no `.sat`, no conversion to or from 8 bits and none to itself that rounds.
        let other = if to == Ty::Bf16 { from } else { to };
        let bf16 = to == Ty::Bf16 || from == Ty::Bf16;
        let rounds = words
            .iter()
            .any(|w| matches!(*w, "rn" | "rz" | "rm" | "rp"));
        if bf16 && (sat || other.bytes() == 1 || other == Ty::Bf16 && rounds) {
            return self.unsupported("");
        }
        self.expect_operands(2..=2)?;
        let source = self.operand(1)?;
        // Sources may live in wider registers than their type.
        let from_class = self.class_of(source).map_or(class(from), |(c, _)| c);
        let mut a = self.value(source, from_class, from)?;
        if from_class == Class::R64 && class(from) == Class::R32 {
            a = self.computed(op1::<int_ops::LowWord>(), &[a]);
        }
        let Some((to_class, to_register)) = self.class_of(self.operand(0)?) else {
            return self.invalid("the destination is not a register");
        };
        let d = self.result(0, to_class)?;
        let float = |ty: Ty| matches!(ty, Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64);
        match (float(from), float(to)) {
            (false, false) => {
                self.integer_to_integer((from, a), (to, to_class, to_register, d), sat)
            }
            (true, true) => self.float_to_float((from, a), (to, d), mode, ftz, sat, relu),
            (true, false) => {
                let (Some(widen), Some(mode), Some(narrow)) = (
                    convert_ops::float_to_f64(from, ftz),
                    mode,
                    convert_ops::f64_to_integer(to, from),
                ) else {
                    return self.unsupported("");
                };
                let t = self.computed(widen, &[a]);
                self.alu(convert_ops::integral(mode), &[t, t]);
                self.alu(narrow, &[t, t]);
                self.finish_integer(t, (to, to_class, to_register, d));
                Ok(())
            }
            (false, true) => {
                let mode = mode.unwrap_or(Round::Nearest);
                match (from, to, mode, sat) {
                    (Ty::S32, Ty::F32, Round::Nearest, false) => {
                        self.alu(op1::<convert_ops::F32FromS32>(), &[d, a])
                    }
                    (Ty::U32, Ty::F32, Round::Nearest, false) => {
                        self.alu(op1::<convert_ops::F32FromU32>(), &[d, a])
                    }
                    _ => {
                        let convert =
                            self.known(convert_ops::integer_to_float(from.is_signed(), to, mode))?;
                        let mut wide = self.widen_integer(from, a);
                        if sat {
                            let unit = if from.is_signed() {
                                op1::<convert_ops::UnitS>()
                            } else {
                                op1::<convert_ops::UnitU>()
                            };
                            wide = self.computed(unit, &[wide]);
                        }
                        self.alu(convert, &[d, wide]);
                    }
                }
                Ok(())
            }
        }
    }

    /// Extends an integer to 64 bits.
    pub(super) fn widen_integer(&mut self, from: Ty, a: u32) -> u32 {
        match widening(from) {
            Some(op) => self.computed(op, &[a]),
            None => a,
        }
    }

    /// Writes the low bits of a 64-bit integer, extended by the type's sign to the register.
    fn finish_integer(&mut self, wide: u32, (to, to_class, to_register, d): (Ty, Class, Ty, u32)) {
        if to_class == Class::R64 {
            let Some(op) = widening(to) else {
                return self.alu(op1::<int_ops::w64::Mov>(), &[d, wide]);
            };
            let low = self.computed(op1::<int_ops::LowWord>(), &[wide]);
            return self.alu(op, &[d, low]);
        }
        self.alu(op1::<int_ops::LowWord>(), &[d, wide]);
        let extend = match to {
            Ty::U8 | Ty::B8 => op1::<int_ops::LowByte>(),
            Ty::S8 => op1::<int_ops::SignByte>(),
            Ty::U16 | Ty::B16 => op1::<int_ops::LowHalf>(),
            Ty::S16 => op1::<int_ops::SignHalf>(),
            _ => return,
        };
        self.alu(extend, &[d, d]);
        if to_register.bytes() == 2 {
            self.alu(op1::<int_ops::LowHalf>(), &[d, d]);
        }
    }

    /// Emits a conversion between integers, with clamping if `sat` asks for it.
    fn integer_to_integer(
        &mut self,
        (from, a): (Ty, u32),
        to: (Ty, Class, Ty, u32),
        sat: bool,
    ) -> Load<()> {
        if !sat && to.0.bytes() == 8 && to.1 == Class::R64 {
            let wide = self.widen_integer(from, a);
            if wide == a {
                self.alu(op1::<int_ops::w64::Mov>(), &[to.3, a]);
            } else if let Some(last) = self.program.code.last_mut() {
                last.o[0] = to.3;
            }
            return Ok(());
        }
        let wide = self.widen_integer(from, a);
        let mut value = wide;
        if sat {
            // Nothing is clamped if the target holds every value of the source.
            if let Some(clamp) = convert_ops::clamp(from.is_signed(), to.0) {
                value = self.computed(clamp, &[wide]);
            }
        }
        self.finish_integer(value, to);
        Ok(())
    }

    /// Emits a conversion between floats, through f64 unless it is frequent.
    #[allow(clippy::too_many_arguments)]
    fn float_to_float(
        &mut self,
        (from, a): (Ty, u32),
        (to, d): (Ty, u32),
        mode: Option<Round>,
        ftz: bool,
        sat: bool,
        relu: bool,
    ) -> Load<()> {
        let plain = !sat && !relu;
        match (from, to, mode) {
            (Ty::F16, Ty::F32, None) if plain && !ftz => {
                self.alu(op1::<convert_ops::HalfToF32>(), &[d, a])
            }
            (Ty::Bf16, Ty::F32, None) if plain && !ftz => {
                self.alu(op1::<convert_ops::Bf16ToF32>(), &[d, a])
            }
            (Ty::F32, Ty::F16, Some(Round::Nearest)) if plain && !ftz => {
                self.alu(op1::<convert_ops::F32ToHalf>(), &[d, a])
            }
            (Ty::F32, Ty::Bf16, Some(Round::Nearest)) if plain && !ftz => {
                self.alu(op1::<convert_ops::F32ToBf16>(), &[d, a])
            }
            (Ty::F32, Ty::F32, None) if plain && !ftz => {
                self.alu(op1::<int_ops::w32::Mov>(), &[d, a])
            }
            (Ty::F64, Ty::F64, None) if plain => self.alu(op1::<int_ops::w64::Mov>(), &[d, a]),
            _ => {
                // From f32 to a half the hardware rounds subnormals before it would flush them.
                let flush_source = ftz && to != Ty::F16;
                let widen = match to {
                    Ty::F64 => convert_ops::float_to_f64_whole(from, flush_source),
                    _ => convert_ops::float_to_f64(from, flush_source),
                };
                let (Some(widen), Some(narrow)) = (
                    widen,
                    convert_ops::f64_to_float(to, mode.unwrap_or(Round::Nearest), ftz),
                ) else {
                    return self.unsupported("");
                };
                let t = self.computed(widen, &[a]);
                let integral = self
                    .ptx
                    .words
                    .iter()
                    .any(|w| matches!(w.as_str(), "rni" | "rzi" | "rmi" | "rpi"));
                if let (true, Some(mode)) = (integral, mode) {
                    self.alu(convert_ops::integral(mode), &[t, t]);
                }
                if sat {
                    self.alu(op1::<convert_ops::SatD>(), &[t, t]);
                }
                if relu {
                    self.alu(op1::<convert_ops::ReluD>(), &[t, t]);
                }
                self.alu(narrow, &[d, t]);
            }
        }
        Ok(())
    }
}

/// Returns the operation that extends an integer to 64 bits, or `None` if it has them.
fn widening(ty: Ty) -> Option<AluOp> {
    Some(match ty {
        Ty::U8 | Ty::B8 => op1::<int_ops::FromU8>(),
        Ty::S8 => op1::<int_ops::FromS8>(),
        Ty::U16 | Ty::B16 => op1::<int_ops::FromU16>(),
        Ty::S16 => op1::<int_ops::FromS16>(),
        Ty::S32 => op1::<int_ops::FromS32>(),
        Ty::U64 | Ty::S64 | Ty::B64 => return None,
        _ => op1::<int_ops::FromU32>(),
    })
}
