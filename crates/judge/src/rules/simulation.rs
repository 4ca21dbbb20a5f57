//! Judges what only the simulator knows: whether its checks found anything, and what a launch costs by its
//! counters, which repeat exactly.

use super::correctness::over_seeds;
use super::{Refusals, Ruled, check_change, hazards, misplaced, relative_change};
use crate::agreed::NoBaseline;
use crate::index::View;
use crate::lookup::{Judged, Unavailable, fail, inconclusive, skipped};
use model::*;
use std::collections::BTreeMap;

/// How many findings of one launch a reason holds.
pub(super) const MOST_FINDINGS: usize = 3;

/// A finding of a case, as reports show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeenFinding<'a> {
    /// The first that showed it.
    pub seed: u64,
    pub finding: &'a Finding,
    pub standing: FindingStanding,
}

/// How a finding stands to its gate, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingStanding {
    /// It breaks the gate.
    Broken,
    Accepted,
    /// A hazard that is only noted.
    Noted,
}

impl<'a> View<'_, 'a> {
    /// Everything that was found in a case, with every seed and for every architecture, each once.
    pub fn findings(self, id: &CaseId) -> Vec<SeenFinding<'a>> {
        let mut all: Vec<SeenFinding> = Vec::new();
        for view in self.distinct_ptx(id) {
            for one in view.findings_of_one(id) {
                let mut known = all.iter_mut();
                match known.find(|it| is_same(it.finding, one.finding)) {
                    Some(known) => known.standing = known.standing.min(one.standing),
                    None => all.push(one),
                }
            }
        }
        all
    }

    fn findings_of_one(self, id: &CaseId) -> Vec<SeenFinding<'a>> {
        let subject = Subject::Case(id.clone());
        let (new, _) = hazards::new_since_base(self, id);
        let is_new = |finding: &Finding| {
            let mut new = new.iter().flat_map(|(_, findings)| findings);
            new.any(|it| std::ptr::eq(*it, finding))
        };
        let standing = |finding: &Finding| {
            if is_accepted(self, &subject, finding) {
                FindingStanding::Accepted
            } else if hazards::is_note(self, finding) && !is_new(finding) {
                FindingStanding::Noted
            } else {
                FindingStanding::Broken
            }
        };
        let launches = self.simulations(id).into_iter();
        let found =
            launches.flat_map(|(seed, facts)| facts.findings.iter().map(move |it| (seed, it)));
        found
            .map(|(seed, finding)| SeenFinding {
                seed,
                finding,
                standing: standing(finding),
            })
            .collect()
    }
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.kind, &one.entry, &one.places) == (other.kind, &other.entry, &other.places)
}

pub fn check_findings(view: View, subject: &Subject) -> Judged<Reason> {
    let held = find(view, subject).map_err(|why| lost_check(view, subject, why))?;
    hazards::compare_to_base(view, subject)?;
    Ok(held)
}

/// The same as a verdict, with what was accepted listed.
pub fn judge_findings(view: View, gate: &Gate) -> Ruled {
    let mut ruled = Ruled::blank(gate).end(check_findings(view, &gate.subject));
    if let Reason::FindingsAccepted { findings } = &ruled.verdict.reason {
        let accepted = findings.iter().map(|it| Accepted {
            subject: gate.subject.clone(),
            rule: gate.rule.clone(),
            reason: Reason::FindingsAccepted {
                findings: vec![it.clone()],
            },
            declared: it.declared.clone(),
        });
        ruled.accepted = accepted.collect();
    }
    ruled
}

/// Whatever the baselines say of an earlier run. An accepted finding is no failure, here and in the proof that a
/// case is right: a known race in code of others must not keep it from being counted and measured.
pub fn find(view: View, subject: &Subject) -> Judged<Reason> {
    let held = over_seeds(view, subject, |case, seed| {
        let findings = &view.simulation(&case.id, seed)?.findings;
        let (accepted, new): (Vec<_>, Vec<_>) = findings
            .iter()
            .filter(|it| !hazards::is_note(view, it))
            .partition(|it| is_accepted(view, subject, it));
        if new.is_empty() {
            return Ok(());
        }
        let first: Vec<_> = new.iter().copied().take(MOST_FINDINGS).cloned().collect();
        fail(Reason::Findings {
            seed,
            more: new.len() - first.len(),
            first,
            accepted: accepted.len(),
        })
    })?;
    let findings = accepted_findings(view, subject);
    Ok(match findings.is_empty() {
        true => held,
        false => Reason::FindingsAccepted { findings },
    })
}

pub(super) fn is_accepted(view: View, subject: &Subject, finding: &Finding) -> bool {
    acceptance(view, subject, finding).is_some()
}

/// A finding with its acceptance.
struct Known<'a> {
    by: &'a Acceptance,
    finding: &'a KnownFinding,
    place: &'a Place,
}

/// The first acceptance in force that is of this finding of the case.
fn acceptance<'a>(
    view: View<'_, 'a>,
    subject: &Subject,
    finding: &'a Finding,
) -> Option<Known<'a>> {
    let day = view.environment().day();
    let accepted = view.policy().accepted.iter();
    let mut of_case = accepted.filter(|it| it.holds_on(day) && it.subjects.contains(subject));
    of_case.find_map(|by| match &by.allows {
        Allowance::Finding(known) => Some(Known {
            by,
            finding: known,
            place: known.place_in(finding)?,
        }),
        Allowance::Limit(_) => None,
    })
}

/// For each acceptance what it lets pass, over all seeds.
fn accepted_findings(view: View, subject: &Subject) -> Vec<AcceptedFinding> {
    let Subject::Case(id) = subject else {
        return Vec::new();
    };
    let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
    let launches = seeds
        .iter()
        .filter_map(|&seed| view.simulation(id, seed).ok());
    let mut all: Vec<AcceptedFinding> = Vec::new();
    for found in launches.flat_map(|launch| &launch.findings) {
        let Some(Known { by, finding, place }) = acceptance(view, subject, found) else {
            continue;
        };
        match all.iter_mut().find(|it| it.declared == by.declared) {
            Some(it) => it.times += found.times,
            None => all.push(AcceptedFinding {
                finding: finding.clone(),
                place: place.at.clone(),
                times: found.times,
                by: by.by.clone(),
                until: by.until.clone(),
                because: by.reason.clone(),
                declared: by.declared.clone(),
            }),
        }
    }
    all
}

/// A change can make a case too large for the simulator, or use what it does not know, and so take all
/// checks from it. Where the baselines of this very key show that it was simulated before, that is no mere
/// skip. Against a base that was simulated, a verdict of its own says so.
fn lost_check(view: View, subject: &Subject, why: Unavailable) -> Unavailable {
    let Subject::Case(id) = subject else {
        return why;
    };
    let is_of_base = view.base().is_some_and(|base| find(base, subject).is_ok());
    let is_lost = view.is_simulated() && takes_check_away(&why) && !is_of_base;
    let was_simulated = |facet| view.has_baseline(id, facet);
    if !is_lost || !(was_simulated(Facet::Correctness) || was_simulated(Facet::Counters)) {
        return why;
    }
    Unavailable {
        outcome: Outcome::Inconclusive,
        reason: Reason::CheckLost {
            shape: id.shape.clone(),
            why: Box::new(why.reason),
        },
    }
}

/// Whether a change of the kernel or its shape can have brought this about.
fn takes_check_away(why: &Unavailable) -> bool {
    match why.outcome {
        Outcome::Unsupported => true,
        Outcome::Skipped => matches!(
            why.reason,
            Reason::NotRun(
                NotRun::OverBudget { .. } | NotRun::OverMemory { .. } | NotRun::EstimateUnknown
            )
        ),
        Outcome::Fail
        | Outcome::Environment
        | Outcome::Inconclusive
        | Outcome::Replaced
        | Outcome::Expected
        | Outcome::Pass => false,
    }
}

/// Every counter that can be gated against its baseline. A better value is a win, and to be accepted.
pub fn compare_to_baseline(view: View, gate: &Gate, allowed: f64, refusals: &Refusals) -> Ruled {
    let mut ruled = Ruled::blank(gate);
    let agreed = |counter: Counter| {
        let agreed = view.agreed_on(&gate.subject, counter.into(), refusals);
        agreed.map(|agreed| agreed.value)
    };
    let found = compare(view, &mut ruled, allowed, Against::Baseline, agreed);
    ruled.end(found)
}

/// Against what the base counts on this device; `None` where the two count nothing that is comparable.
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
        // One that can no longer be gated is a lost check, which has a verdict of its own.
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
) -> Judged<Reason> {
    let subject = ruled.verdict.subject.clone();
    let Subject::Case(id) = &subject else {
        return misplaced();
    };
    check_change(allowed)?;
    let counted = view.over_launches(id, |launch| &launch.counters)?;
    let withheld = view.withheld(id)?;
    // A counter that the base can be held to is lost against it, and reported by itself.
    let held = view.base().map(|base| base.gateable(id));
    let held = held.unwrap_or_default();
    let lost: Vec<_> = Counter::ALL
        .into_iter()
        .filter(|counter| !counted.contains_key(counter) && !held.contains_key(counter))
        .filter(|counter| agreed(*counter).is_ok())
        .map(|counter| (counter, withheld.get(&counter).copied().cloned()))
        .collect();
    if !lost.is_empty() {
        return inconclusive(Reason::CountersLost { lost });
    }
    if counted.is_empty() {
        let why = withheld.values().next().copied().cloned();
        return skipped(Reason::CountersWithheld { why });
    }
    let mut rises = Vec::new();
    let mut compared = 0;
    let mut new = None;
    for (&counter, &count) in &counted {
        let now = count as f64;
        let was = match agreed(counter) {
            Ok(was) => was,
            Err(NoBaseline::Refused(ruling)) => return Err(ruling),
            Err(NoBaseline::New(reason)) => {
                new.get_or_insert(reason);
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
            rises.push(CounterRise {
                counter,
                was: Num(was),
                now: Num(now),
                change: Num(change),
                lines: lines_of(view, id, counter, count),
            });
        } else if change < -allowed {
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
    // Some counters may be younger than the baseline, which is no reason to compare none.
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

/// Source lines that count most of a counter, of the first launch that counted this much.
fn lines_of(view: View, id: &CaseId, counter: Counter, count: u64) -> Vec<LineCount> {
    let seeds = view.case(id).map_or(&[][..], |case| &case.seeds);
    let launches = seeds
        .iter()
        .filter_map(|&seed| view.simulation(id, seed).ok());
    let mut found = launches.filter(|launch| launch.counters.get(&counter) == Some(&count));
    let lines = found.find_map(|launch| launch.lines.get(&counter));
    lines.cloned().unwrap_or_default()
}

/// Counters that no gate can rest on, gathered by why.
pub fn withheld_by_reason(view: View, id: &CaseId) -> Vec<WithheldCounters> {
    let withheld = view.withheld(id).unwrap_or_default();
    let mut by_reason: BTreeMap<&Withheld, Vec<Counter>> = BTreeMap::new();
    for (counter, why) in withheld {
        by_reason.entry(why).or_default().push(counter);
    }
    let gathered = by_reason.into_iter();
    gathered
        .map(|(why, counters)| WithheldCounters {
            counters,
            why: why.clone(),
        })
        .collect()
}
