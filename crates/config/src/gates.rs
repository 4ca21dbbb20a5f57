//! Turns what was written under `gates` into gates, one for each unit or case.

use super::condition::{is_about_resources, read_condition, timed_variants};
use super::context::Context;
use super::limit::{read_counters, read_limit};
use super::scope::Scope;
use super::shape::NamedShape;
use super::variant::{Call, KernelVariant};
use super::written::{Key, WrittenGate};
use super::yaml::{Mistake, Spanned};
use model::{
    Arch, Bound, Case, CaseId, Expr, Facet, Gate, Limit, Metric, Num, Rival, Rule, Subject, Target,
    UnitId,
};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The scope in which the limits of a variant are resolved to gates.
pub struct GateResolver<'a> {
    pub kernel: &'a KernelVariant<'a>,
    /// All variants of the kernel, including this one.
    pub siblings: &'a [KernelVariant<'a>],
    pub architectures: &'a [Arch],
    /// All shapes of the kernel, selected or not.
    pub shapes: &'a [NamedShape],
    pub rivals: &'a [Rival],
    pub dims: &'a [&'a str],
    pub file: &'a str,
}

impl<'a> GateResolver<'a> {
    pub fn unit_gates(&self, id: &UnitId) -> Result<Vec<Gate>, Mistake> {
        let nowhere = BTreeMap::new();
        let scope = Scope::new("", &nowhere, &self.kernel.defines);
        let context = self.make_context(&scope, true);
        let arch = id.arch;
        let subject = Subject::Unit(id.clone());
        let mut gates = vec![self.make_gate(&subject, Rule::Built, None)];
        if self.siblings.len() > 1 {
            gates.push(self.make_gate(&subject, Rule::HasEffect, None));
        }
        gates.extend(self.written_gates(&subject, &context, |written| {
            written.for_architecture(arch, self.architectures)
        })?);
        Ok(gates)
    }

    /// Returns the gates of a case.
    ///
    /// # Errors
    /// Fails like the gates of a unit, and for an output without a limit on its error.
    pub fn case_gates(&self, case: &Case, shape: &NamedShape) -> Result<Vec<Gate>, Mistake> {
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
            written.for_shape(&shape.name, self.shapes)
        })?);
        if case.has_output() && !gates.iter().any(bounds_error) {
            let problem = format!("{} has no limit on its error", case.id);
            return Err(self
                .kernel
                .raw
                .gates
                .problem(problem)
                .help("add max_err or rel_l2: without one the reference has no effect"));
        }
        Ok(gates)
    }

    /// Returns the gates on resources for a unit, and all other gates for a case. `limits` selects the texts that apply
    /// to it.
    fn written_gates(
        &self,
        subject: &Subject,
        context: &Context<'_>,
        limits: impl Fn(&WrittenGate<'_>) -> Result<Vec<Spanned<String>>, Mistake>,
    ) -> Result<Vec<Gate>, Mistake> {
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
    fn counter_gates(&self, subject: &Subject, shape: &str) -> Result<Vec<Gate>, Mistake> {
        let mut written = self.kernel.gates.iter();
        let limits = written
            .find(|written| written.key == Key::Counters)
            .map_or(Ok(Vec::new()), |written| {
                written.for_shape(shape, self.shapes)
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
            compiled: false,
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

fn bounds_error(gate: &Gate) -> bool {
    matches!(
        &gate.rule,
        Rule::Limit {
            metric: Metric::MaxErr | Metric::RelL2,
            limit: Limit::Absolute { .. },
        }
    )
}

/// Returns the expression over metrics that a condition is, or that a limit has for its bound.
pub fn expression(rule: &Rule) -> Option<&Expr> {
    match rule {
        Rule::Condition { expr }
        | Rule::Limit {
            limit:
                Limit::Absolute {
                    bound: Bound::Expr(expr),
                    ..
                },
            ..
        } => Some(expr),
        _ => None,
    }
}

/// Returns the largest error that a limit on `max_err` allows.
pub fn tolerance(rule: &Rule) -> Option<Num> {
    match rule {
        Rule::Limit {
            metric: Metric::MaxErr,
            limit:
                Limit::Absolute {
                    bound: Bound::Value(most),
                    ..
                },
        } => Some(*most),
        _ => None,
    }
}

/// Sets what follows from gates and targets: which cases are timed, and, from gates alone, the tolerance of each case.
pub fn mark_cases(gates: &[Gate], targets: &[Target], cases: &mut [Case]) {
    let mut timed: Vec<CaseId> = Vec::new();
    let aims = targets
        .iter()
        .map(|target| (&target.subject, Cow::Owned(target.rule())));
    let rules = gates
        .iter()
        .map(|gate| (&gate.subject, Cow::Borrowed(&gate.rule)));
    for (subject, rule) in rules.chain(aims) {
        let Subject::Case(case) = subject else {
            continue;
        };
        if rule
            .metric()
            .is_some_and(|metric| metric.facet() == Facet::Times)
        {
            timed.push(case.clone());
        }
        let others = expression(&rule).map(|expr| timed_variants(&expr.text));
        for variant in others.unwrap_or_default() {
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
            .filter_map(|gate| tolerance(&gate.rule))
            .min_by(|a, b| a.0.total_cmp(&b.0));
    }
}
