//! Integers of 16 or fewer bits side by side in a word: DPX (PTX ISA 9.7.1, `add`, `min` and `max` of
//! `u16x2` and `s16x2`, `.relu`), `cvt.pack`, and the video instructions that nvcc still writes
//! (9.7.17).

use crate::alu::*;

/// Computes the two halves of a word, each by itself.
#[inline(always)]
fn halves(a: u32, b: u32, of: impl Fn(u16, u16) -> u16) -> u32 {
    let half = |shift: u32| u32::from(of((a >> shift) as u16, (b >> shift) as u16)) << shift;
    half(0) | half(16)
}
#[inline(always)]
fn signed(a: u32, b: u32, of: impl Fn(i16, i16) -> i16) -> u32 {
    halves(a, b, |x, y| of(x as i16, y as i16) as u16)
}
/// Returns the place and the magnitude of the difference of each pair of unsigned elements of `BITS`.
#[inline(always)]
fn differences<const BITS: u32>(a: u32, b: u32) -> impl Iterator<Item = (u32, u32)> {
    let mask = (1 << BITS) - 1;
    let each = (0..32 / BITS).map(move |n| n * BITS);
    each.map(move |shift| (shift, (a >> shift & mask).abs_diff(b >> shift & mask)))
}

ops! { Fn2
    Add(a: u32, b: u32) -> u32 { halves(a, b, u16::wrapping_add) }
    MinU(a: u32, b: u32) -> u32 { halves(a, b, u16::min) }
    MaxU(a: u32, b: u32) -> u32 { halves(a, b, u16::max) }
    MinS(a: u32, b: u32) -> u32 { signed(a, b, i16::min) }
    MaxS(a: u32, b: u32) -> u32 { signed(a, b, i16::max) }
    MinSRelu(a: u32, b: u32) -> u32 { signed(a, b, |x, y| x.min(y).max(0)) }
    MaxSRelu(a: u32, b: u32) -> u32 { signed(a, b, |x, y| x.max(y).max(0)) }
    MinRelu(a: u32, b: u32) -> u32 { (a as i32).min(b as i32).max(0) as u32 }
    MaxRelu(a: u32, b: u32) -> u32 { (a as i32).max(b as i32).max(0) as u32 }
}
ops! { Fn3
    // All elements are written, so that nothing is left of c.
    AbsDiff2(a: u32, b: u32, c: u32) -> u32 { let _ = c; differences::<16>(a, b).fold(0, |d, (s, x)| d | x << s) }
    AbsDiff4(a: u32, b: u32, c: u32) -> u32 { let _ = c; differences::<8>(a, b).fold(0, |d, (s, x)| d | x << s) }
    AbsDiffAdd2(a: u32, b: u32, c: u32) -> u32 { differences::<16>(a, b).fold(c, |d, (_, x)| d.wrapping_add(x)) }
    AbsDiffAdd4(a: u32, b: u32, c: u32) -> u32 { differences::<8>(a, b).fold(c, |d, (_, x)| d.wrapping_add(x)) }
}

#[inline(always)]
fn clamped<const BITS: u32, const SIGNED: bool>(x: u32) -> u32 {
    let (least, largest) = if SIGNED {
        (-(1 << (BITS - 1)), (1 << (BITS - 1)) - 1)
    } else {
        (0, (1 << BITS) - 1)
    };
    (x as i32).clamp(least, largest) as u32 & ((1 << BITS) - 1)
}
/// `cvt.pack.sat` (PTX ISA 9.7.9.22): puts the first source above the second, and what fits of the third above both.
pub struct Pack<const BITS: u32, const SIGNED: bool>;
operation! { [const BITS: u32, const SIGNED: bool] Pack<BITS, SIGNED>, (a: u32, b: u32, c: u32) -> u32 {
    let clamped = clamped::<BITS, SIGNED>;
    c << (2 * BITS) | clamped(a) << BITS | clamped(b)
} }
ops! { Fn2
    PackS16(a: u32, b: u32) -> u32 { clamped::<16, true>(a) << 16 | clamped::<16, true>(b) }
    PackU16(a: u32, b: u32) -> u32 { clamped::<16, false>(a) << 16 | clamped::<16, false>(b) }
}

/// Returns the operation with these words, if there is one. nvcc writes `.relu` behind the type, the ISA before it.
pub fn lookup(words: &[&str]) -> Option<AluOp> {
    Some(match words {
        ["add", "u16x2" | "s16x2"] => op2::<Add>(),
        ["min", "u16x2"] => op2::<MinU>(),
        ["max", "u16x2"] => op2::<MaxU>(),
        ["min", "s16x2"] => op2::<MinS>(),
        ["max", "s16x2"] => op2::<MaxS>(),
        ["min", "s16x2", "relu"] | ["min", "relu", "s16x2"] => op2::<MinSRelu>(),
        ["max", "s16x2", "relu"] | ["max", "relu", "s16x2"] => op2::<MaxSRelu>(),
        ["min", "s32", "relu"] | ["min", "relu", "s32"] => op2::<MinRelu>(),
        ["max", "s32", "relu"] | ["max", "relu", "s32"] => op2::<MaxRelu>(),
        ["vabsdiff2", "u32", "u32", "u32"] => op3::<AbsDiff2>(),
        ["vabsdiff4", "u32", "u32", "u32"] => op3::<AbsDiff4>(),
        ["vabsdiff2", "u32", "u32", "u32", "add"] => op3::<AbsDiffAdd2>(),
        ["vabsdiff4", "u32", "u32", "u32", "add"] => op3::<AbsDiffAdd4>(),
        ["cvt", "pack", "sat", "s16", "s32"] => op2::<PackS16>(),
        ["cvt", "pack", "sat", "u16", "s32"] => op2::<PackU16>(),
        ["cvt", "pack", "sat", "s8", "s32", "b32"] => op3::<Pack<8, true>>(),
        ["cvt", "pack", "sat", "u8", "s32", "b32"] => op3::<Pack<8, false>>(),
        ["cvt", "pack", "sat", "s4", "s32", "b32"] => op3::<Pack<4, true>>(),
        ["cvt", "pack", "sat", "u4", "s32", "b32"] => op3::<Pack<4, false>>(),
        ["cvt", "pack", "sat", "s2", "s32", "b32"] => op3::<Pack<2, true>>(),
        ["cvt", "pack", "sat", "u2", "s32", "b32"] => op3::<Pack<2, false>>(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_do_not_touch_each_other() {
        assert_eq!(Add::f(0x0001_ffff, 0x0001_0001), 0x0002_0000);
        assert_eq!(MinU::f(0x8000_0001, 0x7fff_ffff), 0x7fff_0001);
        assert_eq!(MinS::f(0x8000_0001, 0x7fff_ffff), 0x8000_ffff);
        assert_eq!(MinSRelu::f(0x8000_0003, 0x7fff_0002), 0x0000_0002);
        assert_eq!(MaxSRelu::f(0x8000_8000, 0x7fff_ffff), 0x7fff_0000);
        assert_eq!(MaxRelu::f(0x8000_0000, u32::MAX), 0);
    }

    #[test]
    fn packs_saturate_and_push_the_rest_up() {
        assert_eq!(PackS16::f(40_000, -40_000_i32 as u32), 0x7fff_8000);
        assert_eq!(PackU16::f(70_000, -1_i32 as u32), 0xffff_0000);
        assert_eq!(
            Pack::<8, true>::f(-300_i32 as u32, 5, 0xaaaa_1234),
            0x1234_8005
        );
        assert_eq!(Pack::<4, false>::f(16, 3, 0xff12_3456), 0x1234_56f3);
        assert_eq!(Pack::<2, true>::f(1, -2_i32 as u32, 0), 0b0110);
    }

    #[test]
    fn differences_are_magnitudes() {
        assert_eq!(AbsDiff4::f(0x01ff_0005, 0x0300_0002, 9), 0x02ff_0003);
        assert_eq!(AbsDiffAdd4::f(0x01ff_0005, 0x0300_0002, 9), 9 + 2 + 255 + 3);
        assert_eq!(AbsDiff2::f(0x0001_ffff, 0x0003_0000, 9), 0x0002_ffff);
        assert_eq!(
            AbsDiffAdd2::f(0x0001_ffff, 0x0003_0000, u32::MAX),
            2 + 0xfffe
        );
    }
}
