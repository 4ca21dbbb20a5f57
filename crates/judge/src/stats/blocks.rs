//! Two sides in one process, from blocks of four samples: ABBA or BAAB.

/// ln(head / base) of one process, from that of its blocks of either order: the mean of the two medians. Where there is
/// one order alone, its median. `None` without blocks. Sorts both.
///
/// The first sample of a block follows a pause. It can take 1 % longer than the other three, and its side depends on the
/// order. Blocks of the two orders then lie around two centres, and a median of them all is near one of the two, by
/// chance. The true ratio is halfway between them.
pub fn ln_ratio(abba: &mut [f64], baab: &mut [f64]) -> Option<f64> {
    match (median(abba), median(baab)) {
        (Some(abba), Some(baab)) => Some((abba + baab) / 2.0),
        (one, other) => one.or(other),
    }
}

/// Median, with the mean of the middle two for an even number of values; sorts `values`.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let high = values.get(values.len() / 2)?;
    let low = values.get(values.len().checked_sub(1)? / 2)?;
    Some((low + high) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_order_is_enough_and_none_is_not() {
        assert_eq!(ln_ratio(&mut [0.3, 0.1, 0.2], &mut []), Some(0.2));
        assert_eq!(
            ln_ratio(&mut [], &mut [0.1, 0.2]),
            Some(0.15000000000000002)
        );
        assert_eq!(ln_ratio(&mut [], &mut []), None);
    }

    proptest! {
        /// However many blocks of each order were drawn.
        #[test]
        fn a_longer_first_sample_favours_no_side(
            noise in prop::collection::vec(-0.0005..0.0005f64, 2..30),
            split in 1usize..29,
            longer in 0.0..0.02f64,
            truth in -0.1..0.1f64,
        ) {
            let (first, second) = noise.split_at(split.min(noise.len() - 1));
            let shifted = |noise: &[f64], by: f64| noise.iter().map(|it| truth + by + it).collect::<Vec<_>>();
            let found = ln_ratio(&mut shifted(first, longer), &mut shifted(second, -longer));
            prop_assert!((found.unwrap() - truth).abs() <= 0.0005);
        }
    }
}
