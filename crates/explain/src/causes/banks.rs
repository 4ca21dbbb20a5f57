//! Shared memory: lanes of a warp ask the same bank for different words, so that an access takes more passes.

use crate::counts::{CountPair, counted, per_warp};
use crate::places::grown_lines;
use crate::{Cause, CauseClass, CodeComparison, Sides};
use model::Counter;

/// Cycles of an additional pass. It takes one of the SM's, and a few warps wait for it.
const CYCLES: f64 = 4.0;

struct BankCounters {
    requests: Counter,
    passes: Counter,
    ideal: Option<Counter>,
}

const WAYS: [BankCounters; 3] = [
    BankCounters {
        requests: Counter::SharedLoadRequests,
        passes: Counter::SharedLoadWavefronts,
        ideal: Some(Counter::SharedLoadWavefrontsIdeal),
    },
    BankCounters {
        requests: Counter::SharedStoreRequests,
        passes: Counter::SharedStoreWavefronts,
        ideal: Some(Counter::SharedStoreWavefrontsIdeal),
    },
    BankCounters {
        requests: Counter::MatrixLoads,
        passes: Counter::MatrixLoadWavefronts,
        ideal: None,
    },
];

pub fn rule(sides: &Sides, _: &CodeComparison) -> Vec<Cause> {
    WAYS.iter().filter_map(|way| find_cause(way, sides)).collect()
}

fn find_cause(way: &BankCounters, sides: &Sides) -> Option<Cause> {
    let requests = counted(sides, way.requests)?;
    let passes = counted(sides, way.passes)?;
    // The least number of passes, without conflicts, is either counted or as many for each access as the base had.
    let least = match way.ideal {
        Some(ideal) => counted(sides, ideal)?,
        None => CountPair {
            base: passes.base,
            head: passes.base / requests.base * requests.head,
        },
    };
    let conflicts = passes.less(least);
    // The quotient of nothing is NaN, which is never larger.
    let grown = conflicts.growth() > 0.0 && passes.over(requests).ratio() > 1.01;
    if !grown {
        return None;
    }
    let ideal: Vec<Counter> = way.ideal.into_iter().collect();
    let weight = per_warp(sides, conflicts.growth()) * CYCLES;
    let cause = Cause::new(CauseClass::BankConflicts, weight)
        .at(grown_lines(sides, &[way.passes], &ideal))
        .with_count(way.requests, requests)
        .with_count(way.passes, passes);
    Some(cause)
}
