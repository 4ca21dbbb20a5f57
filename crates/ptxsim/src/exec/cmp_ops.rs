//! Comparisons (PTX ISA 9.7.6), `testp` and predicate logic on one lane.

use super::float_ops::flush;
use crate::alu::*;
use crate::num::narrow::*;
use crate::parse::ast::Ty;
use std::marker::PhantomData;

macro_rules! integer_compare {
    ($m:ident, $u:ty, $s:ty) => {
        pub mod $m {
            use super::*;
            ops! { Fn2
                Eq(a: $u, b: $u) -> bool { a == b }
                Ne(a: $u, b: $u) -> bool { a != b }
                LtU(a: $u, b: $u) -> bool { a < b }
                LeU(a: $u, b: $u) -> bool { a <= b }
                GtU(a: $u, b: $u) -> bool { a > b }
                GeU(a: $u, b: $u) -> bool { a >= b }
                LtS(a: $u, b: $u) -> bool { (a as $s) < b as $s }
                LeS(a: $u, b: $u) -> bool { a as $s <= b as $s }
                GtS(a: $u, b: $u) -> bool { a as $s > b as $s }
                GeS(a: $u, b: $u) -> bool { a as $s >= b as $s }
            }
        }
    };
}
integer_compare!(c32, u32, i32);
integer_compare!(c64, u64, i64);

/// A 32-bit comparison of the lower 16 bits of its operands.
pub struct Narrow<O>(PhantomData<O>);
operation! { [O: Fn2<A = u32, B = u32, D = bool>] Narrow<O>, (a: u32, b: u32) -> bool {
    // Shifted to the top, 16 bits have the order of 32.
    O::f(a << 16, b << 16)
} }

macro_rules! float_compare {
    ($m:ident, $t:ty, $v:expr) => {
        // `ltu` is "less or unordered": exactly a negated comparison.
        #[allow(clippy::neg_cmp_op_on_partial_ord)]
        pub mod $m {
            use super::*;
            ops! { Fn2
                Eq(a: $t, b: $t) -> bool { $v(a) == $v(b) }
                Ne(a: $t, b: $t) -> bool { $v(a) < $v(b) || $v(a) > $v(b) }
                Lt(a: $t, b: $t) -> bool { $v(a) < $v(b) }
                Le(a: $t, b: $t) -> bool { $v(a) <= $v(b) }
                Gt(a: $t, b: $t) -> bool { $v(a) > $v(b) }
                Ge(a: $t, b: $t) -> bool { $v(a) >= $v(b) }
                Equ(a: $t, b: $t) -> bool { !($v(a) < $v(b) || $v(a) > $v(b)) }
                Neu(a: $t, b: $t) -> bool { $v(a) != $v(b) }
                Ltu(a: $t, b: $t) -> bool { !($v(a) >= $v(b)) }
                Leu(a: $t, b: $t) -> bool { !($v(a) > $v(b)) }
                Gtu(a: $t, b: $t) -> bool { !($v(a) <= $v(b)) }
                Geu(a: $t, b: $t) -> bool { !($v(a) < $v(b)) }
                Num(a: $t, b: $t) -> bool { !$v(a).is_nan() && !$v(b).is_nan() }
                Nan(a: $t, b: $t) -> bool { $v(a).is_nan() || $v(b).is_nan() }
            }
        }
    };
}
/// Returns the value of an f32, where subnormal numbers are zeros.
#[inline(always)]
pub fn ftz(x: u32) -> f32 {
    f32::from_bits(flush(x))
}
#[inline(always)]
fn low_f16(x: u32) -> f32 {
    f16_to_f32(x & 0xffff)
}
float_compare!(f32c, u32, f32::from_bits);
float_compare!(f32z, u32, ftz);
float_compare!(f64c, u64, f64::from_bits);
#[inline(always)]
fn flushed_f16(x: u32) -> f32 {
    low_f16(if x & 0x7c00 == 0 { x & 0x8000 } else { x })
}
float_compare!(f16c, u32, low_f16);
float_compare!(f16z, u32, flushed_f16);
float_compare!(bf16c, u32, bf16_to_f32);

macro_rules! float_table {
    ($make:ident, $m:ident, $word:expr) => {
        match $word {
            "eq" => $make::<$m::Eq>(),
            "ne" => $make::<$m::Ne>(),
            "lt" => $make::<$m::Lt>(),
            "le" => $make::<$m::Le>(),
            "gt" => $make::<$m::Gt>(),
            "ge" => $make::<$m::Ge>(),
            "equ" => $make::<$m::Equ>(),
            "neu" => $make::<$m::Neu>(),
            "ltu" => $make::<$m::Ltu>(),
            "leu" => $make::<$m::Leu>(),
            "gtu" => $make::<$m::Gtu>(),
            "geu" => $make::<$m::Geu>(),
            "num" => rare2::<$m::Num>(),
            "nan" => rare2::<$m::Nan>(),
            _ => return None,
        }
    };
}
macro_rules! integer_table {
    ($word:expr, $signed:expr, $o:ident, $m:ident $(, $wrap:ident)?) => {
        match ($word, $signed) {
            ("eq", _) => op2::<integer_table!(@ $($wrap)? $m::Eq)>(),
            ("ne", _) => op2::<integer_table!(@ $($wrap)? $m::Ne)>(),
            ("lt", true) => op2::<integer_table!(@ $($wrap)? $m::LtS)>(),
            ("le", true) => op2::<integer_table!(@ $($wrap)? $m::LeS)>(),
            ("gt", true) => op2::<integer_table!(@ $($wrap)? $m::GtS)>(),
            ("ge", true) => op2::<integer_table!(@ $($wrap)? $m::GeS)>(),
            ("lt" | "lo", _) => op2::<integer_table!(@ $($wrap)? $m::LtU)>(),
            ("le" | "ls", _) => op2::<integer_table!(@ $($wrap)? $m::LeU)>(),
            ("gt" | "hi", _) => op2::<integer_table!(@ $($wrap)? $m::GtU)>(),
            ("ge" | "hs", _) => op2::<integer_table!(@ $($wrap)? $m::GeU)>(),
            _ => return None,
        }
    };
    (@ Narrow $m:ident::$t:ident) => { Narrow<$m::$t> };
    (@ $m:ident::$t:ident) => { $m::$t };
}

/// Returns the comparison with this name, which writes a predicate.
pub fn lookup(word: &str, ty: Ty, flush: bool) -> Option<AluOp> {
    let signed = ty.is_signed();
    Some(match ty {
        Ty::F32 if flush => float_table!(op2, f32z, word),
        Ty::F32 => float_table!(op2, f32c, word),
        Ty::F64 => float_table!(op2, f64c, word),
        Ty::F16 if flush => float_table!(rare2, f16z, word),
        Ty::F16 => float_table!(rare2, f16c, word),
        Ty::Bf16 => float_table!(rare2, bf16c, word),
        Ty::B16 | Ty::U16 | Ty::S16 => integer_table!(word, signed, O, c32, Narrow),
        Ty::B32 | Ty::U32 | Ty::S32 => integer_table!(word, signed, O, c32),
        Ty::B64 | Ty::U64 | Ty::S64 => integer_table!(word, signed, O, c64),
        _ => return None,
    })
}

macro_rules! properties {
    ($m:ident, $u:ty, $infinity:expr, $normal:expr) => {
        pub mod $m {
            use super::*;
            ops! { Fn1
                Finite(a: $u) -> bool { a << 1 < $infinity << 1 }
                Infinite(a: $u) -> bool { a << 1 == $infinity << 1 }
                Number(a: $u) -> bool { a << 1 <= $infinity << 1 }
                NotANumber(a: $u) -> bool { a << 1 > $infinity << 1 }
                // Zeros count as normal.
                Normal(a: $u) -> bool { Finite::f(a) && !Subnormal::f(a) }
                Subnormal(a: $u) -> bool { a << 1 != 0 && a << 1 < $normal << 1 }
            }
        }
    };
}
properties!(p32, u32, 0x7f80_0000, 0x0080_0000);
properties!(p64, u64, 0x7ff0_0000_0000_0000, 0x0010_0000_0000_0000);

/// Returns the operation of `testp` for a property and a type.
pub fn property(word: &str, ty: Ty) -> Option<AluOp> {
    Some(match (word, ty) {
        ("finite", Ty::F32) => rare1::<p32::Finite>(),
        ("infinite", Ty::F32) => rare1::<p32::Infinite>(),
        ("number", Ty::F32) => rare1::<p32::Number>(),
        ("notanumber", Ty::F32) => rare1::<p32::NotANumber>(),
        ("normal", Ty::F32) => rare1::<p32::Normal>(),
        ("subnormal", Ty::F32) => rare1::<p32::Subnormal>(),
        ("finite", Ty::F64) => rare1::<p64::Finite>(),
        ("infinite", Ty::F64) => rare1::<p64::Infinite>(),
        ("number", Ty::F64) => rare1::<p64::Number>(),
        ("notanumber", Ty::F64) => rare1::<p64::NotANumber>(),
        ("normal", Ty::F64) => rare1::<p64::Normal>(),
        ("subnormal", Ty::F64) => rare1::<p64::Subnormal>(),
        _ => return None,
    })
}

ops! { Fn1
    PredMov(a: bool) -> bool { a }
    PredNot(a: bool) -> bool { !a }
    NotZero(a: u32) -> bool { a != 0 }
}
ops! { Fn2
    PredAnd(a: bool, b: bool) -> bool { a & b }
    PredOr(a: bool, b: bool) -> bool { a | b }
    PredXor(a: bool, b: bool) -> bool { a ^ b }
}

/// Returns the operation on predicates with this name.
pub fn predicate_logic(word: &str) -> Option<AluOp> {
    Some(match word {
        "and" => op2::<PredAnd>(),
        "or" => op2::<PredOr>(),
        "xor" => op2::<PredXor>(),
        "not" => op1::<PredNot>(),
        "mov" => op1::<PredMov>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_with_nan() {
        let (nan, one) = (f32::NAN.to_bits(), 1.0_f32.to_bits());
        assert!(!f32c::Lt::f(nan, one) && f32c::Ltu::f(nan, one));
        assert!(!f32c::Eq::f(nan, nan) && f32c::Equ::f(nan, nan));
        assert!(!f32c::Ne::f(nan, one) && f32c::Neu::f(nan, one));
        assert!(f32c::Nan::f(one, nan) && !f32c::Num::f(one, nan));
        assert!(f32z::Eq::f(1, 0x8000_0001) && !f32c::Eq::f(1, 0x8000_0001));
    }

    #[test]
    fn properties_of_numbers() {
        let of = |x: u32| {
            [
                p32::Finite::f(x),
                p32::Infinite::f(x),
                p32::Number::f(x),
                p32::NotANumber::f(x),
                p32::Normal::f(x),
                p32::Subnormal::f(x),
            ]
            .map(u8::from)
        };
        assert_eq!(of(0x8000_0000), [1, 0, 1, 0, 1, 0]);
        assert_eq!(of(0x8000_0001), [1, 0, 1, 0, 0, 1]);
        assert_eq!(of(0x0080_0000), [1, 0, 1, 0, 1, 0]);
        assert_eq!(of(0xff80_0000), [0, 1, 1, 0, 0, 0]);
        assert_eq!(of(0x7f80_0001), [0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn sixteen_bits_compare_by_sign() {
        assert!(Narrow::<c32::LtS>::f(0xffff, 0) && !Narrow::<c32::LtU>::f(0xffff, 0));
        assert!(Narrow::<c32::Eq>::f(0x7_0001, 1));
    }
}
