//! Double precision where there was none, most often because of a constant without `f`. Many GPUs have one unit for it
//! for every 64 units of FP32.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind as Kind;

/// Cycles of an instruction, between GPUs that have many units for it and those that have few.
const CYCLES: f64 = 16.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_double = |kind: Kind| matches!(kind, Kind::Fp64 | Kind::DoubleConversion);
    let growth = code.growth(&is_double);
    if growth.total <= 0.0 {
        return Vec::new();
    }
    let mut cause =
        Cause::new(CauseClass::DoublePrecision, growth.total * CYCLES).at(growth.places());
    for kind in [Kind::Fp64, Kind::DoubleConversion] {
        let (base, head) = code.counts(kind);
        cause = cause.with(Measure::Code(kind), base, head);
    }
    vec![cause]
}
