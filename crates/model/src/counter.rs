use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the simulator counts of one launch, the same on every run and machine. Warps count, not lanes,
/// unless a name says otherwise; requests are memory instructions of a warp, sectors 32 bytes of global
/// memory, wavefronts passes through shared memory. `ideal` is the fewest that move as many bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
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
}

impl Counter {
    pub const ALL: [Self; 22] = [
        Self::Instructions,
        Self::LaneInstructions,
        Self::GlobalLoadRequests,
        Self::GlobalLoadSectors,
        Self::GlobalLoadSectorsIdeal,
        Self::GlobalStoreRequests,
        Self::GlobalStoreSectors,
        Self::GlobalStoreSectorsIdeal,
        Self::SharedLoadRequests,
        Self::SharedLoadWavefronts,
        Self::SharedLoadWavefrontsIdeal,
        Self::SharedStoreRequests,
        Self::SharedStoreWavefronts,
        Self::SharedStoreWavefrontsIdeal,
        Self::AsyncCopySectors,
        Self::AsyncCopyWavefronts,
        Self::MatrixInstructions,
        Self::MatrixLoads,
        Self::MatrixLoadWavefronts,
        Self::Atomics,
        Self::Barriers,
        Self::DivergentBranches,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::LaneInstructions => "lane_instructions",
            Self::GlobalLoadRequests => "global_load_requests",
            Self::GlobalLoadSectors => "global_load_sectors",
            Self::GlobalLoadSectorsIdeal => "global_load_sectors_ideal",
            Self::GlobalStoreRequests => "global_store_requests",
            Self::GlobalStoreSectors => "global_store_sectors",
            Self::GlobalStoreSectorsIdeal => "global_store_sectors_ideal",
            Self::SharedLoadRequests => "shared_load_requests",
            Self::SharedLoadWavefronts => "shared_load_wavefronts",
            Self::SharedLoadWavefrontsIdeal => "shared_load_wavefronts_ideal",
            Self::SharedStoreRequests => "shared_store_requests",
            Self::SharedStoreWavefronts => "shared_store_wavefronts",
            Self::SharedStoreWavefrontsIdeal => "shared_store_wavefronts_ideal",
            Self::AsyncCopySectors => "async_copy_sectors",
            Self::AsyncCopyWavefronts => "async_copy_wavefronts",
            Self::MatrixInstructions => "matrix_instructions",
            Self::MatrixLoads => "matrix_loads",
            Self::MatrixLoadWavefronts => "matrix_load_wavefronts",
            Self::Atomics => "atomics",
            Self::Barriers => "barriers",
            Self::DivergentBranches => "divergent_branches",
        }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
