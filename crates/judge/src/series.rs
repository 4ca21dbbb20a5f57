//! Floor 1: decides which timing processes of a case count, and checks that each measured what was planned.

use super::index::View;
use super::not_passed::{OrNotPassed, got, inconclusive, missing};
use model::*;

impl<'a> View<'_, 'a> {
    /// Returns the timing processes that count.
    ///
    /// A throttled process measures the temperature of the room rather than the kernel, so it is dropped and reported.
    /// If fewer than the planned number of processes remain, the result is inconclusive. For a case that was timed
    /// against the base, these are this side's own samples.
    pub fn series(self, id: &CaseId) -> OrNotPassed<Vec<&'a TimeFacts>> {
        self.case(id)?;
        let seen = self.filed().times.get(id);
        if seen.is_empty() {
            if !self.filed().pairs.get(id).is_empty() {
                return self.series_in_pairs(id);
            }
            self.device()?;
            return missing(Piece::Timing(id.clone()));
        }
        let mut used = Vec::new();
        for found in in_order(seen) {
            let (process, facts) = found?;
            check_process(facts, process, &self.plan().timing)?;
            if !facts.gpu.throttled {
                used.push(facts);
            }
        }
        let planned = self.plan().timing.processes.max(1) as usize;
        if seen.len() < planned {
            return inconclusive(Reason::TooFewProcesses {
                have: seen.len(),
                needed: planned,
            });
        }
        if used.len() < planned {
            return inconclusive(Reason::Throttled {
                throttled: seen.len() - used.len(),
                processes: seen.len(),
                needed: planned,
                causes: throttle_causes(seen),
            });
        }
        Ok(used)
    }

    /// Returns the pairs that count, for a case that was timed against the base.
    pub fn pairs(self, id: &CaseId) -> OrNotPassed<Vec<&'a PairFacts>> {
        let mut used = Vec::new();
        for found in in_order(self.filed().pairs.get(id)) {
            let (process, facts) = found?;
            check_pair(facts, process, self.pairing()?)?;
            if !is_set_aside(facts) {
                used.push(facts);
            }
        }
        Ok(used)
    }

    fn series_in_pairs(self, id: &CaseId) -> OrNotPassed<Vec<&'a TimeFacts>> {
        let used = self.pairs(id)?;
        if used.len() < 2 {
            return inconclusive(Reason::TooFewProcesses {
                have: used.len(),
                needed: 2,
            });
        }
        Ok(used.into_iter().map(|pair| self.own(pair)).collect())
    }

    pub fn pairing(self) -> OrNotPassed<&'a Pairing> {
        match self.planned_pairing() {
            Some(pairing) => Ok(pairing),
            None => inconclusive(Reason::PairingUnknown),
        }
    }

    /// Checks that a verdict on `metric` may rest on what was measured against the base. Fewer samples of single
    /// launches are taken if no gate rests on them.
    pub fn has_enough_singles(self, id: &CaseId, metric: Metric) -> OrNotPassed<()> {
        if self.filed().pairs.get(id).is_empty() || !metric.uses_single_launches() {
            return Ok(());
        }
        let needed = self.pairing()?.singles;
        let pairs = self.pairs(id)?;
        match pairs
            .iter()
            .flat_map(|pair| [&pair.head, &pair.base])
            .find(|side| side.single_ns.len() < needed as usize)
        {
            None => Ok(()),
            Some(side) => inconclusive(Reason::TooFewSingles {
                metric,
                have: side.single_ns.len(),
                needed,
            }),
        }
    }

    /// Returns how many timing processes a case had, whatever became of them.
    pub fn processes(self, id: &CaseId) -> u32 {
        count(self.filed().times.get(id).len())
    }

    /// Returns true if one of the timing processes of a case broke or was not run.
    pub fn timing_ended(self, id: &CaseId) -> bool {
        let mut seen = self.filed().times.get(id).iter();
        seen.any(|(_, seen)| seen.got().is_none())
    }

    /// Counts the processes that were throttled while the case was timed.
    pub fn throttled(self, id: &CaseId) -> u32 {
        self.count_timed(id, |facts| facts.gpu.throttled)
    }

    /// Counts the processes of which the throttling is unknown.
    pub fn unwatched(self, id: &CaseId) -> u32 {
        self.count_timed(id, |facts| {
            facts.gpu.throttle_reasons.is_none() && !facts.gpu.throttled
        })
    }

    /// Counts the processes that shared the GPU with other processes.
    pub fn shared(self, id: &CaseId) -> u32 {
        self.count_timed(id, |facts| {
            let others = facts.gpu.other_processes.as_ref();
            others.is_some_and(|others| !others.is_empty())
        })
    }

    /// Lists the other processes that used the GPU while the case was timed, each once.
    pub fn others(self, id: &CaseId) -> Vec<OtherProcess> {
        let looks = self.timed(id);
        looks
            .filter_map(|facts| facts.gpu.other_processes.clone())
            .reduce(OtherProcess::together)
            .unwrap_or_default()
    }

    fn count_timed(self, id: &CaseId, is_meant: impl Fn(&TimeFacts) -> bool) -> u32 {
        count(self.timed(id).filter(|facts| is_meant(facts)).count())
    }

    /// Returns the timing processes of a case that ended well, alone or against the base.
    pub fn timed(self, id: &CaseId) -> impl Iterator<Item = &'a TimeFacts> {
        self.filed()
            .times
            .get(id)
            .iter()
            .filter_map(|(_, seen)| seen.got())
            .chain(
                self.filed()
                    .pairs
                    .get(id)
                    .iter()
                    .filter_map(move |(_, seen)| Some(self.own(seen.got()?))),
            )
    }
}

pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Checks that processes are numbered from 0 without gaps or repeats and that all ended well. The iterator is lazy, so
/// the first problem decides.
pub(super) fn in_order<'a, T>(
    seen: &[(u32, &'a Seen<T>)],
) -> impl Iterator<Item = OrNotPassed<(u32, &'a T)>> {
    let numbered = (0u32..).zip(seen);
    numbered.map(|(expected, (process, seen))| {
        if expected == *process {
            Ok((expected, got(seen)?))
        } else {
            gap(expected, TimingGap::Numbering)
        }
    })
}

fn gap<T>(process: u32, gap: TimingGap) -> OrNotPassed<T> {
    inconclusive(Reason::TimingIncomplete { process, gap })
}

/// Checks that one process measured what the schedule asks for.
fn check_process(facts: &TimeFacts, process: u32, schedule: &Schedule) -> OrNotPassed<()> {
    if facts.mode != schedule.mode {
        let (ran, planned) = (facts.mode, schedule.mode);
        return gap(process, TimingGap::Mode { ran, planned });
    }
    let counts = (facts.batched_ns.len(), facts.single_ns.len());
    check_counts(process, facts.launches_per_sample, counts, schedule)
}

/// Checks that there are as many samples as the schedule asks for.
pub(super) fn check_counts(
    process: u32,
    launches_per_sample: u32,
    (batched, singles): (usize, usize),
    schedule: &Schedule,
) -> OrNotPassed<()> {
    if launches_per_sample == 0 {
        return gap(process, TimingGap::NothingLaunched { side: Side::Head });
    }
    if batched == 0 || batched < schedule.iterations as usize {
        let (have, planned) = (batched, schedule.iterations);
        return gap(process, TimingGap::Batched { have, planned });
    }
    if singles < schedule.singles as usize {
        let (have, planned) = (singles, schedule.singles);
        return gap(process, TimingGap::Singles { have, planned });
    }
    Ok(())
}

/// Checks that one process measured what the pairing asks for.
fn check_pair(facts: &PairFacts, process: u32, pairing: &Pairing) -> OrNotPassed<()> {
    let blocks = facts.blocks.len();
    for (of, side) in [(&facts.head, Side::Head), (&facts.base, Side::Base)] {
        if blocks < pairing.least_blocks as usize || of.batched_ns.len() != 2 * blocks {
            let (samples, least) = (of.batched_ns.len(), pairing.least_blocks);
            return gap(
                process,
                TimingGap::Blocks {
                    side,
                    samples,
                    blocks,
                    least,
                },
            );
        }
        if of.single_ns.is_empty() {
            return gap(process, TimingGap::NoSingles { side });
        }
        if of.launches_per_sample == 0 {
            return gap(process, TimingGap::NothingLaunched { side });
        }
    }
    if facts.head.mode != facts.base.mode {
        return gap(process, TimingGap::TwoModes);
    }
    Ok(())
}

/// Returns true if a process is dropped because throttling left it less than half of its blocks. Half of the blocks are
/// enough for a median.
fn is_set_aside(facts: &PairFacts) -> bool {
    let good = facts.blocks.iter().filter(|block| !block.throttled).count();
    good == 0 || good * 2 < facts.blocks.len()
}

/// Returns NVML's names for what throttled the GPU, each once.
fn throttle_causes(seen: &[(u32, &Seen<TimeFacts>)]) -> Vec<String> {
    let mut causes: Vec<String> = seen
        .iter()
        .filter_map(|(_, seen)| seen.got())
        .filter(|facts| facts.gpu.throttled)
        .flat_map(|facts| facts.gpu.throttle_reasons.iter().flatten().cloned())
        .collect();
    causes.sort_unstable();
    causes.dedup();
    causes
}
