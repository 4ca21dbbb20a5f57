//! Lanes of a warp diverge: the warp executes every path, each with some of its lanes.

use crate::counts::{counted, per_warp};
use crate::places::grown_lines;
use crate::{Cause, CauseClass, CodeComparison, Sides};
use model::Counter;

/// The share of a warp's lanes that has to be lost for divergence to be named.
const NOTABLE: f64 = 0.02;
/// Cycles of an additional instruction of a warp.
const CYCLES: f64 = 2.0;

pub fn rule(sides: &Sides, _: &CodeComparison) -> Vec<Cause> {
    find_cause(sides).into_iter().collect()
}

fn find_cause(sides: &Sides) -> Option<Cause> {
    let instructions = counted(sides, Counter::Instructions)?;
    let lanes = counted(sides, Counter::LaneInstructions)?;
    let at_work = lanes.over(instructions);
    // These are the instructions beyond those that the same work of lanes would take if as many were active at a time
    // as at the base. There cannot be more of them than there are additional instructions.
    let apart = instructions.head - lanes.head / at_work.base;
    let more = apart.min(instructions.growth());
    let lost = (at_work.base - at_work.head) / 32.0;
    if !(lost > NOTABLE && more > 0.0) {
        return None;
    }
    let weight = per_warp(sides, more) * CYCLES;
    let mut cause = Cause::new(CauseClass::Divergence, weight)
        .at(grown_lines(sides, &[Counter::DivergentBranches], &[]))
        .with_count(Counter::Instructions, instructions)
        .with_count(Counter::LaneInstructions, lanes);
    if let Some(branches) = counted(sides, Counter::DivergentBranches) {
        cause = cause.with_count(Counter::DivergentBranches, branches);
    }
    Some(cause)
}
