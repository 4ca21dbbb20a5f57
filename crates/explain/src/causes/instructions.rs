//! More instructions: other rules, which know more about the same ones, weigh more than this one.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::Counter;

/// The cycles of an additional instruction. They weigh less than those of any rule that knows more about the same
/// instructions.
const CYCLES: f64 = 0.1;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let growth = code.growth(&|_| true);
    if !growth.is_more() {
        return Vec::new();
    }
    // If nobody counted instructions and the code is no longer, the guesses of how often loops repeat are no reason.
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
    // A loop that is unrolled less has less code and executes more.
    if executed.is_none() || head > base {
        cause = cause.with(Measure::CodeSize, base, head);
    }
    vec![cause]
}
