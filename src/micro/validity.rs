//! How far a ranking goes with times: its rank correlation with what a search has measured. Pure.

use crate::tune::log::Event;
use crate::tune::outcome::{Evaluation, Outcome};
use search::Seed;
use std::collections::BTreeMap;

/// Names of the tile's macros in another kernel.
pub type Renames = BTreeMap<String, String>;

/// A configuration of a search, and its time to that of the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Timed {
    pub values: Seed,
    pub cost: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// Macros that both have.
    pub macros: Vec<String>,
    /// Their values that both have, each with the best of either side.
    pub count: usize,
    /// Spearman's: 1 is the same order, -1 the opposite one. `None` where a side has no order.
    pub correlation: Option<f64>,
    /// 95 %. `None` where there are too few for one.
    pub interval: Option<[f64; 2]>,
}

/// The evaluations of a search that have a time.
pub fn timed(events: impl IntoIterator<Item = Event>) -> Vec<Timed> {
    let timed = events.into_iter().filter_map(|event| match event {
        Event::Evaluated(Evaluation {
            values,
            outcome: Outcome::Timed(timed),
            ..
        }) => Some(Timed {
            values,
            cost: timed.cost,
        }),
        _ => None,
    });
    timed.collect()
}

/// With the macros' names in the other kernel.
pub fn renamed(values: &Seed, renames: &Renames) -> Seed {
    let name = |name: &String| renames.get(name).unwrap_or(name).clone();
    values
        .iter()
        .map(|(old, value)| (name(old), *value))
        .collect()
}

/// Both sides by the macros that they share, and of configurations that differ in others the best.
pub fn agree(ranked: &[(Seed, f64)], renames: &Renames, timed: &[Timed]) -> Agreement {
    let ours: Vec<(Seed, f64)> = ranked
        .iter()
        .map(|(values, cycles)| (renamed(values, renames), *cycles))
        .collect();
    let theirs: Vec<(Seed, f64)> = timed
        .iter()
        .map(|it| (it.values.clone(), it.cost))
        .collect();
    let macros: Vec<String> = match (ours.first(), theirs.first()) {
        (Some((ours, _)), Some((theirs, _))) => {
            let shared = ours.keys().filter(|name| theirs.contains_key(*name));
            shared.cloned().collect()
        }
        _ => Vec::new(),
    };
    let (ours, theirs) = (best_of(&ours, &macros), best_of(&theirs, &macros));
    let pairs: Vec<(f64, f64)> = ours
        .iter()
        .filter_map(|(values, cycles)| Some((*cycles, *theirs.get(values)?)))
        .collect();
    let correlation = match macros.is_empty() {
        true => None,
        false => spearman(&pairs),
    };
    Agreement {
        count: if macros.is_empty() { 0 } else { pairs.len() },
        macros,
        correlation,
        interval: correlation.and_then(|it| interval(it, pairs.len())),
    }
}

fn best_of(all: &[(Seed, f64)], macros: &[String]) -> BTreeMap<Vec<i64>, f64> {
    let mut best: BTreeMap<Vec<i64>, f64> = BTreeMap::new();
    for (values, cost) in all {
        let key: Option<Vec<i64>> = macros
            .iter()
            .map(|name| values.get(name).copied())
            .collect();
        let Some(key) = key else { continue };
        let kept = best.entry(key).or_insert(*cost);
        *kept = kept.min(*cost);
    }
    best
}

/// Pearson's correlation of the ranks; equal values share theirs. `None` where a side has no order.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    let left = ranks(pairs.iter().map(|it| it.0).collect());
    let right = ranks(pairs.iter().map(|it| it.1).collect());
    let mean = (pairs.len() as f64 + 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| -> f64 {
        let both = a.iter().zip(b);
        both.map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let scale = (sum(&left, &left) * sum(&right, &right)).sqrt();
    (scale > 0.0).then(|| sum(&left, &right) / scale)
}

/// From 1; the mean of their places for those that are equal.
fn ranks(values: Vec<f64>) -> Vec<f64> {
    let place = |value: &f64| {
        let below = values
            .iter()
            .filter(|it| it.total_cmp(value).is_lt())
            .count();
        let same = values
            .iter()
            .filter(|it| it.total_cmp(value).is_eq())
            .count();
        below as f64 + (same as f64 + 1.0) / 2.0
    };
    values.iter().map(place).collect()
}

/// Fisher's, with the variance of Bonett and Wright, "Sample size requirements for estimating Pearson, Kendall and
/// Spearman correlations" (2000).
fn interval(correlation: f64, count: usize) -> Option<[f64; 2]> {
    if count < 4 || correlation.abs() >= 1.0 {
        return None;
    }
    let deviation = ((1.0 + correlation * correlation / 2.0) / (count as f64 - 3.0)).sqrt();
    Some([-1.96, 1.96].map(|z| (correlation.atanh() + z * deviation).tanh()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R: cor(c(106, 86, 100, 101, 99, 103, 97, 113, 112, 110), c(7, 0, 27, 50, 28, 29, 20, 12, 6, 17),
    /// method = "spearman"), the example of Wikipedia, -0.1757575...
    #[test]
    fn the_correlation_is_spearmans() {
        let left = [106., 86., 100., 101., 99., 103., 97., 113., 112., 110.];
        let right = [7., 0., 27., 50., 28., 29., 20., 12., 6., 17.];
        let pairs: Vec<_> = left.into_iter().zip(right).collect();
        let found = spearman(&pairs).unwrap();
        assert!((found + 29.0 / 165.0).abs() < 1e-12, "{found}");
        // Ties share the mean of their places.
        assert_eq!(ranks(vec![3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
        assert_eq!(spearman(&[(1.0, 5.0), (2.0, 5.0)]), None);
        assert_eq!(spearman(&[]), None);
    }

    #[test]
    fn an_interval_needs_four_and_holds_the_correlation() {
        assert_eq!(interval(0.9, 3), None);
        assert_eq!(interval(1.0, 20), None);
        let [low, high] = interval(0.8, 20).unwrap();
        assert!(low < 0.8 && 0.8 < high && high < 1.0, "{low} {high}");
        assert!(low > interval(0.8, 10).unwrap()[0]);
    }
}
