//! A run from gates.yaml to its judgement: plan, prepare, execute, judge. Alone knows the order of the
//! stages; decides nothing: whether a case may go on, needs another process, or holds is asked of
//! `judge`.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod arguments;
mod base;
mod bench;
mod changed;
mod check;
mod code;
pub mod event;
mod plan;
mod prepare;
mod profile;
mod shard;
mod simulate;
mod sources;
mod time;
mod took;

pub use base::MENDS;
pub use bench::{Bench, CandidateBuilder, Proven};
pub use changed::find_changed;
pub use shard::AskedShard;

use build::Artifact;
use config::Loaded;
use event::Event;
use model::{
    Anchor, Arch, Base, CaseId, DeviceFacts, Environment, Evidence, Fault, FaultKind, Judgement,
    NotRun, Plan, RECORD_SCHEMA, Record, Seen, Simulator, TIMING_PROTOCOL, UnitId, Unsupported,
};
use plan::Planned;
use prepare::{Answers, Artifacts, Prepared};
use ptxsim::COUNTER_MODEL;
use run::device::DeviceChoice;
use run::machine;
use run::worker::Crews;
use sources::Sources;
use std::any::Any;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use system::cache::Cache;
use system::error::Result;
use took::Meter;

/// The request to `run`.
#[derive(Debug)]
pub struct Request {
    pub config: PathBuf,
    pub device: DeviceChoice,
    pub require_gpu: bool,
    pub allow_fallback: bool,
    pub provision: bool,
    pub profile: Profile,
    pub dump: Option<PathBuf>,
    /// Against a base: time the cases that did not change, too.
    pub time_unchanged: bool,
    /// Where a part of the cases is run.
    pub shard: Option<AskedShard>,
    /// The command line, for the record.
    pub command: String,
}

/// The change to build, check, measure and judge: two sides, or head alone. Where they come from is not known here; the
/// program's `revisions` makes a change from git.
pub struct Change {
    /// The costs of a run count from here: finding the base is a part of it.
    pub began: Instant,
    /// Files and what they ask, as they are.
    pub head: Loaded,
    /// For the record: head's commit, and a digest of its files.
    pub commit: Option<String>,
    pub sources: Option<String>,
    /// Older baselines that gates of head name.
    pub anchors: Vec<Anchor>,
    pub base: Option<BaseSide>,
}

/// The side that head is held against.
pub struct BaseSide {
    /// Plan, gates and baselines, under head's names.
    pub asked: Base,
    /// Version of the compiler that it asks for.
    pub pin: Option<String>,
    /// The directory of its gates.yaml.
    pub root: PathBuf,
    /// The whole tree.
    pub top: PathBuf,
    /// Head's whole tree, which the base may not read, and the files in it.
    pub head_top: PathBuf,
    pub head_files: Vec<PathBuf>,
    /// Keeps its files where they are.
    pub files: Box<dyn Any + Send + Sync>,
}

/// Whether cases are profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    No,
    /// After all timings.
    Too,
    /// In the place of timings.
    Only,
}

pub struct Outcome {
    pub record: Record,
    pub judgement: Judgement,
}

/// # Errors
/// Errors that keep a run from starting at all: baselines, compiler, cache. Whatever breaks later is evidence.
pub fn run(
    request: &Request,
    change: Change,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Outcome> {
    let began = change.began;
    let planned = plan::plan(request, change, cache, on)?;
    let waiting = |text: &str| on(Event::Waiting(text.to_owned()));
    let mut crews = Crews::new(request.device, &waiting)?;
    let prepared = prepare::prepare(request, &planned, &mut crews, cache, on)?;
    let mut record = execute(request, &planned, prepared, crews, cache, on)?;
    record.costs.total_ms = milliseconds(began.elapsed());
    let judgement = judge::judge(&record);
    Ok(Outcome { record, judgement })
}

/// Checks and times on a GPU, or in the simulator in its place.
fn execute(
    request: &Request,
    planned: &Planned,
    prepared: Prepared,
    mut crews: Crews,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Record> {
    let started_beside_compiler = prepared.started_beside_compiler();
    let mut record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        environment: environment(request, planned, &prepared.device),
        plan: planned.plan.clone(),
        policy: planned.policy.clone(),
        evidence: Vec::new(),
        costs: prepared.costs(),
        took: Vec::new(),
        shard: planned.shard.clone(),
    };
    let ready = prepared.file_builds(&mut record.evidence, &mut record.costs);
    let began = Instant::now();
    let changed = code::Changed::of(&record);
    let code = changed.read(planned, &ready, cache, request.provision, on);
    record.evidence.extend(code);
    record.costs.compiler_ms += milliseconds(began.elapsed());
    let began = Instant::now();
    let beside = planned.compare_references(&record.environment.device);
    record.evidence.extend(beside);
    planned.refuse_crossing(&ready.reads)?;
    record.costs.reference_ms += milliseconds(began.elapsed());
    let device = record.environment.device.got().cloned();
    let reads = ready.reads;
    let side = |artifacts, answers, dump| Side {
        device: device.clone(),
        artifacts,
        answers,
        dump,
    };
    let mut work = Work {
        head: side(ready.artifacts, ready.answers, request.dump.clone()),
        base: side(ready.base_artifacts, Answers::default(), None),
        took: Meter::default(),
    };
    let base_references = planned.base.as_ref().map(|base| &base.references);
    if device.is_some() {
        record.costs.gpus = u32::try_from(crews.gpus()).unwrap_or(u32::MAX);
        let digests = work.head.answers.digests(&record.plan);
        record.evidence.extend(digests);
        check::check_all(&mut work, base_references, &mut crews, &mut record, on);
        time::time_all(&work, &planned.root, crews.first(), &mut record, on);
        if record.plan.profiling.is_some() {
            // The GPU is free for the profiler's own worker.
            crews.retire();
            let base = planned.base.as_ref().map(|base| base.root.as_path());
            let roots: Vec<_> = [planned.root.as_path()].into_iter().chain(base).collect();
            let trees = profile::Trees::new(&roots, &planned.toolchain.include);
            profile::profile_all(&work, planned.profiler.as_ref(), &trees, &mut record, on);
        }
    } else if record.environment.simulator.is_some() {
        let references = &planned.references;
        let mut sources = Sources::new(&planned.root, &planned.toolchain.include);
        let base = planned.base.as_ref();
        let base_sources = base.map(|base| Sources::new(&base.root, &base.toolchain.include));
        simulate::simulate_all(
            &mut work,
            &mut sources,
            references,
            base_references.zip(base_sources),
            &mut record,
            on,
        )?;
    }
    // References that no comparison needed were built since.
    planned.refuse_crossing(&reads)?;
    record.took = work.took.read(&record.plan);
    crews.retire();
    let spent = crews.costs();
    record.costs.workers += spent.workers;
    record.costs.worker_start_ms = milliseconds(spent.process - started_beside_compiler);
    record.costs.gpu_ms = milliseconds(spent.device);
    Ok(record)
}

fn environment(request: &Request, planned: &Planned, device: &Seen<DeviceFacts>) -> Environment {
    // In the place of a GPU, not of one that is broken or required.
    let is_absent = matches!(device, Seen::NotRun(_));
    let simulator = (is_absent && !request.require_gpu).then_some(Simulator {
        counter_model: COUNTER_MODEL,
    });
    Environment {
        gatekeeper: env!("CARGO_PKG_VERSION").to_owned(),
        started: machine::now(),
        timing_protocol: TIMING_PROTOCOL,
        command: request.command.clone(),
        config: request.config.display().to_string(),
        host: machine::host(),
        commit: planned.commit.clone(),
        sources: planned.sources.clone(),
        compiler: Seen::Got(planned.toolchain.facts.clone()),
        base_compiler: planned.base_compiler().cloned(),
        device: device.clone(),
        simulator,
        parts: Vec::new(),
    }
}

/// State that checks and timings of one run share.
struct Work {
    head: Side,
    base: Side,
    took: Meter,
}

/// State that kernels of head, or of the base, run with.
struct Side {
    /// `None` for the simulator.
    device: Option<DeviceFacts>,
    artifacts: Artifacts,
    answers: Answers,
    dump: Option<PathBuf>,
}

impl Side {
    /// The artifact that runs for a case; in the simulator for one architecture of several, or the oldest.
    fn artifact(
        &self,
        plan: &Plan,
        case: &CaseId,
        arch: Option<Arch>,
    ) -> std::result::Result<&Artifact, SkipReason> {
        let unit = match (&self.device, arch) {
            (Some(device), _) => judge::unit_for(plan, case, device),
            (None, None) => judge::unit_to_simulate(plan, case),
            (None, Some(arch)) => {
                let (kernel, variant) = (case.kernel.clone(), case.variant.clone());
                plan.unit(&UnitId {
                    kernel,
                    variant,
                    arch,
                })
            }
        };
        unit.and_then(|unit| self.artifacts.get(&unit.id))
            .ok_or(SkipReason::NotRun(NotRun::NoArtifact))
    }
}

/// The side that evidence is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EvidenceSide {
    Head,
    Base,
}

impl EvidenceSide {
    fn file(self, pieces: Vec<Evidence>, evidence: &mut Vec<Evidence>) {
        match self {
            Self::Head => evidence.extend(pieces),
            Self::Base => {
                let pieces = pieces.into_iter().map(Box::new);
                evidence.extend(pieces.map(Evidence::Base));
            }
        }
    }

    /// `base revision of `, before what is done.
    fn heading(self) -> &'static str {
        match self {
            Self::Head => "",
            Self::Base => "base revision of ",
        }
    }
}

/// Why a job was not even tried.
#[derive(Clone)]
enum SkipReason {
    NotRun(NotRun),
    Broke(Fault),
    Unsupported(Unsupported),
}

impl SkipReason {
    /// Evidence that this program lost on the way: no skip, as nobody decided on it.
    fn lost(what: &str) -> Self {
        Self::Broke(Fault::new(FaultKind::Environment, what))
    }

    fn into_seen<T>(self) -> Seen<T> {
        match self {
            Self::NotRun(why) => Seen::NotRun(why),
            Self::Broke(fault) => Seen::Fault(fault),
            Self::Unsupported(why) => Seen::Unsupported(why),
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
