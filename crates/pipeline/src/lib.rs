//! A run from gates.yaml to its judgement: plan, prepare, execute, judge. Alone knows the order of the
//! stages; decides nothing: whether a case may go on, needs another process, or holds is asked of
//! `judge`.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answers;
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
mod request;
mod results;
mod shard;
mod simulate;
mod sources;
mod time;
mod took;
mod work;

pub use base::MENDS;
pub use bench::{Bench, CandidateBuilder};
pub use changed::find_changed;
pub use request::{Apart, BaseSide, Change, Profile, Request};
pub use shard::AskedShard;

use config::Loaded;
use event::Event;
use model::{RECORD_SCHEMA, Record};
use plan::Planned;
use prepare::Prepared;
use results::Results;
use run::worker::Crews;
use sources::Sources;
use std::time::Instant;
use system::cache::Cache;
use system::error::{Error, Result};
use took::milliseconds;

/// `find_change` gives the change that `head` is a side of. The device wakes up meanwhile.
///
/// # Errors
/// Errors that keep a run from starting at all: no such change, baselines, compiler, cache. Whatever breaks later is
/// evidence.
pub fn run(
    request: &Request,
    head: Loaded,
    find_change: impl FnOnce(Loaded) -> Result<Change>,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Record> {
    let began = Instant::now();
    let ahead = timing_processes(request, &head);
    let waiting = |text: &str| on(Event::Waiting(text.to_owned()));
    let mut crews = Crews::new(request.device, &waiting)?;
    let (planned, prepared) = std::thread::scope(|scope| {
        let device = scope.spawn(|| prepare::open(request, &mut crews, ahead));
        let planned = plan::plan(request, find_change(head)?, cache, on)?;
        let prepared = prepare::prepare(request, &planned, device, cache, on)?;
        Ok::<_, Error>((planned, prepared))
    })?;
    let mut record = execute(request, &planned, prepared, crews, cache, on)?;
    record.costs.total_ms = milliseconds(began.elapsed());
    Ok(record)
}

/// How many processes a case is going to be timed in at least, if any is.
fn timing_processes(request: &Request, head: &Loaded) -> usize {
    let plan = &head.plan;
    let is_timed = request.profile != Profile::Only && plan.cases.iter().any(|case| case.timed);
    if is_timed {
        plan.timing.processes as usize
    } else {
        0
    }
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
    let started_meanwhile = prepared.started_meanwhile(&crews);
    let mut record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        environment: planned.environment(request, &prepared.device),
        plan: planned.plan.clone(),
        policy: planned.policy.clone(),
        evidence: prepared.evidence,
        costs: prepared.costs,
        took: Vec::new(),
        shard: planned.shard.clone(),
    };
    let Prepared {
        mut work, reads, ..
    } = prepared;
    let began = Instant::now();
    let changed = code::Changed::of(&record);
    let code = changed.read(planned, &work, cache, request.provision, on);
    record.evidence.extend(code);
    record.costs.compiler_ms += milliseconds(began.elapsed());
    let began = Instant::now();
    let beside = planned.compare_references(&record.environment.device);
    record.evidence.extend(beside);
    planned.refuse_crossing(&reads)?;
    record.costs.reference_ms += milliseconds(began.elapsed());
    let base_references = planned.base.as_ref().map(|base| &base.references);
    if record.environment.device.got().is_some() {
        record.costs.gpus = u32::try_from(crews.gpus()).unwrap_or(u32::MAX);
        let digests = work.head.answers.digests(&record.plan);
        record.evidence.extend(digests);
        check::check_all(&mut work, base_references, &mut crews, &mut record, on);
        if request.simulate_beside_gpu {
            let results = Results::open(cache, &record.environment.started, request.fresh)?;
            let mut sources = Sources::new(&planned.root, &planned.toolchain.include);
            let references = &planned.references;
            simulate::simulate_beside_gpu(
                &work,
                &results,
                &mut sources,
                references,
                &mut record,
                on,
            )?;
        }
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
        let results = Results::open(cache, &record.environment.started, request.fresh)?;
        simulate::simulate_all(
            &mut work,
            &results,
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
    record.costs.worker_start_ms = milliseconds(spent.process - started_meanwhile);
    record.costs.gpu_ms = milliseconds(spent.device);
    Ok(record)
}
