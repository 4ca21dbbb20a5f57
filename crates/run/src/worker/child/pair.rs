//! Times head and base of one case in one timing process, on the same buffers.

use super::job_cache::JobCache;
use super::stage::StagedCase;
use crate::device::{Device, Failure, LoadedProgram, Result, Side, Targets, TimedCall};
use crate::measure::{Dice, blame_base, measure_pair};
use crate::worker::protocol::{Frame, PairJob};
use model::PairFacts;
use model::Unsupported;

/// The most steps of their own alignment by which allocations are shifted. The place of a buffer changes times, and
/// must not change them in the same way in every process.
const SHIFTS: u32 = 256;
const SHIFT_BYTES: usize = 512;

/// Times head and base.
///
/// # Errors
/// Returns the kernel's faults, the base's faults as `FaultKind::Base`, and `Unsupported` if the device has no clock
/// that can be trusted.
pub fn pair(
    device: &mut dyn Device,
    cache: &mut JobCache,
    job: &PairJob,
    say: &mut dyn FnMut(Frame),
) -> Result<PairFacts> {
    say(Frame::Step("making the inputs".to_owned()));
    let what = format!("{} {}", job.head.case.id, job.process);
    let mut dice = Dice::new(job.pairing.seed, &what);
    device.alloc("shift", SHIFT_BYTES * (1 + dice.below(SHIFTS) as usize))?;
    let early = if dice.heads() {
        Some(load_base(device, job, say)?)
    } else {
        None
    };
    say(Frame::Step("loading".to_owned()));
    let head_program = device.load(&job.head.artifact)?;
    let base_program = match early {
        Some(program) => program,
        None => load_base(device, job, say)?,
    };
    say(Frame::Step("placing the inputs".to_owned()));
    let head = StagedCase::new(device, cache, &job.head.case, head_program, job.seed)?;
    let filled = head.fill_constants(device, head_program, &job.head.artifact)?;
    // If the tensors differ, the interface has changed, and each side has its own.
    let own = if job.head.case.tensors == job.base.case.tensors {
        None
    } else {
        let base = &job.base.case;
        let stage = StagedCase::new(device, cache, base, base_program, job.seed);
        Some(blame_base(stage)?)
    };
    let base_call = match &own {
        Some(stage) => stage.call.clone(),
        None => blame_base(head.call(device, &job.base.case, base_program))?,
    };
    let stage = own.as_ref().unwrap_or(&head);
    let base_filled = blame_base(stage.fill_constants(device, base_program, &job.base.artifact))?;
    cache.read_ahead();
    head.prepare(device, 1)?;
    let mut restore = head.restores(device)?;
    let mut base_restore = match &own {
        Some(stage) => {
            stage.prepare(device, 1)?;
            stage.restores(device)?
        }
        None => restore.clone(),
    };
    head.restore_variables(device, head_program, &filled, &mut restore)?;
    stage.restore_variables(device, base_program, &base_filled, &mut base_restore)?;
    let targets = Targets {
        head: TimedCall {
            call: &head.call,
            restore: &restore,
        },
        base: Some(TimedCall {
            call: &base_call,
            restore: &base_restore,
        }),
    };
    let mut timer = device
        .timer(targets)
        .ok_or(Failure::Unsupported(Unsupported::Clock))??;
    let mut step = |side: Side, step: &str| {
        say(match side {
            Side::Head => Frame::Step(step.to_owned()),
            Side::Base => Frame::BaseStep(step.to_owned()),
        });
    };
    let facts = measure_pair(
        timer.as_mut(),
        &job.schedule,
        &job.pairing,
        job.singles,
        &mut dice,
        &mut step,
    )?;
    Ok(PairFacts {
        device_us: u64::try_from(cache.on_device().as_micros()).unwrap_or(u64::MAX),
        ..facts
    })
}

/// Loads the base's program under the base's name, because a launcher's library may do anything while it is loaded.
fn load_base(
    device: &mut dyn Device,
    job: &PairJob,
    say: &mut dyn FnMut(Frame),
) -> Result<LoadedProgram> {
    say(Frame::BaseStep("loading the base revision".to_owned()));
    blame_base(device.load(&job.base.artifact))
}
