//! Runs drawn from recorded processes. Processes are what is drawn, whole: samples of one process agree
//! with each other on what only that process saw.
//!
//! Within a verdict no process comes twice, as none does on a machine: a process that is drawn twice agrees
//! with itself, and the spread that the rule lives by would be too small.

use verdict::stats::sequential::{Decision, Schedule};

use crate::analysis::{Cell, How, Settings, Spread, Unusable};
use crate::recording::{Contest, Process};
use crate::rivals::{Call, Half, Rival};
use crate::share::Share;
use crate::simulate::Dice;

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
    true_change: f64,
    processes: Vec<Timed>,
    /// The clock's step over the sum that a block compares.
    resolution: f64,
    batched: Halves,
    /// `None` where a process has none.
    single: Option<Halves>,
}

struct Timed {
    ln_ratio: f64,
    seconds: f64,
}

/// One half of each process.
struct Halves {
    base: Vec<Half>,
    /// As measured, then scaled by each change.
    head: Vec<(f64, Vec<Half>)>,
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
                seconds: process.sample_seconds(),
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
            true_change: contest.true_change,
            processes,
            resolution: tick_ns * blocks / total,
            single: Halves::of(contest, changes, Samples::Single),
            batched,
        })
    }

    pub(crate) fn resolution(&self) -> f64 {
        self.resolution
    }

    fn unchanged(&self) -> bool {
        self.true_change == 0.0
    }

    pub(crate) fn spread(&self, overhead: f64) -> Spread {
        let n = self.processes.len() as f64;
        let ratios = || self.processes.iter().map(|process| process.ln_ratio);
        let mean = ratios().sum::<f64>() / n;
        let squares: f64 = ratios().map(|ratio| (ratio - mean).powi(2)).sum();
        let deviation = (squares / (n - 1.0)).sqrt();
        let farthest = ratios()
            .map(|ratio| (ratio - mean).abs())
            .fold(0.0, f64::max);
        let seconds: f64 = self.processes.iter().map(|process| process.seconds).sum();
        Spread {
            title: self.title.clone(),
            true_change: self.true_change,
            processes: self.processes.len(),
            ratio: mean.exp(),
            ln_deviation: deviation,
            farthest: if deviation > 0.0 {
                farthest / deviation
            } else {
                0.0
            },
            seconds: seconds / n * overhead,
        }
    }
}

/// What a comparer said once, and what that took.
struct Ruling {
    call: Call,
    processes: u32,
    seconds: f64,
}

/// Counts of one comparer at one setting.
pub(crate) struct Counted {
    pub runs_red: Share,
    pub runs_open: Share,
    pub cells: Vec<Cell>,
}

/// The rule, with the bounds for each contest.
pub(crate) struct Own {
    pub schedules: Vec<Schedule>,
    /// Processes that one verdict may take.
    pub most: usize,
}

pub(crate) fn own(contests: &[Prepared], settings: &Settings, rule: &Own, stream: u64) -> Counted {
    let mut decks = Decks::of(contests);
    count(contests, settings, stream, |dice, index, change| {
        let (contest, schedule) = (contests.get(index)?, rule.schedules.get(index)?);
        let dealt = decks.deal(dice, index, rule.most);
        let drawn: Vec<&Timed> = dealt
            .iter()
            .filter_map(|&process| contest.processes.get(process))
            .collect();
        let shift = change.ln_1p();
        let ratios: Vec<f64> = drawn
            .iter()
            .map(|process| process.ln_ratio + shift)
            .collect();
        let (call, processes) = match schedule.decide(&ratios) {
            Ok(Decision::Pass(evidence)) => (Call::Clear, evidence.processes_used()),
            Ok(Decision::Fail(evidence)) => (Call::Slower, evidence.processes_used()),
            Ok(Decision::Open(evidence)) => (Call::Open, evidence.processes_used()),
            // As many as it may ask for were dealt, so it did not decide.
            Ok(Decision::More(most) | Decision::Confirm(most)) => (Call::Open, most),
            Err(_) => (Call::Open, ratios.len() as u32),
        };
        let used = drawn.iter().take(processes as usize);
        Some(Ruling {
            call,
            processes,
            seconds: used.map(|process| process.seconds).sum(),
        })
    })
}

/// `None` where a contest has no samples of that kind.
pub(crate) fn rival(
    contests: &[Prepared],
    settings: &Settings,
    rival: &Rival,
    pair: Pair,
    stream: u64,
) -> Option<Counted> {
    let mut decks = Decks::of(contests);
    let halves: Vec<&Halves> = contests
        .iter()
        .map(|contest| match pair.samples {
            Samples::Batched => Some(&contest.batched),
            Samples::Single => contest.single.as_ref(),
        })
        .collect::<Option<_>>()?;
    Some(count(contests, settings, stream, |dice, index, change| {
        let halves = halves.get(index)?;
        let (_, heads) = halves.head.iter().find(|&&(scaled, _)| scaled == change)?;
        let &[first, second] = decks.deal(dice, index, 2) else {
            return None;
        };
        let (base, processes) = match pair.processes {
            Processes::Apart => (second, 2),
            Processes::Together => (first, 1),
        };
        let (base, head) = (halves.base.get(base)?, heads.get(first)?);
        Some(Ruling {
            call: rival.call(base, head),
            processes,
            seconds: base.seconds() + head.seconds(),
        })
    }))
}

/// For each contest an order of its processes that is shuffled as far as it is dealt.
struct Decks(Vec<Vec<usize>>);

impl Decks {
    fn of(contests: &[Prepared]) -> Self {
        Self(
            contests
                .iter()
                .map(|contest| (0..contest.processes.len()).collect())
                .collect(),
        )
    }

    /// `count` different processes of contest `index`, in random order (Fisher and Yates).
    fn deal(&mut self, dice: &mut Dice, index: usize, count: usize) -> &[usize] {
        let Some(deck) = self.0.get_mut(index) else {
            return &[];
        };
        let count = count.min(deck.len());
        for place in 0..count {
            let other = place + dice.below(deck.len() - place);
            deck.swap(place, other);
        }
        deck.get(..count).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Default)]
struct Tally {
    red: Share,
    open: Share,
    processes: u64,
    seconds: f64,
}

impl Tally {
    fn add(&mut self, ruling: &Ruling) {
        self.red.add(ruling.call == Call::Slower);
        self.open.add(ruling.call == Call::Open);
        self.processes += u64::from(ruling.processes);
        self.seconds += ruling.seconds;
    }

    fn cell(&self, contest: usize, change: f64, how: How, overhead: f64) -> Cell {
        Cell {
            contest,
            change,
            how,
            red: self.red,
            open: self.open,
            processes: self.processes as f64 / self.red.of as f64,
            seconds: self.seconds / self.red.of as f64 * overhead,
        }
    }
}

/// Runs of unchanged contests, each in turn, and then verdicts on each changed one.
fn count(
    contests: &[Prepared],
    settings: &Settings,
    stream: u64,
    mut judge: impl FnMut(&mut Dice, usize, f64) -> Option<Ruling>,
) -> Counted {
    let mut dice = Dice::new(settings.seed, stream);
    let nulls: Vec<usize> = (0..contests.len())
        .filter(|&index| contests.get(index).is_some_and(Prepared::unchanged))
        .collect();
    let mut tallies = vec![Tally::default(); contests.len()];
    let (mut runs_red, mut runs_open) = (Share::default(), Share::default());
    for _ in 0..settings.runs {
        let (mut red, mut open) = (false, false);
        for &index in nulls.iter().cycle().take(settings.cases as usize) {
            let Some(ruling) = judge(&mut dice, index, 0.0) else {
                continue;
            };
            red |= ruling.call == Call::Slower;
            open |= ruling.call == Call::Open;
            if let Some(tally) = tallies.get_mut(index) {
                tally.add(&ruling);
            }
        }
        runs_red.add(red);
        runs_open.add(open);
    }
    let mut cells = Vec::new();
    for (index, (contest, tally)) in contests.iter().zip(&tallies).enumerate() {
        if contest.unchanged() {
            cells.push(tally.cell(index, 0.0, How::Unchanged, settings.overhead));
        }
        let mut drawn = |change: f64, how: How| {
            let mut tally = Tally::default();
            for _ in 0..settings.verdicts {
                if let Some(ruling) = judge(&mut dice, index, change) {
                    tally.add(&ruling);
                }
            }
            let change = contest.true_change + change;
            cells.push(tally.cell(index, change, how, settings.overhead));
        };
        if contest.unchanged() {
            for &change in &settings.changes {
                drawn(change, How::Scaled);
            }
        } else {
            drawn(0.0, How::Dial);
        }
    }
    Counted {
        runs_red,
        runs_open,
        cells,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::World;
    use proptest::prelude::*;

    fn prepared(world: &World, processes: usize) -> Prepared {
        Prepared::of(&world.contest("k", processes, 1), 32.0, 2, &[0.01]).unwrap()
    }

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
        let contest = prepared(&World::quiet(), 5);
        assert!((contest.resolution() / (32.0 / 400_000.0) - 1.0).abs() < 0.02);
    }

    #[test]
    fn only_recorded_kinds_of_samples_are_judged() {
        let settings = Settings {
            runs: 1,
            verdicts: 1,
            ..Settings::default()
        };
        let [single, batched, ..] = Pair::ALL;
        let median = Rival::Median { beyond: 0.02 };
        let without = [prepared(&World::quiet(), 5)];
        assert!(rival(&without, &settings, &median, single, 0).is_none());
        assert!(rival(&without, &settings, &median, batched, 0).is_some());
        let with = [prepared(
            &World {
                singles: 4,
                ..World::quiet()
            },
            5,
        )];
        assert!(rival(&with, &settings, &median, single, 0).is_some());
    }

    #[test]
    fn processes_apart_see_what_processes_together_cancel() {
        // Both sides of a process move together by 5 %.
        let contests = [prepared(
            &World {
                common: 0.05,
                ..World::quiet()
            },
            100,
        )];
        let settings = Settings {
            runs: 100,
            verdicts: 100,
            ..Settings::default()
        };
        let median = Rival::Median { beyond: 0.02 };
        let alarms = |pair| {
            rival(&contests, &settings, &median, pair, 0).unwrap().cells[0]
                .red
                .rate()
        };
        let [_, apart, _, together] = Pair::ALL;
        assert!(alarms(apart) > 0.3);
        assert_eq!(alarms(together), 0.0);
    }

    proptest! {
        #[test]
        fn dealt_processes_are_different(of in 1usize..30, count in 0usize..40, seed in any::<u64>()) {
            let mut decks = Decks(vec![(0..of).collect()]);
            let mut dice = Dice::new(seed, 0);
            for _ in 0..3 {
                let mut dealt = decks.deal(&mut dice, 0, count).to_vec();
                prop_assert_eq!(dealt.len(), count.min(of));
                dealt.sort_unstable();
                dealt.dedup();
                prop_assert_eq!(dealt.len(), count.min(of));
            }
        }
    }
}
