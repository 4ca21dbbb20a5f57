//! Accesses under a condition where they had none: each is decided on, and fewer are under way at a time.

use crate::{Cause, CauseClass, CodeComparison, Measure};

/// Cycles of one such access more.
const CYCLES: f64 = 10.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let growth = code.growth_of(&|pile| pile.predicated());
    let free = code.growth_of(&|pile| pile.unconditional());
    // As many fewer without.
    if !(growth.total > 0.0 && free.total < 0.0) {
        return Vec::new();
    }
    let (base, head) = growth.first_counts();
    let weight = growth.total.min(-free.total) * CYCLES;
    let cause = Cause::new(CauseClass::PredicatedAccess, weight)
        .at(growth.places())
        .with(Measure::PredicatedAccesses, base, head);
    vec![cause]
}
