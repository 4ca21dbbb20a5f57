//! The two comparers of NVBench (<https://github.com/NVIDIA/nvbench>), from what they compute:
//! `python/scripts/nvbench_compare_robust.py` at commit 0a2f954b9e99ff242b7275ef539759870a24faaf and
//! `python/scripts/nvbench_compare_legacy.py` at 0f6e712b8f1620918a86619817795008384ad9a8, functions
//! `compare_gpu_timings`. A test compares with the verdicts of the scripts themselves.

use super::{Call, Half};

/// Fewer samples have no noise: `min_samples_for_noise_estimate` of nvbench/detail/statistics.cuh.
pub(super) const LEAST_SAMPLES: usize = 5;

/// `ComparisonThresholds` of the robust comparer, all shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    pub clear_gap: f64,
    pub same_center: f64,
    pub same_overlap: f64,
    pub same_dispersion: f64,
    pub sample_coverage: f64,
    pub support_coverage: f64,
    pub rare_sample: f64,
    pub most_removed: f64,
}

impl Thresholds {
    /// The preset `default`.
    pub const DEFAULT: Self = Self {
        clear_gap: 0.005,
        same_center: 0.005,
        same_overlap: 0.5,
        same_dispersion: 0.02,
        sample_coverage: 0.97,
        support_coverage: 0.80,
        rare_sample: 0.001,
        most_removed: 0.01,
    };

    /// The preset `strict`.
    pub const STRICT: Self = Self {
        clear_gap: 0.01,
        same_center: 0.0025,
        same_overlap: 0.75,
        same_dispersion: 0.01,
        sample_coverage: 0.995,
        support_coverage: 0.90,
        rare_sample: 0.001,
        most_removed: 0.005,
    };

    /// The preset `permissive`.
    pub const PERMISSIVE: Self = Self {
        clear_gap: 0.0025,
        same_center: 0.01,
        same_overlap: 0.25,
        same_dispersion: 0.05,
        sample_coverage: 0.90,
        support_coverage: 0.60,
        rare_sample: 0.001,
        most_removed: 0.02,
    };
}

/// The two means against the smaller noise.
pub(super) fn legacy(noise_factor: f64, base: &Half, head: &Half) -> Call {
    let (Some(a), Some(b)) = (base.relative_deviation, head.relative_deviation) else {
        return Call::Open;
    };
    let difference = (head.mean - base.mean) / base.mean;
    if difference > noise_factor * a.min(b) {
        Call::Slower
    } else {
        Call::Clear
    }
}

/// From the least sample to the third quartile, around the median.
#[derive(Clone, Copy)]
struct Interval {
    lower: f64,
    center: f64,
    upper: f64,
    /// Quartile range over median.
    dispersion: f64,
}

impl Interval {
    fn of(sorted: &[f64]) -> Option<Self> {
        // Rank round(p (n - 1)), halves up.
        let rank = |percent: usize| (percent * (sorted.len() - 1) + 50) / 100;
        let at = |percent: usize| sorted.get(rank(percent)).copied();
        let (&lower, center, upper) = (sorted.first()?, at(50)?, at(75)?);
        Some(Self {
            lower,
            center,
            upper,
            dispersion: (upper - at(25)?) / center,
        })
    }

    fn scaled(self, by: f64) -> Self {
        Self {
            lower: self.lower * by,
            center: self.center * by,
            upper: self.upper * by,
            dispersion: self.dispersion,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    Slower,
    Faster,
}

pub(super) fn robust(thresholds: &Thresholds, bulk: bool, base: &Half, head: &Half) -> Call {
    let (Some(a), Some(b)) = (Interval::of(&base.times), Interval::of(&head.times)) else {
        return Call::Open;
    };
    let clocks = base.mean_clock.zip(head.mean_clock);
    let cycles = || {
        let (clock_a, clock_b) = clocks?;
        if bulk {
            Interval::of(&base.cycles).zip(Interval::of(&head.cycles))
        } else {
            Some((a.scaled(clock_a), b.scaled(clock_b)))
        }
    };
    if let Some(found) = gap(thresholds, &a, &b) {
        // A gap in time counts only where it is one in cycles as well.
        let confirmed = cycles().and_then(|(a, b)| gap(thresholds, &a, &b)) == Some(found);
        return match (confirmed, found) {
            (true, Gap::Slower) => Call::Slower,
            (true, Gap::Faster) => Call::Clear,
            (false, _) => Call::Open,
        };
    }
    let enough = base.times.len().min(head.times.len()) >= LEAST_SAMPLES;
    let same = enough
        && alike(thresholds, &a, &b)
        && if bulk {
            covered(thresholds, &base.times, &head.times)
                && (clocks.is_none() || covered(thresholds, &base.cycles, &head.cycles))
        } else {
            a.dispersion.max(b.dispersion) <= thresholds.same_dispersion
                && cycles().is_none_or(|(a, b)| alike(thresholds, &a, &b))
        };
    if same { Call::Clear } else { Call::Open }
}

/// `compare_intervals_for_clear_gap`
fn gap(thresholds: &Thresholds, base: &Interval, head: &Interval) -> Option<Gap> {
    // Positive where the intervals are apart.
    let beyond = |low: &Interval, high: &Interval| {
        high.lower > low.upper
            && (high.lower - low.upper) / high.lower.min(low.upper) >= thresholds.clear_gap
    };
    if beyond(head, base) {
        Some(Gap::Faster)
    } else if beyond(base, head) {
        Some(Gap::Slower)
    } else {
        None
    }
}

/// `compare_intervals_for_same`
fn alike(thresholds: &Thresholds, a: &Interval, b: &Interval) -> bool {
    let apart = (a.center - b.center).abs() / a.center.min(b.center);
    apart <= thresholds.same_center && overlap(a, b) >= thresholds.same_overlap
}

/// The overlap as a share of the narrower interval; one of no width lies within the other or does not.
fn overlap(a: &Interval, b: &Interval) -> f64 {
    let (lower, upper) = (a.lower.max(b.lower), a.upper.min(b.upper));
    if upper < lower {
        return 0.0;
    }
    let width = (a.upper - a.lower).min(b.upper - b.lower);
    if width > 0.0 {
        (upper - lower) / width
    } else {
        1.0
    }
}

/// `compare_values_for_bulk_same`: whether nearly every sample of either side, and nearly every value
/// that is not rare, has a neighbour within `same_center` on the other side.
fn covered(thresholds: &Thresholds, base: &[f64], head: &[f64]) -> bool {
    let (base, head) = (counted(base), counted(head));
    [(&base, &head), (&head, &base)]
        .into_iter()
        .all(|(of, by)| {
            let (samples, support) = coverage(thresholds, of, by);
            samples >= thresholds.sample_coverage && support >= thresholds.support_coverage
        })
}

/// Distinct values, as logarithms, with how often each comes.
fn counted(sorted: &[f64]) -> Vec<(f64, f64)> {
    sorted
        .chunk_by(|a, b| a == b)
        .filter_map(|equal| Some((equal.first()?.ln(), equal.len() as f64)))
        .collect()
}

/// Share of the samples, and of the values, of `of` that have a neighbour in `by`.
fn coverage(thresholds: &Thresholds, of: &[(f64, f64)], by: &[(f64, f64)]) -> (f64, f64) {
    let tolerance = thresholds.same_center.ln_1p();
    let total: f64 = of.iter().map(|&(_, count)| count).sum();
    let least = least_count(thresholds, of, total);
    let mut after = by.iter().peekable();
    let mut before = f64::NEG_INFINITY;
    let (mut samples, mut values, mut supported) = (0.0, 0.0, 0.0);
    for &(value, count) in of {
        while let Some(&(neighbour, _)) = after.next_if(|&&(neighbour, _)| neighbour < value) {
            before = neighbour;
        }
        let behind = after
            .peek()
            .map_or(f64::INFINITY, |&&(neighbour, _)| neighbour);
        let near = (value - before).min(behind - value) <= tolerance;
        samples += if near { count } else { 0.0 };
        if count >= least {
            values += 1.0;
            supported += f64::from(u8::from(near));
        }
    }
    (samples / total, supported / values)
}

/// `compute_effective_support_mask`: rarer values than this are left out of the support, unless they are
/// all there is or hold too much of the samples.
fn least_count(thresholds: &Thresholds, of: &[(f64, f64)], total: f64) -> f64 {
    let least = (thresholds.rare_sample * total).ceil().max(2.0);
    let removed: f64 = of
        .iter()
        .map(|&(_, count)| count)
        .filter(|&count| count < least)
        .sum();
    if removed >= total || removed / total > thresholds.most_removed {
        0.0
    } else {
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct Case {
        base: Vec<f64>,
        head: Vec<f64>,
        base_mhz: Option<Vec<f64>>,
        head_mhz: Option<Vec<f64>>,
        /// The verdicts of the presets default, strict and permissive with the samples, and of default with summaries.
        verdicts: [Verdict; 4],
    }

    #[derive(Clone, Copy, Deserialize, PartialEq)]
    #[serde(rename_all = "UPPERCASE")]
    enum Verdict {
        Ambg,
        Same,
        Fast,
        Slow,
    }

    fn half(ns: &[f64], clocks: Option<&Vec<f64>>) -> Half {
        let clock = |index: usize| clocks.and_then(|clocks| clocks.get(index)).copied();
        let samples: Vec<_> = ns
            .iter()
            .enumerate()
            .map(|(i, &ns)| (ns, clock(i)))
            .collect();
        Half::of(&samples).unwrap()
    }

    /// Verdicts of `compare_gpu_timings` of the script as cuda-bench 0.3.0 packs it, on seeded samples.
    #[test]
    fn agrees_with_nvbench() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("nvbench_verdicts.json")).unwrap();
        assert!(cases.len() >= 40);
        let (default, strict) = (Thresholds::DEFAULT, Thresholds::STRICT);
        let settings = [
            (default, true),
            (strict, true),
            (Thresholds::PERMISSIVE, true),
            (default, false),
        ];
        for (index, case) in cases.iter().enumerate() {
            let base = half(&case.base, case.base_mhz.as_ref());
            let head = half(&case.head, case.head_mhz.as_ref());
            for ((thresholds, bulk), verdict) in settings.iter().zip(case.verdicts) {
                let expected = match verdict {
                    Verdict::Ambg => Call::Open,
                    Verdict::Slow => Call::Slower,
                    Verdict::Same | Verdict::Fast => Call::Clear,
                };
                assert_eq!(
                    robust(thresholds, *bulk, &base, &head),
                    expected,
                    "case {index}"
                );
            }
        }
    }

    #[test]
    fn legacy_takes_the_smaller_noise() {
        // Means 100 and 101; relative deviations 0.0158 and 0.00078.
        let base = half(&[98.0, 99.0, 100.0, 101.0, 102.0], None);
        let head = half(&[100.9, 100.95, 101.0, 101.05, 101.1], None);
        assert_eq!(legacy(1.0, &base, &head), Call::Slower);
        assert_eq!(legacy(1.0, &head, &base), Call::Clear);
        assert_eq!(legacy(20.0, &base, &head), Call::Clear);
        assert_eq!(legacy(1.0, &base, &half(&[101.0; 4], None)), Call::Open);
    }
}
