//! The simulator's counters as the counters of gates. Only this file knows both.

use crate::{Arithmetic as OwnArithmetic, Counter as Own, Counters, Tier};
use model::{Arithmetic, Counter, Doubt, LineCount, Withheld, Work};
use std::collections::BTreeMap;

/// Version of how the simulator counts: part of the key of their baselines.
pub use crate::COUNTER_MODEL;

/// One of the simulator's counters as gates, records and reports have it.
fn counter(own: Own) -> Counter {
    match own {
        Own::Instructions => Counter::Instructions,
        Own::LaneInstructions => Counter::LaneInstructions,
        Own::GlobalLoadRequests => Counter::GlobalLoadRequests,
        Own::GlobalLoadSectors => Counter::GlobalLoadSectors,
        Own::GlobalLoadSectorsIdeal => Counter::GlobalLoadSectorsIdeal,
        Own::GlobalStoreRequests => Counter::GlobalStoreRequests,
        Own::GlobalStoreSectors => Counter::GlobalStoreSectors,
        Own::GlobalStoreSectorsIdeal => Counter::GlobalStoreSectorsIdeal,
        Own::SharedLoadRequests => Counter::SharedLoadRequests,
        Own::SharedLoadWavefronts => Counter::SharedLoadWavefronts,
        Own::SharedLoadWavefrontsIdeal => Counter::SharedLoadWavefrontsIdeal,
        Own::SharedStoreRequests => Counter::SharedStoreRequests,
        Own::SharedStoreWavefronts => Counter::SharedStoreWavefronts,
        Own::SharedStoreWavefrontsIdeal => Counter::SharedStoreWavefrontsIdeal,
        Own::AsyncCopySectors => Counter::AsyncCopySectors,
        Own::AsyncCopyWavefronts => Counter::AsyncCopyWavefronts,
        Own::MatrixInstructions => Counter::MatrixInstructions,
        Own::MatrixLoads => Counter::MatrixLoads,
        Own::MatrixLoadWavefronts => Counter::MatrixLoadWavefronts,
        Own::Atomics => Counter::Atomics,
        Own::Barriers => Counter::Barriers,
        Own::DivergentBranches => Counter::DivergentBranches,
    }
}

fn computed((own, work): (&OwnArithmetic, &crate::Work)) -> (Arithmetic, Work) {
    let kind = match own {
        OwnArithmetic::Fp16 => Arithmetic::Fp16,
        OwnArithmetic::Fp32 => Arithmetic::Fp32,
        OwnArithmetic::Fp64 => Arithmetic::Fp64,
        OwnArithmetic::Special => Arithmetic::Special,
        OwnArithmetic::TensorF16 => Arithmetic::TensorF16,
        OwnArithmetic::TensorBf16 => Arithmetic::TensorBf16,
        OwnArithmetic::TensorTf32 => Arithmetic::TensorTf32,
        OwnArithmetic::TensorFp8 => Arithmetic::TensorFp8,
        OwnArithmetic::TensorFp64 => Arithmetic::TensorFp64,
        OwnArithmetic::TensorInt8 => Arithmetic::TensorInt8,
        OwnArithmetic::TensorNarrow => Arithmetic::TensorNarrow,
    };
    let work = Work {
        issued: work.issued,
        operations: work.operations,
    };
    (kind, work)
}

fn doubt(own: crate::Doubt) -> Doubt {
    match own {
        crate::Doubt::Polls => Doubt::Polls,
        crate::Doubt::Uncompared => Doubt::Uncompared,
        crate::Doubt::RaggedLoop => Doubt::RaggedLoop,
        crate::Doubt::Joined => Doubt::Joined,
        crate::Doubt::SplitCopy => Doubt::SplitCopy,
        crate::Doubt::ZeroStride => Doubt::ZeroStride,
    }
}

/// Whether a GPU's own counters have confirmed what the simulator counts, so that a gate can rest on it
/// where the launch gives no doubt.
pub fn can_be_gated(wanted: Counter) -> bool {
    Own::ALL
        .into_iter()
        .any(|own| counter(own) == wanted && own.tier() == Tier::Gate)
}

/// The cost of a launch: the counters that a gate can rest on, the others, and why not on some of these.
pub struct Counted {
    pub gated: BTreeMap<Counter, u64>,
    pub information: BTreeMap<Counter, u64>,
    pub withheld: BTreeMap<Counter, Withheld>,
    pub lines: BTreeMap<Counter, Vec<LineCount>>,
    pub computed: BTreeMap<Arithmetic, Work>,
}

/// Lines of each counter that are kept: where to look, and not a profile.
const LINES: usize = 3;

pub fn counted(counters: &Counters, doubts: &BTreeMap<Own, crate::Withheld>) -> Counted {
    let of = |gated: bool| {
        Own::ALL
            .into_iter()
            .filter(|own| {
                let can_be = own.tier() == Tier::Gate && !doubts.contains_key(own);
                can_be == gated
            })
            .map(|own| (counter(own), counters.get(own)))
            .collect()
    };
    let lines = Own::ALL.into_iter().map(|own| {
        let lines = counters.lines(own, LINES).into_iter();
        let lines: Vec<_> = lines
            .map(|(place, count)| LineCount { place, count })
            .collect();
        (counter(own), lines)
    });
    let withheld = doubts.iter().map(|(own, found)| {
        let withheld = Withheld {
            doubt: doubt(found.doubt),
            place: found.place.clone(),
        };
        (counter(*own), withheld)
    });
    Counted {
        gated: of(true),
        information: of(false),
        withheld: withheld.collect(),
        lines: lines.filter(|(_, lines)| !lines.is_empty()).collect(),
        computed: counters.computed.iter().map(computed).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_and_the_simulator_know_the_same_counters() {
        for own in Own::ALL {
            assert_eq!(own.name(), counter(own).name());
        }
        let counters = Counters::default();
        let mut doubts = BTreeMap::new();
        let all = counted(&counters, &doubts);
        assert_eq!(all.gated.len() + all.information.len(), Counter::ALL.len());
        assert!(all.withheld.is_empty());
        for own in Own::ALL {
            if own.tier() == Tier::Gate {
                let polls = crate::Withheld {
                    doubt: crate::Doubt::Polls,
                    place: "k.cu:1".to_owned(),
                };
                doubts.insert(own, polls);
            }
        }
        let none = counted(&counters, &doubts);
        assert_eq!(
            (none.gated.len(), none.information.len()),
            (0, Counter::ALL.len())
        );
        assert!(none.withheld.keys().eq(all.gated.keys()));
    }
}
