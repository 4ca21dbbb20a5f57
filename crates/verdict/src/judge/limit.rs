//! Limits: a value against a number, against an expression, and against what was agreed.

use super::baseline::{AgreedOn, Lack, Refusals, over_shapes};
use super::facts::{Facts, Found, Ruling, inconclusive, ruling};
use super::metric::Value;
use super::words;
use crate::expr::{Env, EvalError, Expression, Name};
use crate::model::*;
use crate::stats::{self, Between};

/// A verdict in the making, and what it asks of the run beside.
pub(super) struct Ruled {
    pub verdict: Verdict,
    pub wins: Vec<Win>,
    pub counters: Vec<CounterChange>,
    pub accepted: Option<Accepted>,
    pub drift: Option<Drift>,
    /// Evidence of this kind has no baseline at all yet.
    pub new: Option<Facet>,
    /// More timing processes could decide it.
    pub open: bool,
}

impl Ruled {
    pub(super) fn blank(gate: &Gate) -> Self {
        Self {
            verdict: Verdict {
                metric: match &gate.rule {
                    Rule::Limit { metric, .. } => Some(*metric),
                    _ => None,
                },
                ..Verdict::without_figures(
                    gate.subject.clone(),
                    words::gate(&gate.rule),
                    Outcome::Inconclusive,
                    String::new(),
                    gate.declared.clone(),
                )
            },
            wins: Vec::new(),
            counters: Vec::new(),
            accepted: None,
            drift: None,
            new: None,
            open: false,
        }
    }

    pub(super) fn end(mut self, found: Found<String>) -> Self {
        let (outcome, reason) = match found {
            Ok(reason) => (Outcome::Pass, reason),
            Err(Ruling { outcome, reason }) => (outcome, reason),
        };
        self.verdict.outcome = outcome;
        self.verdict.reason = reason;
        self
    }
}

/// A value against a stated number, literally: who reads `<= 362us` expects 362.1 to break it and 361.9 to
/// hold, whatever the spread. The smallest change that could have shown stands beside it.
pub(super) fn absolute(
    facts: &Facts,
    gate: &Gate,
    metric: Metric,
    op: Op,
    bound: &Bound,
    refusals: &Refusals,
) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let found = (|| {
        let value = facts.metric(&gate.subject, metric)?;
        let verdict = &mut ruled.verdict;
        verdict.measured = Some(Num(value.number));
        verdict.smallest_visible = value.group.map(|group| Num(group.smallest_visible()));
        if let Ok(agreed) = facts.agreed_on(&gate.subject, metric, refusals) {
            verdict.baseline = Some(Num(agreed.value));
            verdict.change = Some(Num(words::relative(value.number, agreed.value)));
        }
        let bound = bound_value(facts, &gate.subject, metric, bound)?;
        verdict.limit = Some(Num(bound));
        let shown = words::quantity(metric, value.number);
        if op.holds(value.number, bound) {
            Ok(match metric {
                Metric::SlowShare if value.number == 0.0 => words::ONE_MODE.to_owned(),
                _ => shown,
            })
        } else if value.number.is_nan() {
            ruling(
                Outcome::Fail,
                format!("{metric} is NaN: {}", why_nan(facts, &gate.subject)),
            )
        } else {
            ruling(
                Outcome::Fail,
                format!(
                    "{metric} is {shown}, and has to be {op} {}{}",
                    words::quantity(metric, bound),
                    worst_place(facts, &gate.subject, metric)
                ),
            )
        }
    })();
    ruled.end(found)
}

/// Where the largest error is, with what stands there.
fn worst_place(facts: &Facts, subject: &Subject, metric: Metric) -> String {
    let (Subject::Case(id), Metric::MaxErr) = (subject, metric) else {
        return String::new();
    };
    let seeds = facts.case(id).map_or(&[][..], |case| &case.seeds);
    let errors = seeds
        .iter()
        .filter_map(|&seed| Some((seed, &facts.check(id, seed).ok()?.error)));
    let worst = errors.max_by(|(_, a), (_, b)| a.max_err.0.total_cmp(&b.max_err.0));
    worst
        .and_then(|(seed, errors)| errors.worst.as_ref().map(|worst| (seed, worst)))
        .map_or_else(String::new, |(seed, worst)| {
            format!("; {} with seed {seed}", words::worst(worst))
        })
}

fn why_nan(facts: &Facts, subject: &Subject) -> String {
    let Subject::Case(id) = subject else {
        return "it cannot be compared".to_owned();
    };
    let non_finite = facts.case(id).ok().and_then(|case| {
        case.seeds.iter().find_map(|&seed| {
            let errors = &facts.check(id, seed).ok()?.error;
            (errors.non_finite > 0).then(|| {
                format!(
                    "{} of {} elements are not finite with seed {seed}",
                    errors.non_finite, errors.elements
                )
            })
        })
    });
    non_finite.unwrap_or_else(|| "it cannot be compared".to_owned())
}

pub(super) fn bound_value(
    facts: &Facts,
    subject: &Subject,
    metric: Metric,
    bound: &Bound,
) -> Found<f64> {
    match bound {
        Bound::Value(value) => Ok(value.0),
        Bound::Expr(expr) => {
            let (expression, env) = prepare(facts, subject, expr, metric.facet())?;
            evaluated(expr, expression.number(&env))
        }
    }
}

pub(super) fn condition(facts: &Facts, gate: &Gate, expr: &Expr) -> Ruled {
    let found = (|| {
        let (expression, env) = prepare(facts, &gate.subject, expr, Facet::Times)?;
        let values: Vec<_> = expression
            .names()
            .iter()
            .filter_map(|name| {
                let value = env.get(name)?.as_f64();
                let shown = metric_of(name)
                    .filter(|_| !expr.constants.contains_key(&name.to_string()))
                    .map_or_else(
                        || value.to_string(),
                        |metric| words::quantity(metric, value),
                    );
                Some(format!("{name} = {shown}"))
            })
            .collect();
        let values = values.join(", ");
        match evaluated(expr, expression.truth(&env))? {
            true => Ok(values),
            false => ruling(Outcome::Fail, format!("does not hold for {values}")),
        }
    })();
    Ruled::blank(gate).end(found)
}

fn evaluated<T>(expr: &Expr, result: Result<T, EvalError>) -> Found<T> {
    match result {
        Ok(value) => Ok(value),
        Err(error @ EvalError::NonFinite(_)) => {
            ruling(Outcome::Fail, format!("`{}`: {error}", expr.text))
        }
        Err(error) => inconclusive(format!("`{}`: {error}", expr.text)),
    }
}

fn metric_of(name: &Name) -> Option<Metric> {
    match name {
        Name::Plain(metric) | Name::Dotted(_, metric) => Metric::from_name(metric),
    }
}

/// The expression with a value for each of its names. The first name without one decides: the whole is
/// as unknown as that.
fn prepare(facts: &Facts, subject: &Subject, expr: &Expr, of: Facet) -> Found<(Expression, Env)> {
    let expression = match Expression::parse(&expr.text) {
        Ok(expression) => expression,
        Err(error) => {
            return inconclusive(format!("`{}`, column {}: {error}", expr.text, error.column));
        }
    };
    let mut env = Env::new();
    for name in expression.names() {
        if let Some(constant) = expr.constants.get(&name.to_string()) {
            // Whole numbers stay whole, as divisions depend on it.
            let value = constant.0;
            let whole = value.fract() == 0.0 && value.abs() < 9.0e15;
            env.insert(
                name.clone(),
                if whole {
                    (value as i64).into()
                } else {
                    value.into()
                },
            );
            continue;
        }
        let Some(metric) = metric_of(name) else {
            return inconclusive(format!(
                "`{}`: `{name}` is no metric and no constant",
                expr.text
            ));
        };
        // Whether a kernel is right decides whether it is timed, so times cannot decide whether it is right.
        if of == Facet::Correctness && metric.facet() == Facet::Times {
            return inconclusive(format!(
                "`{}`: a limit on correctness cannot depend on {metric}",
                expr.text
            ));
        }
        let subject = match name {
            Name::Plain(_) => subject.clone(),
            Name::Dotted(variant, _) => sibling(subject, variant),
        };
        let value = facts.metric(&subject, metric).map_err(|ruling| Ruling {
            outcome: ruling.outcome,
            reason: format!("{name} is unknown: {}", ruling.reason),
        })?;
        env.insert(name.clone(), value.number.into());
    }
    Ok((expression, env))
}

fn sibling(subject: &Subject, variant: &str) -> Subject {
    let mut subject = subject.clone();
    match &mut subject {
        Subject::Unit(unit) => unit.variant = variant.to_owned(),
        Subject::Case(case) => case.variant = variant.to_owned(),
    }
    subject
}

/// Against the last baseline.
pub(super) fn against_baseline(
    facts: &Facts,
    gate: &Gate,
    metric: Metric,
    allowed: f64,
    refusals: &Refusals,
) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let found = (|| {
        let value = measured(facts, &mut ruled, gate, metric, allowed)
            .map_err(|why| passed_over(facts, gate, metric, refusals, why))?;
        let agreed = match facts.agreed_on(&gate.subject, metric, refusals) {
            Ok(agreed) => agreed,
            Err(Lack::Refused(ruling)) => return Err(ruling),
            Err(Lack::New { reason }) => {
                ruled.new = Some(metric.facet());
                return ruling(Outcome::Skipped, reason);
            }
        };
        let held = Held {
            value,
            agreed,
            allowed,
            against: "the baseline",
        };
        held.ruled(facts, gate, metric, &mut ruled)
    })();
    ruled.end(found)
}

/// Another program passes over what breaks, too: where the base has times, that is no mere skip.
fn passed_over(
    facts: &Facts,
    gate: &Gate,
    metric: Metric,
    refusals: &Refusals,
    why: Ruling,
) -> Ruling {
    let is_skip = facts.is_foreign() && why.outcome == Outcome::Skipped;
    if !is_skip || facts.agreed_on(&gate.subject, metric, refusals).is_err() {
        return why;
    }
    Ruling {
        outcome: Outcome::Inconclusive,
        reason: format!("the base was measured, and this was not: {}", why.reason),
    }
}

/// Against what was agreed at an anchor: how far it has drifted since.
pub(super) fn against_anchor(
    facts: &Facts,
    gate: &Gate,
    metric: Metric,
    since: &Since,
    allowed: f64,
) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    ruled.verdict.anchored = true;
    let mut anchors = facts.policy.anchors.iter();
    let anchor = anchors.find(|anchor| anchor.since == *since);
    let found = (|| {
        let value = measured(facts, &mut ruled, gate, metric, allowed)?;
        let Some(anchor) = anchor else {
            return inconclusive(format!("what {since} agreed on is not part of this record"));
        };
        let agreed = facts.anchored_on(anchor, &gate.subject, metric)?;
        let held = Held {
            value,
            agreed,
            allowed,
            against: &format!("{since} ({})", anchor.found),
        };
        held.ruled(facts, gate, metric, &mut ruled)
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
    // What is better than long ago is no win to be agreed on.
    ruled.wins.clear();
    ruled.end(found)
}

/// The drift from the best level, of times that no gate holds against it.
pub(super) fn since_best(facts: &Facts, known: &[Drift]) -> Vec<Drift> {
    let cases = facts.plan.cases.iter().filter(|case| case.timed);
    let figures = cases.flat_map(|case| {
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
            let change = Num(0.0);
            let anchor = Since::Best;
            let gate = Gate {
                subject,
                rule: Rule::Limit {
                    metric,
                    limit: Limit::Anchor { anchor, change },
                },
                declared: None,
            };
            against_anchor(facts, &gate, metric, &Since::Best, 0.0).drift
        })
        .collect()
}

fn measured(
    facts: &Facts,
    ruled: &mut Ruled,
    gate: &Gate,
    metric: Metric,
    allowed: f64,
) -> Found<Value> {
    if !(allowed >= 0.0 && allowed.is_finite()) {
        return inconclusive(format!("a change of {allowed} cannot be allowed"));
    }
    if !metric.has_relative() {
        return inconclusive(words::no_relative(metric));
    }
    let value = facts.metric(&gate.subject, metric)?;
    ruled.verdict.measured = Some(Num(value.number));
    ruled.verdict.effort = facts.effort_alone(&gate.subject, metric);
    Ok(value)
}

/// A value beside what was agreed on.
struct Held<'a> {
    value: Value,
    agreed: AgreedOn,
    allowed: f64,
    /// Whose word that was.
    against: &'a str,
}

impl Held<'_> {
    /// Figures that repeat exactly are compared as they are; times by the interval of their ratio: broken
    /// where all of it is beyond the limit, held where all of it is within, else open.
    fn ruled(self, facts: &Facts, gate: &Gate, metric: Metric, ruled: &mut Ruled) -> Found<String> {
        let Self {
            value,
            agreed,
            allowed,
            against,
        } = self;
        let worse = if metric.larger_is_better() { -1.0 } else { 1.0 };
        ruled.verdict.baseline = Some(Num(agreed.value));
        ruled.verdict.limit = Some(Num(agreed.value * (1.0 + worse * allowed)));
        let change = words::relative(value.number, agreed.value);
        ruled.verdict.change = Some(Num(change));
        if change.is_nan() {
            return ruling(
                Outcome::Fail,
                format!("{metric} is NaN: {}", why_nan(facts, &gate.subject)),
            );
        }
        let interval = if metric.facet() == Facet::Times {
            match (value, agreed.group) {
                (
                    Value {
                        group: Some(head), ..
                    },
                    Some(base),
                ) => {
                    let days = agreed.between.as_ref();
                    let comparison = match days.and_then(|days| stats::predict(&head, days)) {
                        Some(comparison) => comparison,
                        None => stats::compare(&head, &base),
                    };
                    let interval = comparison.interval.map(|ratio| ratio - 1.0);
                    ruled.verdict.interval = Some(interval.map(Num));
                    ruled.verdict.smallest_visible = Some(Num(comparison.smallest_visible));
                    interval
                }
                _ => {
                    ruled.open = true;
                    return inconclusive("one timing process has no spread; two are the least");
                }
            }
        } else {
            [change, change]
        };
        let [least, most] = if metric.larger_is_better() {
            [-interval[1], -interval[0]]
        } else {
            interval
        };
        let told = told(
            metric,
            change,
            ruled.verdict.interval,
            against,
            agreed.between.as_ref(),
        );
        if least > allowed {
            return ruling(
                Outcome::Fail,
                format!("{told}; {}", words::agreed(metric, worse * allowed)),
            );
        }
        if most < -allowed && !(facts.plan.is_partial(gate.subject.kernel()) && over_shapes(metric))
        {
            ruled.wins.push(Win {
                subject: gate.subject.clone(),
                metric,
                measured: Num(value.number),
                baseline: Num(agreed.value),
                change: Num(change),
            });
        }
        if most <= allowed {
            return Ok(told);
        }
        ruled.open = true;
        let visible = ruled
            .verdict
            .smallest_visible
            .map_or(f64::NAN, |visible| visible.0);
        inconclusive(format!(
            "{told}; {}, which lies within that. {} processes can tell a change of {}; more of them (`max_processes`) or a quieter GPU could decide",
            words::agreed(metric, worse * allowed),
            value.group.map_or(0, |group| group.processes()),
            words::percent(visible),
        ))
    }
}

fn told(
    metric: Metric,
    change: f64,
    interval: Option<[Num; 2]>,
    against: &str,
    between: Option<&Between>,
) -> String {
    let days = between.map_or(
        "one session; the spread between days is not known".to_owned(),
        |between| match between.sessions {
            1 => "one session, and the spread between days of earlier code".to_owned(),
            sessions => format!("{sessions} sessions"),
        },
    );
    let change = words::change(metric, change);
    match interval {
        None => format!("{change} against {against}"),
        Some([low, high]) => format!(
            "{change} against {against} (95 % interval {}; {days})",
            words::interval(metric, [low.0, high.0])
        ),
    }
}
