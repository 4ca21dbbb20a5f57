//! Checks names, and suggests what an unknown name may mean.

use super::yaml::{Mistake, Spanned, Suggestion, suggest};
use model::expr::is_identifier;
use model::{Facet, Metric};

/// Names of kernels, variants and shapes are used in file names, and in filters between `/` and `@`.
pub fn check_file_name(name: &Spanned<String>, what: &str) -> Result<(), Mistake> {
    let fits = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    if !name.is_empty() && !name.starts_with('-') && name.chars().all(fits) {
        return Ok(());
    }
    Err(name.problem(format!(
        "`{name}` cannot name a {what}: use letters, digits, _ and -"
    )))
}

pub fn check_identifier(name: &Spanned<String>, what: &str) -> Result<(), Mistake> {
    if is_identifier(name) {
        return Ok(());
    }
    Err(name.problem(format!(
        "`{name}` cannot name a {what}: use letters, digits and _, and no digit first"
    )))
}

/// Suggests metrics for an unknown name: a similar one, or else all of them. The metrics of compiled files and the
/// counters of the simulator and of profiles are left out, because docs/gates.md lists them.
pub fn suggest_metric<'a>(name: &str, others: &[&'a str]) -> Suggestion<'a> {
    let others = others.iter().copied();
    let close = suggest(
        name,
        Metric::ALL
            .iter()
            .map(|metric| metric.name())
            .chain(others.clone()),
    );
    if let Suggestion::Close(_) = close {
        return close;
    }
    let is_offered = |metric: &&Metric| {
        !metric.is_of_files() && !matches!(metric.facet(), Facet::Counters | Facet::Profile)
    };
    suggest(
        name,
        Metric::ALL
            .iter()
            .filter(is_offered)
            .map(|metric| metric.name())
            .chain(others),
    )
}
