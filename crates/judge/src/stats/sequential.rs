//! Decides whether head is slower than base by more than a tolerance, with as few processes as possible.
//!
//! Each fresh process measures head and base side by side and gives one value: ln(head / base). The test looks at the
//! values after certain numbers of processes (the looks of a [`Rule`]) and stops at the first look that decides.
//! [`Schedule::decide`] is a function of the values alone and is called again after every process.
//!
//! **A look.** With mean m, standard deviation s and n values, the test computes two one-sided bounds of Student's t
//! for the true mean: m - t s / sqrt(n) for a failure, and m + t s / sqrt(n) for a pass. It fails if the lower bound is
//! above ln(1 + tolerance), and passes if the upper bound is not. Otherwise it goes on to the next look, and is open
//! after the last. A failure also needs one more process, measured afterwards, that lies beyond the tolerance by
//! itself.
//!
//! **Errors.** A test that looks k times has k chances to be wrong. Each allowed error (`false_alarm`, `miss`) is
//! therefore divided by the number of looks that the rule allows, and not by the number that took place. This is
//! Bonferroni's inequality, which needs no assumption about how the looks depend on each other. The invariant is: if
//! the values are independent and normal, a change of exactly the tolerance fails with a probability of at most
//! `false_alarm` and passes with a probability of at most `miss`, over all looks together. The confirmation only lowers
//! the first. `false_alarm` is for one contest; the caller divides by the number of contests.
//!
//! **Quiet looks.** With two to four processes, the quantiles of Student's t are so large that a look can hardly
//! decide. A quiet look can: it passes, and never fails, if the mean is at least 80 % of the tolerance below it and the
//! spread is small. A wide true spread could produce both by luck. The largest spread that may pass is therefore
//! computed for the worst true spread, the one for which a change of exactly the tolerance passes most often
//! (`greatest_miss`), so no spread has to be known in advance. Quiet looks get 80 % of `miss`, and the other looks
//! share the rest.
//!
//! **What it can miss.** A slowdown of at most the tolerance never fails, beyond false alarms. A slowdown that only a
//! few processes have is not normal, and the first looks may end before such a process is measured. Something that
//! shifts every process of this run in one direction is not noise to the test, and looks like a change. The clock's
//! step is the least spread that is believed (`resolution`), as values can agree by rounding.

pub use model::Undecidable;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF, Normal, StudentsT};

use super::group::POWER;

/// The greatest number of processes that is searched for. Nobody's budget is larger.
const MOST_PROCESSES: u32 = 10_000;

/// A quiet look passes a mean that is below the tolerance by at least this share of the tolerance.
const QUIET_DISTANCE: f64 = 0.8;

/// The share of the chance of a miss that quiet looks get, if there are any. Most verdicts end there.
const QUIET_MISS: f64 = 0.8;

/// The numbers of processes at which the test looks, and the errors that it allows. All probabilities are one-sided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The largest relative change that still passes: 0.005 is half a percent.
    pub tolerance: f64,
    /// The numbers of processes of the quiet looks, which pass what is plainly unchanged. They ascend from at least two
    /// and stay below those of `looks`. There may be none.
    pub quiet: Vec<u32>,
    /// The numbers of processes at which to look, ascending, the first at least two.
    pub looks: Vec<u32>,
    /// The probability to fail a change that lies at the tolerance, over all looks. It is not divided by the number of
    /// contests, which only the caller knows.
    pub false_alarm: f64,
    /// The probability to pass a change that lies beyond the tolerance, over all looks.
    pub miss: f64,
    /// The least standard deviation of a log ratio that is believed. It comes from the step of the clock.
    pub resolution: f64,
}

/// The evidence that a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The geometric mean of head / base over the processes.
    pub ratio: f64,
    /// The two bounds of that ratio that were compared with the tolerance: the lower one at this look's level for a
    /// false alarm, the upper one at its level for a miss. A quiet look fails nothing, so its interval is the distance
    /// that the mean has to keep, on both sides.
    pub interval: [f64; 2],
    /// The smallest true relative change that would fail and be confirmed with 80 % power, at this spread and number of
    /// processes. It is above the tolerance.
    pub smallest_visible: f64,
    /// The standard deviation of the log ratio between processes, not less than the rule's resolution.
    pub ln_deviation: f64,
    /// The number of processes in the interval.
    pub processes: u32,
    /// The ratio of the one later process that had to confirm a failure at this look.
    pub confirmation: Option<f64>,
}

impl Evidence {
    /// Returns the number of fresh processes that had to run.
    pub fn processes_used(&self) -> u32 {
        self.processes + u32::from(self.confirmation.is_some())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Decision {
    /// The test needs this many processes in all.
    More(u32),
    /// The test needs this many processes in all, the last of which has to confirm a failure.
    Confirm(u32),
    /// The change is not beyond the tolerance.
    Pass(Evidence),
    /// The change is beyond the tolerance, and confirmed.
    Fail(Evidence),
    /// All looks are used up without a decision.
    Open(Evidence),
}

/// Decides by `rule` about `ln_ratios`, the ln(head / base) of each fresh process in the order of measurement. A
/// [`Schedule`] is faster for several decisions by one rule.
pub fn decide(rule: &Rule, ln_ratios: &[f64]) -> Result<Decision, Undecidable> {
    rule.schedule()?.decide(ln_ratios)
}

impl Rule {
    /// Works out the bounds of each look.
    pub fn schedule(&self) -> Result<Schedule, Undecidable> {
        let all = [self.quiet.as_slice(), self.looks.as_slice()].concat();
        let ascending = all.iter().zip(all.iter().skip(1)).all(|(a, b)| a < b);
        if self.looks.is_empty() || !ascending || all.first().is_none_or(|&first| first < 2) {
            return Err(Undecidable::Looks(all));
        }
        for chance in [self.false_alarm, self.miss] {
            // At one half both bounds meet, and the same look could both pass and fail.
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

    /// Returns the chances of a false alarm and of a miss at one of `looks`.
    fn levels(&self) -> (f64, f64) {
        let looks = self.looks.len() as f64;
        let left = if self.quiet.is_empty() {
            1.0
        } else {
            1.0 - QUIET_MISS
        };
        (self.false_alarm / looks, self.miss * left / looks)
    }

    /// Estimates how many processes one look would have needed to decide, if their mean and spread were those of
    /// `evidence`. An open verdict reports this number. Returns `None` if it is unreasonably large, as for a ratio at
    /// the tolerance itself, and for a failure that its confirmation denied.
    pub fn processes_needed(&self, evidence: &Evidence) -> Option<u32> {
        let (false_alarm, miss) = self.levels();
        let distance = evidence.ratio.ln() - self.tolerance.ln_1p();
        let chance = if distance > 0.0 { false_alarm } else { miss };
        let enough = |n: u32| {
            t_beyond(chance, f64::from(n - 1)) * evidence.ln_deviation / f64::from(n).sqrt()
                < distance.abs()
        };
        // The half width of the interval falls with every process, so bisection finds the least number.
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

/// A look that passes what is plainly unchanged, and decides nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
struct QuietLook {
    processes: u32,
    /// The largest standard deviation between processes that passes, relative to the distance from the tolerance that
    /// the mean has to keep.
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

/// Returns the probability that a change of exactly the tolerance passes a quiet look, for the true spread between
/// processes at which it is greatest.
///
/// The mean and the deviation of a normal sample are independent. So the probability is the product of two: that the
/// deviation is small enough, and that the mean is off by the required distance. A wider spread makes the first rarer
/// and the second more frequent, so there is a worst spread in between. All lengths are relative to the distance.
fn greatest_miss(processes: u32, deviation: f64) -> f64 {
    const SPREADS: u32 = 160;
    let (n, df) = (f64::from(processes), f64::from(processes - 1));
    let Ok(squares) = ChiSquared::new(df) else {
        return 1.0;
    };
    // The spreads range from 0.05 distances, where no mean is off by a distance, to 150, where no deviation is so
    // small.
    let spreads = (0..=SPREADS).map(|i| 0.05 * (f64::from(i) / 20.0).exp());
    let misses = spreads.map(|spread| {
        squares.cdf(df * (deviation / spread).powi(2)) * normal_below(-n.sqrt() / spread)
    });
    misses.fold(0.0, f64::max)
}

/// The bounds of a look, in multiples of the standard deviation between processes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Look {
    processes: u32,
    /// The distance from the mean down to the bound that a failure needs.
    down: f64,
    /// The distance from the mean up to the bound that a pass needs.
    up: f64,
    /// The distance from the tolerance to the smallest change that is visible.
    visible: f64,
}

impl Look {
    fn new(processes: u32, false_alarm: f64, miss: f64) -> Self {
        let (root, df) = (f64::from(processes).sqrt(), f64::from(processes - 1));
        let t = t_beyond(false_alarm, df);
        let deviations = deviations(df);
        // The power of the noncentral t test, averaged over the deviations that a sample may have, times the
        // probability that the next process confirms it.
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
    /// Returns the same looks and chances of error for another tolerance and resolution. The bounds are slow to find
    /// and depend on neither.
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

    /// Decides about the values so far.
    ///
    /// Each look in turn sees its first `k` values and nothing after them. So replaying any prefix gives the same
    /// answers, and no value after a decision can change it.
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
        // There is always a look, because `Rule::schedule` refuses a rule without any.
        decision.ok_or_else(|| Undecidable::Looks(Vec::new()))
    }

    /// Returns the evidence for a pass at a quiet look, or `None` if the change is not plainly absent.
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
        // A quiet look fails nothing, so the smallest visible change comes from the first look that can fail.
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

    /// Returns the bounds of the mean log ratio, and the evidence that a report shows.
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

    /// Returns the mean and the standard deviation of log ratios. The latter is at least the resolution.
    fn moments(&self, seen: &[f64]) -> Result<(f64, f64), Undecidable> {
        let n = seen.len() as f64;
        // The sum is taken in ascending order, so that the order of the processes cannot change a bit of it.
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

/// Checks that the ratios among the first `count` are numbers.
fn finite(ln_ratios: &[f64], count: usize) -> Result<(), Undecidable> {
    ln_ratios
        .iter()
        .take(count)
        .position(|ratio| !ratio.is_finite())
        .map_or(Ok(()), |index| Err(Undecidable::Ratio { index }))
}

/// Returns the t that Student's distribution exceeds with probability `p`. It is computed from the lower tail, where a
/// `p` of 1e-6 keeps all its digits.
fn t_beyond(p: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::INFINITY, |student| -student.inverse_cdf(p))
}

/// Returns the standard deviations that samples of normal values with `df` degrees of freedom find if the true one is
/// 1. They are the centres of equally likely parts of its distribution, for integration.
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

/// Returns the least number above zero, to rounding, from which on `holds` is true. Returns infinity if there is none.
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
