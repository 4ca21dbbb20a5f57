//! Samples of one side of a process, as other comparers get them.

use crate::rivals::Half;
use crate::{Contest, Process};

/// The samples that a comparer of one pair of processes gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub processes: Processes,
    pub samples: Samples,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Head from one process and base from another, as in practice.
    Apart,
    /// Both from one process that measured them side by side: the advantage that our blocks alone would give
    /// another comparer.
    Together,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Samples {
    /// The halves of the blocks: as many launches as one of our samples holds.
    Batched,
    /// Halves of one launch each.
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

/// One half of each process.
pub(crate) struct Halves {
    pub base: Vec<Half>,
    /// As measured, then scaled by each change.
    pub head: Vec<(f64, Vec<Half>)>,
}

impl Halves {
    /// `None` where a process has no samples of that kind, or a time of zero.
    pub(crate) fn of(contest: &Contest, changes: &[f64], samples: Samples) -> Option<Self> {
        let sides = |process: &Process, head: bool, change: f64| {
            let mut half = samples_of(process, samples, head);
            for (ns, _) in &mut half {
                *ns *= 1.0 + change;
            }
            Half::of(&half)
        };
        let all = |head: bool, change: f64| {
            contest
                .processes
                .iter()
                .map(|process| sides(process, head, change))
                .collect::<Option<Vec<_>>>()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::World;

    #[test]
    fn a_time_of_zero_leaves_no_halves() {
        let mut contest = World::quiet().contest("k", 5, 1);
        assert!(Halves::of(&contest, &[], Samples::Batched).is_some());
        contest.processes[3].blocks[0].ns.head[0] = 0;
        assert!(Halves::of(&contest, &[], Samples::Batched).is_none());
    }
}
