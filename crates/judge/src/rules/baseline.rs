//! Compares a value with what was agreed on: in the last baseline, or at an anchor.

use super::absolute::not_a_number;
use super::{Ruled, check_margin, relative_change};
use crate::agreed::{AgreedOn, NoBaseline, is_over_shapes, usable};
use crate::index::View;
use crate::not_passed::{NotPassed, OrNotPassed, fail, inconclusive, skipped};
use crate::stats;
use crate::value::{MetricValue, Repeats, Spread};
use model::*;

/// Compares a value with the last baseline.
pub fn compare_to_baseline(view: View, gate: &Gate, metric: Metric, allowed: Margin) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let found = (|| {
        let value = measure(view, &mut ruled, gate, metric, allowed)
            .map_err(|why| passed_over(view, gate, metric, why))?;
        let agreed = match view.agreed_on(&gate.subject, metric) {
            Ok(agreed) => agreed,
            Err(NoBaseline::Refused(ruling)) => return Err(ruling),
            Err(NoBaseline::New(reason)) => {
                ruled.new = Some(metric.facet());
                return skipped(reason);
            }
        };
        let limit = Relative {
            metric,
            allowed,
            against: Against::Baseline,
        };
        limit.compare(value, &agreed, view, &mut ruled)
    })();
    ruled.end(found)
}

/// Compares a value with what the base measures on this device.
pub fn compare_to_figure(
    view: View,
    gate: &Gate,
    metric: Metric,
    allowed: Margin,
    was: MetricValue,
) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let found = (|| {
        let value = measure(view, &mut ruled, gate, metric, allowed)?;
        let was = AgreedOn {
            value: was.number,
            spread: was.spread,
            between: None,
        };
        let limit = Relative {
            metric,
            allowed,
            against: Against::Base,
        };
        limit.compare(value, &was, view, &mut ruled)
    })();
    ruled.end(found)
}

/// Makes a verdict inconclusive instead of skipped if times were agreed on for the case. Another program also passes
/// over what breaks, and keeps no samples if nobody asks for them, so a missing time may hide a fault.
fn passed_over(view: View, gate: &Gate, metric: Metric, why: NotPassed) -> NotPassed {
    let is_passed_over = matches!(
        why.reason,
        Reason::NotRun(NotRun::PassedOver { .. })
            | Reason::Unsupported(Unsupported::SamplesNotKept { .. })
    );
    if !is_passed_over || view.agreed_on(&gate.subject, metric).is_err() {
        return why;
    }
    NotPassed {
        outcome: Outcome::Inconclusive,
        reason: Reason::HeadPassedOver {
            why: Box::new(why.reason),
        },
    }
}

/// Compares a value with what was agreed on at an anchor: how far it has drifted since.
pub fn compare_to_anchor(
    view: View,
    gate: &Gate,
    metric: Metric,
    since: &Since,
    allowed: Margin,
) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let anchor = view
        .policy()
        .anchors
        .iter()
        .find(|anchor| anchor.since == *since);
    let found = (|| {
        let value = measure(view, &mut ruled, gate, metric, allowed)?;
        let Some(anchor) = anchor else {
            return inconclusive(Reason::AnchorMissing {
                since: since.clone(),
            });
        };
        let agreed = view.anchored_on(anchor, &gate.subject, metric)?;
        let limit = Relative {
            metric,
            allowed,
            against: Against::Anchor {
                since: since.clone(),
                found: anchor.found.clone(),
            },
        };
        limit.compare(value, &agreed, view, &mut ruled)
    })();
    let verdict = &ruled.verdict;
    if let (Some(anchor), Some(was), Some(measured), Some(change)) =
        (anchor, verdict.baseline, verdict.measured, verdict.change)
    {
        ruled.drift = Some(Drift {
            subject: gate.subject.clone(),
            metric,
            since: since.clone(),
            found: anchor.found.clone(),
            was,
            measured,
            change,
            interval: verdict.interval,
        });
    }
    // A value that is better than long ago is no win to be agreed on.
    ruled.wins.clear();
    ruled.end(found)
}

/// Lists the drift from the best level, for times that no gate compares with it.
pub fn since_best(view: View, known: &[Drift]) -> Vec<Drift> {
    let figures = view
        .plan()
        .cases
        .iter()
        .filter(|case| case.timed)
        .flat_map(|case| {
            let subject = Subject::Case(case.id.clone());
            [Metric::P50, Metric::Cycles].map(|metric| (subject.clone(), metric))
        });
    let is_known = |subject: &Subject, metric: Metric| {
        known.iter().any(|drift| {
            (&drift.subject, drift.metric, &drift.since) == (subject, metric, &Since::Best)
        })
    };
    figures
        .filter(|(subject, metric)| !is_known(subject, *metric))
        .filter_map(|(subject, metric)| {
            let change = Margin::Share(Num(0.0));
            let anchor = Since::Best;
            let gate = Gate {
                subject,
                rule: Rule::Limit {
                    metric,
                    limit: Limit::Anchor { anchor, change },
                },
                declared: None,
            };
            compare_to_anchor(view, &gate, metric, &Since::Best, change).drift
        })
        .collect()
}

fn measure(
    view: View,
    ruled: &mut Ruled,
    gate: &Gate,
    metric: Metric,
    allowed: Margin,
) -> OrNotPassed<MetricValue> {
    check_margin(metric, allowed)?;
    if !metric.has_relative() {
        return inconclusive(Reason::NoRelative { metric });
    }
    let value = view.metric(&gate.subject, metric)?;
    ruled.verdict.measured = Some(Num(value.number));
    ruled.verdict.effort = view.effort_alone(&gate.subject, metric);
    Ok(value)
}

/// A rule that limits how much worse a value may be than a stored one.
struct Relative {
    metric: Metric,
    allowed: Margin,
    against: Against,
}

impl Relative {
    /// Compares a value with a stored one. Values that repeat exactly are compared as they are. Times are compared by
    /// the interval of their ratio: the gate is broken if all of the interval is beyond the limit, holds if all of it
    /// is within, and is open otherwise.
    fn compare(
        self,
        value: MetricValue,
        agreed: &AgreedOn,
        view: View,
        ruled: &mut Ruled,
    ) -> OrNotPassed<Reason> {
        let Self {
            metric,
            allowed,
            against,
        } = self;
        let subject = ruled.verdict.subject.clone();
        let worse = if metric.larger_is_better() { -1.0 } else { 1.0 };
        let change = relative_change(value.number, agreed.value);
        ruled.verdict.baseline = Some(Num(agreed.value));
        ruled.verdict.limit = Some(Num(match allowed {
            Margin::Share(share) => agreed.value * (1.0 + worse * share.0),
            Margin::Amount { amount } => agreed.value + worse * amount as f64,
        }));
        ruled.verdict.change = Some(Num(change));
        if change.is_nan() {
            return fail(not_a_number(view, &subject, metric));
        }
        let range = ChangeRange::new(metric, value, agreed).inspect_err(|why| {
            ruled.open |= matches!(why.reason, Reason::NoSpread);
        })?;
        ruled.verdict.interval = range.interval.map(|interval| interval.map(Num));
        ruled.verdict.smallest_visible = range.smallest_visible.map(Num);
        // These are in the unit of the margin.
        let [least, most] = match allowed {
            Margin::Share(_) => range.worse,
            // Such a value repeats exactly, so both ends are the same number.
            Margin::Amount { .. } => [worse * (value.number - agreed.value); 2],
        };
        let comparison = Box::new(Comparison {
            metric,
            against,
            was: Some(Num(agreed.value)),
            now: Some(Num(value.number)),
            change: Num(change),
            interval: ruled.verdict.interval,
            allowed,
            sessions: agreed.between.as_ref().map(|between| between.sessions),
            processes: value.group().map(|group| group.processes()),
        });
        let allowed = allowed.number();
        if least > allowed {
            return fail(Reason::BeyondChange(comparison));
        }
        let is_partial = view.plan().is_partial(subject.kernel());
        if most < -allowed && !(is_partial && is_over_shapes(metric)) {
            ruled.wins.push(Win {
                subject,
                metric,
                measured: Num(value.number),
                baseline: Num(agreed.value),
                change: Num(change),
            });
        }
        if most <= allowed {
            return Ok(Reason::WithinChange(comparison));
        }
        if let Some(repeats) = value.spread.and_then(Spread::repeats) {
            return inconclusive(Reason::RepeatsDisagree {
                metric,
                low: Num(repeats.low),
                high: Num(repeats.high),
                repeats: repeats.count,
            });
        }
        ruled.open = true;
        inconclusive(Reason::Undecided {
            comparison,
            visible: ruled.verdict.smallest_visible,
            needed: None,
        })
    }
}

/// The distance of a value from one that was agreed on.
struct ChangeRange {
    /// The least and the greatest share by which the value is worse. A negative share means better.
    worse: [f64; 2],
    /// The interval of the relative change, for values that do not repeat exactly.
    interval: Option<[f64; 2]>,
    smallest_visible: Option<f64>,
}

impl ChangeRange {
    fn new(metric: Metric, value: MetricValue, agreed: &AgreedOn) -> OrNotPassed<Self> {
        let (interval, smallest_visible) = match metric.facet() {
            Facet::Times => {
                let compared = compare_times(value, agreed)?;
                let interval = compared.interval.map(|ratio| ratio - 1.0);
                (Some(interval), Some(compared.smallest_visible))
            }
            Facet::Profile => (Some(range_of(value, agreed, metric)?), None),
            Facet::Resources | Facet::Correctness | Facet::Counters => (None, None),
        };
        let change = relative_change(value.number, agreed.value);
        let [low, high] = interval.unwrap_or([change, change]);
        let worse = if metric.larger_is_better() {
            [-high, -low]
        } else {
            [low, high]
        };
        Ok(Self {
            worse,
            interval,
            smallest_visible,
        })
    }
}

/// Returns true if a value is worse than the agreed one by more than noise. Values that cannot be compared are not
/// worse.
pub fn is_worse(metric: Metric, agreed: &Agreed, new: &Agreed) -> bool {
    let usable = |baseline| usable(metric, baseline, &Against::Baseline).ok();
    let (Some(agreed), Some(new)) = (usable(agreed), usable(new)) else {
        return false;
    };
    let value = MetricValue {
        number: new.value,
        spread: new.spread,
    };
    let range = ChangeRange::new(metric, value, &agreed);
    range.is_ok_and(|range| range.worse[0] > 0.0)
}

fn compare_times(value: MetricValue, agreed: &AgreedOn) -> OrNotPassed<stats::Comparison> {
    let base = agreed.spread.and_then(Spread::group);
    let (Some(head), Some(base)) = (value.group(), base) else {
        return inconclusive(Reason::NoSpread);
    };
    let days = agreed.between.as_ref();
    let predicted = days.and_then(|days| stats::predict(&head, days));
    Ok(predicted.unwrap_or_else(|| stats::compare(&head, &base)))
}

/// The least number of profiles that show differences between profiles.
const LEAST_PROFILES: usize = 2;

/// Returns the range of the relative change of a profile's metric: everything that the repeats of both sides allow.
fn range_of(value: MetricValue, agreed: &AgreedOn, metric: Metric) -> OrNotPassed<[f64; 2]> {
    let exactly = |number: f64| Repeats {
        low: number,
        high: number,
        count: LEAST_PROFILES,
    };
    let enough_repeats = |spread: Option<Spread>, number: f64| {
        let repeats = spread.and_then(Spread::repeats);
        let repeats = repeats.unwrap_or(exactly(number));
        match repeats.count {
            have if have < LEAST_PROFILES => inconclusive(Reason::TooFewProfiles {
                metric,
                have,
                needed: LEAST_PROFILES,
            }),
            _ => Ok(repeats),
        }
    };
    let (head, base) = (
        enough_repeats(value.spread, value.number)?,
        enough_repeats(agreed.spread, agreed.value)?,
    );
    // The least and the greatest distance between the two ranges, relative to the agreed value.
    let share = |difference: f64| relative_change(agreed.value + difference, agreed.value);
    Ok([share(head.low - base.high), share(head.high - base.low)])
}
