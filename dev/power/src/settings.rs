//! Holds the rule whose verdicts are counted, and how many of them are drawn.

use judge::stats::sequential::Rule;

/// The rule to count verdicts of, and how many to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Slowdown that the rule still passes, as a share.
    pub tolerance: f64,
    /// Numbers of processes after which the rule passes what is plainly unchanged.
    pub quiet: Vec<u32>,
    /// Numbers of processes after which the rule may decide.
    pub looks: Vec<u32>,
    /// Chance of any false alarm in a whole run.
    pub run_false_alarm: f64,
    /// Chance to pass a slowdown beyond the tolerance, of one contest.
    pub miss: f64,
    /// The number of contests in a run.
    pub cases: u32,
    /// The number of unchanged runs to draw.
    pub runs: u32,
    /// The number of verdicts to draw for each changed contest.
    pub verdicts: u32,
    /// Slowdowns that samples of unchanged contests are scaled by, as shares.
    pub changes: Vec<f64>,
    pub seed: u64,
    /// The confidence of the bounds of each share.
    pub confidence: f64,
}

impl Default for Settings {
    /// Returns the rule that `gatekeeper run` judges by.
    fn default() -> Self {
        let pairing = config::pairing(true);
        Self {
            tolerance: 0.005,
            quiet: pairing.quiet,
            looks: pairing.looks,
            run_false_alarm: pairing.false_alarms.0,
            miss: pairing.misses.0,
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
            quiet: self.quiet.clone(),
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
