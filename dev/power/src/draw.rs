//! Draws runs from recorded processes. Whole processes are drawn, because samples of one process have in common what
//! only that process saw.
//!
//! Within a verdict no process comes twice, as on a machine: a process that is drawn twice agrees with itself, and the
//! spread that the rule relies on would be too small.

use judge::stats::sequential::{Decision, Schedule};

use crate::dice::Dice;
use crate::prepared::{How, Prepared, Timed, Unusable};
use crate::recording::Change;
use crate::settings::Settings;
use crate::share::Share;

/// Counts of the verdicts that the rule gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub runs: Runs,
    pub cells: Vec<Cell>,
}

/// Shares of the runs whose contests are all unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Runs {
    /// The share of runs with a failing contest.
    pub failed: Share,
    /// The share of runs with an inconclusive contest.
    pub inconclusive: Share,
}

/// Verdicts on one contest at one change.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The index of the contest in [`Analysis::contests`](crate::Analysis::contests).
    pub contest: usize,
    pub change: f64,
    pub how: How,
    pub failed: Share,
    pub inconclusive: Share,
    /// Fresh processes and GPU seconds of a verdict, on average.
    pub processes: f64,
    pub seconds: f64,
    /// GPU seconds of the longest verdict.
    pub most_seconds: f64,
}

impl Counted {
    pub fn of(&self, how: How) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.how == how)
    }

    /// Returns the cells of about this slowdown, whether head did more work or its samples were scaled.
    pub fn at_change(&self, change: f64) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| {
            matches!(cell.how, How::Slowed | How::Scaled)
                && (cell.change - change).abs() <= 0.1 * change
        })
    }
}

/// The answer of the rule for head against base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Slower,
    /// Head is as fast or faster, so a gate would not stop it.
    Clear,
    /// The rule decides neither for nor against head.
    Open,
}

/// An answer of the rule, and what it cost.
struct Ruling {
    call: Call,
    processes: u32,
    seconds: f64,
}

/// The rule, with the bounds for each contest.
pub(crate) struct Own {
    schedules: Vec<Schedule>,
    /// Processes that one verdict may take.
    most: usize,
}

impl Own {
    /// Prepares the rule for each contest.
    ///
    /// # Errors
    /// If the settings make no rule.
    pub fn of(contests: &[Prepared], settings: &Settings) -> Result<Self, Unusable> {
        let schedule = |contest: &Prepared| settings.rule(contest.resolution).schedule();
        Ok(Self {
            schedules: contests.iter().map(schedule).collect::<Result<_, _>>()?,
            most: settings.most_processes(),
        })
    }
}

/// Counts the verdicts of the rule on processes drawn at random.
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

/// Applies the rule to processes in the order drawn, and counts those that it used.
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

/// Returns verdicts on each contest by its processes in the order of measurement, none of them used twice. They are
/// few, but independent of each other, and contain whatever moved the machine between one process and the next.
pub(crate) fn replay(contests: &[Prepared], rule: &Own) -> Vec<Cell> {
    contests
        .iter()
        .zip(&rule.schedules)
        .enumerate()
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
            tally.cell(index, change, how)
        })
        .collect()
}

/// An order of the processes of each contest, which is shuffled as far as processes are dealt.
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

    /// Draws `count` different processes of contest `index`, in random order (Fisher and Yates).
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
    failed: Share,
    inconclusive: Share,
    processes: u64,
    seconds: f64,
    most_seconds: f64,
}

impl Tally {
    fn add(&mut self, ruling: &Ruling) {
        self.failed.add(ruling.call == Call::Slower);
        self.inconclusive.add(ruling.call == Call::Open);
        self.processes += u64::from(ruling.processes);
        self.seconds += ruling.seconds;
        self.most_seconds = self.most_seconds.max(ruling.seconds);
    }

    fn cell(&self, contest: usize, change: f64, how: How) -> Cell {
        Cell {
            contest,
            change,
            how,
            failed: self.failed,
            inconclusive: self.inconclusive,
            processes: self.processes as f64 / self.failed.of as f64,
            seconds: self.seconds / self.failed.of as f64,
            most_seconds: self.most_seconds,
        }
    }
}

/// Draws runs of unchanged contests, one contest after the other, and then verdicts on each changed one. `judge` gets
/// the index of a contest and a change to scale its head by. If it returns `None`, nothing is counted.
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
        let (mut failed, mut inconclusive) = (false, false);
        for &index in nulls.iter().cycle().take(settings.cases as usize) {
            let Some(ruling) = judge(&mut dice, index, 0.0) else {
                continue;
            };
            failed |= ruling.call == Call::Slower;
            inconclusive |= ruling.call == Call::Open;
            if let Some(tally) = tallies.get_mut(index) {
                tally.add(&ruling);
            }
        }
        runs.failed.add(failed);
        runs.inconclusive.add(inconclusive);
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
        cells.push(tally.cell(index, recorded, how));
        if contest.change == Change::None {
            for &change in &settings.changes {
                let tally = drawn(change);
                cells.push(tally.cell(index, change, How::Scaled));
            }
        }
    }
    Counted { runs, cells }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::contest;
    use proptest::prelude::*;

    #[test]
    fn a_replay_uses_each_process_once_and_in_order() {
        let settings = Settings {
            quiet: Vec::new(),
            looks: vec![4],
            ..Settings::default()
        };
        let contests = [Prepared::of(&contest(43, 0.0005), 32.0, 2).unwrap()];
        let rule = Own::of(&contests, &settings).unwrap();
        let [cell] = replay(&contests, &rule).try_into().unwrap();
        // Four each, until the three that are left are too few.
        assert_eq!((cell.failed.of, cell.processes), (10, 4.0));
        assert_eq!((cell.failed.hits, cell.how), (0, How::Unchanged));
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
