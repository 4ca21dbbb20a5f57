//! Global memory: an access of a warp touches more sectors because its lanes no longer read adjacent elements, or there
//! are more accesses.

use crate::counts::{counted, per_warp};
use crate::places::grown_lines;
use crate::{Cause, CauseClass, CodeComparison, Sides};
use model::Counter;

/// About the cycles of an additional sector. A sector of device memory takes two of an SM's cycles, and a few warps
/// wait for it.
const CYCLES: f64 = 8.0;
/// A smaller ratio can be the effect of a boundary.
const NOTABLE: f64 = 1.02;

struct TrafficCounters {
    requests: Counter,
    sectors: Counter,
    ideal: Counter,
}

const WAYS: [TrafficCounters; 2] = [
    TrafficCounters {
        requests: Counter::GlobalLoadRequests,
        sectors: Counter::GlobalLoadSectors,
        ideal: Counter::GlobalLoadSectorsIdeal,
    },
    TrafficCounters {
        requests: Counter::GlobalStoreRequests,
        sectors: Counter::GlobalStoreSectors,
        ideal: Counter::GlobalStoreSectorsIdeal,
    },
];

pub fn rule(sides: &Sides, _: &CodeComparison) -> Vec<Cause> {
    WAYS.iter().filter_map(|way| find_cause(way, sides)).collect()
}

fn find_cause(way: &TrafficCounters, sides: &Sides) -> Option<Cause> {
    let requests = counted(sides, way.requests)?;
    let sectors = counted(sides, way.sectors)?;
    let ideal = counted(sides, way.ideal)?;
    let grown = sectors.head > 0.0 && sectors.ratio() > NOTABLE;
    if !grown {
        return None;
    }
    let cycles = per_warp(sides, sectors.growth()) * CYCLES;
    // Either each request touches more sectors, or there are more requests, because accesses are narrower or
    // additional.
    let each = sectors.over(requests);
    let is_scattered = each.ratio() > NOTABLE && each.ratio() >= requests.ratio();
    let (class, cycles) = if is_scattered { (CauseClass::CoalescingLost, cycles) } else {
// Every rule that knows why has a larger weight.
 (CauseClass::MoreTraffic, cycles * 0.25) };
    let waste = if is_scattered { vec![way.ideal] } else { Vec::new() };
    let cause = Cause::new(class, cycles)
        .at(grown_lines(sides, &[way.sectors], &waste))
        .with_count(way.requests, requests)
        .with_count(way.sectors, sectors)
        .with_count(way.ideal, ideal);
    Some(cause)
}
