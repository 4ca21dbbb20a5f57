//! A spread between processes that was measured before, by many more of them than a run has.
//!
//! It is believed only as far as the run's own processes bear it out: where they spread by more than it
//! allows, they are believed and it is not. A run that spreads by less proves nothing of that kind: its few
//! processes follow one another within seconds, and see no drift.

use super::group::{Comparison, Group, compare, comparison, student};
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// Level of the test before pooling. One at 5 % passes spreads that are twice what was calibrated and then
/// cries wolf 5 to 6 times in 100 rather than 2.5; at 25 %, which Bancroft (Biometrics 20, 1964) and those
/// after him found for pooling, no worse than Welch's interval by itself does with as few processes.
pub const POOLED_FROM: f64 = 0.25;

/// A spread between processes that follows from a calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    ln_deviation: f64,
    freedom: u32,
}

impl Known {
    /// `None` where it cannot be believed: no number above zero, or of fewer than two processes.
    pub fn of(ln_deviation: f64, processes: u32) -> Option<Self> {
        let usable = ln_deviation.is_finite() && ln_deviation > 0.0 && processes >= 2;
        usable.then(|| Self {
            ln_deviation,
            freedom: processes - 1,
        })
    }

    /// Chance that processes which spread like the calibrated ones show the spread of `group` or more: the
    /// upper tail of Fisher's F, of the ratio of both variances.
    pub fn chance(&self, group: &Group) -> f64 {
        let ratio = (group.ln_deviation() / self.ln_deviation).powi(2);
        FisherSnedecor::new(f64::from(group.freedom()), f64::from(self.freedom))
            .map_or(0.0, |fisher| fisher.sf(ratio))
    }

    pub fn allows(&self, group: &Group) -> bool {
        self.chance(group) >= POOLED_FROM
    }

    /// Of it and of these groups, as of samples with one common variance: the mean of the variances,
    /// weighted by their degrees of freedom, which add up.
    fn pooled(&self, groups: &[&Group]) -> (f64, u32) {
        let own = (self.ln_deviation, self.freedom);
        let all = groups
            .iter()
            .map(|group| (group.ln_deviation(), group.freedom()));
        let (squares, freedom) = all
            .chain([own])
            .fold((0.0, 0u32), |(squares, sum), (s, df)| {
                (squares + s.powi(2) * f64::from(df), sum.saturating_add(df))
            });
        ((squares / f64::from(freedom)).sqrt(), freedom)
    }

    fn believed(&self, group: &Group) -> Group {
        match self.allows(group) {
            true => {
                let (ln_deviation, freedom) = self.pooled(&[group]);
                group.with_spread(ln_deviation, freedom)
            }
            false => *group,
        }
    }

    /// As [`compare`]. Where both sides bear the calibrated spread out, Student's interval with one variance
    /// for all three; else Welch's, of a side that does and one that does not.
    pub fn compare(&self, head: &Group, base: &Group) -> Comparison {
        if !(self.allows(head) && self.allows(base)) {
            return compare(&self.believed(head), &self.believed(base));
        }
        let (ln_deviation, freedom) = self.pooled(&[head, base]);
        let each = 1.0 / f64::from(head.processes()) + 1.0 / f64::from(base.processes());
        comparison(
            head.ln_ratio(base),
            ln_deviation.powi(2) * each,
            student(f64::from(freedom)),
        )
    }
}

#[cfg(test)]
mod tests;
