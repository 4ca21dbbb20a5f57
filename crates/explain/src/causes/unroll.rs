//! A loop that does less in one iteration: the costs of its head are paid more often, and fewer accesses are under way
//! at a time.

use crate::{Cause, CauseClass, CodeComparison, Measure};

/// Cycles of an additional iteration: counter, comparison and branch, and a wait that no longer overlaps.
const CYCLES: f64 = 12.0;
/// The least number of iterations that replace one of the base's.
const NOTABLE: f64 = 1.5;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let causes = code.loops().iter().filter(|pair| pair.turns >= NOTABLE).map(|pair| {
        // These are the iterations that the base did not have.
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
