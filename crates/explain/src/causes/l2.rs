//! Less reuse in L2: a kernel asks for as many bytes as before, and more of them come from device memory. Only a
//! profile shows it. The code does not say which blocks run at the same time, nor how long a line stays in L2.

use crate::counts::{CountPair, counted, per_warp};
use crate::stalls::add_slower_lines;
use crate::{Cause, CauseClass, CodeComparison, Measure, CaseSide, Sides};
use model::{Counter, ProfileMetric};

/// Cycles of an additional sector of device memory.
const CYCLES: f64 = 8.0;
const SECTOR: f64 = 32.0;
/// The ratio of device memory traffic from which on it counts as more.
const NOTABLE: f64 = 1.1;
/// The share by which the requested amount may differ.
const SAME: f64 = 0.05;

/// Sectors that accesses ask for. L2's own count of requests includes some that fill it.
const ASKED: [Counter; 3] = [
    Counter::GlobalLoadSectors,
    Counter::GlobalStoreSectors,
    Counter::AsyncCopySectors,
];

pub fn rule(sides: &Sides, _: &CodeComparison) -> Vec<Cause> {
    find_cause(sides).into_iter().collect()
}

fn find_cause(sides: &Sides) -> Option<Cause> {
    let asked = ASKED.into_iter().map(|counter| counted(sides, counter)).collect::<Option<Vec<_>>>()?;
    let fetched = profiled(sides, ProfileMetric::DramBytes)?;
    let hits = profiled(sides, ProfileMetric::L2HitRate)?;
    let sum = |of: fn(&CountPair) -> f64| asked.iter().map(of).sum::<f64>();
    let is_same = (sum(|part| part.head) / sum(|part| part.base) - 1.0).abs() < SAME;
    if !(is_same && fetched.ratio() > NOTABLE && hits.head < hits.base) {
        return None;
    }
    let sectors = fetched.growth() / SECTOR;
    let cause = Cause::new(CauseClass::L2Reuse, per_warp(sides, sectors) * CYCLES)
        .with(
            Measure::Profile(ProfileMetric::L2HitRate),
            hits.base,
            hits.head,
        )
        .with(
            Measure::Profile(ProfileMetric::DramBytes),
            fetched.base,
            fetched.head,
        );
    Some(add_slower_lines(cause, sides))
}

fn profiled(sides: &Sides, metric: ProfileMetric) -> Option<CountPair> {
    Some(CountPair {
        base: measure_side(&sides.base, metric)?,
        head: measure_side(&sides.head, metric)?,
    })
}

/// Returns the value of the first repeat, for a launch of one kernel. Shares of several kernels cannot be combined.
fn measure_side(side: &CaseSide, metric: ProfileMetric) -> Option<f64> {
    let [kernel] = side.profiles.first()?.kernels.as_slice() else {
        return None;
    };
    let value = kernel.metrics.get(&metric)?.got()?;
    Some(value.0)
}
