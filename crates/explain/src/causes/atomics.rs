//! Atomics: there are more of them, or they moved from shared to global memory.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind;

/// About the cycles of an atomic on global memory if others want the same addresses.
const GLOBAL: f64 = 200.0;
/// About the cycles of an atomic on shared memory.
const SHARED: f64 = 30.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let kinds = [
        (InstructionKind::GlobalAtomic, GLOBAL),
        (InstructionKind::SharedAtomic, SHARED),
    ];
    kinds.into_iter().filter_map(|(kind, cycles)| {
        let growth = code.growth(&|other| other == kind);
        if !growth.is_more() {
            return None;
        }
        let (base, head) = growth.first_counts();
        let cause = Cause::new(CauseClass::AtomicsContended, growth.total * cycles)
            .at(growth.places())
            .with(Measure::Code(kind), base, head);
        Some(cause)
    }).collect()
}
