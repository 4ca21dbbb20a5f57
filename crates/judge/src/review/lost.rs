//! Finds checks that gave an answer at the base and give none at head: the case became too large for the simulator, or
//! uses something that it does not support. The same machine answered for the base, so the change took the check away.

use super::{Comparison, Ended, compare_required, without_answer_of_base};
use crate::counterpart::{NotRequired, required_of_base};
use crate::index::View;
use crate::not_passed::{NotPassed, OrNotPassed};
use crate::rules::{correctness, counters, findings, judge_rule};
use model::*;

/// Compares every question that head is asked about a case which the base has, too. Questions of a case that end alike
/// are joined, so with several architectures this is one loss.
pub fn since(view: View) -> Vec<Comparison> {
    let cases = view.plan().cases.iter().flat_map(|case| {
        let views = view.all_architectures(&case.id);
        views.map(move |view| (&case.id, view))
    });
    let mut found = resources(view);
    for (id, view) in cases {
        let checks = compare_required(
            asked(view, id),
            |_| required(view, id),
            |rule, base| {
                let ended = compare_check(view, base, id, rule);
                Comparison::for_case(id, BaseDemand::Checks(vec![rule.clone()]), ended)
            },
        );
        let counters = compare_required(
            [BaseDemand::Checks(vec![Rule::Counters {
                change: Num(0.0),
            }])],
            |_| required(view, id),
            |demand, base| {
                let ended = match compare_counters(view, base, id) {
                    Ended::Held => compare_doubted(view, base, id),
                    ended => ended,
                };
                Comparison::for_case(id, demand, ended)
            },
        );
        for one in join(checks).into_iter().chain(counters) {
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

/// Compares resources that the base's machine code states and head's does not: PTXAS is too old for head's PTX, or head
/// is a cubin. For a compiled file, each kernel says what it can, and the rest is listed.
fn resources(view: View) -> Vec<Comparison> {
    view.plan()
        .units
        .iter()
        .filter(|unit| !unit.is_compiled())
        .flat_map(|unit| {
            let subject = Subject::Unit(unit.id.clone());
            let lost = compare_required(
                view.gates_of(&subject),
                |gate| {
                    required_of_base(view, gate).and(view.base().ok_or(NotRequired::OtherDevice))
                },
                |gate, base| Comparison {
                    subject: gate.subject.clone(),
                    demand: BaseDemand::Checks(vec![gate.rule.clone()]),
                    declared: gate.declared.clone(),
                    ended: compare_resource(view, base, gate),
                },
            );
            join(lost)
        })
        .collect()
}

fn compare_resource(view: View, base: View, gate: &Gate) -> Ended {
    let metric = gate.rule.metric();
    let Some(metric) = metric.filter(|metric| metric.facet() == Facet::Resources) else {
        return Ended::Held;
    };
    match view.metric(&gate.subject, metric) {
        Err(why) if is_unanswered(&why) => {
            let of_base = base.built_as_base(&gate.subject);
            let of_base = of_base.and_then(|()| base.metric(&gate.subject, metric));
            lose(why.reason, of_base.map(drop))
        }
        _ => Ended::Held,
    }
}

/// Compares checks with those of a record that was made on another kind of device, or by another counter model. Nobody
/// has compared what it answered and head does not.
pub fn on_other_devices(view: View) -> Vec<Comparison> {
    let Some(theirs) = view.index.view(Side::Base, None) else {
        return Vec::new();
    };
    let found = compare_required(
        view.plan()
            .cases
            .iter()
            .map(|case| &case.id)
            .flat_map(|id| asked(view, id).map(move |rule| (id, rule))),
        |(id, _)| match (view.base(), theirs.planned_case(id)) {
            (Some(_), _) => Err(NotRequired::SaidElsewhere),
            (None, None) => Err(NotRequired::NotAtBase),
            (None, Some(_)) => Ok(()),
        },
        |(id, rule), ()| {
            let has_answer = |view: View| match answer(view, id, rule) {
                Some(Ok(())) => true,
                Some(Err(why)) => why.outcome == Outcome::Fail,
                None => false,
            };
            let ended = if has_answer(theirs) && !has_answer(view) {
                Ended::Inconclusive(Reason::BaseIncomparable(BaseLack::OtherDevice))
            } else {
                Ended::Held
            };
            Comparison::for_case(id, BaseDemand::Checks(vec![rule.clone()]), ended)
        },
    );
    let mut joined: Vec<Comparison> = Vec::new();
    for case in &view.plan().cases {
        let subject = Subject::Case(case.id.clone());
        joined.extend(join(
            found
                .iter()
                .filter(|entry| entry.subject == subject)
                .cloned()
                .collect(),
        ));
    }
    joined
}

/// Joins rules that end alike into one comparison.
fn join(all: Vec<Comparison>) -> Vec<Comparison> {
    let mut joined: Vec<Comparison> = Vec::new();
    for one in all {
        let same = joined.iter_mut().find(|other| other.ended == one.ended);
        match (same.map(|demand| &mut demand.demand), one.demand) {
            (Some(BaseDemand::Checks(rules)), BaseDemand::Checks(more)) => rules.extend(more),
            (_, demand) => joined.push(Comparison { demand, ..one }),
        }
    }
    joined
}

fn required<'i, 'a>(view: View<'i, 'a>, id: &CaseId) -> Result<View<'i, 'a>, NotRequired> {
    let base = view.base().ok_or(NotRequired::OtherDevice)?;
    if base.planned_case(id).is_none() {
        Err(NotRequired::NotAtBase)
    } else if base.executor().is_err() {
        Err(NotRequired::NothingRuns)
    } else if base.unit_on_device(id).is_err() {
        Err(NotRequired::NotAtBase)
    } else {
        Ok(base)
    }
}

/// Returns true if head gives no answer to a question about a case, or none about a counter that a gate names. A unit
/// that was not built has failed already.
pub fn lacks_an_answer(view: View, id: &CaseId) -> bool {
    let counted = view.over_launches(id, |launch| &launch.counters);
    let is_withheld = |rule: &Rule| match (rule.metric(), &counted) {
        (Some(Metric::Counter(counter)), Ok(counted)) => !counted.contains_key(&counter),
        _ => false,
    };
    let mut asked = asked(view, id);
    asked.any(|rule| is_withheld(rule) || unanswered(view, id, rule).is_some())
}

/// Returns the rules of head's gates on a case, as far as a check answers them.
fn asked<'i, 'a>(view: View<'i, 'a>, id: &CaseId) -> impl Iterator<Item = &'a Rule> + use<'i, 'a> {
    view.gates_of(&Subject::Case(id.clone()))
        .iter()
        .map(|gate| &gate.rule)
}

/// Asks both sides for the answer to one rule, and compares the two.
fn compare_check(view: View, base: View, id: &CaseId, rule: &Rule) -> Ended {
    let Some(reason) = unanswered(view, id, rule) else {
        return Ended::Held;
    };
    // A filter left out the variant that both sides are compared with.
    let is_left_out = matches!(reason, Reason::NotRun(NotRun::NoReferenceVariant { .. }));
    if view.head_answers_for_base(id) || is_left_out {
        return Ended::Held;
    }
    let of_base = base.built_as_base(&Subject::Case(id.clone()));
    lose(
        reason,
        of_base.and_then(|()| answer(base, id, rule).unwrap_or(Ok(()))),
    )
}

/// Returns how a comparison ends if head has no answer, by what the base has.
fn lose(reason: Reason, of_base: OrNotPassed<()>) -> Ended {
    let lost = Ended::Failed(Loosened::ChecksLost(Box::new(reason.clone())));
    match of_base {
        Ok(()) => lost,
        // Both sides lack an answer for one reason, so nothing was lost.
        Err(why) if why.reason.code() == reason.code() => Ended::Held,
        Err(why) => match (why.outcome, without_answer_of_base(why)) {
            // A kernel that is wrong or breaks has given an answer.
            (Outcome::Fail, Ended::Held) => lost,
            (_, ended) => ended,
        },
    }
}

fn unanswered(view: View, id: &CaseId, rule: &Rule) -> Option<Reason> {
    view.runnable(id).ok()?;
    match answer(view, id, rule)? {
        Err(why) if is_unanswered(&why) => Some(why.reason),
        _ => None,
    }
}

fn is_unanswered(why: &NotPassed) -> bool {
    matches!(why.outcome, Outcome::Skipped | Outcome::Unsupported)
}

/// Returns whether there is an answer to what a rule asks, or `None` if the rule needs no check. Counters that cannot
/// be held to a limit have a verdict of their own.
fn answer(view: View, id: &CaseId, rule: &Rule) -> Option<OrNotPassed<()>> {
    let subject = Subject::Case(id.clone());
    let found = match rule {
        Rule::Finite => correctness::check_finite(view, &subject),
        Rule::Written => correctness::check_written(view, &subject),
        Rule::InputsIntact => correctness::check_inputs(view, &subject),
        Rule::NoFindings if view.is_simulated() => findings::find(view, &subject),
        Rule::Limit { metric, .. } if metric.facet() == Facet::Correctness => {
            return Some(view.metric(&subject, *metric).map(drop));
        }
        Rule::Limit { metric, .. } if metric.facet() == Facet::Counters && view.is_simulated() => {
            return Some(view.over_launches(id, |launch| &launch.counters).map(drop));
        }
        _ => return None,
    };
    Some(found.map(drop))
}

/// Compares counters that one or both sides withhold from gates, but whose simulated values still tell which is larger.
/// The assembler may be the cause of a rise, so a rise neither fails nor passes. A base that computes something wrong
/// is no standard for a change that repairs it: such a rise is only listed (`ungated`).
fn compare_doubted(view: View, base: View, id: &CaseId) -> Ended {
    let rises = find_doubted_rises(view, base, id);
    if rises.is_empty() || is_wrong(view, base, id) {
        return Ended::Held;
    }
    Ended::Inconclusive(Reason::CountersInDoubt {
        against: Against::Base,
        rises,
    })
}

/// Returns the doubted rises of a case that hold because the base is wrong.
pub fn find_excused_rises(view: View, id: &CaseId) -> Vec<DoubtedRise> {
    let Ok(base) = required(view, id) else {
        return Vec::new();
    };
    let rises = find_doubted_rises(view, base, id);
    if !rises.is_empty() && is_wrong(view, base, id) {
        rises
    } else {
        Vec::new()
    }
}

/// Returns the counters of a case that rose by more than a gate of head allows, and whose value is withheld from gates
/// at head or at the base. A side without any answer is compared in `compare_check` and `compare_counters`.
fn find_doubted_rises(view: View, base: View, id: &CaseId) -> Vec<DoubtedRise> {
    if view.head_answers_for_base(id) {
        return Vec::new();
    }
    let most = |counter: Counter, was: f64| {
        asked(view, id)
            .filter_map(|rule| match rule {
                Rule::Counters { change } => Some(was * (1.0 + change.0)),
                Rule::Limit {
                    metric,
                    limit: Limit::Baseline { change },
                } if *metric == counter.into() => Some(match change {
                    Margin::Share(share) => was * (1.0 + share.0),
                    Margin::Amount { amount } => was + *amount as f64,
                }),
                _ => None,
            })
            .reduce(f64::min)
    };
    counters::find_doubted_rises(view.common(), base.common(), id, most).unwrap_or_default()
}

/// Returns true if a gate on what a case computes fails at the base. A base revision is judged by its own gates,
/// because a change could write stricter ones that only its own kernel meets. A record is judged by head's gates.
fn is_wrong(view: View, base: View, id: &CaseId) -> bool {
    let policy = view.policy();
    let gates = policy
        .base
        .as_ref()
        .map_or(&policy.gates, |base| &base.gates);
    gates
        .iter()
        .filter(|gate| gate.subject == Subject::Case(id.clone()))
        .filter(|gate| match &gate.rule {
            Rule::Finite | Rule::Written | Rule::InputsIntact | Rule::NoFindings => true,
            Rule::Limit {
                metric,
                limit: Limit::Absolute { .. },
            } => metric.facet() == Facet::Correctness,
            _ => false,
        })
        .any(|gate| judge_rule(base, gate).verdict.outcome == Outcome::Fail)
}

/// Compares counters that a gate of head rests on: the base's value can be held to a limit, and head's was counted and
/// cannot.
fn compare_counters(view: View, base: View, id: &CaseId) -> Ended {
    let (Ok(counted), Ok(withheld)) = (view.simulated_counts(id), view.withheld(id)) else {
        // `compare_check` compares sides that have no answer at all.
        return Ended::Held;
    };
    let names = |counter: Counter, rule: &Rule| rule.metric() == Some(counter.into());
    let lacking = |is_meant: &dyn Fn(Counter, &Rule) -> bool| -> Vec<Counter> {
        Counter::ALL
            .into_iter()
            .filter(|counter| !counted.contains_key(counter))
            .filter(|counter| asked(view, id).any(|rule| is_meant(*counter, rule)))
            .collect()
    };
    let all =
        lacking(&|counter, rule| matches!(rule, Rule::Counters { .. }) || names(counter, rule));
    if all.is_empty() || view.head_answers_for_base(id) {
        return Ended::Held;
    }
    let held = base.built_as_base(&Subject::Case(id.clone()));
    match held.and_then(|()| base.over_launches(id, |launch| &launch.counters)) {
        Ok(held) => {
            let lost: Vec<_> = all
                .into_iter()
                .filter(|counter| held.contains_key(counter))
                .map(|counter| (counter, withheld.get(&counter).copied().cloned()))
                .collect();
            Ended::held_unless((!lost.is_empty()).then_some(Loosened::CountersLost(lost)))
        }
        // `measured` compares all counters together. The counters here are those that a gate names.
        Err(why) => {
            if lacking(&names).is_empty() {
                Ended::Held
            } else {
                without_answer_of_base(why)
            }
        }
    }
}
