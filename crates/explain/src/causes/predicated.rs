//! Accesses under a condition that had none: each is decided on, and fewer are under way at a time.

use crate::{Cause, CauseClass, CodeComparison, Measure};

/// The cycles that one additional access under a condition takes.
const CYCLES: f64 = 10.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let growth = code.growth_of(&|pile| pile.predicated());
    let free = code.growth_of(&|pile| pile.unconditional());
    // Accesses without a condition must decrease, too: a new access alone is not a predicated one.
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
