//! Other comparers on the same samples. They see one process of either side, as in practice.

mod mann_whitney;
mod nvbench;

pub use nvbench::Thresholds;

use crate::draw::Call;
use crate::table::percent;

/// One side of one process, as a comparer gets it: samples in nanoseconds and, where it was measured, the
/// SM clock of each. Sorted and summed up once, because it is compared many times.
#[derive(Clone, Debug, PartialEq)]
pub struct Half {
    /// Ascending.
    times: Vec<f64>,
    /// Time x clock of each sample, ascending; empty where a clock is missing.
    cycles: Vec<f64>,
    mean: f64,
    /// Standard deviation over mean; `None` for fewer samples than NVBench asks.
    relative_deviation: Option<f64>,
    mean_clock: Option<f64>,
    seconds: f64,
}

impl Half {
    /// `None` without samples, or where one of them is zero: every comparer divides by them.
    pub fn of(samples: &[(f64, Option<f64>)]) -> Option<Self> {
        let usable = samples.iter().all(|&(ns, _)| ns > 0.0 && ns.is_finite());
        if samples.is_empty() || !usable {
            return None;
        }
        let n = samples.len() as f64;
        let mut times: Vec<f64> = samples.iter().map(|&(ns, _)| ns).collect();
        let clocks: Vec<f64> = samples.iter().filter_map(|&(_, clock)| clock).collect();
        let clocked = clocks.len() == times.len() && clocks.iter().all(|&clock| clock > 0.0);
        let mut cycles: Vec<f64> = times
            .iter()
            .zip(&clocks)
            .map(|(ns, clock)| ns * clock)
            .collect();
        if !clocked {
            cycles.clear();
        }
        times.sort_unstable_by(f64::total_cmp);
        cycles.sort_unstable_by(f64::total_cmp);
        let sum: f64 = times.iter().sum();
        let mean = sum / n;
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        let enough = times.len() >= nvbench::LEAST_SAMPLES;
        Some(Self {
            relative_deviation: enough.then(|| (squares / (n - 1.0)).sqrt() / mean),
            mean_clock: clocked.then(|| clocks.iter().sum::<f64>() / n),
            seconds: sum * 1e-9,
            times,
            cycles,
            mean,
        })
    }

    /// GPU time of its samples.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    fn median(&self) -> f64 {
        let at = |index: usize| self.times.get(index).copied().unwrap_or(f64::NAN);
        let n = self.times.len();
        (at(n / 2) + at(n.saturating_sub(1) / 2)) / 2.0
    }
}

/// A comparer at one setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rival {
    /// nvbench_compare_robust.py; `bulk` says whether it gets the samples (`--jsonbin`) or their
    /// summaries alone.
    NvbenchRobust { thresholds: Thresholds, bulk: bool },
    /// nvbench_compare_legacy.py, whose own factor is 1: slower where the means differ by more than
    /// that times the smaller of the two relative standard deviations.
    NvbenchLegacy { noise_factor: f64 },
    /// Slower where the medians differ by more than this share.
    Median { beyond: f64 },
    /// As `Median`, where also the two-sided test of Mann and Whitney is significant at this level.
    MannWhitney { level: f64, beyond: f64 },
}

impl Rival {
    pub fn call(&self, base: &Half, head: &Half) -> Call {
        let beyond = |share: f64| {
            if head.median() > base.median() * (1.0 + share) {
                Call::Slower
            } else {
                Call::Clear
            }
        };
        match *self {
            Self::NvbenchRobust { thresholds, bulk } => {
                nvbench::robust(&thresholds, bulk, base, head)
            }
            Self::NvbenchLegacy { noise_factor } => nvbench::legacy(noise_factor, base, head),
            Self::Median { beyond: share } => beyond(share),
            Self::MannWhitney {
                level,
                beyond: share,
            } => {
                if mann_whitney::p_value(&base.times, &head.times) < level {
                    beyond(share)
                } else {
                    Call::Clear
                }
            }
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::NvbenchRobust { .. } => "NVBench robust compare",
            Self::NvbenchLegacy { .. } => "NVBench legacy compare",
            Self::Median { .. } => "p50 beyond",
            Self::MannWhitney { .. } => "Mann-Whitney and p50 beyond",
        }
    }

    pub fn setting(&self) -> String {
        match self {
            Self::NvbenchRobust { thresholds, bulk } => {
                let input = if *bulk { "samples" } else { "summaries" };
                format!("gap {} %, {input}", percent(thresholds.clear_gap))
            }
            Self::NvbenchLegacy { noise_factor } => format!("{noise_factor} x noise"),
            Self::Median { beyond } => format!("{} %", percent(*beyond)),
            Self::MannWhitney { level, beyond } => format!("p < {level}, {} %", percent(*beyond)),
        }
    }

    /// Each comparer at its own setting first, then at others around it: its receiver operating points.
    pub fn all() -> Vec<Self> {
        let robust = |thresholds: Thresholds, bulk| Self::NvbenchRobust { thresholds, bulk };
        let gap = |clear_gap: f64| Thresholds {
            clear_gap,
            ..Thresholds::DEFAULT
        };
        let mut all = vec![
            robust(Thresholds::DEFAULT, true),
            robust(Thresholds::DEFAULT, false),
            robust(Thresholds::STRICT, true),
            robust(Thresholds::PERMISSIVE, true),
            robust(gap(0.0), true),
        ];
        all.extend([1.0, 0.5, 2.0, 4.0].map(|noise_factor| Self::NvbenchLegacy { noise_factor }));
        all.extend([0.02, 0.0025, 0.005, 0.01, 0.03, 0.05].map(|beyond| Self::Median { beyond }));
        let whitney = |beyond| Self::MannWhitney {
            level: 0.05,
            beyond,
        };
        all.extend([0.01, 0.0025, 0.005, 0.02, 0.05].map(whitney));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(ns: &[f64]) -> Half {
        Half::of(&ns.iter().map(|&ns| (ns, None)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn unusable_samples_give_no_half() {
        for samples in [&[][..], &[0.0], &[1.0, f64::NAN], &[f64::INFINITY]] {
            let samples: Vec<_> = samples.iter().map(|&ns| (ns, None)).collect();
            assert_eq!(Half::of(&samples), None);
        }
    }

    #[test]
    fn medians_beyond_a_share() {
        let median = Rival::Median { beyond: 0.02 };
        let base = half(&[99.0, 100.0, 101.0, 100.0]);
        assert_eq!(median.call(&base, &half(&[102.0])), Call::Clear);
        assert_eq!(median.call(&base, &half(&[102.1])), Call::Slower);
        assert_eq!(median.call(&base, &half(&[50.0])), Call::Clear);
    }

    #[test]
    fn mann_whitney_asks_for_both() {
        let rival = Rival::MannWhitney {
            level: 0.05,
            beyond: 0.01,
        };
        let base = half(&[100.0, 100.1, 100.2, 100.3, 100.4, 100.5]);
        let by =
            |shift: f64| half(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5].map(|step| 100.0 + shift + step));
        assert_eq!(
            rival.call(&base, &by(0.9)),
            Call::Clear,
            "significant, but within 1 %"
        );
        assert_eq!(rival.call(&base, &by(1.1)), Call::Slower);
        assert_eq!(
            rival.call(&half(&[100.0]), &half(&[110.0])),
            Call::Clear,
            "p = 1"
        );
    }
}
