//! Arithmetic, logic, moves, comparisons, conversions.

use super::{Decoder, Load, class};
use crate::exec::regs::Class;
use crate::exec::{alu::*, cmp_ops, float_ops, int_ops};
use crate::num::round::Round;
use crate::parse::ast::*;

impl Decoder<'_> {
    pub(super) fn arithmetic(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        match words[0] {
            "mov" => self.mov(i, words),
            "setp" | "set" => self.compare(i, words),
            "selp" | "slct" => self.select(i, words),
            "cvt" => self.convert(i, words),
            "addc" | "subc" | "madc" => self.carry(i, words),
            "add" | "sub" | "mad" if words.contains(&"cc") => self.carry(i, words),
            "dp4a" => self.dp4a(i, words),
            _ => self.table(i, words),
        }
    }

    /// Everything whose operands are a destination and sources in order.
    fn table(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let Some(ty) = words.last().and_then(|w| Ty::parse(w)) else { return self.unsupported(i, "") };
        let middle = &words[1..words.len() - 1];
        if ty == Ty::Pred {
            let Some(op) = cmp_ops::predicate_logic(words[0]) else { return self.unsupported(i, "") };
            return self.plain(i, op, ty);
        }
        let is_float = matches!(ty, Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::F32 | Ty::F64);
        let op = if is_float {
            let mut m = float_ops::Modifiers { mode: Round::Nearest, ftz: false, sat: false, nan: false, relu: false, approx: false };
            for word in middle {
                match *word {
                    "ftz" => m.ftz = true,
                    "sat" => m.sat = true,
                    "NaN" => m.nan = true,
                    "relu" => m.relu = true,
                    // div.full is div.approx with a wider range: both within 2 ulp.
                    "approx" | "full" => m.approx = true,
                    w => match Round::parse(w) {
                        Some(mode) => m.mode = mode,
                        None => return self.unsupported(i, ""),
                    },
                }
            }
            float_ops::lookup(words[0], ty, m)
        } else {
            let mut key = vec![words[0]];
            key.extend(middle.iter().filter(|w| **w != "pred"));
            int_ops::lookup(&key, ty)
        };
        match op {
            Some(op) => self.plain(i, op, ty),
            None => self.unsupported(i, ""),
        }
    }

    fn plain(&mut self, i: &Instruction, op: AluOp, ty: Ty) -> Load<()> {
        self.expect_operands(i, op.classes.len()..=op.classes.len())?;
        let mut o = Vec::with_capacity(6);
        for (n, &class) in op.classes.iter().enumerate() {
            let operand = self.operand(i, n)?;
            o.push(if n == 0 {
                self.destination(i, operand, class)?
            } else {
                self.value(i, operand, class, if class == super::class(ty) { ty } else { Ty::B32 })?
            });
        }
        self.alu(op, &o);
        Ok(())
    }

    fn mov(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        self.expect_operands(i, 2..=2)?;
        let Some(ty) = words.last().and_then(|w| Ty::parse(w)) else { return self.unsupported(i, "") };
        let (to, from) = (self.operand(i, 0)?, self.operand(i, 1)?);
        if let Operand::Name(name) = from {
            let clock = match name.as_str() {
                "%clock" | "%clock_hi" => Some(false),
                "%clock64" | "%globaltimer" => Some(true),
                "%globaltimer_lo" => Some(false),
                _ => None,
            };
            if let Some(wide) = clock {
                let d = self.destination(i, to, if wide { Class::R64 } else { Class::R32 })?;
                self.emit(crate::program::Op::Clock { wide }, [d, 0, 0, 0, 0, 0]);
                return Ok(());
            }
        }
        match (to, from) {
            (Operand::Vector(parts), _) => self.unpack(i, parts, from, ty),
            (_, Operand::Vector(parts)) => self.pack(i, to, parts, ty),
            _ => {
                let class = class(ty);
                let d = self.destination(i, to, class)?;
                let a = self.value(i, from, class, ty)?;
                let op = match class {
                    Class::Pred => op1::<cmp_ops::PredMov>(),
                    Class::R32 => op1::<int_ops::w32::Mov>(),
                    Class::R64 => op1::<int_ops::w64::Mov>(),
                };
                self.alu(op, &[d, a]);
                Ok(())
            }
        }
    }

    fn unpack(&mut self, i: &Instruction, parts: &[Operand], from: &Operand, ty: Ty) -> Load<()> {
        let a = self.value(i, from, class(ty), ty)?;
        match (ty.bytes(), parts) {
            (4, [low, high]) => {
                // Through temporaries: a part may be the source.
                let (low, high) = (self.destination(i, low, Class::R32)?, self.destination(i, high, Class::R32)?);
                let t = self.register(Class::R32);
                self.alu(op1::<int_ops::w32::Mov>(), &[t, a]);
                self.alu(op1::<int_ops::LowHalf>(), &[low, t]);
                self.alu(op1::<int_ops::HighHalf>(), &[high, t]);
            }
            (8, [low, high]) => {
                let (low, high) = (self.destination(i, low, Class::R32)?, self.destination(i, high, Class::R32)?);
                self.alu(op1::<int_ops::LowWord>(), &[low, a]);
                self.alu(op1::<int_ops::HighWord>(), &[high, a]);
            }
            (8, [p0, p1, p2, p3]) => {
                for (word, pair) in [(op1::<int_ops::LowWord>(), [p0, p1]), (op1::<int_ops::HighWord>(), [p2, p3])] {
                    let t = self.register(Class::R32);
                    self.alu(word, &[t, a]);
                    for (half, part) in [op1::<int_ops::LowHalf>(), op1::<int_ops::HighHalf>()].into_iter().zip(pair) {
                        let d = self.destination(i, part, Class::R32)?;
                        self.alu(half, &[d, t]);
                    }
                }
            }
            _ => return self.unsupported(i, "this way to take a value apart"),
        }
        Ok(())
    }

    fn pack(&mut self, i: &Instruction, to: &Operand, parts: &[Operand], ty: Ty) -> Load<()> {
        let d = self.destination(i, to, class(ty))?;
        let mut r = Vec::new();
        for part in parts {
            let narrow = if ty.bytes() as usize == 2 * parts.len() { Ty::B16 } else { Ty::B32 };
            r.push(self.value(i, part, Class::R32, narrow)?);
        }
        match (ty.bytes(), r.as_slice()) {
            (4, &[low, high]) => self.alu(op2::<int_ops::PackHalves>(), &[d, low, high]),
            (8, &[low, high]) => self.alu(op2::<int_ops::PackWords>(), &[d, low, high]),
            (8, &[a, b, c, e]) => {
                let (low, high) = (self.register(Class::R32), self.register(Class::R32));
                self.alu(op2::<int_ops::PackHalves>(), &[low, a, b]);
                self.alu(op2::<int_ops::PackHalves>(), &[high, c, e]);
                self.alu(op2::<int_ops::PackWords>(), &[d, low, high]);
            }
            _ => return self.unsupported(i, "this way to put a value together"),
        }
        Ok(())
    }

    /// `setp.lt.and.s32 %p|%q, a, b, c` and `set.lt.u32.f32 d, a, b`.
    fn compare(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let Some(ty) = words.last().and_then(|w| Ty::parse(w)) else { return self.unsupported(i, "") };
        let (mut flush, mut combine, mut relation, mut result) = (false, None, None, None);
        for &word in &words[1..words.len() - 1] {
            match word {
                "ftz" => flush = true,
                "and" | "or" | "xor" => combine = Some(word),
                w if words[0] == "set" && Ty::parse(w).is_some() => result = Ty::parse(w),
                w if relation.is_none() => relation = Some(w),
                _ => return self.unsupported(i, ""),
            }
        }
        let Some(op) = relation.and_then(|r| cmp_ops::lookup(r, ty, flush)) else { return self.unsupported(i, "") };
        self.expect_operands(i, 3..=4)?;
        let a = self.value(i, self.operand(i, 1)?, class(ty), ty)?;
        let b = self.value(i, self.operand(i, 2)?, class(ty), ty)?;
        let other = match (combine, i.operands.get(3)) {
            (None, None) => None,
            (Some(word), Some(Operand::Name(name))) => Some((word, self.predicate(name, i)?)),
            (Some(word), Some(Operand::Not(name))) => {
                let (c, t) = (self.predicate(name, i)?, self.register(Class::Pred));
                self.alu(op1::<cmp_ops::PredNot>(), &[t, c]);
                Some((word, t))
            }
            _ => return self.unsupported(i, "this combination"),
        };
        let (p, q) = match self.operand(i, 0)? {
            Operand::Pair(p, q) => (self.predicate_or_sink(p, i)?, Some(self.predicate_or_sink(q, i)?)),
            Operand::Name(p) if words[0] == "setp" => (self.predicate_or_sink(p, i)?, None),
            _ => (self.register(Class::Pred), None),
        };
        if q.is_none() && other.is_none() {
            self.alu(op, &[p, a, b]);
        } else {
            let (t, n) = (self.register(Class::Pred), self.register(Class::Pred));
            self.alu(op, &[t, a, b]);
            self.alu(op1::<cmp_ops::PredNot>(), &[n, t]);
            for (to, from) in [(Some(p), t), (q, n)] {
                let Some(to) = to else { continue };
                match other {
                    // Both results need c, which may be p: p is written last.
                    Some((word, c)) => {
                        let keep = self.register(Class::Pred);
                        let Some(logic) = cmp_ops::predicate_logic(word) else { return self.unsupported(i, "") };
                        self.alu(logic, &[keep, from, c]);
                        if Some(to) == q {
                            self.alu(op1::<cmp_ops::PredMov>(), &[to, keep]);
                        } else {
                            self.alu(op1::<cmp_ops::PredMov>(), &[t, keep]);
                        }
                    }
                    None => self.alu(op1::<cmp_ops::PredMov>(), &[to, from]),
                }
            }
            if other.is_some() {
                self.alu(op1::<cmp_ops::PredMov>(), &[p, t]);
            }
        }
        if let Some(result) = result {
            let (one, d) = match result {
                Ty::F32 => (0x3f80_0000, self.destination(i, self.operand(i, 0)?, Class::R32)?),
                Ty::U32 | Ty::S32 | Ty::B32 => (u32::MAX, self.destination(i, self.operand(i, 0)?, Class::R32)?),
                _ => return self.unsupported(i, ""),
            };
            let (one, zero) = (self.constant32(one), self.constant32(0));
            self.alu(op3::<int_ops::w32::Selp>(), &[d, one, zero, p]);
        }
        Ok(())
    }

    fn predicate_or_sink(&self, name: &str, i: &Instruction) -> Load<u32> {
        if name == "_" { Ok(0) } else { self.predicate(name, i) }
    }

    fn select(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let is_slct = words[0] == "slct";
        let at = if is_slct { 1 } else { words.len() - 1 };
        let Some(ty) = words.get(at).and_then(|w| Ty::parse(w)) else { return self.unsupported(i, "") };
        if is_slct && words.last() != Some(&"s32") {
            return self.unsupported(i, "");
        }
        let op = match (class(ty), is_slct) {
            (Class::R32, false) => op3::<int_ops::w32::Selp>(),
            (Class::R64, false) => op3::<int_ops::w64::Selp>(),
            (Class::R32, true) => op3::<int_ops::w32::Slct>(),
            (Class::R64, true) => op3::<int_ops::w64::Slct>(),
            _ => return self.unsupported(i, ""),
        };
        self.plain(i, op, ty)
    }

    fn dp4a(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let op = match words {
            [_, "u32", "u32"] => op3::<int_ops::Dp4aUU>(),
            [_, "u32", "s32"] => op3::<int_ops::Dp4aUS>(),
            [_, "s32", "u32"] => op3::<int_ops::Dp4aSU>(),
            [_, "s32", "s32"] => op3::<int_ops::Dp4aSS>(),
            _ => return self.unsupported(i, ""),
        };
        self.plain(i, op, Ty::B32)
    }

    /// Extended-precision integers (PTX ISA 9.7.2): the carry is a register of its own.
    fn carry(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let Some(ty) = words.last().and_then(|w| Ty::parse(w)) else { return self.unsupported(i, "") };
        let wide = match ty {
            Ty::U32 | Ty::S32 | Ty::B32 => false,
            Ty::U64 | Ty::S64 | Ty::B64 => true,
            _ => return self.unsupported(i, ""),
        };
        let c = class(ty);
        let flag = match self.carry {
            Some(r) => r,
            None => {
                let r = self.register(Class::R32);
                self.carry = Some(r);
                r
            }
        };
        let out = words.contains(&"cc");
        let d = self.destination(i, self.operand(i, 0)?, c)?;
        let mut a = self.value(i, self.operand(i, 1)?, c, ty)?;
        let mut b = self.value(i, self.operand(i, 2)?, c, ty)?;
        let takes = words[0].ends_with('c');
        let mut subtract = words[0].starts_with("sub");
        if words[0].starts_with("mad") {
            let half = words[1];
            let Some(product) = int_ops::lookup(&["mul", half], ty) else { return self.unsupported(i, "") };
            let t = self.register(c);
            self.alu(product, &[t, a, b]);
            a = t;
            b = self.value(i, self.operand(i, 3)?, c, ty)?;
            subtract = false;
        }
        let zero = self.constant32(0);
        let taken = if takes { flag } else { zero };
        use int_ops::{w32, w64};
        let (sum, carry) = match (wide, subtract) {
            (false, false) => (op3::<w32::Addc>(), op3::<w32::CarryOut3>()),
            (false, true) => (op3::<w32::Subc>(), op3::<w32::BorrowOut3>()),
            (true, false) => (op3::<w64::Addc>(), op3::<w64::CarryOut3>()),
            (true, true) => (op3::<w64::Subc>(), op3::<w64::BorrowOut3>()),
        };
        let next = self.register(Class::R32);
        if out {
            self.alu(carry, &[next, a, b, taken]);
        }
        self.alu(sum, &[d, a, b, taken]);
        if out {
            self.alu(op1::<w32::Mov>(), &[flag, next]);
        }
        Ok(())
    }

    fn convert(&mut self, i: &Instruction, words: &[&str]) -> Load<()> {
        let (mut mode, mut ftz, mut sat, mut relu) = (None, false, false, false);
        let mut types = Vec::new();
        for &word in &words[1..] {
            match word {
                "ftz" => ftz = true,
                "sat" | "satfinite" => sat = true,
                "relu" => relu = true,
                w if Round::parse(w).is_some() => mode = Round::parse(w),
                w => types.push(w),
            }
        }
        // Packed forms, one step each.
        let packed = match (types.as_slice(), mode) {
            (["f16x2", "f32"], Some(Round::Nearest)) if !relu && !sat => Some(op2::<cmp_ops::F32sToHalves>()),
            (["bf16x2", "f32"], Some(Round::Nearest)) if !relu && !sat => Some(op2::<cmp_ops::F32sToBf16s>()),
            (["e4m3x2", "f32"], Some(Round::Nearest)) if sat && !relu => Some(op2::<cmp_ops::F32sToE4m3>()),
            (["e5m2x2", "f32"], Some(Round::Nearest)) if sat && !relu => Some(op2::<cmp_ops::F32sToE5m2>()),
            (["e4m3x2", "f16x2"], Some(Round::Nearest)) if sat && !relu => Some(op1::<cmp_ops::HalvesToE4m3x2>()),
            (["e5m2x2", "f16x2"], Some(Round::Nearest)) if sat && !relu => Some(op1::<cmp_ops::HalvesToE5m2x2>()),
            (["f16x2", "e4m3x2"], Some(Round::Nearest)) if !relu => Some(op1::<cmp_ops::E4m3x2ToHalves>()),
            (["f16x2", "e5m2x2"], Some(Round::Nearest)) if !relu => Some(op1::<cmp_ops::E5m2x2ToHalves>()),
            _ => None,
        };
        if let Some(op) = packed {
            return self.plain(i, op, Ty::B32);
        }
        let [Some(to), Some(from)] = types.iter().map(|w| Ty::parse(w)).collect::<Vec<_>>()[..] else {
            return self.unsupported(i, "");
        };
        self.expect_operands(i, 2..=2)?;
        let source = self.operand(i, 1)?;
        // Sources may live in wider registers than their type.
        let from_class = self.class_of(source).map_or(class(from), |(c, _)| c);
        let mut a = self.value(i, source, from_class, from)?;
        if from_class == Class::R64 && class(from) == Class::R32 {
            let t = self.register(Class::R32);
            self.alu(op1::<int_ops::LowWord>(), &[t, a]);
            a = t;
        }
        let Some((to_class, to_register)) = self.class_of(self.operand(i, 0)?) else {
            return self.invalid(i.pos, "this destination is not a register");
        };
        let d = self.destination(i, self.operand(i, 0)?, to_class)?;
        let float = |ty: Ty| matches!(ty, Ty::F16 | Ty::Bf16 | Ty::F32 | Ty::F64);
        match (float(from), float(to)) {
            (false, false) => self.integer_to_integer(i, (from, a), (to, to_class, to_register, d), sat),
            (true, true) => self.float_to_float(i, (from, a), (to, d), mode, ftz, sat, relu),
            (true, false) => {
                let t = self.register(Class::R64);
                let (Some(widen), Some(mode), Some(narrow)) = (cmp_ops::float_to_f64(from, ftz), mode, cmp_ops::f64_to_integer(to)) else {
                    return self.unsupported(i, "");
                };
                self.alu(widen, &[t, a]);
                self.alu(cmp_ops::integral(mode), &[t, t]);
                self.alu(narrow, &[t, t]);
                self.finish_integer(t, (to, to_class, to_register, d));
                Ok(())
            }
            (false, true) => {
                let mode = mode.unwrap_or(Round::Nearest);
                match (from, to, mode, sat) {
                    (Ty::S32, Ty::F32, Round::Nearest, false) => self.alu(op1::<cmp_ops::F32FromS32>(), &[d, a]),
                    (Ty::U32, Ty::F32, Round::Nearest, false) => self.alu(op1::<cmp_ops::F32FromU32>(), &[d, a]),
                    _ => {
                        let Some(convert) = cmp_ops::integer_to_float(from.is_signed(), to, mode).filter(|_| !sat) else {
                            return self.unsupported(i, "");
                        };
                        let wide = self.widen_integer(from, a);
                        self.alu(convert, &[d, wide]);
                    }
                }
                Ok(())
            }
        }
    }

    fn widen_integer(&mut self, from: Ty, a: u32) -> u32 {
        let op = match from {
            Ty::U8 | Ty::B8 => op1::<int_ops::FromU8>(),
            Ty::S8 => op1::<int_ops::FromS8>(),
            Ty::U16 | Ty::B16 => op1::<int_ops::FromU16>(),
            Ty::S16 => op1::<int_ops::FromS16>(),
            Ty::S32 => op1::<int_ops::FromS32>(),
            Ty::U64 | Ty::S64 | Ty::B64 => return a,
            _ => op1::<int_ops::FromU32>(),
        };
        let t = self.register(Class::R64);
        self.alu(op, &[t, a]);
        t
    }

    /// The low bits of a 64-bit integer, extended by the type's sign to the register.
    fn finish_integer(&mut self, wide: u32, (to, to_class, to_register, d): (Ty, Class, Ty, u32)) {
        if to_class == Class::R64 {
            let op = match to {
                Ty::U64 | Ty::S64 | Ty::B64 => return self.alu(op1::<int_ops::w64::Mov>(), &[d, wide]),
                Ty::U8 => op1::<int_ops::FromU8>(),
                Ty::S8 => op1::<int_ops::FromS8>(),
                Ty::U16 => op1::<int_ops::FromU16>(),
                Ty::S16 => op1::<int_ops::FromS16>(),
                Ty::S32 => op1::<int_ops::FromS32>(),
                _ => op1::<int_ops::FromU32>(),
            };
            let t = self.register(Class::R32);
            self.alu(op1::<int_ops::LowWord>(), &[t, wide]);
            return self.alu(op, &[d, t]);
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

    fn integer_to_integer(&mut self, i: &Instruction, (from, a): (Ty, u32), to: (Ty, Class, Ty, u32), sat: bool) -> Load<()> {
        if !sat && to.0.bytes() == 8 && to.1 == Class::R64 {
            let wide = self.widen_integer(from, a);
            if wide == a {
                self.alu(op1::<int_ops::w64::Mov>(), &[to.3, a]);
            } else if let Some(last) = self.code.last_mut() {
                last.o[0] = to.3;
            }
            return Ok(());
        }
        let wide = self.widen_integer(from, a);
        let mut value = wide;
        if sat {
            // Where the target holds every value of the source there is nothing to clamp.
            if let Some(clamp) = cmp_ops::clamp(from.is_signed(), to.0) {
                value = self.register(Class::R64);
                self.alu(clamp, &[value, wide]);
            }
        }
        let _ = i;
        self.finish_integer(value, to);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn float_to_float(&mut self, i: &Instruction, (from, a): (Ty, u32), (to, d): (Ty, u32), mode: Option<Round>, ftz: bool, sat: bool, relu: bool) -> Load<()> {
        let plain = !sat && !relu;
        match (from, to, mode) {
            (Ty::F16, Ty::F32, None) if plain && !ftz => self.alu(op1::<cmp_ops::HalfToF32>(), &[d, a]),
            (Ty::Bf16, Ty::F32, None) if plain && !ftz => self.alu(op1::<cmp_ops::Bf16ToF32>(), &[d, a]),
            (Ty::F32, Ty::F16, Some(Round::Nearest)) if plain && !ftz => self.alu(op1::<cmp_ops::F32ToHalf>(), &[d, a]),
            (Ty::F32, Ty::Bf16, Some(Round::Nearest)) if plain && !ftz => self.alu(op1::<cmp_ops::F32ToBf16>(), &[d, a]),
            _ => {
                let (Some(widen), Some(narrow)) = (cmp_ops::float_to_f64(from, ftz), cmp_ops::f64_to_float(to, mode.unwrap_or(Round::Nearest))) else {
                    return self.unsupported(i, "");
                };
                let t = self.register(Class::R64);
                self.alu(widen, &[t, a]);
                let integral = i.words.iter().any(|w| matches!(w.as_str(), "rni" | "rzi" | "rmi" | "rpi"));
                if let (true, Some(mode)) = (integral, mode) {
                    self.alu(cmp_ops::integral(mode), &[t, t]);
                }
                if sat {
                    self.alu(op1::<cmp_ops::SatD>(), &[t, t]);
                }
                if relu {
                    self.alu(op1::<cmp_ops::ReluD>(), &[t, t]);
                }
                self.alu(narrow, &[d, t]);
                if ftz && to == Ty::F32 {
                    self.alu(op1::<cmp_ops::FlushF32>(), &[d, d]);
                }
            }
        }
        Ok(())
    }
}
