//! More instructions, and no other rule needs to know why.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::Counter;

/// Cycles of one more: below what every rule says that knows more of the same instructions.
const CYCLES: f64 = 0.1;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let growth = code.growth(&|_| true);
    if !growth.is_more() {
        return Vec::new();
    }
    // Nobody counted them, and there is not more code: what turns of loops are guessed to be is no reason.
    let executed = code.executed().filter(|entry| entry.growth() > 0.0);
    let (base, head) = code.code_size();
    if code.executed().is_none() && head <= base {
        return Vec::new();
    }
    let mut cause =
        Cause::new(CauseClass::MoreInstructions, growth.total * CYCLES).at(growth.places());
    if let Some(executed) = executed {
        cause = cause.with_count(Counter::Instructions, executed);
    }
    // A loop that is unrolled less has less code, and more to execute.
    if executed.is_none() || head > base {
        cause = cause.with(Measure::CodeSize, base, head);
    }
    vec![cause]
}
