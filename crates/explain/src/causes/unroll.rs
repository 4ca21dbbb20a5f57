//! A loop that does less in one turn: what its head costs is paid more often, and fewer accesses are under way at a time.

use crate::{Cause, CauseClass, CodeComparison, Measure};

/// Cycles of one turn more: counter, comparison and branch, and a wait that no longer overlaps.
const CYCLES: f64 = 12.0;
/// How many turns one of base's has to take at least.
const NOTABLE: f64 = 1.5;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let causes = code.loops().iter().filter(|pair| pair.turns >= NOTABLE).map(|pair| {
        // Turns that base did not take.
        let more = pair.runs * (1.0 - 1.0 / pair.turns);
        let cause = Cause::new(CauseClass::UnrollLost, more * CYCLES)
            .at(pair.place.clone())
            .with(Measure::LoopSize, pair.base_size, pair.head_size);
        match (pair.base_step, pair.head_step) {
            (Some(base), Some(head)) => cause.with(Measure::Step, base as f64, head as f64),
            _ => cause,
        }
    });
    causes.collect()
}
