//! A barrier of the block where there was none: its warps wait for the slowest, and their latencies no longer overlap.

use crate::{Cause, CauseClass, CodeComparison, Measure, Sides};
use model::InstructionKind;

/// Cycles that a warp waits at a barrier, about, where nothing is uneven.
const CYCLES: f64 = 40.0;

pub fn rule(_: &Sides, code: &CodeComparison) -> Vec<Cause> {
    let is_barrier = |kind: InstructionKind| kind == InstructionKind::Barrier;
    let growth = code.growth(&is_barrier);
    let Some(first) = growth.lines.first().filter(|_| growth.total > 0.0) else {
        return Vec::new();
    };
    let cause = Cause::new(CauseClass::BarrierAdded, growth.total * CYCLES)
        .at(growth.places())
        .with(
            Measure::Code(InstructionKind::Barrier),
            first.base_count,
            first.head_count,
        );
    vec![cause]
}
