//! One case in one timing process.

use super::job_cache::JobCache;
use super::stage::StagedCase;
use crate::device::{Device, Failure, Result, Target, Targets, Timer};
use crate::measure::measure;
use crate::worker::protocol::{Frame, TimeJob};
use model::TimeFacts;
use model::Unsupported;

/// # Errors
/// The kernel's faults; `Unsupported` where the device has no clock to trust.
pub fn time(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &TimeJob,
    say: &mut dyn FnMut(Frame),
) -> Result<TimeFacts> {
    with_timer(device, cache, job, say, |timer, say| {
        measure(timer, &job.schedule, &mut |step| {
            say(Frame::Step(step.to_owned()));
        })
    })
}

/// Does something with a case on buffers prepared for timing.
///
/// # Errors
/// As of [`time`].
pub fn with_timer<T>(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &TimeJob,
    say: &mut dyn FnMut(Frame),
    run: impl FnOnce(&mut dyn Timer, &mut dyn FnMut(Frame)) -> Result<T>,
) -> Result<T> {
    say(Frame::Step("making the inputs".to_owned()));
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    cache.read_ahead();
    stage.prepare(device, 1)?;
    let mut restore = stage.restores(device)?;
    stage.restore_variables(device, stage.call.program, &stage.filled, &mut restore)?;
    let targets = Targets {
        head: Target {
            call: &stage.call,
            restore: &restore,
        },
        base: None,
    };
    let mut timer = device
        .timer(targets)
        .ok_or(Failure::Unsupported(Unsupported::Clock))??;
    run(timer.as_mut(), say)
}
