//! Checks that gave an answer at the base and give none at head: too large for the simulator, or of what it
//! does not know. The same machine answered for the base, so it is the change that took them away.

use super::{Comparison, Ended, compare_required, without_answer_of_base};
use crate::counterpart::{NotRequired, required_of_base};
use crate::index::View;
use crate::not_passed::{NotPassed, OrNotPassed};
use crate::rules::{correctness, counters, findings, judge_rule};
use model::*;

/// Every question that head is asked about a case which the base has too, joined by case and end. With several
/// architectures it is one loss.
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

/// Resources that the base's machine code tells and head's does not: its PTX is too new for head's PTXAS, or head is a
/// cubin. A compiled file says of each kernel what it can say, and names the rest.
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

/// The same of a record that was made on another kind of device, or by another counter model: whatever it answered and
/// head does not, nobody has compared.
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

/// Rules that end alike are one comparison.
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

/// Whether head gives no answer to a question that it asks of a case, or none for a counter that a gate names. A unit
/// that was not built has failed by that.
pub fn lacks_an_answer(view: View, id: &CaseId) -> bool {
    let counted = view.over_launches(id, |launch| &launch.counters);
    let is_withheld = |rule: &Rule| match (rule.metric(), &counted) {
        (Some(Metric::Counter(counter)), Ok(counted)) => !counted.contains_key(&counter),
        _ => false,
    };
    let mut asked = asked(view, id);
    asked.any(|rule| is_withheld(rule) || unanswered(view, id, rule).is_some())
}

/// The rules of head's gates on a case, as far as an answer comes from a check.
fn asked<'i, 'a>(view: View<'i, 'a>, id: &CaseId) -> impl Iterator<Item = &'a Rule> + use<'i, 'a> {
    view.gates_of(&Subject::Case(id.clone()))
        .iter()
        .map(|gate| &gate.rule)
}

/// One question to both sides.
fn compare_check(view: View, base: View, id: &CaseId, rule: &Rule) -> Ended {
    let Some(reason) = unanswered(view, id, rule) else {
        return Ended::Held;
    };
    // A filter left out what both are held against.
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

/// The end where head has no answer, by what the base has.
fn lose(reason: Reason, of_base: OrNotPassed<()>) -> Ended {
    let lost = Ended::Failed(Loosened::ChecksLost(Box::new(reason.clone())));
    match of_base {
        Ok(()) => lost,
        // The same keeps both sides from an answer.
        Err(why) if why.reason.code() == reason.code() => Ended::Held,
        Err(why) => match (why.outcome, without_answer_of_base(why)) {
            // That it is wrong, or breaks, is an answer.
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

/// Whether there is an answer to what a rule asks; `None` where it asks for no check. Counters that cannot be
/// held to a limit have a verdict of their own.
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

/// Compares counters that one side or both withhold from gates, where the simulator's own values still tell which is
/// larger. A rise may be the assembler's doing, so that it fails nothing; it does not pass either. A base that computes
/// something wrong is no yardstick for a change that mends it: such a rise is listed (`ungated`), and holds.
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

/// Returns the counters of a case that rose by more than a gate of head's allows, where head's or the base's value is
/// withheld from gates. A side without any answer is what `compare_check` and `compare_counters` compare.
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

/// Returns true if a gate on what a case computes fails at the base. A revision is held to its own gates, because a change
/// could write stricter ones that only its own kernel holds. Of a record those of head have to do.
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

/// Counters that a gate of head's rests on, that base can be held to, and that were counted of head and cannot.
fn compare_counters(view: View, base: View, id: &CaseId) -> Ended {
    let (Ok(counted), Ok(withheld)) = (view.simulated_counts(id), view.withheld(id)) else {
        // No answer at all is what `compare_check` compares.
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
        // `measured` compares all counters together. These are the ones that a gate names.
        Err(why) => {
            if lacking(&names).is_empty() {
                Ended::Held
            } else {
                without_answer_of_base(why)
            }
        }
    }
}
