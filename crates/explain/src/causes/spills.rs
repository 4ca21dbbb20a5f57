//! Registers that do not fit, and are kept on the stack meanwhile.

use crate::{Cause, CauseClass, CodeComparison, Measure, Sides, places};
use model::{InstructionKind, Resources};

/// Cycles of an access to the stack that finds it in the cache, where some of it is hidden.
const CYCLES: f64 = 20.0;

pub fn rule(sides: &Sides, code: &CodeComparison) -> Vec<Cause> {
    let bytes = |of: fn(&Resources) -> Option<u32>| {
        let side = |build: Option<&model::BuildFacts>| {
            let entries = build.map_or(&[][..], |build| &build.entries);
            entries
                .iter()
                .filter_map(|entry| of(entry.resources.as_ref()?))
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
    let growth = code.growth(&is_of_stack);
    // Where the machine code is not known, that there are any at all.
    let weight = (growth.total * CYCLES).max(CYCLES);
    // A kernel that is given fewer registers spills for that reason.
    let declared = is_tighter(sides).then(|| places::entry(sides)).flatten();
    let cause = Cause::new(CauseClass::Spills, weight)
        .at(declared)
        .at(growth.places())
        .with(Measure::SpillStores, stores.0, stores.1)
        .with(Measure::SpillLoads, loads.0, loads.1);
    vec![cause]
}

/// Whether the source leaves a thread fewer registers than it did.
fn is_tighter(sides: &Sides) -> bool {
    let entries = sides.base.build.zip(sides.head.build);
    let mut pairs = entries
        .into_iter()
        .flat_map(|(base, head)| base.entries.iter().zip(&head.entries));
    pairs.any(|(base, head)| {
        let (was, is) = (base.bounds, head.bounds);
        let most = |registers: Option<u32>| registers.unwrap_or(u32::MAX);
        is.blocks.unwrap_or(0) > was.blocks.unwrap_or(0)
            || is.threads.unwrap_or(0) > was.threads.unwrap_or(0)
            || most(is.registers) < most(was.registers)
    })
}
