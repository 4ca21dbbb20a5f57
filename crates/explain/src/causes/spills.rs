//! Spills: registers do not fit, and the stack keeps some of them meanwhile.

use crate::code_comparison::Growth;
use crate::{Cause, CauseClass, CodeComparison, Compiled, Measure, places};
use model::{InstructionKind, Resources};

/// Cycles of an access to the stack that hits the cache, if a part of it is hidden.
const CYCLES: f64 = 20.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let growth = code.growth(&is_of_stack);
    let stores = spilled(code, |counts| counts.spill_stores);
    let loads = spilled(code, |counts| counts.spill_loads);
    let values = match (stores, loads) {
        (Some(stores), Some(loads)) if stores.1 > stores.0 || loads.1 > loads.0 => vec![
            (Measure::SpillStores, stores),
            (Measure::SpillLoads, loads),
        ],
        (Some(_), Some(_)) => return Vec::new(),
        // A compiled file does not say how much is spilled.
        _ if is_kept_on_stack(code, &growth) => stack_accesses(code),
        _ => return Vec::new(),
    };
    // If the machine code is unknown, it is only known that there are spills.
    let weight = (growth.total * CYCLES).max(CYCLES);
    // A kernel that may use fewer registers spills for that reason.
    let declared = is_tighter(code).then(|| places::entry(code.head.code)).flatten();
    let cause = Cause::new(CauseClass::Spills, weight)
        .at(declared)
        .at(growth.places());
    let with = |cause: Cause, (measure, (base, head)): (Measure, (u32, u32))| cause.with(measure, base, head);
    vec![values.into_iter().fold(cause, with)]
}

/// Returns the bytes of both sides, or `None` if one side does not state them for all its entries.
fn spilled(code: &CodeComparison, of: fn(&Resources) -> Option<u32>) -> Option<(u32, u32)> {
    let side = |side: &Compiled| {
        let entries = side.build?.entries.iter();
        entries
            .map(|entry| of(entry.resources.as_ref()?))
            .sum::<Option<u32>>()
    };
    Some((side(&code.base)?, side(&code.head)?))
}

fn is_store(kind: InstructionKind) -> bool {
    matches!(kind, InstructionKind::StackStore(_))
}

fn is_load(kind: InstructionKind) -> bool {
    matches!(kind, InstructionKind::StackLoad(_))
}

fn is_of_stack(kind: InstructionKind) -> bool {
    is_store(kind) || is_load(kind)
}

/// Returns true if more is stored at places that the compiler chose, and read back from there. Arguments of a function,
/// like those of `printf`, are only stored, and an indexed array is read at computed places.
fn is_kept_on_stack(code: &CodeComparison, growth: &Growth) -> bool {
    let (was, is) = growth.counts();
    let has = |wanted: &dyn Fn(InstructionKind) -> bool| code.growth(wanted).counts().1 > 0;
    is > was && growth.total > 0.0 && has(&is_store) && has(&is_load)
}

fn stack_accesses(code: &CodeComparison) -> Vec<(Measure, (u32, u32))> {
    let kinds = InstructionKind::all().filter(|kind| is_of_stack(*kind));
    let counts = kinds.map(|kind| (Measure::Code(kind), code.counts(kind)));
    counts.filter(|(_, (base, head))| base != head).collect()
}

/// Returns true if the source allows a thread fewer registers than before.
fn is_tighter(code: &CodeComparison) -> bool {
    code.base.entries().iter().zip(code.head.entries()).any(|(base, head)| {
        let (was, is) = (base.bounds, head.bounds);
        let most = |registers: Option<u32>| registers.unwrap_or(u32::MAX);
        is.blocks.unwrap_or(0) > was.blocks.unwrap_or(0)
            || is.threads.unwrap_or(0) > was.threads.unwrap_or(0)
            || most(is.registers) < most(was.registers)
    })
}
