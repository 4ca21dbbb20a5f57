//! Times one case in one timing process, or launches it once under a profiler.

use super::job_cache::JobCache;
use super::stage::StagedCase;
use crate::device::{Device, Failure, Restores, Result, Side, Targets, TimedCall, Timer};
use crate::measure::measure;
use crate::worker::protocol::{Frame, TimeJob};
use model::TimeFacts;
use model::Unsupported;

/// Times one case.
///
/// # Errors
/// Returns the kernel's faults, and `Unsupported` if the device has no clock that can be trusted.
pub fn time(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &TimeJob,
    say: &mut dyn FnMut(Frame),
) -> Result<TimeFacts> {
    let (stage, restore) = set(device, cache, job, say)?;
    let mut timer = open_timer(device, &stage, &restore)?;
    measure(timer.as_mut(), &job.schedule, &mut |step| {
        say(Frame::Step(step.to_owned()));
    })
}

/// Launches once under a profiler, prepared and warmed up as for timing. Nothing here is timed.
///
/// # Errors
/// Returns the kernel's faults, and `Unsupported` if the device has no clock, and therefore no counters.
pub fn launch_once(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &TimeJob,
    say: &mut dyn FnMut(Frame),
) -> Result<()> {
    let (stage, restore) = set(device, cache, job, say)?;
    let mut timer = open_timer(device, &stage, &restore)?;
    say(Frame::Step("warming up".to_owned()));
    timer.warm_up(Side::Head, job.schedule.warmup)?;
    say(Frame::Step("the launch under the profiler".to_owned()));
    timer.profiled(Side::Head)
}

/// Sets a case up on buffers prepared for timing.
fn set<'a>(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &'a TimeJob,
    say: &mut dyn FnMut(Frame),
) -> Result<(StagedCase<'a>, Restores)> {
    say(Frame::Step("making the inputs".to_owned()));
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    cache.read_ahead();
    stage.prepare(device, 1)?;
    let mut restore = stage.restores(device)?;
    stage.restore_variables(device, stage.call.program, &stage.filled, &mut restore)?;
    Ok((stage, restore))
}

/// Opens a timer on a case that is set up.
fn open_timer<'a>(
    device: &'a mut dyn Device,
    stage: &'a StagedCase,
    restore: &'a Restores,
) -> Result<Box<dyn Timer + 'a>> {
    let targets = Targets {
        head: TimedCall {
            call: &stage.call,
            restore,
        },
        base: None,
    };
    device
        .timer(targets)
        .ok_or(Failure::Unsupported(Unsupported::Clock))?
}
