//! Registers that do not fit, and are kept on the stack meanwhile.

use crate::explain::{Beside, Cause, CauseClass, Measure, Sides};
use verdict::model::{InstructionKind, Resources};

/// Cycles of an access to the stack that finds it in the cache, where some of it is hidden.
const CYCLES: f64 = 20.0;

pub fn rule(sides: &Sides, beside: &Beside) -> Vec<Cause> {
    let bytes = |of: fn(&Resources) -> Option<u32>| {
        let side = |build: Option<&verdict::model::BuildFacts>| {
            let entries = build.map_or(&[][..], |build| &build.entries);
            entries
                .iter()
                .filter_map(|entry| of(&entry.resources))
                .sum::<u32>()
        };
        (side(sides.base.build), side(sides.head.build))
    };
    let stores = bytes(|it| it.spill_stores);
    let loads = bytes(|it| it.spill_loads);
    if stores.1 <= stores.0 && loads.1 <= loads.0 {
        return Vec::new();
    }
    let is_of_stack = |kind: InstructionKind| {
        matches!(
            kind,
            InstructionKind::StackLoad(_) | InstructionKind::StackStore(_)
        )
    };
    let growth = beside.growth(&is_of_stack);
    // Where the machine code is not known, that there are any at all.
    let weight = (growth.total * CYCLES).max(CYCLES);
    let cause = Cause::new(CauseClass::Spills, weight)
        .at(growth.places())
        .with(Measure::SpillStores, stores.0, stores.1)
        .with(Measure::SpillLoads, loads.0, loads.1);
    vec![cause]
}
