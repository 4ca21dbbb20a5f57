//! The `.approx` functions (PTX ISA 9.7.3). The ISA gives bounds and no bits. The results here lie within half an ulp
//! and a little of the exact value in f32, and so inside every bound: 2 ulp for ex2, 1 ulp for rcp, 2^-22.9 relative
//! for rsqrt, 2^-22.6 for lg2, 2^-11 relative for tanh; and within 2^-20.5 absolute for sin and cos in [-pi, pi]. The
//! last bits of a GPU differ: CALIBRATION.md says by how much.
//!
//! Nothing calls the platform's mathematics library: only + - * / and square roots of f64, which IEEE 754 defines, so
//! the bits are the same on every machine.

/// Returns 2 to the power of `x`.
#[inline(always)]
pub fn ex2(x: f32) -> f32 {
    // Beyond these the result is 0 or infinity anyway; NaN stays NaN (`clamp` keeps it).
    let x = f64::from(x).clamp(-200.0, 200.0);
    // Adding 1.5 * 2^52 leaves the nearest integer in the low bits.
    const MAGIC: f64 = 6755399441055744.0;
    let shifted = x + MAGIC;
    let n = shifted - MAGIC;
    let f = x - n;
    let p = exp2_fraction(f);
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let result = (p * scale) as f32;
    if x.is_nan() { f32::NAN } else { result }
}

/// Returns 2^f for |f| <= 1/2, by the Taylor terms ln(2)^k / k!. The first one that is left out is 7e-12.
#[inline(always)]
fn exp2_fraction(f: f64) -> f64 {
    const C: [f64; 10] = [
        1.0,
        std::f64::consts::LN_2,
        0.240_226_506_959_100_7,
        0.055_504_108_664_821_58,
        0.009_618_129_107_628_477,
        0.001_333_355_814_642_844_3,
        1.540_353_039_338_161e-4,
        1.525_273_380_405_984e-5,
        1.321_548_679_014_431e-6,
        1.017_808_600_923_97e-7,
    ];
    let mut p = C[9];
    let mut k = 9;
    while k > 0 {
        k -= 1;
        p = p * f + C[k];
    }
    p
}

/// Returns the logarithm of `x` to base 2.
#[inline(always)]
pub fn lg2(x: f32) -> f32 {
    if x.is_nan() || x < 0.0 {
        return f32::NAN;
    }
    if x == 0.0 {
        return f32::NEG_INFINITY;
    }
    if x.is_infinite() {
        return x;
    }
    let bits = f64::from(x).to_bits();
    let mut exponent = ((bits >> 52) as i32) - 1023;
    let mut m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    // log2(m) = 2/ln2 * atanh(s), |s| <= 0.172
    let s = (m - 1.0) / (m + 1.0);
    let s2 = s * s;
    let mut p = 1.0 / 17.0;
    for k in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = p * s2 + 1.0 / k;
    }
    (f64::from(exponent) + 2.0 * std::f64::consts::LOG2_E * s * p) as f32
}

/// Returns the sine and the cosine of `x`. The argument becomes turns, rounded to f32 as on hardware: outside a few
/// turns its place within one is lost, and from 2^24 turns on it counts as a whole number of them.
fn sin_cos(x: f32) -> (f64, f64) {
    const TURNS_PER_RADIAN: f32 = f32::from_bits(0x3e22_f983);
    let turns = f64::from(x * TURNS_PER_RADIAN);
    if !turns.is_finite() {
        return (f64::NAN, f64::NAN);
    }
    let part = turns - turns.round_ties_even();
    let n = (part * 4.0).round_ties_even();
    let r = (part - n / 4.0) * std::f64::consts::TAU;
    let r2 = r * r;
    let (mut sin, mut cos) = (1.0, 1.0);
    // Horner form of the Taylor series, up to r^17 and r^16.
    for k in (1..=8).rev() {
        let k = f64::from(k);
        sin = 1.0 - sin * r2 / ((2.0 * k) * (2.0 * k + 1.0));
        cos = 1.0 - cos * r2 / ((2.0 * k - 1.0) * (2.0 * k));
    }
    let sin = sin * r;
    match (n.rem_euclid(4.0)) as u32 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Returns the sine of `x`, which keeps the sign of a zero.
pub fn sin(x: f32) -> f32 {
    // sin(-0) is -0, which the reduction loses.
    if x == 0.0 { x } else { sin_cos(x).0 as f32 }
}

/// Returns the cosine of `x`, an angle in radians.
pub fn cos(x: f32) -> f32 {
    sin_cos(x).1 as f32
}

/// Returns the hyperbolic tangent of `x`.
pub fn tanh(x: f32) -> f32 {
    if x.is_nan() {
        return x;
    }
    let wide = f64::from(x).clamp(-20.0, 20.0);
    if wide.abs() < 1e-4 {
        return (wide - wide * wide * wide / 3.0) as f32;
    }
    let y = 2.0 * std::f64::consts::LOG2_E * wide;
    let n = y.round_ties_even();
    let e = exp2_fraction(y - n) * f64::from_bits(((n as i64 + 1023) as u64) << 52);
    ((e - 1.0) / (e + 1.0)) as f32
}

/// Returns the reciprocal of the square root of `x`.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// Computes `rcp.approx.ftz.f64` or `rsqrt.approx.ftz.f64` (9.7.3.14 and 17), from the upper word of the operand to the
/// upper word of the result. Subnormal numbers are zeros. The result is rounded to nearest, as the ISA names no bound.
#[inline(always)]
pub fn gross(a: u64, of: impl Fn(f64) -> f64) -> u64 {
    let flushed = |bits: u64| {
        let zero = bits >> 52 & 0x7ff == 0;
        if zero { bits & 1 << 63 } else { bits }
    };
    let y = of(f64::from_bits(flushed(a & !0xffff_ffff)));
    if y.is_nan() {
        return 0x7fff_ffff << 32;
    }
    // Ties do not come up: the exact value has more bits, or none, below the upper word.
    flushed(y.to_bits().wrapping_add(1 << 31) & !0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, range: (f32, f32)) -> f64 {
        (0..=100_000)
            .map(|i| {
                let x = range.0 + (range.1 - range.0) * (i as f32 / 100_000.0);
                let e = exact(f64::from(x));
                ((f64::from(f(x)) - e) / e.abs().max(1e-3)).abs()
            })
            .fold(0.0, f64::max)
    }

    #[test]
    fn within_an_ulp() {
        let ulp = f64::from(f32::EPSILON);
        assert!(worst(ex2, f64::exp2, (-120.0, 120.0)) < 0.51 * ulp);
        assert!(worst(lg2, f64::log2, (1e-6, 10.0)) < 0.51 * ulp);
        for i in -100_000..=100_000 {
            let x = i as f32 * std::f32::consts::PI / 100_000.0;
            let exact = f64::from(x).sin_cos();
            let bound = 2.0_f64.powf(-20.5);
            assert!((f64::from(sin(x)) - exact.0).abs() < bound);
            assert!((f64::from(cos(x)) - exact.1).abs() < bound);
        }
        assert!(worst(tanh, f64::tanh, (-9.0, 9.0)) < 0.51 * ulp);
    }

    #[test]
    fn gross_results_have_an_upper_word_only() {
        let rcp = |x: f64| f64::from_bits(gross(x.to_bits(), |x| 1.0 / x));
        let rsqrt = |x: f64| f64::from_bits(gross(x.to_bits(), |x| 1.0 / x.sqrt()));
        assert_eq!((rcp(4.0), rsqrt(4.0)), (0.25, 0.5));
        assert_eq!(rcp(-0.0), f64::NEG_INFINITY);
        assert_eq!(rcp(f64::from_bits(1)), f64::INFINITY);
        assert_eq!(rcp(f64::NEG_INFINITY).to_bits(), 1 << 63);
        assert_eq!(rcp(1e308).to_bits(), 0);
        assert!(rsqrt(-1.0).is_nan() && rcp(f64::NAN).is_nan());
        assert_eq!(rsqrt(-0.0), f64::NEG_INFINITY);
        for i in 1..10_000 {
            let x = f64::from(i) * 0.37;
            let got = rcp(x);
            assert_eq!(got.to_bits() as u32, 0);
            // Half of the last of 20 bits of the result, and what the operand's lower word is.
            assert!((got * x - 1.0).abs() < 2.0_f64.powi(-19), "{x}");
        }
    }

    #[test]
    fn edges() {
        assert_eq!(ex2(f32::NEG_INFINITY), 0.0);
        assert_eq!(ex2(f32::INFINITY), f32::INFINITY);
        assert!(ex2(f32::NAN).is_nan());
        assert_eq!(ex2(-149.0), f32::from_bits(1));
        assert_eq!(
            (ex2(0.0), ex2(10.0), ex2(128.0)),
            (1.0, 1024.0, f32::INFINITY)
        );
        assert_eq!(lg2(0.0), f32::NEG_INFINITY);
        assert!(lg2(-1.0).is_nan());
        assert_eq!(lg2(8.0), 3.0);
        assert_eq!((sin(1e30), cos(-1e30)), (0.0, 1.0));
        assert!(sin(f32::INFINITY).is_nan());
        assert_eq!(sin(-0.0).to_bits(), (-0.0_f32).to_bits());
        assert_eq!(tanh(f32::INFINITY), 1.0);
    }
}
