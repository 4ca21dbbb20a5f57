//! Conversions (PTX ISA 9.7.9.21) on one lane. Between kinds they go through f64 bits or 64-bit integers.
//!
//! NaNs are those of an H100. f64 keeps its sign and the top of its payload, made quiet, on the way to a narrower
//! format, and so does a narrower one on the way to f64. Between the narrower ones a NaN becomes canonical: here it is
//! an f64 of ones, whose top is the canonical NaN of each of them.

use super::cmp_ops::ftz;
use super::float_ops::{flush_converted, quiet_d, w};
use crate::alu::*;
use crate::num::narrow::*;
use crate::num::round::*;
use crate::parse::ast::Ty;
use std::marker::PhantomData;

const NAN_OF_ONES: u64 = 0x7fff_ffff_ffff_ffff;

#[inline(always)]
fn widened(x: f64) -> u64 {
    if x.is_nan() { NAN_OF_ONES } else { x.to_bits() }
}
/// Converts the bits of an f32 to f64. The payload of a NaN is kept.
#[inline(always)]
fn f32_to_d(a: u32) -> u64 {
    let x = f32::from_bits(a);
    if x.is_nan() {
        u64::from(a & 0x8000_0000) << 32 | 0x7ff8 << 48 | u64::from(a & 0x7f_ffff) << 29
    } else {
        f64::from(x).to_bits()
    }
}
/// Returns the top bit of an integer for a NaN, and `otherwise` for numbers.
#[inline(always)]
fn nan_is_top(a: u64, bits: u32, otherwise: u64) -> u64 {
    if f64::from_bits(a).is_nan() {
        1 << (bits - 1)
    } else {
        otherwise
    }
}
/// Returns a quiet NaN with the same sign and the top of the payload, in a format of `bits` bits, `fraction` of them
/// the fraction.
#[inline(always)]
fn nan_to(a: u64, bits: u32, fraction: u32) -> u32 {
    let sign = ((a >> 63) as u32) << (bits - 1);
    let low = ((a | 1 << 51) >> (52 - fraction)) as u32 & ((1 << (bits - 1)) - 1);
    sign | low
}

ops! { Fn1
    HalfToF32(a: u32) -> u32 { w(f16_to_f32(a & 0xffff)) }
    // A shift on hardware: a NaN is not even made quiet.
    Bf16ToF32(a: u32) -> u32 { a << 16 }
    F32ToHalf(a: u32) -> u32 { f32_to_f16(f32::from_bits(a)) }
    F32ToBf16(a: u32) -> u32 { f32_to_bf16(f32::from_bits(a)) }
    F32FromS32(a: u32) -> u32 { (a as i32 as f32).to_bits() }
    F32FromU32(a: u32) -> u32 { (a as f32).to_bits() }
    F32ToD(a: u32) -> u64 { widened(f64::from(f32::from_bits(a))) }
    F32zToD(a: u32) -> u64 { widened(f64::from(ftz(a))) }
    HalfToD(a: u32) -> u64 { widened(F16.decode(a & 0xffff)) }
    Bf16ToD(a: u32) -> u64 { widened(BF16.decode(a & 0xffff)) }
    KeepF32ToD(a: u32) -> u64 { f32_to_d(a) }
    // Flushing makes a NaN canonical first.
    KeepF32zToD(a: u32) -> u64 { f32_to_d(w(ftz(a))) }
    KeepHalfToD(a: u32) -> u64 {
        let x = F16.decode(a & 0xffff);
        if x.is_nan() {
            u64::from(a & 0x8000) << 48 | 0x7ff8 << 48 | u64::from(a & 0x3ff) << 42
        } else {
            x.to_bits()
        }
    }
    KeepBf16ToD(a: u32) -> u64 { f32_to_d(a << 16) }
    QuietD(a: u64) -> u64 { if f64::from_bits(a).is_nan() { quiet_d(a) } else { a } }
    SatD(a: u64) -> u64 { let x = f64::from_bits(a); if x > 0.0 { x.min(1.0).to_bits() } else { 0 } }
    ReluD(a: u64) -> u64 { let x = f64::from_bits(a); if x.is_nan() || x > 0.0 { a } else { 0 } }
    // Rust's `as` saturates and sends NaN to 0, as cvt does from a narrower format to 32 bits and
    // less; from f64, and to 64 bits, it gives the upper bit (`nan_is_top`).
    DToS8(a: u64) -> u64 { f64::from_bits(a) as i8 as u64 }
    DToU8(a: u64) -> u64 { u64::from(f64::from_bits(a) as u8) }
    DToS16(a: u64) -> u64 { f64::from_bits(a) as i16 as u64 }
    DToU16(a: u64) -> u64 { u64::from(f64::from_bits(a) as u16) }
    DToS32(a: u64) -> u64 { f64::from_bits(a) as i32 as u64 }
    DToU32(a: u64) -> u64 { u64::from(f64::from_bits(a) as u32) }
    DToS64(a: u64) -> u64 { f64::from_bits(a) as i64 as u64 }
    DToU64(a: u64) -> u64 { f64::from_bits(a) as u64 }
    TopS8(a: u64) -> u64 { nan_is_top(a, 8, DToS8::f(a)) }
    TopU8(a: u64) -> u64 { nan_is_top(a, 8, DToU8::f(a)) }
    TopS16(a: u64) -> u64 { nan_is_top(a, 16, DToS16::f(a)) }
    TopU16(a: u64) -> u64 { nan_is_top(a, 16, DToU16::f(a)) }
    TopS32(a: u64) -> u64 { nan_is_top(a, 32, DToS32::f(a)) }
    TopU32(a: u64) -> u64 { nan_is_top(a, 32, DToU32::f(a)) }
    TopS64(a: u64) -> u64 { nan_is_top(a, 64, DToS64::f(a)) }
    TopU64(a: u64) -> u64 { nan_is_top(a, 64, DToU64::f(a)) }
    // Clamps of a 64-bit integer, S from signed and U from unsigned.
    ClampSToS8(a: u64) -> u64 { (a as i64).clamp(-128, 127) as u64 }
    ClampSToS16(a: u64) -> u64 { (a as i64).clamp(-32768, 32767) as u64 }
    ClampSToS32(a: u64) -> u64 { (a as i64).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u64 }
    ClampSToU8(a: u64) -> u64 { (a as i64).clamp(0, 255) as u64 }
    ClampSToU16(a: u64) -> u64 { (a as i64).clamp(0, 65535) as u64 }
    ClampSToU32(a: u64) -> u64 { (a as i64).clamp(0, i64::from(u32::MAX)) as u64 }
    ClampSToU64(a: u64) -> u64 { (a as i64).max(0) as u64 }
    ClampUToS8(a: u64) -> u64 { a.min(127) }
    ClampUToS16(a: u64) -> u64 { a.min(32767) }
    ClampUToS32(a: u64) -> u64 { a.min(i32::MAX as u64) }
    ClampUToS64(a: u64) -> u64 { a.min(i64::MAX as u64) }
    ClampUToU8(a: u64) -> u64 { a.min(255) }
    ClampUToU16(a: u64) -> u64 { a.min(65535) }
    ClampUToU32(a: u64) -> u64 { a.min(u64::from(u32::MAX)) }
    // A value that saturates to [0, 1] as an integer converts exactly in every rounding.
    UnitS(a: u64) -> u64 { (a as i64).clamp(0, 1) as u64 }
    UnitU(a: u64) -> u64 { a.min(1) }
    // tf32 is f32 with 10 bits of fraction.
    Tf32Nearest(a: u32) -> u32 { tf32(a, 0xfff + (a >> 13 & 1)) }
    // A NaN is cut off like anything else: not even made quiet.
    Tf32Away(a: u32) -> u32 { if f32::from_bits(a).is_nan() { a & !0x1fff } else { tf32(a, 0x1000) } }
    Tf32Zero(a: u32) -> u32 { tf32(a, 0) }
    // Beyond the largest number the result is the one below in its bits: of infinity the largest number, and of a NaN,
    // as an H200 does, whatever lies there.
    Tf32AwayFinite(a: u32) -> u32 {
        let rounded = Tf32Away::f(a);
        if rounded & 0x7fff_ffff >= 0x7f80_0000 { rounded - 0x2000 } else { rounded }
    }
    F32ToHalfFinite(a: u32) -> u32 { finite(F16, a, Round::Nearest) }
    F32ToHalfFiniteZ(a: u32) -> u32 { finite(F16, a, Round::Zero) }
    F32ToBf16Finite(a: u32) -> u32 { finite(BF16, a, Round::Nearest) }
    F32ToBf16FiniteZ(a: u32) -> u32 { finite(BF16, a, Round::Zero) }
    E4m3x2ToHalves(a: u32) -> u32 { pair(E4M3, a) }
    E5m2x2ToHalves(a: u32) -> u32 { pair(E5M2, a) }
    HalvesToE4m3x2(a: u32) -> u32 { narrow(E4M3, a) }
    HalvesToE5m2x2(a: u32) -> u32 { narrow(E5M2, a) }
    E2m3x2ToHalves(a: u32) -> u32 { pair(E2M3, a & 0x3f3f) }
    E3m2x2ToHalves(a: u32) -> u32 { pair(E3M2, a & 0x3f3f) }
    E2m1x2ToHalves(a: u32) -> u32 { pair(E2M1, a & 0xf | a << 4 & 0xf00) }
    HalvesToE2m1x2(a: u32) -> u32 { together(narrow(E2M1, a)) }
    Ue8m0x2ToBf16s(a: u32) -> u32 { ue8m0_to_bf16(a) | ue8m0_to_bf16(a >> 8) << 16 }
    Bf16sToUe8m0Down(a: u32) -> u32 { scales(a, false, false) }
    Bf16sToUe8m0Up(a: u32) -> u32 { scales(a, true, false) }
    Bf16sToUe8m0DownFinite(a: u32) -> u32 { scales(a, false, true) }
    Bf16sToUe8m0UpFinite(a: u32) -> u32 { scales(a, true, true) }
}
ops! { Fn2
    // The first source becomes the upper element.
    F32sToHalves(a: u32, b: u32) -> u32 { f32_to_f16(f32::from_bits(a)) << 16 | f32_to_f16(f32::from_bits(b)) }
    F32sToBf16s(a: u32, b: u32) -> u32 { f32_to_bf16(f32::from_bits(a)) << 16 | f32_to_bf16(f32::from_bits(b)) }
    F32sToHalvesZ(a: u32, b: u32) -> u32 { toward_zero(F16, a) << 16 | toward_zero(F16, b) }
    F32sToBf16sZ(a: u32, b: u32) -> u32 { toward_zero(BF16, a) << 16 | toward_zero(BF16, b) }
    F32sToHalvesFinite(a: u32, b: u32) -> u32 { F32ToHalfFinite::f(a) << 16 | F32ToHalfFinite::f(b) }
    F32sToHalvesFiniteZ(a: u32, b: u32) -> u32 { F32ToHalfFiniteZ::f(a) << 16 | F32ToHalfFiniteZ::f(b) }
    F32sToBf16sFinite(a: u32, b: u32) -> u32 { F32ToBf16Finite::f(a) << 16 | F32ToBf16Finite::f(b) }
    F32sToBf16sFiniteZ(a: u32, b: u32) -> u32 { F32ToBf16FiniteZ::f(a) << 16 | F32ToBf16FiniteZ::f(b) }
    F32sToE4m3(a: u32, b: u32) -> u32 { eight(E4M3, a) << 8 | eight(E4M3, b) }
    F32sToE5m2(a: u32, b: u32) -> u32 { eight(E5M2, a) << 8 | eight(E5M2, b) }
    F32sToE2m3(a: u32, b: u32) -> u32 { eight(E2M3, a) << 8 | eight(E2M3, b) }
    F32sToE3m2(a: u32, b: u32) -> u32 { eight(E3M2, a) << 8 | eight(E3M2, b) }
    F32sToE2m1(a: u32, b: u32) -> u32 { eight(E2M1, a) << 4 | eight(E2M1, b) }
    F32sToUe8m0Down(a: u32, b: u32) -> u32 { f32_to_ue8m0(a, false, false) << 8 | f32_to_ue8m0(b, false, false) }
    F32sToUe8m0Up(a: u32, b: u32) -> u32 { f32_to_ue8m0(a, true, false) << 8 | f32_to_ue8m0(b, true, false) }
    F32sToUe8m0DownFinite(a: u32, b: u32) -> u32 { f32_to_ue8m0(a, false, true) << 8 | f32_to_ue8m0(b, false, true) }
    F32sToUe8m0UpFinite(a: u32, b: u32) -> u32 { f32_to_ue8m0(a, true, true) << 8 | f32_to_ue8m0(b, true, true) }
}
/// A conversion with `.relu` to two results, each with its sign at a bit of `SIGNS`. Negative ones are zeros.
pub struct Relu<O, const SIGNS: u32>(PhantomData<O>);
#[inline(always)]
fn without_negatives<const SIGNS: u32>(x: u32) -> u32 {
    let wide = SIGNS.trailing_zeros() + 1;
    let negative = (x & SIGNS) >> (wide - 1);
    x & !negative.wrapping_mul(((1_u64 << wide) - 1) as u32)
}
operation! { [O: Fn1<A = u32, D = u32>, const SIGNS: u32] Relu<O, SIGNS>, (a: u32) -> u32 {
    without_negatives::<SIGNS>(O::f(a))
} }
operation! { [O: Fn2<A = u32, B = u32, D = u32>, const SIGNS: u32] Relu<O, SIGNS>, (a: u32, b: u32) -> u32 {
    without_negatives::<SIGNS>(O::f(a, b))
} }

/// Returns the operation of a `cvt` to packed formats or tf32, which is one step. The words are rounding, target and
/// source as the instruction has them.
pub fn packed(words: &[&str], satfinite: bool, relu: bool) -> Option<AluOp> {
    const BYTES: u32 = 0x8080;
    const SIXES: u32 = 0x2020;
    const FOURS: u32 = 0x88;
    const HALVES: u32 = 0x8000_8000;
    const HALF: u32 = 0x8000;
    const WORD: u32 = 1 << 31;
    macro_rules! with_relu {
        ($make:ident, $op:ident, $signs:expr) => {
            if relu {
                rare!($make, Relu<$op, $signs>)
            } else {
                $make::<$op>()
            }
        };
    }
    Some(match (words, satfinite) {
        (["rn", "f16x2", "f32"], false) => with_relu!(op2, F32sToHalves, HALVES),
        (["rz", "f16x2", "f32"], false) => with_relu!(rare2, F32sToHalvesZ, HALVES),
        (["rn", "bf16x2", "f32"], false) => with_relu!(op2, F32sToBf16s, HALVES),
        (["rz", "bf16x2", "f32"], false) => with_relu!(rare2, F32sToBf16sZ, HALVES),
        (["rn", "f16x2", "f32"], true) => with_relu!(rare2, F32sToHalvesFinite, HALVES),
        (["rz", "f16x2", "f32"], true) => with_relu!(rare2, F32sToHalvesFiniteZ, HALVES),
        (["rn", "bf16x2", "f32"], true) => with_relu!(rare2, F32sToBf16sFinite, HALVES),
        (["rz", "bf16x2", "f32"], true) => with_relu!(rare2, F32sToBf16sFiniteZ, HALVES),
        (["rn", "f16", "f32"], true) => with_relu!(rare1, F32ToHalfFinite, HALF),
        (["rz", "f16", "f32"], true) => with_relu!(rare1, F32ToHalfFiniteZ, HALF),
        (["rn", "bf16", "f32"], true) => with_relu!(rare1, F32ToBf16Finite, HALF),
        (["rz", "bf16", "f32"], true) => with_relu!(rare1, F32ToBf16FiniteZ, HALF),
        (["rn", "e4m3x2", "f32"], true) => with_relu!(rare2, F32sToE4m3, BYTES),
        (["rn", "e5m2x2", "f32"], true) => with_relu!(rare2, F32sToE5m2, BYTES),
        (["rn", "e4m3x2", "f16x2"], true) => with_relu!(rare1, HalvesToE4m3x2, BYTES),
        (["rn", "e5m2x2", "f16x2"], true) => with_relu!(rare1, HalvesToE5m2x2, BYTES),
        (["rn", "f16x2", "e4m3x2"], false) => with_relu!(op1, E4m3x2ToHalves, HALVES),
        (["rn", "f16x2", "e5m2x2"], false) => with_relu!(op1, E5m2x2ToHalves, HALVES),
        (["rn", "e2m3x2", "f32"], true) => with_relu!(rare2, F32sToE2m3, SIXES),
        (["rn", "e3m2x2", "f32"], true) => with_relu!(rare2, F32sToE3m2, SIXES),
        (["rn", "e2m1x2", "f32"], true) => with_relu!(rare2, F32sToE2m1, FOURS),
        (["rn", "e2m1x2", "f16x2"], true) => with_relu!(rare1, HalvesToE2m1x2, FOURS),
        (["rn", "f16x2", "e2m3x2"], false) => with_relu!(rare1, E2m3x2ToHalves, HALVES),
        (["rn", "f16x2", "e3m2x2"], false) => with_relu!(rare1, E3m2x2ToHalves, HALVES),
        (["rn", "f16x2", "e2m1x2"], false) => with_relu!(rare1, E2m1x2ToHalves, HALVES),
        (["rz", "ue8m0x2", "f32"], false) if !relu => rare2::<F32sToUe8m0Down>(),
        (["rp", "ue8m0x2", "f32"], false) if !relu => rare2::<F32sToUe8m0Up>(),
        (["rz", "ue8m0x2", "f32"], true) if !relu => rare2::<F32sToUe8m0DownFinite>(),
        (["rp", "ue8m0x2", "f32"], true) if !relu => rare2::<F32sToUe8m0UpFinite>(),
        (["rz", "ue8m0x2", "bf16x2"], false) if !relu => rare1::<Bf16sToUe8m0Down>(),
        (["rp", "ue8m0x2", "bf16x2"], false) if !relu => rare1::<Bf16sToUe8m0Up>(),
        (["rz", "ue8m0x2", "bf16x2"], true) if !relu => rare1::<Bf16sToUe8m0DownFinite>(),
        (["rp", "ue8m0x2", "bf16x2"], true) if !relu => rare1::<Bf16sToUe8m0UpFinite>(),
        (["rn", "bf16x2", "ue8m0x2"], false) if !relu => rare1::<Ue8m0x2ToBf16s>(),
        (["rn", "tf32", "f32"], false) => with_relu!(op1, Tf32Nearest, WORD),
        (["rz", "tf32", "f32"], false) => with_relu!(op1, Tf32Zero, WORD),
        (["rna", "tf32", "f32"], false) if !relu => rare1::<Tf32Away>(),
        (["rna", "tf32", "f32"], true) if !relu => rare1::<Tf32AwayFinite>(),
        _ => return None,
    })
}

#[inline(always)]
fn toward_zero(format: Format, bits: u32) -> u32 {
    format.encode(f64::from(f32::from_bits(bits)), Round::Zero, false)
}
#[inline(always)]
fn finite(format: Format, bits: u32, mode: Round) -> u32 {
    format.encode(f64::from(f32::from_bits(bits)), mode, true)
}
#[inline(always)]
fn tf32(bits: u32, half: u32) -> u32 {
    let magnitude = bits & 0x7fff_ffff;
    match magnitude {
        0x7f80_0001.. => 0x7fff_e000,
        0x7f80_0000 => bits,
        _ => bits.wrapping_add(half) & !0x1fff,
    }
}
#[inline(always)]
fn pair(format: Format, codes: u32) -> u32 {
    let half = |code: u32| {
        let x = format.decode(code & 0xff);
        if x.is_nan() {
            0x7fff
        } else {
            f32_to_f16(x as f32)
        }
    };
    half(codes) | half(codes >> 8) << 16
}
#[inline(always)]
fn narrow(format: Format, halves: u32) -> u32 {
    let code = |h: u32| format.encode(F16.decode(h & 0xffff), Round::Nearest, true);
    code(halves) | code(halves >> 16) << 8
}
/// Joins two codes of 4 bits from the lower ends of two bytes.
#[inline(always)]
fn together(codes: u32) -> u32 {
    codes & 0xf | codes >> 4 & 0xf0
}
/// Converts two bf16 to ue8m0. A bf16 is the upper half of an f32.
#[inline(always)]
fn scales(a: u32, up: bool, saturate: bool) -> u32 {
    f32_to_ue8m0(a & 0xffff_0000, up, saturate) << 8 | f32_to_ue8m0(a << 16, up, saturate)
}
#[inline(always)]
fn eight(format: Format, bits: u32) -> u32 {
    format.encode(f64::from(f32::from_bits(bits)), Round::Nearest, true)
}

macro_rules! rounders {
    ($($m:ident $mode:expr;)*) => {$(
        pub mod $m {
            use super::*;
            ops! { Fn1
                Integral(a: u64) -> u64 {
                    let x = f64::from_bits(a);
                    if x.is_nan() { quiet_d(a) } else { integral_f64(x, $mode).to_bits() }
                }
                ToF32(a: u64) -> u32 {
                    let x = f64::from_bits(a);
                    if x.is_nan() { nan_to(a, 32, 23) } else { f64_to_f32(x, $mode).to_bits() }
                }
                ToF32z(a: u64) -> u32 {
                    let x = f64::from_bits(a);
                    if x.is_nan() { nan_to(a, 32, 23) } else { flush_converted(x, $mode) }
                }
                ToHalf(a: u64) -> u32 {
                    let x = f64::from_bits(a);
                    if x.is_nan() { nan_to(a, 16, 10) } else { F16.encode(x, $mode, false) }
                }
                ToBf16(a: u64) -> u32 {
                    let x = f64::from_bits(a);
                    if x.is_nan() { nan_to(a, 16, 7) } else { BF16.encode(x, $mode, false) }
                }
                F32FromS(a: u64) -> u32 { w(i128_to_f32(i128::from(a as i64), $mode)) }
                F32FromU(a: u64) -> u32 { w(i128_to_f32(i128::from(a), $mode)) }
                F64FromS(a: u64) -> u64 { i128_to_f64(i128::from(a as i64), $mode).to_bits() }
                F64FromU(a: u64) -> u64 { i128_to_f64(i128::from(a), $mode).to_bits() }
                HalfFromS(a: u64) -> u32 { F16.encode(half_integer(i128::from(a as i64)), $mode, false) }
                HalfFromU(a: u64) -> u32 { F16.encode(half_integer(i128::from(a)), $mode, false) }
                Bf16FromS(a: u64) -> u32 { BF16.encode(half_integer(i128::from(a as i64)), $mode, false) }
                Bf16FromU(a: u64) -> u32 { BF16.encode(half_integer(i128::from(a)), $mode, false) }
            }
        }
    )*};
}
rounders! { rn Round::Nearest; rz Round::Zero; rm Round::Down; rp Round::Up; }

/// Returns the integer as f64, rounded to odd, so that rounding it to a half afterwards is correct.
#[inline(always)]
fn half_integer(x: i128) -> f64 {
    let near = x as f64;
    to_odd(near, (x - near as i128) as f64)
}

macro_rules! by_mode {
    ($mode:expr, $op:ident) => {
        match $mode {
            Round::Nearest => op1::<rn::$op>(),
            Round::Zero => rare1::<rz::$op>(),
            Round::Down => rare1::<rm::$op>(),
            Round::Up => rare1::<rp::$op>(),
        }
    };
}

/// Returns the operation that rounds to an integer, on the way from float to integer.
pub fn integral(mode: Round) -> AluOp {
    match mode {
        Round::Nearest => op1::<rn::Integral>(),
        Round::Zero => op1::<rz::Integral>(),
        Round::Down => op1::<rm::Integral>(),
        Round::Up => op1::<rp::Integral>(),
    }
}

/// Returns the operation that widens a float to f64, on the way to another float or an integer.
pub fn float_to_f64(ty: Ty, flush: bool) -> Option<AluOp> {
    Some(match ty {
        Ty::F16 => op1::<HalfToD>(),
        Ty::Bf16 => op1::<Bf16ToD>(),
        Ty::F32 if flush => op1::<F32zToD>(),
        Ty::F32 => op1::<F32ToD>(),
        Ty::F64 => op1::<QuietD>(),
        _ => return None,
    })
}

/// Returns the operation that converts a float to f64 and no further: the payload of a NaN is kept.
pub fn float_to_f64_whole(ty: Ty, flush: bool) -> Option<AluOp> {
    Some(match ty {
        Ty::F16 => op1::<KeepHalfToD>(),
        Ty::Bf16 => op1::<KeepBf16ToD>(),
        Ty::F32 if flush => op1::<KeepF32zToD>(),
        Ty::F32 => op1::<KeepF32ToD>(),
        Ty::F64 => op1::<QuietD>(),
        _ => return None,
    })
}

/// Returns the operation that narrows f64 to a float.
pub fn f64_to_float(ty: Ty, mode: Round, flush: bool) -> Option<AluOp> {
    Some(match ty {
        Ty::F32 if flush => by_mode!(mode, ToF32z),
        Ty::F16 => by_mode!(mode, ToHalf),
        Ty::Bf16 => by_mode!(mode, ToBf16),
        Ty::F32 => by_mode!(mode, ToF32),
        Ty::F64 => op1::<QuietD>(),
        _ => return None,
    })
}

/// Returns the operation that converts f64 to an integer. `from` is the type that the f64 was widened from, on which
/// the result of a NaN depends.
pub fn f64_to_integer(ty: Ty, from: Ty) -> Option<AluOp> {
    let top = from == Ty::F64;
    Some(match ty {
        Ty::S8 if top => op1::<TopS8>(),
        Ty::U8 if top => op1::<TopU8>(),
        Ty::S16 if top => op1::<TopS16>(),
        Ty::U16 if top => op1::<TopU16>(),
        Ty::S32 if top => op1::<TopS32>(),
        Ty::U32 if top => op1::<TopU32>(),
        Ty::S8 => op1::<DToS8>(),
        Ty::U8 => op1::<DToU8>(),
        Ty::S16 => op1::<DToS16>(),
        Ty::U16 => op1::<DToU16>(),
        Ty::S32 => op1::<DToS32>(),
        Ty::U32 => op1::<DToU32>(),
        Ty::S64 => op1::<TopS64>(),
        Ty::U64 => op1::<TopU64>(),
        _ => return None,
    })
}

/// Returns the operation that converts a 64-bit integer to a float.
pub fn integer_to_float(signed: bool, ty: Ty, mode: Round) -> Option<AluOp> {
    Some(match (ty, signed) {
        (Ty::F32, true) => by_mode!(mode, F32FromS),
        (Ty::F32, false) => by_mode!(mode, F32FromU),
        (Ty::F64, true) => by_mode!(mode, F64FromS),
        (Ty::F64, false) => by_mode!(mode, F64FromU),
        (Ty::F16, true) => by_mode!(mode, HalfFromS),
        (Ty::F16, false) => by_mode!(mode, HalfFromU),
        (Ty::Bf16, true) => by_mode!(mode, Bf16FromS),
        (Ty::Bf16, false) => by_mode!(mode, Bf16FromU),
        _ => return None,
    })
}

/// Returns the operation that clamps a 64-bit integer to a type, or `None` if the type holds every value.
pub fn clamp(from_signed: bool, to: Ty) -> Option<AluOp> {
    Some(match (from_signed, to) {
        (true, Ty::S8) => op1::<ClampSToS8>(),
        (true, Ty::S16) => op1::<ClampSToS16>(),
        (true, Ty::S32) => op1::<ClampSToS32>(),
        (true, Ty::U8) => op1::<ClampSToU8>(),
        (true, Ty::U16) => op1::<ClampSToU16>(),
        (true, Ty::U32) => op1::<ClampSToU32>(),
        (true, Ty::U64) => op1::<ClampSToU64>(),
        (false, Ty::S8) => op1::<ClampUToS8>(),
        (false, Ty::S16) => op1::<ClampUToS16>(),
        (false, Ty::S32) => op1::<ClampUToS32>(),
        (false, Ty::S64) => op1::<ClampUToS64>(),
        (false, Ty::U8) => op1::<ClampUToU8>(),
        (false, Ty::U16) => op1::<ClampUToU16>(),
        (false, Ty::U32) => op1::<ClampUToU32>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_negatives_are_zeros() {
        assert_eq!(without_negatives::<0x8000_8000>(0x8001_3c00), 0x0000_3c00);
        assert_eq!(without_negatives::<0x8080>(0x7fff), 0x7f00);
        assert_eq!(without_negatives::<0x8000_0000>(0xbf80_0000), 0);
        assert_eq!(without_negatives::<0x8000_0000>(0x7fff_ffff), 0x7fff_ffff);
    }

    /// PTX ISA 9.7.9.21, `.satfinite`: past the largest number is the largest number.
    #[test]
    fn satfinite_stops_at_the_largest_number() {
        let bits = |x: f32| x.to_bits();
        for x in [1e30, f32::INFINITY] {
            assert_eq!(F32ToHalfFinite::f(bits(x)), 0x7bff);
            assert_eq!(F32ToHalfFiniteZ::f(bits(-x)), 0xfbff);
        }
        assert_eq!(F32ToBf16Finite::f(bits(f32::MAX)), 0x7f7f);
        assert_eq!(F32ToBf16FiniteZ::f(bits(f32::NEG_INFINITY)), 0xff7f);
        assert_eq!(
            F32sToHalvesFinite::f(bits(f32::NAN), bits(1.0)),
            0x7fff_3c00
        );
        assert_eq!(Tf32AwayFinite::f(bits(f32::MAX)), 0x7f7f_e000);
        assert_eq!(Tf32AwayFinite::f(bits(f32::NEG_INFINITY)), 0xff7f_e000);
        assert_eq!(Tf32AwayFinite::f(bits(1.0)), bits(1.0));
    }

    #[test]
    fn every_fp8_code_converts_both_ways() {
        for code in 0..=0xff_u32 {
            let x = float8::F8E4M3::from_bits(code as u8).to_f32();
            let halves = E4m3x2ToHalves::f(code << 8);
            if x.is_nan() {
                assert_eq!(halves >> 16, 0x7fff);
            } else {
                assert_eq!(f16_to_f32(halves >> 16), x);
                assert_eq!(HalvesToE4m3x2::f(halves) >> 8, code);
                assert_eq!(F32sToE4m3::f(x.to_bits(), 0) >> 8, code);
            }
        }
    }

    #[test]
    fn floats_to_integers_saturate() {
        let d = |x: f64| x.to_bits();
        assert_eq!(DToS32::f(d(1e10)), i32::MAX as u64);
        assert_eq!(DToU32::f(d(-5.0)), 0);
        assert_eq!(DToS64::f(d(f64::NAN)), 0);
        assert_eq!(rn::Integral::f(d(2.5)), d(2.0));
        assert_eq!(rp::Integral::f(d(-2.5)), d(-2.0));
    }
}
