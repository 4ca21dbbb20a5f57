//! Decides whether single launches have two modes: most launches are fast, a share of them is slow, and few lie in
//! between.
//!
//! First, the launches of each process are divided by the fast end of that process (its 10th percentile). Differences
//! between processes therefore make no modes, and neither does a kernel that became slower as a whole. The logs of all
//! processes are then pooled and split where the variance between the two classes is largest (Otsu, "A Threshold
//! Selection Method from Gray-Level Histograms", 1979), and the split is moved to the place where launches are
//! sparsest.
//!
//! Any sample can be split, so the valley has to be real. Three windows of one width are compared: one around the
//! median of each class, and one at the sparsest place between them. The valley must hold at most half as many launches
//! as the smaller peak, and so few that this would happen once in ten thousand times if both places were equally dense
//! (the sign test). A skewed or heavy tail falls off steadily and has no valley.
//!
//! On simulated samples (`modes/tests.rs`), each of 11 kinds of samples with one mode is split in none of a thousand
//! runs (skewed, heavy-tailed, drifting, of a few steps of the clock, with 2 % of outliers). A slow mode with 10 % of
//! the launches and 1.5 times the time is found in all of as many runs, with 3 processes of 200 launches each. The test
//! can be misled by launches that wander in a random walk within a process: they dwell in some places, which can look
//! like two modes.

use super::Sample;
use statrs::distribution::{Binomial, DiscreteCDF};

/// With fewer launches than this, over all processes, a single mode cannot be shown.
pub use model::LEAST_LAUNCHES_FOR_MODES as LEAST;

/// Modes with a smaller share (0 to 1) are tails, and a limit on p99 sees those.
pub const SMALLEST_SHARE: f64 = 0.05;

/// The slow mode must be slower by at least this share. A clock wanders by less.
const SEPARATION: f64 = 0.02;

/// The modes must also be at least this many steps of the clock apart. The windows are then two steps wide, and a
/// single step that the clock favours or leaves out makes no valley.
const STEPS: f64 = 6.0;

/// The share of the smaller peak that a valley may hold, and the probability with which it may be chance.
const VALLEY: f64 = 0.5;
const CHANCE: f64 = 1e-4;

/// The quantile of a process that is its fast end. It lies above the fastest few launches, which are outliers, and is
/// still fast if nine launches in ten are slow.
const FAST_END: f64 = 0.10;

/// Times of single launches of one process.
#[derive(Clone, Copy, Debug)]
pub struct Launches<'a> {
    pub ns: &'a [u64],
    /// The smallest step of the clock.
    pub tick_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// The median of the mode's launches.
    pub ns: f64,
    /// The mode's share of all launches, 0 to 1.
    pub share: f64,
}

/// Two modes, and the value that divides them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    pub fast: Mode,
    pub slow: Mode,
    /// The dividing time over the fast end of the process that a launch belongs to.
    split: f64,
}

/// There are too few launches to say that there is one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{have} single launches are too few to tell two modes from one; {LEAST} are the least")]
pub struct TooFew {
    pub have: usize,
}

impl Modes {
    /// Finds two modes. Returns `None` if there is only one.
    ///
    /// # Errors
    /// There are fewer than [`LEAST`] launches, or a process has no launches, or its fast end is at 0 ns.
    pub fn find(processes: &[Launches<'_>]) -> Result<Option<Self>, TooFew> {
        let have = processes.iter().map(|process| process.ns.len()).sum();
        let samples: Option<Vec<(Sample, f64)>> = processes
            .iter()
            .map(|process| {
                let sample = Sample::new(process.ns)?;
                let end = fast_end(&sample)?;
                Some((sample, end))
            })
            .collect();
        let Some(samples) = samples.filter(|_| have >= LEAST) else {
            return Err(TooFew { have });
        };
        let mut logs = Vec::with_capacity(have);
        let mut step: f64 = 0.0;
        for (process, (sample, end)) in processes.iter().zip(&samples) {
            let tick = process.tick_ns as f64;
            step = step.max(tick / end);
            logs.extend(untied(sample, tick).map(|ns| (ns / end).ln()));
        }
        logs.sort_unstable_by(f64::total_cmp);
        let Some(found) = Valley::find(&logs).filter(|valley| valley.is_real(&logs, step)) else {
            return Ok(None);
        };
        // The sum is taken in ascending order, so that the order of the processes changes no bit of it.
        let mut ends: Vec<f64> = samples.iter().map(|(_, end)| end.ln()).collect();
        ends.sort_unstable_by(f64::total_cmp);
        let end = ends.iter().sum::<f64>() / ends.len() as f64;
        let slow = 1.0 - found.below as f64 / logs.len() as f64;
        Ok(Some(Self {
            fast: Mode {
                ns: (found.fast + end).exp(),
                share: 1.0 - slow,
            },
            slow: Mode {
                ns: (found.slow + end).exp(),
                share: slow,
            },
            split: found.at.exp(),
        }))
    }

    /// Returns the share (0 to 1) of one process's launches that are in the slow mode, or `None` for a process without
    /// launches.
    pub fn slow_share(&self, ns: &[u64]) -> Option<f64> {
        let split = fast_end(&Sample::new(ns)?)? * self.split;
        let slow = ns.iter().filter(|&&ns| ns as f64 > split).count();
        Some(slow as f64 / ns.len() as f64)
    }
}

/// The share of launches in the slow mode, for each process of two sides.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowShares {
    pub modes: Modes,
    pub head: Vec<f64>,
    pub base: Vec<f64>,
}

/// Finds one split for both sides, on all processes of both together, and returns the slow share of each process.
/// Returns `None` if there is one mode, so that every share is 0. A side that is slower as a whole does not count: see
/// the head of this file.
///
/// # Errors
/// Fails as [`Modes::find`] does.
pub fn slow_shares(
    head: &[Launches<'_>],
    base: &[Launches<'_>],
) -> Result<Option<SlowShares>, TooFew> {
    let both: Vec<_> = head.iter().chain(base).copied().collect();
    let Some(modes) = Modes::find(&both)? else {
        return Ok(None);
    };
    let shares = |side: &[Launches<'_>]| {
        side.iter()
            .filter_map(|process| modes.slow_share(process.ns))
            .collect()
    };
    Ok(Some(SlowShares {
        modes,
        head: shares(head),
        base: shares(base),
    }))
}

fn fast_end(sample: &Sample) -> Option<f64> {
    let end = sample.quantile(FAST_END);
    (end > 0.0).then_some(end)
}

/// Spreads launches of equal time evenly over the step of the clock that they were rounded to. Otherwise there would be
/// a valley between any two steps.
fn untied(sample: &Sample, tick: f64) -> impl Iterator<Item = f64> {
    sample.ties().flat_map(move |(value, count)| {
        (0..count).map(move |at| {
            let place = (at as f64 + 0.5) / count as f64 - 0.5;
            // A launch of 0 ns counts as half a nanosecond, so that it has a logarithm.
            (value as f64 + tick * place).max(0.5)
        })
    })
}

/// The split of ascending logs into two classes.
struct Valley {
    /// The medians of the two classes.
    fast: f64,
    slow: f64,
    at: f64,
    /// The number of launches below `at`.
    below: usize,
    /// The number of launches in the window around `at`.
    inside: usize,
}

impl Valley {
    fn find(logs: &[f64]) -> Option<Self> {
        let mut below = otsu(logs)?;
        let mut valley = Self::between(logs, below)?;
        // If one mode is small, the split of largest variance leans towards the middle, so it is repeated from the
        // valley.
        for _ in 0..8 {
            if valley.below == below {
                break;
            }
            below = valley.below;
            valley = Self::between(logs, below)?;
        }
        Some(valley)
    }

    /// Finds the sparsest place between the medians of two classes.
    fn between(logs: &[f64], below: usize) -> Option<Self> {
        let fast = *logs.get(below / 2)?;
        let slow = *logs.get((below + logs.len()) / 2)?;
        let window = (slow - fast) / 3.0;
        // The window stays half a window away from the medians, where the windows of the peaks end.
        let (first, last) = (fast + window / 2.0, slow - window * 1.5);
        let between = logs
            .iter()
            .copied()
            .filter(|log| (first..last).contains(log));
        // A window that begins just above a launch is emptier than one that begins at it.
        let windows = counts(
            logs,
            [first]
                .into_iter()
                .chain(between.map(f64::next_up))
                .chain([last]),
            window,
        );
        let (inside, start) = windows.min_by(|(a, at), (b, bt)| a.cmp(b).then(at.total_cmp(bt)))?;
        let at = start + window / 2.0;
        Some(Self {
            fast,
            slow,
            at,
            below: logs.partition_point(|&log| log < at),
            inside,
        })
    }

    fn is_real(&self, logs: &[f64], step: f64) -> bool {
        let distance = self.slow - self.fast;
        let peak = |at: f64| count(logs, at - distance / 6.0, at + distance / 6.0);
        let least = peak(self.fast).min(peak(self.slow));
        let n = logs.len() as f64;
        let share = self.below as f64 / n;
        share.min(1.0 - share) >= SMALLEST_SHARE
            && distance >= SEPARATION.ln_1p()
            && distance >= STEPS * step
            && self.inside as f64 <= VALLEY * least as f64
            && chance(self.inside, least) <= CHANCE
    }
}

/// Returns the probability of at most `inside` launches in the valley if the valley and the peak were equally dense.
fn chance(inside: usize, peak: usize) -> f64 {
    match Binomial::new(0.5, (inside + peak) as u64) {
        Ok(binomial) => binomial.cdf(inside as u64),
        Err(_) => 1.0,
    }
}

/// Counts the values in a window of this width at each start, and returns each count with its start. The starts ascend,
/// so both ends of the window only move up.
fn counts(
    sorted: &[f64],
    starts: impl Iterator<Item = f64>,
    width: f64,
) -> impl Iterator<Item = (usize, f64)> {
    let (mut below, mut within) = (0, 0);
    starts.map(move |start| {
        while sorted.get(below).is_some_and(|&value| value < start) {
            below += 1;
        }
        let end = start + width;
        while sorted.get(within).is_some_and(|&value| value <= end) {
            within += 1;
        }
        (within.saturating_sub(below), start)
    })
}

/// Counts the sorted values that lie in `low..=high`.
fn count(sorted: &[f64], low: f64, high: f64) -> usize {
    let above = sorted.partition_point(|&value| value <= high);
    above.saturating_sub(sorted.partition_point(|&value| value < low))
}

/// Returns the number of values in the lower class of the split with the largest variance between classes. Neither
/// class is smaller than a mode may be.
fn otsu(sorted: &[f64]) -> Option<usize> {
    let n = sorted.len() as f64;
    let least = ((SMALLEST_SHARE * n).ceil() as usize).max(1);
    let total: f64 = sorted.iter().sum();
    let mut sum = 0.0;
    let mut best: Option<(f64, usize)> = None;
    for (below, value) in (1..).zip(sorted) {
        sum += value;
        if below < least || below + least > sorted.len() {
            continue;
        }
        let (low, high) = (below as f64, n - below as f64);
        if high <= 0.0 {
            continue;
        }
        let between = low * high * (sum / low - (total - sum) / high).powi(2);
        if best.is_none_or(|(most, _)| between > most) {
            best = Some((between, below));
        }
    }
    best.map(|(_, below)| below)
}

#[cfg(test)]
mod tests;
