//! One launch of a case under a profiler.

use super::job_cache::JobCache;
use super::time::with_timer;
use crate::device::{Device, Result, Side};
use crate::worker::protocol::{Frame, TimeJob};

/// Prepared and warmed up as for timing; nothing here is timed.
///
/// # Errors
/// The kernel's faults; `Unsupported` where the device has no clock, and so no counters.
pub fn launch_once(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &TimeJob,
    say: &mut dyn FnMut(Frame),
) -> Result<()> {
    with_timer(device, cache, job, say, |timer, say| {
        say(Frame::Step("warming up".to_owned()));
        timer.warm_up(Side::Head, job.schedule.warmup)?;
        say(Frame::Step("the launch under the profiler".to_owned()));
        timer.profiled(Side::Head)
    })
}
