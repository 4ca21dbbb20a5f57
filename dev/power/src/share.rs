//! Counts a share and bounds it exactly.

use statrs::distribution::{Beta, ContinuousCDF};

/// A share that was counted: `hits` out of `of`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub hits: u64,
    pub of: u64,
}

impl Share {
    pub fn add(&mut self, hit: bool) {
        self.hits += u64::from(hit);
        self.of += 1;
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hits: self.hits + other.hits,
            of: self.of + other.of,
        }
    }

    /// Returns the share as a number, which is NaN if nothing was counted.
    pub fn rate(self) -> f64 {
        self.hits as f64 / self.of as f64
    }

    /// Returns the two-sided bounds of Clopper and Pearson (1934). They contain the true share with at least the
    /// probability `confidence`, whatever it is. If nothing was counted, they are 0 and 1.
    pub fn bounds(self, confidence: f64) -> [f64; 2] {
        let tail = (1.0 - confidence) / 2.0;
        let (hits, misses) = (self.hits as f64, self.of.saturating_sub(self.hits) as f64);
        let quantile = |a: f64, b: f64, p: f64, otherwise: f64| {
            Beta::new(a, b).map_or(otherwise, |beta| beta.inverse_cdf(p))
        };
        let lower = if hits > 0.0 {
            quantile(hits, misses + 1.0, tail, 0.0)
        } else {
            0.0
        };
        let upper = if misses > 0.0 {
            quantile(hits + 1.0, misses, 1.0 - tail, 1.0)
        } else {
            1.0
        };
        [lower, upper]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hits, total and 95 % bounds, which mpmath computed with 30 digits.
    const TABLE: [(u64, u64, [f64; 2]); 7] = [
        (0, 10, [0.0, 0.308497107819]),
        (3, 10, [0.0667395111777, 0.65245285006]),
        (10, 10, [0.691502892181, 1.0]),
        (0, 300, [0.0, 0.0122209746943]),
        (5, 4000, [0.000405992229968, 0.00291465217707]),
        (3990, 4000, [0.99540723232, 0.998800522108]),
        (40, 240_000, [0.000119071695962, 0.00022694585451]),
    ];

    #[test]
    fn clopper_and_pearson() {
        for (hits, of, [lower, upper]) in TABLE {
            let bounds = Share { hits, of }.bounds(0.95);
            assert!(
                (bounds[0] - lower).abs() <= 1e-9 * lower,
                "{hits} {of} {bounds:?}"
            );
            assert!(
                (bounds[1] - upper).abs() <= 1e-9 * upper,
                "{hits} {of} {bounds:?}"
            );
        }
    }

    #[test]
    fn nothing_says_nothing() {
        assert_eq!(Share::default().bounds(0.95), [0.0, 1.0]);
        assert!(Share::default().rate().is_nan());
    }
}
