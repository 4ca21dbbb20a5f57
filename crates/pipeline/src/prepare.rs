//! Does everything that needs no GPU time, at once: nvcc for head and base while the device wakes up, and then, if
//! there is a device, the references.

use super::answers::Answers;
use super::arguments::{refuse_misfits, refuse_unassembled};
use super::device::{WakingDevice, usable};
use super::plan::{Planned, UnitReads};
use super::request::Request;
use super::took::{Meter, milliseconds};
use super::work::{Artifacts, EvidenceSide, SharedWork, WorkSide};
use crate::event::{Event, Phase};
use build::apart::{FileReader, Reads};
use build::{Building, Built};
use model::{Costs, Evidence, RECORD_SCHEMA, Record, Seen, Unit, UnitId};
use run::worker::Crews;
use std::time::{Duration, Instant};
use system::cache::Cache;
use system::error::{Error, Result};

/// Everything that is built and known before a kernel runs.
pub(super) struct Prepared<'env> {
    pub work: SharedWork,
    /// The record, with the evidence of the builds.
    pub record: Record,
    pub crews: Crews<'env>,
    pub reads: UnitReads,
    /// The time that the first workers took to start while the change was found and the compiler ran. It counts as
    /// theirs.
    pub started_meanwhile: Duration,
}

/// Builds both sides while the device wakes up, and then computes the references of what it will run.
///
/// # Errors
/// Fails with an environment error if compiler or cache cannot be used, and with a usage error if a side is built from
/// files of the other.
pub(super) fn prepare<'env>(
    request: &Request,
    planned: &Planned,
    device: WakingDevice<'_, 'env>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Prepared<'env>> {
    let began = Instant::now();
    let (opened, builds) = std::thread::scope(|scope| {
        let builds = scope.spawn(|| {
            let began = Instant::now();
            build_sides(planned, cache, on).map(|built| (built, began.elapsed()))
        });
        let opened = device.wait().map(|(crews, device)| {
            let device = usable(device, &planned.toolchain.facts.version);
            let waited = began.elapsed();
            let answers = match device {
                Seen::Got(_) => {
                    Answers::compute(planned.plan.cases.iter(), &planned.references, on)
                }
                Seen::Fault(_) | Seen::Unsupported(_) | Seen::NotRun(_) => Answers::default(),
            };
            (crews, device, waited, answers)
        });
        let builds = builds.join();
        let builds = builds.unwrap_or_else(|_| Err(Error::environment("the build stage panicked")));
        (opened, builds)
    });
    let (crews, device, waited, answers) = opened?;
    let ([mut head, mut base], built_in) = builds?;
    let reads = UnitReads {
        head: reads(&head),
        base: reads(&base),
    };
    planned.refuse_crossing(&reads)?;
    if !matches!(device, Seen::NotRun(_)) {
        refuse_unassembled(&mut head);
        refuse_unassembled(&mut base);
    }
    let mut record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        environment: planned.environment(request, &device),
        plan: planned.plan.clone(),
        policy: planned.policy.clone(),
        evidence: Vec::new(),
        costs: Costs::default(),
        took: Vec::new(),
        shard: planned.shard.clone(),
    };
    // References that were computed while the compiler ran count as the compiler's time.
    let overlap = built_in.saturating_sub(waited).min(answers.wall);
    record.costs.compiler_ms = milliseconds(built_in);
    record.costs.reference_ms = milliseconds(answers.wall - overlap);
    let head = file_builds(EvidenceSide::Head, head, &mut record);
    let base = file_builds(EvidenceSide::Base, base, &mut record);
    let side = |artifacts, answers, dump| WorkSide {
        device: device.got().cloned(),
        artifacts,
        answers,
        dump,
    };
    let device_late = waited.saturating_sub(built_in);
    Ok(Prepared {
        work: SharedWork {
            head: side(head, answers, request.dump.clone()),
            base: side(base, Answers::default(), None),
            took: Meter::default(),
        },
        record,
        started_meanwhile: crews.costs().process.saturating_sub(device_late),
        crews,
        reads,
    })
}

/// Adds the builds of a side to the record, and returns the artifacts that it runs.
fn file_builds(side: EvidenceSide, built: Vec<(UnitId, Built)>, record: &mut Record) -> Artifacts {
    let mut artifacts = Artifacts::new();
    let mut pieces = Vec::new();
    for (unit, built) in built {
        if built.cached {
            record.costs.cached += 1;
        } else {
            record.costs.compiled += 1;
        }
        artifacts.extend(built.artifact.map(|artifact| (unit.clone(), artifact)));
        let facts = built.facts;
        pieces.push(Evidence::Build { unit, facts });
    }
    side.file(pieces, &mut record.evidence);
    artifacts
}

/// Returns the files that units were made from.
fn reads(built: &[(UnitId, Built)]) -> Reads {
    let mut reads = Reads::default();
    for (unit, built) in built {
        let reader = FileReader::Unit(unit.clone());
        reads.note(&reader, &built.read, built.unlisted.as_ref());
    }
    reads
}

/// Builds the units of head and of the base.
fn build_sides(
    planned: &Planned,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<[Vec<(UnitId, Built)>; 2]> {
    let head = &planned.plan.units;
    let base = planned.base_units();
    let steps = head.len() + base.as_ref().map_or(0, |(_, units)| units.len());
    on(Event::Began {
        phase: Phase::Build,
        steps: steps as u64,
    });
    let named = |units: &[Unit], built: Vec<Built>| -> Vec<(UnitId, Built)> {
        units
            .iter()
            .map(|unit| unit.id.clone())
            .zip(built)
            .collect()
    };
    let stepped = |side: &str, unit: &Unit| {
        on(Event::Stepped {
            phase: Phase::Build,
            what: format!("{side}{}", unit.id),
        });
    };
    let building = Building::new(&planned.root, &planned.toolchain, cache);
    let built = build::build_all(building, head, &|unit, _| stepped("", unit))?;
    let mut built_head = named(head, built);
    refuse_misfits(&planned.plan, Some(&planned.places), &mut built_head);
    let Some((tree, units)) = base else {
        return Ok([built_head, Vec::new()]);
    };
    let hidden = tree.trees.hide_head();
    let building = Building {
        hidden: hidden.as_ref(),
        ..Building::new(&tree.root, &tree.toolchain, cache)
    };
    let built = build::build_all(building, &units, &|unit, _| stepped("base of ", unit))?;
    let mut built_base = named(&units, built);
    if let Some(base) = &planned.policy.base {
        refuse_misfits(&base.plan, None, &mut built_base);
    }
    Ok([built_head, built_base])
}
