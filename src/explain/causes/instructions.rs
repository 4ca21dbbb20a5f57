//! More instructions, and no other rule needs to know why.

use crate::explain::{Beside, Cause, CauseClass, Measure, Sides};

/// Cycles of one more: below what every rule says that knows more of the same instructions.
const CYCLES: f64 = 0.1;

pub fn rule(_: &Sides, beside: &Beside) -> Vec<Cause> {
    let growth = beside.growth(&|_| true);
    if growth.lines.is_empty() || growth.total <= 0.0 {
        return Vec::new();
    }
    let (base, head) = beside.code_size();
    let cause = Cause::new(CauseClass::MoreInstructions, growth.total * CYCLES)
        .at(growth.places())
        .with(Measure::CodeSize, base, head);
    vec![cause]
}
