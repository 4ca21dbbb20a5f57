//! Counts the costs of a launch, as named numbers that are the same on every run and machine.
//!
//! A counter of the *gate* tier equals what a GPU's own counters say of the same launch, where the launch
//! does not put it in [`Doubt`](crate::Doubt); CALIBRATION.md has the comparison. One of the *information*
//! tier was not compared or differs.

use crate::report::{Cost, Counters, Kind, LineCost};
use std::collections::BTreeMap;

/// Grows whenever the same launch may count differently than before: part of a baseline's key.
pub const COUNTER_MODEL: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    Gate,
    Information,
}

/// Warps count, not lanes, unless a name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counter {
    /// PTX instructions that warps issued. A GPU counts machine instructions.
    Instructions,
    /// Lanes that executed one.
    LaneInstructions,
    /// Loads, and copies to shared memory that read: a GPU counts both as loads.
    GlobalLoadRequests,
    /// 32-byte sectors, and the fewest that hold the bytes.
    GlobalLoadSectors,
    GlobalLoadSectorsIdeal,
    GlobalStoreRequests,
    GlobalStoreSectors,
    GlobalStoreSectorsIdeal,
    SharedLoadRequests,
    /// Passes through shared memory, and what they would be without bank conflicts.
    SharedLoadWavefronts,
    SharedLoadWavefrontsIdeal,
    SharedStoreRequests,
    SharedStoreWavefronts,
    SharedStoreWavefrontsIdeal,
    /// Those of the loads' sectors that copies read.
    AsyncCopySectors,
    AsyncCopyWavefronts,
    MatrixInstructions,
    MatrixLoads,
    MatrixLoadWavefronts,
    Atomics,
    Barriers,
    DivergentBranches,
}

impl Counter {
    pub const ALL: [Counter; 22] = {
        use Counter::*;
        [
            Instructions,
            LaneInstructions,
            GlobalLoadRequests,
            GlobalLoadSectors,
            GlobalLoadSectorsIdeal,
            GlobalStoreRequests,
            GlobalStoreSectors,
            GlobalStoreSectorsIdeal,
            SharedLoadRequests,
            SharedLoadWavefronts,
            SharedLoadWavefrontsIdeal,
            SharedStoreRequests,
            SharedStoreWavefronts,
            SharedStoreWavefrontsIdeal,
            AsyncCopySectors,
            AsyncCopyWavefronts,
            MatrixInstructions,
            MatrixLoads,
            MatrixLoadWavefronts,
            Atomics,
            Barriers,
            DivergentBranches,
        ]
    };

    /// As it is written in gates, records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Counter::Instructions => "instructions",
            Counter::LaneInstructions => "lane_instructions",
            Counter::GlobalLoadRequests => "global_load_requests",
            Counter::GlobalLoadSectors => "global_load_sectors",
            Counter::GlobalLoadSectorsIdeal => "global_load_sectors_ideal",
            Counter::GlobalStoreRequests => "global_store_requests",
            Counter::GlobalStoreSectors => "global_store_sectors",
            Counter::GlobalStoreSectorsIdeal => "global_store_sectors_ideal",
            Counter::SharedLoadRequests => "shared_load_requests",
            Counter::SharedLoadWavefronts => "shared_load_wavefronts",
            Counter::SharedLoadWavefrontsIdeal => "shared_load_wavefronts_ideal",
            Counter::SharedStoreRequests => "shared_store_requests",
            Counter::SharedStoreWavefronts => "shared_store_wavefronts",
            Counter::SharedStoreWavefrontsIdeal => "shared_store_wavefronts_ideal",
            Counter::AsyncCopySectors => "async_copy_sectors",
            Counter::AsyncCopyWavefronts => "async_copy_wavefronts",
            Counter::MatrixInstructions => "matrix_instructions",
            Counter::MatrixLoads => "matrix_loads",
            Counter::MatrixLoadWavefronts => "matrix_load_wavefronts",
            Counter::Atomics => "atomics",
            Counter::Barriers => "barriers",
            Counter::DivergentBranches => "divergent_branches",
        }
    }

    /// By the tables of CALIBRATION.md; a launch may give doubts in addition.
    pub fn tier(self) -> Tier {
        use Counter::*;
        match self {
            GlobalLoadRequests
            | GlobalLoadSectors
            | GlobalStoreRequests
            | GlobalStoreSectors
            | SharedLoadRequests
            | SharedLoadWavefronts
            | SharedStoreRequests
            | SharedStoreWavefronts
            | MatrixLoads
            | MatrixLoadWavefronts => Tier::Gate,
            // Counted in other units by hardware, not by it at all, or seen in too few kernels.
            Instructions
            | LaneInstructions
            | GlobalLoadSectorsIdeal
            | GlobalStoreSectorsIdeal
            | SharedLoadWavefrontsIdeal
            | SharedStoreWavefrontsIdeal
            | AsyncCopySectors
            | AsyncCopyWavefronts
            | MatrixInstructions
            | Atomics
            | Barriers
            | DivergentBranches => Tier::Information,
        }
    }
}

impl Counters {
    /// Zero where the launch did nothing of the kind.
    pub fn get(&self, counter: Counter) -> u64 {
        value(counter, &self.total, &self.by_kind)
    }

    /// The source lines that count most of it, at most so many, the largest first; of equal ones in the
    /// order of their names. `k.cu:5 inlined at k.cu:40`, where that is the same for all of the line.
    pub fn lines(&self, counter: Counter, most: usize) -> Vec<(String, u64)> {
        let lines = self.by_line.iter();
        let mut lines: Vec<(&String, &LineCost, u64)> = lines
            .map(|(line, cost)| (line, cost, value(counter, &cost.total, &cost.by_kind)))
            .filter(|(.., count)| *count > 0)
            .collect();
        lines.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
        lines.truncate(most);
        let places = lines.into_iter().map(|(line, cost, count)| {
            let mut inlined = cost.inlined.iter();
            let how = match (inlined.next(), inlined.next()) {
                (Some(one), None) => one,
                (None, _) => "",
                _ => " inlined at several places",
            };
            (format!("{line}{how}"), count)
        });
        places.collect()
    }
}

fn value(counter: Counter, total: &Cost, by_kind: &BTreeMap<Kind, Cost>) -> u64 {
    let kind = |k: Kind| by_kind.get(&k).copied().unwrap_or_default();
    match counter {
        Counter::Instructions => total.issued,
        Counter::LaneInstructions => total.lanes,
        // On hardware a copy is a load.
        Counter::GlobalLoadRequests => {
            kind(Kind::GlobalLoad).global_requests + kind(Kind::AsyncCopy).global_requests
        }
        Counter::GlobalLoadSectors => {
            kind(Kind::GlobalLoad).sectors + kind(Kind::AsyncCopy).sectors
        }
        Counter::GlobalLoadSectorsIdeal => {
            kind(Kind::GlobalLoad).ideal_sectors + kind(Kind::AsyncCopy).ideal_sectors
        }
        Counter::GlobalStoreRequests => kind(Kind::GlobalStore).global_requests,
        Counter::GlobalStoreSectors => kind(Kind::GlobalStore).sectors,
        Counter::GlobalStoreSectorsIdeal => kind(Kind::GlobalStore).ideal_sectors,
        Counter::SharedLoadRequests => kind(Kind::SharedLoad).requests,
        Counter::SharedLoadWavefronts => kind(Kind::SharedLoad).wavefronts,
        Counter::SharedLoadWavefrontsIdeal => kind(Kind::SharedLoad).ideal_wavefronts,
        Counter::SharedStoreRequests => kind(Kind::SharedStore).requests,
        Counter::SharedStoreWavefronts => {
            kind(Kind::SharedStore).wavefronts + kind(Kind::MatrixStore).wavefronts
        }
        Counter::SharedStoreWavefrontsIdeal => {
            kind(Kind::SharedStore).ideal_wavefronts + kind(Kind::MatrixStore).ideal_wavefronts
        }
        Counter::AsyncCopySectors => kind(Kind::AsyncCopy).sectors,
        Counter::AsyncCopyWavefronts => kind(Kind::AsyncCopy).wavefronts,
        Counter::MatrixInstructions => kind(Kind::Matrix).issued,
        Counter::MatrixLoads => kind(Kind::MatrixLoad).requests,
        Counter::MatrixLoadWavefronts => kind(Kind::MatrixLoad).wavefronts,
        Counter::Atomics => kind(Kind::Atomic).requests,
        Counter::Barriers => kind(Kind::Barrier).issued,
        Counter::DivergentBranches => total.divergent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_all_are_listed() {
        let names: std::collections::BTreeSet<_> = Counter::ALL.map(Counter::name).into();
        assert_eq!(names.len(), Counter::ALL.len());
    }

    #[test]
    fn lines_stand_by_what_they_count() {
        let line = |kind, sectors| LineCost {
            by_kind: BTreeMap::from([(
                kind,
                Cost {
                    sectors,
                    ..Cost::default()
                },
            )]),
            ..LineCost::default()
        };
        let counters = Counters {
            by_line: BTreeMap::from([
                ("k.cu:1".to_owned(), line(Kind::GlobalLoad, 3)),
                ("k.cu:2".to_owned(), line(Kind::GlobalStore, 9)),
                ("k.cu:3".to_owned(), line(Kind::GlobalLoad, 5)),
                ("k.cu:4".to_owned(), line(Kind::GlobalLoad, 3)),
            ]),
            ..Counters::default()
        };
        assert_eq!(
            counters.lines(Counter::GlobalLoadSectors, 2),
            [("k.cu:3".to_owned(), 5), ("k.cu:1".to_owned(), 3)]
        );
        assert_eq!(counters.lines(Counter::Atomics, 2), []);
    }
}
