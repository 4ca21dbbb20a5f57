//! Whether single launches have two modes: most of them fast, a share of them slow, and few in between.
//!
//! Each process is held against its own fast end (its 10th percentile) first, so that processes that
//! differ from one another are no modes, and so that a kernel that became slower as a whole is none either.
//! The rest is pooled, split where the variance between two classes is largest (Otsu, "A Threshold
//! Selection Method from Gray-Level Histograms", 1979), over logs, and the split moved to where the launches
//! are sparsest. Any sample can be split. The valley has to be real: in three windows of one width, around
//! either class's median and at the sparsest place between them, the valley holds at most half of what the
//! smaller peak holds, and so few by chance only once in ten thousand were the two equally dense (the sign
//! test). A skew or heavy tail falls off and has no valley.
//!
//! On simulated samples (`modes/tests.rs`) none of 11 kinds of one mode is split in a thousand runs each
//! (skewed, heavy-tailed, drifting, of a few steps of the clock, with 2 % of outliers), and a slow mode of
//! 10 % and 1.5 times is found in all of as many runs of 3 processes with 200 launches each. Launches that
//! wander in a random walk within a process can look like two modes, as they then dwell in some places.

use super::Sample;
use statrs::distribution::{Binomial, DiscreteCDF};

/// Fewer launches than this, over all processes, are no ground to say that there is one mode.
pub use model::LEAST_LAUNCHES_FOR_MODES as LEAST;

/// Modes with a smaller share (0 to 1) are tails: a limit on p99 sees those.
pub const SMALLEST_SHARE: f64 = 0.05;

/// The slow mode is slower by at least this share. Less is how a clock wanders.
const SEPARATION: f64 = 0.02;

/// And by at least as many steps of the clock: the windows are then two steps wide, and one step that the
/// clock favours or leaves out makes no valley.
const STEPS: f64 = 6.0;

/// How much of the smaller peak a valley may hold, and how likely it may be chance.
const VALLEY: f64 = 0.5;
const CHANCE: f64 = 1e-4;

/// The fast end. Above the fastest few, which are outliers, and still fast where nine in ten are slow.
const FAST_END: f64 = 0.10;

/// Single launches of one process.
#[derive(Clone, Copy, Debug)]
pub struct Launches<'a> {
    pub ns: &'a [u64],
    /// Step of the clock.
    pub tick_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mode {
    /// Median of its launches.
    pub ns: f64,
    /// The share of all launches, 0 to 1.
    pub share: f64,
}

/// Two modes, and what divides them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    pub fast: Mode,
    pub slow: Mode,
    /// Over the fast end of the process that a launch belongs to.
    split: f64,
}

/// There are too few launches to say that there is one mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{have} single launches are too few to tell two modes from one; {LEAST} are the least")]
pub struct TooFew {
    pub have: usize,
}

impl Modes {
    /// `None` where there is one mode.
    ///
    /// # Errors
    /// With fewer than [`LEAST`] launches, or a process without any or at 0 ns.
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
        // Summed in ascending order, so that the order of the processes changes no bit of it.
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

    /// Share (0 to 1) of one process's launches that are in the slow mode; `None` for a process without
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

/// One split for both sides, found on all processes of both together; `None` where there is one mode, and
/// every share is 0. That one side is slower as a whole does not count: see the head of this file.
///
/// # Errors
/// As [`Modes::find`].
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

/// Launches of one value are spread evenly over the step of the clock that they were rounded to: a lattice
/// has a valley between any two of its points.
fn untied(sample: &Sample, tick: f64) -> impl Iterator<Item = f64> {
    sample.ties().flat_map(move |(value, count)| {
        (0..count).map(move |at| {
            let place = (at as f64 + 0.5) / count as f64 - 0.5;
            // Half a ns where the clock says 0: it has a log.
            (value as f64 + tick * place).max(0.5)
        })
    })
}

/// Where two classes of ascending logs are divided.
struct Valley {
    /// Medians of the classes.
    fast: f64,
    slow: f64,
    at: f64,
    /// Launches below `at`.
    below: usize,
    /// Those in the window around `at`.
    inside: usize,
}

impl Valley {
    fn find(logs: &[f64]) -> Option<Self> {
        let mut below = otsu(logs)?;
        let mut valley = Self::between(logs, below)?;
        // The split of largest variance leans to the middle where one mode is small.
        for _ in 0..8 {
            if valley.below == below {
                break;
            }
            below = valley.below;
            valley = Self::between(logs, below)?;
        }
        Some(valley)
    }

    /// The sparsest place between the medians of two classes.
    fn between(logs: &[f64], below: usize) -> Option<Self> {
        let fast = *logs.get(below / 2)?;
        let slow = *logs.get((below + logs.len()) / 2)?;
        let window = (slow - fast) / 3.0;
        // Nowhere closer to a median than half a window: there the peaks' own windows end.
        let (first, last) = (fast + window / 2.0, slow - window * 1.5);
        let between = logs
            .iter()
            .copied()
            .filter(|log| (first..last).contains(log));
        // Just above a launch the window is emptier than at it.
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

/// The chance of as few as `inside` among both, were either place equally dense.
fn chance(inside: usize, peak: usize) -> f64 {
    match Binomial::new(0.5, (inside + peak) as u64) {
        Ok(binomial) => binomial.cdf(inside as u64),
        Err(_) => 1.0,
    }
}

/// How many values are in the window of this width at each start, with the start. The starts ascend, too, so the ends of
/// the window only move up.
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

/// Values in `low..=high`.
fn count(sorted: &[f64], low: f64, high: f64) -> usize {
    let above = sorted.partition_point(|&value| value <= high);
    above.saturating_sub(sorted.partition_point(|&value| value < low))
}

/// How many values are in the lower class; neither class is smaller than a mode may be.
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
