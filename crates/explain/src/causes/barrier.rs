//! A new barrier of the block: its warps wait for the slowest, and their latencies no longer overlap.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind;

/// About the cycles that a warp waits at a barrier if no warp is slower than the others.
const CYCLES: f64 = 40.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_barrier = |kind: InstructionKind| kind == InstructionKind::Barrier;
    let growth = code.growth(&is_barrier);
    if !growth.is_more() {
        return Vec::new();
    }
    let (base, head) = growth.first_counts();
    let cause = Cause::new(CauseClass::BarrierAdded, growth.total * CYCLES)
        .at(growth.places())
        .with(Measure::Code(InstructionKind::Barrier), base, head);
    vec![cause]
}
