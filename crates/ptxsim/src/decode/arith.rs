//! Decodes arithmetic, logic, moves, comparisons and conversions.

use super::float_forms::modifiers;
use super::scope::numbered;
use super::{Decoder, Load, class};
use crate::alu::*;
use crate::exec::{cmp_ops, float_ops, int_ops, packed_ops};
use crate::parse::ast::*;
use crate::regs::Class;

impl Decoder<'_> {
    /// Decodes an instruction that accesses registers alone.
    pub(super) fn arithmetic(&mut self, words: &[&str]) -> Load<()> {
        match words[0] {
            "mov" => self.mov(words),
            "setp" | "set" => self.compare(words),
            "selp" | "slct" => self.select(words),
            "cvt" if words.get(1) != Some(&"pack") => self.convert(words),
            "addc" | "subc" | "madc" => self.carry(words),
            "add" | "sub" | "mad" if words.contains(&"cc") => self.carry(words),
            "dp4a" => self.dp4a(words),
            "dp2a" => self.word_op(int_ops::dp2a(&words[1..])),
            "prmt" if words.len() == 3 && words[1] == "b32" => {
                self.word_op(int_ops::prmt(words[2]))
            }
            "testp" => self.testp(words),
            "vadd" | "vsub" | "vabsdiff" | "vmin" | "vmax" | "vset" => self.video(words),
            _ if self.newer_floats(words)? => Ok(()),
            _ => match packed_ops::lookup(words) {
                Some(op) => self.plain(op, Ty::B32),
                None => self.table(words),
            },
        }
    }

    /// Decodes an instruction by the tables of operations. Its operands are a destination and sources in order.
    fn table(&mut self, words: &[&str]) -> Load<()> {
        let ty = self.known(words.last().and_then(|w| Ty::parse(w)))?;
        let middle = self.known(words.get(1..words.len() - 1))?;
        if ty == Ty::Pred {
            let op = self.known(cmp_ops::predicate_logic(words[0]))?;
            return self.plain(op, ty);
        }
        let is_float = matches!(
            ty,
            Ty::F16 | Ty::F16x2 | Ty::Bf16 | Ty::Bf16x2 | Ty::F32 | Ty::F64
        );
        let op = if is_float {
            let m = self.known(modifiers(middle))?;
            float_ops::lookup(words[0], ty, m)
        } else {
            let mut key = vec![words[0]];
            key.extend(middle.iter().filter(|w| **w != "pred"));
            int_ops::lookup(&key, ty)
        };
        // The addend of a wide product has the width of the product.
        let third = if words.contains(&"wide") { Ty::B32 } else { ty };
        self.plain_with(self.known(op)?, ty, third)
    }

    /// Emits one operation, whose operands are those of the instruction in order.
    pub(super) fn plain(&mut self, op: AluOp, ty: Ty) -> Load<()> {
        self.plain_with(op, ty, ty)
    }

    /// Does what [`Self::plain`] does, with another type of the third source.
    fn plain_with(&mut self, op: AluOp, ty: Ty, third: Ty) -> Load<()> {
        self.expect_operands(op.classes().len()..=op.classes().len())?;
        let mut o = Vec::with_capacity(6);
        for (n, &class) in op.classes().iter().enumerate() {
            let operand = self.operand(n)?;
            let ty = if n == 3 { third } else { ty };
            o.push(if n == 0 {
                self.destination(operand, class)?
            } else {
                self.value(
                    operand,
                    class,
                    if class == super::class(ty) {
                        ty
                    } else {
                        Ty::B32
                    },
                )?
            });
        }
        self.alu(op, &o);
        Ok(())
    }

    /// Decodes `mov`, also from a clock, and between a register and a vector of its parts.
    fn mov(&mut self, words: &[&str]) -> Load<()> {
        self.expect_operands(2..=2)?;
        let ty = self.known(words.last().and_then(|w| Ty::parse(w)))?;
        let (to, from) = (self.operand(0)?, self.operand(1)?);
        if let Operand::Name(name) = from {
            let clock = match name.as_str() {
                "%clock" | "%clock_hi" => Some(false),
                "%clock64" | "%globaltimer" => Some(true),
                "%globaltimer_lo" | "%globaltimer_hi" => Some(false),
                name if numbered(name, "%pm", 7) => Some(false),
                name => numbered(name.strip_suffix("_64").unwrap_or(""), "%pm", 7).then_some(true),
            };
            if let Some(wide) = clock {
                let d = self.destination(to, if wide { Class::R64 } else { Class::R32 })?;
                self.emit_with(crate::isa::Op::Clock { wide }, [d, 0, 0, 0, 0, 0]);
                return Ok(());
            }
        }
        match (to, from) {
            _ if ty == Ty::B128 => self.mov_wide(to, from),
            (Operand::Vector(parts), _) => self.unpack(parts, from, ty),
            (_, Operand::Vector(parts)) => self.pack(to, parts, ty),
            _ => {
                let class = class(ty);
                let d = self.destination(to, class)?;
                let a = self.value(from, class, ty)?;
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

    /// Decodes `mov.b128`: from one register to another, or from and to two or four parts.
    fn mov_wide(&mut self, to: &Operand, from: &Operand) -> Load<()> {
        let mov = op1::<int_ops::w64::Mov>();
        match (to, from) {
            (Operand::Vector(parts), _) => {
                let halves = self.wide(from, false)?;
                match parts.as_slice() {
                    [low, high] => {
                        for (part, half) in [low, high].into_iter().zip(halves) {
                            let d = self.destination(part, Class::R64)?;
                            self.alu(mov, &[d, half]);
                        }
                    }
                    [a, b, c, d] => {
                        for (pair, half) in [[a, b], [c, d]].into_iter().zip(halves) {
                            let words = [op1::<int_ops::LowWord>(), op1::<int_ops::HighWord>()];
                            for (part, word) in pair.into_iter().zip(words) {
                                let d = self.destination(part, Class::R32)?;
                                self.alu(word, &[d, half]);
                            }
                        }
                    }
                    _ => return self.unsupported("this way to unpack a value"),
                }
            }
            (_, Operand::Vector(parts)) => {
                let d = self.wide(to, true)?;
                match parts.as_slice() {
                    [low, high] => {
                        for (part, d) in [low, high].into_iter().zip(d) {
                            let a = self.value(part, Class::R64, Ty::B64)?;
                            self.alu(mov, &[d, a]);
                        }
                    }
                    [a, b, c, e] => {
                        for (pair, d) in [[a, b], [c, e]].into_iter().zip(d) {
                            let low = self.value(pair[0], Class::R32, Ty::B32)?;
                            let high = self.value(pair[1], Class::R32, Ty::B32)?;
                            self.alu(op2::<int_ops::PackWords>(), &[d, low, high]);
                        }
                    }
                    _ => return self.unsupported("this way to pack a value"),
                }
            }
            _ => {
                let (d, a) = (self.wide(to, true)?, self.wide(from, false)?);
                for (d, a) in d.into_iter().zip(a) {
                    self.alu(mov, &[d, a]);
                }
            }
        }
        Ok(())
    }

    /// Decodes a `mov` from a register to its parts.
    fn unpack(&mut self, parts: &[Operand], from: &Operand, ty: Ty) -> Load<()> {
        let a = self.value(from, class(ty), ty)?;
        match (ty.bytes(), parts) {
            (4, [low, high]) => {
                // A part may be the source, so the value goes through a temporary register.
                let (low, high) = (
                    self.destination(low, Class::R32)?,
                    self.destination(high, Class::R32)?,
                );
                let t = self.computed(op1::<int_ops::w32::Mov>(), &[a]);
                self.alu(op1::<int_ops::LowHalf>(), &[low, t]);
                self.alu(op1::<int_ops::HighHalf>(), &[high, t]);
            }
            (8, [low, high]) => {
                let (low, high) = (
                    self.destination(low, Class::R32)?,
                    self.destination(high, Class::R32)?,
                );
                self.alu(op1::<int_ops::LowWord>(), &[low, a]);
                self.alu(op1::<int_ops::HighWord>(), &[high, a]);
            }
            (8, [p0, p1, p2, p3]) => {
                for (word, pair) in [
                    (op1::<int_ops::LowWord>(), [p0, p1]),
                    (op1::<int_ops::HighWord>(), [p2, p3]),
                ] {
                    let t = self.computed(word, &[a]);
                    for (half, part) in [op1::<int_ops::LowHalf>(), op1::<int_ops::HighHalf>()]
                        .into_iter()
                        .zip(pair)
                    {
                        let d = self.destination(part, Class::R32)?;
                        self.alu(half, &[d, t]);
                    }
                }
            }
            _ => return self.unsupported("this way to unpack a value"),
        }
        Ok(())
    }

    /// Decodes a `mov` from parts to a register.
    fn pack(&mut self, to: &Operand, parts: &[Operand], ty: Ty) -> Load<()> {
        let d = self.destination(to, class(ty))?;
        let mut r = Vec::new();
        for part in parts {
            let narrow = if ty.bytes() as usize == 2 * parts.len() {
                Ty::B16
            } else {
                Ty::B32
            };
            r.push(self.value(part, Class::R32, narrow)?);
        }
        match (ty.bytes(), r.as_slice()) {
            (4, &[low, high]) => self.alu(op2::<int_ops::PackHalves>(), &[d, low, high]),
            (8, &[low, high]) => self.alu(op2::<int_ops::PackWords>(), &[d, low, high]),
            (8, &[a, b, c, e]) => {
                let low = self.computed(op2::<int_ops::PackHalves>(), &[a, b]);
                let high = self.computed(op2::<int_ops::PackHalves>(), &[c, e]);
                self.alu(op2::<int_ops::PackWords>(), &[d, low, high]);
            }
            _ => return self.unsupported("this way to pack a value"),
        }
        Ok(())
    }

    /// Decodes a comparison, such as `setp.lt.and.s32 %p|%q, a, b, c` or `set.lt.u32.f32 d, a, b`.
    fn compare(&mut self, words: &[&str]) -> Load<()> {
        let ty = self.known(words.last().and_then(|w| Ty::parse(w)))?;
        let (mut flush, mut combine, mut relation, mut result) = (false, None, None, None);
        for &word in &words[1..words.len() - 1] {
            match word {
                "ftz" => flush = true,
                "and" | "or" | "xor" => combine = Some(word),
                w if words[0] == "set" && Ty::parse(w).is_some() => result = Ty::parse(w),
                w if relation.is_none() => relation = Some(w),
                _ => return self.unsupported(""),
            }
        }
        let packed = matches!(ty, Ty::F16x2 | Ty::Bf16x2);
        let element = match ty {
            Ty::F16x2 => Ty::F16,
            Ty::Bf16x2 => Ty::Bf16,
            ty => ty,
        };
        let op = self.known(relation.and_then(|r| cmp_ops::lookup(r, element, flush)))?;
        self.expect_operands(3..=4)?;
        let a = self.source(1, class(ty), ty)?;
        let b = self.source(2, class(ty), ty)?;
        let other = match (combine, self.ptx.operands.get(3)) {
            (None, None) => None,
            (Some(word), Some(Operand::Name(name))) => Some((word, self.predicate(name)?)),
            (Some(word), Some(Operand::Not(name))) => {
                let c = self.predicate(name)?;
                Some((word, self.computed(op1::<cmp_ops::PredNot>(), &[c])))
            }
            _ => return self.unsupported("this combination"),
        };
        let (p, q) = match self.operand(0)? {
            Operand::Pair(p, q) if words[0] == "setp" => {
                (self.predicate_or_sink(p)?, Some(self.predicate_or_sink(q)?))
            }
            Operand::Name(p) if words[0] == "setp" && !packed => (self.predicate_or_sink(p)?, None),
            _ if words[0] == "setp" => return self.unsupported("this destination"),
            _ => (
                self.register(Class::Pred),
                packed.then(|| self.register(Class::Pred)),
            ),
        };
        if q.is_none() && other.is_none() {
            self.alu(op, &[p, a, b]);
        } else {
            self.keep_guard();
            let (t, n) = (self.register(Class::Pred), self.register(Class::Pred));
            self.alu(op, &[t, a, b]);
            if packed {
                let high_a = self.computed(op1::<int_ops::HighHalf>(), &[a]);
                let high_b = self.computed(op1::<int_ops::HighHalf>(), &[b]);
                self.alu(op, &[n, high_a, high_b]);
            } else {
                self.alu(op1::<cmp_ops::PredNot>(), &[n, t]);
            }
            for (to, from) in [(Some(p), t), (q, n)] {
                let Some(to) = to else { continue };
                match other {
                    // Both results need c, which may be p: p is written last.
                    Some((word, c)) => {
                        let logic = self.known(cmp_ops::predicate_logic(word))?;
                        let keep = self.computed(logic, &[from, c]);
                        let to = if Some(to) == q { to } else { t };
                        self.alu(op1::<cmp_ops::PredMov>(), &[to, keep]);
                    }
                    None => self.alu(op1::<cmp_ops::PredMov>(), &[to, from]),
                }
            }
            if other.is_some() {
                self.alu(op1::<cmp_ops::PredMov>(), &[p, t]);
            }
        }
        if let Some(result) = result {
            self.store_comparison((ty, result), p, q)?;
        }
        Ok(())
    }

    /// Emits the value that `set` writes: 1.0 or all ones if the comparison is true, else 0. If halves are compared,
    /// each has its own.
    fn store_comparison(
        &mut self,
        (compared, result): (Ty, Ty),
        p: u32,
        q: Option<u32>,
    ) -> Load<()> {
        let one = match (result, q) {
            (Ty::F32, None) => 0x3f80_0000,
            (Ty::F16, None) => 0x3c00,
            (Ty::Bf16, None) => 0x3f80,
            (Ty::U32 | Ty::S32, None) => u32::MAX,
            (Ty::U16 | Ty::S16, None) if matches!(compared, Ty::F16 | Ty::Bf16) => 0xffff,
            (Ty::F16x2, Some(_)) if compared == Ty::F16x2 => 0x3c00,
            (Ty::Bf16x2, Some(_)) if compared == Ty::Bf16x2 => 0x3f80,
            (Ty::U32 | Ty::S32, Some(_)) => 0xffff,
            _ => return self.unsupported(""),
        };
        let d = self.result(0, Class::R32)?;
        let (low, zero) = (self.constant32(one), self.constant32(0));
        let select = op3::<int_ops::w32::Selp>();
        let Some(q) = q else {
            self.alu(select, &[d, low, zero, p]);
            return Ok(());
        };
        let high = self.constant32(one << 16);
        let a = self.computed(select, &[low, zero, p]);
        let b = self.computed(select, &[high, zero, q]);
        self.alu(op2::<int_ops::w32::Or>(), &[d, a, b]);
        Ok(())
    }

    /// Keeps the guard of an instruction of several steps in another register, because a step may write the guard.
    fn keep_guard(&mut self) {
        if self.guard != 0 {
            let (register, negated) = (self.guard / 2 - 1, self.guard % 2);
            let kept = self.register(Class::Pred);
            self.guard = 0;
            self.operand_step(op1::<cmp_ops::PredMov>(), &[kept, register]);
            self.guard = (kept + 1) * 2 + negated;
        }
    }

    /// Reads the name of a predicate to write. `_` is the register that takes unwanted results.
    fn predicate_or_sink(&self, name: &str) -> Load<u32> {
        if name == "_" {
            Ok(0)
        } else {
            self.predicate(name)
        }
    }

    /// Decodes `selp` and `slct`, which pick one of two values.
    fn select(&mut self, words: &[&str]) -> Load<()> {
        let is_slct = words[0] == "slct";
        let ftz = words.get(1) == Some(&"ftz");
        let at = if is_slct {
            1 + usize::from(ftz)
        } else {
            words.len() - 1
        };
        let ty = self.known(words.get(at).and_then(|w| Ty::parse(w)))?;
        let (op, third) = match (class(ty), is_slct, words.get(at + 1..)) {
            (Class::R32, false, _) => (op3::<int_ops::w32::Selp>(), Ty::Pred),
            (Class::R64, false, _) => (op3::<int_ops::w64::Selp>(), Ty::Pred),
            (Class::R32, true, Some(["s32"])) if !ftz => (op3::<int_ops::w32::Slct>(), Ty::S32),
            (Class::R64, true, Some(["s32"])) if !ftz => (op3::<int_ops::w64::Slct>(), Ty::S32),
            (Class::R32, true, Some(["f32"])) if ftz => (op3::<int_ops::w32::SlctFtz>(), Ty::F32),
            (Class::R64, true, Some(["f32"])) if ftz => (op3::<int_ops::w64::SlctFtz>(), Ty::F32),
            (Class::R32, true, Some(["f32"])) => (op3::<int_ops::w32::SlctF>(), Ty::F32),
            (Class::R64, true, Some(["f32"])) => (op3::<int_ops::w64::SlctF>(), Ty::F32),
            _ => return self.unsupported(""),
        };
        self.plain_with(op, ty, third)
    }

    /// Decodes `testp`, which tests a property of a float.
    fn testp(&mut self, words: &[&str]) -> Load<()> {
        let [_, property, ty] = words else {
            return self.unsupported("");
        };
        let ty = self.known(Ty::parse(ty))?;
        self.plain(self.known(cmp_ops::property(property, ty))?, ty)
    }

    /// Emits an operation on words, or refuses the form if there is none.
    fn word_op(&mut self, op: Option<AluOp>) -> Load<()> {
        self.plain(self.known(op)?, Ty::B32)
    }

    /// Decodes `dp4a`, by the signs of its operands.
    fn dp4a(&mut self, words: &[&str]) -> Load<()> {
        let op = match words {
            [_, "u32", "u32"] => op3::<int_ops::Dp4aUU>(),
            [_, "u32", "s32"] => op3::<int_ops::Dp4aUS>(),
            [_, "s32", "u32"] => op3::<int_ops::Dp4aSU>(),
            [_, "s32", "s32"] => op3::<int_ops::Dp4aSS>(),
            _ => return self.unsupported(""),
        };
        self.plain(op, Ty::B32)
    }

    /// Decodes integers of extended precision (PTX ISA 9.7.2). The carry is a register of its own.
    fn carry(&mut self, words: &[&str]) -> Load<()> {
        let ty = self.known(words.last().and_then(|w| Ty::parse(w)))?;
        let wide = match ty {
            Ty::U32 | Ty::S32 | Ty::B32 => false,
            Ty::U64 | Ty::S64 | Ty::B64 => true,
            _ => return self.unsupported(""),
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
        let d = self.result(0, c)?;
        let mut a = self.source(1, c, ty)?;
        let mut b = self.source(2, c, ty)?;
        let takes = words[0].ends_with('c');
        let mut subtract = words[0].starts_with("sub");
        if words[0].starts_with("mad") {
            let half = words[1];
            let product = self.known(int_ops::lookup(&["mul", half], ty))?;
            let t = self.register(c);
            self.alu(product, &[t, a, b]);
            a = t;
            b = self.source(3, c, ty)?;
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
}
