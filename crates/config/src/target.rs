//! `target`: figures to be reached, as limits are written. They are reported, and are no gates.

use super::gates::{Key, Writer, WrittenGate, merge_limits};
use super::limit::read_limit;
use super::raw::{self, BECAUSE, Limits};
use super::scope::Scope;
use super::yaml::{Ordered, Problem, Spanned};
use model::{Case, Facet, Limit, Subject, Target};
use std::collections::BTreeMap;

/// The targets of a variant, as written.
pub struct Written<'a> {
    limits: Vec<WrittenGate<'a>>,
    because: Option<&'a str>,
}

/// The kernel's and the variant's. A reason is for the targets that it is written with.
pub fn merge<'a>(
    kernel: &'a raw::Targets,
    variant: Option<&'a raw::Targets>,
) -> Result<Vec<Written<'a>>, Problem> {
    let own = variant.map(|targets| &targets.0);
    let replaced = |name: &str| own.is_some_and(|own| own.get(name).is_some());
    let of_kernel = read(&kernel.0, |name| !replaced(name))?;
    let of_variant = own.map(|own| read(own, |_| true)).transpose()?;
    Ok(std::iter::once(of_kernel).chain(of_variant).collect())
}

fn read<'a>(
    written: &'a Ordered<Spanned<Limits>>,
    is_meant: impl Fn(&str) -> bool,
) -> Result<Written<'a>, Problem> {
    let mut because = None;
    if let Some(text) = written.get(BECAUSE) {
        match &text.value {
            Limits::One(words) if words.trim().len() >= 3 => because = Some(words.trim()),
            _ => {
                return Err(Problem::new(text.at, "`because` needs the reason in words")
                    .help("because: bound by issue slots, 25.4 us where 23.6 was the target"));
            }
        }
    }
    let limits = written.iter().filter(|(name, _)| name.value != BECAUSE);
    let limits = merge_limits(limits.filter(|(name, _)| is_meant(name)))?;
    match limits.iter().find(|it| !matches!(it.key, Key::Metric(_))) {
        Some(other) => Err(Problem::new(
            other.name.at,
            format!(
                "a target is for one metric, and `{}` is none",
                other.name.value
            ),
        )),
        None => Ok(Written { limits, because }),
    }
}

/// `cases`: those of this variant, in the order of its own shapes.
pub fn resolve(
    writer: &Writer<'_>,
    written: &[Written<'_>],
    cases: &[Case],
) -> Result<Vec<Target>, Problem> {
    let nowhere = BTreeMap::new();
    let kernel = writer.kernel;
    let mut targets = Vec::new();
    for written in written {
        for &arch in writer.architectures {
            let scope = Scope::new("", &nowhere, &kernel.defines);
            let subject = Subject::Unit(kernel.unit(arch));
            let limits = |it: &WrittenGate<'_>| it.of_architecture(arch, writer.architectures);
            targets.extend(of_subject(writer, written, &subject, &scope, limits)?);
        }
        for (shape, case) in kernel.shapes.iter().zip(cases) {
            let scope = Scope::new(&shape.name, &shape.dims, &kernel.defines);
            let subject = Subject::Case(case.id.clone());
            let limits = |it: &WrittenGate<'_>| it.of_shape(&shape.name, writer.shapes);
            targets.extend(of_subject(writer, written, &subject, &scope, limits)?);
        }
    }
    Ok(targets)
}

fn of_subject(
    writer: &Writer<'_>,
    written: &Written<'_>,
    subject: &Subject,
    scope: &Scope<'_>,
    limits: impl Fn(&WrittenGate<'_>) -> Result<Vec<Spanned<String>>, Problem>,
) -> Result<Vec<Target>, Problem> {
    let is_unit = matches!(subject, Subject::Unit(_));
    let context = writer.make_context(scope, is_unit);
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
                let message = format!("`{}` is no value that could be reached", text.value);
                return Err(Problem::new(text.at, message)
                    .help("write one, or relate it to a variant: \"<= 0.90 * plain.p50\""));
            };
            targets.push(Target {
                subject: subject.clone(),
                metric,
                op,
                bound,
                because: written.because.map(str::to_owned),
                declared: format!("{}:{}", writer.file, text.at.line()),
            });
        }
    }
    Ok(targets)
}
