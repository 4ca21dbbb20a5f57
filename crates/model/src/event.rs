//! Events of a launch in which the simulator saw something go wrong, as data. `wording` makes the sentences. Places,
//! threads, blocks and the address are those of the [`Finding`](super::Finding) that holds the event.

use super::{Difference, Place, Swizzle};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The first event of a finding. "This" access happened at the first place of the finding, and "the other" access at the
/// second one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FindingEvent {
    /// Two accesses to the same bytes that nothing orders, at least one of which writes.
    Race {
        memory: MemoryPlace,
        /// Whether this access writes, and whether the other one does.
        writes: [bool; 2],
        /// The block of the other access. `None` for the shared memory of one block.
        block: Option<[u32; 3]>,
        /// The reason for which lanes of one warp are not ordered. `None` if they only ran in order because they ran in
        /// step, and for threads of different warps.
        apart: Option<Apart>,
        /// A read of a flag that would have ordered them if it were an acquire, or if a fence followed.
        unfenced: Option<Place>,
    },
    /// Another proxy reads what was written, and no fence between proxies orders that: an instruction of the async proxy
    /// reads shared memory, or a copy reads its tensor map. The name is that of the reader.
    NoProxyFence(String),
    /// A use of an mbarrier that its initialisation by the other block does not come before.
    MbarrierRace,
    /// Access to the shared memory of a block that may have ended.
    AfterBlockEnd { name: String, owner: [u32; 3] },
    /// Something that the asynchronous operation of this name, under way or about to begin, does not allow.
    InFlight {
        name: String,
        clash: Clash,
        /// The block of the cluster that has the memory, if it is not the block of this access.
        owner: Option<[u32; 3]>,
    },
    /// The descriptor of a matrix that begins in a variable of shared memory and leads out of it, to these bytes.
    DescriptorLeaves(char, String, [u32; 2]),
    /// The swizzle in the descriptor of a matrix, and the other one with which a tensor copy brought the tile.
    DescriptorSwizzle(char, [Swizzle; 2]),
    /// An offset in the descriptor of a matrix, `stride` or `leading`, and the bytes that it has and that it needs to lead
    /// past a part.
    DescriptorOverlap(char, String, [u32; 2]),
    /// A shuffle reads a lane that takes no part.
    ReadsAbsentLane { lane: u32, members: u32 },
    /// A lane names members, and itself not among them.
    NotAMember { lane: u32, members: u32 },
    /// A part of a warpgroup executed `setmaxnreg`.
    SplitWarpgroup,
    /// Threads passed a barrier for all because the others had exited.
    PartialBarrier { id: u32, passed: u32, all: u32 },
    /// `free` of an address that was freed before at this place, or that `malloc` did not give.
    InvalidFree(Option<Place>),
    /// A number of bytes of the heap that nothing points to any more.
    Leak(u64),
    /// Something depends on memory that nothing wrote. The second place has read it.
    Unwritten {
        dependent: Dependent,
        memory: MemoryPlace,
    },
    /// The output differs in a launch in which one circumstance differs.
    MachineDependence(Circumstance, ElsewhereOutcome),
    /// The sentence of a record that was written before events were data. It is written again as it was read.
    #[serde(untagged)]
    Recorded(String),
}

/// The memory in which two accesses meet, with the address of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MemoryPlace {
    Shared(u64),
    /// Shared memory of a block of the cluster.
    Distributed {
        address: u64,
        owner: [u32; 3],
    },
    Local(u64),
    /// A tensor or a variable in global memory, and an offset in bytes.
    Buffer {
        name: String,
        byte: u64,
    },
}

/// The reason for which the accesses of two lanes of a warp belong to different streams of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Apart {
    Branches,
    Iterations,
    /// A value that one of them reads decides a branch.
    Decides,
}

/// The access or the end that meets an asynchronous operation under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clash {
    /// A write where the copy may still read.
    WritesSource,
    /// Another `cp.async` to the same place.
    Copies,
    /// A `cp.async.bulk` to the same place.
    CopiesInBulk,
    Reads,
    Writes,
    ThreadEnds,
    /// The thread ends, and the operation may still read shared memory.
    ThreadEndsReading,
    BlockEnds,
    /// The block ends before a thread has waited for the copy.
    NotAwaited,
    /// No `wgmma.fence` comes before a `wgmma.mma_async` at all.
    NoFence,
    /// A `wgmma.mma_async` uses a register of an earlier one in another role.
    OtherRole,
    /// A `wgmma.mma_async` of another shape adds to the register, and no fence orders the two.
    OtherShape,
    /// Another instruction has accessed a register of a `wgmma.mma_async` since the last fence.
    NotFenced,
    /// An access to a register of the `sums` or of the matrix `A` of a `wgmma.mma_async`.
    Register {
        matrix: String,
        writes: bool,
    },
}

/// The part of an instruction or of the output that depends on a value that nothing wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Dependent {
    Branch,
    /// The predicate that decides whether an instruction executes.
    Execution,
    /// The form of an effect: members, a size, a mode.
    Effect,
    Address,
    Operand,
    Result,
    /// A tensor map that is published.
    TensorMap,
    /// Memory, at the end of the launch.
    Stored(MemoryPlace),
}

named! {
/// A fact of the machine or of the moment that no result may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Circumstance {
    /// The multiprocessor of a block: `%smid`, `%nsmid`.
    Multiprocessor = "multiprocessor",
    /// The warp's slot in its multiprocessor: `%warpid`, `%nwarpid`.
    WarpSlot = "warp_slot",
    /// The number of the grid: `%gridid`.
    GridNumber = "grid_number",
    /// Clocks and performance counters: `%clock`, `%globaltimer`, `%pm`.
    Time = "time",
    /// `%total_smem_size`: the system rounds it up as the GPU needs.
    SharedSize = "shared_size",
    /// Registers that the driver sets: `%envreg`.
    DriverRegister = "driver_register",
    /// Bits of addresses above the alignment that an allocation promises.
    Addresses = "addresses",
}
}

/// The result of a launch in other circumstances, if it is not the result of the first launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElsewhereOutcome {
    /// A fault stopped it, with this message.
    Stopped(String),
    Differs(Difference),
}
