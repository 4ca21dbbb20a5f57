//! One seed of one case in the simulator: launched once, as every launch of it is the same to the bit.

use super::Frames;
use super::check::{After, Dump, Runs, want};
use super::job_cache::JobCache;
use super::orders::Orders;
use super::stage::StagedCase;
use crate::counters::COUNTER_MODEL;
use crate::device::sim::SimDevice;
use crate::device::{Device, Failure, Result};
use crate::worker::protocol::{EstimateJob, Frame, Job, Ready, SimulateJob, Simulated};
use std::sync::Arc;
use verdict::model::Unsupported;
use verdict::model::{FaultKind, Simulator};

/// Of the whole process: a kernel under test must not take the machine's memory.
const MOST_BYTES: u64 = 16 << 30;

/// Takes orders until there are no more.
pub fn serve(frames: &mut Frames, orders: &Arc<Orders>) -> ! {
    limit_memory();
    frames.send(Frame::Ready(Ready::Simulator(Simulator {
        counter_model: COUNTER_MODEL,
    })));
    let mut cache = JobCache::open(Arc::clone(orders));
    let mut device = SimDevice::default();
    loop {
        let order = orders.take();
        frames.id = order.id;
        let end = run(&mut device, &mut cache, &order.job, frames);
        let freed = device.reset();
        frames.send(match (end, freed) {
            (Ok(frame), Ok(())) => frame,
            (Err(failure), _) | (Ok(_), Err(failure)) => Frame::Failed(failure),
        });
    }
}

/// Beyond it memory is refused, and the process ends with a message.
fn limit_memory() {
    use nix::libc::{RLIMIT_DATA, rlimit, setrlimit};
    let limit = rlimit {
        rlim_cur: MOST_BYTES,
        rlim_max: MOST_BYTES,
    };
    // SAFETY: sets one number of this process. A lower limit that is in force already stays.
    unsafe { setrlimit(RLIMIT_DATA, &raw const limit) };
}

fn run(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &Job,
    frames: &mut Frames,
) -> Result<Frame> {
    match job {
        Job::Estimate(job) => estimate(device, cache, job).map(Frame::Estimated),
        Job::Simulate(job) => {
            let say = &mut |frame| frames.send(frame);
            simulate(device, cache, job, say).map(|simulated| Frame::Simulated(Box::new(simulated)))
        }
        Job::KnownGood
        | Job::Count
        | Job::Check(_)
        | Job::Time(_)
        | Job::Pair(_)
        | Job::Profile(_)
        | Job::Clock(_) => Err(Failure::Unsupported(Unsupported::Clock)),
    }
}

fn estimate(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &EstimateJob,
) -> Result<Option<u64>> {
    device.limit(job.limit, 1);
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    stage.prepare(device, 1)?;
    device.estimate(&stage.call)
}

fn simulate(
    device: &mut SimDevice,
    cache: &mut JobCache,
    job: &SimulateJob,
    say: &mut dyn FnMut(Frame),
) -> Result<Simulated> {
    device.limit(job.limit, job.threads);
    let job = &job.check;
    let want = want(device, cache, job, say)?;
    say(Frame::Step("making the inputs".to_owned()));
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    let dump = Dump::new(job);
    dump.before(&want)?;

    say(Frame::Step("simulating".to_owned()));
    stage.prepare(device, 1)?;
    device.launch(&stage.call)?;
    let simulation = device.shown().ok_or_else(|| {
        Failure::of_case(FaultKind::Environment, "the simulator reported nothing")
    })?;
    say(Frame::Step("comparing".to_owned()));
    let mut runs = Runs::new(&job.case, &want, stage.compared(&job.case)?)?;
    let outputs = stage.outputs(device, &mut cache.buffers)?;
    runs.look_between_strides(&stage.gaps(&outputs, 1)?);
    runs.take(1, outputs)?;
    dump.after(runs.first.as_ref())?;
    // What the kernel did not write reads as whatever the host put there: the poison of a second launch shows
    // it, without that launch.
    stage.poison(device, 2)?;
    runs.take(2, stage.outputs(device, &mut cache.buffers)?)?;
    let mut after = After::default();
    after.look(device, &stage, &mut cache.buffers)?;
    let (mut check, _) = runs.facts(1, after)?;
    check.differs = None;
    Ok(Simulated { check, simulation })
}
