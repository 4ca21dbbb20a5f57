use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a GPU's own counters say the same of a launch that the simulator puts in no doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// They do, by the tables of ptxsim's CALIBRATION.md: a gate can rest on it.
    Gate,
    /// Counted in other units by hardware, not by it at all, or seen in too few kernels.
    Information,
}

named! {
/// The simulator's counts of one launch, the same on every run and machine. Warps count, not lanes,
/// unless a name says otherwise; requests are memory instructions of a warp, sectors 32 bytes of global
/// memory, wavefronts passes through shared memory. `ideal` is the fewest that move as many bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Counter, tier: Tier {
    // PTX instructions that warps issued. A GPU counts machine instructions.
    Instructions = "instructions" => Tier::Information,
    // Lanes that executed one.
    LaneInstructions = "lane_instructions" => Tier::Information,
    // Loads, and copies to shared memory that read: a GPU counts both as loads.
    GlobalLoadRequests = "global_load_requests" => Tier::Gate,
    // 32-byte sectors, and the fewest that hold the bytes.
    GlobalLoadSectors = "global_load_sectors" => Tier::Gate,
    GlobalLoadSectorsIdeal = "global_load_sectors_ideal" => Tier::Information,
    GlobalStoreRequests = "global_store_requests" => Tier::Gate,
    GlobalStoreSectors = "global_store_sectors" => Tier::Gate,
    GlobalStoreSectorsIdeal = "global_store_sectors_ideal" => Tier::Information,
    SharedLoadRequests = "shared_load_requests" => Tier::Gate,
    // Passes through shared memory, and what they would be without bank conflicts.
    SharedLoadWavefronts = "shared_load_wavefronts" => Tier::Gate,
    SharedLoadWavefrontsIdeal = "shared_load_wavefronts_ideal" => Tier::Information,
    SharedStoreRequests = "shared_store_requests" => Tier::Gate,
    SharedStoreWavefronts = "shared_store_wavefronts" => Tier::Gate,
    SharedStoreWavefrontsIdeal = "shared_store_wavefronts_ideal" => Tier::Information,
    // Those of the loads' sectors that copies read.
    AsyncCopySectors = "async_copy_sectors" => Tier::Information,
    AsyncCopyWavefronts = "async_copy_wavefronts" => Tier::Information,
    MatrixInstructions = "matrix_instructions" => Tier::Information,
    MatrixLoads = "matrix_loads" => Tier::Gate,
    MatrixLoadWavefronts = "matrix_load_wavefronts" => Tier::Gate,
    Atomics = "atomics" => Tier::Information,
    Barriers = "barriers" => Tier::Information,
    DivergentBranches = "divergent_branches" => Tier::Information,
}
}
