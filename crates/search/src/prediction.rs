//! The prediction of a model for a configuration that nobody has tried.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prediction {
    pub mean: f64,
    /// The standard deviation: how unsure the model is. It is never 0.
    pub spread: f64,
}

impl Prediction {
    pub fn new(mean: f64, variance: f64) -> Self {
        Self {
            mean,
            spread: variance.sqrt().max(1e-4),
        }
    }

    /// Returns how far it is expected to be below the `least` so far, where one above counts as 0, if the error is normal.
    pub fn expected_improvement(self, least: f64) -> f64 {
        let Self { mean, spread } = self;
        let normal = Normal::standard();
        let gain = least - mean;
        let scaled = gain / spread;
        gain * normal.cdf(scaled) + spread * normal.pdf(scaled)
    }
}
