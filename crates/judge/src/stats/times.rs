//! Defines p50, p90, p99 and cv. Verdicts, causes, diagnoses, `tune` and every report use these definitions.
//!
//! In one process p50, mean, min and max come from batched samples, divided by the launches of a batch; p50 is their
//! median. p90, p99 and cv come from samples of one launch each, because batches hide tails. Quantiles are those of
//! [`Sample::quantile`], and cv is the standard deviation over the mean.
//!
//! Each process gives one value, and several processes give the geometric mean of their values ([`over_processes`]).
//! Processes are the independent observations, and the interval of a ratio is about this mean.

use super::Sample;
use super::group::geometric_mean;
use model::TimeFacts;

/// Standard error of one value that was rounded to steps of 1: the square root of the variance of a uniform
/// distribution.
const ROUNDING: f64 = 0.288_675_134_594_812_9;

/// The samples that one process took of a case.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTimes<'a> {
    /// The number of launches in one batched sample.
    pub launches: u32,
    pub batched_ns: &'a [u64],
    pub single_ns: &'a [u64],
    /// The smallest step of the clock.
    pub tick_ns: u64,
}

/// A value of one process, and the standard error that the clock's step alone gives it. Both have the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessValue {
    pub value: f64,
    pub step: f64,
}

impl<'a> From<&'a TimeFacts> for ProcessTimes<'a> {
    fn from(facts: &'a TimeFacts) -> Self {
        Self {
            launches: facts.launches_per_sample,
            batched_ns: &facts.batched_ns,
            single_ns: &facts.single_ns,
            tick_ns: facts.tick_ns,
        }
    }
}

impl ProcessTimes<'_> {
    pub fn p50(&self) -> Option<ProcessValue> {
        self.read_batches(Sample::median)
    }

    pub fn mean(&self) -> Option<ProcessValue> {
        self.read_batches(Sample::mean)
    }

    pub fn min(&self) -> Option<ProcessValue> {
        self.read_batches(Sample::min)
    }

    pub fn max(&self) -> Option<ProcessValue> {
        self.read_batches(Sample::max)
    }

    pub fn p90(&self) -> Option<ProcessValue> {
        self.quantile(0.90)
    }

    pub fn p99(&self) -> Option<ProcessValue> {
        self.quantile(0.99)
    }

    /// Returns the coefficient of variation. It is at least the rounding of the clock, because a smaller spread cannot
    /// be seen.
    pub fn cv(&self) -> Option<ProcessValue> {
        let sample = Sample::new(self.single_ns)?;
        let rounding = self.rounding();
        Some(ProcessValue {
            value: sample.deviation()?.max(rounding) / sample.mean(),
            step: rounding / sample.mean(),
        })
    }

    fn read_batches(&self, statistic: fn(&Sample) -> f64) -> Option<ProcessValue> {
        let launches = f64::from(self.launches);
        Some(ProcessValue {
            value: statistic(&Sample::new(self.batched_ns)?) / launches,
            step: self.rounding() / launches,
        })
    }

    fn quantile(&self, q: f64) -> Option<ProcessValue> {
        Some(ProcessValue {
            value: Sample::new(self.single_ns)?.quantile(q),
            step: self.rounding(),
        })
    }

    fn rounding(&self) -> f64 {
        ROUNDING * self.tick_ns as f64
    }
}

/// Returns the p50 of a case in ns, or `None` if no process has a time above zero.
pub fn p50<'a>(processes: impl IntoIterator<Item = &'a TimeFacts>) -> Option<f64> {
    let usable = processes
        .into_iter()
        .filter_map(|facts| Some(ProcessTimes::from(facts).p50()?.value))
        .filter(|ns| *ns > 0.0 && ns.is_finite());
    over_processes(&usable.collect::<Vec<_>>())
}

/// Returns the geometric mean, or `None` for no values.
pub fn over_processes(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| geometric_mean(values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ProcessGroup;

    fn process_times<'a>(batched_ns: &'a [u64], single_ns: &'a [u64]) -> ProcessTimes<'a> {
        ProcessTimes {
            launches: 10,
            batched_ns,
            single_ns,
            tick_ns: 32,
        }
    }

    #[test]
    fn p50_is_the_median_of_batches_for_each_launch() {
        let times = process_times(&[4000, 1000, 3000, 2000], &[900]);
        let value = |found: Option<ProcessValue>| found.unwrap().value;
        assert_eq!(value(times.p50()), 250.0);
        assert_eq!(value(times.mean()), 250.0);
        assert_eq!((value(times.min()), value(times.max())), (100.0, 400.0));
        assert!((times.p50().unwrap().step - 0.923_760).abs() < 1e-6);
    }

    #[test]
    fn tails_and_spread_come_from_single_launches() {
        let singles = [100, 200, 300, 400];
        let times = process_times(&[1], &singles);
        assert!((times.p90().unwrap().value - 370.0).abs() < 1e-9);
        assert!((times.p99().unwrap().value - 397.0).abs() < 1e-9);
        assert!((times.cv().unwrap().value - 129.099_444_873_580_56 / 250.0).abs() < 1e-12);
    }

    #[test]
    fn cv_is_never_less_than_the_rounding_of_the_clock() {
        let cv = process_times(&[1], &[1000, 1000, 1000]).cv().unwrap();
        assert_eq!(cv.value, cv.step);
        assert!((cv.value - ROUNDING * 32.0 / 1000.0).abs() < 1e-15);
    }

    #[test]
    fn nothing_measured_has_no_value() {
        let times = process_times(&[], &[7]);
        assert_eq!((times.p50(), times.cv()), (None, None));
        assert_eq!(over_processes(&[]), None);
    }

    #[test]
    fn processes_give_their_geometric_mean_in_any_order() {
        assert_eq!(
            over_processes(&[100.0, 400.0]),
            over_processes(&[400.0, 100.0])
        );
        assert!((over_processes(&[100.0, 400.0]).unwrap() - 200.0).abs() < 1e-9);
        let values = [101.0, 99.0, 102.5];
        let group = ProcessGroup::from_values(&values, 1e-9).unwrap();
        assert_eq!(over_processes(&values), Some(group.value()));
    }
}
