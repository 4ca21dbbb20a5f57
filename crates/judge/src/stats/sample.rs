//! Measurements of one process. They are integers, so that a sum or an order never depends on rounding.

/// At least one integer measurement, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    sorted: Vec<u64>,
}

impl Sample {
    /// Returns `None` if there is no measurement.
    pub fn new(values: &[u64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        (!sorted.is_empty()).then_some(Self { sorted })
    }

    fn at(&self, index: usize) -> f64 {
        let last = self.sorted.len().saturating_sub(1);
        self.sorted
            .get(index.min(last))
            .map_or(f64::NAN, |&value| value as f64)
    }

    pub fn size(&self) -> usize {
        self.sorted.len()
    }

    /// Returns each value, in ascending order, with the number of times that it was measured.
    pub fn ties(&self) -> impl Iterator<Item = (u64, usize)> {
        let ties = self.sorted.chunk_by(|a, b| a == b);
        ties.filter_map(|tied| Some((*tied.first()?, tied.len())))
    }

    pub fn min(&self) -> f64 {
        self.at(0)
    }

    pub fn max(&self) -> f64 {
        self.at(usize::MAX)
    }

    /// Returns a quantile by type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages" (1996), which is the
    /// default of R and NumPy: linear between the order statistics around (n - 1) q. A `q` outside 0..=1 is clamped.
    pub fn quantile(&self, q: f64) -> f64 {
        let position = q.clamp(0.0, 1.0) * (self.sorted.len().saturating_sub(1)) as f64;
        let below = position.floor();
        let (low, high) = (self.at(below as usize), self.at(below as usize + 1));
        // Rounding of the product must not carry the result past the neighbour.
        (low + (high - low) * (position - below)).clamp(low, high)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn mean(&self) -> f64 {
        let sum: u128 = self.sorted.iter().copied().map(u128::from).sum();
        sum as f64 / self.sorted.len() as f64
    }

    /// Returns the standard deviation with n - 1 in the denominator, or `None` for a single measurement.
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean();
        let squares: f64 = self
            .sorted
            .iter()
            .map(|&value| (value as f64 - mean).powi(2))
            .sum();
        (self.sorted.len() > 1).then(|| (squares / (self.sorted.len() - 1) as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn agrees_with_numpy() {
        let sample = Sample::new(&[40, 10, 30, 20]).unwrap();
        assert_eq!(sample.median(), 25.0);
        assert!((sample.quantile(0.9) - 37.0).abs() < 1e-12);
        assert!((sample.quantile(0.99) - 39.7).abs() < 1e-12);
        assert_eq!(
            (sample.min(), sample.max(), sample.mean()),
            (10.0, 40.0, 25.0)
        );
        assert!((sample.deviation().unwrap() - 12.909944487358056).abs() < 1e-12);
    }

    #[test]
    fn nothing_and_one() {
        assert_eq!(Sample::new(&[]), None);
        let one = Sample::new(&[7]).unwrap();
        assert_eq!((one.quantile(0.99), one.deviation()), (7.0, None));
    }

    proptest! {
        #[test]
        fn order_does_not_matter(values in prop::collection::vec(any::<u64>(), 1..50), q in 0.0..=1.0) {
            let mut shuffled = values.clone();
            shuffled.reverse();
            shuffled.rotate_left(values.len() / 2);
            let (a, b) = (Sample::new(&values).unwrap(), Sample::new(&shuffled).unwrap());
            prop_assert_eq!(a.quantile(q), b.quantile(q));
            prop_assert_eq!(a.mean(), b.mean());
            prop_assert_eq!(a.deviation(), b.deviation());
        }

        #[test]
        fn quantiles_are_monotone_and_within_range(
            values in prop::collection::vec(any::<u64>(), 1..50), a in 0.0..=1.0, b in 0.0..=1.0,
        ) {
            let sample = Sample::new(&values).unwrap();
            let (low, high) = if a <= b { (a, b) } else { (b, a) };
            prop_assert!(sample.quantile(low) <= sample.quantile(high));
            prop_assert!(sample.min() <= sample.quantile(low));
            prop_assert!(sample.quantile(high) <= sample.max());
        }

        #[test]
        fn scaling_scales(values in prop::collection::vec(1u64..1_000_000, 2..50), k in 1u64..1000, q in 0.0..=1.0) {
            let scaled: Vec<u64> = values.iter().map(|value| value * k).collect();
            let (a, b) = (Sample::new(&values).unwrap(), Sample::new(&scaled).unwrap());
            let close = |x: f64, y: f64| (x - y).abs() <= 1e-9 * y.abs().max(1.0);
            prop_assert!(close(a.quantile(q) * k as f64, b.quantile(q)));
            prop_assert!(close(a.mean() * k as f64, b.mean()));
            prop_assert!(close(a.deviation().unwrap() * k as f64, b.deviation().unwrap()));
        }
    }
}
