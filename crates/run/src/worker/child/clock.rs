//! One launch of a kernel that times itself, and what it wrote of its clock.

use super::job_cache::JobCache;
use super::stage::StagedCase;
use crate::device::{Device, Failure, Result};
use crate::worker::protocol::{ClockJob, Frame};
use model::FaultKind;

/// Returns the clock of the second launch: the first one is for the clock's speed and for what is loaded once.
///
/// # Errors
/// The kernel's faults.
pub fn clock(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &ClockJob,
    say: &mut dyn FnMut(Frame),
) -> Result<Vec<u64>> {
    say(Frame::Step("making the inputs".to_owned()));
    let stage = StagedCase::set(device, cache, &job.case, &job.artifact, job.seed)?;
    say(Frame::Step("launching".to_owned()));
    for launch in 1..=2 {
        stage.prepare(device, launch)?;
        device.launch(&stage.call)?;
        device.sync()?;
    }
    let mut outputs = stage.outputs(device, &mut cache.buffers)?;
    let bytes = outputs.remove(&job.tensor).ok_or_else(|| {
        let message = format!("the kernel writes no tensor `{}`", job.tensor);
        Failure::of_case(FaultKind::Environment, message)
    })?;
    let (steps, _) = bytes.as_chunks::<8>();
    Ok(steps.iter().map(|step| u64::from_le_bytes(*step)).collect())
}
