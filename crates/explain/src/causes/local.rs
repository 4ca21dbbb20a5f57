//! An array in local memory: its index is only known in a launch, and registers have no addresses.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind as Kind;

/// Cycles of an access to local memory that hits the cache, if a part of it is hidden.
const CYCLES: f64 = 30.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_local = |kind: Kind| matches!(kind, Kind::LocalLoad(_) | Kind::LocalStore(_));
    let growth = code.growth(&is_local);
    if growth.total <= 0.0 {
        return Vec::new();
    }
    let mut cause = Cause::new(CauseClass::LocalArray, growth.total * CYCLES).at(growth.places());
    for kind in Kind::all().filter(|kind| is_local(*kind)) {
        let (base, head) = code.counts(kind);
        if base != head {
            cause = cause.with(Measure::Code(kind), base, head);
        }
    }
    vec![cause]
}
