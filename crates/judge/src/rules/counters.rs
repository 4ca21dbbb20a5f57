//! Judges the cost of a launch in the simulator by its counters, which repeat exactly.

use super::{Ruled, misplaced, relative_change, share_of};
use crate::agreed::NoBaseline;
use crate::index::View;
use crate::not_passed::{OrNotPassed, fail, inconclusive, skipped};
use model::*;
use std::collections::BTreeMap;

/// Compares every counter that can be gated with its baseline. A better value is a win that can be agreed on.
pub fn compare_to_baseline(view: View, gate: &Gate, allowed: f64) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let agreed = |counter: Counter| {
        let agreed = view.agreed_on(&gate.subject, counter.into());
        agreed.map(|agreed| agreed.value)
    };
    let found = compare(view, &mut ruled, allowed, Against::Baseline, agreed);
    ruled.end(found)
}

/// Compares counters with what the base counts on this device. Returns `None` if the two sides have no comparable
/// counter.
pub fn compare_to_counted(
    view: View,
    gate: &Gate,
    allowed: f64,
    was: &BTreeMap<Counter, u64>,
) -> Option<Ruled> {
    let Subject::Case(id) = &gate.subject else {
        return None;
    };
    let counted = view.gateable(id);
    if !counted.keys().any(|counter| was.contains_key(counter)) {
        return None;
    }
    let mut ruled = Ruled::blank(gate);
    let agreed = |counter: Counter| match was.get(&counter) {
        // A counter that can no longer be gated is a lost check, which has a verdict of its own.
        Some(was) if counted.contains_key(&counter) => Ok(*was as f64),
        _ => Err(NoBaseline::New(Reason::New {
            metric: counter.into(),
            lacking: Lacking::Metric,
        })),
    };
    let found = compare(view, &mut ruled, allowed, Against::Base, agreed);
    Some(ruled.end(found))
}

fn compare(
    view: View,
    ruled: &mut Ruled,
    allowed: f64,
    against: Against,
    agreed: impl Fn(Counter) -> Result<f64, NoBaseline>,
) -> OrNotPassed<Reason> {
    let subject = ruled.verdict.subject.clone();
    let Subject::Case(id) = &subject else {
        return misplaced();
    };
    let allowed = share_of(Margin::Share(Num(allowed)))?;
    let withheld = view.withheld(id)?;
    let simulated = view.simulated_counts(id)?;
    // If the base's counter can be held to a limit, the loss is reported against the base instead.
    let held = view.base().map(|base| base.gateable(id));
    let held = held.unwrap_or_default();
    let lost: Vec<_> = Counter::ALL
        .into_iter()
        .filter(|counter| !simulated.contains_key(counter) && !held.contains_key(counter))
        .filter(|counter| agreed(*counter).is_ok())
        .map(|counter| (counter, withheld.get(&counter).copied().cloned()))
        .collect();
    if !lost.is_empty() {
        return inconclusive(Reason::CountersLost { lost });
    }
    let is_all_withheld = simulated.values().all(|count| count.withheld.is_some());
    let mut rises = Vec::new();
    let mut doubted = Vec::new();
    let mut compared = 0;
    let mut new = None;
    for (&counter, count) in &simulated {
        let now = count.value as f64;
        let was = match agreed(counter) {
            Ok(was) => was,
            Err(NoBaseline::Refused(ruling)) => return Err(ruling),
            Err(NoBaseline::New(reason)) => {
                if count.withheld.is_none() {
                    new.get_or_insert(reason);
                }
                continue;
            }
        };
        compared += 1;
        let change = relative_change(now, was);
        if change != 0.0 {
            ruled.counters.push(CounterChange {
                subject: subject.clone(),
                counter,
                measured: Num(now),
                baseline: Num(was),
                change: Num(change),
            });
        }
        if change > allowed {
            let rise = CounterRise {
                counter,
                was: Num(was),
                now: Num(now),
                change: Num(change),
                lines: lines_of(view, id, counter, count.value),
            };
            match count.withheld {
                None => rises.push(rise),
                Some(why) => doubted.push(DoubtedRise {
                    rise,
                    side: Side::Head,
                    why: why.clone(),
                }),
            }
        } else if change < -allowed && count.withheld.is_none() {
            ruled.wins.push(Win {
                subject: subject.clone(),
                metric: counter.into(),
                measured: Num(now),
                baseline: Num(was),
                change: Num(change),
            });
        }
    }
    if !rises.is_empty() {
        let allowed = Num(allowed);
        return fail(Reason::CountersRose {
            against,
            rises,
            allowed,
        });
    }
    if !doubted.is_empty() {
        let rises = doubted;
        return inconclusive(Reason::CountersInDoubt { against, rises });
    }
    if is_all_withheld && compared == 0 {
        let why = withheld.values().next().copied().cloned();
        return skipped(Reason::CountersWithheld { why });
    }
    // Some counters may be younger than the baseline. The others are compared all the same.
    if new.is_some() {
        ruled.new = Some(Facet::Counters);
    }
    match new {
        Some(reason) if compared == 0 => skipped(reason),
        _ => Ok(Reason::CountersHold {
            compared,
            withheld: withheld_by_reason(view, id),
        }),
    }
}

/// Compares counters that head or the base withholds from gates, and returns those above the value that `most` gives
/// for the base's. `None` from `most` exempts a counter. Counters that both sides gate are compared exactly elsewhere.
///
/// # Errors
/// Returns the reason if a side was not simulated.
pub fn find_doubted_rises(
    head: View,
    base: View,
    id: &CaseId,
    most: impl Fn(Counter, f64) -> Option<f64>,
) -> OrNotPassed<Vec<DoubtedRise>> {
    let theirs = base.simulated_counts(id)?;
    let ours = head.simulated_counts(id)?;
    Ok(ours
        .iter()
        .filter_map(|(&counter, count)| {
            let other = theirs.get(&counter)?;
            let (side, why) = match (count.withheld, other.withheld) {
                (Some(why), _) => (Side::Head, why),
                (None, Some(why)) => (Side::Base, why),
                (None, None) => return None,
            };
            let (now, was) = (count.value as f64, other.value as f64);
            (now > most(counter, was)?).then(|| DoubtedRise {
                rise: CounterRise {
                    counter,
                    was: Num(was),
                    now: Num(now),
                    change: Num(relative_change(now, was)),
                    lines: lines_of(head, id, counter, count.value),
                },
                side,
                why: why.clone(),
            })
        })
        .collect())
}

/// Returns the source lines that count most of a counter, in the first launch that counted this much.
fn lines_of(view: View, id: &CaseId, counter: Counter, count: u64) -> Vec<LineCount> {
    let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
    let lines = seeds
        .iter()
        .filter_map(|&seed| view.simulation(id, seed).ok())
        .filter(|launch| {
            let counted = launch.counters.get(&counter);
            counted.or(launch.information.get(&counter)) == Some(&count)
        })
        .find_map(|launch| launch.lines.get(&counter));
    lines.cloned().unwrap_or_default()
}

/// Lists the counters that no gate can rest on, grouped by reason.
pub fn withheld_by_reason(view: View, id: &CaseId) -> Vec<WithheldCounters> {
    let withheld = view.withheld(id).unwrap_or_default();
    let mut by_reason: BTreeMap<&Withheld, Vec<Counter>> = BTreeMap::new();
    for (counter, why) in withheld {
        by_reason.entry(why).or_default().push(counter);
    }
    by_reason
        .into_iter()
        .map(|(why, counters)| WithheldCounters {
            counters,
            why: why.clone(),
        })
        .collect()
}
