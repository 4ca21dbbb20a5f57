//! One launch of a case under a profiler.

use super::job_cache::JobCache;
use super::metered::Metered;
use super::stage::StagedCase;
use crate::device::{Failure, Result, Side, Target, Targets};
use crate::worker::protocol::{Frame, TimeJob};
use verdict::model::Unsupported;

/// Prepared and warmed up as for timing; nothing here is timed.
///
/// # Errors
/// The kernel's faults; `Unsupported` where the device has no clock, and so no counters.
pub fn launch_once(
    device: &mut Metered,
    cache: &mut JobCache,
    job: &TimeJob,
    say: &mut dyn FnMut(Frame),
) -> Result<()> {
    say(Frame::Step("making the inputs".to_owned()));
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    stage.prepare(device, 1)?;
    let restore = stage.restores(device)?;
    let targets = Targets {
        head: Target {
            call: &stage.call,
            restore: &restore,
        },
        base: None,
    };
    device.whole(|device| {
        let mut timer = device
            .timer(targets)
            .ok_or(Failure::Unsupported(Unsupported::Clock))??;
        say(Frame::Step("warming up".to_owned()));
        timer.warm_up(Side::Head, job.schedule.warmup)?;
        say(Frame::Step("the launch under the profiler".to_owned()));
        timer.profiled(Side::Head)
    })
}
