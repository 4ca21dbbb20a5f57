//! Narrower accesses: they move the same number of bytes, so there are more of them.

use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::{InstructionKind as Kind, Width};

/// The cycles that one additional access takes.
const CYCLES: f64 = 8.0;
/// The share of the bytes of vanished wide accesses that new narrow ones must move.
const SHARE: f64 = 0.4;

type IsOf = fn(Kind) -> bool;

const FAMILIES: [IsOf; 4] = [
    |kind| {
        matches!(
            kind,
            Kind::GlobalLoad(_) | Kind::ReadOnlyLoad(_) | Kind::GenericLoad(_)
        )
    },
    |kind| matches!(kind, Kind::GlobalStore(_) | Kind::GenericStore(_)),
    |kind| matches!(kind, Kind::SharedLoad(_)),
    |kind| matches!(kind, Kind::SharedStore(_)),
];

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    FAMILIES.iter().filter_map(|family| find_cause(*family, code)).collect()
}

fn find_cause(family: IsOf, code: &CodeComparison) -> Option<Cause> {
    // These are the accesses gained and lost, and their bytes, from narrow to wide.
    let changes: Vec<(Width, f64)> = Width::ALL
        .into_iter()
        .map(|width| {
            let wanted = |kind: Kind| family(kind) && kind.width() == Some(width);
            let (base, head) = code.runs(&wanted);
            (width, head - base)
        })
        .collect();
    let bytes = |(width, runs): &(Width, f64)| runs * f64::from(width.bits() / 8);
    let widest = changes.iter().rposition(|(_, runs)| *runs < 0.0)?;
    let (narrower, wider) = changes.split_at(widest);
    let gained: f64 = narrower.iter().map(bytes).sum();
    let lost: f64 = -wider.iter().map(bytes).sum::<f64>();
    let more: f64 = changes.iter().map(|(_, runs)| runs).sum();
    if !(lost > 0.0 && gained >= SHARE * lost && more > 0.0) {
        return None;
    }
    let grown: Vec<Width> = narrower
        .iter()
        .filter(|(_, runs)| *runs > 0.0)
        .map(|(width, _)| *width)
        .collect();
    let is_grown = |kind: Kind| family(kind) && kind.width().is_some_and(|width| grown.contains(&width));
    let growth = code.growth(&is_grown);
    let mut cause = Cause::new(CauseClass::VectorAccessNarrowed, more * CYCLES).at(growth.places());
    for kind in Kind::all().filter(|kind| family(*kind)) {
        let (base, head) = code.counts(kind);
        if base != head {
            cause = cause.with(Measure::Code(kind), base, head);
        }
    }
    Some(cause)
}
