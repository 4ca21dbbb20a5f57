//! Adds up products as the tensor cores of sm_90 do: they align all terms to one exponent, cut them off there, and add
//! what is left as integers.
//!
//! The terms of a sum are the addend and the products that one instruction of the machine adds to it. The exponent of a
//! product is the sum of its factors' exponents, although the product of their fractions may lie one power of two
//! higher. Let `e` be the largest exponent of all terms. Each term is truncated towards zero to a multiple of 2^(e -
//! 25), and the truncated terms are added exactly. For example, 1, 2^-24, 2^-24 and 2^-26 have the sum 1 + 2^-23: the
//! last term is cut off. The result is then truncated once more, to f32 (`mma_run::cut`), or rounded to f16. A format's
//! smallest exponent stands for all of its subnormal numbers.
//!
//! No document says any of this. The 25 bits, the exponent that is a sum of two, and the truncation are the rule that
//! explains what hardware returned: `mma` in dev/proof computes 65,536 elements with each instruction on a GPU, of
//! normal deviates, wild exponents and arbitrary bits, and found no difference on an H100 and an H200 (CALIBRATION.md).
//! The rule is fitted to these two. A GPU of another generation may add otherwise.
//!
//! A sum of nothing but negative zeros is +0 on an H200 (measured on 2026-11-28, driver 580.159.04). The tensor cores
//! seem to add integers, which have no negative zero. Each way of adding up therefore ends with `+ 0.0`, which changes
//! no other sum.
//!
//! [`InDoubles`] works for all factors and on all processors. f64 has 53 bits, so that the truncated terms and their
//! sum are exact in it. `InSingles` in `mma_singles` gives the same bits in less than half the time, for factors of
//! middling size where the processor has AVX2.

#[cfg(target_arch = "x86_64")]
use crate::alu::has_v3;
use crate::isa::mma::STRIP;
use std::ops::Range;

/// The exponents and the bits that decide where products of two formats are cut off.
#[derive(Clone, Copy, Debug)]
pub struct Precision {
    /// The exponents of the smallest units of factors in A and B.
    pub least: [i32; 2],
    /// The number of bits that are kept below the largest exponent.
    pub kept: u32,
}

impl Precision {
    /// The precision of f16, and of fp8 in `mma.sync`, which computes it as f16.
    pub const OF_HALVES: Self = Precision {
        least: [-14; 2],
        kept: 25,
    };
    /// The precision of bf16 and tf32, which have the exponents of f32.
    pub const OF_SINGLES: Self = Precision {
        least: [-126; 2],
        kept: 25,
    };
}

/// The number of elements of the largest parts: 32 x 16 and 16 x 32. No part has 32 x 32.
pub const ROOM: usize = 512;

/// A number for each element of A, by rows, and of B, by rows within strips.
#[derive(Clone, Copy)]
pub struct Factors<'a, T> {
    pub a: &'a [T],
    pub b: &'a [[T; STRIP]],
}

/// A row of A, and a strip of B.
pub type Pair<'a, T> = (&'a [T], &'a [[T; STRIP]]);

impl<'a, T> Factors<'a, T> {
    /// Returns the factors of a row and of a strip for these columns of A.
    #[inline(always)]
    pub fn pair(
        self,
        row: usize,
        strip: usize,
        depth: usize,
        depths: &Range<usize>,
    ) -> Pair<'a, T> {
        (
            &self.a[row * depth..][depths.clone()],
            &self.b[strip * depth..][depths.clone()],
        )
    }
}

/// Numbers that are derived from factors once for all products of a tile.
pub struct Derived<T> {
    a: Vec<T>,
    b: Vec<[T; STRIP]>,
}

impl<T> Derived<T> {
    /// Derives a number from each factor of A, and from each of B.
    #[inline(always)]
    pub fn new<U: Copy>(from: Factors<U>, [of_a, of_b]: [impl Fn(U) -> T; 2]) -> Self {
        Derived {
            a: from.a.iter().map(|x| of_a(*x)).collect(),
            b: from.b.iter().map(|strip| strip.map(&of_b)).collect(),
        }
    }

    #[inline(always)]
    pub fn factors(&self) -> Factors<'_, T> {
        Factors {
            a: &self.a,
            b: &self.b,
        }
    }
}

/// Something that adds products of A and B.
pub trait Products {
    /// Adds the products of the columns `depths` of A to `sums`. A has `depth` columns, and the sums have `columns` and
    /// are not rounded.
    fn add_to(&self, sums: &mut [f64], columns: usize, depth: usize, depths: &Range<usize>);
}

/// Returns the power of two at or below `x`, but not below `least`, the smallest that the format's exponent can
/// express. Returns 0 for 0, and infinity for an infinity or a NaN.
#[inline(always)]
pub fn unit(x: f64, least: f64) -> f64 {
    let unit = f64::from_bits(x.to_bits() & 0x7ff << 52).max(least);
    if x == 0.0 { 0.0 } else { unit }
}

/// Returns true if a sum can be cut off: it is neither all zeros nor has infinities or NaNs, which follow IEEE 754.
#[inline(always)]
pub fn is_usual(largest: f64, sum: f64) -> bool {
    largest.is_finite() & (largest > 0.0) & !sum.is_nan()
}

/// A way to add products in f64, which takes factors of every format.
pub struct InDoubles {
    values: Derived<f64>,
    units: Derived<f64>,
    /// Two to the number of bits that are kept.
    below: f64,
}

impl InDoubles {
    /// Derives what the sums need from the factors.
    #[inline(always)]
    pub fn new(values: Factors<f32>, precision: Precision) -> InDoubles {
        let unit_of = precision.least.map(|n| {
            let least = f64::from_bits(((1023 + n) as u64) << 52);
            move |x| unit(f64::from(x), least)
        });
        InDoubles {
            values: Derived::new(values, [f64::from; 2]),
            units: Derived::new(values, unit_of),
            below: (1_u64 << precision.kept) as f64,
        }
    }
}

impl Products for InDoubles {
    #[inline(always)]
    fn add_to(&self, sums: &mut [f64], columns: usize, depth: usize, depths: &Range<usize>) {
        #[cfg(target_arch = "x86_64")]
        if has_v3() {
            // SAFETY: the processor has what it was compiled for.
            return unsafe { self.add_v3(sums, columns, depth, depths) };
        }
        self.add(sums, columns, depth, depths);
    }
}

impl InDoubles {
    /// Adds with AVX2, where cutting off is an instruction. Without it, `trunc` is a call.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,bmi2")]
    fn add_v3(&self, sums: &mut [f64], columns: usize, depth: usize, depths: &Range<usize>) {
        self.add(sums, columns, depth, depths);
    }

    #[inline(always)]
    fn add(&self, sums: &mut [f64], columns: usize, depth: usize, depths: &Range<usize>) {
        let (values, units) = (self.values.factors(), self.units.factors());
        for (row, sums) in sums.chunks_exact_mut(columns).enumerate() {
            for (strip, to) in sums.as_chunks_mut::<STRIP>().0.iter_mut().enumerate() {
                let values = values.pair(row, strip, depth, depths);
                let units = units.pair(row, strip, depth, depths);
                *to = add_doubles(*to, values, units, self.below);
            }
        }
    }
}

/// Adds the products of a row and a strip to eight sums. Scaling by `below / largest`, a power of two, puts the last
/// bit that is kept at 1, so that `trunc` cuts off the rest.
#[inline(always)]
fn add_doubles(to: [f64; STRIP], values: Pair<f64>, units: Pair<f64>, below: f64) -> [f64; STRIP] {
    const LEAST: f64 = f64::from_bits((1023 - 126) << 52);
    let mut largest = [0.0; STRIP];
    for l in 0..STRIP {
        largest[l] = unit(to[l], LEAST);
    }
    for (x, ys) in units.0.iter().zip(units.1) {
        for l in 0..STRIP {
            // An infinite factor makes it infinite or, with a zero, a NaN, which is dropped.
            let unit = x * ys[l];
            largest[l] = if unit > largest[l] { unit } else { largest[l] };
        }
    }
    let (mut scale, mut sum) = ([0.0; STRIP], [0.0; STRIP]);
    for l in 0..STRIP {
        scale[l] = below / largest[l];
        sum[l] = (to[l] * scale[l]).trunc();
    }
    for (x, ys) in values.0.iter().zip(values.1) {
        for l in 0..STRIP {
            sum[l] += (x * ys[l] * scale[l]).trunc();
        }
    }
    let (mut usual, mut result) = (true, [0.0; STRIP]);
    for l in 0..STRIP {
        result[l] = sum[l] / scale[l] + 0.0;
        usual &= is_usual(largest[l], sum[l]);
    }
    if !usual {
        for l in 0..STRIP {
            if !is_usual(largest[l], sum[l]) {
                result[l] = values
                    .0
                    .iter()
                    .zip(values.1)
                    .map(|(x, ys)| x * ys[l])
                    .fold(to[l], |s, t| s + t)
                    + 0.0;
            }
        }
    }
    result
}
