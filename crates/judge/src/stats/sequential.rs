//! A paired decision that may look more than once: fresh processes, each of which measured head and
//! base side by side, until their log ratios decide.
//!
//! Each error is split over the looks that the rule allows, not over those that took place: Bonferroni's
//! inequality, which asks nothing of how the looks depend on each other.
//!
//! Student's t needs many processes before it believes a small spread. A quiet look needs few: it passes only
//! a mean near no change with a small spread, and how small that has to be follows from the chance of a miss
//! at the spread for which that chance is greatest. So no spread has to be known in advance.

pub use model::Undecidable;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

use super::group::POWER;

/// More processes than this are nobody's budget: where a search for a number of them ends.
const MOST_PROCESSES: u32 = 10_000;

/// A quiet look passes a mean that is at least this share of the tolerance below it.
const QUIET_DISTANCE: f64 = 0.8;

/// The share of the chance of a miss that quiet looks get, where there are any: most verdicts end there.
const QUIET_MISS: f64 = 0.8;

/// When processes are looked at, and how much of each error is allowed. All probabilities are one-sided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The relative change that is still none: 0.005 is half a percent.
    pub tolerance: f64,
    /// Numbers of processes at which what is plainly unchanged passes, ascending, from two on and below those
    /// of `looks`. There may be none.
    pub quiet: Vec<u32>,
    /// Numbers of processes at which to look, ascending, the first at least two.
    pub looks: Vec<u32>,
    /// Chance to fail what lies at the tolerance, over all looks. Not split over contests: the caller
    /// knows how many the plan holds.
    pub false_alarm: f64,
    /// Chance to pass what lies beyond the tolerance, over all looks.
    pub miss: f64,
    /// The least standard deviation of a log ratio that is believed: the step of the clock.
    pub resolution: f64,
}

/// The evidence that a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// head / base: the geometric mean over the processes.
    pub ratio: f64,
    /// The two bounds of that ratio that were held against the tolerance: the lower one at the level of
    /// this look for a false alarm, the upper one at that for a miss. Of a quiet look, which fails nothing,
    /// both are at that for a miss.
    pub interval: [f64; 2],
    /// The smallest true relative change that this spread and number of processes would fail, confirmed,
    /// with 80 % power. Above the tolerance.
    pub smallest_visible: f64,
    /// Standard deviation between processes of the log ratio, not less than the rule's resolution.
    pub ln_deviation: f64,
    /// Processes in the interval.
    pub processes: u32,
    /// The ratio of the one process after those, where a failure at this look had to be confirmed.
    pub confirmation: Option<f64>,
}

impl Evidence {
    /// Fresh processes that had to run.
    pub fn processes_used(&self) -> u32 {
        self.processes + u32::from(self.confirmation.is_some())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// Ask again with this many processes in all.
    More(u32),
    /// As `More`, for the one fresh process that has to confirm a failure.
    Confirm(u32),
    /// Not beyond the tolerance.
    Pass(Evidence),
    /// Beyond the tolerance, and confirmed.
    Fail(Evidence),
    /// The looks are used up.
    Open(Evidence),
}

/// One decision by `rule` about `ln_ratios`, ln(head / base) of each fresh process in the order of
/// measurement. See [`Schedule`] for many by the same rule.
pub fn decide(rule: &Rule, ln_ratios: &[f64]) -> Result<Decision, Undecidable> {
    rule.schedule()?.decide(ln_ratios)
}

impl Rule {
    /// The bounds of each look, worked out once.
    pub fn schedule(&self) -> Result<Schedule, Undecidable> {
        let all = [self.quiet.as_slice(), self.looks.as_slice()].concat();
        let ascending = all.iter().zip(all.iter().skip(1)).all(|(a, b)| a < b);
        if self.looks.is_empty() || !ascending || all.first().is_none_or(|&first| first < 2) {
            return Err(Undecidable::Looks(all));
        }
        for chance in [self.false_alarm, self.miss] {
            // At one half both bounds meet, and the same look could pass and fail.
            if !(chance > 0.0 && chance < 0.5) {
                return Err(Undecidable::Chance(chance));
            }
        }
        let (false_alarm, miss) = self.levels();
        let (quiet, looks) = (self.quiet.iter(), self.looks.iter());
        let quiet_miss = QUIET_MISS * self.miss / self.quiet.len().max(1) as f64;
        let schedule = Schedule {
            ln_tolerance: 0.0,
            resolution: 0.0,
            quiet: quiet
                .map(|&processes| QuietLook::new(processes, quiet_miss))
                .collect(),
            looks: looks
                .map(|&processes| Look::new(processes, false_alarm, miss))
                .collect(),
        };
        schedule.with(self.tolerance, self.resolution)
    }

    /// The chances of a false alarm and of a miss at one of `looks`.
    fn levels(&self) -> (f64, f64) {
        let looks = self.looks.len() as f64;
        let left = if self.quiet.is_empty() {
            1.0
        } else {
            1.0 - QUIET_MISS
        };
        (self.false_alarm / looks, self.miss * left / looks)
    }

    /// How many processes at one look would have decided, were their mean and spread those of
    /// `evidence`: what an open verdict lacks. `None` where that is beyond reason, as it is for a ratio
    /// that lies at the tolerance itself, and for a failure that its own confirmation denied.
    pub fn processes_needed(&self, evidence: &Evidence) -> Option<u32> {
        let (false_alarm, miss) = self.levels();
        let distance = evidence.ratio.ln() - self.tolerance.ln_1p();
        let chance = if distance > 0.0 { false_alarm } else { miss };
        let enough = |n: u32| {
            t_beyond(chance, f64::from(n - 1)) * evidence.ln_deviation / f64::from(n).sqrt()
                < distance.abs()
        };
        // The half width falls with every process, so the least number is found by bisection.
        let (mut few, mut many) = (evidence.processes.max(2), MOST_PROCESSES);
        if evidence.confirmation.is_some() || !enough(many) {
            return None;
        }
        while few < many {
            let middle = few + (many - few) / 2;
            if enough(middle) {
                many = middle
            } else {
                few = middle + 1
            }
        }
        Some(many)
    }
}

/// A checked [`Rule`] with its quantiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    ln_tolerance: f64,
    resolution: f64,
    quiet: Vec<QuietLook>,
    looks: Vec<Look>,
}

/// A look that passes what is plainly unchanged, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
struct QuietLook {
    processes: u32,
    /// The largest standard deviation between processes that passes, as a share of the distance from the
    /// tolerance that the mean has to keep.
    deviation: f64,
}

impl QuietLook {
    fn new(processes: u32, miss: f64) -> Self {
        Self {
            processes,
            deviation: ascend(|deviation| greatest_miss(processes, deviation) >= miss),
        }
    }
}

/// The chance that a change of exactly the tolerance passes a quiet look, at the spread between processes for
/// which it is greatest. Mean and deviation of a normal sample are independent: so it is that of a small enough
/// deviation times that of a mean that is off by the distance. A wider spread makes the one rarer and the other
/// more frequent.
fn greatest_miss(processes: u32, deviation: f64) -> f64 {
    const SPREADS: u32 = 160;
    let (n, df) = (f64::from(processes), f64::from(processes - 1));
    let Ok(squares) = ChiSquared::new(df) else {
        return 1.0;
    };
    // From a twentieth of the distance, where no mean is off by it, to 150 times, where no deviation is so small.
    let spreads = (0..=SPREADS).map(|i| 0.05 * (f64::from(i) / 20.0).exp());
    let misses = spreads.map(|spread| {
        squares.cdf(df * (deviation / spread).powi(2)) * normal_below(-n.sqrt() / spread)
    });
    misses.fold(0.0, f64::max)
}

/// Multiples of the standard deviation between processes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    processes: u32,
    /// From the mean down to the bound that a failure needs.
    down: f64,
    /// From the mean up to the bound that a pass needs.
    up: f64,
    /// From the tolerance to the smallest change that is seen.
    visible: f64,
}

impl Look {
    fn new(processes: u32, false_alarm: f64, miss: f64) -> Self {
        let (root, df) = (f64::from(processes).sqrt(), f64::from(processes - 1));
        let t = t_beyond(false_alarm, df);
        let deviations = deviations(df);
        // Power of the noncentral t test, and that of the process which confirms it.
        let seen = |change: f64| {
            deviations
                .iter()
                .map(|s| normal_below(change * root - t * s))
                .sum::<f64>()
                / deviations.len() as f64
                * normal_below(change)
        };
        Self {
            processes,
            down: t / root,
            up: t_beyond(miss, df) / root,
            visible: ascend(|change| seen(change) >= POWER),
        }
    }
}

impl Schedule {
    /// The same looks and chances of error for another contest: the bounds, which are slow to find, depend
    /// on neither.
    pub fn with(&self, tolerance: f64, resolution: f64) -> Result<Self, Undecidable> {
        if !(tolerance.is_finite() && tolerance >= 0.0) {
            return Err(Undecidable::Tolerance(tolerance));
        }
        if !(resolution.is_finite() && resolution >= 0.0) {
            return Err(Undecidable::Resolution(resolution));
        }
        Ok(Self {
            ln_tolerance: tolerance.ln_1p(),
            resolution,
            quiet: self.quiet.clone(),
            looks: self.looks.clone(),
        })
    }

    /// Looks at the first `k` processes for each look in turn, and at nothing after them, so that replaying
    /// any prefix gives the same answers and nothing after a decision can change it.
    pub fn decide(&self, ln_ratios: &[f64]) -> Result<Decision, Undecidable> {
        for look in &self.quiet {
            let k = look.processes as usize;
            finite(ln_ratios, k)?;
            let Some(seen) = ln_ratios.get(..k) else {
                return Ok(Decision::More(look.processes));
            };
            if let Some(evidence) = self.quiet_evidence(look, seen)? {
                return Ok(Decision::Pass(evidence));
            }
        }
        let mut decision = None;
        for look in &self.looks {
            let k = look.processes as usize;
            finite(ln_ratios, k)?;
            let Some(seen) = ln_ratios.get(..k) else {
                return Ok(Decision::More(look.processes));
            };
            let ([lower, upper], mut evidence) = self.evidence(look, seen)?;
            if lower > self.ln_tolerance {
                finite(ln_ratios, k + 1)?;
                let Some(&confirmation) = ln_ratios.get(k) else {
                    return Ok(Decision::Confirm(look.processes + 1));
                };
                evidence.confirmation = Some(confirmation.exp());
                if confirmation > self.ln_tolerance {
                    return Ok(Decision::Fail(evidence));
                }
            } else if upper <= self.ln_tolerance {
                return Ok(Decision::Pass(evidence));
            }
            decision = Some(Decision::Open(evidence));
        }
        // A schedule has a look: `Rule::schedule` refuses none.
        decision.ok_or_else(|| Undecidable::Looks(Vec::new()))
    }

    /// `None` where it is not plainly unchanged.
    fn quiet_evidence(
        &self,
        look: &QuietLook,
        seen: &[f64],
    ) -> Result<Option<Evidence>, Undecidable> {
        let (mean, deviation) = self.moments(seen)?;
        let distance = QUIET_DISTANCE * self.ln_tolerance;
        if deviation > look.deviation * distance || mean + distance > self.ln_tolerance {
            return Ok(None);
        }
        // It fails nothing: a change would have been seen at the first look that can.
        let visible = self
            .looks
            .first()
            .map_or(f64::INFINITY, |look| look.visible);
        Ok(Some(Evidence {
            ratio: mean.exp(),
            interval: [mean - distance, mean + distance].map(f64::exp),
            smallest_visible: (self.ln_tolerance + visible * deviation).exp_m1(),
            ln_deviation: deviation,
            processes: look.processes,
            confirmation: None,
        }))
    }

    /// The bounds of the mean log ratio, and what a report shows of them.
    fn evidence(&self, look: &Look, seen: &[f64]) -> Result<([f64; 2], Evidence), Undecidable> {
        let (mean, deviation) = self.moments(seen)?;
        let bounds = [mean - look.down * deviation, mean + look.up * deviation];
        let evidence = Evidence {
            ratio: mean.exp(),
            interval: bounds.map(f64::exp),
            smallest_visible: (self.ln_tolerance + look.visible * deviation).exp_m1(),
            ln_deviation: deviation,
            processes: look.processes,
            confirmation: None,
        };
        Ok((bounds, evidence))
    }

    /// Mean and standard deviation of log ratios, at least the resolution.
    fn moments(&self, seen: &[f64]) -> Result<(f64, f64), Undecidable> {
        let n = seen.len() as f64;
        // Summed in ascending order, so that the order of the processes cannot change a bit of it.
        let mut sorted = seen.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let mean = sorted.iter().sum::<f64>() / n;
        let squares: f64 = sorted.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (n - 1.0)).sqrt().max(self.resolution);
        if deviation > 0.0 {
            Ok((mean, deviation))
        } else {
            Err(Undecidable::NoSpread {
                processes: u32::try_from(seen.len()).unwrap_or(u32::MAX),
            })
        }
    }
}

/// Whether those of the first `count` ratios that are there are numbers.
fn finite(ln_ratios: &[f64], count: usize) -> Result<(), Undecidable> {
    let unusable = ln_ratios
        .iter()
        .take(count)
        .position(|ratio| !ratio.is_finite());
    unusable.map_or(Ok(()), |index| Err(Undecidable::Ratio { index }))
}

/// The t with `p` of Student's distribution above it. From the lower tail, where a `p` of 1e-6 keeps all its
/// digits.
fn t_beyond(p: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::INFINITY, |student| -student.inverse_cdf(p))
}

/// The standard deviations that samples of normal values with `df` degrees of freedom find for a true one of 1: the
/// centres of equally likely parts of its distribution.
fn deviations(df: f64) -> Vec<f64> {
    const PARTS: u32 = 64;
    let part = |i: u32| (f64::from(i) + 0.5) / f64::from(PARTS);
    let found =
        |p: f64| ChiSquared::new(df).map_or(f64::INFINITY, |c| (c.inverse_cdf(p) / df).sqrt());
    (0..PARTS).map(part).map(found).collect()
}

fn normal_below(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The least number above zero, to rounding, where `holds` turns true and stays so; infinite where none is.
fn ascend(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while !holds(high) {
        (low, high) = (high, high * 2.0);
        if high > 1e15 {
            return f64::INFINITY;
        }
    }
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return high;
        }
        if holds(middle) {
            high = middle
        } else {
            low = middle
        }
    }
}

#[cfg(test)]
mod tests;
