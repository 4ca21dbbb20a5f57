//! Compares configurations by time: each one with the best so far, and at the end the best with the start. Times of two
//! processes are never compared. Both configurations are interleaved in each process, and each process counts as one
//! ratio.

use super::candidate::Candidate;
use super::outcome::{Confirmation, Dropped, Shown, Timed};
use judge::stats;
use judge::stats::sequential::{Decision, Evidence, Rule};
use model::Pairing;
use std::collections::BTreeMap;

/// The number of processes in which a configuration must be faster on average to become the best.
const PROCESSES: usize = 3;
/// A configuration that is slower by more than this is given up after the first process, and one that is slower at all
/// after the others. The log ratios of processes spread by a tenth of this or less (docs/timing.md).
const CLEARLY: f64 = 0.02;

/// The result of one process: a configuration against another, over all shapes of the objective.
#[derive(Clone, Debug, PartialEq)]
pub struct RaceReading {
    /// The logarithm of the ratio, weighted over the shapes.
    pub ln_ratio: f64,
    /// The error that the clock's step alone causes.
    pub resolution: f64,
    /// Time of one launch, by shape.
    pub head_ns: BTreeMap<String, f64>,
    pub base_ns: BTreeMap<String, f64>,
}

/// Something that can take the times of two configurations.
pub trait Track {
    /// Starts a fresh process for the next times.
    fn fresh(&mut self);

    /// Takes one reading.
    ///
    /// # Errors
    /// Returns an error if one of the two configurations broke, or if the samples say nothing.
    fn read(&mut self, head: &Candidate, base: &Candidate) -> Result<RaceReading, Dropped>;
}

/// Times each configuration of a field against the best so far, whose cost is `cost`.
pub fn select(
    track: &mut impl Track,
    field: &[&Candidate],
    best: (&Candidate, f64),
) -> Vec<Result<Timed, Dropped>> {
    let mut laps: Vec<Lap> = field.iter().map(|_| Lap::default()).collect();
    for _ in 0..PROCESSES {
        if !laps.iter().any(Lap::is_open) {
            break;
        }
        track.fresh();
        let open = field.iter().zip(&mut laps).filter(|(_, lap)| lap.is_open());
        for (candidate, lap) in open {
            match track.read(candidate, best.0) {
                Ok(reading) => lap.readings.push(reading),
                Err(why) => lap.dropped = Some(why),
            }
        }
    }
    laps.into_iter().map(|lap| lap.end(best)).collect()
}

/// Returns true if the configuration replaces the best.
pub fn takes_over(timed: &Timed) -> bool {
    timed.processes as usize == PROCESSES && timed.ratio < 1.0
}

#[derive(Default)]
struct Lap {
    readings: Vec<RaceReading>,
    dropped: Option<Dropped>,
}

impl Lap {
    fn is_open(&self) -> bool {
        let allowed = match self.readings.len() {
            0 => f64::INFINITY,
            1 => CLEARLY.ln_1p(),
            _ => 0.0,
        };
        self.dropped.is_none()
            && self.readings.len() < PROCESSES
            && (self.readings.is_empty() || mean(&self.readings) <= allowed)
    }

    fn end(self, (best, cost): (&Candidate, f64)) -> Result<Timed, Dropped> {
        if let Some(why) = self.dropped {
            return Err(why);
        }
        let ratio = mean(&self.readings).exp();
        Ok(Timed {
            against: best.number,
            ratio,
            processes: u32::try_from(self.readings.len()).unwrap_or(u32::MAX),
            stopped: self.readings.len() < PROCESSES,
            cost: cost * ratio,
            p50_ns: means(self.readings.iter().map(|reading| &reading.head_ns)),
            against_ns: means(self.readings.iter().map(|reading| &reading.base_ns)),
        })
    }
}

/// Compares the winner with the start in fresh processes until the rule of `+0% of base` decides. The gate claims that
/// the start is no slower than the winner, and if it fails, the winner is proven faster. None of the search's own times
/// count: they chose the winner, and partly for its luck.
///
/// # Errors
/// Returns an error if one of the two broke.
pub fn confirm(
    track: &mut impl Track,
    winner: &Candidate,
    start: &Candidate,
    pairing: &Pairing,
) -> Result<Confirmation, Dropped> {
    let first = pairing.looks.first().copied().unwrap_or(2) as usize;
    let rule = Rule {
        tolerance: 0.0,
        // With a tolerance of zero, nothing counts as plainly unchanged.
        quiet: Vec::new(),
        looks: pairing.looks.clone(),
        false_alarm: pairing.false_alarms.0,
        miss: pairing.misses.0,
        resolution: 0.0,
    };
    let schedule = rule.schedule();
    let mut readings: Vec<RaceReading> = Vec::new();
    loop {
        // One resolution of the clock is used for all processes: the coarsest of the first look.
        let clock = readings
            .iter()
            .take(first)
            .map(|reading| reading.resolution)
            .fold(0.0, f64::max);
        let slower: Vec<f64> = readings.iter().map(|reading| -reading.ln_ratio).collect();
        let schedule = schedule.as_ref().map_err(Clone::clone);
        let found = schedule.and_then(|rule| rule.with(0.0, clock)?.decide(&slower));
        let end = |shown, evidence: Option<Evidence>| Confirmation {
            winner: winner.number,
            shown,
            ratio: mean(&readings).exp(),
            interval: evidence.map_or([0.0, f64::MAX], |evidence| {
                let [low, high] = evidence.interval;
                [1.0 / high, 1.0 / low]
            }),
            processes: u32::try_from(readings.len()).unwrap_or(u32::MAX),
            start_ns: means(readings.iter().map(|reading| &reading.base_ns)),
            winner_ns: means(readings.iter().map(|reading| &reading.head_ns)),
        };
        match found {
            Ok(Decision::Fail(evidence)) => return Ok(end(Shown::Faster, Some(evidence))),
            Ok(Decision::Pass(evidence)) => return Ok(end(Shown::NotFaster, Some(evidence))),
            Ok(Decision::Open(evidence)) => return Ok(end(Shown::Undecided, Some(evidence))),
            Ok(Decision::More(_) | Decision::Confirm(_)) => {
                track.fresh();
                readings.push(track.read(winner, start)?);
            }
            // The readings do not spread at all, or a ratio is not a number.
            Err(_) => return Ok(end(Shown::Undecided, None)),
        }
    }
}

/// Returns the mean of the log ratios, or 0 if there are none.
fn mean(readings: &[RaceReading]) -> f64 {
    let sum: f64 = readings.iter().map(|reading| reading.ln_ratio).sum();
    sum / readings.len().max(1) as f64
}

/// Returns the means over the processes, by shape.
fn means<'a>(all: impl Iterator<Item = &'a BTreeMap<String, f64>>) -> BTreeMap<String, f64> {
    let mut by_shape: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (shape, ns) in all.flatten() {
        by_shape.entry(shape.clone()).or_default().push(*ns);
    }
    by_shape
        .into_iter()
        .filter_map(|(shape, ns)| Some((shape, stats::over_processes(&ns)?)))
        .collect()
}
