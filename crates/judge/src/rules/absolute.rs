//! Compares a value with a stated number, literally: a reader of `<= 362us` expects 362.1 to break it and 361.9 to
//! hold, whatever the spread. The verdict also states the smallest change that could have shown.

use super::condition::{Seeds, evaluate_bound};
use super::relative_change;
use crate::index::View;
use crate::not_passed::{OrNotPassed, fail, inconclusive};
use crate::value::Spread;
use model::*;

/// Compares a value with its bound, and fills in the values of the verdict as far as they are known.
pub fn compare(
    view: View,
    metric: Metric,
    (op, bound): (Op, &Bound),
    verdict: &mut Verdict,
) -> OrNotPassed<Reason> {
    let subject = &verdict.subject.clone();
    let mut value = view.metric(subject, metric)?;
    let drawn = view.drawn_error(subject, metric).transpose()?;
    let bound_with = |seeds: Seeds| match bound {
        Bound::Value(value) => Ok(value.0),
        Bound::Expr(expr) => evaluate_bound(view, subject, metric, expr, seeds),
    };
    verdict.measured = Some(Num(value.number));
    verdict.smallest_visible = value.group().map(|group| Num(group.smallest_visible()));
    let mut limit = bound_with(Seeds::Written)?;
    if let Some(drawn) = drawn {
        // Errors of one seed are compared with a bound that is made of errors of the same seed.
        let own_limit = bound_with(Seeds::Drawn)?;
        let is_worse = match bound {
            // `f64::max` would swallow NaN.
            Bound::Value(_) => !(value.number.is_nan() || drawn <= value.number),
            Bound::Expr(_) => op.holds(value.number, limit) && !op.holds(drawn, own_limit),
        };
        if is_worse {
            (value.number, limit) = (drawn, own_limit);
        }
    }
    verdict.measured = Some(Num(value.number));
    verdict.limit = Some(Num(limit));
    if let Ok(agreed) = view.agreed_on(subject, metric) {
        verdict.baseline = Some(Num(agreed.value));
        verdict.change = Some(Num(relative_change(value.number, agreed.value)));
    }
    if let Some(repeats) = value.spread.and_then(Spread::repeats)
        && op.holds(repeats.low, limit) != op.holds(repeats.high, limit)
    {
        return inconclusive(Reason::RepeatsDisagree {
            metric,
            low: Num(repeats.low),
            high: Num(repeats.high),
            repeats: repeats.count,
        });
    }
    if op.holds(value.number, limit) {
        return Ok(match metric {
            Metric::SlowShare if value.number == 0.0 => Reason::OneMode,
            _ => Reason::WithinLimit {
                metric,
                value: Num(value.number),
            },
        });
    }
    fail(if value.number.is_nan() {
        not_a_number(view, subject, metric)
    } else {
        Reason::BeyondLimit {
            metric,
            value: Num(value.number),
            op,
            bound: Num(limit),
            worst: worst_element(view, subject, metric),
        }
    })
}

/// Returns where the largest error is, with the values there and the seed.
fn worst_element(view: View, subject: &Subject, metric: Metric) -> Option<(u64, Box<Worst>)> {
    let (Subject::Case(id), Metric::MaxErr) = (subject, metric) else {
        return None;
    };
    let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
    let errors = seeds
        .iter()
        .filter_map(|&seed| Some((seed, &view.check(id, seed).ok()?.error)));
    let (seed, errors) = errors.max_by(|(_, a), (_, b)| a.max_err.0.total_cmp(&b.max_err.0))?;
    Some((seed, errors.worst.clone()?))
}

/// Returns the reason for a value that is no number: the first seed for which an element is not finite, if that is why.
pub fn not_a_number(view: View, subject: &Subject, metric: Metric) -> Reason {
    let because = match subject {
        Subject::Unit(_) => None,
        Subject::Case(id) => view.case(id).ok().and_then(|case| {
            case.seeds.iter().find_map(|&seed| {
                let errors = &view.check(id, seed).ok()?.error;
                (errors.non_finite > 0).then_some((seed, errors.non_finite, errors.elements))
            })
        }),
    };
    Reason::NotANumber { metric, because }
}
