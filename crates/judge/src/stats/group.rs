//! Sums up one value from each of several independent processes, and compares two such groups. Everything is computed
//! on a log scale, where a ratio is a difference. The intervals assume that the logs of the values are independent and
//! normally distributed.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The two-sided level of all intervals in this module.
pub const CONFIDENCE: f64 = 0.95;

/// The power at which `smallest_visible` is stated.
pub const POWER: f64 = 0.80;

/// Positive values of at least two processes, summed up by mean and standard deviation of their logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessGroup {
    ln_mean: f64,
    /// Above zero: [`ProcessGroup::from_values`] refuses groups without any spread.
    ln_deviation: f64,
    /// The number of processes, at least two.
    n: u32,
}

impl ProcessGroup {
    /// Sums up values. `resolution` is the relative standard error that the clock's step alone gives one value. Values
    /// that agree more closely than that agree by rounding, so it is the least spread that is believed.
    ///
    /// Returns `None` for fewer than two values, for a value that is not positive and finite, and if neither the values
    /// nor the clock show any spread: an interval would then be certainty from nothing.
    pub fn from_values(values: &[f64], resolution: f64) -> Option<Self> {
        let n = u32::try_from(values.len()).ok().filter(|&n| n >= 2)?;
        if !values.iter().all(|&value| value > 0.0 && value.is_finite()) {
            return None;
        }
        let logs = sorted_logs(values);
        let mean = mean(&logs);
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let deviation = (squares / f64::from(n - 1)).sqrt();
        Self::from_parts(mean, deviation.max(resolution), n)
    }

    /// Restores a group from what a baseline kept: its value, the standard deviation of its logs, and its size.
    pub fn from_summary(value: f64, ln_deviation: f64, n: u32) -> Option<Self> {
        Self::from_parts(value.ln(), ln_deviation, n)
    }

    fn from_parts(ln_mean: f64, ln_deviation: f64, n: u32) -> Option<Self> {
        let usable =
            ln_mean.is_finite() && ln_deviation.is_finite() && ln_deviation > 0.0 && n >= 2;
        usable.then_some(Self {
            ln_mean,
            ln_deviation,
            n,
        })
    }

    /// Returns the geometric mean, which is the estimate that the intervals below are about.
    pub fn value(&self) -> f64 {
        self.ln_mean.exp()
    }

    pub fn ln_deviation(&self) -> f64 {
        self.ln_deviation
    }

    pub fn processes(&self) -> u32 {
        self.n
    }

    /// Returns the degrees of freedom of [`Self::ln_deviation`].
    fn freedom(&self) -> f64 {
        f64::from(self.n.saturating_sub(1))
    }

    /// Returns the squared standard error of `ln_mean`.
    fn variance(&self) -> f64 {
        self.ln_deviation.powi(2) / f64::from(self.n)
    }

    /// Returns Student's t interval of the value.
    pub fn interval(&self) -> [f64; 2] {
        let half = t_quantile(0.5 + CONFIDENCE / 2.0, self.freedom()) * self.variance().sqrt();
        [(self.ln_mean - half).exp(), (self.ln_mean + half).exp()]
    }

    /// Returns the smallest true relative increase over a fixed number that would show with [`POWER`].
    pub fn smallest_visible(&self) -> f64 {
        smallest_visible(self.variance(), student(self.freedom()))
    }
}

/// Returns the logs in ascending order, so that the order of the processes cannot change a bit of a sum.
fn sorted_logs(values: &[f64]) -> Vec<f64> {
    let mut logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    logs.sort_unstable_by(f64::total_cmp);
    logs
}

fn mean(logs: &[f64]) -> f64 {
    logs.iter().sum::<f64>() / logs.len() as f64
}

pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    mean(&sorted_logs(values)).exp()
}

/// The ratio of head to base, with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    pub ratio: f64,
    /// The 95 % interval of the ratio.
    pub interval: [f64; 2],
    /// The smallest true relative increase that a comparison with this spread and these numbers of processes
    /// distinguishes from no increase with 80 % power.
    pub smallest_visible: f64,
}

/// Compares two groups by Welch's unequal-variances t interval of the difference of log means (Welch 1947, with
/// Satterthwaite's degrees of freedom). Head and base come from different days, so nothing makes their spreads equal.
pub fn compare(head: &ProcessGroup, base: &ProcessGroup) -> Comparison {
    let (vh, vb) = (head.variance(), base.variance());
    let variance = vh + vb;
    let df = variance.powi(2) / (vh.powi(2) / head.freedom() + vb.powi(2) / base.freedom());
    comparison(head.ln_mean - base.ln_mean, variance, student(df))
}

/// Returns the interval of a ratio from its logarithm, the variance of the logarithm, and the quantiles of the
/// logarithm divided by its standard error.
fn comparison(ln_ratio: f64, variance: f64, quantile: impl Fn(f64) -> f64) -> Comparison {
    let half = quantile(0.5 + CONFIDENCE / 2.0) * variance.sqrt();
    Comparison {
        ratio: ln_ratio.exp(),
        interval: [(ln_ratio - half).exp(), (ln_ratio + half).exp()],
        smallest_visible: smallest_visible(variance, quantile),
    }
}

/// Returns the quantile function of Student's t.
fn student(df: f64) -> impl Fn(f64) -> f64 {
    move |p| t_quantile(p, df)
}

/// The variation that several sessions (days, GPUs of one model) showed for one code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The mean of ln(value) over the sessions.
    pub ln_mean: f64,
    pub sessions: u32,
    /// The standard deviation of ln(value) between sessions, above zero, and the degrees of freedom that it was
    /// estimated with.
    pub ln_deviation: f64,
    pub freedom: u32,
}

/// Compares a new session with the mean of earlier sessions. Head is one session itself, so its mean differs from the
/// others as days differ.
///
/// The difference of logs has the variance v_h / n + s^2 (1 + 1 / m): between the n processes of head, between sessions
/// for the one session that head is, and for the mean of the m earlier sessions. This makes the interval a prediction
/// interval of one new observation.
///
/// Its quantiles are the quantiles of the two parts, weighted by their variances (Cochran and Cox, Experimental
/// Designs, 1950). Satterthwaite's degrees of freedom would be too many if s comes from two sessions and processes
/// spread as much as days do: a new day would then lie outside 11 times in 100. With the weighted quantiles it lies
/// outside 5 to 6 times. It lies outside less often if days differ little, because s^2 is computed from means over
/// processes and so already contains a part of v_h.
///
/// Returns `None` if the spread between sessions is unusable.
pub fn predict(head: &ProcessGroup, base: &Between) -> Option<Comparison> {
    let usable = base.ln_mean.is_finite()
        && base.ln_deviation.is_finite()
        && base.ln_deviation > 0.0
        && base.sessions >= 1
        && base.freedom >= 1;
    if !usable {
        return None;
    }
    let within = head.variance();
    let between = base.ln_deviation.powi(2) * (1.0 + 1.0 / f64::from(base.sessions));
    let variance = within + between;
    let [of_head, of_days] = [head.freedom(), f64::from(base.freedom)].map(student);
    let quantile = |p: f64| {
        let weighted = (within * of_head(p) + between * of_days(p)) / variance;
        // If a variance underflows, the interval is infinite and decides nothing.
        if weighted.is_finite() {
            weighted
        } else {
            f64::INFINITY
        }
    };
    Some(comparison(head.ln_mean - base.ln_mean, variance, quantile))
}

fn smallest_visible(variance: f64, quantile: impl Fn(f64) -> f64) -> f64 {
    let t = quantile(0.5 + CONFIDENCE / 2.0) + quantile(POWER);
    (t * variance.sqrt()).exp_m1()
}

/// Returns the quantile `p` of Student's t, or infinity if `df` is not a number above zero, as for a variance so small
/// that its square underflows. An infinite interval is useless, but not wrong.
fn t_quantile(p: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::INFINITY, |t| t.inverse_cdf(p))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn quantiles_match_the_t_table() {
        for (p, df, t) in [
            (0.975, 1.0, 12.706204736),
            (0.975, 2.0, 4.302652730),
            (0.975, 4.0, 2.776445105),
            (0.80, 4.0, 0.940964577),
            (0.975, 1000.0, 1.962339081),
        ] {
            assert!((t_quantile(p, df) - t).abs() < 1e-6, "{p} {df}");
        }
        assert_eq!(t_quantile(0.975, f64::NAN), f64::INFINITY);
    }

    #[test]
    fn welch_by_hand() {
        // ln values: head mean ln 110 with sd 0.01 and n 4, base ln 100 with sd 0.01 and n 4: df = 6.
        let head = ProcessGroup::from_summary(110.0, 0.01, 4).unwrap();
        let base = ProcessGroup::from_summary(100.0, 0.01, 4).unwrap();
        let comparison = compare(&head, &base);
        let half: f64 = 2.446911851 * 0.01 * (0.5f64).sqrt();
        assert!(close(comparison.ratio, 1.1));
        assert!((comparison.interval[0] - 1.1 * (-half).exp()).abs() < 1e-7);
        assert!((comparison.interval[1] - 1.1 * half.exp()).abs() < 1e-7);
        // With t(0.8, 6) = 0.905703 for the power.
        let visible = ((2.446911851 + 0.905703) * 0.01 * (0.5f64).sqrt()).exp() - 1.0;
        assert!((comparison.smallest_visible - visible).abs() < 1e-6);
    }

    #[test]
    fn one_more_session_by_hand() {
        // ln values: head sd 0.01 and n 9; 4 sessions with sd 0.02 between them, 3 degrees of freedom.
        let head = ProcessGroup::from_summary(110.0, 0.01, 9).unwrap();
        let base = Between {
            ln_mean: 100f64.ln(),
            sessions: 4,
            ln_deviation: 0.02,
            freedom: 3,
        };
        let comparison = predict(&head, &base).unwrap();
        // 0.01^2 / 9 and 0.02^2 * 5 / 4, with t(0.975, 8) and t(0.975, 3).
        let (within, between) = (0.0001 / 9.0, 0.0005);
        let quantile = (within * 2.306004135 + between * 3.182446305) / (within + between);
        let half = quantile * f64::sqrt(within + between);
        assert!(close(comparison.ratio, 1.1));
        assert!((comparison.interval[1] - 1.1 * half.exp()).abs() < 1e-7);
        let single = ProcessGroup::from_summary(100.0, 0.01, 4).unwrap();
        let paired = compare(&head, &single);
        assert!(paired.smallest_visible < comparison.smallest_visible);
        for broken in [
            Between {
                ln_deviation: 0.0,
                ..base
            },
            Between {
                ln_deviation: f64::NAN,
                ..base
            },
            Between { freedom: 0, ..base },
            Between {
                sessions: 0,
                ..base
            },
        ] {
            assert_eq!(predict(&head, &broken), None);
        }
    }

    /// Draws uniformly from (0, 1), the same numbers in every run.
    fn uniform(state: &mut u64) -> f64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1e-17
    }

    /// Processes of one day differ by 0.1 %, days by as much, by more and by far more: how often a new day with
    /// nothing changed lies outside, by one session alone and by the sessions' own spread.
    #[test]
    fn a_new_day_lies_in_the_interval_of_the_sessions_as_often_as_that_says() {
        use statrs::distribution::Normal;
        let normal = Normal::new(0.0, 1.0).unwrap();
        let mut state = 1;
        let mut draw = |deviation: f64| normal.inverse_cdf(uniform(&mut state)) * deviation;
        let trials = 4000;
        for (sessions, days) in [2, 3, 5, 10]
            .into_iter()
            .flat_map(|sessions| [0.001, 0.003, 0.01].map(|days| (sessions, days)))
        {
            let (mut outside, mut alone) = (0, 0);
            for _ in 0..trials {
                let mut day = || {
                    let day = draw(days);
                    let processes: Vec<f64> = (0..5).map(|_| (day + draw(0.001)).exp()).collect();
                    ProcessGroup::from_values(&processes, 1e-6).unwrap()
                };
                let seen: Vec<ProcessGroup> = (0..sessions).map(|_| day()).collect();
                let head = day();
                let n = f64::from(sessions);
                let mean = seen.iter().map(|day| day.ln_mean).sum::<f64>() / n;
                let squares = seen.iter().map(|day| (day.ln_mean - mean).powi(2));
                let base = Between {
                    ln_mean: mean,
                    sessions: sessions as u32,
                    ln_deviation: (squares.sum::<f64>() / (n - 1.0)).sqrt(),
                    freedom: sessions as u32 - 1,
                };
                let misses = |interval: [f64; 2]| !(interval[0] <= 1.0 && 1.0 <= interval[1]);
                outside += u32::from(misses(predict(&head, &base).unwrap().interval));
                alone += u32::from(misses(compare(&head, seen.last().unwrap()).interval));
            }
            let outside = f64::from(outside) / f64::from(trials);
            assert!(outside < 0.065, "{sessions} sessions, {days}: {outside}");
            let alone = f64::from(alone) / f64::from(trials);
            assert!(days < 0.01 || alone > 0.8, "one session alone: {alone}");
        }
    }

    #[test]
    fn values_that_form_no_group_are_refused() {
        for values in [
            &[][..],
            &[1.0],
            &[1.0, 0.0],
            &[1.0, -1.0],
            &[1.0, f64::NAN],
            &[1.0, f64::INFINITY],
        ] {
            assert_eq!(ProcessGroup::from_values(values, 0.01), None, "{values:?}");
        }
        assert_eq!(
            ProcessGroup::from_values(&[5.0, 5.0, 5.0], 0.0),
            None,
            "certainty from nothing"
        );
        assert!(ProcessGroup::from_summary(1.0, f64::NAN, 3).is_none());
        assert!(ProcessGroup::from_summary(-1.0, 0.1, 3).is_none());
        assert!(ProcessGroup::from_summary(1.0, 0.1, 1).is_none());
    }

    #[test]
    fn values_that_agree_by_rounding_keep_the_clocks_step() {
        let group = ProcessGroup::from_values(&[2304.0; 3], 0.004).unwrap();
        assert_eq!(group.ln_deviation(), 0.004);
        assert!(group.smallest_visible() > 0.004);
    }

    #[test]
    fn five_processes_see_less_than_three() {
        let few = ProcessGroup::from_summary(100.0, 0.01, 3).unwrap();
        let many = ProcessGroup::from_summary(100.0, 0.01, 5).unwrap();
        assert!(compare(&many, &many).smallest_visible < compare(&few, &few).smallest_visible);
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(1.0..1e9, 2..8)
    }

    proptest! {
        #[test]
        fn the_interval_contains_the_estimate(head in values(), base in values()) {
            let (head, base) = (ProcessGroup::from_values(&head, 1e-6).unwrap(), ProcessGroup::from_values(&base, 1e-6).unwrap());
            let comparison = compare(&head, &base);
            prop_assert!(comparison.interval[0] <= comparison.ratio);
            prop_assert!(comparison.ratio <= comparison.interval[1]);
            prop_assert!(head.interval()[0] <= head.value() && head.value() <= head.interval()[1]);
            prop_assert!(comparison.smallest_visible > 0.0);
        }

        #[test]
        fn order_does_not_matter(mut head in values()) {
            let forward = ProcessGroup::from_values(&head, 1e-6);
            head.reverse();
            prop_assert_eq!(forward, ProcessGroup::from_values(&head, 1e-6));
        }

        #[test]
        fn a_common_factor_cancels(head in values(), base in values(), k in 0.001..1000.0) {
            let scaled = |values: &[f64], k: f64| {
                ProcessGroup::from_values(&values.iter().map(|value| value * k).collect::<Vec<_>>(), 1e-6).unwrap()
            };
            let a = compare(&scaled(&head, 1.0), &scaled(&base, 1.0));
            let b = compare(&scaled(&head, k), &scaled(&base, k));
            prop_assert!((a.ratio / b.ratio - 1.0).abs() < 1e-6);
        }

        #[test]
        fn a_session_more_narrows_the_interval_and_a_common_factor_cancels(
            sessions in 2u32..10, deviation in 1e-4..0.1, k in 0.001..1000.0,
        ) {
            let predict_scaled = |sessions: u32, k: f64| {
                // Quieter than the sessions: else its own few processes decide the width.
                let head = ProcessGroup::from_summary(101.0 * k, 1e-5, 5).unwrap();
                let base = Between {
                    ln_mean: (100.0 * k).ln(),
                    sessions,
                    ln_deviation: deviation,
                    freedom: sessions - 1,
                };
                predict(&head, &base).unwrap()
            };
            let width = |comparison: &Comparison| (comparison.interval[1] / comparison.interval[0]).ln();
            let (few, more) = (predict_scaled(sessions, 1.0), predict_scaled(sessions + 1, 1.0));
            prop_assert!(width(&more) < width(&few) * (1.0 + 1e-9));
            prop_assert!(few.interval[0] <= few.ratio && few.ratio <= few.interval[1]);
            let scaled = predict_scaled(sessions, k);
            prop_assert!((scaled.ratio / few.ratio - 1.0).abs() < 1e-6);
            prop_assert!((width(&scaled) / width(&few) - 1.0).abs() < 1e-6);
        }

        #[test]
        fn swapping_the_sides_inverts_the_ratio(head in values(), base in values()) {
            let (head, base) = (ProcessGroup::from_values(&head, 1e-6).unwrap(), ProcessGroup::from_values(&base, 1e-6).unwrap());
            let (a, b) = (compare(&head, &base), compare(&base, &head));
            prop_assert!((a.ratio * b.ratio - 1.0).abs() < 1e-9);
        }

        #[test]
        fn a_summary_is_the_group(values in values()) {
            let group = ProcessGroup::from_values(&values, 1e-6).unwrap();
            let kept = ProcessGroup::from_summary(group.value(), group.ln_deviation(), group.processes()).unwrap();
            prop_assert!(close(kept.value() / group.value(), 1.0));
            prop_assert!(close(kept.interval()[0] / group.interval()[0], 1.0));
        }
    }
}
