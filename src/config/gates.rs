//! From what was written under `gates` to gates, one for each unit or case.

use super::kernel::{Call, Form};
use super::limits::{self, Context};
use super::raw::{self, CONDITIONS, COUNTERS, Limits};
use super::scope::Scope;
use super::shape::Shape;
use super::yaml::{Problem, Spot, did_you_mean};
use std::collections::BTreeMap;
use verdict::model::{
    Arch, Bound, Case, CaseId, Facet, Gate, Limit, Metric, Num, Rule, Subject, UnitId,
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
    for Written { name, .. } in &form.gates {
        let known = [CONDITIONS, COUNTERS].contains(&name.as_str());
        if !known && Metric::from_name(name).is_none() {
            return Err(
                Problem::new(name.at, format!("unknown metric `{}`", name.value))
                    .help(limits::metric_like(name, &[CONDITIONS, COUNTERS])),
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
        for written in &self.form.gates {
            match written.metric() {
                Some(metric) if metric.facet() == Facet::Resources => {
                    for text in written.of_architecture(&arch, &known)? {
                        let limit = limits::limit(&text, metric, &context)?;
                        gates.push(self.gate(&subject, Rule::Limit { metric, limit }, Some(&text)));
                    }
                }
                Some(_) => {}
                None if written.name.value == COUNTERS => {}
                None => {
                    for text in written.conditions()? {
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
            Rule::NoFindings,
        ]
        .into_iter()
        .map(|rule| self.gate(&subject, rule, None))
        .collect();
        gates.extend(self.counters(&subject, &shape.name, &known)?);
        for written in &self.form.gates {
            match written.metric() {
                Some(metric) if metric.facet() == Facet::Resources => {}
                None if written.name.value == COUNTERS => {}
                Some(metric) => {
                    for text in written.of_shape(&shape.name, &known)? {
                        let limit = limits::limit(&text, metric, &context)?;
                        gates.push(self.gate(&subject, Rule::Limit { metric, limit }, Some(&text)));
                    }
                }
                None => {
                    for text in written.conditions()? {
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

    /// What repeats exactly may not grow at all, unless something else is said.
    fn counters(
        &self,
        subject: &Subject,
        shape: &str,
        known: &[String],
    ) -> Result<Vec<Gate>, Problem> {
        let written = self.form.gates.iter();
        let mut written = written.filter(|written| written.name.value == COUNTERS);
        let limits = written
            .next()
            .map_or(Ok(Vec::new()), |written| written.of_shape(shape, known))?;
        if limits.is_empty() {
            let change = Num(0.0);
            return Ok(vec![self.gate(subject, Rule::Counters { change }, None)]);
        }
        limits
            .iter()
            .map(|text| {
                let change = limits::counters(text)?;
                Ok(self.gate(subject, Rule::Counters { change }, Some(text)))
            })
            .collect()
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
            launcher: matches!(self.form.call, Call::Launcher(_)),
        }
    }

    fn gate(&self, subject: &Subject, rule: Rule, written: Option<&Spot<String>>) -> Gate {
        Gate {
            subject: subject.clone(),
            rule,
            declared: written.map(|spot| format!("{}:{}", self.file, spot.at.line())),
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

/// What is said of one metric, or the conditions: by the kernel, and then by the variant.
pub struct Written<'a> {
    pub name: &'a Spot<String>,
    layers: Vec<&'a Spot<Limits>>,
}

/// The kernel's gates and the variant's, in the order of the file.
pub fn merge<'a>(kernel: &'a raw::Gates, variant: Option<&'a raw::Gates>) -> Vec<Written<'a>> {
    let mut merged: Vec<Written<'a>> = Vec::new();
    let variant = variant.into_iter().flat_map(|gates| gates.0.iter());
    for (name, limits) in kernel.0.iter().chain(variant) {
        match merged
            .iter_mut()
            .find(|known| known.name.value == name.value)
        {
            Some(known) => known.layers.push(limits),
            None => merged.push(Written {
                name,
                layers: vec![limits],
            }),
        }
    }
    merged
}

impl Written<'_> {
    fn metric(&self) -> Option<Metric> {
        Metric::from_name(self.name)
    }

    /// Conditions have no names by which one could replace another: all of them hold.
    fn conditions(&self) -> Result<Vec<Spot<String>>, Problem> {
        let texts: Vec<_> = self
            .layers
            .iter()
            .map(|limits| texts(limits))
            .collect::<Result<_, _>>()?;
        Ok(texts.concat())
    }

    /// The limits that hold for `key`, one of the architectures or shapes that are `known`: the variant's
    /// where it says any, else the kernel's.
    fn limits(
        &self,
        key: &str,
        known: &[String],
        what: &str,
    ) -> Result<Option<Vec<Spot<String>>>, Problem> {
        let mut found = None;
        for limits in &self.layers {
            let Limits::By(by) = &limits.value else {
                found = Some(texts(limits)?);
                continue;
            };
            let stranger = by
                .iter()
                .find(|(name, _)| name.value != DEFAULT && !known.contains(&name.value));
            if let Some((name, _)) = stranger {
                let known = known.iter().map(String::as_str);
                return Err(
                    Problem::new(name.at, format!("there is no {what} `{}`", name.value))
                        .help(did_you_mean(name, known.chain([DEFAULT]))),
                );
            }
            if let Some(chosen) = by.get(key).or_else(|| by.get(DEFAULT)) {
                found = Some(texts(chosen)?);
            }
        }
        Ok(found)
    }

    fn of_architecture(&self, key: &str, known: &[String]) -> Result<Vec<Spot<String>>, Problem> {
        let lacking = || {
            let at = self.layers.first().map_or(self.name.at, |limits| limits.at);
            Problem::new(at, format!("no limit for {key}"))
                .help(format!("add `{key}` or `{DEFAULT}`"))
        };
        self.limits(key, known, "architecture")?.ok_or_else(lacking)
    }

    /// A limit may be asked of one shape alone.
    fn of_shape(&self, key: &str, known: &[String]) -> Result<Vec<Spot<String>>, Problem> {
        Ok(self.limits(key, known, "shape")?.unwrap_or_default())
    }
}
