//! Adds up products as `mma_sums` defines it, for factors of at most 11 significant bits (all formats but f32 and f64)
//! that are neither very large nor very small.
//!
//! Their products have at most 22 bits and are exact in f32. They are scaled so that the bits to be kept lie before the
//! point, and then fit an i32. A vector therefore holds eight products instead of four, and one instruction cuts off
//! the rest of each. The test compares the results with those of `InDoubles`, bit for bit.

use super::mma_sums::*;
use crate::isa::mma::STRIP;
use std::arch::x86_64::*;
use std::ops::Range;

/// The smallest magnitude of a factor that is not 0. The largest is less than the reciprocal. Products then lie where
/// f32 has all of its bits, and so do the scales. All numbers of f16 and fp8 are in between.
const SMALLEST: f32 = f32::from_bits((127 - 40) << 23);

/// A way to add products in f32 and i32. It can only be made on processors with AVX2.
pub struct InSingles<'a> {
    values: Factors<'a, f32>,
    units: Derived<f32>,
    /// Two to the number of bits that are kept.
    below: f32,
}

impl<'a> InSingles<'a> {
    /// Returns `None` if a factor is not finite, too large or too small.
    #[target_feature(enable = "avx2,fma,bmi2")]
    pub fn new(values: Factors<'a, f32>, precision: Precision) -> Option<InSingles<'a>> {
        let unit_of = precision.least.map(|exponent| {
            let least = f32::from_bits(((127 + exponent) as u32) << 23);
            move |x| unit_of_single(x, least)
        });
        let all = values.a.iter().chain(values.b.as_flattened());
        let fits = all.fold(true, |fit, x| {
            let is_between = (x.abs() >= SMALLEST) & (x.abs() < 1.0 / SMALLEST);
            fit & (is_between | (*x == 0.0))
        });
        fits.then(|| InSingles {
            values,
            units: Derived::new(values, unit_of),
            below: (1_u32 << precision.kept) as f32,
        })
    }
}

impl Products for InSingles<'_> {
    #[inline(always)]
    fn add_to(&self, sums: &mut [f64], columns: usize, depth: usize, depths: &Range<usize>) {
        // SAFETY: whoever made `self` had what the function was compiled for.
        unsafe { self.add(sums, columns, depth, depths) }
    }
}

/// Returns what [`unit`] returns, for an f32 and its exponent.
#[inline(always)]
fn unit_of_single(x: f32, least: f32) -> f32 {
    let unit = f32::from_bits(x.to_bits() & 0xff << 23).max(least);
    if x == 0.0 { 0.0 } else { unit }
}

#[target_feature(enable = "avx2")]
#[inline]
fn vector(x: [f32; STRIP]) -> __m256 {
    // SAFETY: 32 bytes without padding in which every bit pattern is a value.
    unsafe { std::mem::transmute(x) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn singles(x: __m256) -> [f32; STRIP] {
    // SAFETY: as above.
    unsafe { std::mem::transmute(x) }
}

#[target_feature(enable = "avx2")]
#[inline]
fn integers(x: __m256i) -> [i32; STRIP] {
    // SAFETY: as above.
    unsafe { std::mem::transmute(x) }
}

impl InSingles<'_> {
    /// Adds to sums that f32 can hold.
    ///
    /// The integers do not overflow. There are at most 16 columns of A of 16 bits or more: that many products, each
    /// smaller than four times the largest unit and cut off 25 bits below it, stay below 2^31. `wgmma` adds 32 products
    /// of fp8 at once, but keeps 13 bits of them.
    #[target_feature(enable = "avx2,fma,bmi2")]
    fn add(&self, sums: &mut [f64], columns: usize, depth: usize, depths: &Range<usize>) {
        let (values, units) = (self.values, self.units.factors());
        for (row, sums) in sums.chunks_exact_mut(columns).enumerate() {
            for (strip, to) in sums.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
                let values = values.pair(row, strip, depth, depths);
                let units = units.pair(row, strip, depth, depths);
                *to = add_halves(*to, values, units, self.below);
            }
        }
    }
}

#[target_feature(enable = "avx2,fma,bmi2")]
#[inline]
fn add_halves(to: [f64; STRIP], values: Pair<f32>, units: Pair<f32>, below: f32) -> [f64; STRIP] {
    let (mut addend, mut addend_unit) = ([0.0; STRIP], [0.0; STRIP]);
    for l in 0..STRIP {
        addend[l] = to[l] as f32;
        addend_unit[l] = unit_of_single(addend[l], f32::MIN_POSITIVE);
    }
    let mut largest = vector(addend_unit);
    for (x, ys) in units.0.iter().zip(units.1) {
        let unit = _mm256_mul_ps(_mm256_set1_ps(*x), vector(*ys));
        largest = _mm256_max_ps(unit, largest);
    }
    let scale = _mm256_div_ps(_mm256_set1_ps(below), largest);
    let kept = integers(_mm256_cvttps_epi32(_mm256_mul_ps(vector(addend), scale)));
    let mut sum = _mm256_setzero_si256();
    for (x, ys) in values.0.iter().zip(values.1) {
        // This is exact, because the product has 22 bits and the scale is a power of two.
        let product = _mm256_mul_ps(_mm256_set1_ps(*x), vector(*ys));
        let term = _mm256_cvttps_epi32(_mm256_mul_ps(product, scale));
        sum = _mm256_add_epi32(sum, term);
    }
    let (largest, sum) = (singles(largest), integers(sum));
    // A product that is not 0 has a unit of at least 2^-80. If all products are 0, the scale may be infinite.
    let usual = |largest: f32| (1e-30..=f32::MAX).contains(&largest);
    let (mut all_usual, mut result) = (true, [0.0; STRIP]);
    for l in 0..STRIP {
        let all = f64::from(sum[l]) + f64::from(kept[l]);
        result[l] = all * (f64::from(largest[l]) * f64::from(1.0 / below));
        all_usual &= usual(largest[l]);
    }
    if !all_usual {
        for l in (0..STRIP).filter(|&l| !usual(largest[l])) {
            // If the largest unit is this small, all products are 0, and only the addend is cut off.
            let scale = f64::from(below) / f64::from(largest[l]);
            let addend = if scale.is_finite() && scale > 0.0 {
                (to[l] * scale).trunc() / scale
            } else {
                to[l]
            };
            result[l] = values
                .0
                .iter()
                .zip(values.1)
                .map(|(x, ys)| f64::from(x * ys[l]))
                .fold(addend, |s, t| s + t)
                + 0.0;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alu::has_v3;
    use crate::num::narrow::f16_to_f32;
    use proptest::prelude::*;

    /// Draws factors that are mostly of similar size, so that little is cut off, with some zeros and subnormals, and a few
    /// that are not finite.
    fn half() -> impl Strategy<Value = f32> {
        let bits = prop_oneof![
            20 => 0x3000..0x4400_u32,
            20 => 0xb000..0xc400_u32,
            5 => 0..0x7c00_u32,
            5 => 0x8000..0xfc00_u32,
            1 => prop::sample::select(vec![0_u32, 0x8000, 1, 0x83ff, 0x7bff, 0xfbff]),
        ];
        bits.prop_map(f16_to_f32)
    }

    /// Draws numbers of tf32 that are neither too large nor too small.
    fn single() -> impl Strategy<Value = f32> {
        let bits = (any::<u32>(), 127 - 40..127 + 40_u32);
        let some = bits.prop_map(|(bits, exponent)| bits & 0x807f_e000 | exponent << 23);
        prop_oneof![5 => some.prop_map(f32::from_bits), 5 => half()]
    }

    fn addend() -> impl Strategy<Value = f32> {
        let special = vec![
            0,
            1 << 31,
            1,
            0x7f7f_ffff,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x0d00_0000,
        ];
        prop_oneof![
            10 => -64.0..64.0_f32,
            3 => any::<u32>().prop_map(f32::from_bits),
            1 => prop::sample::select(special).prop_map(f32::from_bits),
        ]
    }

    /// Takes the first half of the numbers as A, and the second half as B.
    fn factors(some: &[f32]) -> Factors<'_, f32> {
        let (a, b) = some.split_at(some.len() / 2);
        Factors {
            a,
            b: b.as_chunks().0,
        }
    }

    proptest! {
        /// Compares each sum with that of the definition, bit for bit.
        #[test]
        fn the_same_bits_as_in_doubles(
            halves in prop::collection::vec(half(), 512),
            singles in prop::collection::vec(single(), 512),
            addends in prop::collection::vec(addend(), 256),
            (columns, depths) in prop::sample::select(vec![(8, 0..16), (16, 0..16), (16, 4..12)]),
            zeros in prop::bool::weighted(0.1),
            kept in prop::sample::select(vec![25, 13]),
            is_half in any::<bool>(),
        ) {
            let (some, precision) = if is_half {
                (halves, Precision { kept, ..Precision::OF_HALVES })
            } else {
                (singles, Precision::OF_SINGLES)
            };
            let some: Vec<f32> = some.iter().map(|x| if zeros { 0.0 * x } else { *x }).collect();
            let values = factors(&some);
            if has_v3() {
                // SAFETY: the processor has what it was compiled for.
                let halves = unsafe { InSingles::new(values, precision) };
                let halves = halves.expect("all fit");
                let addends = addends.iter().take(16 * columns);
                let mut sums: Vec<f64> = addends.map(|c| f64::from(*c)).collect();
                let mut expected = sums.clone();
                halves.add_to(&mut sums, columns, 16, &depths);
                InDoubles::new(values, precision).add_to(&mut expected, columns, 16, &depths);
                for (sum, expected) in sums.iter().zip(&expected) {
                    let both_nan = sum.is_nan() && expected.is_nan();
                    prop_assert!(both_nan || sum.to_bits() == expected.to_bits(), "{sum:e} {expected:e}");
                }
            }
        }
    }

    #[test]
    fn largest_products_of_one_sign_do_not_overflow() {
        if !has_v3() {
            return;
        }
        let some = [f16_to_f32(0x7bff); 512];
        let values = factors(&some);
        // SAFETY: as above.
        let halves = unsafe { InSingles::new(values, Precision::OF_HALVES) };
        let halves = halves.expect("all fit");
        let mut sums = [f64::from(f32::from_bits(0x4eff_ffff)); 8];
        let mut expected = sums;
        halves.add_to(&mut sums, 8, 16, &(0..16));
        InDoubles::new(values, Precision::OF_HALVES).add_to(&mut expected, 8, 16, &(0..16));
        assert_eq!(sums, expected);
    }

    #[test]
    fn factors_that_are_too_large_or_too_small_are_not_for_it() {
        for factor in [f32::INFINITY, f32::NAN, -1.0 / SMALLEST, SMALLEST / 2.0] {
            let mut some = [1.0; 512];
            some[256 + 17] = factor;
            if has_v3() {
                // SAFETY: as above.
                let halves = unsafe { InSingles::new(factors(&some), Precision::OF_HALVES) };
                assert!(halves.is_none());
            }
        }
    }
}
