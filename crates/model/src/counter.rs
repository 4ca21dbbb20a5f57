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
    /// PTX instructions that warps issued. A GPU counts machine instructions.
    Instructions = "instructions" => Tier::Information,
    /// Lanes that executed a PTX instruction.
    LaneInstructions = "lane_instructions" => Tier::Information,
    /// Loads by warps, with what `cp.async` reads, as on a GPU.
    GlobalLoadRequests = "global_load_requests" => Tier::Gate,
    /// The 32-byte sectors that these loads touch.
    GlobalLoadSectors = "global_load_sectors" => Tier::Gate,
    /// The fewest sectors that hold the loaded bytes.
    GlobalLoadSectorsIdeal = "global_load_sectors_ideal" => Tier::Information,
    /// Stores to global memory, counted by warp.
    GlobalStoreRequests = "global_store_requests" => Tier::Gate,
    /// The 32-byte sectors that these stores touch.
    GlobalStoreSectors = "global_store_sectors" => Tier::Gate,
    /// The fewest sectors that hold the stored bytes.
    GlobalStoreSectorsIdeal = "global_store_sectors_ideal" => Tier::Information,
    /// Loads from shared memory by warps.
    SharedLoadRequests = "shared_load_requests" => Tier::Gate,
    /// Passes of these loads through shared memory.
    SharedLoadWavefronts = "shared_load_wavefronts" => Tier::Gate,
    /// Passes that these loads would take without bank conflicts.
    SharedLoadWavefrontsIdeal = "shared_load_wavefronts_ideal" => Tier::Information,
    /// Stores to shared memory by warps.
    SharedStoreRequests = "shared_store_requests" => Tier::Gate,
    /// Passes of these stores through shared memory, with those of `stmatrix`.
    SharedStoreWavefronts = "shared_store_wavefronts" => Tier::Gate,
    /// Passes that these stores would take without bank conflicts.
    SharedStoreWavefrontsIdeal = "shared_store_wavefronts_ideal" => Tier::Information,
    /// Those of `global_load_sectors` that `cp.async` reads.
    AsyncCopySectors = "async_copy_sectors" => Tier::Information,
    /// Passes of `cp.async` through shared memory.
    AsyncCopyWavefronts = "async_copy_wavefronts" => Tier::Information,
    /// Bulk copies to shared memory, TMA's of tensors among them, by threads. Like all that follow of bulk copies and of
    /// `wgmma`, counted only in launches that have them.
    BulkLoads = "bulk_loads" => Tier::Gate,
    /// Sectors that these bring to blocks, to each of several blocks anew. What they fill in counts, too.
    BulkLoadSectors = "bulk_load_sectors" => Tier::Gate,
    /// Bulk copies to global memory, by threads.
    BulkStores = "bulk_stores" => Tier::Gate,
    /// The 32-byte sectors that these write.
    BulkStoreSectors = "bulk_store_sectors" => Tier::Gate,
    /// Bulk copies that reduce, by threads.
    BulkReductions = "bulk_reductions" => Tier::Gate,
    /// The 32-byte sectors that these change.
    BulkReductionSectors = "bulk_reduction_sectors" => Tier::Gate,
    /// `wgmma` instructions, counted once for each warp that executes them.
    WgmmaInstructions = "wgmma_instructions" => Tier::Gate,
    /// Passes of its matrices through shared memory.
    WgmmaWavefronts = "wgmma_wavefronts" => Tier::Gate,
    /// `mma` and `wmma` instructions, counted by warp.
    MatrixInstructions = "matrix_instructions" => Tier::Information,
    /// `ldmatrix`, and loads of `wmma` from shared memory.
    MatrixLoads = "matrix_loads" => Tier::Gate,
    /// Passes of these loads through shared memory.
    MatrixLoadWavefronts = "matrix_load_wavefronts" => Tier::Gate,
    /// Atomics and reductions, counted by warp.
    Atomics = "atomics" => Tier::Information,
    /// Barriers of a block, by warps that reach them.
    Barriers = "barriers" => Tier::Information,
    /// Branches at which lanes of a warp part.
    DivergentBranches = "divergent_branches" => Tier::Information,
}
}
