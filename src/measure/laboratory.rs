//! Builds sets of pieces, checks that what they make is right, and measures it: counters and resources in the simulator,
//! times on the GPU, each two sets interleaved in the same processes.

use super::apart::{Laboratory, MetricChange, MetricChanges, PieceSet, Tried};
use super::pieces::CasePieces;
use build::Built;
use config::ResolvedVariant;
use judge::{Index, ln_ratio, stats};
use model::{
    Case, CaseId, Facet, Fault, Gate, Metric, PairFacts, Record, Seen, Singles, Step, Subject,
    Tensor, Unit,
};
use pipeline::{Bench, CandidateBuilder};
use run::worker::{Arm, PairJob};
use std::collections::BTreeMap;
use std::path::Path;
use system::error::{Error, Result};
use wording::reasons;

/// The number of processes in which each two sets are timed. Each process gives one ratio.
const PROCESSES: u32 = 3;

/// A laboratory that works on a bench.
pub struct BenchLaboratory<'l, 'b> {
    pub pieces: &'l CasePieces<'l>,
    /// The directory for the files of all sets.
    pub root: &'l Path,
    pub builder: &'l CandidateBuilder<'b>,
    pub bench: &'l mut Bench<'b>,
    /// The gates on the output of the case, by head.
    pub gates: &'l [Gate],
    pub say: &'l dyn Fn(&str),
    pub sets: BTreeMap<PieceSet, std::result::Result<MeasuredSet, String>>,
}

/// A set of pieces that was built and is right.
pub struct MeasuredSet {
    case: Case,
    built: Built,
    /// The metrics that are the same each time: resources and counters.
    values: BTreeMap<Metric, f64>,
}

impl MeasuredSet {
    /// Returns true if both sets execute the same.
    fn is_same(&self, other: &Self) -> bool {
        fn executed(set: &MeasuredSet) -> Option<(&str, &[Step], &[Tensor])> {
            let identity = set.built.facts.got()?.identity.as_str();
            Some((identity, &set.case.steps, &set.case.tensors))
        }
        executed(self).is_some_and(|own| Some(own) == executed(other))
    }

    fn arm(&self) -> Result<Arm> {
        let artifact = self.built.artifact.clone().ok_or_else(|| {
            Error::environment(format!("the build of {} is gone", self.case.id.variant))
        })?;
        Ok(Arm {
            case: self.case.clone(),
            artifact,
        })
    }
}

impl Laboratory for BenchLaboratory<'_, '_> {
    fn try_sets(&mut self, sets: &[PieceSet]) -> Result<Vec<Tried>> {
        let mut new: Vec<&PieceSet> = sets
            .iter()
            .filter(|set| !self.sets.contains_key(*set))
            .collect();
        new.sort();
        new.dedup();
        if !new.is_empty() {
            self.measure_sets(&new)?;
        }
        Ok(sets
            .iter()
            .map(|set| match self.sets.get(set) {
                Some(Ok(_)) => Ok(()),
                Some(Err(why)) => Err(why.clone()),
                None => Err("it was not tried".to_owned()),
            })
            .collect())
    }

    fn compare(&mut self, pairs: &[(PieceSet, PieceSet)]) -> Result<Vec<MetricChanges>> {
        let mut changes = pairs
            .iter()
            .map(|pair| Ok(count_changes(self.both(pair)?)))
            .collect::<Result<Vec<MetricChanges>>>()?;
        if self.bench.device().is_some() && !pairs.is_empty() {
            let times = self.time(pairs)?;
            for (changes, time) in changes.iter_mut().zip(times) {
                changes.insert(Metric::P50, time);
            }
        }
        Ok(changes)
    }
}

impl BenchLaboratory<'_, '_> {
    fn both(&self, (from, to): &(PieceSet, PieceSet)) -> Result<[&MeasuredSet; 2]> {
        let find = |set: &PieceSet| match self.sets.get(set) {
            Some(Ok(measured)) => Ok(measured),
            _ => Err(Error::environment(
                "a set of pieces was compared before it was built",
            )),
        };
        Ok([find(from)?, find(to)?])
    }

    /// Builds and checks sets that were not tried before, all at once.
    fn measure_sets(&mut self, sets: &[&PieceSet]) -> Result<()> {
        (self.say)(&format!(
            "building and checking {} of the change",
            wording::words::plural(sets.len(), "combination")
        ));
        let mut made = Vec::new();
        for set in sets {
            let name = format!("set-{}", self.sets.len() + made.len());
            made.push(self.pieces.make(self.root, &name, set)?);
        }
        let built = self.build(sets, &made)?;
        let variants: Vec<ResolvedVariant> = made
            .into_iter()
            .map(|(unit, case)| ResolvedVariant {
                gates: self.gates_of(&case.id),
                units: vec![unit],
                cases: vec![case],
            })
            .collect();
        let batch: Vec<(&ResolvedVariant, &[Built])> = variants
            .iter()
            .zip(built.chunks(1))
            .filter(|(_, built)| built.iter().all(|built| built.artifact.is_some()))
            .collect();
        let proven = self.bench.prove(&batch)?;
        let simulated = if self.bench.device().is_some() {
            let budget = self.bench.simulation_budget();
            Some(self.bench.simulate(budget, &batch)?)
        } else {
            None
        };
        let counted = simulated.as_ref().unwrap_or(&proven);
        for ((set, variant), built) in sets.iter().zip(variants).zip(built) {
            let Some(case) = variant.cases.into_iter().next() else {
                continue;
            };
            let found = match &built.facts {
                // A GPU shows no races, so both records are asked.
                Seen::Got(_) => {
                    is_right(&proven, &case.id).and_then(|()| no_failure(counted, &case.id))
                }
                Seen::Fault(fault) => Err(first_line(fault)),
                Seen::Unsupported(why) => Err(reasons::unsupported(why)),
                Seen::NotRun(why) => Err(reasons::not_run(why)),
            };
            let measured = found.map(|()| MeasuredSet {
                values: repeatable_values(counted, &case.id),
                case,
                built,
            });
            self.sets.insert((*set).clone(), measured);
        }
        Ok(())
    }

    /// Builds sets, those with one compiler together, and returns the builds in the order of the sets.
    fn build(&self, sets: &[&PieceSet], made: &[(Unit, Case)]) -> Result<Vec<Built>> {
        let mut built = BTreeMap::new();
        for compiler in self.pieces.compilers() {
            let own: Vec<(usize, &Unit)> = sets
                .iter()
                .zip(made)
                .enumerate()
                .filter(|(_, (set, _))| std::ptr::eq(self.pieces.toolchain(set), compiler))
                .map(|(at, (_, (unit, _)))| (at, unit))
                .collect();
            let units: Vec<Unit> = own.iter().map(|(_, unit)| (*unit).clone()).collect();
            let done = self.builder.build_at(self.root, compiler, &units)?;
            built.extend(own.into_iter().map(|(at, _)| at).zip(done));
        }
        Ok(built.into_values().collect())
    }

    fn gates_of(&self, id: &CaseId) -> Vec<Gate> {
        self.gates
            .iter()
            .map(|gate| Gate {
                subject: Subject::Case(id.clone()),
                ..gate.clone()
            })
            .collect()
    }

    /// Times each pair in several processes, and all pairs in each of them. So a process is started once and not once
    /// for each pair.
    fn time(&mut self, pairs: &[(PieceSet, PieceSet)]) -> Result<Vec<MetricChange>> {
        let mut readings: Vec<Vec<(f64, f64)>> = pairs.iter().map(|_| Vec::new()).collect();
        let mut failed = None;
        for process in 0..PROCESSES {
            (self.say)(&format!(
                "timing {}, process {} of {PROCESSES}",
                wording::words::plural(pairs.len(), "comparison"),
                process + 1
            ));
            self.bench.fresh();
            for (pair, readings) in pairs.iter().zip(&mut readings) {
                match self.time_once(pair, process)? {
                    Ok(reading) => readings.push(reading),
                    Err(why) => failed = Some(why),
                }
            }
        }
        readings
            .iter()
            .map(|readings| {
                summarise(readings).ok_or_else(|| {
                    let why = failed.clone().unwrap_or_default();
                    Error::environment(format!("no time can be read: {why}"))
                })
            })
            .collect()
    }

    /// Returns the time of the first set in ns, and the logarithm of what the second takes over the first.
    fn time_once(
        &mut self,
        pair: &(PieceSet, PieceSet),
        process: u32,
    ) -> Result<std::result::Result<(f64, f64), String>> {
        let [from, to] = self.both(pair)?;
        let is_same = from.is_same(to);
        let (base, head) = (from.arm()?, to.arm()?);
        let Some(&seed) = head.case.seeds.first() else {
            return Ok(Err("the case has no seed".to_owned()));
        };
        let facts = self.bench.pair(PairJob {
            head,
            base,
            seed,
            process,
            schedule: self.bench.plan().timing.clone(),
            pairing: config::pairing(true),
            singles: Singles::Shown,
        });
        let facts: PairFacts = match facts {
            Seen::Got(facts) => facts,
            Seen::Fault(fault) => return Ok(Err(reasons::fault(&fault))),
            Seen::Unsupported(why) => return Ok(Err(reasons::unsupported(&why))),
            Seen::NotRun(why) => return Ok(Err(reasons::not_run(&why))),
        };
        let ratio = match ln_ratio(&facts, Metric::P50) {
            // Equal code takes the same time, and any difference that the clock shows is noise.
            Ok(_) if is_same => 0.0,
            Ok((ratio, _)) => ratio,
            Err(why) => return Ok(Err(why.reason.code().to_owned())),
        };
        let ns = stats::p50([&facts.base]);
        Ok(ns
            .map(|ns| (ns, ratio))
            .ok_or_else(|| "there are no samples".to_owned()))
    }
}

/// Returns why a case is not shown to be right.
fn is_right(record: &Record, id: &CaseId) -> Tried {
    let index = Index::new(record);
    let found = index.head().timeable(id);
    found.map_err(|why| {
        let subject = Subject::Case(id.clone());
        reasons::reason(&record.environment, &subject, &why.reason)
    })
}

/// Returns why a case is wrong. A case that was too large to simulate is not.
fn no_failure(record: &Record, id: &CaseId) -> Tried {
    match Index::new(record).failed_proof(id) {
        None => Ok(()),
        Some(reason) => {
            let subject = Subject::Case(id.clone());
            Err(reasons::reason(&record.environment, &subject, reason))
        }
    }
}

/// Returns the resources and counters of a case, as far as they are known. Counters on which no gate can rest are among
/// them, because they explain others.
fn repeatable_values(record: &Record, id: &CaseId) -> BTreeMap<Metric, f64> {
    let index = Index::new(record);
    let view = index.head();
    let subject = Subject::Case(id.clone());
    let gated = Metric::ALL
        .into_iter()
        .filter(|metric| matches!(metric.facet(), Facet::Resources | Facet::Counters))
        .filter_map(|metric| Some((metric, view.metric(&subject, metric).ok()?.number)));
    let simulations = view.simulations(id);
    let others = simulations
        .iter()
        .flat_map(|(_, facts)| &facts.information)
        .map(|(counter, count)| (Metric::Counter(*counter), *count as f64));
    gated.chain(others).collect()
}

/// Returns the changes of what both sets have.
fn count_changes([from, to]: [&MeasuredSet; 2]) -> MetricChanges {
    from.values
        .iter()
        .filter_map(|(metric, value)| {
            let change = MetricChange {
                from: *value,
                change: to.values.get(metric)? - value,
                error: 0.0,
            };
            Some((*metric, change))
        })
        .collect()
}

/// Returns the change over all processes with its standard error. Returns `None` for fewer than two processes, which say
/// nothing about the error.
fn summarise(readings: &[(f64, f64)]) -> Option<MetricChange> {
    let count = readings.len() as f64;
    let mean = |value: &dyn Fn(&(f64, f64)) -> f64| readings.iter().map(value).sum::<f64>() / count;
    if readings.len() < 2 {
        return None;
    }
    let (from, ratio) = (mean(&|(ns, _)| *ns), mean(&|(_, ratio)| *ratio));
    let squares = count * mean(&|(_, own)| (own - ratio).powi(2));
    let error = (squares / (count - 1.0) / count).sqrt();
    Some(MetricChange {
        from,
        change: from * ratio.exp_m1(),
        error: from * ratio.exp() * error,
    })
}

fn first_line(fault: &Fault) -> String {
    let said = reasons::fault(fault);
    said.lines().next().unwrap_or_default().to_owned()
}
