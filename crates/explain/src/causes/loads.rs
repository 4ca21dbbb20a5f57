//! Loads that are repeated more often although the source asks for the same, because a store may have changed what they
//! read (`const __restrict__` is gone), or because they moved into a loop.

use crate::code_comparison::{Growth, LineGrowth};
use crate::{Cause, CauseClass, CodeComparison, Measure};
use model::{InstructionKind as Kind, Width};

/// The cycles that one additional load takes.
const CYCLES: f64 = 30.0;
/// The notable share of loads that moved to other lines.
const NOTABLE: f64 = 0.01;
/// How much more often loads run that went into a loop. Loads of a second loop beside the first run as often.
const MORE_OFTEN: f64 = 1.5;

pub fn rule(code: &CodeComparison) -> Vec<Cause> {
    let is_load = |kind: Kind| matches!(kind, Kind::GlobalLoad(_) | Kind::ReadOnlyLoad(_));
    let growth = code.growth(&is_load);
    let (base, head) = code.runs(&is_load);
    if growth.total <= NOTABLE * base.min(head) {
        return Vec::new();
    }
    // A load of the same bytes in narrower pieces is not a repeated read.
    let (was, is) = bits(code, &is_load);
    if is - was <= NOTABLE * was.min(is) {
        return Vec::new();
    }
    let read_only = code.runs(&|kind| matches!(kind, Kind::ReadOnlyLoad(_)));
    let stores = code.runs(&|kind| matches!(kind, Kind::GlobalStore(_)));
    // These loads left one line for another that runs more often.
    let moved = code.growth_where(&|base, head| {
        let (was, is) = (base.count_kinds(&is_load), head.count_kinds(&is_load));
        (is.count < was.count).then_some((is, was))
    });
    let class = if read_only.1 < read_only.0 && stores.1 > 0.0 {
        CauseClass::Reload
    } else if often(&growth) > MORE_OFTEN * often(&moved) && !moved.lines.is_empty() {
        CauseClass::LoopInvariant
    } else {
        return Vec::new();
    };
    let mut cause = Cause::new(class, growth.total * CYCLES).at(growth.places());
    for kind in Kind::all().filter(|kind| is_load(*kind)) {
        let (base, head) = code.counts(kind);
        if base != head {
            cause = cause.with(Measure::Code(kind), base, head);
        }
    }
    vec![cause]
}

/// Returns how often the most frequent of the loads that came or went are executed.
fn often(growth: &Growth) -> f64 {
    let each = |line: &LineGrowth| line.runs / f64::from(line.head_count.abs_diff(line.base_count).max(1));
    growth.lines.iter().map(each).fold(0.0, f64::max)
}

/// Returns the bits that a lane moves on both sides.
fn bits(code: &CodeComparison, wanted: &dyn Fn(Kind) -> bool) -> (f64, f64) {
    Width::ALL.into_iter().map(|width| {
        let (base, head) = code.runs(&|kind| wanted(kind) && kind.width() == Some(width));
        let bits = f64::from(width.bits());
        (base * bits, head * bits)
    }).fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
}
