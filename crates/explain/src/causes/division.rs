//! Division that is rounded exactly, or of integers: it takes a dozen instructions, and for some numbers a call.

use crate::code_comparison::{InstructionCount, LineBucket};
use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind as Kind;

/// The cycles that one division takes.
const CYCLES: f64 = 40.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let growth = code.growth_of(&divisions);
    let is_told = !growth.lines.is_empty() || is_division_without_lines(code);
    if growth.total <= 0.0 || !is_told {
        return Vec::new();
    }
    let mut cause = Cause::new(CauseClass::SlowDivision, growth.total * CYCLES).at(growth.places());
    for kind in [Kind::DivisionCheck, Kind::Reciprocal] {
        let (base, head) = code.counts(kind);
        if base != head {
            cause = cause.with(Measure::Code(kind), base, head);
        }
    }
    vec![cause]
}

/// Returns true if the new instructions are a division, without a line that says what belongs together. A conversion
/// that was there before does not belong to a new reciprocal.
fn is_division_without_lines(code: &CodeComparison) -> bool {
    let more = |kind: Kind| {
        let (base, head) = code.counts(kind);
        head.saturating_sub(base)
    };
    more(Kind::DivisionCheck) > 0 || more(Kind::Conversion) >= 2 * more(Kind::Reciprocal)
}

/// Counts divisions. A quotient of floats has a check that tests whether it needs the slow way. A quotient of integers
/// takes the reciprocal of a float that was an integer.
fn divisions(pile: &LineBucket) -> InstructionCount {
    let checks = pile.count_kinds(&|kind| kind == Kind::DivisionCheck);
    let reciprocals = pile.count_kinds(&|kind| kind == Kind::Reciprocal);
    let conversions = pile.count_kinds(&|kind| kind == Kind::Conversion);
    if conversions.count >= 2 * reciprocals.count.saturating_sub(checks.count) { InstructionCount {
            count: checks.count.max(reciprocals.count),
            runs: checks.runs.max(reciprocals.runs),
        } } else { checks }
}
