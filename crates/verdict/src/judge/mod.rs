//! The judge: what follows from plan, environment, policy and evidence, and from nothing else.
//!
//! Four questions with one answer each, however often and wherever they are asked: which cases may go on
//! ([`admit`]), which cases need one more timing process ([`next`]), what is each gate's verdict
//! ([`judge`]), and what changed between two records ([`compare`]). Knows no files, no clock and no device.

mod accepted;
mod baseline;
mod best;
mod facts;
mod limit;
mod loosened;
mod metric;
mod notes;
mod pair;
mod rules;
mod sessions;
mod simulated;
pub mod words;

#[cfg(any(test, feature = "fixture"))]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "for tests alone")]
pub mod fixture;
#[cfg(test)]
mod tests;

pub use baseline::ANY_SHAPE;
pub use best::best;
pub use facts::{Facts, Found, Ruling, unit_for, unit_to_simulate};
pub use metric::Value;
pub use sessions::joined;

use crate::model::*;
use baseline::{Beside, Refusals};
use facts::inconclusive;
use limit::Ruled;
use loosened::Side;
use pair::Footing;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;

/// Every gate's verdict, in the order of the policy, and what they come to together.
pub fn judge(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
) -> Judgement {
    let facts = Facts::new(plan, environment, policy, evidence);
    let mut judgement = judged(&facts, &Refusals::new());
    judgement.base = facts.beside_base();
    judgement.add(accepted::checked(&facts, &Refusals::new()));
    if let Some(base) = &policy.base {
        let added = accepted::added(&base.accepted, &policy.accepted);
        judgement.notes.extend(added);
        let was = Side {
            plan: &base.plan,
            gates: &base.gates,
        };
        let is = Side {
            plan,
            gates: &policy.gates,
        };
        let mut loosened = loosened::loosened(was, is, base.loosening);
        loosened.extend(loosened::edited(
            &base.baselines,
            &policy.baselines,
            plan,
            base.loosening,
        ));
        loosened.extend(loosened::moved(base, &policy.baselines, plan));
        judgement.add(loosened);
    }
    judgement
}

/// `head` by its own gates, against what `base` measured. Keys, limits and intervals are those of any
/// other judgement. What `head` asks less strictly than `base` follows as verdicts of their own.
pub fn compare(base: &Record, head: &Record, loosening: Loosening) -> Judgement {
    // No verdict depends on where a baseline came from.
    let (mut baselines, refused) = agreed(base, "base", Beside::Taken);
    let two_protocols = two_protocols(base, head);
    for case in &two_protocols {
        for baseline in baselines
            .iter_mut()
            .filter(|it| it.key.facet() == Facet::Times)
            .filter(|it| (&it.kernel, &it.variant) == (&case.kernel, &case.variant))
        {
            baseline.cases.remove(&case.shape);
        }
    }
    let policy = Policy {
        gates: head.policy.gates.clone(),
        baselines,
        broken_baselines: Vec::new(),
        require_gpu: head.policy.require_gpu,
        anchors: head.policy.anchors.clone(),
        accepted: head.policy.accepted.clone(),
        // Both records are measured already.
        base: None,
    };
    let facts = Facts::new(&head.plan, &head.environment, &policy, &head.evidence);
    let mut refusals: Refusals = refused
        .into_iter()
        .map(|refused| {
            let why = Ruling {
                outcome: refused.outcome,
                reason: refused.reason,
            };
            ((refused.subject, refused.facet), why)
        })
        .collect();
    refusals.extend(two_protocols.into_iter().map(|case| {
        let why = Ruling {
            outcome: Outcome::Inconclusive,
            reason: words::TWO_PROTOCOLS.to_owned(),
        };
        ((Subject::Case(case), Facet::Times), why)
    }));
    let mut judgement = judged(&facts, &refusals);
    let added = accepted::added(&base.policy.accepted, &head.policy.accepted);
    judgement.notes.extend(added);
    let left_out = notes::left_out(&base.plan, &head.plan);
    judgement.notes.extend(left_out);
    judgement.add(loosened::loosened(
        Side::of(base),
        Side::of(head),
        loosening,
    ));
    judgement
}

/// Cases that one of two records timed alone and the other in turns with a base revision.
fn two_protocols(base: &Record, head: &Record) -> Vec<CaseId> {
    let ways = |record: &Record| {
        let mut ways = BTreeMap::new();
        for piece in &record.evidence {
            if let Evidence::Time { case, .. } | Evidence::Pair { case, .. } = piece {
                ways.insert(case.clone(), discriminant(piece));
            }
        }
        ways
    };
    let (base, head) = (ways(base), ways(head));
    let differs = |(case, way): (CaseId, _)| {
        base.get(&case)
            .is_some_and(|other| *other != way)
            .then_some(case)
    };
    head.into_iter().filter_map(differs).collect()
}

impl Judgement {
    /// On the policy and not on evidence. One that holds decides nothing: it is no proof that anything of
    /// head was judged.
    fn add(&mut self, verdicts: Vec<Verdict>) {
        if verdicts
            .iter()
            .any(|verdict| verdict.outcome == Outcome::Fail)
        {
            self.conclusion = Conclusion::Fail;
        }
        self.verdicts.extend(verdicts);
    }
}

/// What of a record may not be agreed on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub subject: Subject,
    pub facet: Facet,
    /// `Skipped` where this run did not try to measure it: whatever stands in its way has an entry of its
    /// own that says more.
    pub outcome: Outcome,
    pub reason: String,
}

/// The baselines that a record gives: everything that was built, proven right, and timed without
/// throttling. `seal` is the record's own.
pub fn acceptable(record: &Record, seal: &str) -> (Vec<Baseline>, Vec<Refused>) {
    agreed(record, seal, Beside::Refused)
}

fn agreed(record: &Record, seal: &str, beside: Beside) -> (Vec<Baseline>, Vec<Refused>) {
    let environment = &record.environment;
    let origin = Origin {
        record: seal.to_owned(),
        date: environment.started.clone(),
        gatekeeper: environment.gatekeeper.clone(),
        device: match (environment.device.got(), &environment.simulator) {
            (Some(device), _) => format!("{}, driver {}", device.name, device.driver),
            (None, Some(_)) => "simulator".to_owned(),
            (None, None) => "no device".to_owned(),
        },
        commit: environment.commit.clone(),
    };
    let facts = Facts::new(&record.plan, environment, &record.policy, &record.evidence);
    let (baselines, refusals) = facts.acceptable(&origin, beside);
    let refused = refusals.into_iter().map(|((subject, facet), why)| Refused {
        subject,
        facet,
        outcome: why.outcome,
        reason: why.reason,
    });
    (baselines, refused.collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Check,
    Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    Yes,
    No { reason: String },
}

/// Which cases may go on, one answer for each in the order of the plan. A broken limit on resources stops
/// nothing: one run tells all that it can.
pub fn admit(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
    stage: Stage,
) -> Vec<Admission> {
    let facts = Facts::new(plan, environment, policy, evidence);
    let admitted = |case: &Case| match stage {
        Stage::Check => facts.runnable(&case.id),
        Stage::Time => facts.timeable(&case.id),
    };
    plan.cases
        .iter()
        .map(|case| match admitted(case) {
            Ok(()) => Admission::Yes,
            Err(ruling) => Admission::No {
                reason: ruling.reason,
            },
        })
        .collect()
}

/// How a case is to be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    Alone,
    BesideBase(Singles),
}

/// Cases that need one more timing process, in the order of the plan: admitted, and either timed in fewer
/// than planned or still open and below the most that is allowed.
pub fn next(
    plan: &Plan,
    environment: &Environment,
    policy: &Policy,
    evidence: &[Evidence],
) -> Vec<(CaseId, Timing)> {
    let facts = Facts::new(plan, environment, policy, evidence);
    let cases = plan.cases.iter().filter(|case| case.timed);
    cases
        .filter_map(|case| Some((case.id.clone(), facts.wants_process(&case.id)?)))
        .collect()
}

fn rule(facts: &Facts, gate: &Gate, refusals: &Refusals) -> Ruled {
    let subject = &gate.subject;
    let simple = |found| Ruled::blank(gate).end(found);
    match &gate.rule {
        Rule::Built => simple(rules::built(facts, subject)),
        Rule::HasEffect => simple(rules::has_effect(facts, subject)),
        Rule::Finite => simple(rules::finite(facts, subject)),
        Rule::Written => simple(rules::written(facts, subject)),
        Rule::Deterministic => simple(rules::deterministic(facts, subject)),
        Rule::InputsIntact => simple(rules::inputs_intact(facts, subject)),
        Rule::AgreesWithDriver => simple(rules::agrees_with_driver(facts, subject)),
        Rule::NoFindings => simple(simulated::no_findings(facts, subject)),
        Rule::Counters { change } => simulated::counters(facts, gate, change.0, refusals),
        Rule::Limit {
            metric,
            limit: Limit::Absolute { op, bound },
        } => limit::absolute(facts, gate, *metric, *op, bound, refusals),
        Rule::Limit {
            metric,
            limit: Limit::Baseline { change },
        } => match facts.is_beside_base(subject, *metric) {
            true => pair::against_base(facts, gate, *metric, change.0),
            false => limit::against_baseline(facts, gate, *metric, change.0, refusals),
        },
        Rule::Limit {
            metric,
            limit: Limit::Anchor { anchor, change },
        } => limit::against_anchor(facts, gate, *metric, anchor, change.0),
        Rule::Limit {
            metric,
            limit: Limit::Base { change },
        } => pair::against_base(facts, gate, *metric, change.0),
        Rule::Condition { expr } => limit::condition(facts, gate, expr),
    }
}

impl Facts<'_> {
    /// Built for this run's device.
    fn runnable(&self, case: &CaseId) -> Found<()> {
        let unit = self.unit_on_device(case)?;
        self.build(&unit.id)
            .map(drop)
            .map_err(|ruling| match ruling.outcome {
                // The compiler's message is told once, by the gate that the unit is built.
                Outcome::Fail => Ruling {
                    outcome: Outcome::Skipped,
                    reason: format!("{} was not built", unit.id),
                },
                _ => ruling,
            })
    }

    /// What failed is told once, by its own gate; here it is the reason of a skip.
    fn timeable(&self, case: &CaseId) -> Found<()> {
        // Who timed it did not say whether it is right, and nobody claims that it is.
        if self.is_foreign() {
            return self.case(case).map(drop);
        }
        self.runnable(case)
            .and_then(|()| self.proven(case))
            .map_err(|ruling| match ruling.outcome {
                Outcome::Fail => Ruling {
                    outcome: Outcome::Skipped,
                    reason: format!("{}: {}", words::NOT_PROVEN, ruling.reason),
                },
                _ => ruling,
            })
    }

    /// Green before fast: right in every respect that is checked, for every seed, within at least one
    /// absolute limit on its error.
    fn proven(&self, case: &CaseId) -> Found<()> {
        let subject = Subject::Case(case.clone());
        let properties = [rules::finite, rules::written, rules::inputs_intact];
        for property in properties {
            property(self, &subject)?;
        }
        if self.is_simulated() {
            simulated::no_findings(self, &subject)?;
        } else if self.case(case)?.determinism == Determinism::BitExact {
            rules::deterministic(self, &subject)?;
        }
        let mut limits = 0;
        for gate in self
            .policy
            .gates
            .iter()
            .filter(|gate| gate.subject == subject)
        {
            if let Rule::Limit {
                metric,
                limit: Limit::Absolute { .. },
            } = &gate.rule
                && metric.facet() == Facet::Correctness
            {
                let verdict = accepted::ruled(self, gate, &Refusals::new()).verdict;
                if verdict.outcome != Outcome::Pass {
                    return Err(Ruling {
                        outcome: verdict.outcome,
                        reason: verdict.reason,
                    });
                }
                limits += 1;
            }
        }
        if limits == 0 {
            return inconclusive(format!(
                "{}: no absolute limit is set on its error",
                words::NOT_PROVEN
            ));
        }
        Ok(())
    }

    /// A relative limit on times is held against the base wherever it has the case: what was measured
    /// beside it says more than what was agreed on another day.
    fn is_beside_base(&self, subject: &Subject, metric: Metric) -> bool {
        match subject {
            Subject::Case(case) if metric.facet() == Facet::Times => {
                !matches!(self.footing(case), Ok(Footing::Alone | Footing::New))
            }
            Subject::Case(_) | Subject::Unit(_) => false,
        }
    }

    fn wants_process(&self, case: &CaseId) -> Option<Timing> {
        if self.device().is_err() || self.timeable(case).is_err() {
            return None;
        }
        let again = self.plan.pairing.as_ref().is_some_and(|it| it.unchanged);
        match self.footing(case) {
            Ok(Footing::Changed) => self.wants_beside(case),
            Ok(Footing::Unchanged) if again => self.wants_beside(case),
            // Nothing is to be found out about how it changed.
            Ok(Footing::Unchanged) if !self.needs_own_times(case) => None,
            Ok(Footing::Alone | Footing::New | Footing::Unchanged) | Err(_) => {
                self.wants_alone(case).then_some(Timing::Alone)
            }
        }
    }

    fn wants_beside(&self, case: &CaseId) -> Option<Timing> {
        self.wants_pair(case, self.is_open(case))
            .then(|| Timing::BesideBase(self.singles(case)))
    }

    fn wants_alone(&self, case: &CaseId) -> bool {
        let schedule = &self.plan.timing;
        let seen = self.processes(case);
        let planned = schedule.processes.max(1);
        if self.timing_ended(case) {
            return false;
        }
        if seen < planned {
            return true;
        }
        if seen >= schedule.max_processes {
            return false;
        }
        seen - self.throttled(case) < planned || self.is_open(case)
    }

    /// Whether more times could decide any gate of the case.
    fn is_open(&self, case: &CaseId) -> bool {
        let gates = self.policy.gates.iter();
        gates
            .filter(|gate| matches!(&gate.subject, Subject::Case(id) if id == case))
            .any(|gate| accepted::ruled(self, gate, &Refusals::new()).open)
    }
}

fn judged(facts: &Facts, refusals: &Refusals) -> Judgement {
    let mut verdicts = Vec::new();
    let mut wins = Vec::new();
    let mut counters = Vec::new();
    let mut accepted = Vec::new();
    let mut drifts = Vec::new();
    let mut new = BTreeSet::new();
    for gate in &facts.policy.gates {
        let mut ruled = accepted::ruled(facts, gate, refusals);
        if gate.needs_device() {
            blame_the_device(facts, &mut ruled.verdict);
        }
        if let Some(facet) = ruled.new {
            new.insert((gate.subject.clone(), facet));
        }
        wins.append(&mut ruled.wins);
        counters.append(&mut ruled.counters);
        accepted.extend(ruled.accepted);
        drifts.extend(ruled.drift);
        verdicts.push(ruled.verdict);
    }
    drifts.extend(limit::since_best(facts, &drifts));
    let mut notes: Vec<Note> = new
        .into_iter()
        .map(|(subject, facet)| Note::New { subject, facet })
        .collect();
    notes.extend(notes::gone(facts));
    let (broken, unneeded) = facts.broken();
    verdicts.extend(broken);
    notes.extend(unneeded);
    notes.extend(notes::of_cases(facts));
    Judgement {
        conclusion: conclude(facts, &verdicts),
        verdicts,
        base: None,
        accepted,
        wins,
        drifts,
        counters,
        notes,
    }
}

/// A broken device is never a skip, and neither is a missing one where it is required.
fn blame_the_device(facts: &Facts, verdict: &mut Verdict) {
    let absent = matches!(
        verdict.outcome,
        Outcome::Skipped | Outcome::Unsupported | Outcome::Inconclusive
    );
    let (Err(device), true) = (facts.device(), absent) else {
        return;
    };
    let broken = matches!(facts.environment.device, Seen::Fault(_));
    if broken || facts.policy.require_gpu {
        verdict.outcome = Outcome::Environment;
        verdict.reason = if broken {
            device.reason
        } else {
            format!("a GPU is required here: {}", device.reason)
        };
    }
}

fn conclude(facts: &Facts, verdicts: &[Verdict]) -> Conclusion {
    let any = |outcome| verdicts.iter().any(|verdict| verdict.outcome == outcome);
    let required_but_missing = facts.policy.require_gpu && facts.device().is_err();
    if any(Outcome::Fail) {
        Conclusion::Fail
    } else if any(Outcome::Environment) || required_but_missing {
        Conclusion::Environment
    } else if any(Outcome::Inconclusive) {
        Conclusion::Inconclusive
    } else if any(Outcome::Pass) {
        Conclusion::Pass
    } else {
        Conclusion::NothingJudged
    }
}
