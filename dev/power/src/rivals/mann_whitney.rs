//! Mann and Whitney (1947): do two samples come from one distribution?

use statrs::distribution::{ContinuousCDF, Normal};

/// Two-sided p value by the normal approximation with continuity correction, ties given their mean rank
/// and taken out of the variance (Lehmann, "Nonparametrics", 1975, section 1.4). Both in ascending order.
/// 1 where all values are equal or a side is empty.
pub(super) fn p_value(a: &[f64], b: &[f64]) -> f64 {
    let (na, nb) = (a.len() as f64, b.len() as f64);
    let n = na + nb;
    let (mut i, mut j) = (0, 0);
    let (mut rank_sum, mut ties) = (0.0, 0.0);
    while let Some(value) = least(a.get(i), b.get(j)) {
        let count = |side: &[f64], from: usize| {
            side.iter()
                .skip(from)
                .take_while(|&&other| other == value)
                .count()
        };
        let (of_a, of_b) = (count(a, i), count(b, j));
        let tied = (of_a + of_b) as f64;
        rank_sum += of_a as f64 * ((i + j) as f64 + (tied + 1.0) / 2.0);
        ties += tied.powi(3) - tied;
        (i, j) = (i + of_a, j + of_b);
    }
    let u = rank_sum - na * (na + 1.0) / 2.0;
    let variance = na * nb / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    if variance.is_nan() || variance <= 0.0 {
        return 1.0;
    }
    let z = ((u - na * nb / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    2.0 * Normal::standard().sf(z)
}

fn least(a: Option<&f64>, b: Option<&f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(*b)),
        (one, other) => one.or(other).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn agrees_with_scipy() {
        // scipy.stats.mannwhitneyu, method="asymptotic".
        let cases: [(&[u16], &[u16], f64); 4] = [
            (
                &[133, 243, 378, 557, 606],
                &[67, 485, 594, 618, 640, 937],
                0.23533326650958586,
            ),
            (
                &[0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 6, 6, 6],
                &[0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 6, 6, 6, 6],
                0.9890701271060336,
            ),
            (
                &[
                    1, 2, 6, 8, 8, 13, 14, 16, 17, 19, 21, 22, 23, 24, 24, 25, 26, 26, 27, 27, 28,
                    31, 32, 34, 36, 36, 37, 37, 38, 40,
                ],
                &[6, 10, 13, 20, 34, 36, 36, 38],
                0.8718621647038342,
            ),
            (
                &[5, 5, 5, 5, 6, 7, 7, 7, 8, 8, 8, 9],
                &[8, 8, 8, 8, 10, 10, 11, 11, 11, 12, 12, 12],
                0.00030232353861315853,
            ),
        ];
        for (a, b, p) in cases {
            let [a, b] = [a, b].map(|side| side.iter().copied().map(f64::from).collect::<Vec<_>>());
            assert!((p_value(&a, &b) / p - 1.0).abs() < 1e-9, "{p}");
        }
    }

    #[test]
    fn one_value_everywhere_differs_in_nothing() {
        assert_eq!(p_value(&[5.0; 9], &[5.0; 7]), 1.0);
        assert_eq!(p_value(&[], &[5.0; 7]), 1.0);
    }

    proptest! {
        #[test]
        fn the_sides_are_alike(mut a in prop::collection::vec(0u8..20, 1..30), mut b in prop::collection::vec(0u8..20, 1..30)) {
            a.sort_unstable();
            b.sort_unstable();
            let [a, b] = [a, b].map(|side| side.into_iter().map(f64::from).collect::<Vec<_>>());
            let p = p_value(&a, &b);
            prop_assert!((0.0..=1.0).contains(&p));
            prop_assert!((p - p_value(&b, &a)).abs() < 1e-12);
        }
    }
}
