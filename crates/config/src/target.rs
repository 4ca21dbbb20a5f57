//! Resolves `target`: values to be reached, written like limits. They are reported, and are no gates.

use super::gates::GateResolver;
use super::limit::read_limit;
use super::scope::Scope;
use super::written::{Key, WrittenGate, WrittenTargets};
use super::yaml::{Mistake, Spanned};
use model::{Case, Facet, Limit, Subject, Target};
use std::collections::BTreeMap;

/// Resolves the targets of a variant. `cases` are the cases of this variant, in the order of its shapes.
pub fn resolve(
    resolver: &GateResolver<'_>,
    written: &[WrittenTargets<'_>],
    cases: &[Case],
) -> Result<Vec<Target>, Mistake> {
    let nowhere = BTreeMap::new();
    let kernel = resolver.kernel;
    let mut targets = Vec::new();
    for written in written {
        for &arch in resolver.architectures {
            let scope = Scope::new("", &nowhere, &kernel.defines);
            let subject = Subject::Unit(kernel.unit(arch));
            let limits =
                |gate: &WrittenGate<'_>| gate.for_architecture(arch, resolver.architectures);
            targets.extend(subject_targets(
                resolver, written, &subject, &scope, limits,
            )?);
        }
        for (shape, case) in kernel.shapes.iter().zip(cases) {
            let scope = Scope::new(&shape.name, &shape.dims, &kernel.defines);
            let subject = Subject::Case(case.id.clone());
            let limits = |gate: &WrittenGate<'_>| gate.for_shape(&shape.name, resolver.shapes);
            targets.extend(subject_targets(
                resolver, written, &subject, &scope, limits,
            )?);
        }
    }
    Ok(targets)
}

fn subject_targets(
    resolver: &GateResolver<'_>,
    written: &WrittenTargets<'_>,
    subject: &Subject,
    scope: &Scope<'_>,
    limits: impl Fn(&WrittenGate<'_>) -> Result<Vec<Spanned<String>>, Mistake>,
) -> Result<Vec<Target>, Mistake> {
    let is_unit = matches!(subject, Subject::Unit(_));
    let context = resolver.make_context(scope, is_unit);
    let mut targets = Vec::new();
    for one in &written.limits {
        let Key::Metric(metric) = one.key else {
            continue;
        };
        if (metric.facet() == Facet::Resources) != is_unit {
            continue;
        }
        for text in limits(one)? {
            let Limit::Absolute { op, bound } = read_limit(&text, metric, &context)? else {
                let message = format!("`{text}` is no value that could be reached");
                return Err(text
                    .problem(message)
                    .help("write one, or relate it to a variant: \"<= 0.90 * plain.p50\""));
            };
            targets.push(Target {
                subject: subject.clone(),
                metric,
                op,
                bound,
                because: written.because.map(str::to_owned),
                declared: format!("{}:{}", resolver.file, text.at.line()),
            });
        }
    }
    Ok(targets)
}
