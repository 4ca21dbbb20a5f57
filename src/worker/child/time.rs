//! One case in one timing process.

use super::job_cache::JobCache;
use super::metered::Metered;
use super::stage::StagedCase;
use crate::device::{Failure, Result, Target, Targets};
use crate::measure::measure;
use crate::worker::protocol::{Frame, TimeJob};
use verdict::model::TimeFacts;

/// # Errors
/// The kernel's faults; `Unsupported` where the device has no clock to trust.
pub fn time(
    device: &mut Metered,
    cache: &mut JobCache,
    job: &TimeJob,
    say: &mut dyn FnMut(Frame),
) -> Result<TimeFacts> {
    say(Frame::Step("making the inputs".to_owned()));
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    cache.read_ahead();
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
        let mut timer = device.timer(targets).ok_or_else(|| Failure::Unsupported {
            reason: "this device has no clock: times are measured on a GPU".to_owned(),
        })??;
        measure(timer.as_mut(), &job.schedule, &mut |step| {
            say(Frame::Step(step.to_owned()));
        })
    })
}
