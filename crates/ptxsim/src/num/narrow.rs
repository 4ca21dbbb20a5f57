//! f16, bf16, and formats of 8, 6 and 4 bits (PTX ISA 5.2.3, "alternate floating-point data formats").

use super::round::Round;

/// A binary format of at most 16 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    exponent_bits: u32,
    fraction_bits: u32,
    /// The magnitude bits of the largest finite value.
    max_finite: u32,
    /// The magnitude bits of infinity, or `None` for e4m3 and the formats of 6 and 4 bits, which have none.
    infinity: Option<u32>,
    /// The value that PTX writes for a NaN, which is the largest number in formats without one.
    nan: u32,
}

pub const F16: Format = Format::with_infinity(5, 10);
pub const BF16: Format = Format::with_infinity(8, 7);
pub const E4M3: Format = Format {
    // The last code is the NaN.
    max_finite: 0x7e,
    ..Format::only_numbers(4, 3)
};
pub const E5M2: Format = Format::with_infinity(5, 2);
pub const E2M3: Format = Format::only_numbers(2, 3);
pub const E3M2: Format = Format::only_numbers(3, 2);
pub const E2M1: Format = Format::only_numbers(2, 1);

/// Returns the value of a ue8m0. Its codes are powers of two from 2^-127 on, without a sign and without 0, and the last
/// code is the NaN.
pub fn ue8m0_to_f64(code: u32) -> f64 {
    match code & 0xff {
        0xff => f64::NAN,
        code => pow2(code as i32 - 127),
    }
}

/// Returns the code of the power of two at or below a magnitude, or at or above it with `up`, as the host functions of
/// CUDA 13.0 do (cuda_fp8.hpp): the sign is dropped, and what lies below 2^-127 becomes that. With `saturate`, only a
/// NaN becomes the NaN.
#[inline(always)]
pub fn f32_to_ue8m0(bits: u32, up: bool, saturate: bool) -> u32 {
    const SMALLEST: u32 = 1 << 22;
    let magnitude = bits & 0x7fff_ffff;
    let between = magnitude & 0x7f_ffff != 0 && magnitude > SMALLEST && magnitude < 0x7f80_0000;
    let code = (magnitude >> 23) + u32::from(up && between);
    if saturate && magnitude <= 0x7f80_0000 {
        code.min(0xfe)
    } else {
        code
    }
}

/// Converts a ue8m0 to bf16, exactly.
#[inline(always)]
pub fn ue8m0_to_bf16(code: u32) -> u32 {
    match code & 0xff {
        0xff => BF16.nan,
        // Subnormal.
        0 => 0x40,
        code => code << 7,
    }
}

impl Format {
    /// Returns a format of numbers alone.
    const fn only_numbers(exponent_bits: u32, fraction_bits: u32) -> Self {
        let largest = (1 << (exponent_bits + fraction_bits)) - 1;
        Self {
            exponent_bits,
            fraction_bits,
            max_finite: largest,
            infinity: None,
            nan: largest,
        }
    }

    /// Returns a format whose largest exponent is that of infinity and of NaNs, as in IEEE 754.
    const fn with_infinity(exponent_bits: u32, fraction_bits: u32) -> Self {
        let infinity = ((1 << exponent_bits) - 1) << fraction_bits;
        Self {
            max_finite: infinity - 1,
            infinity: Some(infinity),
            ..Self::only_numbers(exponent_bits, fraction_bits)
        }
    }

    fn sign_bit(self) -> u32 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// Returns the value of a code.
    pub fn decode(self, bits: u32) -> f64 {
        let sign = if bits & self.sign_bit() != 0 {
            -1.0
        } else {
            1.0
        };
        let magnitude = bits & (self.sign_bit() - 1);
        if Some(magnitude) == self.infinity {
            return sign * f64::INFINITY;
        }
        if magnitude > self.max_finite {
            return f64::NAN;
        }
        let fraction = magnitude & ((1 << self.fraction_bits) - 1);
        let exponent = (magnitude >> self.fraction_bits) as i32;
        let (significand, exponent) = if exponent == 0 {
            (fraction, 1)
        } else {
            (fraction | 1 << self.fraction_bits, exponent)
        };
        sign * f64::from(significand) * pow2(exponent - self.bias() - self.fraction_bits as i32)
    }

    /// Returns the code of a value, rounded once. With `saturate`, what would be infinite or too large becomes the
    /// largest finite value. There is no stochastic rounding.
    pub fn encode(self, x: f64, mode: Round, saturate: bool) -> u32 {
        if x.is_nan() {
            return self.nan;
        }
        let sign = if x.is_sign_negative() {
            self.sign_bit()
        } else {
            0
        };
        let too_large = |beyond: bool| {
            // Directed rounding towards zero stops at the largest finite value.
            let stays = beyond
                && (mode == Round::Zero
                    || mode == Round::Down && sign == 0
                    || mode == Round::Up && sign != 0);
            sign | match self.infinity {
                _ if saturate || stays => self.max_finite,
                Some(infinity) => infinity,
                None => self.nan,
            }
        };
        if x.is_infinite() {
            return too_large(false);
        }
        let bits = x.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
        if exponent == -1023 {
            // This is below every format here (bf16 reaches 2^-133): only its sign counts, and that it is not 0.
            let up = bits << 1 != 0
                && (mode == Round::Up && sign == 0 || mode == Round::Down && sign != 0);
            return sign | u32::from(up);
        }
        let significand = bits & ((1 << 52) - 1) | 1 << 52;
        let lowest = 1 - self.bias();
        let shift = 52 - self.fraction_bits as i32 + (lowest - exponent).max(0);
        let (kept, rest, half) = if shift > 62 {
            (0, significand, u64::MAX)
        } else {
            (
                significand >> shift,
                significand & ((1 << shift) - 1),
                1_u64 << (shift - 1),
            )
        };
        let up = match mode {
            Round::Nearest => rest > half || rest == half && kept & 1 == 1,
            Round::Zero => false,
            Round::Down => sign != 0 && rest != 0,
            Round::Up => sign == 0 && rest != 0,
        };
        let biased = (exponent.max(lowest) - lowest) as u64;
        // The implicit bit of `kept` adds the one that `biased` lacks; a carry moves on by itself.
        let magnitude = (biased << self.fraction_bits) + kept + u64::from(up);
        if magnitude > u64::from(self.max_finite) {
            return too_large(true);
        }
        sign | magnitude as u32
    }
}

/// Returns 2 to the power of `exponent`, which has to be that of a normal f64.
fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Converts f16 to f32 exactly and without branches, so that several lanes are converted in one vector register.
#[inline(always)]
pub fn f16_to_f32(h: u32) -> f32 {
    let magnitude = (h & 0x7fff) << 13;
    // The shifted bits read as f32 are 2^112 times too small, subnormals included.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = f32::from_bits(magnitude | 0x7f80_0000);
    let value = if magnitude >= 0x0f80_0000 {
        special
    } else {
        scaled
    };
    f32::from_bits(value.to_bits() | (h & 0x8000) << 16)
}

/// Converts e4m3 to f32 exactly and without branches, as [`f16_to_f32`] does.
#[inline(always)]
pub fn e4m3_to_f32(b: u32) -> f32 {
    let magnitude = b & 0x7f;
    // The shifted bits read as f32 are 2^120 times too small, subnormals included.
    let scaled = f32::from_bits(magnitude << 20) * f32::from_bits(0x7b80_0000);
    let value = if magnitude == E4M3.nan {
        f32::NAN
    } else {
        scaled
    };
    f32::from_bits(value.to_bits() | (b & 0x80) << 24)
}

/// Converts e5m2 to f32 exactly. Its code is the upper byte of an f16.
#[inline(always)]
pub fn e5m2_to_f32(b: u32) -> f32 {
    f16_to_f32((b & 0xff) << 8)
}

/// Rounds f32 to the nearest f16, ties to even. A NaN becomes 0x7fff. There are no branches, as in [`f16_to_f32`].
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u32 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let a = bits & 0x7fff_ffff;
    let normal = a
        .wrapping_sub(112 << 23)
        .wrapping_add(0xfff + ((a >> 13) & 1))
        >> 13;
    // Adding 0.5 puts the last bit of a subnormal f16 at the last bit of the f32 sum.
    let small = (f32::from_bits(a) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let finite = if a < 113 << 23 { small } else { normal };
    let magnitude = if a >= 143 << 23 { 0x7c00 } else { finite };
    if a > 0x7f80_0000 {
        0x7fff
    } else {
        sign | magnitude
    }
}

/// Converts bf16 to f32 exactly: it is the upper half of one.
#[inline(always)]
pub fn bf16_to_f32(b: u32) -> f32 {
    f32::from_bits(b << 16)
}

/// Rounds f32 to the nearest bf16, ties to even.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if x.is_nan() { 0x7fff } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_f16_and_bf16() {
        for bits in 0..=0xffff_u32 {
            let half = half::f16::from_bits(bits as u16);
            let brain = half::bf16::from_bits(bits as u16);
            assert_eq!(F16.decode(bits).is_nan(), half.is_nan());
            if !half.is_nan() {
                assert_eq!(F16.decode(bits), half.to_f64());
                assert_eq!(f16_to_f32(bits).to_bits(), half.to_f32().to_bits());
                assert_eq!(f32_to_f16(half.to_f32()), bits);
                assert_eq!(F16.encode(half.to_f64(), Round::Zero, false), bits);
            }
            if !brain.is_nan() {
                assert_eq!(BF16.decode(bits), brain.to_f64());
                assert_eq!(f32_to_bf16(brain.to_f32()), bits);
                assert_eq!(BF16.encode(brain.to_f64(), Round::Up, false), bits);
            }
        }
    }

    #[test]
    fn every_fp8() {
        for bits in 0..=0xff_u32 {
            let e4 = float8::F8E4M3::from_bits(bits as u8).to_f64();
            let e5 = float8::F8E5M2::from_bits(bits as u8).to_f64();
            let (quick4, quick5) = (e4m3_to_f32(bits), e5m2_to_f32(bits));
            for (format, expected, quick) in [(E4M3, e4, quick4), (E5M2, e5, quick5)] {
                let got = format.decode(bits);
                assert!(
                    got.to_bits() == f64::from(quick).to_bits() || got.is_nan() && quick.is_nan(),
                    "{format:?} {bits:x}"
                );
                assert!(
                    got == expected || got.is_nan() && expected.is_nan(),
                    "{format:?} {bits:x}"
                );
                if got.is_finite() {
                    assert_eq!(format.encode(got, Round::Nearest, true), bits);
                }
            }
        }
        assert_eq!(E4M3.encode(1e9, Round::Nearest, true), 0x7e);
        assert_eq!(E4M3.encode(464.0, Round::Nearest, true), 0x7e);
        assert_eq!(E5M2.encode(-f64::INFINITY, Round::Nearest, true), 0xfb);
    }

    /// Compares with the values of PTX ISA 5.2.3, written down.
    #[test]
    fn every_code_of_6_and_4_bits() {
        let e2m1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let e2m3 = |code: u32| match code >> 3 {
            0 => f64::from(code) / 8.0,
            e => f64::from(8 + (code & 7)) / 8.0 * [1.0, 2.0, 4.0][e as usize - 1],
        };
        let e3m2 = |code: u32| match code >> 2 {
            0 => f64::from(code) / 16.0,
            e => f64::from(4 + (code & 3)) / 4.0 * 2_f64.powi(e as i32 - 3),
        };
        let mut all: Vec<(Format, u32, f64)> = Vec::new();
        all.extend((0..8).map(|code| (E2M1, code, e2m1[code as usize])));
        all.extend((0..32).map(|code| (E2M3, code, e2m3(code))));
        all.extend((0..32).map(|code| (E3M2, code, e3m2(code))));
        assert_eq!((e2m3(31), e3m2(31)), (7.5, 28.0));
        for (format, code, value) in all {
            for (sign, value) in [(0, value), (format.sign_bit(), -value)] {
                assert_eq!(format.decode(sign | code).to_bits(), value.to_bits());
                assert_eq!(format.encode(value, Round::Nearest, true), sign | code);
            }
        }
        for format in [E2M1, E2M3, E3M2] {
            let largest = format.max_finite;
            let made = |x: f64| format.encode(x, Round::Nearest, true);
            assert_eq!(made(f64::NAN), largest);
            assert_eq!(made(-f64::NAN), largest);
            assert_eq!(made(1e300), largest);
            assert_eq!(made(f64::NEG_INFINITY), format.sign_bit() | largest);
        }
    }

    /// Compares every bf16, and its neighbours in f32, with the powers of two themselves.
    #[test]
    fn every_scale_encloses_its_number() {
        for bits in (0..=0xffff_u32).flat_map(|b| [b << 16, b << 16 | 1, b << 16 | 0xffff]) {
            let x = f64::from(f32::from_bits(bits)).abs();
            for (up, saturate) in [(false, false), (false, true), (true, false), (true, true)] {
                let code = f32_to_ue8m0(bits, up, saturate);
                let want = match (x, up) {
                    (x, _) if x.is_nan() => 0xff,
                    (x, _) if x.is_infinite() => 0xff - u32::from(saturate),
                    (x, true) if x > pow2(127) => 0xff - u32::from(saturate),
                    (x, true) => (0..0xff).find(|c| ue8m0_to_f64(*c) >= x).unwrap(),
                    (x, false) => (0..0xff).rev().find(|c| ue8m0_to_f64(*c) <= x).unwrap_or(0),
                };
                assert_eq!(code, want, "{bits:08x} {up} {saturate}");
            }
        }
        for code in 0..=0xff_u32 {
            let (got, want) = (BF16.decode(ue8m0_to_bf16(code)), ue8m0_to_f64(code));
            assert!(got == want || got.is_nan() && want.is_nan(), "{code}");
        }
    }

    /// Compares with the nearest value by a search over every value of the format, ties to the even code.
    #[test]
    fn rounding_to_few_bits_is_nearest_even() {
        for format in [E4M3, E5M2, E2M3, E3M2, E2M1] {
            for i in 0..200_000_u32 {
                let x = f64::from(f32::from_bits(i.wrapping_mul(21473)));
                if x.is_nan() || x.abs() > format.decode(format.max_finite) {
                    continue;
                }
                let got = format.encode(x, Round::Nearest, true);
                let best = (0..=format.max_finite)
                    .min_by(|&a, &b| {
                        let far = |c: u32| (format.decode(c) - x.abs()).abs();
                        far(a).total_cmp(&far(b)).then((a & 1).cmp(&(b & 1)))
                    })
                    .unwrap();
                assert_eq!(got & (format.sign_bit() - 1), best, "{x:e}");
            }
        }
    }

    proptest! {
        #[test]
        fn f32_to_halves(bits in any::<u32>()) {
            let x = f32::from_bits(bits);
            if !x.is_nan() {
                prop_assert_eq!(f32_to_f16(x), u32::from(half::f16::from_f32(x).to_bits()));
                prop_assert_eq!(f32_to_bf16(x), u32::from(half::bf16::from_f32(x).to_bits()));
                prop_assert_eq!(F16.encode(f64::from(x), Round::Nearest, false), f32_to_f16(x));
                prop_assert_eq!(BF16.encode(f64::from(x), Round::Nearest, false), f32_to_bf16(x));
            }
        }

        #[test]
        fn directed_modes_enclose(x in -70000.0f64..70000.0) {
            let down = F16.decode(F16.encode(x, Round::Down, false));
            let up = F16.decode(F16.encode(x, Round::Up, false));
            let zero = F16.decode(F16.encode(x, Round::Zero, false));
            prop_assert!(down <= x && x <= up && zero.abs() <= x.abs());
            prop_assert!(zero == down || zero == up);
        }
    }
}
