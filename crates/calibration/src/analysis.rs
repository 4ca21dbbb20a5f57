//! From a recording to counted shares.

use judge::stats::sequential::{Rule, Undecidable};

use crate::draw;
use crate::prepared::prepare;
use crate::recording::{Change, Recording};
use crate::share::Share;

/// The rule to count verdicts of, and how many to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Slowdown that the rule still passes, as a share.
    pub tolerance: f64,
    /// Numbers of processes after which the rule may decide.
    pub looks: Vec<u32>,
    /// Chance of any false alarm in a whole run.
    pub run_false_alarm: f64,
    /// Chance to pass a slowdown beyond the tolerance, of one contest.
    pub miss: f64,
    /// Contests in a run.
    pub cases: u32,
    /// Unchanged runs to draw.
    pub runs: u32,
    /// Verdicts to draw for each changed contest.
    pub verdicts: u32,
    /// Slowdowns that samples of unchanged contests are scaled by, as shares.
    pub changes: Vec<f64>,
    pub seed: u64,
    /// The confidence of the bounds of each share.
    pub confidence: f64,
}

impl Default for Settings {
    /// The rule that `gatekeeper run` judges by.
    fn default() -> Self {
        Self {
            tolerance: 0.005,
            looks: vec![6, 10, 20, 35],
            run_false_alarm: 0.01,
            miss: 0.01,
            cases: 60,
            runs: 4000,
            verdicts: 20_000,
            changes: vec![0.01, 0.02, 0.05],
            seed: 1,
            confidence: 0.95,
        }
    }
}

impl Settings {
    /// The rule for one contest whose timer resolves a log ratio to `resolution`.
    pub(crate) fn rule(&self, resolution: f64) -> Rule {
        Rule {
            tolerance: self.tolerance,
            looks: self.looks.clone(),
            false_alarm: self.run_false_alarm / f64::from(self.cases),
            miss: self.miss,
            resolution,
        }
    }

    /// Processes that one verdict may take, the confirming one included.
    pub(crate) fn most_processes(&self) -> usize {
        self.looks.last().map_or(0, |&last| last as usize + 1)
    }
}

/// Why no figures follow from a recording.
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

/// The figures of a recording, ready to print: [`Analysis::markdown`].
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    pub device: String,
    pub driver: String,
    pub date: String,
    pub settings: Settings,
    pub contests: Vec<Spread>,
    /// Verdicts of the rule on processes drawn at random.
    pub rule: Counted,
    /// Verdicts of the rule on the processes of each contest in the order of measurement, each used once.
    pub replayed: Vec<Cell>,
}

/// Statistics that the processes of one contest share.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    pub title: String,
    pub change: Change,
    pub processes: usize,
    /// Geometric mean of head / base.
    pub ratio: f64,
    /// Standard deviation between processes of its logarithm.
    pub ln_deviation: f64,
    /// Distance of the farthest process, in standard deviations.
    pub farthest: f64,
    /// Correlation of each process with the one after it: the rule assumes that they are independent.
    pub correlation: f64,
    /// GPU time of a process.
    pub seconds: f64,
}

/// Verdicts of one comparer.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub runs: Runs,
    pub cells: Vec<Cell>,
}

/// Runs of unchanged contests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Runs {
    /// With a failing contest.
    pub failed: Share,
    /// With an inconclusive one.
    pub inconclusive: Share,
}

/// The way a change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing changed.
    Unchanged,
    /// Other machine code for the same work. Its change is the mean over all of its processes, and whether
    /// it should fail depends on that.
    OtherCode,
    /// A kernel that does more work.
    Slowed,
    /// Unchanged samples of the head, multiplied.
    Scaled,
}

/// Verdicts on one contest at one change.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Index into [`Analysis::contests`].
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

    /// Over all unchanged contests.
    pub fn false_alarms(&self) -> Share {
        self.of(How::Unchanged)
            .fold(Share::default(), |sum, cell| sum.and(cell.failed))
    }

    /// Cells of about this slowdown, by more work or scaled.
    pub fn at_change(&self, change: f64) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| {
            matches!(cell.how, How::Slowed | How::Scaled)
                && (cell.change - change).abs() <= 0.1 * change
        })
    }
}

/// Draws runs from `recording` and counts the verdicts of the rule.
///
/// # Errors
/// Where the recording is too small or broken, or the settings make no rule.
pub fn analyse(recording: &Recording, settings: &Settings) -> Result<Analysis, Unusable> {
    let prepared = prepare(recording, settings)?;
    let own = draw::Own::of(&prepared, settings)?;
    Ok(Analysis {
        device: recording.device.clone(),
        driver: recording.driver.clone(),
        date: recording.date.clone(),
        settings: settings.clone(),
        contests: prepared.iter().map(|contest| contest.spread()).collect(),
        rule: draw::own(&prepared, settings, &own, 0),
        replayed: draw::replay(&prepared, &own),
    })
}
