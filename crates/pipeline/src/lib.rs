//! Runs a change from gates.yaml to its judgement: plan, prepare, execute, judge. Only this crate knows the order of
//! the stages, and it decides nothing: it asks `judge` whether a case may go on, needs another process, or holds.

// Outside of tests every file is read through `system::files`.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod answers;
mod arguments;
mod base;
mod bench;
mod changed;
mod check;
mod code;
mod device;
pub mod event;
mod plan;
mod prepare;
mod profile;
mod request;
mod results;
mod shard;
mod simulate;
mod sources;
mod survey;
mod time;
mod took;
mod work;

pub use base::MENDS;
pub use bench::{Bench, CandidateBuilder};
pub use changed::find_changed;
pub use device::{WakingDevice, wake_device};
pub use request::{BaseSide, Change, FileIsolation, Profile, Request};
pub use shard::AskedShard;
pub use survey::{Survey, survey};

use event::Event;
use model::Record;
use plan::Planned;
use prepare::Prepared;
use results::Results;
use std::time::Instant;
use system::cache::Cache;
use system::error::Result;
use took::milliseconds;
use tracing::{info, info_span};
use work::SharedWork;

/// Runs a change: builds both sides, then checks every case on the GPU, simulates it for races and stray accesses, and
/// times and profiles what is right. Without a GPU the simulator checks and counts instead.
///
/// # Errors
/// Fails if the run cannot start at all: baselines, compiler, cache. Whatever breaks later is evidence.
pub fn run(
    request: &Request,
    change: Change,
    device: WakingDevice,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) -> Result<Record> {
    let began = device.began;
    let planned = stage("plan", || plan::plan(request, change, cache, on))?;
    let Prepared {
        mut work,
        mut record,
        mut crews,
        reads,
        started_meanwhile,
    } = stage("prepare", || {
        prepare::prepare(request, &planned, device, cache, on)
    })?;
    info!(
        commit = planned.commit,
        compiler = planned.toolchain.facts.version,
        nvcc = ?planned.toolchain.nvcc,
        device = ?record.environment.device,
        cases = record.plan.cases.len(),
        compiled = record.costs.compiled,
        cached = record.costs.cached,
        "prepared"
    );
    stage("compare sides", || {
        compare_sides(request, &planned, &work, &mut record, cache, on);
    });
    planned.refuse_crossing(&reads)?;
    if record.environment.device.got().is_some() {
        let digests = work.head.answers.digests(&record.plan);
        record.evidence.extend(digests);
        stage("check", || {
            check::check_all(&planned, &mut work, &mut crews, &mut record, on);
        });
        if request.simulate_beside_gpu {
            let results = Results::open(cache, &record.environment.started, request.fresh)?;
            stage("simulate", || {
                simulate::simulate_beside_gpu(&planned, &work, &results, &mut record, on)
            })?;
        }
        stage("time", || {
            time::time_all(&work, &planned.root, crews.first(), &mut record, on);
        });
        record.costs.gpus = u32::try_from(crews.gpus()).unwrap_or(u32::MAX);
        if record.plan.profiling.is_some() {
            // The profiler starts a worker of its own, and needs the GPU to be free.
            crews.retire();
            stage("profile", || {
                profile::profile_all(&planned, &work, &mut record, on);
            });
        }
    } else if record.environment.simulator.is_some() {
        let results = Results::open(cache, &record.environment.started, request.fresh)?;
        stage("simulate", || {
            simulate::simulate_all(&planned, &mut work, &results, &mut record, on)
        })?;
    }
    // References that no comparison needed were built since.
    planned.refuse_crossing(&reads)?;
    record.took = work.took.read(&record.plan);
    crews.retire();
    let spent = crews.costs();
    record.costs.workers += spent.workers;
    record.costs.worker_start_ms = milliseconds(spent.process - started_meanwhile);
    record.costs.gpu_ms = milliseconds(spent.device);
    record.costs.total_ms = milliseconds(began.elapsed());
    Ok(record)
}

/// Does the work of a stage. The log has its name and how long it took.
fn stage<T>(name: &str, work: impl FnOnce() -> T) -> T {
    info_span!("stage", name).in_scope(work)
}

/// Adds what both sides show without running: the machine code that differs, and what the base's references answer to
/// head's inputs.
fn compare_sides(
    request: &Request,
    planned: &Planned,
    work: &SharedWork,
    record: &mut Record,
    cache: &Cache,
    on: &(dyn Fn(Event) + Sync),
) {
    let began = Instant::now();
    let changed = code::Changed::from_record(record);
    let code = changed.read(planned, work, cache, request.provision, on);
    record.evidence.extend(code);
    record.costs.compiler_ms += milliseconds(began.elapsed());
    let began = Instant::now();
    let references = planned.compare_references(&record.environment.device);
    record.evidence.extend(references);
    record.costs.reference_ms += milliseconds(began.elapsed());
}
