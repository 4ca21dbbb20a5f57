//! Data that shared memory kept is read from global memory each time that it is used.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind as Kind;

/// Cycles of an additional load from global memory, if a part of it is hidden.
const CYCLES: f64 = 40.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_load = |kind: Kind| matches!(kind, Kind::GlobalLoad(_) | Kind::ReadOnlyLoad(_));
    let is_kept = |kind: Kind| matches!(kind, Kind::SharedStore(_));
    let is_used = |kind: Kind| matches!(kind, Kind::SharedLoad(_));
    let growth = code.growth(&is_load);
    let fewer = |wanted: &dyn Fn(Kind) -> bool| {
        let (base, head) = code.runs(wanted);
        head < base
    };
    if !(growth.total > 0.0 && code.may_load_more() && fewer(&is_kept) && fewer(&is_used)) {
        return Vec::new();
    }
    let (base, head) = growth.first_counts();
    let kind = Kind::GlobalLoad(model::Width::W32);
    let cause = Cause::new(CauseClass::StagingLost, growth.total * CYCLES)
        .at(growth.places())
        .with(Measure::Code(kind), base, head);
    vec![cause]
}
