//! Resolves `expect`, which names variants that are wrong on purpose and the gates that must catch them.

use super::condition::timed_variants;
use super::gates::expression;
use super::variant::KernelVariant;
use super::yaml::{Mistake, Spanned, suggest};
use model::{Expected, Facet, Gate, GateName, Limit, Rule};

/// Returns true if a gate applies to a variant that must fail. Nobody measures the speed of a wrong kernel, and it has
/// no baseline.
pub fn is_asked(gate: &Gate) -> bool {
    let is_untimed =
        expression(&gate.rule).is_none_or(|expr| timed_variants(&expr.text).is_empty());
    match &gate.rule {
        Rule::Limit { metric, limit } => {
            let is_absolute = matches!(limit, Limit::Absolute { .. });
            metric.facet() != Facet::Times && is_absolute && is_untimed
        }
        Rule::Condition { .. } => is_untimed,
        Rule::Counters { .. } => false,
        Rule::Built
        | Rule::HasEffect
        | Rule::Finite
        | Rule::Written
        | Rule::Deterministic
        | Rule::InputsIntact
        | Rule::AgreesWithDriver
        | Rule::NoFindings => true,
    }
}

/// Resolves the expectation of a variant. `gates` are the gates that apply to it.
pub fn resolve(
    kernel: &KernelVariant<'_>,
    names: &Spanned<Vec<Spanned<String>>>,
    gates: &[Gate],
    file: &str,
) -> Result<Expected, Mistake> {
    if names.is_empty() {
        return Err(names
            .problem("no gate: nothing would have to fail")
            .help("name those that catch it: fail: [memory and races, max_err]"));
    }
    let mut known: Vec<GateName> = Vec::new();
    for name in gates
        .iter()
        .filter_map(|gate| GateName::from_rule(&gate.rule))
    {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let mut named: Vec<GateName> = Vec::new();
    for name in names.iter() {
        let problem = |message: String| name.problem(message);
        let Some(gate) = known.iter().find(|gate| gate.name() == name.value) else {
            let known = known.iter().map(|gate| gate.name());
            let message = format!(
                "`{}` has no gate `{name}` that it could fail",
                kernel.variant
            );
            return Err(problem(message).help(suggest(name, known)));
        };
        if named.contains(gate) {
            return Err(problem(format!("duplicate gate `{name}`")));
        }
        named.push(*gate);
    }
    Ok(Expected {
        kernel: kernel.kernel.to_owned(),
        variant: kernel.variant.to_owned(),
        gates: named,
        left_out: false,
        declared: format!("{file}:{}", names.at.line()),
    })
}
