//! Baselines of head's that agree on worse than the base measures. Whatever is written in files, and under
//! whichever key: what a kernel cost before the change is known, and what it costs now.

use super::loosened::verdict;
use crate::judge::rules::{Refusals, exact};
use crate::judge::value::Values;
use crate::model::*;

/// A verdict for each subject and kind of figure, unless `known` says already that its baseline is looser.
pub fn since(values: &Values, base: &Base, known: &[Verdict]) -> Vec<Verdict> {
    let mut found: Vec<(&Gate, Facet, Vec<EditedFigure>)> = Vec::new();
    for gate in &values.lookup.policy.gates {
        let Some(facet) = facet(&gate.rule) else {
            continue;
        };
        let worse = |values: &Values| exact::worse_than_base(values, gate, &Refusals::new());
        let figures = match &gate.subject {
            Subject::Unit(_) => worse(values),
            // Of several architectures one says it.
            Subject::Case(id) => {
                let mut figures = values.each(id).map(worse);
                figures.find(|it| !it.is_empty()).unwrap_or_default()
            }
        };
        let mut same = found.iter_mut();
        match same.find(|(other, of, _)| (&other.subject, *of) == (&gate.subject, facet)) {
            _ if figures.is_empty() => {}
            Some((_, _, known)) => known.extend(figures),
            None => found.push((gate, facet, figures)),
        }
    }
    let is_known = |gate: &Gate, facet: Facet| {
        let question = Question::NoLooser(BaseDemand::Baseline(facet));
        let mut known = known.iter();
        known.any(|it| (&it.subject, &it.question) == (&gate.subject, &question))
    };
    found
        .into_iter()
        .filter(|(gate, facet, _)| !is_known(gate, *facet))
        .map(|(gate, facet, figures)| {
            let how = Loosened::BaselineAbove(figures);
            let demand = BaseDemand::Baseline(facet);
            verdict(gate.subject.clone(), demand, how, None, base.loosening)
        })
        .collect()
}

/// Of figures that repeat exactly, under a limit against the baseline.
fn facet(rule: &Rule) -> Option<Facet> {
    match rule {
        Rule::Counters { .. } => Some(Facet::Counters),
        Rule::Limit {
            metric,
            limit: Limit::Baseline { .. },
        } => Some(metric.facet()).filter(|facet| *facet != Facet::Times),
        _ => None,
    }
}
