//! More instructions, and no other rule needs to know why.

use crate::explain::{Beside, Cause, CauseClass, Measure, Sides};

pub fn rule(_: &Sides, beside: &Beside) -> Vec<Cause> {
    let growth = beside.growth(&|_| true);
    if growth.lines.is_empty() || growth.total <= 0.0 {
        return Vec::new();
    }
    let (base, head) = beside.code_size();
    // Below every rule that knows more of the same instructions.
    let cause = Cause::new(CauseClass::MoreInstructions, growth.total * 0.5)
        .at(growth.places())
        .with(Measure::CodeSize, base, head);
    vec![cause]
}
