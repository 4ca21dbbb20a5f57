//! From what was written under `gates` to gates, one for each unit or case.

use super::condition::{is_about_resources, read_condition, timed_variants};
use super::context::{Context, suggest_metric};
use super::kernel::{Call, KernelVariant};
use super::limit::{read_counters, read_limit};
use super::raw::{self, CONDITIONS, COUNTERS, Limits};
use super::scope::Scope;
use super::shape::NamedShape;
use super::yaml::{Problem, Spanned, suggest};
use model::{
    Arch, Bound, Case, CaseId, Facet, Gate, Limit, Metric, Num, Rival, Rule, Subject, Target,
    UnitId,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Key of the limits or seeds that hold for every name without its own.
pub const DEFAULT: &str = "default";

/// `cases`: those of this variant, in the order of its own shapes.
pub fn resolve_gates(writer: &Writer<'_>, cases: &[Case]) -> Result<Vec<Gate>, Problem> {
    let kernel = writer.kernel;
    let mut gates = Vec::new();
    for &arch in writer.architectures {
        gates.extend(writer.unit_gates(kernel.unit(arch))?);
    }
    for (shape, case) in kernel.shapes.iter().zip(cases) {
        let own = writer.case_gates(case, shape)?;
        let bounded = own.iter().any(|gate| {
            matches!(
                &gate.rule,
                Rule::Limit {
                    metric: Metric::MaxErr | Metric::RelL2,
                    limit: Limit::Absolute { .. },
                }
            )
        });
        if !bounded && case.has_output() {
            return Err(Problem::new(
                kernel.raw.gates.at,
                format!("{} has no limit on its error", case.id),
            )
            .help("add max_err or rel_l2: without one the reference has no effect"));
        }
        gates.extend(own);
    }
    Ok(gates)
}

/// The scope in which limits of a variant are read.
pub struct Writer<'a> {
    pub kernel: &'a KernelVariant<'a>,
    /// All variants of the kernel.
    pub siblings: &'a [KernelVariant<'a>],
    pub architectures: &'a [Arch],
    /// All of the kernel.
    pub shapes: &'a [NamedShape],
    pub rivals: &'a [Rival],
    pub dims: &'a [&'a str],
    pub file: &'a str,
}

impl<'a> Writer<'a> {
    fn unit_gates(&self, id: UnitId) -> Result<Vec<Gate>, Problem> {
        let nowhere = BTreeMap::new();
        let scope = Scope::new("", &nowhere, &self.kernel.defines);
        let context = self.make_context(&scope, true);
        let arch = id.arch;
        let subject = Subject::Unit(id);
        let mut gates = vec![self.make_gate(&subject, Rule::Built, None)];
        if self.siblings.len() > 1 {
            gates.push(self.make_gate(&subject, Rule::HasEffect, None));
        }
        gates.extend(self.written_gates(&subject, &context, |written| {
            written.of_architecture(arch, self.architectures)
        })?);
        Ok(gates)
    }

    fn case_gates(&self, case: &Case, shape: &NamedShape) -> Result<Vec<Gate>, Problem> {
        let scope = Scope::new(&shape.name, &shape.dims, &self.kernel.defines);
        let context = self.make_context(&scope, false);
        let subject = Subject::Case(case.id.clone());
        let of_outputs = [Rule::Finite, Rule::Written, Rule::Deterministic];
        let of_all = [Rule::InputsIntact, Rule::AgreesWithDriver, Rule::NoFindings];
        let mut gates: Vec<_> = of_outputs
            .into_iter()
            .filter(|_| case.has_output())
            .chain(of_all)
            .map(|rule| self.make_gate(&subject, rule, None))
            .collect();
        gates.extend(self.counter_gates(&subject, &shape.name)?);
        gates.extend(self.written_gates(&subject, &context, |written| {
            written.of_shape(&shape.name, self.shapes)
        })?);
        Ok(gates)
    }

    /// Those on resources for a unit, all others for a case; `limits` picks the texts that are for it.
    fn written_gates(
        &self,
        subject: &Subject,
        context: &Context<'_>,
        limits: impl Fn(&WrittenGate<'_>) -> Result<Vec<Spanned<String>>, Problem>,
    ) -> Result<Vec<Gate>, Problem> {
        let mut gates = Vec::new();
        for written in &self.kernel.gates {
            match written.key {
                Key::Metric(metric) if (metric.facet() == Facet::Resources) == context.unit => {
                    for text in limits(written)? {
                        let limit = read_limit(&text, metric, context)?;
                        gates.push(self.make_gate(
                            subject,
                            Rule::Limit { metric, limit },
                            Some(&text),
                        ));
                    }
                }
                Key::Metric(_) | Key::Counters => {}
                Key::Conditions => {
                    for text in written.conditions()? {
                        if is_about_resources(&text, self.dims) == context.unit {
                            let expr = read_condition(&text, context)?;
                            gates.push(self.make_gate(
                                subject,
                                Rule::Condition { expr },
                                Some(&text),
                            ));
                        }
                    }
                }
            }
        }
        Ok(gates)
    }

    /// Counters repeat exactly, so they may not grow at all unless a limit allows it.
    fn counter_gates(&self, subject: &Subject, shape: &str) -> Result<Vec<Gate>, Problem> {
        let mut written = self.kernel.gates.iter();
        let limits = written
            .find(|written| written.key == Key::Counters)
            .map_or(Ok(Vec::new()), |written| {
                written.of_shape(shape, self.shapes)
            })?;
        if limits.is_empty() {
            let change = Num(0.0);
            return Ok(vec![self.make_gate(
                subject,
                Rule::Counters { change },
                None,
            )]);
        }
        limits
            .iter()
            .map(|text| {
                let change = read_counters(text)?;
                Ok(self.make_gate(subject, Rule::Counters { change }, Some(text)))
            })
            .collect()
    }

    pub fn make_context<'b>(&'b self, scope: &'b Scope<'b>, unit: bool) -> Context<'b> {
        Context {
            scope,
            unit,
            variant: self.kernel.variant,
            siblings: self.siblings,
            dims: self.dims,
            rivals: self.rivals,
            has_codec: self
                .kernel
                .tensors
                .iter()
                .any(|(_, tensor)| tensor.codec.is_some()),
            has_output: self.kernel.has_output(),
            launcher: matches!(self.kernel.call, Call::Launcher { .. }),
        }
    }

    fn make_gate(&self, subject: &Subject, rule: Rule, written: Option<&Spanned<String>>) -> Gate {
        Gate {
            subject: subject.clone(),
            rule,
            declared: written.map(|spot| format!("{}:{}", self.file, spot.at.line())),
        }
    }
}

fn read_texts(limits: &Spanned<Limits>) -> Result<Vec<Spanned<String>>, Problem> {
    match &limits.value {
        Limits::One(text) => Ok(vec![Spanned {
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

/// Sets what follows from gates and targets: which cases are timed, and from gates alone the tolerance of each.
pub fn mark_cases(gates: &[Gate], targets: &[Target], cases: &mut [Case]) {
    let mut timed: Vec<CaseId> = Vec::new();
    let aims = targets
        .iter()
        .map(|it| (&it.subject, Cow::Owned(it.rule())));
    let rules = gates
        .iter()
        .map(|it| (&it.subject, Cow::Borrowed(&it.rule)));
    for (subject, rule) in rules.chain(aims) {
        let Subject::Case(case) = subject else {
            continue;
        };
        let text = match &*rule {
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
        if rule
            .metric()
            .is_some_and(|metric| metric.facet() == Facet::Times)
        {
            timed.push(case.clone());
        }
        for variant in text.map(|text| timed_variants(text)).unwrap_or_default() {
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

/// The subject of a key under `gates`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Metric(Metric),
    /// All counters that can be gated, together.
    Counters,
    Conditions,
}

impl Key {
    pub fn parse(name: &Spanned<String>) -> Result<Self, Problem> {
        match name.as_str() {
            COUNTERS => Ok(Self::Counters),
            CONDITIONS => Ok(Self::Conditions),
            text => Metric::from_name(text).map(Self::Metric).ok_or_else(|| {
                Problem::new(name.at, format!("unknown metric `{text}`"))
                    .help(suggest_metric(text, &[CONDITIONS, COUNTERS]))
            }),
        }
    }
}

/// The values of one key: the kernel's, and then the variant's.
pub struct WrittenGate<'a> {
    pub name: &'a Spanned<String>,
    pub key: Key,
    layers: Vec<&'a Spanned<Limits>>,
}

/// The kernel's gates and the variant's, in the order of the file.
pub fn merge_gates<'a>(
    kernel: &'a raw::Gates,
    variant: Option<&'a raw::Gates>,
) -> Result<Vec<WrittenGate<'a>>, Problem> {
    let variant = variant.into_iter().flat_map(|gates| gates.0.iter());
    merge_limits(kernel.0.iter().chain(variant))
}

/// Merges the limits on each metric from several layers.
pub fn merge_limits<'a>(
    written: impl Iterator<Item = &'a (Spanned<String>, Spanned<Limits>)>,
) -> Result<Vec<WrittenGate<'a>>, Problem> {
    let mut merged: Vec<WrittenGate<'a>> = Vec::new();
    for (name, limits) in written {
        let key = Key::parse(name)?;
        match merged.iter_mut().find(|known| known.key == key) {
            Some(known) => known.layers.push(limits),
            None => merged.push(WrittenGate {
                name,
                key,
                layers: vec![limits],
            }),
        }
    }
    Ok(merged)
}

impl WrittenGate<'_> {
    /// Conditions have no names by which one could replace another: all of them hold.
    fn conditions(&self) -> Result<Vec<Spanned<String>>, Problem> {
        let texts: Vec<_> = self
            .layers
            .iter()
            .map(|limits| read_texts(limits))
            .collect::<Result<_, _>>()?;
        Ok(texts.concat())
    }

    /// The limits for `key`, one of the architectures or shapes that are `known`: the variant's if it has any,
    /// else the kernel's.
    fn limits(
        &self,
        key: &str,
        known: &[String],
        what: &str,
    ) -> Result<Option<Vec<Spanned<String>>>, Problem> {
        let mut found = None;
        for limits in &self.layers {
            let Limits::By(by) = &limits.value else {
                found = Some(read_texts(limits)?);
                continue;
            };
            let stranger = by
                .iter()
                .find(|(name, _)| name.value != DEFAULT && !known.contains(&name.value));
            if let Some((name, _)) = stranger {
                let known = known.iter().map(String::as_str);
                return Err(
                    Problem::new(name.at, format!("unknown {what} `{}`", name.value))
                        .help(suggest(name, known.chain([DEFAULT]))),
                );
            }
            if let Some(chosen) = by.get(key).or_else(|| by.get(DEFAULT)) {
                found = Some(read_texts(chosen)?);
            }
        }
        Ok(found)
    }

    pub fn of_architecture(
        &self,
        arch: Arch,
        known: &[Arch],
    ) -> Result<Vec<Spanned<String>>, Problem> {
        let key = arch.to_string();
        let known: Vec<String> = known.iter().map(Arch::to_string).collect();
        let lacking = || {
            let at = self.layers.first().map_or(self.name.at, |limits| limits.at);
            Problem::new(at, format!("no limit for {key}"))
                .help(format!("add `{key}` or `{DEFAULT}`"))
        };
        self.limits(&key, &known, "architecture")?
            .ok_or_else(lacking)
    }

    /// One shape may have a limit that others do not.
    pub fn of_shape(
        &self,
        key: &str,
        known: &[NamedShape],
    ) -> Result<Vec<Spanned<String>>, Problem> {
        let known: Vec<String> = known.iter().map(|shape| shape.name.clone()).collect();
        Ok(self.limits(key, &known, "shape")?.unwrap_or_default())
    }
}
