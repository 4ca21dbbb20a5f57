//! Asynchronous copies that became loads and stores, or that are waited for more often or right away, so that their
//! latency is no longer hidden.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::InstructionKind as Kind;

/// Cycles of a copy that is waited for, or of a wait, if other warps hide a part of it.
const CYCLES: f64 = 200.0;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_copy = |kind: Kind| matches!(kind, Kind::AsyncCopy | Kind::BulkCopy);
    let is_wait = |kind: Kind| kind == Kind::AsyncWait;
    let by_register = |kind: Kind| {
        matches!(
            kind,
            Kind::GlobalLoad(_) | Kind::ReadOnlyLoad(_) | Kind::SharedStore(_)
        )
    };
    let (was, is) = code.runs(&is_copy);
    let instead = code.growth(&by_register);
    if is < was && instead.total > 0.0 {
        let copies = code.counts(Kind::AsyncCopy);
        let cause = Cause::new(CauseClass::AsyncCopySynchronous, (was - is) * CYCLES)
            .at(instead.places())
            .with(Measure::Code(Kind::AsyncCopy), copies.0, copies.1);
        return vec![cause];
    }
    let waits = code.growth(&is_wait);
    if was > 0.0 && waits.total > 0.0 && is <= was {
        let counts = code.counts(Kind::AsyncWait);
        let cause = Cause::new(CauseClass::AsyncCopySynchronous, waits.total * CYCLES)
            .at(waits.places())
            .with(Measure::Code(Kind::AsyncWait), counts.0, counts.1);
        return vec![cause];
    }
    super::exposed::find_cause(code, CauseClass::AsyncCopySynchronous, &is_copy).into_iter().collect()
}
