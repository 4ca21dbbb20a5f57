//! From a recording to counted shares.

use serde::{Deserialize, Serialize};
use verdict::stats::sequential::{Rule, Undecidable};

use crate::prepared::{Pair, Prepared};
use crate::recording::{Change, Contest, Recording};
use crate::resample::{self, Counted, Own};
use crate::rivals::Rival;
use crate::share::Share;

/// What is asked of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Of the rule, as a share.
    pub tolerance: f64,
    /// Numbers of processes at which the rule looks.
    pub looks: Vec<u32>,
    /// Chance of any false alarm in a whole run.
    pub run_false_alarm: f64,
    /// Chance to pass what lies beyond the tolerance, of one contest.
    pub miss: f64,
    /// Contests in a run.
    pub cases: u32,
    /// Unchanged runs to draw for the rule.
    pub runs: u32,
    /// Verdicts to draw for each changed contest.
    pub verdicts: u32,
    /// One in so many of both for each setting of a rival and for other settings of the rule.
    pub thinned: u32,
    /// Changes that samples of unchanged contests are scaled by, as shares.
    pub changes: Vec<f64>,
    /// GPU time of a process over that in its samples: warming up, clocks, what was dropped.
    pub overhead: f64,
    pub seed: u64,
    /// Of the bounds of each share.
    pub confidence: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tolerance: 0.005,
            looks: vec![6, 10, 16],
            run_false_alarm: 0.01,
            miss: 0.01,
            cases: 60,
            runs: 4000,
            verdicts: 20_000,
            thinned: 10,
            changes: vec![0.01, 0.02, 0.05],
            overhead: 1.0,
            seed: 1,
            confidence: 0.95,
        }
    }
}

impl Settings {
    /// The rule for one contest whose clock resolves a log ratio to `resolution`.
    pub(crate) fn rule(&self, resolution: f64) -> Rule {
        Rule {
            tolerance: self.tolerance,
            looks: self.looks.clone(),
            false_alarm: self.run_false_alarm / f64::from(self.cases),
            miss: self.miss,
            resolution,
        }
    }

    /// Processes that one verdict may take, the one that confirms included.
    fn most_processes(&self) -> usize {
        self.looks.last().map_or(0, |&last| last as usize + 1)
    }

    /// The rule at other levels and tolerances.
    fn around(&self) -> Vec<Self> {
        let levels = [0.001, 0.05, 0.2, 0.5].map(|run_false_alarm| Self {
            run_false_alarm,
            ..self.clone()
        });
        let tolerances = [0.0025, 0.01].map(|tolerance| Self {
            tolerance,
            ..self.clone()
        });
        let others = levels.into_iter().chain(tolerances);
        others.filter(|other| other != self).collect()
    }

    fn thin(&self) -> Self {
        let by = self.thinned.max(1);
        Self {
            runs: self.runs.div_ceil(by),
            verdicts: self.verdicts.div_ceil(by),
            ..self.clone()
        }
    }
}

/// Why a recording says nothing.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unusable {
    #[error("no contest of the recording is unchanged")]
    NothingUnchanged,
    #[error("{contest}: {processes} processes, where one verdict may take {needs}")]
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

/// What came out, ready to print: [`Analysis::markdown`].
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    pub device: String,
    pub driver: String,
    pub date: String,
    pub settings: Settings,
    pub contests: Vec<Spread>,
    /// The rule as asked for first, then at other settings, then its rivals.
    pub points: Vec<Point>,
    /// What the rule says of each contest with its processes in the order of measurement, each used once.
    pub replayed: Vec<Cell>,
}

/// What the processes of one contest say together.
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
    /// Of each process with the one after it: the rule takes them for independent.
    pub correlation: f64,
    /// GPU time of a process, with the overhead.
    pub seconds: f64,
}

/// One comparer at one setting: a point of its receiver operating curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub comparer: Comparer,
    pub setting: String,
    pub runs: Runs,
    pub cells: Vec<Cell>,
}

/// Of runs of unchanged contests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Runs {
    /// With anything red.
    pub red: Share,
    /// With anything inconclusive.
    pub open: Share,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparer {
    Gatekeeper,
    Rival { name: &'static str, pair: Pair },
}

/// How a change came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing changed.
    Unchanged,
    /// Other machine code for the same work. It takes what it takes: the change is the mean over all of its
    /// processes, and whether red is right depends on it.
    OtherCode,
    /// A kernel that truly takes longer.
    Dial,
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
    pub red: Share,
    pub open: Share,
    /// Fresh processes and GPU seconds of a verdict, on average.
    pub processes: f64,
    pub seconds: f64,
    /// GPU seconds of the verdict that took most.
    pub most_seconds: f64,
}

impl Point {
    pub fn of(&self, how: How) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.how == how)
    }

    /// Over all unchanged contests.
    pub fn false_alarms(&self) -> Share {
        self.of(How::Unchanged)
            .fold(Share::default(), |sum, cell| sum.and(cell.red))
    }

    /// Cells of about this change, by a dial or scaled.
    pub fn at_change(&self, change: f64) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| {
            matches!(cell.how, How::Dial | How::Scaled)
                && (cell.change - change).abs() <= 0.1 * change
        })
    }
}

/// Draws runs from `recording` and counts what the rule and its rivals say of them.
pub fn analyse(recording: &Recording, settings: &Settings) -> Result<Analysis, Unusable> {
    let prepared: Vec<Prepared> = recording
        .contests
        .iter()
        .map(|contest| {
            let needs = settings.most_processes().max(2);
            Prepared::of(contest, recording.tick_ns, needs, &settings.changes)
        })
        .collect::<Result<_, _>>()?;
    if !recording.contests.iter().any(Contest::unchanged) {
        return Err(Unusable::NothingUnchanged);
    }
    let mut points = vec![own(&prepared, settings, 0)?];
    let replayed = resample::replay(&prepared, settings.overhead, &rule_of(&prepared, settings)?);
    let thin = settings.thin();
    for other in thin.around() {
        points.push(own(&prepared, &other, points.len() as u64)?);
    }
    for rival in Rival::all() {
        for pair in Pair::ALL {
            let stream = points.len() as u64;
            let Some(counted) = resample::rival(&prepared, &thin, &rival, pair, stream) else {
                continue;
            };
            let name = rival.name();
            let comparer = Comparer::Rival { name, pair };
            points.push(point(comparer, rival.setting(), counted));
        }
    }
    Ok(Analysis {
        device: recording.device.clone(),
        driver: recording.driver.clone(),
        date: recording.date.clone(),
        settings: settings.clone(),
        contests: prepared
            .iter()
            .map(|contest| contest.spread(settings.overhead))
            .collect(),
        points,
        replayed,
    })
}

/// The schedule of `settings` for each contest.
fn rule_of(prepared: &[Prepared], settings: &Settings) -> Result<Own, Unusable> {
    let schedule = |contest: &Prepared| settings.rule(contest.resolution()).schedule();
    Ok(Own {
        schedules: prepared.iter().map(schedule).collect::<Result<_, _>>()?,
        most: settings.most_processes(),
    })
}

fn own(prepared: &[Prepared], settings: &Settings, stream: u64) -> Result<Point, Unusable> {
    let rule = rule_of(prepared, settings)?;
    let counted = resample::own(prepared, settings, &rule, stream);
    let setting = format!(
        "tolerance {} %, {} % a run",
        crate::rivals::percent(settings.tolerance),
        crate::rivals::percent(settings.run_false_alarm),
    );
    Ok(point(Comparer::Gatekeeper, setting, counted))
}

fn point(comparer: Comparer, setting: String, counted: Counted) -> Point {
    Point {
        comparer,
        setting,
        runs: counted.runs,
        cells: counted.cells,
    }
}
