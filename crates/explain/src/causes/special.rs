//! A special function in its exact form: instructions around it prepare what its unit cannot take, and correct the
//! result.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind as Kind;

/// The cycles of one instruction around it.
const CYCLES: f64 = 4.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_special = |kind: Kind| {
        matches!(
            kind,
            Kind::Root | Kind::Exponential | Kind::Logarithm | Kind::Sine | Kind::OtherSpecial
        )
    };
    let is_around = |kind: Kind| {
        matches!(
            kind,
            Kind::Fp32 | Kind::Fp16 | Kind::Int | Kind::Compare | Kind::Select
        )
    };
    let growth = code.growth_where(&|base, head| {
        let (was, is) = (base.runs(&is_special), head.runs(&is_special));
        let as_many = was > 0.0 && (0.8..=1.25).contains(&(is / was));
        let divides = |kind: Kind| kind == Kind::DivisionCheck;
        let (before, after) = (base.count_kinds(&is_around), head.count_kinds(&is_around));
        // There is at least one additional instruction for each function.
        let is_more = after.runs - before.runs >= is && head.runs(&divides) <= base.runs(&divides);
        (as_many && is_more).then_some((before, after))
    });
    // In a kernel without lines, arithmetic belongs to no particular function. Only a line tells what is around one.
    if growth.total <= 0.0 || growth.lines.is_empty() {
        return Vec::new();
    }
    let (base, head) = growth.first_counts();
    let cause = Cause::new(CauseClass::SlowSpecialFunction, growth.total * CYCLES)
        .at(growth.places())
        .with(Measure::Around, base, head);
    vec![cause]
}
