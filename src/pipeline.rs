//! A run from gates.yaml to its judgement. Alone knows the order of the stages; decides nothing: whether a
//! case may go on, needs another process, or holds is asked of `verdict::judge`.

use crate::build::{self, Artifact, Built};
use crate::cache::Cache;
use crate::check::{self, reference::ExpectedPaths};
use crate::config::{self, Loaded, Selection};
use crate::device::DeviceChoice;
use crate::error::{Diagnostic, Error, Result};
use crate::report::progress::{Event, Phase};
use crate::toolchain::{self, Toolchain};
use crate::worker::crew::Crew;
use crate::worker::protocol::{CheckJob, Expected, TimeJob};
use crate::{repo, store};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;
use verdict::judge::{self, Stage};
use verdict::model::{
    Case, CaseId, Costs, DeviceFacts, Environment, Evidence, Judgement, Plan, Policy, RECORD_SCHEMA, Record,
    Reference, Seen, Unit, UnitId,
};

/// What `run` was asked for.
#[derive(Debug)]
pub struct Request {
    pub config: PathBuf,
    pub selection: Selection,
    pub device: DeviceChoice,
    pub require_gpu: bool,
    pub provision: bool,
    pub dump: Option<PathBuf>,
    /// The command line, for the record.
    pub command: String,
}

pub struct Outcome {
    pub record: Record,
    pub judgement: Judgement,
}

/// # Errors
/// What keeps a run from starting at all: configuration, compiler, cache. Whatever breaks later is evidence.
pub fn run(request: &Request, cache: &Cache, on: &(dyn Fn(Event) + Sync)) -> Result<Outcome> {
    let began = Instant::now();
    let Loaded { root, plan, gates, toolchain: pin, .. } = config::load(&request.config, &request.selection)?;
    let (baselines, broken_baselines) = store::load_baselines(&root);
    let policy = Policy { gates, baselines, broken_baselines, require_gpu: request.require_gpu };
    let toolchain = compiler(request, pin.cuda.as_deref(), cache, on)?;

    let mut crew = Crew::new(request.device);
    let (device, built, references) = prepare(&root, &plan, &toolchain, cache, &mut crew, on)?;
    let mut record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        environment: Environment {
            gatekeeper: env!("CARGO_PKG_VERSION").to_owned(),
            started: repo::now(),
            command: request.command.clone(),
            host: repo::host(),
            commit: repo::commit(&root),
            compiler: Seen::Got(toolchain.facts.clone()),
            device,
        },
        plan,
        policy,
        evidence: Vec::new(),
        costs: Costs::default(),
    };
    record.costs.compiler_ms = built.wall_ms;
    record.costs.reference_ms = references.wall_ms;
    let artifacts = built.append_to(&mut record);
    if let Seen::Got(device) = record.environment.device.clone() {
        let work = Work { device, artifacts, references, dump: request.dump.clone() };
        check_all(&work, &mut crew, &mut record, on);
        time_all(&work, &mut crew, &mut record, on);
    }
    crew.retire();

    let spent = crew.costs();
    record.costs.workers = spent.workers;
    record.costs.worker_start_ms = spent.start_ms;
    record.costs.gpu_ms = spent.jobs_ms;
    record.costs.total_ms = milliseconds(began);
    let judgement = judge::judge(&record.plan, &record.environment, &record.policy, &record.evidence);
    Ok(Outcome { record, judgement })
}

fn compiler(
    request: &Request,
    pin: Option<&str>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Toolchain> {
    match toolchain::find(pin, cache) {
        Err(_) if request.provision => {
            toolchain::install(cache, &|line| on(Event::Said(line.to_owned())))?;
            toolchain::find(pin, cache)
        }
        found => found,
    }
}

/// Everything that needs no GPU time, at once: nvcc, the device's own waking up, and then, if there is a
/// device, the references.
fn prepare(
    root: &std::path::Path,
    plan: &Plan,
    toolchain: &Toolchain,
    cache: &Cache,
    crew: &mut Crew,
    on: &(dyn Fn(Event) + Sync),
) -> Result<(Seen<DeviceFacts>, Builds, References)> {
    std::thread::scope(|scope| {
        let builds = scope.spawn(|| {
            let began = Instant::now();
            let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            on(Event::Began { phase: Phase::Build, steps: plan.units.len() as u64 });
            let built = build::build_all(root, toolchain, cache, &plan.units, jobs, &|unit: &Unit, _| {
                on(Event::Stepped { phase: Phase::Build, what: unit.id.to_string() });
            })?;
            Ok(Builds { built, wall_ms: milliseconds(began) })
        });
        let device = crew.device();
        let references = match device {
            Seen::Got(_) => References::compute(plan, toolchain, root, cache, on),
            _ => References::default(),
        };
        let builds = builds.join().unwrap_or_else(|_| Err(Error::environment("the build stage panicked")))?;
        Ok((device, builds, references))
    })
}

struct Builds {
    built: Vec<Built>,
    wall_ms: u64,
}

impl Builds {
    /// Evidence into the record; where the artifacts are stays here.
    fn append_to(self, record: &mut Record) -> HashMap<UnitId, Artifact> {
        let ids: Vec<UnitId> = record.plan.units.iter().map(|unit| unit.id.clone()).collect();
        let mut artifacts = HashMap::new();
        for (id, built) in ids.into_iter().zip(self.built) {
            *(if built.cached { &mut record.costs.cached } else { &mut record.costs.compiled }) += 1;
            record.evidence.push(Evidence::Build { unit: id.clone(), facts: built.facts });
            if let Some(artifact) = built.artifact {
                artifacts.insert(id, artifact);
            }
        }
        artifacts
    }
}

/// Right answers by case and seed, in the cache.
#[derive(Default)]
struct References {
    paths: HashMap<(CaseId, u64), Seen<ExpectedPaths>>,
    wall_ms: u64,
}

impl References {
    fn compute(
        plan: &Plan,
        toolchain: &Toolchain,
        root: &std::path::Path,
        cache: &Cache,
        on: &(dyn Fn(Event) + Sync),
    ) -> Self {
        let began = Instant::now();
        let wanted: Vec<(&Case, u64)> = plan
            .cases
            .iter()
            .filter(|case| !matches!(case.reference, Reference::Variant { .. }))
            .flat_map(|case| case.seeds.iter().map(move |&seed| (case, seed)))
            .collect();
        on(Event::Began { phase: Phase::Reference, steps: wanted.len() as u64 });
        let paths = wanted
            .into_par_iter()
            .map(|(case, seed)| {
                let expected = check::expected(case, seed, root, cache, &toolchain.host_compiler);
                on(Event::Stepped { phase: Phase::Reference, what: case.id.to_string() });
                ((case.id.clone(), seed), expected)
            })
            .collect();
        Self { paths, wall_ms: milliseconds(began) }
    }
}

/// What checks and timings of one run share.
struct Work {
    device: DeviceFacts,
    artifacts: HashMap<UnitId, Artifact>,
    references: References,
    dump: Option<PathBuf>,
}

impl Work {
    fn artifact(&self, plan: &Plan, case: &CaseId) -> Option<&Artifact> {
        judge::unit_for(plan, case, &self.device).and_then(|unit| self.artifacts.get(&unit.id))
    }

    fn expected(&self, plan: &Plan, case: &Case, seed: u64) -> Seen<Expected> {
        if let Reference::Variant { variant } = &case.reference {
            let other = CaseId { variant: variant.clone(), ..case.id.clone() };
            return match (plan.case(&other), self.artifact(plan, &other)) {
                (Some(case), Some(artifact)) => {
                    Seen::Got(Expected::Variant { case: case.clone(), artifact: artifact.clone() })
                }
                _ => Seen::NotRun { reason: format!("its reference {other} was not built in this run") },
            };
        }
        match self.references.paths.get(&(case.id.clone(), seed)) {
            Some(paths) => paths.clone().map(Expected::Files),
            None => Seen::NotRun { reason: "no reference was computed".to_owned() },
        }
    }
}

fn check_all(work: &Work, crew: &mut Crew, record: &mut Record, on: &(dyn Fn(Event) + Sync)) {
    let plan = record.plan.clone();
    on(Event::Began {
        phase: Phase::Check,
        steps: plan.cases.iter().map(|case| case.seeds.len() as u64).sum(),
    });
    for case in &plan.cases {
        let admitted = judge::admit(&record.plan, &record.environment, &record.policy, &record.evidence, &case.id, Stage::Check);
        let mut driver_seen = false;
        for &seed in &case.seeds {
            on(Event::Stepped { phase: Phase::Check, what: case.id.to_string() });
            let job = admitted.clone().and_then(|()| {
                let artifact = work.artifact(&plan, &case.id).ok_or_else(|| Seen::NotRun {
                    reason: "no artifact for this device".to_owned(),
                })?;
                match work.expected(&plan, case, seed) {
                    Seen::Got(expected) => Ok(CheckJob {
                        case: case.clone(),
                        artifact: artifact.clone(),
                        seed,
                        expected,
                        dump: work.dump.clone(),
                    }),
                    other => Err(other.map(|_| ())),
                }
            });
            let _ = job; let _ = &mut driver_seen; let _ = crew;
        }
    }
}
fn time_all(_: &Work, _: &mut Crew, _: &mut Record, _: &(dyn Fn(Event) + Sync)) {}

fn milliseconds(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
