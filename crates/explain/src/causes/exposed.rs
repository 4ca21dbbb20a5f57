//! Exposed latency: as many loads or copies as before are issued closer to what needs them, or after a barrier
//! instead of before it, so that a warp waits for memory instead of working meanwhile.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind as Kind;

/// Cycles of an instruction that no longer hides a load, if other warps hide a part of it.
const CYCLES: f64 = 1.0;
/// Instructions that hide all of a load. More of them make no difference.
const ENOUGH: f64 = 200.0;
/// The least number of instructions that a load has to lose.
const NOTABLE: f64 = 16.0;
/// The share of the loads that may be new or gone, such as those before a loop that fetches ahead.
const CHANGED: f64 = 0.2;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_load = |kind: Kind| matches!(kind, Kind::GlobalLoad(_) | Kind::ReadOnlyLoad(_));
    find_cause(code, CauseClass::LatencyExposed, &is_load).into_iter().collect()
}

/// Returns a cause if as many loads or copies of some kinds are needed much sooner after they are issued.
pub fn find_cause(code: &CodeComparison, class: CauseClass, wanted: &dyn Fn(Kind) -> bool) -> Option<Cause> {
    let (before, after) = code.runs(wanted);
    // Other loads have other uses. The order of the same ones is what this is about.
    if (before - after).abs() > CHANGED * before.max(after) {
        return None;
    }
    let distance = code.distance_to_use(wanted)?;
    let (was, is) = (distance.base.min(ENOUGH), distance.head.min(ENOUGH));
    // PTXAS orders instructions anew with every edit, so a part of the distance says nothing.
    if was < NOTABLE + is || was < 2.0 * is {
        return None;
    }
    let cause = Cause::new(class, (was - is) * after * CYCLES)
        .at(distance.places)
        .with(Measure::Ahead, distance.base.round(), distance.head.round());
    Some(cause)
}
