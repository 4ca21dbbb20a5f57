//! The last wave: blocks that are left over after all SMs have been full as often as possible.

use crate::residency::Resident;
use crate::{Cause, CauseClass, CodeComparison, Measure, Sides};
use model::Num;

/// Cycles of an instruction of a warp.
const CYCLES: f64 = 4.0;
/// The least share by which the last wave alone makes a launch longer.
const NOTABLE: f64 = 0.05;

pub fn rule(sides: &Sides, code: &CodeComparison) -> Vec<Cause> {
    code.base.resident.iter().zip(&code.head.resident)
        .filter_map(|(base, head)| find_cause(base, head, sides, code))
        .collect()
}

fn find_cause(base: &Resident, head: &Resident, sides: &Sides, code: &CodeComparison) -> Option<Cause> {
    // Both sides are computed with as many blocks on an SM as the base had. If fewer fit now, that is another cause.
    let (was, is) = (base.waves()?, base.waves_of(head.grid?.blocks)?);
    // A grid that does not fill the GPU once has no last wave, and after many waves it hardly matters.
    let idle = |waves: f64| waves.max(1.0).ceil() / waves.max(1.0);
    let longer = idle(is) / idle(was) - 1.0;
    if !(longer > NOTABLE && is > 1.0) {
        return None;
    }
    let each = code.warp_length();
    let mut cause = Cause::new(CauseClass::TailWave, longer * each * CYCLES)
        .with(
            Measure::Blocks,
            base.grid?.blocks as f64,
            head.grid?.blocks as f64,
        )
        .with(Measure::Waves, was, is);
    cause.share = sides
        .slowdown()
        .map(|slowdown| Num((longer / slowdown).min(1.0)));
    Some(cause)
}
