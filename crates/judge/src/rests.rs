//! Floor 1: which values of a case the gates of the run rest on.

use super::index::View;
use model::expr::{Expression, Name};
use model::*;

impl View<'_, '_> {
    /// Returns what samples of single launches of the case are used for.
    pub fn singles(self, id: &CaseId) -> Singles {
        if self
            .policy()
            .gates
            .iter()
            .any(|gate| rests_on(gate, id, Metric::uses_single_launches))
        {
            Singles::Judged
        } else {
            Singles::Shown
        }
    }
}

/// Returns true if a gate rests on a metric of the case that `is_meant` selects. This is a gate of the case itself, or
/// a gate of a sibling variant that names it.
pub fn rests_on(gate: &Gate, id: &CaseId, is_meant: impl Fn(Metric) -> bool) -> bool {
    let Subject::Case(case) = &gate.subject else {
        return false;
    };
    if (&case.kernel, &case.shape) != (&id.kernel, &id.shape) {
        return false;
    }
    let is_own = case.variant == id.variant;
    match &gate.rule {
        Rule::Limit { metric, limit } => {
            is_own && is_meant(*metric)
                || matches!(
                    limit,
                    Limit::Absolute { bound: Bound::Expr(expr), .. }
                        if names_metric(expr, is_own, &id.variant, is_meant)
                )
        }
        Rule::Condition { expr } => names_metric(expr, is_own, &id.variant, is_meant),
        _ => false,
    }
}

/// Returns true if an expression names such a metric of a variant. An expression that cannot be read may name it, so it
/// counts.
fn names_metric(
    expr: &Expr,
    is_own: bool,
    variant: &str,
    is_meant: impl Fn(Metric) -> bool,
) -> bool {
    let Ok(expression) = Expression::parse(&expr.text) else {
        return true;
    };
    expression.names().iter().any(|name| {
        let (of_it, metric) = match name {
            Name::Plain(metric) => (is_own, metric),
            Name::Dotted(of, metric) => (of == variant, metric),
            Name::Rival(_, _, metric) => (false, metric),
        };
        of_it && Metric::from_name(metric).is_some_and(&is_meant)
    })
}
