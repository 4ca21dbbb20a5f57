//! Computes the values of a case's profiles.

use super::{MetricValue, Repeats, Spread, misplaced};
use crate::index::View;
use crate::not_passed::{OrNotPassed, got, inconclusive, unsupported};
use model::*;

impl<'a> View<'_, 'a> {
    /// Returns true if this run profiles the case.
    ///
    /// # Errors
    /// Fails if the run has no GPU.
    fn is_profiled(self, id: &CaseId) -> OrNotPassed<bool> {
        self.case(id)?;
        self.device()?;
        Ok(self.plan().profiling.is_some())
    }

    /// Returns the median of the repeats, with the smallest and the largest of them.
    pub(super) fn profile_value(self, id: &CaseId, metric: Metric) -> OrNotPassed<MetricValue> {
        let Metric::Profile(of) = metric else {
            return misplaced(metric);
        };
        if self.is_profiled(id)? {
            self.timeable(id)?;
        }
        let profiles = self.profiles(id)?;
        let mut figures = Vec::new();
        for profile in profiles {
            figures.push(figure(profile, of)?);
        }
        figures.sort_unstable_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (figures.first(), figures.last()) else {
            return inconclusive(Reason::NotInProfile { metric });
        };
        let number = if figures.iter().any(|figure| figure.is_nan()) {
            f64::NAN
        } else {
            figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
        };
        Ok(MetricValue {
            number,
            spread: Some(Spread::Repeats(Repeats {
                low,
                high,
                count: figures.len(),
            })),
        })
    }
}

/// Returns the value over all kernels of the launch.
pub fn figure(profile: &ProfileFacts, of: ProfileMetric) -> OrNotPassed<f64> {
    let metric = Metric::Profile(of);
    let figures = profile
        .kernels
        .iter()
        .map(|kernel| match kernel.metrics.get(&of) {
            Some(seen) => got(seen).map(|value| value.0),
            None => inconclusive(Reason::NotInProfile { metric }),
        })
        .collect::<OrNotPassed<Vec<f64>>>()?;
    match (figures.as_slice(), of.joined()) {
        ([], _) => inconclusive(Reason::NotInProfile { metric }),
        ([one], _) => Ok(*one),
        (all, Joined::Sum) => Ok(all.iter().sum()),
        (all, Joined::Apart) => unsupported(Reason::Unsupported(Unsupported::SeveralKernels {
            kernels: u32::try_from(all.len()).unwrap_or(u32::MAX),
        })),
    }
}
