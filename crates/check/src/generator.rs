//! Generates the inputs, under a name that stands for its exact bits: the same on every machine and for any number of
//! threads.
//!
//! The generator is ChaCha with 8 rounds (Bernstein 2008) in counter mode. The key comes from the seed and the tensor's
//! name, and element `i` takes its words from a position that depends on `i` alone. So variants and shapes of a kernel
//! get the same values in tensors of one name, and a longer tensor begins as a shorter one does. Transcendental
//! functions come from `libm`, because those of std differ between platforms in the last bits.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use std::collections::HashMap;

/// The name of the generator, which is part of every key and of every cached reference. A change of any bit that it
/// generates is a new version.
pub const GENERATOR: &str = "gatekeeper inputs/1: chacha8, box-muller in f64";

/// The number of elements that one task fills. It is even, because normal deviates come in pairs. The bits do not
/// depend on it.
const CHUNK: usize = 1 << 14;

pub struct Stream {
    key: [u8; 32],
}

impl Stream {
    pub fn new(seed: u64, tensor: &str) -> Self {
        let mut material = seed.to_le_bytes().to_vec();
        material.extend_from_slice(tensor.as_bytes());
        Self {
            key: blake3::derive_key(GENERATOR, &material),
        }
    }

    /// Returns a separate stream for another part of the same tensor.
    pub fn part(&self, name: &str) -> Self {
        let material = [&self.key[..], name.as_bytes()].concat();
        Self {
            key: blake3::derive_key(GENERATOR, &material),
        }
    }

    fn at(&self, word: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::from_seed(self.key);
        rng.set_word_pos(word as u128);
        rng
    }

    fn filled<T: Clone + Default + Send>(
        &self,
        len: usize,
        words_per_element: usize,
        fill: impl Fn(&mut ChaCha8Rng, &mut [T]) + Sync,
    ) -> Vec<T> {
        let mut values = vec![T::default(); len];
        values
            .par_chunks_mut(CHUNK)
            .enumerate()
            .for_each(|(chunk, values)| {
                fill(&mut self.at(chunk * CHUNK * words_per_element), values);
            });
        values
    }

    /// Draws normal deviates by the method of Box and Muller (1958), in f64 and rounded once. Elements 2i and 2i + 1
    /// come from words 2i and 2i + 1.
    pub fn normal(&self, mean: f64, std: f64, len: usize) -> Vec<f32> {
        self.filled(len, 1, |rng, values| {
            for pair in values.chunks_mut(2) {
                // The argument is never 0, so the logarithm is finite. The largest deviate is 6.8.
                let radius = (-2.0 * libm::log((f64::from(rng.next_u32()) + 0.5) * UNIT)).sqrt();
                let angle = std::f64::consts::TAU * (f64::from(rng.next_u32()) * UNIT);
                let (sin, cos) = libm::sincos(angle);
                for (value, deviate) in pair.iter_mut().zip([cos, sin]) {
                    *value = (mean + std * (radius * deviate)) as f32;
                }
            }
        })
    }

    /// Draws numbers in [low, high), which they do not leave by rounding to f32 either.
    pub fn uniform(&self, low: f64, high: f64, len: usize) -> Vec<f32> {
        let below = if f64::from(high as f32) < high {
            high as f32
        } else {
            (high as f32).next_down()
        };
        self.filled(len, 1, |rng, values| {
            for value in values {
                let drawn = low + (high - low) * (f64::from(rng.next_u32()) * UNIT);
                *value = (drawn as f32).min(below);
            }
        })
    }

    /// Draws integers in low..=high from two words each. They are uniform to within (high - low) / 2^64.
    pub fn integers(&self, low: i64, high: i64, len: usize) -> Vec<i64> {
        let count = high.abs_diff(low) as u128 + 1;
        self.filled(len, 2, |rng, values| {
            for value in values {
                *value = low.wrapping_add(scaled(rng, count) as i64);
            }
        })
    }

    /// Draws `len` distinct numbers of 0..pool in random order. It shuffles as Fisher and Yates do and keeps only what
    /// was swapped, so that a large pool costs nothing. `len` must not exceed `pool`.
    pub fn distinct(&self, pool: u64, len: usize) -> Vec<i64> {
        let mut rng = self.at(0);
        let mut swapped: HashMap<u64, u64> = HashMap::new();
        (0..len as u64)
            .map(|here| {
                let there = here + scaled(&mut rng, u128::from(pool - here));
                let taken = swapped.get(&there).copied().unwrap_or(there);
                let moved = swapped.get(&here).copied().unwrap_or(here);
                swapped.insert(there, moved);
                taken as i64
            })
            .collect()
    }

    /// Draws offsets from 0 to `total` in `parts` steps of at least `min`. `parts * min` must not exceed `total`.
    pub fn offsets(&self, total: i64, min: i64, parts: usize) -> Vec<i64> {
        let spare = total - min * parts as i64;
        let mut cuts = self.integers(0, spare, parts.saturating_sub(1));
        cuts.sort_unstable();
        let inner = cuts
            .into_iter()
            .enumerate()
            .map(|(part, cut)| cut + min * (part as i64 + 1));
        let last = (parts > 0).then_some(total);
        std::iter::once(0).chain(inner).chain(last).collect()
    }
}

/// The distance between neighbouring draws, which is 2^-32.
const UNIT: f64 = 1.0 / 4_294_967_296.0;

/// Draws a number in 0..count by multiplication, without rejection, so that it always takes the same number of words.
fn scaled(rng: &mut ChaCha8Rng, count: u128) -> u64 {
    ((u128::from(rng.next_u64()) * count) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// A change here changes the inputs of every earlier run, so it needs a new GENERATOR.
    #[test]
    fn golden_bits() {
        let stream = Stream::new(1, "q");
        insta::assert_snapshot!(
            format!("{:08x?}", bits(&stream.normal(0.0, 1.0, 6))), @"[3e737792, bef462f3, bef0c9f8, bd56b89d, 3f3be628, 3f7e8d68]");
        insta::assert_snapshot!(
            format!("{:08x?}", bits(&stream.uniform(-1.0, 1.0, 4))), @"[3f3c2444, 3f25a89f, 3f49c4c3, 3d10bbcc]");
        insta::assert_snapshot!(
            format!("{:?}", stream.integers(-5, 1_000_000_007, 4)), @"[823552120, 517667674, 148797032, 24152558]");
        insta::assert_snapshot!(
            format!("{:?}", stream.distinct(10, 10)), @"[8, 5, 3, 2, 4, 9, 6, 0, 7, 1]");
        insta::assert_snapshot!(
            format!("{:?}", stream.offsets(100, 3, 6)), @"[0, 5, 13, 21, 54, 83, 100]");
        let million = stream.normal(0.0, 1.0, 1 << 20);
        let mut hasher = blake3::Hasher::new();
        million.iter().for_each(|value| {
            hasher.update(&value.to_le_bytes());
        });
        insta::assert_snapshot!(
            hasher.finalize().to_hex().as_str(), @"eae0517c5eea2d882135d38d55947b4a29341844e6a00dba62dd22d539a2984c");
    }

    #[test]
    fn the_number_of_threads_and_the_chunks_do_not_show() {
        let len = 3 * CHUNK + 77;
        let fill = || {
            let stream = Stream::new(7, "x");
            (stream.normal(0.0, 1.0, len), stream.integers(-9, 9, len))
        };
        let want = fill();
        for threads in [1, 3, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            assert_eq!(pool.install(fill), want, "{threads} threads");
        }
        // This is one unbroken stream, as if there were no chunks.
        let stream = Stream::new(7, "x");
        let mut rng = stream.at(0);
        let whole: Vec<i64> = (0..len).map(|_| -9 + scaled(&mut rng, 19) as i64).collect();
        assert_eq!(whole, want.1);
        assert_eq!(stream.normal(0.0, 1.0, CHUNK + 5), want.0[..CHUNK + 5]);
    }

    #[test]
    fn seeds_and_names_give_different_values() {
        let first = Stream::new(1, "q").normal(0.0, 1.0, 64);
        assert_ne!(Stream::new(2, "q").normal(0.0, 1.0, 64), first);
        assert_ne!(Stream::new(1, "k").normal(0.0, 1.0, 64), first);
        assert_eq!(Stream::new(1, "q").normal(0.0, 1.0, 64), first);
    }

    /// Moments and tails of a million deviates, within five standard errors.
    #[test]
    fn normal_deviates_are_normal() {
        let values = Stream::new(3, "x").normal(0.0, 1.0, 1_000_000);
        let moment = |power: i32| {
            values
                .iter()
                .map(|&x| f64::from(x).powi(power))
                .sum::<f64>()
                / 1e6
        };
        for (power, want, variance) in
            [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)]
        {
            let error = (moment(power) - want).abs();
            assert!(
                error < 5.0 * f64::sqrt(variance / 1e6),
                "moment {power} is off by {error}"
            );
        }
        let beyond = values.iter().filter(|x| x.abs() > 1.959_964).count() as f64 / 1e6;
        assert!((beyond - 0.05).abs() < 5.0 * f64::sqrt(0.05 * 0.95 / 1e6));
        // Neighbours, which Box and Muller make together, are uncorrelated.
        let product = values
            .chunks_exact(2)
            .map(|pair| f64::from(pair[0] * pair[1]))
            .sum::<f64>()
            / 5e5;
        assert!(product.abs() < 5.0 / f64::sqrt(5e5));
    }

    proptest! {
        #[test]
        fn uniform_is_half_open(seed: u64, low in -1e6..1e6f64, width in 1e-9..1e3f64) {
            let high = low + width;
            prop_assume!(f64::from((high as f32).next_down()) >= low);
            for value in Stream::new(seed, "x").uniform(low, high, 100) {
                prop_assert!(f64::from(value) < high);
                prop_assert!(value >= low as f32);
            }
        }

        #[test]
        fn integers_stay_in_range(seed: u64, a: i64, b: i64) {
            let (low, high) = (a.min(b), a.max(b));
            for value in Stream::new(seed, "x").integers(low, high, 50) {
                prop_assert!((low..=high).contains(&value));
            }
        }

        #[test]
        fn distinct_numbers_are_distinct(seed: u64, len in 0usize..60, extra in 0u64..1_000_000) {
            let pool = len as u64 + extra;
            let mut numbers = Stream::new(seed, "x").distinct(pool, len);
            prop_assert!(numbers.iter().all(|&n| n >= 0 && (n as u64) < pool));
            numbers.sort_unstable();
            numbers.dedup();
            prop_assert_eq!(numbers.len(), len);
        }

        #[test]
        fn offsets_hold_their_minimum(seed: u64, parts in 1usize..40, min in 0i64..5, spare in 0i64..500) {
            let total = min * parts as i64 + spare;
            let offsets = Stream::new(seed, "x").offsets(total, min, parts);
            prop_assert_eq!(offsets.len(), parts + 1);
            prop_assert_eq!((offsets[0], offsets[parts]), (0, total));
            prop_assert!(offsets.windows(2).all(|pair| pair[1] - pair[0] >= min));
        }
    }
}
