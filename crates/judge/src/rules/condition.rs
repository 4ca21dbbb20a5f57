//! Evaluates expressions over metrics of the case itself and of sibling variants: conditions, and bounds of limits.

use super::Ruled;
use crate::index::View;
use crate::not_passed::{NotPassed, OrNotPassed, fail, inconclusive};
use crate::value::{MetricValue, Repeats, Spread};
use model::expr::{Env, EvalError, Expression, Name};
use model::*;

/// Judges whether an expression is true for a case or unit, and reports the values of its operands.
pub fn check_condition(view: View, gate: &Gate, expr: &Expr) -> Ruled {
    let found = (|| {
        let (expression, env, spreads) =
            prepare(view, &gate.subject, expr, Facet::Times, Seeds::Written)?;
        let operands = operands_of(expr, &expression, &env);
        let holds = evaluated(expr, expression.truth(&env))?;
        check_repeats(expr, &expression, &env, &spreads, holds)?;
        if holds {
            Ok(Reason::ConditionHolds { operands })
        } else {
            fail(Reason::ConditionBroken { operands })
        }
    })();
    Ruled::blank(gate).end(found)
}

/// The seeds whose errors an expression is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Seeds {
    /// The seeds that are listed in gates.yaml.
    Written,
    /// The seed that follows from the commit.
    Drawn,
}

/// Evaluates the bound of a limit on `metric`, with the errors of these seeds.
pub fn evaluate_bound(
    view: View,
    subject: &Subject,
    metric: Metric,
    expr: &Expr,
    seeds: Seeds,
) -> OrNotPassed<f64> {
    let (expression, env, _) = prepare(view, subject, expr, metric.facet(), seeds)?;
    evaluated(expr, expression.number(&env))
}

/// Returns true if a condition asks for a metric of its own subject.
pub fn names_metric(expr: &Expr, metric: Metric) -> bool {
    Expression::parse(&expr.text).is_ok_and(|expression| {
        expression
            .names()
            .iter()
            .any(|name| matches!(name, Name::Plain(_)) && metric_of(name) == Some(metric))
    })
}

fn operands_of(expr: &Expr, expression: &Expression, env: &Env) -> Vec<Operand> {
    expression
        .names()
        .iter()
        .filter_map(|name| {
            let value = Num(env.get(name)?.as_f64());
            let is_constant = expr.constants.contains_key(&name.to_string());
            Some(Operand {
                name: name.to_string(),
                metric: metric_of(name).filter(|_| !is_constant),
                value,
            })
        })
        .collect()
}

fn evaluated<T>(expr: &Expr, result: Result<T, EvalError>) -> OrNotPassed<T> {
    let text = expr.text.clone();
    match result {
        Ok(value) => Ok(value),
        Err(problem @ EvalError::NonFinite(_)) => fail(Reason::Unevaluated { text, problem }),
        Err(problem) => inconclusive(Reason::Unevaluated { text, problem }),
    }
}

fn metric_of(name: &Name) -> Option<Metric> {
    match name {
        Name::Plain(metric) | Name::Dotted(_, metric) | Name::Rival(_, _, metric) => {
            Metric::from_name(metric)
        }
    }
}

/// A metric of a profile whose repeats differ.
struct Repeated {
    name: Name,
    metric: Metric,
    repeats: Repeats,
}

/// If more metrics than this differ between profiles, not every combination is tried.
const MOST_REPEATED: usize = 8;

/// Checks that a condition has the same truth at either end of what the repeated profiles gave. Otherwise it would hold
/// or not by chance.
fn check_repeats(
    expr: &Expr,
    expression: &Expression,
    env: &Env,
    spreads: &[Repeated],
    holds: bool,
) -> OrNotPassed<()> {
    let spreads = spreads.get(..MOST_REPEATED).unwrap_or(spreads);
    for ends in 0..1_u32 << spreads.len() {
        let mut env = env.clone();
        for (at, spread) in spreads.iter().enumerate() {
            let end = match ends >> at & 1 {
                0 => spread.repeats.low,
                _ => spread.repeats.high,
            };
            env.insert(spread.name.clone(), end.into());
        }
        if evaluated(expr, expression.truth(&env))? != holds
            && let Some(spread) = spreads.first()
        {
            return inconclusive(Reason::RepeatsDisagree {
                metric: spread.metric,
                low: Num(spread.repeats.low),
                high: Num(spread.repeats.high),
                repeats: spread.repeats.count,
            });
        }
    }
    Ok(())
}

/// Returns the expression with a value for each of its names. The first name without a value decides: the whole
/// expression is then as unknown as that name.
fn prepare(
    view: View,
    subject: &Subject,
    expr: &Expr,
    of: Facet,
    seeds: Seeds,
) -> OrNotPassed<(Expression, Env, Vec<Repeated>)> {
    let text = || expr.text.clone();
    let expression = match Expression::parse(&expr.text) {
        Ok(expression) => expression,
        Err(problem) => {
            return inconclusive(Reason::Unparsed {
                text: text(),
                problem,
            });
        }
    };
    let mut env = Env::new();
    let mut spreads = Vec::new();
    for name in expression.names() {
        if let Some(constant) = expr.constants.get(&name.to_string()) {
            // Whole numbers stay whole, because division depends on it.
            let value = constant.0;
            let whole = value.fract() == 0.0 && value.abs() < 9.0e15;
            let value = if whole {
                (value as i64).into()
            } else {
                value.into()
            };
            env.insert(name.clone(), value);
            continue;
        }
        let Some(metric) = metric_of(name) else {
            return inconclusive(Reason::UnknownName {
                text: text(),
                name: name.to_string(),
            });
        };
        // A case is timed only if it is right, so a time cannot decide whether it is right.
        if of == Facet::Correctness && matches!(metric.facet(), Facet::Times | Facet::Profile) {
            return inconclusive(Reason::TimeInCorrectness {
                text: text(),
                metric,
            });
        }
        let value_of = |of: &Subject| match seeds {
            Seeds::Written => view.metric(of, metric),
            Seeds::Drawn => match view.drawn_error(of, metric) {
                Some(error) => error.map(MetricValue::from),
                None => view.metric(of, metric),
            },
        };
        let value = match (name, subject) {
            (Name::Plain(_), own) => value_of(own),
            (Name::Dotted(variant, _), own) => value_of(&sibling(own, variant)),
            (Name::Rival(rival, backend, _), Subject::Case(case)) => {
                view.rival(case, rival, backend, metric)
            }
            (Name::Rival(..), Subject::Unit(_)) => inconclusive(Reason::Misplaced {
                metric: Some(metric),
            }),
        };
        let value = value.map_err(|why| NotPassed {
            outcome: why.outcome,
            reason: Reason::OperandUnknown {
                name: name.to_string(),
                why: Box::new(why.reason),
            },
        })?;
        env.insert(name.clone(), value.number.into());
        if let Some(repeats) = value.spread.and_then(Spread::repeats)
            && repeats.low != repeats.high
        {
            spreads.push(Repeated {
                name: name.clone(),
                metric,
                repeats,
            });
        }
    }
    Ok((expression, env, spreads))
}

fn sibling(subject: &Subject, variant: &str) -> Subject {
    let mut subject = subject.clone();
    match &mut subject {
        Subject::Unit(unit) => unit.variant = variant.to_owned(),
        Subject::Case(case) => case.variant = variant.to_owned(),
    }
    subject
}
