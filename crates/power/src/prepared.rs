//! What many verdicts on one contest share, worked out once.

use crate::analysis::{How, Spread, Unusable};
use crate::recording::{Change, Contest, Process};
use crate::rivals::Half;

/// Which halves a comparer of one pair of processes gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub processes: Processes,
    pub samples: Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Head from one process and base from another, as in practice.
    Apart,
    /// Both from one process that measured them side by side: what our blocks alone would give a rival.
    Together,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// Of the blocks: as many launches as one of our samples holds.
    Batched,
    /// Of one launch each.
    Single,
}

impl Pair {
    pub const ALL: [Self; 4] = [
        Self::new(Processes::Apart, Samples::Single),
        Self::new(Processes::Apart, Samples::Batched),
        Self::new(Processes::Together, Samples::Single),
        Self::new(Processes::Together, Samples::Batched),
    ];

    const fn new(processes: Processes, samples: Samples) -> Self {
        Self { processes, samples }
    }
}

/// A contest with everything worked out that many verdicts share.
pub(crate) struct Prepared {
    title: String,
    pub change: Change,
    pub processes: Vec<Timed>,
    /// The clock's step over the sum that a block compares.
    resolution: f64,
    pub batched: Halves,
    /// `None` where a process has none.
    pub single: Option<Halves>,
}

/// One process, as the rule sees it.
pub(crate) struct Timed {
    pub ln_ratio: f64,
    pub seconds: f64,
}

/// One half of each process.
pub(crate) struct Halves {
    pub base: Vec<Half>,
    /// As measured, then scaled by each change.
    pub head: Vec<(f64, Vec<Half>)>,
}

impl Halves {
    fn of(contest: &Contest, changes: &[f64], samples: Samples) -> Option<Self> {
        let sides = |process: &Process, head: bool, change: f64| {
            let mut half = samples_of(process, samples, head);
            for (ns, _) in &mut half {
                *ns *= 1.0 + change;
            }
            Half::of(&half)
        };
        let all = |head: bool, change: f64| {
            let halves = contest
                .processes
                .iter()
                .map(|process| sides(process, head, change));
            halves.collect::<Option<Vec<_>>>()
        };
        let scaled = if contest.unchanged() { changes } else { &[] };
        Some(Self {
            base: all(false, 0.0)?,
            head: std::iter::once(&0.0)
                .chain(scaled)
                .map(|&change| Some((change, all(true, change)?)))
                .collect::<Option<_>>()?,
        })
    }
}

/// Samples of one side with the SM clock of each.
fn samples_of(process: &Process, samples: Samples, head: bool) -> Vec<(f64, Option<f64>)> {
    let clock = |mhz: Option<u32>| mhz.map(f64::from);
    match samples {
        Samples::Batched => process
            .blocks
            .iter()
            .flat_map(|block| {
                let ns = if head { block.ns.head } else { block.ns.base };
                ns.map(|ns| (ns as f64, clock(block.sm_mhz)))
            })
            .collect(),
        Samples::Single => {
            let side = if head {
                &process.single.head
            } else {
                &process.single.base
            };
            // Their clock was not measured; that of the blocks before them is the nearest.
            let last = process.blocks.last().and_then(|block| clock(block.sm_mhz));
            side.iter().map(|&ns| (ns as f64, last)).collect()
        }
    }
}

impl Prepared {
    pub(crate) fn of(
        contest: &Contest,
        tick_ns: f64,
        needs: usize,
        changes: &[f64],
    ) -> Result<Self, Unusable> {
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
        // Halves exist wherever ratios do, but for a zero in one of two samples of a side.
        let batched =
            Halves::of(contest, changes, Samples::Batched).ok_or_else(|| Unusable::NoRatio {
                contest: contest.title(),
                process: 0,
            })?;
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
            single: Halves::of(contest, changes, Samples::Single),
            batched,
        })
    }

    pub(crate) fn resolution(&self) -> f64 {
        self.resolution
    }

    /// What the verdicts on it are of, its samples taken as they are.
    pub(crate) fn as_recorded(&self) -> (f64, How) {
        match self.change {
            Change::None => (0.0, How::Unchanged),
            Change::OtherCode => (self.mean().exp_m1(), How::OtherCode),
            Change::Slower(share) => (share, How::Dial),
        }
    }

    /// Of the log ratios.
    fn mean(&self) -> f64 {
        let ratios = self.processes.iter().map(|process| process.ln_ratio);
        ratios.sum::<f64>() / self.processes.len() as f64
    }

    pub(crate) fn spread(&self, overhead: f64) -> Spread {
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
            seconds: seconds / n * overhead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::World;

    #[test]
    fn a_contest_of_too_few_processes_is_named() {
        let error = Prepared::of(&World::quiet().contest("k", 5, 1), 32.0, 17, &[]);
        assert_eq!(
            error.err(),
            Some(Unusable::TooFewProcesses {
                contest: "k, 20 us, compute".into(),
                processes: 5,
                needs: 17
            })
        );
    }

    #[test]
    fn a_process_without_blocks_is_named() {
        let mut contest = World::quiet().contest("k", 5, 1);
        contest.processes[3].blocks.clear();
        let error = Prepared::of(&contest, 32.0, 2, &[]).err();
        assert!(matches!(error, Some(Unusable::NoRatio { process: 3, .. })));
        let mut contest = World::quiet().contest("k", 5, 1);
        contest.processes[3].blocks[0].ns.head[0] = 0;
        assert!(Prepared::of(&contest, 32.0, 2, &[]).is_err());
    }

    #[test]
    fn the_clock_resolves_its_step_over_a_block() {
        let contest = Prepared::of(&World::quiet().contest("k", 5, 1), 32.0, 2, &[]).unwrap();
        assert!((contest.resolution() / (32.0 / 400_000.0) - 1.0).abs() < 0.02);
    }

    #[test]
    fn processes_that_follow_each_other_are_correlated() {
        let mut contest = World {
            between: 0.001,
            noise: 0.0,
            ..World::quiet()
        }
        .contest("k", 300, 1);
        let correlation = |contest: &Contest| {
            Prepared::of(contest, 32.0, 2, &[])
                .unwrap()
                .spread(1.0)
                .correlation
        };
        assert!(correlation(&contest).abs() < 0.15);
        let ratio = |process: &Process| process.ln_ratio().unwrap();
        contest
            .processes
            .sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        assert!(correlation(&contest) > 0.9);
    }
}
