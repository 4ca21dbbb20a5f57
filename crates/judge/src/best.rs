//! Finds the best level that the baselines of times kept up.

use model::*;
use std::collections::BTreeMap;

/// Returns the best level that each figure ever kept, from the versions of one baseline file, oldest first.
///
/// One lucky day makes no level. The level of two successive measurements is the worse of the two, and the best such
/// pair counts. A version that only took over other cases repeats the figure as it was, and counts once. Returns `None`
/// if no figure was measured twice.
pub fn best(versions: &[Baseline]) -> Option<Baseline> {
    let last = versions.last()?;
    let mut cases: BTreeMap<String, BTreeMap<Metric, Agreed>> = BTreeMap::new();
    for (shape, metrics) in &last.cases {
        for metric in metrics.keys() {
            let mut measured: Vec<&Agreed> = versions
                .iter()
                .filter_map(|version| version.cases.get(shape)?.get(metric))
                .collect();
            measured.dedup();
            if let Some(level) = level(*metric, &measured) {
                let case = cases.entry(shape.clone()).or_default();
                case.insert(*metric, level.clone());
            }
        }
    }
    (!cases.is_empty()).then(|| Baseline {
        cases,
        ..last.clone()
    })
}

fn level<'a>(metric: Metric, measured: &[&'a Agreed]) -> Option<&'a Agreed> {
    let worse = |a: &Agreed, b: &Agreed| {
        let order = a.value.0.total_cmp(&b.value.0);
        if metric.larger_is_better() {
            order.reverse()
        } else {
            order
        }
    };
    measured
        .iter()
        .zip(measured.iter().skip(1))
        .map(|(a, b)| if worse(a, b).is_gt() { *a } else { *b })
        .filter(|agreed| agreed.value.0.is_finite())
        .min_by(|a, b| worse(a, b))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::baselines;
    use super::*;

    /// Returns the best of the versions of a file that have these values of p50 at one shape.
    fn best_of(values: &[f64]) -> Option<f64> {
        let times = baselines().into_iter().find(|baseline| {
            let is_times = baseline.key.facet() == Facet::Times;
            is_times && baseline.variant == "fast"
        });
        let times = times.unwrap();
        let versions: Vec<_> = values
            .iter()
            .map(|value| {
                let mut version = times.clone();
                let agreed = version.cases.get_mut("small").unwrap();
                agreed.get_mut(&Metric::P50).unwrap().value = Num(*value);
                version
            })
            .collect();
        let best = best(&versions)?;
        // The other shape was never measured again.
        assert!(!best.cases.contains_key("large"));
        Some(best.cases.get("small")?.get(&Metric::P50)?.value.0)
    }

    #[test]
    fn the_best_level_needs_two_measurements_in_a_row() {
        assert_eq!(best_of(&[]), None);
        assert_eq!(best_of(&[100.0]), None);
        assert_eq!(best_of(&[100.0, 100.0]), None, "the same measurement");
        assert_eq!(best_of(&[100.0, 90.0]), Some(100.0));
        assert_eq!(best_of(&[100.0, 80.0, 100.0, 99.0]), Some(100.0));
        assert_eq!(best_of(&[100.0, 90.0, 91.0, 95.0, 99.0]), Some(91.0));
        assert_eq!(best_of(&[f64::NAN, 90.0, 91.0]), Some(91.0));
    }
}
