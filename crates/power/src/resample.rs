//! Runs drawn from recorded processes. Processes are what is drawn, whole: samples of one process agree
//! with each other on what only that process saw.
//!
//! Within a verdict no process comes twice, as none does on a machine: a process that is drawn twice agrees
//! with itself, and the spread that the rule lives by would be too small.

use verdict::stats::sequential::{Decision, Schedule};

use crate::analysis::{Cell, How, Runs, Settings};
use crate::prepared::{Halves, Pair, Prepared, Processes, Samples, Timed};
use crate::recording::Change;
use crate::rivals::{Call, Rival};
use crate::share::Share;
use crate::simulate::Dice;

/// What a comparer said once, and what that took.
struct Ruling {
    call: Call,
    processes: u32,
    seconds: f64,
}

/// Counts of one comparer at one setting.
pub(crate) struct Counted {
    pub runs: Runs,
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
        Some(ruling(schedule, &drawn, change))
    })
}

/// As many of `drawn` as the rule asks for.
fn ruling(schedule: &Schedule, drawn: &[&Timed], change: f64) -> Ruling {
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
    Ruling {
        call,
        processes,
        seconds: used.map(|process| process.seconds).sum(),
    }
}

/// Verdicts on each contest by its processes in the order of measurement, none of them used twice: few,
/// but independent of each other, and with whatever moved the machine between one process and the next.
pub(crate) fn replay(contests: &[Prepared], overhead: f64, rule: &Own) -> Vec<Cell> {
    let contests = contests.iter().zip(&rule.schedules).enumerate();
    contests
        .map(|(index, (contest, schedule))| {
            let all: Vec<&Timed> = contest.processes.iter().collect();
            let mut rest = all.as_slice();
            let mut tally = Tally::default();
            while rest.len() >= rule.most {
                let ruling = ruling(schedule, rest, 0.0);
                tally.add(&ruling);
                rest = rest
                    .get(ruling.processes.max(1) as usize..)
                    .unwrap_or_default();
            }
            let (change, how) = contest.as_recorded();
            tally.cell(index, change, how, overhead)
        })
        .collect()
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
    most_seconds: f64,
}

impl Tally {
    fn add(&mut self, ruling: &Ruling) {
        self.red.add(ruling.call == Call::Slower);
        self.open.add(ruling.call == Call::Open);
        self.processes += u64::from(ruling.processes);
        self.seconds += ruling.seconds;
        self.most_seconds = self.most_seconds.max(ruling.seconds);
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
            most_seconds: self.most_seconds * overhead,
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
    let mut tallies = vec![Tally::default(); contests.len()];
    let nulls: Vec<usize> = (0..contests.len())
        .filter(|&index| {
            let contest = contests.get(index);
            contest.is_some_and(|contest| contest.change == Change::None)
        })
        .collect();
    let mut runs = Runs::default();
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
        runs.red.add(red);
        runs.open.add(open);
    }
    let mut cells = Vec::new();
    for (index, (contest, tally)) in contests.iter().zip(&tallies).enumerate() {
        let (recorded, how) = contest.as_recorded();
        let mut drawn = |change: f64| {
            let mut tally = Tally::default();
            for _ in 0..settings.verdicts {
                if let Some(ruling) = judge(&mut dice, index, change) {
                    tally.add(&ruling);
                }
            }
            tally
        };
        let tally = match contest.change {
            Change::None => *tally,
            Change::OtherCode | Change::Slower(_) => drawn(0.0),
        };
        cells.push(tally.cell(index, recorded, how, settings.overhead));
        if contest.change == Change::None {
            for &change in &settings.changes {
                let tally = drawn(change);
                cells.push(tally.cell(index, change, How::Scaled, settings.overhead));
            }
        }
    }
    Counted { runs, cells }
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

    #[test]
    fn a_replay_uses_each_process_once_and_in_order() {
        let settings = Settings {
            looks: vec![4],
            ..Settings::default()
        };
        let contests = [prepared(&World::quiet(), 43)];
        let rule = Own {
            schedules: vec![settings.rule(1e-5).schedule().unwrap()],
            most: 5,
        };
        let [cell] = replay(&contests, 1.0, &rule).try_into().unwrap();
        // Four each, until the three that are left are too few.
        assert_eq!((cell.red.of, cell.processes), (10, 4.0));
        assert_eq!((cell.red.hits, cell.how), (0, How::Unchanged));
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
