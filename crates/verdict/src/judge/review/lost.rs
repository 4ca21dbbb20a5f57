//! Checks that gave an answer at the base and give none at head: too large for the simulator, or of what it
//! does not know. The same machine answered for the base, so it is the change that took them away.

use super::loosened::verdict;
use crate::judge::lookup::{Found, Ruling};
use crate::judge::rules::{correctness, simulation};
use crate::judge::value::{Beside, Values};
use crate::model::*;

/// A verdict for each case and reason.
pub fn since(values: &Values, loosening: Loosening) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for case in &values.lookup.plan.cases {
        for values in values.each(&case.id) {
            let Some(beside) = &values.beside else {
                continue;
            };
            if values.tells_of_base(&case.id) {
                continue;
            }
            let mut lose = |demand: BaseDemand, how: Loosened| {
                let subject = Subject::Case(case.id.clone());
                let lost = verdict(subject, demand, how, None, loosening);
                // Of several architectures it is one loss.
                if !verdicts.contains(&lost) {
                    verdicts.push(lost);
                }
            };
            for (reason, rules) in checks(values, beside, &case.id) {
                let how = Loosened::ChecksLost(Box::new(reason));
                lose(BaseDemand::Checks(rules), how);
            }
            let counters = counters(values, beside, &case.id);
            if !counters.is_empty() {
                let demand = BaseDemand::Checks(vec![Rule::Counters { change: Num(0.0) }]);
                lose(demand, Loosened::CountersLost(counters));
            }
        }
    }
    verdicts
}

/// Whether head gives no answer of a case to a question that it asks. What was not built has failed by that.
pub fn lacks_an_answer(values: &Values, id: &CaseId) -> bool {
    let mut asked = asked(values, id);
    asked.any(|rule| unanswered(values, id, rule).is_some())
}

/// The rules of head's gates on a case, as far as an answer comes from a check.
fn asked<'a>(values: &Values<'a>, id: &CaseId) -> impl Iterator<Item = &'a Rule> + use<'a> {
    let subject = Subject::Case(id.clone());
    let gates = values.lookup.policy.gates.iter();
    gates
        .filter(move |gate| gate.subject == subject)
        .map(|gate| &gate.rule)
}

/// Why head gives no answer, with the rules that stay without one.
fn checks(values: &Values, beside: &Beside, id: &CaseId) -> Vec<(Reason, Vec<Rule>)> {
    let mut lost: Vec<(Reason, Vec<Rule>)> = Vec::new();
    for rule in asked(values, id) {
        let Some(reason) = unanswered(values, id, rule) else {
            continue;
        };
        if !answer(&beside.base, id, rule).is_some_and(|found| is_answer(&found)) {
            continue;
        }
        match lost.iter_mut().find(|(why, _)| *why == reason) {
            Some((_, rules)) => rules.push(rule.clone()),
            None => lost.push((reason, vec![rule.clone()])),
        }
    }
    lost
}

fn unanswered(values: &Values, id: &CaseId, rule: &Rule) -> Option<Reason> {
    values.lookup.runnable(id).ok()?;
    match answer(values, id, rule)? {
        Err(why) if is_unanswered(&why) => Some(why.reason),
        _ => None,
    }
}

fn is_answer(found: &Found<()>) -> bool {
    match found {
        Ok(()) => true,
        Err(why) => why.outcome == Outcome::Fail,
    }
}

fn is_unanswered(why: &Ruling) -> bool {
    matches!(why.outcome, Outcome::Skipped | Outcome::Unsupported)
}

/// Whether there is an answer to what a rule asks; `None` where it asks for no check. Counters that cannot be
/// held to a limit have a verdict of their own.
fn answer(values: &Values, id: &CaseId, rule: &Rule) -> Option<Found<()>> {
    let subject = Subject::Case(id.clone());
    let lookup = &values.lookup;
    let found = match rule {
        Rule::Finite => correctness::check_finite(lookup, &subject),
        Rule::Written => correctness::check_written(lookup, &subject),
        Rule::InputsIntact => correctness::check_inputs(lookup, &subject),
        Rule::NoFindings if lookup.is_simulated() => simulation::find(lookup, &subject),
        Rule::Limit { metric, .. } if metric.facet() == Facet::Correctness => {
            return Some(values.metric(&subject, *metric).map(drop));
        }
        Rule::Limit { metric, .. }
            if metric.facet() == Facet::Counters && lookup.is_simulated() =>
        {
            return Some(
                values
                    .over_launches(id, |launch| &launch.counters)
                    .map(drop),
            );
        }
        _ => return None,
    };
    Some(found.map(drop))
}

/// Counters that a gate of head's rests on, that base can be held to, and that were counted of head and cannot.
fn counters(values: &Values, beside: &Beside, id: &CaseId) -> Vec<(Counter, Option<Withheld>)> {
    let (Ok(counted), Ok(withheld)) = (
        values.over_launches(id, |launch| &launch.counters),
        values.withheld(id),
    ) else {
        return Vec::new();
    };
    let is_asked = |counter: Counter| {
        asked(values, id).any(|rule| match rule {
            Rule::Counters { .. } => true,
            rule => rule.metric() == Some(counter.into()),
        })
    };
    let held = beside.base.gateable(id).into_keys();
    held.filter(|counter| !counted.contains_key(counter) && is_asked(*counter))
        .map(|counter| (counter, withheld.get(&counter).copied().cloned()))
        .collect()
}
