//! Builds configurations, checks them against their gates, and times them. A trait hides this, so that a search can be
//! tested on a simulated clock instead of a GPU.

use super::candidate::{Candidate, dropped};
use super::outcome::{Dropped, DroppedBy};
use super::race::{RaceReading, Track};
use build::Built;
use config::ResolvedVariant;
use explain::diagnosis::{self, Diagnosis};
use judge::stats;
use judge::{Index, View};
use model::{
    Case, Environment, FaultKind, Gate, Metric, Outcome, PairFacts, Question, Reason, Record, Rule,
    Schedule, Seen, Singles, Subject, Tensor, Unit, Verdict,
};
use pipeline::{Bench, CandidateBuilder};
use run::worker::{Arm, PairJob};
use std::collections::BTreeMap;
use std::time::Duration;
use system::error::{Error, Result};
use wording::reasons;
use wording::words;

/// Compiles configurations while other work goes on.
pub trait Builder: Sync {
    /// Builds units, and returns the builds in the order of the units.
    ///
    /// # Errors
    /// Environment, if the machine failed.
    fn build(&self, units: &[Unit]) -> Result<Vec<Built>>;
}

pub trait Evaluator: Track {
    /// Returns true if it measures times, and false if it gives estimates.
    fn has_clock(&self) -> bool;

    /// Returns the time of the last proof, without building and references.
    fn took(&self) -> Duration;

    /// Checks whether each candidate holds its gates, at all shapes.
    ///
    /// # Errors
    /// Environment, if the machine failed and not the kernel.
    fn prove(&mut self, batch: &[&Candidate]) -> Result<Vec<std::result::Result<Proof, Dropped>>>;

    /// Runs a candidate that is right and fast on a GPU in the simulator, before it counts as the best. A race need not
    /// show on a GPU, and waiting less is a way of being fast.
    ///
    /// # Errors
    /// Environment, if the machine failed.
    fn look_for_races(&mut self, candidate: &Candidate)
    -> Result<std::result::Result<(), Dropped>>;
}

/// Says that all gates of a candidate held.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proof {
    /// The time of one launch that the simulator estimated, in ns, by shape.
    pub estimated_ns: BTreeMap<String, f64>,
    /// The shapes that were not simulated.
    pub unseen: Vec<String>,
}

fn estimated_ns(diagnosis: &Diagnosis) -> Option<f64> {
    let ns = diagnosis.estimated_ns?.0;
    (ns.is_finite() && ns > 0.0).then_some(ns)
}

impl Builder for CandidateBuilder<'_> {
    fn build(&self, units: &[Unit]) -> Result<Vec<Built>> {
        Self::build(self, units)
    }
}

/// A bench, and what is timed on it.
pub struct DeviceEvaluator<'b, 'a> {
    pub bench: &'b mut Bench<'a>,
    pub objective: &'b [(String, f64)],
    /// The number of the process in this search, from which orders and placements follow.
    process: u32,
}

impl<'b, 'a> DeviceEvaluator<'b, 'a> {
    pub fn new(bench: &'b mut Bench<'a>, objective: &'b [(String, f64)]) -> Self {
        Self {
            bench,
            objective,
            process: 0,
        }
    }
}

impl Track for DeviceEvaluator<'_, '_> {
    fn fresh(&mut self) {
        self.bench.fresh();
        self.process += 1;
    }

    fn read(
        &mut self,
        head: &Candidate,
        base: &Candidate,
    ) -> std::result::Result<RaceReading, Dropped> {
        let mut reading = RaceReading {
            ln_ratio: 0.0,
            resolution: 0.0,
            head_ns: BTreeMap::new(),
            base_ns: BTreeMap::new(),
        };
        for (shape, weight) in self.objective {
            let schedule = self.bench.plan().timing.clone();
            let job = pair_job(head, base, shape, self.process, schedule);
            let facts = self.bench.pair(job.ok_or_else(lost)?);
            let facts = match facts {
                Seen::Got(facts) => facts,
                Seen::Fault(fault) if fault.kind == FaultKind::Hang => {
                    return Err(dropped(DroppedBy::Hang, "timing", &fault));
                }
                Seen::Fault(fault) => return Err(dropped(DroppedBy::Timing, "timing", &fault)),
                Seen::Unsupported(why) => return Err(unread(reasons::unsupported(&why))),
                Seen::NotRun(why) => return Err(unread(reasons::not_run(&why))),
            };
            let (ratio, resolution) = judge::ln_ratio(&facts, Metric::P50)
                .map_err(|why| unread(format!("no time can be read: {}", why.reason.code())))?;
            reading.ln_ratio += weight * ratio;
            reading.resolution += weight * resolution;
            let PairFacts { head, base, .. } = &facts;
            reading
                .head_ns
                .extend(stats::p50([head]).map(|ns| (shape.clone(), ns)));
            reading
                .base_ns
                .extend(stats::p50([base]).map(|ns| (shape.clone(), ns)));
        }
        Ok(reading)
    }
}

fn pair_job(
    head: &Candidate,
    base: &Candidate,
    shape: &str,
    process: u32,
    schedule: Schedule,
) -> Option<PairJob> {
    let arm = |candidate: &Candidate| {
        Some(Arm {
            case: candidate.case(shape)?.clone(),
            artifact: candidate.built.first()?.artifact.clone()?,
        })
    };
    let head = arm(head)?;
    Some(PairJob {
        seed: head.case.seeds.first().copied()?,
        base: arm(base)?,
        head,
        process,
        schedule,
        pairing: config::pairing(true),
        singles: Singles::Shown,
    })
}

fn lost() -> Dropped {
    unread("it was not built for this shape".to_owned())
}

fn unread(message: String) -> Dropped {
    Dropped::new(DroppedBy::Timing, "timing", "timing", message)
}

impl Evaluator for DeviceEvaluator<'_, '_> {
    fn has_clock(&self) -> bool {
        self.bench.device().is_some()
    }

    fn took(&self) -> Duration {
        self.bench.took()
    }

    /// Checks candidates against their gates. On a GPU, one seed of the smallest case is run first, and a candidate
    /// that breaks or is wrong there is not run again: a kernel that does not end would take its deadline for each seed
    /// of each shape.
    fn prove(&mut self, batch: &[&Candidate]) -> Result<Vec<std::result::Result<Proof, Dropped>>> {
        let asked = batch
            .iter()
            .map(|candidate| candidate.asked.as_ref())
            .collect::<std::result::Result<Vec<&ResolvedVariant>, _>>();
        let whole = asked.map_err(|why| Error::environment(&why.message))?;
        if !self.has_clock() {
            return self.judge(batch, &whole);
        }
        let glances: Vec<ResolvedVariant> = whole.iter().map(|asked| glance(asked)).collect();
        let first = self.judge(batch, &glances.iter().collect::<Vec<_>>())?;
        let is_right = |at: usize| matches!(first.get(at), Some(Ok(_)));
        let right = batch
            .iter()
            .zip(&whole)
            .enumerate()
            .filter(|(at, _)| is_right(*at))
            .map(|(_, value)| value);
        let (right, asked): (Vec<_>, Vec<_>) =
            right.map(|(candidate, asked)| (*candidate, *asked)).unzip();
        let mut second = if right.is_empty() {
            Vec::new()
        } else {
            self.judge(&right, &asked)?
        }
        .into_iter();
        Ok(first
            .into_iter()
            .map(|first| match first {
                Err(why) => Err(why),
                Ok(_) => second.next().unwrap_or_else(|| Err(lost())),
            })
            .collect())
    }

    fn look_for_races(
        &mut self,
        candidate: &Candidate,
    ) -> Result<std::result::Result<(), Dropped>> {
        let asked = candidate.asked.as_ref();
        let asked = asked.map_err(|why| Error::environment(&why.message))?;
        let budget = self.bench.simulation_budget();
        let job = [(asked, candidate.built.as_slice())];
        let record = self.bench.simulate(budget, &job)?;
        // If the simulator cannot run a candidate, that does not show that the candidate is wrong.
        Ok(match failure(&record, &candidate.name()) {
            Some(why) => Err(why),
            None => Ok(()),
        })
    }
}

/// Returns why the record drops a candidate: a finding if there is one, or else the first failure.
fn failure(record: &Record, name: &str) -> Option<Dropped> {
    let judgement = judge::judge(record);
    let mut failed = judgement
        .verdicts
        .iter()
        .filter(|verdict| verdict.subject.variant() == name && verdict.outcome == Outcome::Fail);
    let first = failed.clone().find(is_finding).or_else(|| failed.next());
    first.and_then(|verdict| by_verdict(&record.environment, verdict))
}

/// Returns the variant with its smallest case and that case's first seed.
fn glance(asked: &ResolvedVariant) -> ResolvedVariant {
    let case = asked.cases.iter().min_by_key(|case| elements(case));
    one_seed(asked, case.cloned().into_iter().collect())
}

fn elements(case: &Case) -> usize {
    case.tensors.iter().map(Tensor::len).sum()
}

/// Returns the variant with only these cases, each with its first seed.
fn one_seed(asked: &ResolvedVariant, mut cases: Vec<Case>) -> ResolvedVariant {
    for case in &mut cases {
        case.seeds.truncate(1);
    }
    let is_here = |gate: &&Gate| match &gate.subject {
        Subject::Unit(_) => true,
        Subject::Case(id) => cases.iter().any(|case| case.id == *id),
    };
    ResolvedVariant {
        units: asked.units.clone(),
        gates: asked.gates.iter().filter(is_here).cloned().collect(),
        cases,
    }
}

impl DeviceEvaluator<'_, '_> {
    fn judge(
        &mut self,
        batch: &[&Candidate],
        asked: &[&ResolvedVariant],
    ) -> Result<Vec<std::result::Result<Proof, Dropped>>> {
        let has_clock = self.has_clock();
        let jobs: Vec<_> = asked
            .iter()
            .zip(batch)
            .map(|(asked, candidate)| (*asked, candidate.built.as_slice()))
            .collect();
        let record = self.bench.prove(&jobs)?;
        let index = Index::new(&record);
        let verdicts = index.judge().verdicts;
        batch
            .iter()
            .zip(asked)
            .map(|(candidate, asked)| {
                judge_one(
                    index.head(),
                    &verdicts,
                    (&candidate.name(), asked),
                    has_clock,
                )
            })
            .collect()
    }
}

/// Returns true for a finding. A race is the cause, and a wrong output is its consequence.
fn is_finding(verdict: &&Verdict) -> bool {
    verdict.question == Question::Gate(Rule::NoFindings)
        && !matches!(verdict.reason, Reason::Fault(_))
}

fn by_verdict(environment: &Environment, verdict: &Verdict) -> Option<Dropped> {
    let Question::Gate(rule) = &verdict.question else {
        return None;
    };
    let gate = Gate {
        subject: verdict.subject.clone(),
        rule: rule.clone(),
        declared: verdict.declared.clone(),
    };
    let mut message = reasons::verdict(environment, verdict);
    if let Subject::Case(case) = &verdict.subject {
        message = format!("at {}: {message}", case.shape);
    }
    let what = words::gate(rule);
    Some(Dropped::by_gate(&gate, &verdict.reason, &what, message))
}

fn judge_one(
    view: View,
    verdicts: &[Verdict],
    (name, asked): (&str, &ResolvedVariant),
    has_clock: bool,
) -> Result<std::result::Result<Proof, Dropped>> {
    let environment = view.environment();
    let own: Vec<&Verdict> = verdicts
        .iter()
        .filter(|verdict| verdict.subject.variant() == name)
        .collect();
    let find = |outcome| {
        let of_it = || {
            own.iter()
                .copied()
                .filter(|verdict| verdict.outcome == outcome)
        };
        of_it().find(is_finding).or_else(|| of_it().next())
    };
    if let Some(verdict) = find(Outcome::Environment) {
        let why = reasons::verdict(environment, verdict);
        return Err(Error::environment(format!("{}: {why}", verdict.subject)));
    }
    let broken = [Outcome::Fail, Outcome::Inconclusive, Outcome::Unsupported];
    let broken = broken.into_iter().find_map(find);
    let broken = broken.and_then(|verdict| by_verdict(environment, verdict));
    let mut proof = Proof::default();
    for case in &asked.cases {
        if !case
            .seeds
            .iter()
            .any(|seed| view.check(&case.id, *seed).is_ok())
        {
            proof.unseen.push(case.id.shape.clone());
        }
        let estimate = estimated_ns(&diagnosis::diagnose(view, &case.id));
        proof
            .estimated_ns
            .extend(estimate.map(|ns| (case.id.shape.clone(), ns)));
    }
    if let Some(why) = broken {
        return Ok(Err(Dropped {
            estimated_ns: proof.estimated_ns,
            ..why
        }));
    }
    if let Some((shape, why)) = asked
        .cases
        .iter()
        .filter(|_| has_clock)
        .find_map(|case| Some((&case.id.shape, view.timeable(&case.id).err()?)))
    {
        return Ok(Err(unproven(shape, why.reason.code())));
    }
    if proof.unseen.len() == asked.cases.len() {
        return Ok(Err(unproven("all shapes", "not-run")));
    }
    Ok(Ok(proof))
}

/// Drops a candidate that was not shown to be right, although it was not shown to be wrong either.
fn unproven(shape: &str, code: &str) -> Dropped {
    let message = format!("at {shape}: it was not shown to be right");
    Dropped::new(DroppedBy::Correctness, "checked", code, message)
}
