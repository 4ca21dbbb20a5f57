//! From what was written under `gates` to gates, one for each unit or case.

use super::kernel::{Form, Shape};
use super::limits::{self, Context};
use super::raw::{self, CONDITIONS, Limits};
use super::scope::Scope;
use super::yaml::{Problem, Spot, did_you_mean};
use std::collections::BTreeMap;
use verdict::model::{
    Arch, Bound, Case, CaseId, Facet, Gate, Limit, Metric, Rule, Subject, UnitId,
};

/// Key of what holds wherever nothing else is said.
pub const DEFAULT: &str = "default";

/// `cases`: those of this form, in the order of `shapes`.
pub fn gates(
    form: &Form<'_>,
    variants: &[&str],
    architectures: &[Arch],
    shapes: &[Shape],
    cases: &[Case],
    file: &str,
) -> Result<Vec<Gate>, Problem> {
    let writer = Writer {
        form,
        variants,
        dims: &shapes.first().map_or(Vec::new(), |shape| {
            shape.dims.keys().map(String::as_str).collect()
        }),
        file,
    };
    for (name, _) in &form.gates {
        if name.value != CONDITIONS && Metric::from_name(name).is_none() {
            let known = Metric::ALL.iter().map(|metric| metric.name());
            return Err(
                Problem::new(name.at, format!("unknown metric `{}`", name.value))
                    .help(did_you_mean(name, known.chain([CONDITIONS]))),
            );
        }
    }
    let mut gates = Vec::new();
    for &arch in architectures {
        let id = UnitId {
            kernel: form.kernel.to_owned(),
            variant: form.variant.to_owned(),
            arch,
        };
        gates.extend(writer.unit(id, architectures)?);
    }
    for (shape, case) in shapes.iter().zip(cases) {
        let own = writer.case(case, shape, shapes)?;
        let bounded = own.iter().any(|gate| {
            matches!(
                &gate.rule,
                Rule::Limit {
                    metric: Metric::MaxErr | Metric::RelL2,
                    limit: Limit::Absolute { .. },
                }
            )
        });
        if !bounded {
            return Err(Problem::new(
                form.raw.gates.at,
                format!("nothing says how wrong {} may be", case.id),
            )
            .help("add max_err or rel_l2: without one the reference is computed to no purpose"));
        }
        gates.extend(own);
    }
    Ok(gates)
}

struct Writer<'a> {
    form: &'a Form<'a>,
    variants: &'a [&'a str],
    dims: &'a [&'a str],
    file: &'a str,
}

impl<'a> Writer<'a> {
    fn unit(&self, id: UnitId, architectures: &[Arch]) -> Result<Vec<Gate>, Problem> {
        let nowhere = BTreeMap::new();
        let scope = Scope::new("", &nowhere, &self.form.defines);
        let context = self.context(&scope, true);
        let arch = id.arch.to_string();
        let known: Vec<String> = architectures.iter().map(Arch::to_string).collect();
        let subject = Subject::Unit(id);
        let mut gates = vec![self.gate(&subject, Rule::Built, None)];
        if self.variants.len() > 1 {
            gates.push(self.gate(&subject, Rule::HasEffect, None));
        }
        for (name, limits) in &self.form.gates {
            match Metric::from_name(name) {
                Some(metric) if metric.facet() == Facet::Resources => {
                    for text in self.choose(limits, &arch, &known, "architecture")? {
                        let limit = limits::limit(&text, metric, &context)?;
                        gates.push(self.gate(&subject, Rule::Limit { metric, limit }, Some(&text)));
                    }
                }
                Some(_) => {}
                None => {
                    for text in texts(limits)? {
                        if limits::is_about_resources(&text, self.dims) {
                            let expr = limits::condition(&text, &context)?;
                            gates.push(self.gate(&subject, Rule::Condition { expr }, Some(&text)));
                        }
                    }
                }
            }
        }
        Ok(gates)
    }

    fn case(&self, case: &Case, shape: &Shape, shapes: &[Shape]) -> Result<Vec<Gate>, Problem> {
        let scope = Scope::new(&shape.name, &shape.dims, &self.form.defines);
        let context = self.context(&scope, false);
        let known: Vec<String> = shapes.iter().map(|shape| shape.name.clone()).collect();
        let subject = Subject::Case(case.id.clone());
        let mut gates: Vec<_> = [
            Rule::Finite,
            Rule::Written,
            Rule::Deterministic,
            Rule::InputsIntact,
            Rule::AgreesWithDriver,
        ]
        .into_iter()
        .map(|rule| self.gate(&subject, rule, None))
        .collect();
        for (name, limits) in &self.form.gates {
            match Metric::from_name(name) {
                Some(metric) if metric.facet() == Facet::Resources => {}
                Some(metric) => {
                    for text in self.choose(limits, &shape.name, &known, "shape")? {
                        let limit = limits::limit(&text, metric, &context)?;
                        gates.push(self.gate(&subject, Rule::Limit { metric, limit }, Some(&text)));
                    }
                }
                None => {
                    for text in texts(limits)? {
                        if !limits::is_about_resources(&text, self.dims) {
                            let expr = limits::condition(&text, &context)?;
                            gates.push(self.gate(&subject, Rule::Condition { expr }, Some(&text)));
                        }
                    }
                }
            }
        }
        Ok(gates)
    }

    fn context<'b>(&'b self, scope: &'b Scope<'b>, unit: bool) -> Context<'b> {
        Context {
            scope,
            unit,
            variant: self.form.variant,
            variants: self.variants,
            dims: self.dims,
            has_codec: self
                .form
                .tensors
                .iter()
                .any(|(_, tensor)| tensor.codec.is_some()),
            launcher: self.form.raw.launcher.is_some(),
        }
    }

    fn gate(&self, subject: &Subject, rule: Rule, written: Option<&Spot<String>>) -> Gate {
        Gate {
            subject: subject.clone(),
            rule,
            declared: written.map(|spot| format!("{}:{}", self.file, spot.at.line())),
        }
    }

    /// The limits that hold for `key`, one of the architectures or shapes that are `known`.
    fn choose(
        &self,
        limits: &Spot<Limits>,
        key: &str,
        known: &[String],
        what: &str,
    ) -> Result<Vec<Spot<String>>, Problem> {
        let Limits::By(by) = &limits.value else {
            return texts(limits);
        };
        for (name, _) in by.iter() {
            if name.value != DEFAULT && !known.contains(&name.value) {
                let known = known.iter().map(String::as_str);
                return Err(
                    Problem::new(name.at, format!("there is no {what} `{}`", name.value))
                        .help(did_you_mean(name, known.chain([DEFAULT]))),
                );
            }
        }
        match by.get(key).or_else(|| by.get(DEFAULT)) {
            Some(chosen) => texts(chosen),
            // Times may be asked of one shape alone; resources are known for every architecture.
            None if what == "shape" => Ok(Vec::new()),
            None => Err(Problem::new(limits.at, format!("no limit for {key}"))
                .help(format!("add `{key}` or `{DEFAULT}`"))),
        }
    }
}

fn texts(limits: &Spot<Limits>) -> Result<Vec<Spot<String>>, Problem> {
    match &limits.value {
        Limits::One(text) => Ok(vec![Spot {
            value: text.clone(),
            at: limits.at,
        }]),
        Limits::All(texts) if texts.is_empty() => {
            Err(Problem::new(limits.at, "an empty list sets no limit"))
        }
        Limits::All(texts) => Ok(texts.clone()),
        Limits::By(_) => Err(Problem::new(
            limits.at,
            "expected a limit or a list of limits",
        )),
    }
}

/// Sets what follows from the gates: which cases are timed, and the tolerance of each.
pub fn apply(gates: &[Gate], cases: &mut [Case]) {
    let mut timed: Vec<CaseId> = Vec::new();
    for gate in gates {
        let Subject::Case(case) = &gate.subject else {
            continue;
        };
        let text = match &gate.rule {
            Rule::Condition { expr } => Some(&expr.text),
            Rule::Limit {
                limit:
                    Limit::Absolute {
                        bound: Bound::Expr(expr),
                        ..
                    },
                ..
            } => Some(&expr.text),
            _ => None,
        };
        if matches!(&gate.rule, Rule::Limit { metric, .. } if metric.facet() == Facet::Times) {
            timed.push(case.clone());
        }
        for variant in text.map(|text| limits::times(text)).unwrap_or_default() {
            timed.push(CaseId {
                variant: variant.unwrap_or_else(|| case.variant.clone()),
                ..case.clone()
            });
        }
    }
    for case in cases {
        case.timed = timed.contains(&case.id);
        case.tolerance = gates
            .iter()
            .filter(|gate| matches!(&gate.subject, Subject::Case(id) if *id == case.id))
            .filter_map(|gate| match &gate.rule {
                Rule::Limit {
                    metric: Metric::MaxErr,
                    limit:
                        Limit::Absolute {
                            bound: Bound::Value(value),
                            ..
                        },
                } => Some(*value),
                _ => None,
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
    }
}

/// The kernel's gates with the variant's: those of the same metric replaced, the rest added.
pub fn merge<'a>(
    kernel: &'a raw::Gates,
    variant: Option<&'a raw::Gates>,
) -> Vec<(&'a Spot<String>, &'a Spot<Limits>)> {
    let mut merged: Vec<_> = kernel
        .0
        .iter()
        .map(|(name, limits)| (name, limits))
        .collect();
    for (name, limits) in variant.into_iter().flat_map(|gates| gates.0.iter()) {
        // Conditions have no name by which one could replace another.
        let same = merged
            .iter_mut()
            .find(|(known, _)| known.value == name.value && name.value != CONDITIONS);
        match same {
            Some(entry) => *entry = (name, limits),
            None => merged.push((name, limits)),
        }
    }
    merged
}
