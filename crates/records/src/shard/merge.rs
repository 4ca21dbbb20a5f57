//! Merges the shards of a run into one record for each GPU model that ran all of them, or says why the records make no
//! whole.
//!
//! A whole consists of every shard, once, on GPUs of one model and driver, so that what one of them shows goes together
//! with what another shows. Records of several models are several wholes of one plan. A record of a run that was not
//! dealt out is a whole by itself.

use super::ShardPart;
use model::{
    BuildFacts, CaseCost, CaseId, Costs, Environment, Evidence, MergedPart, Plan, Policy, Record,
    Seen, UnitId, Whole,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// A record, with its name in messages.
#[derive(Clone, Debug)]
pub struct NamedRecord {
    pub name: String,
    pub record: Record,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The measurement was made by another program.
    NotOurs { name: String },
    /// The record was made outside git, so nothing says from which sources.
    NoSources { name: String },
    Foreign {
        first: String,
        other: String,
        what: Foreign,
    },
    /// There are two records of one shard. `None` if one of the two is a run of all cases.
    Doubled {
        first: String,
        other: String,
        part: Option<ShardPart>,
    },
    Missing {
        on: String,
        missing: Vec<u32>,
        of: u32,
    },
    /// Two records have different code for one unit.
    BuiltOtherwise {
        first: String,
        other: String,
        unit: UnitId,
    },
}

/// The difference that shows that a record is of another run than the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    Version,
    Sources,
    Base,
    /// Gates, cases, or options of the command line differ.
    Plan,
    Baselines,
    /// Other shards were dealt the same cases.
    Dealing,
    Compiler,
}

/// Merges records into one for each GPU model, in the order of the records.
///
/// # Errors
/// Returns the first reason for which they make no whole.
pub fn merge(records: Vec<NamedRecord>) -> Result<Vec<Record>, Refused> {
    let Some(first) = records.first() else {
        return Ok(Vec::new());
    };
    for other in &records {
        if other.record.environment.other_program().is_some() {
            let name = other.name.clone();
            return Err(Refused::NotOurs { name });
        }
        if other.record.environment.sources.is_none() {
            let name = other.name.clone();
            return Err(Refused::NoSources { name });
        }
        if let Some(what) = foreign(&first.record, &other.record) {
            return Err(refuse_foreign(first, other, what));
        }
    }
    let mut groups: Vec<(String, Vec<NamedRecord>)> = Vec::new();
    for record in records {
        let on = device(&record.record.environment);
        match groups.iter_mut().find(|(other, _)| *other == on) {
            Some((_, group)) => group.push(record),
            None => groups.push((on, vec![record])),
        }
    }
    groups
        .into_iter()
        .map(|(on, group)| merge_one(on, group))
        .collect()
}

/// Compares the properties that all records share, whatever they ran on.
fn foreign(first: &Record, other: &Record) -> Option<Foreign> {
    let (ours, theirs) = (&first.environment, &other.environment);
    let version =
        |environment: &Environment| (environment.gatekeeper.clone(), environment.timing_protocol);
    let commit = |record: &Record| record.policy.base.as_ref().map(|base| base.commit.clone());
    if version(ours) != version(theirs) {
        return Some(Foreign::Version);
    }
    if ours.sources != theirs.sources || ours.config != theirs.config {
        return Some(Foreign::Sources);
    }
    if commit(first) != commit(other) {
        return Some(Foreign::Base);
    }
    let (plan, policy) = whole(first);
    let (their_plan, their_policy) = whole(other);
    if json(&plan) != json(&their_plan) {
        return Some(Foreign::Plan);
    }
    let agreed =
        |policy: &Policy| json(&(&policy.baselines, &policy.broken_baselines, &policy.anchors));
    if agreed(&policy) != agreed(&their_policy) {
        return Some(Foreign::Baselines);
    }
    // The rest follows from gates.yaml and the options.
    (json(&policy) != json(&their_policy)).then_some(Foreign::Plan)
}

/// Returns a value as it is stored, so that NaN equals NaN.
fn json(value: &impl Serialize) -> Option<serde_json::Value> {
    serde_json::to_value(value).ok()
}

fn refuse_foreign(first: &NamedRecord, other: &NamedRecord, what: Foreign) -> Refused {
    Refused::Foreign {
        first: first.name.clone(),
        other: other.name.clone(),
        what,
    }
}

/// Returns the plan and policy of the whole run.
fn whole(record: &Record) -> (Plan, Policy) {
    let policy = record.policy.clone();
    match &record.shard {
        None => (record.plan.clone(), policy),
        Some(shard) => {
            let Whole {
                plan,
                gates,
                targets,
                accepted,
                ..
            } = shard.whole.clone();
            let policy = Policy {
                gates,
                targets,
                accepted,
                ..policy
            };
            (plan, policy)
        }
    }
}

/// Describes the device of a record, as far as values depend on it.
pub fn device(environment: &Environment) -> String {
    match (&environment.device, &environment.simulator) {
        (Seen::Got(device), _) => format!(
            "{} ({}, {} multiprocessors, driver {}, clocks {})",
            device.name,
            device.arch(),
            device.multiprocessors,
            device.driver,
            device.clock_policy
        ),
        (Seen::NotRun(_) | Seen::Unsupported(_), Some(_)) => "the simulator".to_owned(),
        (Seen::NotRun(_) | Seen::Unsupported(_), None) => "a machine without a GPU".to_owned(),
        (Seen::Fault(_), _) => "a machine without a usable GPU".to_owned(),
    }
}

fn part(record: &Record) -> Option<ShardPart> {
    let shard = record.shard.as_ref()?;
    Some(ShardPart {
        number: shard.number,
        of: shard.of,
    })
}

/// Merges all records of one model.
fn merge_one(on: String, records: Vec<NamedRecord>) -> Result<Record, Refused> {
    let mut shards: BTreeMap<u32, NamedRecord> = BTreeMap::new();
    let mut of = 1;
    for other in records {
        if let Some((_, first)) = shards.first_key_value() {
            let (ours, theirs) = (&first.record, &other.record);
            let dealt =
                |record: &Record| record.shard.as_ref().map(|shard| shard.whole.dealt.clone());
            let compilers = |record: &Record| {
                let environment = &record.environment;
                json(&(&environment.compiler, &environment.base_compiler))
            };
            if part(ours).is_some() && part(theirs).is_some() && dealt(ours) != dealt(theirs) {
                return Err(refuse_foreign(first, &other, Foreign::Dealing));
            }
            if compilers(ours) != compilers(theirs) {
                return Err(refuse_foreign(first, &other, Foreign::Compiler));
            }
        }
        let part = part(&other.record);
        // A record that was not dealt out contains all shards, so any shard in addition to it is a duplicate.
        let number = part.map_or(1, |part| part.number);
        of = part.map_or(of, |part| part.of);
        let mut known = shards.values();
        let twice = known.find(|known| {
            known.record.shard.is_none() || part.is_none() || self::part(&known.record) == part
        });
        if let Some(first) = twice {
            return Err(Refused::Doubled {
                first: first.name.clone(),
                other: other.name,
                part: part.filter(|_| first.record.shard.is_some()),
            });
        }
        shards.insert(number, other);
    }
    let all = 1..=of;
    let missing: Vec<u32> = all.filter(|number| !shards.contains_key(number)).collect();
    let shards: Vec<NamedRecord> = shards.into_values().collect();
    match shards.first() {
        Some(first) if missing.is_empty() => join(&first.record, &shards),
        _ => Err(Refused::Missing { on, missing, of }),
    }
}

/// Joins all shards, in their order.
fn join(first: &Record, shards: &[NamedRecord]) -> Result<Record, Refused> {
    if first.shard.is_none() {
        return Ok(first.clone());
    }
    let (plan, policy) = whole(first);
    let mut environment = first.environment.clone();
    environment.parts = shards.iter().map(|shard| origin(&shard.record)).collect();
    // An acceptance with a last day has to be valid on the day of the last machine.
    let started = environment.parts.iter().map(|part| &part.started).max();
    environment.started = started.cloned().unwrap_or_default();
    let costs = shards
        .iter()
        .map(|shard| shard.record.costs)
        .fold(Costs::default(), together);
    let took: HashMap<&CaseId, &CaseCost> = shards
        .iter()
        .flat_map(|shard| shard.record.took.iter().map(|took| (&took.case, took)))
        .collect();
    let took = plan
        .cases
        .iter()
        .filter_map(|case| took.get(&case.id).copied().cloned());
    Ok(Record {
        schema: first.schema.clone(),
        took: took.collect(),
        evidence: evidence(shards)?,
        environment,
        plan,
        policy,
        costs,
        shard: None,
    })
}

fn origin(record: &Record) -> MergedPart {
    let environment = &record.environment;
    let device = environment.device.got();
    MergedPart {
        cases: record
            .plan
            .cases
            .iter()
            .map(|case| case.id.clone())
            .collect(),
        started: environment.started.clone(),
        command: environment.command.clone(),
        host: environment.host.clone(),
        gpu: device.map(|device| device.uuid.clone()),
    }
}

/// Adds up what several machines spent.
fn together(a: Costs, b: Costs) -> Costs {
    Costs {
        compiler_ms: a.compiler_ms + b.compiler_ms,
        compiled: a.compiled + b.compiled,
        cached: a.cached + b.cached,
        reference_ms: a.reference_ms + b.reference_ms,
        gpu_ms: a.gpu_ms + b.gpu_ms,
        gpus: a.gpus.max(b.gpus),
        simulator_ms: a.simulator_ms + b.simulator_ms,
        rivals_ms: a.rivals_ms + b.rivals_ms,
        profiler_ms: a.profiler_ms + b.profiler_ms,
        worker_start_ms: a.worker_start_ms + b.worker_start_ms,
        workers: a.workers + b.workers,
        total_ms: a.total_ms + b.total_ms,
    }
}

/// Joins all evidence. A unit that several shards built appears once.
fn evidence(shards: &[NamedRecord]) -> Result<Vec<Evidence>, Refused> {
    let mut all: Vec<Evidence> = Vec::new();
    let mut units: HashMap<OfUnit, (usize, &str)> = HashMap::new();
    for shard in shards {
        for piece in &shard.record.evidence {
            let Some(unit) = OfUnit::from_evidence(piece) else {
                all.push(piece.clone());
                continue;
            };
            let Some((at, first)) = units.get(&unit).copied() else {
                units.insert(unit, (all.len(), &shard.name));
                all.push(piece.clone());
                continue;
            };
            let Some(known) = all.get_mut(at) else {
                continue;
            };
            match (facts(known), facts(piece)) {
                (Some(Seen::Got(ours)), Some(Seen::Got(theirs))) if !is_same(ours, theirs) => {
                    return Err(Refused::BuiltOtherwise {
                        first: first.to_owned(),
                        other: shard.name.clone(),
                        unit: unit.id,
                    });
                }
                // A unit that one shard could not build counts as not built.
                (Some(Seen::Got(_)), Some(Seen::Fault(_))) => *known = piece.clone(),
                _ => {}
            }
        }
    }
    Ok(all)
}

/// The subject of a unit's evidence.
#[derive(PartialEq, Eq, Hash)]
struct OfUnit {
    id: UnitId,
    is_base: bool,
    is_code: bool,
}

impl OfUnit {
    fn from_evidence(piece: &Evidence) -> Option<Self> {
        let is_base = piece.as_base().is_some();
        match piece.as_base().unwrap_or(piece) {
            Evidence::Build { unit, .. } => Some(Self {
                id: unit.clone(),
                is_base,
                is_code: false,
            }),
            Evidence::Code { unit, .. } => Some(Self {
                id: unit.clone(),
                is_base,
                is_code: true,
            }),
            _ => None,
        }
    }
}

fn facts(piece: &Evidence) -> Option<&Seen<BuildFacts>> {
    match piece.as_base().unwrap_or(piece) {
        Evidence::Build { facts, .. } => Some(facts),
        _ => None,
    }
}

/// Returns true if two builds have the same code. Paths and warnings may differ between machines.
fn is_same(a: &BuildFacts, b: &BuildFacts) -> bool {
    (&a.identity, &a.ptx, &a.entries, &a.constants)
        == (&b.identity, &b.ptx, &b.entries, &b.constants)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::deal;
    use config::narrow;
    use judge::fixture;
    use model::{Fault, FaultKind, Shard};

    /// Deals a record out, each part with a GPU and a day of its own.
    fn dealt(record: &Record, of: u32) -> Vec<NamedRecord> {
        let whole = Whole {
            id: "id".to_owned(),
            plan: record.plan.clone(),
            gates: record.policy.gates.clone(),
            targets: record.policy.targets.clone(),
            accepted: record.policy.accepted.clone(),
            dealt: deal(&record.plan, of, &[]).unwrap(),
        };
        let shard = |number: u32| {
            let mut record = record.clone();
            let own = &whole.dealt[number as usize - 1];
            let filters = own.iter().map(|id| id.to_string().parse().unwrap());
            let (plan, policy) = (&mut record.plan, &mut record.policy);
            narrow(
                plan,
                &mut policy.gates,
                &mut policy.targets,
                filters.collect(),
            );
            record.evidence.retain(|piece| match piece {
                Evidence::Build { unit, .. } => plan.unit(unit).is_some(),
                Evidence::Check { case, .. }
                | Evidence::Driver { case, .. }
                | Evidence::Time { case, .. } => own.contains(case),
                other => panic!("{other:?}"),
            });
            record.environment.sources = Some("5eed".to_owned());
            record.environment.started = format!("2026-11-2{number}T01:00:00Z");
            if let Seen::Got(device) = &mut record.environment.device {
                device.uuid = format!("GPU-{number}");
            }
            record.shard = Some(Shard {
                number,
                of,
                whole: whole.clone(),
            });
            NamedRecord {
                name: format!("{number}.json"),
                record,
            }
        };
        (1..=of).map(shard).collect()
    }

    fn judged(record: &Record) -> Option<serde_json::Value> {
        json(&judge::judge(record))
    }

    fn merged(shards: Vec<NamedRecord>) -> Record {
        let mut wholes = merge(shards).unwrap();
        assert_eq!(wholes.len(), 1);
        wholes.remove(0)
    }

    #[test]
    fn shards_of_two_gpus_are_one_run_whichever_comes_first() {
        let mut whole = fixture::record();
        fixture::slow(&mut whole, &fixture::case_id("fast", "large"), 103_000);
        let mut shards = dealt(&whole, 2);
        shards.reverse();
        let merged = merged(shards);
        assert_eq!(judged(&merged), judged(&whole));
        assert_eq!(merged.environment.started, "2026-11-22T01:00:00Z");
        assert_eq!(merged.costs.total_ms, 2 * whole.costs.total_ms);
        assert_eq!(merged.shard, None);
    }

    /// Days and GPUs are what baselines of times know sessions by.
    #[test]
    fn a_baseline_knows_which_gpu_timed_a_case_and_when() {
        let merged = merged(dealt(&fixture::record(), 2));
        let (baselines, refused) = judge::acceptable(&merged, "x");
        assert!(refused.is_empty(), "{refused:?}");
        let mut sessions: Vec<_> = baselines
            .iter()
            .flat_map(|baseline| baseline.cases.iter())
            .flat_map(|(shape, metrics)| {
                metrics
                    .values()
                    .filter_map(|metric| metric.sessions.as_ref())
                    .flat_map(|session| session.seen.keys().cloned())
                    .map(move |name| (shape.clone(), name))
            })
            .collect();
        sessions.sort();
        sessions.dedup();
        let part = |shape: &str| {
            let at = merged
                .environment
                .parts
                .iter()
                .position(|part| part.cases.iter().any(|case| case.shape == shape));
            let number = at.unwrap() + 1;
            (shape.to_owned(), format!("2026-11-2{number} GPU-{number}"))
        };
        assert_eq!(sessions, [part("large"), part("small")]);
    }

    #[test]
    fn a_shard_of_another_model_is_none_of_this_whole() {
        let mut shards = dealt(&fixture::record(), 2);
        if let Seen::Got(device) = &mut shards[1].record.environment.device {
            device.name = "NVIDIA L4".to_owned();
        }
        match merge(shards.clone()) {
            Err(Refused::Missing { on, missing, of }) => {
                assert!(on.starts_with("NVIDIA H100 80GB HBM3 ("), "{on}");
                assert_eq!((missing, of), (vec![2], 2));
            }
            other => panic!("{other:?}"),
        }
        // With the other half on each GPU model there are two wholes.
        let mut more = dealt(&fixture::record(), 2);
        if let Seen::Got(device) = &mut more[0].record.environment.device {
            device.name = "NVIDIA L4".to_owned();
        }
        shards.extend(more);
        assert_eq!(merge(shards).unwrap().len(), 2);
        // A GPU that broke does not count as a model.
        let mut shards = dealt(&fixture::record(), 2);
        shards[1].record.environment.device = Seen::Fault(fault());
        assert!(matches!(merge(shards), Err(Refused::Missing { .. })));
    }

    fn fault() -> Fault {
        Fault::new(FaultKind::Compile, "an error")
    }

    fn builds(record: &mut Record) -> impl Iterator<Item = &mut Seen<BuildFacts>> {
        record.evidence.iter_mut().filter_map(|piece| match piece {
            Evidence::Build { facts, .. } => Some(facts),
            _ => None,
        })
    }

    #[test]
    fn a_unit_that_two_shards_built_is_one_code_or_none() {
        let whole = fixture::record();
        let mut shards = dealt(&whole, 2);
        for facts in builds(&mut shards[1].record) {
            if let Seen::Got(facts) = facts {
                facts.warnings = vec!["/elsewhere/k.cu: a warning".to_owned()];
                facts.artifact = "at another path".to_owned();
            }
        }
        assert_eq!(judged(&merged(shards.clone())), judged(&whole));

        let mut other = shards.clone();
        if let Some(Seen::Got(facts)) = builds(&mut other[1].record).next() {
            facts.identity = "another".to_owned();
        }
        match merge(other) {
            Err(Refused::BuiltOtherwise { first, other, .. }) => {
                assert_eq!((&*first, &*other), ("1.json", "2.json"));
            }
            other => panic!("{other:?}"),
        }
        // A failure in any shard is a failure in the whole.
        for at in [0, 1] {
            let mut broken = shards.clone();
            if let Some(facts) = builds(&mut broken[at].record).next() {
                *facts = Seen::Fault(fault());
            }
            let judgement = judged(&merged(broken)).unwrap();
            assert_eq!(judgement["conclusion"], "fail", "{at}");
        }
    }

    #[test]
    fn records_of_another_compiler_or_version_are_foreign() {
        let is_foreign = |change: &dyn Fn(&mut Record)| {
            let mut shards = dealt(&fixture::record(), 2);
            change(&mut shards[1].record);
            match merge(shards) {
                Err(Refused::Foreign { what, .. }) => Some(what),
                _ => None,
            }
        };
        assert_eq!(is_foreign(&|_| {}), None);
        assert_eq!(
            is_foreign(&|record| record.environment.gatekeeper = "0.0.9".to_owned()),
            Some(Foreign::Version)
        );
        assert_eq!(
            is_foreign(&|record| {
                if let Seen::Got(compiler) = &mut record.environment.compiler {
                    compiler.digest = "other".to_owned();
                }
            }),
            Some(Foreign::Compiler)
        );
        assert_eq!(
            is_foreign(&|record| record.policy.baselines.clear()),
            Some(Foreign::Baselines)
        );
        assert_eq!(
            is_foreign(&|record| record.policy.require_gpu = true),
            Some(Foreign::Plan)
        );
        assert_eq!(
            is_foreign(&|record| record.policy.allow_fallback = true),
            Some(Foreign::Plan)
        );
    }
}
