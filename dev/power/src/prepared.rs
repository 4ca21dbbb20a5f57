//! Computes once what all verdicts on one contest share.

use judge::stats::sequential::Undecidable;

use crate::recording::{Change, Contest, Process, Recording};
use crate::settings::Settings;

/// The reason for which a recording gives no figures.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unusable {
    #[error("no contest of the recording is unchanged")]
    NothingUnchanged,
    #[error("{contest}: {processes} processes, and one verdict may need {needs}")]
    TooFewProcesses {
        contest: String,
        processes: usize,
        needs: usize,
    },
    #[error("{contest}, process {process}: no blocks, or a time of zero")]
    NoRatio { contest: String, process: usize },
    #[error(transparent)]
    Rule(#[from] Undecidable),
}

/// Statistics that the processes of one contest share.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    pub title: String,
    pub change: Change,
    pub processes: usize,
    /// Geometric mean of head / base.
    pub ratio: f64,
    /// Standard deviation of ln(head
    ///
    /// base) between processes.
    pub ln_deviation: f64,
    /// Distance of the farthest process, in standard deviations.
    pub farthest: f64,
    /// Correlation of each process with the one after it: the rule assumes that they are independent.
    pub correlation: f64,
    /// The mean GPU time of a process, in seconds.
    pub seconds: f64,
}

/// The way a change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Head is the same code and does the same work.
    Unchanged,
    /// Other machine code for the same work. Its change is the mean over all of its processes, and whether
    /// it should fail depends on that.
    OtherCode,
    /// A kernel that does more work.
    Slowed,
    /// Unchanged samples of the head, multiplied.
    Scaled,
}

/// A contest as the rule sees it.
pub struct Prepared {
    pub title: String,
    pub change: Change,
    /// The processes in the order in which they were measured.
    pub processes: Vec<Timed>,
    /// The timer's step over the sum that a block compares.
    pub resolution: f64,
}

/// The ratio and the cost of one process.
pub struct Timed {
    /// The logarithm of the ratio head
    ///
    /// base.
    pub ln_ratio: f64,
    /// The GPU time of the process, in seconds.
    pub seconds: f64,
}

/// Prepares every contest of a recording.
///
/// # Errors
/// If a contest has too few processes for a verdict, if a process has no ratio, or if no contest is unchanged.
pub fn prepare(recording: &Recording, settings: &Settings) -> Result<Vec<Prepared>, Unusable> {
    let needs = settings.most_processes().max(2);
    let prepared = recording
        .contests
        .iter()
        .map(|contest| Prepared::of(contest, recording.tick_ns, needs))
        .collect::<Result<_, _>>()?;
    if recording.contests.iter().any(Contest::unchanged) {
        Ok(prepared)
    } else {
        Err(Unusable::NothingUnchanged)
    }
}

impl Prepared {
    /// Prepares a contest, which must have at least `needs` processes.
    pub(crate) fn of(contest: &Contest, tick_ns: f64, needs: usize) -> Result<Self, Unusable> {
        let title = contest.title();
        if contest.processes.len() < needs {
            return Err(Unusable::TooFewProcesses {
                contest: title,
                processes: contest.processes.len(),
                needs,
            });
        }
        let timed = |(index, process): (usize, &Process)| {
            let ln_ratio = process.ln_ratio().ok_or_else(|| Unusable::NoRatio {
                contest: contest.title(),
                process: index,
            })?;
            Ok(Timed {
                ln_ratio,
                seconds: process.gpu_seconds(),
            })
        };
        let processes: Vec<Timed> = contest
            .processes
            .iter()
            .enumerate()
            .map(timed)
            .collect::<Result<_, Unusable>>()?;
        let sums = contest.processes.iter().flat_map(|process| &process.blocks);
        let (mut total, mut blocks) = (0.0, 0.0);
        for block in sums {
            total += block.ns.base.map(|ns| ns as f64).iter().sum::<f64>();
            blocks += 1.0;
        }
        Ok(Self {
            title,
            change: contest.change,
            processes,
            resolution: tick_ns * blocks / total,
        })
    }

    /// Returns the change that verdicts on its samples are about, and how it was made.
    pub(crate) fn as_recorded(&self) -> (f64, How) {
        match self.change {
            Change::None => (0.0, How::Unchanged),
            Change::OtherCode => (self.mean().exp_m1(), How::OtherCode),
            Change::Slower(share) => (share, How::Slowed),
        }
    }

    /// Returns the mean of the log ratios.
    fn mean(&self) -> f64 {
        self.processes
            .iter()
            .map(|process| process.ln_ratio)
            .sum::<f64>()
            / self.processes.len() as f64
    }

    pub(crate) fn spread(&self) -> Spread {
        let n = self.processes.len() as f64;
        let ratios = || self.processes.iter().map(|process| process.ln_ratio);
        let mean = self.mean();
        let squares: f64 = ratios().map(|ratio| (ratio - mean).powi(2)).sum();
        let deviation = (squares / (n - 1.0)).sqrt();
        let farthest = ratios()
            .map(|ratio| (ratio - mean).abs())
            .fold(0.0, f64::max);
        let neighbours: f64 = ratios()
            .zip(ratios().skip(1))
            .map(|(ratio, next)| (ratio - mean) * (next - mean))
            .sum();
        let seconds: f64 = self.processes.iter().map(|process| process.seconds).sum();
        Spread {
            title: self.title.clone(),
            change: self.change,
            processes: self.processes.len(),
            ratio: mean.exp(),
            ln_deviation: deviation,
            farthest: if deviation > 0.0 {
                farthest / deviation
            } else {
                0.0
            },
            correlation: if squares > 0.0 {
                neighbours / squares
            } else {
                0.0
            },
            seconds: seconds / n,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::contest;

    #[test]
    fn a_contest_of_too_few_processes_is_named() {
        let error = Prepared::of(&contest(5, 0.0005), 32.0, 17);
        assert_eq!(
            error.err(),
            Some(Unusable::TooFewProcesses {
                contest: "k, 20 us, compute-bound".into(),
                processes: 5,
                needs: 17
            })
        );
    }

    #[test]
    fn a_process_without_blocks_is_named() {
        let mut contest = contest(5, 0.0005);
        contest.processes[3].blocks.clear();
        let error = Prepared::of(&contest, 32.0, 2).err();
        assert!(matches!(error, Some(Unusable::NoRatio { process: 3, .. })));
    }

    #[test]
    fn the_timer_resolves_its_step_over_a_block() {
        let contest = Prepared::of(&contest(5, 0.0005), 32.0, 2).unwrap();
        assert!((contest.resolution / (32.0 / 400_000.0) - 1.0).abs() < 0.02);
    }

    #[test]
    fn processes_that_follow_each_other_are_correlated() {
        let mut contest = contest(300, 0.001);
        let correlation = |contest: &Contest| {
            let prepared = Prepared::of(contest, 32.0, 2).unwrap();
            prepared.spread().correlation
        };
        assert!(correlation(&contest).abs() < 0.15);
        let ratio = |process: &Process| process.ln_ratio().unwrap();
        contest
            .processes
            .sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        assert!(correlation(&contest) > 0.9);
    }
}
