//! f16 and bf16 operations on one lane, alone and in pairs (PTX ISA 9.7.4 and 9.7.5), and their table. A NaN result is
//! 0x7fff.

use super::float_ops::{Modifiers, Xorsign, f, flush, max_f32, min_f32};
use crate::alu::*;
use crate::num::approx;
use crate::num::narrow::*;
use crate::num::round::*;
use crate::parse::ast::Ty;
use std::marker::PhantomData;

/// Returns the value of an f16.
#[inline(always)]
fn h(x: u32) -> f32 {
    f16_to_f32(x & 0xffff)
}
/// Returns the value of a bf16.
#[inline(always)]
fn b(x: u32) -> f32 {
    bf16_to_f32(x & 0xffff)
}
/// Rounds an f64 once, to f16.
#[inline(always)]
fn wh(x: f64) -> u32 {
    F16.encode(x, Round::Nearest, false)
}
/// Rounds an f64 once, to bf16.
#[inline(always)]
fn wb(x: f64) -> u32 {
    BF16.encode(x, Round::Nearest, false)
}

/// An operation on both halves of a packed pair.
pub struct Packed<O>(PhantomData<O>);
/// An operation with `.ftz`: subnormal inputs and results of f16 become zeros of their sign. bf16 has no `.ftz`.
pub struct Ftz<O>(PhantomData<O>);
/// An operation with `.sat` of f16: the result is clamped to [0, 1], and a NaN becomes +0.
pub struct Sat<O>(PhantomData<O>);

#[inline(always)]
fn flush_f16(x: u32) -> u32 {
    if x & 0x7c00 == 0 { x & 0x8000 } else { x }
}
/// Flushes a result whose rounding can lift it to the smallest normal number. An H200 takes that for subnormal if
/// `exact`, which rounded to `x`, is subnormal when rounded to 11 bits as if there were no least exponent.
#[inline(always)]
fn flush_tiny(x: u32, exact: f64) -> u32 {
    const SMALLEST: u32 = 0x0400;
    if x & 0x7fff == SMALLEST && wh(2.0 * exact) & 0x7fff < 2 * SMALLEST {
        x & 0x8000
    } else {
        flush_f16(x)
    }
}
#[inline(always)]
fn saturate_f16(x: u32) -> u32 {
    // Positive numbers are in the order of their bits.
    match x & 0xffff {
        0..=0x3c00 => x,
        0x3c01..=0x7c00 => 0x3c00,
        _ => 0,
    }
}

macro_rules! wrap {
    ($tr:ident, $(($t:ident, $arg:ident)),*) => {
        impl<O: $tr<D = u32, $($t = u32),*>> $tr for Packed<O> {
            type D = u32;
            $(type $t = u32;)*
            #[inline(always)]
            fn f($($arg: u32),*) -> u32 {
                O::f($($arg & 0xffff),*) & 0xffff | O::f($($arg >> 16),*) << 16
            }
        }
        impl<O: $tr<D = u32, $($t = u32),*>> $tr for Ftz<O> {
            type D = u32;
            $(type $t = u32;)*
            #[inline(always)]
            fn f($($arg: u32),*) -> u32 { flush_f16(O::f($(flush_f16($arg)),*)) }
        }
        impl<O: $tr<D = u32, $($t = u32),*>> $tr for Sat<O> {
            type D = u32;
            $(type $t = u32;)*
            #[inline(always)]
            fn f($($arg: u32),*) -> u32 { saturate_f16(O::f($($arg),*)) }
        }
    };
}
wrap!(Fn1, (A, a));
wrap!(Fn2, (A, a), (B, b));
wrap!(Fn3, (A, a), (B, b), (C, c));

ops! { Fn2
    // f16: f32 holds sums and products with enough bits to spare that rounding twice is
    // rounding once (24 >= 2 * 11 + 2, Figueroa 1995).
    AddH(a: u32, b: u32) -> u32 { f32_to_f16(h(a) + h(b)) }
    SubH(a: u32, b: u32) -> u32 { f32_to_f16(h(a) - h(b)) }
    MulH(a: u32, b: u32) -> u32 { f32_to_f16(h(a) * h(b)) }
    MulFtzH(a: u32, b: u32) -> u32 {
        let (a, b) = (flush_f16(a), flush_f16(b));
        flush_tiny(MulH::f(a, b), f64::from(h(a)) * f64::from(h(b)))
    }
    MinH(a: u32, b: u32) -> u32 { f32_to_f16(f(min_f32(h(a).to_bits(), h(b).to_bits()))) }
    MaxH(a: u32, b: u32) -> u32 { f32_to_f16(f(max_f32(h(a).to_bits(), h(b).to_bits()))) }
    AddB(a: u32, c: u32) -> u32 { wb(f64::from(b(a)) + f64::from(b(c))) }
    SubB(a: u32, c: u32) -> u32 { wb(f64::from(b(a)) - f64::from(b(c))) }
    MulB(a: u32, c: u32) -> u32 { wb(f64::from(b(a)) * f64::from(b(c))) }
    MinB(a: u32, c: u32) -> u32 { f32_to_bf16(f(min_f32(a << 16, c << 16))) }
    MaxB(a: u32, c: u32) -> u32 { f32_to_bf16(f(max_f32(a << 16, c << 16))) }
    MinNanH(a: u32, c: u32) -> u32 { if h(a).is_nan() || h(c).is_nan() { 0x7fff } else { MinH::f(a, c) } }
    MaxNanH(a: u32, c: u32) -> u32 { if h(a).is_nan() || h(c).is_nan() { 0x7fff } else { MaxH::f(a, c) } }
    MinNanB(a: u32, c: u32) -> u32 { if b(a).is_nan() || b(c).is_nan() { 0x7fff } else { MinB::f(a, c) } }
    MaxNanB(a: u32, c: u32) -> u32 { if b(a).is_nan() || b(c).is_nan() { 0x7fff } else { MaxB::f(a, c) } }
}
/// Returns a * b + c of halves, rounded to odd in f64, so that rounding it to a half afterwards is correct.
#[inline(always)]
fn fma_h(a: u32, b: u32, c: u32) -> f64 {
    fma_to_odd(f64::from(h(a)), f64::from(h(b)), f64::from(h(c)))
}
ops! { Fn3
    FmaH(a: u32, b: u32, c: u32) -> u32 { wh(fma_h(a, b, c)) }
    FmaB(a: u32, c: u32, e: u32) -> u32 { wb(fma_to_odd(f64::from(b(a)), f64::from(b(c)), f64::from(b(e)))) }
    FmaFtzH(a: u32, b: u32, c: u32) -> u32 {
        let [a, b, c] = [a, b, c].map(flush_f16);
        flush_tiny(FmaH::f(a, b, c), fma_h(a, b, c))
    }
    FmaReluFtzH(a: u32, b: u32, c: u32) -> u32 { relu16(FmaFtzH::f(a, b, c)) }
    FmaReluH(a: u32, b: u32, c: u32) -> u32 { relu16(FmaH::f(a, b, c)) }
    FmaReluB(a: u32, b: u32, c: u32) -> u32 { relu16(FmaB::f(a, b, c)) }
}
ops! { Fn1
    NegH(a: u32) -> u32 { if a & 0x7fff > 0x7c00 { 0x7fff } else { a ^ 0x8000 } }
    AbsH(a: u32) -> u32 { if a & 0x7fff > 0x7c00 { 0x7fff } else { a & 0x7fff } }
    NegB(a: u32) -> u32 { if a & 0x7fff > 0x7f80 { 0x7fff } else { a ^ 0x8000 } }
    AbsB(a: u32) -> u32 { if a & 0x7fff > 0x7f80 { 0x7fff } else { a & 0x7fff } }
    Ex2H(a: u32) -> u32 { f32_to_f16(approx::ex2(h(a))) }
    TanhH(a: u32) -> u32 { f32_to_f16(approx::tanh(h(a))) }
    // `ex2` of bf16 has `.ftz` always.
    Ex2B(a: u32) -> u32 { f32_to_bf16(f(flush(approx::ex2(b(a)).to_bits()))) }
    TanhB(a: u32) -> u32 { f32_to_bf16(approx::tanh(b(a))) }
}

#[inline(always)]
fn relu16(x: u32) -> u32 {
    // A NaN stays canonical; everything negative becomes +0.
    if x & 0x8000 != 0 { 0 } else { x }
}

const SIGN: u32 = 1 << 15;
/// An operation of halves with `.xorsign.abs`.
type Signed<O> = Xorsign<O, SIGN>;

macro_rules! halves {
    ($make:ident, $ty:expr, $h:ty, $b:ty) => {
        match $ty {
            Ty::F16 => $make::<$h>(),
            Ty::F16x2 => $make::<Packed<$h>>(),
            Ty::Bf16 => $make::<$b>(),
            Ty::Bf16x2 => $make::<Packed<$b>>(),
            _ => return None,
        }
    };
}

/// Picks the variant of an operation for `.ftz` and `.sat`, which f16 has and bf16 has not.
macro_rules! dressed_halves {
    ($make:ident, $ty:expr, $m:expr, $h:ty, $b:ty) => {
        dressed_halves!($make, $ty, $m, $h, $b, Ftz<$h>)
    };
    ($make:ident, $ty:expr, $m:expr, $h:ty, $b:ty, $ftz:ty) => {
        match ($m.ftz, $m.sat, $ty) {
            (false, false, _) => halves!($make, $ty, $h, $b),
            (true, false, Ty::F16) => $make::<$ftz>(),
            (true, false, Ty::F16x2) => $make::<Packed<$ftz>>(),
            (false, true, Ty::F16) => rare!($make, Sat<$h>),
            (false, true, Ty::F16x2) => rare!($make, Packed<Sat<$h>>),
            (true, true, Ty::F16) => rare!($make, Sat<$ftz>),
            (true, true, Ty::F16x2) => rare!($make, Packed<Sat<$ftz>>),
            _ => return None,
        }
    };
}

/// Picks the variant of a minimum or maximum for `.NaN` and `.xorsign.abs`.
macro_rules! extremes {
    ($ty:expr, $m:expr, $h:ident, $b:ident, $nan_h:ident, $nan_b:ident) => {
        match ($m.nan, $m.xorsign) {
            (false, false) => dressed_halves!(op2, $ty, $m, $h, $b),
            (true, false) => dressed_halves!(rare2, $ty, $m, $nan_h, $nan_b),
            (false, true) => dressed_halves!(rare2, $ty, $m, Signed<$h>, Signed<$b>),
            (true, true) => dressed_halves!(rare2, $ty, $m, Signed<$nan_h>, Signed<$nan_b>),
        }
    };
}

/// Returns the operation, or `None` if this table has none.
pub fn lookup(name: &str, ty: Ty, m: Modifiers) -> Option<AluOp> {
    let saturates = matches!(name, "add" | "sub" | "mul" | "fma") && !m.relu;
    if m.mode != Round::Nearest || m.sat && !saturates {
        return None;
    }
    Some(match name {
        "add" => dressed_halves!(op2, ty, m, AddH, AddB),
        "sub" => dressed_halves!(op2, ty, m, SubH, SubB),
        "mul" => dressed_halves!(op2, ty, m, MulH, MulB, MulFtzH),
        "fma" if m.relu => dressed_halves!(op3, ty, m, FmaReluH, FmaReluB, FmaReluFtzH),
        "fma" => dressed_halves!(op3, ty, m, FmaH, FmaB, FmaFtzH),
        "min" => extremes!(ty, m, MinH, MinB, MinNanH, MinNanB),
        "max" => extremes!(ty, m, MaxH, MaxB, MaxNanH, MaxNanB),
        "neg" => dressed_halves!(op1, ty, m, NegH, NegB),
        "abs" => dressed_halves!(op1, ty, m, AbsH, AbsB),
        "ex2" => halves!(op1, ty, Ex2H, Ex2B),
        "tanh" if !m.ftz => halves!(rare1, ty, TanhH, TanhB),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn half_arithmetic_rounds_once(a in 0u32..0x10000, c in 0u32..0x10000, e in 0u32..0x10000) {
            let (x, y, z) = (F16.decode(a), F16.decode(c), F16.decode(e));
            // f64 holds sums and products of f16 exactly
            prop_assert_eq!(AddH::f(a, c), wh(x + y));
            prop_assert_eq!(MulH::f(a, c), wh(x * y));
            // a fused result: between the two directed roundings of a sum that f64 may have rounded
            let got = FmaH::f(a, c, e);
            let near = x * y + z;
            if near.is_finite() && near.abs() < 65000.0 {
                let gap = (F16.decode(got) - near).abs();
                let step = (F16.decode(F16.encode(near, Round::Up, false)) - F16.decode(F16.encode(near, Round::Down, false))).abs();
                prop_assert!(gap <= step * 0.5000001, "{x} {y} {z}: {gap} {step}");
            }
        }
    }

    /// The products lie just below 2^-14, the smallest normal number: 0x0400.
    #[test]
    fn flushes_subnormals_that_only_rounding_makes_normal() {
        let product = |a: f64, b: f64| {
            let [a, b] = [a, b].map(wh);
            (MulH::f(a, b), MulFtzH::f(a, b))
        };
        // In units of 2^-25: 2048 is the smallest normal number, and the numbers below are the even ones. Operands are
        // normal, as subnormal ones are flushed.
        let (one, step) = (2.0f64.powi(-7), 2.0f64.powi(-18));
        // 2047.5: with 11 bits a tie, and 2048 is even.
        assert_eq!(product(1.5 * one, 1365.0 * step), (0x0400, 0x0400));
        // 2046.25.
        assert_eq!(product(1.25 * one, 1637.0 * step), (0x03ff, 0));
        // 2047.4375: 2047 with 11 bits.
        assert_eq!(product(1.0625 * one, 1927.0 * step), (0x0400, 0));
        assert_eq!(product(-1.0625 * one, 1927.0 * step), (0x8400, 0x8000));
        let [a, b] = [1.0625 * one, 1927.0 * step].map(wh);
        assert_eq!(FmaH::f(a, b, 0), 0x0400);
        assert_eq!(FmaFtzH::f(a, b, 0), 0);
        assert_eq!(FmaReluFtzH::f(a, b, 0), 0);
    }

    #[test]
    fn packed_is_both_halves() {
        let two_one = 0x4000_3c00;
        assert_eq!(<Packed<AddH> as Fn2>::f(two_one, 0x3c00_3c00), 0x4200_4000);
        assert_eq!(<Packed<NegH> as Fn1>::f(two_one), 0xc000_bc00);
    }

    #[test]
    fn dressed_halves() {
        let (one, two, nan, tiny) = (0x3c00, 0x4000, 0x7e01, 0x8001);
        assert_eq!(<Sat<AddH> as Fn2>::f(one, one), one);
        assert_eq!(<Sat<AddH> as Fn2>::f(nan, one), 0);
        assert_eq!(<Sat<SubH> as Fn2>::f(one, two), 0);
        assert_eq!(<Ftz<MaxH> as Fn2>::f(tiny, tiny), 0x8000);
        assert_eq!(<Packed<Ftz<NegH>> as Fn1>::f(0x3c00_8001), 0xbc00_0000);
        assert_eq!(<Xorsign<MinH, SIGN> as Fn2>::f(two, one | SIGN), one | SIGN);
        assert_eq!(<Xorsign<MinNanH, SIGN> as Fn2>::f(nan | SIGN, one), 0x7fff);
    }

    #[test]
    fn rejects_operations_that_bf16_lacks() {
        let plain = Modifiers {
            mode: Round::Nearest,
            ftz: false,
            sat: false,
            nan: false,
            xorsign: false,
            relu: false,
            approx: false,
        };
        for m in [
            Modifiers { ftz: true, ..plain },
            Modifiers { sat: true, ..plain },
        ] {
            assert!(lookup("add", Ty::F16, m).is_some());
            assert!(lookup("add", Ty::Bf16, m).is_none());
            assert!(lookup("add", Ty::Bf16x2, m).is_none());
        }
    }
}
