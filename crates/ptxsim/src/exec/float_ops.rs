//! f32 and f64 operations on one lane (PTX ISA 9.7.3) and their table. Halves are in `half_ops`.
//!
//! A NaN result of f32 is 0x7fffffff, and one of f16 or bf16 is 0x7fff (9.7.3), also of `neg` and `abs`. For f64 the
//! ISA leaves the payload open. Here it is that of an H100: an operand that is a NaN, made quiet, whatever sign the
//! operation would have given it, or 0xfff8000000000000 if no operand is one. With two NaNs it is the second, in a
//! division the first; with three the second, the third.

use super::half_ops;
use crate::alu::*;
use crate::num::round::*;
use crate::num::{approx, exact};
use crate::parse::ast::Ty;
use std::marker::PhantomData;

/// Returns the f32 with these bits.
#[inline(always)]
pub fn f(x: u32) -> f32 {
    f32::from_bits(x)
}
/// Returns the bits of a result, with the canonical NaN.
#[inline(always)]
pub fn w(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}
/// Returns the f64 with these bits.
#[inline(always)]
fn d(x: u64) -> f64 {
    f64::from_bits(x)
}
#[inline(always)]
fn is_nan_d(a: u64) -> bool {
    a << 1 > 0x7ff << 53
}
/// Returns a NaN operand as it comes out of an operation.
#[inline(always)]
pub fn quiet_d(a: u64) -> u64 {
    a | 1 << 51
}
/// Returns the bits of a result of one operand, with the NaN that an H100 gives.
#[inline(always)]
fn wd1(x: f64, a: u64) -> u64 {
    match (x.is_nan(), is_nan_d(a)) {
        (false, _) => x.to_bits(),
        (true, true) => quiet_d(a),
        (true, false) => 0xfff8 << 48,
    }
}
/// Returns the bits of a result of two operands, with the NaN that an H100 gives.
#[inline(always)]
fn wd2(x: f64, a: u64, b: u64) -> u64 {
    if is_nan_d(b) { quiet_d(b) } else { wd1(x, a) }
}
/// Returns the bits of a result of three operands, with the NaN that an H100 gives.
#[inline(always)]
pub fn wd3(x: f64, a: u64, b: u64, c: u64) -> u64 {
    match (is_nan_d(b), is_nan_d(c)) {
        (true, _) => quiet_d(b),
        (_, true) => quiet_d(c),
        _ => wd1(x, a),
    }
}
/// Returns a zero of the same sign for a subnormal number, and other numbers as they are.
#[inline(always)]
pub fn flush(x: u32) -> u32 {
    if x & 0x7f80_0000 == 0 {
        x & 0x8000_0000
    } else {
        x
    }
}

/// An operation with `.ftz`: subnormal inputs and results of f32 become zeros of their sign.
pub struct Ftz<O>(PhantomData<O>);
/// An operation with `.ftz` whose rounding can lift a result to the smallest normal number. An H100 takes that for
/// subnormal if it is subnormal when rounded to 24 bits as if there were no least exponent.
pub struct Tiny<O>(PhantomData<O>);

/// Flushes a result. The smallest normal number becomes zero if `scaled`, the result 2^64 times as large, is less than
/// that.
#[inline(always)]
fn flush_tiny(x: u32, scaled: impl FnOnce() -> f32) -> u32 {
    if x << 1 == 0x0100_0000 && scaled().abs() < f32::from_bits((127 - 126 + 64) << 23) {
        x & 0x8000_0000
    } else {
        flush(x)
    }
}
/// Returns a result 2^64 times as large, rounded to f32.
#[inline(always)]
fn scaled(x: f64, mode: Round) -> f32 {
    f64_to_f32(x * f64::from_bits((1023 + 64) << 52), mode)
}
/// Converts f64 to f32 with `.ftz`.
#[inline(always)]
pub fn flush_converted(x: f64, mode: Round) -> u32 {
    flush_tiny(w(f64_to_f32(x, mode)), || scaled(x, mode))
}
/// An operation with `.sat`: the result is clamped to [0, 1], and a NaN becomes +0.
pub struct Sat<O>(PhantomData<O>);

/// Clamps a result to [0, 1]. A NaN becomes +0.
#[inline(always)]
pub fn saturate(x: u32) -> u32 {
    let v = f(x);
    if v > 0.0 {
        if v < 1.0 { x } else { 0x3f80_0000 }
    } else {
        0
    }
}

/// An operation with `.xorsign.abs`: it picks one of the magnitudes, and gives it the sign of the product. A NaN stays
/// canonical.
pub struct Xorsign<O, const SIGN: u32>(PhantomData<O>);
const SIGN: u32 = 1 << 31;
operation! { [O: Fn2<A = u32, B = u32, D = u32>, const SIGN: u32] Xorsign<O, SIGN>, (a: u32, b: u32) -> u32 {
    let picked = O::f(a & !SIGN, b & !SIGN);
    let sign = (a ^ b) & SIGN;
    if picked == SIGN - 1 {
        picked
    } else {
        picked | sign
    }
} }

macro_rules! wrap {
    ($tr:ident, $(($t:ident, $arg:ident)),*) => {
        impl<O: $tr<D = u32, $($t = u32),*>> $tr for Ftz<O> {
            type D = u32;
            $(type $t = u32;)*
            #[inline(always)]
            fn f($($arg: u32),*) -> u32 { flush(O::f($(flush($arg)),*)) }
        }
        impl<O: $tr<D = u32, $($t = u32),*>> $tr for Sat<O> {
            type D = u32;
            $(type $t = u32;)*
            #[inline(always)]
            fn f($($arg: u32),*) -> u32 { saturate(O::f($($arg),*)) }
        }
    };
}
wrap!(Fn1, (A, a));
wrap!(Fn2, (A, a), (B, b));
wrap!(Fn3, (A, a), (B, b), (C, c));

macro_rules! tiny {
    ($mode:expr, $mul:ty, $div:ty, $fma:ty, $rcp:ty) => {
        operation! { [] Tiny<$mul>, (a: u32, b: u32) -> u32 {
            let (a, b) = (flush(a), flush(b));
            flush_tiny(<$mul>::f(a, b), || {
                scaled(f64::from(f(a)) * f64::from(f(b)), $mode)
            })
        } }
        operation! { [] Tiny<$div>, (a: u32, b: u32) -> u32 {
            let (a, b) = (flush(a), flush(b));
            // Near 2^-126 b is large: half of the scale fits on either side.
            let lifted = |x: u32, by: i32| f(x) * f32::from_bits(((127 + by) as u32) << 23);
            flush_tiny(<$div>::f(a, b), || {
                div_f32(lifted(a, 32), lifted(b, -32), $mode)
            })
        } }
        operation! { [] Tiny<$rcp>, (a: u32) -> u32 {
            <Tiny<$div> as Fn2>::f(0x3f80_0000, a)
        } }
        operation! { [] Tiny<$fma>, (a: u32, b: u32, c: u32) -> u32 {
            let (a, b, c) = (flush(a), flush(b), flush(c));
            flush_tiny(<$fma>::f(a, b, c), || {
                let up = f64::from_bits((1023 + 64) << 52);
                let product = f64::from(f(a)) * f64::from(f(b)) * up;
                sum_to_f32(product, f64::from(f(c)) * up, $mode)
            })
        } }
    };
}

macro_rules! directed {
    ($($m:ident $mode:expr;)*) => {$(
        pub mod $m {
            use super::*;
            tiny! { $mode, Mul, Div, Fma, Rcp }
            ops! { Fn2
                Add(a: u32, b: u32) -> u32 { w(add_f32(f(a), f(b), $mode)) }
                Sub(a: u32, b: u32) -> u32 { w(add_f32(f(a), -f(b), $mode)) }
                Mul(a: u32, b: u32) -> u32 { w(mul_f32(f(a), f(b), $mode)) }
                Div(a: u32, b: u32) -> u32 { w(div_f32(f(a), f(b), $mode)) }
                AddD(a: u64, b: u64) -> u64 { wd2(exact::add(d(a), d(b), $mode), a, b) }
                SubD(a: u64, b: u64) -> u64 { wd2(exact::add(d(a), -d(b), $mode), a, b) }
                MulD(a: u64, b: u64) -> u64 { wd2(exact::mul(d(a), d(b), $mode), a, b) }
                DivD(a: u64, b: u64) -> u64 { wd2(exact::div(d(a), d(b), $mode), b, a) }
            }
            ops! { Fn3
                FmaD(a: u64, b: u64, c: u64) -> u64 { wd3(exact::fma(d(a), d(b), d(c), $mode), a, b, c) }
                Fma(a: u32, b: u32, c: u32) -> u32 { w(fma_f32(f(a), f(b), f(c), $mode)) }
            }
            ops! { Fn1
                Rcp(a: u32) -> u32 { w(div_f32(1.0, f(a), $mode)) }
                Sqrt(a: u32) -> u32 { w(sqrt_f32(f(a), $mode)) }
                RcpD(a: u64) -> u64 { wd1(exact::div(1.0, d(a), $mode), a) }
                SqrtD(a: u64) -> u64 { wd1(exact::sqrt(d(a), $mode), a) }
            }
        }
    )*};
}
directed! { rz Round::Zero; rm Round::Down; rp Round::Up; }
tiny! { Round::Nearest, Mul, Div, Fma, Rcp }

ops! { Fn2
    Add(a: u32, b: u32) -> u32 { w(f(a) + f(b)) }
    Sub(a: u32, b: u32) -> u32 { w(f(a) - f(b)) }
    Mul(a: u32, b: u32) -> u32 { w(f(a) * f(b)) }
    Div(a: u32, b: u32) -> u32 { w(f(a) / f(b)) }
    // Divisors above 2^126 give zero, or NaN of an infinity (PTX ISA 9.7.3.8).
    DivApprox(a: u32, b: u32) -> u32 {
        let far = f(b).abs() > f32::from_bits((127 + 126) << 23) && f(b).is_finite();
        if far { w(f(a) * 0.0_f32.copysign(f(b))) } else { Div::f(a, b) }
    }
    Min(a: u32, b: u32) -> u32 { min_f32(a, b) }
    Max(a: u32, b: u32) -> u32 { max_f32(a, b) }
    MinNan(a: u32, b: u32) -> u32 { if f(a).is_nan() || f(b).is_nan() { 0x7fff_ffff } else { min_f32(a, b) } }
    MaxNan(a: u32, b: u32) -> u32 { if f(a).is_nan() || f(b).is_nan() { 0x7fff_ffff } else { max_f32(a, b) } }
    Copysign(a: u32, b: u32) -> u32 { a & 0x8000_0000 | b & 0x7fff_ffff }
    AddD(a: u64, b: u64) -> u64 { wd2(d(a) + d(b), a, b) }
    SubD(a: u64, b: u64) -> u64 { wd2(d(a) - d(b), a, b) }
    MulD(a: u64, b: u64) -> u64 { wd2(d(a) * d(b), a, b) }
    DivD(a: u64, b: u64) -> u64 { wd2(d(a) / d(b), b, a) }
    MinD(a: u64, b: u64) -> u64 { pick_d(a, b, d(a) < d(b) || d(a) == d(b) && a >> 63 == 1) }
    MaxD(a: u64, b: u64) -> u64 { pick_d(a, b, d(a) > d(b) || d(a) == d(b) && a >> 63 == 0) }
    CopysignD(a: u64, b: u64) -> u64 { a & 1 << 63 | b & !(1 << 63) }
}
ops! { Fn3
    Fma(a: u32, b: u32, c: u32) -> u32 { w(f(a).mul_add(f(b), f(c))) }
    FmaD(a: u64, b: u64, c: u64) -> u64 { wd3(d(a).mul_add(d(b), d(c)), a, b, c) }
}
ops! { Fn1
    Neg(a: u32) -> u32 { w(-f(a)) }
    Abs(a: u32) -> u32 { w(f(a).abs()) }
    NegD(a: u64) -> u64 { if is_nan_d(a) { quiet_d(a) } else { a ^ 1 << 63 } }
    AbsD(a: u64) -> u64 { if is_nan_d(a) { quiet_d(a) } else { a & !(1 << 63) } }
    Rcp(a: u32) -> u32 { w(1.0 / f(a)) }
    Sqrt(a: u32) -> u32 { w(f(a).sqrt()) }
    RcpD(a: u64) -> u64 { wd1(1.0 / d(a), a) }
    SqrtD(a: u64) -> u64 { wd1(d(a).sqrt(), a) }
    Rsqrt(a: u32) -> u32 { w(approx::rsqrt(f(a))) }
    RsqrtD(a: u64) -> u64 { wd1(1.0 / d(a).sqrt(), a) }
    RcpGross(a: u64) -> u64 { approx::gross(a, |x| 1.0 / x) }
    RsqrtGross(a: u64) -> u64 { approx::gross(a, |x| 1.0 / x.sqrt()) }
    Ex2(a: u32) -> u32 { w(approx::ex2(f(a))) }
    Lg2(a: u32) -> u32 { w(approx::lg2(f(a))) }
    Sin(a: u32) -> u32 { w(approx::sin(f(a))) }
    Cos(a: u32) -> u32 { w(approx::cos(f(a))) }
    Tanh(a: u32) -> u32 { w(approx::tanh(f(a))) }
}

/// Returns the minimum: that of IEEE 754-2008 minNum, with -0 < +0 (PTX ISA 9.7.3.11).
#[inline(always)]
pub fn min_f32(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let less = (x < y) | (x == y) & (a >> 31 == 1);
    let picked = if less | y.is_nan() { a } else { b };
    w(f(picked))
}
/// Returns the maximum, as [`min_f32`] does the minimum.
#[inline(always)]
pub fn max_f32(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let more = (x > y) | (x == y) & (a >> 31 == 0);
    let picked = if more | y.is_nan() { a } else { b };
    w(f(picked))
}
/// Returns the first or the second of two f64, or the one that is no NaN.
#[inline(always)]
fn pick_d(a: u64, b: u64, first: bool) -> u64 {
    match (is_nan_d(a), is_nan_d(b)) {
        (true, true) => quiet_d(b),
        (false, true) => a,
        _ if first => a,
        _ => b,
    }
}

macro_rules! modes {
    ($make:ident, $mode:expr, $op:ident) => {
        match $mode {
            Round::Nearest => $make::<$op>(),
            Round::Zero => rare!($make, rz::$op),
            Round::Down => rare!($make, rm::$op),
            Round::Up => rare!($make, rp::$op),
        }
    };
}
/// Picks the variant of an operation for its modifiers `.ftz` and `.sat`.
macro_rules! dressed {
    ($make:ident, $m:expr, $op:ty) => {
        dressed!($make, $m, $op, Ftz)
    };
    ($make:ident, $m:expr, $op:ty, $ftz:ident) => {
        match ($m.ftz, $m.sat) {
            (false, false) => $make::<$op>(),
            (true, false) => $make::<$ftz<$op>>(),
            (false, true) => rare!($make, Sat<$op>),
            (true, true) => rare!($make, Sat<$ftz<$op>>),
        }
    };
}
macro_rules! dressed_modes {
    ($make:ident, $others:ident, $m:expr, $op:ident, $ftz:ident) => {
        match $m.mode {
            Round::Nearest => dressed!($make, $m, $op, $ftz),
            Round::Zero => dressed!($others, $m, rz::$op, $ftz),
            Round::Down => dressed!($others, $m, rm::$op, $ftz),
            Round::Up => dressed!($others, $m, rp::$op, $ftz),
        }
    };
}
/// The words between the name of a floating-point instruction and its type.
#[derive(Clone, Copy)]
pub struct Modifiers {
    pub mode: Round,
    pub ftz: bool,
    pub sat: bool,
    pub nan: bool,
    /// True for `.xorsign.abs`, which only minima and maxima have.
    pub xorsign: bool,
    pub relu: bool,
    pub approx: bool,
}

/// Returns the operation, or `None` if this table has none.
pub fn lookup(name: &str, ty: Ty, m: Modifiers) -> Option<AluOp> {
    use Ty::{F32, F64};
    let extreme = matches!(name, "min" | "max");
    if (m.nan || m.xorsign) && !extreme || m.relu && name != "fma" {
        return None;
    }
    if !matches!(ty, F32 | F64) {
        return half_ops::lookup(name, ty, m);
    }
    if m.relu || ty == F64 && (m.nan || m.xorsign || m.sat) {
        return None;
    }
    Some(match (name, ty) {
        ("add", F32) => dressed_modes!(op2, rare2, m, Add, Ftz),
        ("sub", F32) => dressed_modes!(op2, rare2, m, Sub, Ftz),
        ("mul", F32) => dressed_modes!(op2, rare2, m, Mul, Tiny),
        // The directed modes are vectors, too, because `expf` rounds one `fma` down.
        ("fma" | "mad", F32) => dressed_modes!(op3, op3, m, Fma, Tiny),
        ("div", F32) if m.approx => dressed!(rare2, m, DivApprox),
        ("div", F32) => dressed_modes!(op2, rare2, m, Div, Tiny),
        ("rcp", F32) => dressed_modes!(op1, rare1, m, Rcp, Tiny),
        ("sqrt", F32) => dressed_modes!(op1, rare1, m, Sqrt, Ftz),
        ("min", F32) if m.xorsign && m.nan => dressed!(rare2, m, Xorsign<MinNan, SIGN>),
        ("max", F32) if m.xorsign && m.nan => dressed!(rare2, m, Xorsign<MaxNan, SIGN>),
        ("min", F32) if m.xorsign => dressed!(rare2, m, Xorsign<Min, SIGN>),
        ("max", F32) if m.xorsign => dressed!(rare2, m, Xorsign<Max, SIGN>),
        ("min", F32) if m.nan => dressed!(rare2, m, MinNan),
        ("max", F32) if m.nan => dressed!(rare2, m, MaxNan),
        ("min", F32) => dressed!(op2, m, Min),
        ("max", F32) => dressed!(op2, m, Max),
        ("neg", F32) => dressed!(op1, m, Neg),
        ("abs", F32) => dressed!(op1, m, Abs),
        ("copysign", F32) => op2::<Copysign>(),
        ("rsqrt", F32) => dressed!(op1, m, Rsqrt),
        ("ex2", F32) => dressed!(op1, m, Ex2),
        ("lg2", F32) => dressed!(rare1, m, Lg2),
        ("sin", F32) => dressed!(rare1, m, Sin),
        ("cos", F32) => dressed!(rare1, m, Cos),
        ("tanh", F32) => dressed!(rare1, m, Tanh),
        ("add", F64) => modes!(op2, m.mode, AddD),
        ("sub", F64) => modes!(op2, m.mode, SubD),
        ("mul", F64) => modes!(op2, m.mode, MulD),
        ("div", F64) => modes!(op2, m.mode, DivD),
        ("rcp", F64) if m.approx && m.ftz => rare1::<RcpGross>(),
        ("rsqrt", F64) if m.approx && m.ftz => rare1::<RsqrtGross>(),
        ("rcp", F64) => modes!(op1, m.mode, RcpD),
        ("fma" | "mad", F64) => modes!(op3, m.mode, FmaD),
        ("sqrt", F64) => modes!(op1, m.mode, SqrtD),
        ("rsqrt", F64) => rare1::<RsqrtD>(),
        ("min", F64) => rare2::<MinD>(),
        ("max", F64) => rare2::<MaxD>(),
        ("neg", F64) => op1::<NegD>(),
        ("abs", F64) => op1::<AbsD>(),
        ("copysign", F64) => op2::<CopysignD>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn flush_and_saturate(x in any::<u32>(), y in any::<u32>()) {
            let clean = |v: u32| if f(v).is_subnormal() { f(v).signum() * 0.0 } else { f(v) };
            let sum = clean(x) + clean(y);
            prop_assert_eq!(Ftz::<Add>::f(x, y), w(clean(w(sum))));
            let got = f(Sat::<Mul>::f(x, y));
            prop_assert!((0.0..=1.0).contains(&got));
        }
    }

    #[test]
    fn minimum_and_maximum() {
        let (nan, pz, nz, one) = (
            f32::NAN.to_bits(),
            0_u32,
            0x8000_0000_u32,
            1.0_f32.to_bits(),
        );
        assert_eq!(Min::f(nan, one), one);
        assert_eq!(Max::f(one, nan), one);
        assert_eq!(Max::f(nan, nan), 0x7fff_ffff);
        assert_eq!((Min::f(pz, nz), Max::f(nz, pz)), (nz, pz));
        assert_eq!(MinNan::f(nan, one), 0x7fff_ffff);
        assert_eq!(
            Add::f(f32::INFINITY.to_bits(), f32::NEG_INFINITY.to_bits()),
            0x7fff_ffff
        );
    }
}
