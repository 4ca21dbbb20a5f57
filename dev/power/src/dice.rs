//! Draws random numbers from a seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::f64::consts::TAU;

pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Starts a stream of a seed. Streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// Draws a number that is uniform in 0..1 and never equals either end.
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Draws a whole number that is uniform in 0..`of`.
    pub fn below(&mut self, of: usize) -> usize {
        // The product's high half: its bias is below of / 2^64.
        ((u128::from(self.0.next_u64()) * of as u128) >> 64) as usize
    }

    /// Draws a standard normal number, by the method of Box and Muller (1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_deviates_have_their_moments() {
        let mut dice = Dice::new(1, 0);
        let normal: Vec<f64> = (0..100_000).map(|_| dice.normal()).collect();
        let n = normal.len() as f64;
        let mean = normal.iter().sum::<f64>() / n;
        let squares: f64 = normal.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (n - 1.0)).sqrt();
        assert!(
            mean.abs() < 0.015 && (deviation - 1.0).abs() < 0.01,
            "{mean} {deviation}"
        );
        let inside = normal.iter().filter(|value| value.abs() < 1.959964).count();
        assert!((94_700..95_300).contains(&inside), "{inside}");
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |stream| Dice::new(3, stream).uniform();
        assert_eq!(first(0), first(0));
        assert_ne!(first(0), first(1));
        let mut dice = Dice::new(3, 0);
        assert!((0..1000).all(|_| dice.below(7) < 7));
    }
}
