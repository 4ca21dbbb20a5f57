//! Fewer warps on an SM at a time, so that less of what they wait for is hidden. The reason is registers, shared
//! memory, or a source that no longer asks for as many.

use crate::residency::Resident;
use crate::{Cause, CauseClass, CausePlace, CodeComparison, Measure, places};
use model::occupancy::Limiter;
use model::{InstructionKind, LaunchBounds};

/// Cycles that an instruction of a warp takes if half of the warps are gone.
const CYCLES: f64 = 4.0;
/// The part of the weight that counts if the grid is too small for it to be noticed.
const UNNOTICED: f64 = 0.02;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    code.base.resident.iter().zip(&code.head.resident).filter_map(|(base, head)| find_cause(base, head, code)).collect()
}

fn find_cause(base: &Resident, head: &Resident, code: &CodeComparison) -> Option<Cause> {
    let (was, is) = (base.occupancy, head.occupancy);
    if is.warps_per_sm >= was.warps_per_sm {
        return None;
    }
    let is_shared = |kind: InstructionKind| {
        matches!(
            kind,
            InstructionKind::SharedLoad(_) | InstructionKind::SharedStore(_)
        )
    };
    let entry_place = || places::entry(code.head.code).into_iter().collect();
    let most_code = || code.growth(&|_| true).places().collect();
    let first_access = || places::first(code.head.code, &is_shared).into_iter().collect();
    let (class, places): (_, Vec<CausePlace>) = match is.limiter {
        Limiter::Registers if is_dropped(base.entry.bounds, head.entry.bounds) => {
            (CauseClass::LaunchBound, entry_place())
        }
        Limiter::Registers => (CauseClass::OccupancyRegisters, most_code()),
        Limiter::SharedMemory => (CauseClass::OccupancyShared, first_access()),
        // If fewer blocks fit because they are larger, the launch changed.
        Limiter::Warps | Limiter::Blocks | Limiter::Barriers => return None,
    };
    let lost = 1.0 - f64::from(is.warps_per_sm) / f64::from(was.warps_per_sm);
    let each = code.warp_length();
    let noticed = match head.waves() {
        Some(waves) if waves <= 1.0 => UNNOTICED,
        _ => 1.0,
    };
    let registers = (base.resources.registers, head.resources.registers);
    let cause = Cause::new(class, lost * each * CYCLES * noticed)
        .at(places)
        .with(Measure::Occupancy, was.share(), is.share())
        .with(Measure::BlocksPerSm, was.blocks_per_sm, is.blocks_per_sm);
    Some(match class {
        CauseClass::OccupancyShared => {
            cause.with(Measure::Shared, base.shared as f64, head.shared as f64)
        }
        _ => cause.with(Measure::Registers, registers.0, registers.1),
    })
}

/// Returns true if the source asks PTXAS for less than before.
fn is_dropped(base: LaunchBounds, head: LaunchBounds) -> bool {
    let fewer = |base: Option<u32>, head: Option<u32>| head.unwrap_or(0) < base.unwrap_or(0);
    let most = |of: Option<u32>| of.unwrap_or(u32::MAX);
    fewer(base.blocks, head.blocks) || most(head.registers) > most(base.registers)
}
