//! What the simulator saw go wrong in a launch, as data. `wording` makes the sentences, and the places, threads and
//! blocks of the accesses are those of the [`Finding`](super::Finding) that holds the event.

use super::{AccessKind, Location, Place, Swizzle};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The first event of a finding. "This" access happened at the first place of the finding, and "the other" access at the
/// second one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", rename_all = "snake_case", deny_unknown_fields)]
pub enum FindingEvent {
    /// The sentence of a record that was written before events were data. It is written again as it was read.
    #[serde(skip)]
    Recorded(String),
    /// Two accesses that nothing orders.
    Race {
        memory: MemoryPlace,
        this: AccessKind,
        other: AccessKind,
        /// The block of the other access. `None` for the shared memory of one block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block: Option<[u32; 3]>,
        /// Why lanes of one warp are not ordered. `None` if they only ran in order because they ran in step, and for
        /// threads of different warps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        apart: Option<Apart>,
        /// A read of a flag that would have ordered them if it were an acquire, or if a fence followed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unfenced: Option<Place>,
    },
    /// The async proxy reads shared memory, and no `fence.proxy.async` orders that after the write.
    NoProxyFence { reader: String },
    /// A copy reads a tensor map, and no acquire of the tensor map's proxy orders that after its change.
    NoTensorMapFence { reader: String },
    /// An mbarrier whose initialisation by its block is not ordered before its use.
    MbarrierRace { owner: [u32; 3] },
    /// Access to the shared memory of a block that may have ended.
    AfterBlockEnd {
        instruction: String,
        owner: [u32; 3],
    },
    /// An access to shared memory that an asynchronous copy still writes or reads.
    CopyInFlight {
        memory: MemoryPlace,
        copy: String,
        clash: CopyClash,
    },
    /// A thread ends while an operation of its own is under way. `reads` is the shared memory that it may still read.
    ThreadEnds {
        operation: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reads: Option<u64>,
    },
    /// A block ends while its copy may still read its shared memory.
    BlockEnds { copy: String },
    /// A block ends, and nobody has waited for its copy to shared memory.
    Unawaited { copy: String, to: u64 },
    /// A `wgmma.mma_async` whose registers nothing orders with another access to them.
    Product { clash: ProductClash },
    /// An access to a register of a `wgmma.mma_async` that nobody has waited for.
    ProductInFlight {
        /// True for its sums, and false for the matrix A.
        is_sum: bool,
        this: AccessKind,
    },
    /// A descriptor that begins in a variable of shared memory and leads out of it, to these bytes.
    DescriptorLeaves {
        matrix: String,
        variable: String,
        from: u32,
        to: u32,
    },
    /// A descriptor whose swizzle is not that with which a tensor copy brought the tile.
    DescriptorSwizzle {
        matrix: String,
        descriptor: Swizzle,
        tile: Swizzle,
        copy: String,
    },
    /// A descriptor with an offset that is shorter than the part that it leads past.
    DescriptorOverlap {
        matrix: String,
        /// The offset that is too short: `stride` or `leading`.
        offset: String,
        distance: u32,
        needed: u32,
    },
    /// A shuffle reads a lane that takes no part.
    ReadsAbsentLane { lane: u32, members: u32 },
    /// A lane names members, and itself not among them.
    NotAMember { lane: u32, members: u32 },
    /// A part of a warpgroup executed `setmaxnreg`.
    SplitWarpgroup {},
    /// Threads passed a barrier for all because the others had exited.
    PartialBarrier {
        barrier: u32,
        passed: u32,
        threads: u32,
    },
    /// `free` of an address that `malloc` did not give, or that was freed before.
    InvalidFree {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        freed: Option<Place>,
    },
    /// Memory of the heap that nothing points to any more.
    Leak { bytes: u64 },
    /// Something depends on memory that nothing wrote. The second place has read it.
    Unwritten {
        dependent: Dependent,
        memory: MemoryPlace,
    },
    /// The output differs in a launch in which one circumstance differs.
    MachineDependence {
        circumstance: Circumstance,
        outcome: ElsewhereOutcome,
    },
}

impl Serialize for FindingEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Recorded(sentence) => serializer.serialize_str(sentence),
            event => Self::serialize(event, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for FindingEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FindingEventVisitor;
        impl<'de> Visitor<'de> for FindingEventVisitor {
            type Value = FindingEvent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event, or the sentence of an older record")
            }
            fn visit_str<E>(self, sentence: &str) -> Result<FindingEvent, E> {
                Ok(FindingEvent::Recorded(sentence.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FindingEvent, A::Error> {
                FindingEvent::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_any(FindingEventVisitor)
    }
}

/// Returns the schema of an event in a finding, which is a sentence in older records.
pub(super) fn event_schema(generator: &mut SchemaGenerator) -> Schema {
    let event = generator.subschema_for::<FindingEvent>();
    json_schema!({ "anyOf": [{ "type": "string" }, event] })
}

/// Bytes that two accesses share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum MemoryPlace {
    Shared {
        address: u64,
        /// The block that has the memory, if it may be another one of the cluster.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        block: Option<[u32; 3]>,
    },
    Local {
        address: u64,
    },
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

/// The access that meets an asynchronous copy under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CopyClash {
    /// A write where the copy may still read.
    WritesSource,
    /// Another `cp.async` to the same place.
    Copies,
    /// A `cp.async.bulk` to the same place.
    CopiesInBulk,
    Reads,
    Writes,
}

/// The access to registers of a `wgmma.mma_async` that nothing orders before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProductClash {
    /// No fence comes before the product at all.
    NoFence,
    /// An earlier product under way has the register in another role.
    OtherRole,
    /// An earlier product of another shape adds to the register.
    OtherShape,
    /// Another instruction has accessed the register since the last fence.
    Access,
}

/// What depends on a value that nothing wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Dependent {
    Branch,
    /// Whether an instruction executes.
    Execution,
    /// The form of an effect: members, a size, a mode.
    Effect,
    Address,
    Operand,
    Result,
    /// A tensor map that is published.
    TensorMap,
    /// Memory, at the end of the launch.
    Stored {
        name: String,
        byte: u64,
    },
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

/// The result of a launch in other circumstances, where it is not that of the first launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ElsewhereOutcome {
    /// A fault stopped it.
    Stopped { message: String },
    Differs {
        /// The first element that differs.
        at: Location,
        elements: u64,
    },
}
