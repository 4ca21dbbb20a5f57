//! Resolves conditions such as `registers <= 64
//!
//! occupancy >= 0.5`.

use super::context::Context;
use super::names::suggest_metric;
use super::scope;
use super::yaml::{Mistake, Spanned};
use model::expr::{Expression, Name, ValueKind};
use model::{Expr, Facet, Metric};

pub fn read_condition(spot: &Spanned<String>, context: &Context<'_>) -> Result<Expr, Mistake> {
    let expression = scope::parse_expression(spot, spot)?;
    if expression.kind() == ValueKind::Number {
        return Err(spot
            .problem(format!("`{spot}` is not a condition"))
            .help("compare it with something: registers <= 64 || occupancy >= 0.5"));
    }
    let (references, constants) = context.resolve_names(spot, &expression)?;
    if references.is_empty() {
        return Err(spot
            .problem(format!("`{spot}` refers to no metric"))
            .help(suggest_metric("", &[])));
    }
    Ok(Expr {
        text: spot.trim().to_owned(),
        constants,
    })
}

/// Returns true if everything that a condition refers to belongs to a unit.
pub fn is_about_resources(text: &str, dims: &[&str]) -> bool {
    let resource = |name: &str| {
        Metric::from_name(name).is_none_or(|metric| metric.facet() == Facet::Resources)
    };
    Expression::parse(text).is_ok_and(|expression| {
        expression.names().iter().all(|name| match name {
            Name::Plain(name) => resource(name) && !dims.contains(&name.as_str()),
            Name::Dotted(_, name) | Name::Rival(_, _, name) => resource(name),
        })
    })
}

/// Returns the variants whose times an expression refers to. `None` is the variant's own.
pub fn timed_variants(text: &str) -> Vec<Option<String>> {
    let is_time =
        |name: &str| Metric::from_name(name).is_some_and(|metric| metric.facet() == Facet::Times);
    let Ok(expression) = Expression::parse(text) else {
        return Vec::new();
    };
    expression
        .names()
        .iter()
        .filter_map(|name| match name {
            Name::Plain(name) if is_time(name) => Some(None),
            Name::Dotted(variant, name) if is_time(name) => Some(Some(variant.clone())),
            // A rival runs in addition to what is timed.
            Name::Rival(..) => Some(None),
            Name::Plain(_) | Name::Dotted(..) => None,
        })
        .collect()
}
