//! The observations of a run. They are appended to a record in the order of observation, and never changed.

use super::{
    Arch, Arithmetic, CaseId, CodeFacts, Counter, ElemType, FindingEvent, Launch, Mode, Num,
    ProfileFacts, RivalFacts, Seen, UnitId, Work,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Evidence {
    Build {
        unit: UnitId,
        facts: Seen<BuildFacts>,
    },
    Check {
        case: CaseId,
        /// The architecture, for a case that the simulator runs for several. `None` for the one that this run's device
        /// executes, or that is the oldest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arch: Option<Arch>,
        seed: u64,
        facts: Seen<CheckFacts>,
    },
    /// One seed of one case in the simulator, in addition to its `Check`.
    Simulation {
        case: CaseId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arch: Option<Arch>,
        seed: u64,
        facts: Seen<SimulationFacts>,
    },
    /// Says that the `Check` and `Simulation` of this seed are the results of an earlier run, which simulated the same
    /// code on the same data. No verdict depends on it.
    Reused {
        case: CaseId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arch: Option<Arch>,
        seed: u64,
        /// The start of that run: RFC 3339, UTC.
        since: String,
    },
    /// The driver's facts about an entry on this device, in addition to those of PTXAS.
    Driver {
        case: CaseId,
        facts: Seen<DriverFacts>,
    },
    /// One case in one timing process.
    Time {
        case: CaseId,
        /// Counted from 0, without gaps for each case.
        process: u32,
        facts: Seen<TimeFacts>,
    },
    /// The machine code of a unit, if the base's differs. No verdict depends on it.
    Code {
        unit: UnitId,
        facts: Seen<CodeFacts>,
    },
    /// One case under a profiler, in a process of its own that times nothing.
    Profile {
        case: CaseId,
        /// Counted from 0, without gaps for each case.
        repeat: u32,
        facts: Seen<ProfileFacts>,
    },
    /// A digest of each output that the reference computed for one seed.
    Reference {
        case: CaseId,
        seed: u64,
        outputs: BTreeMap<String, String>,
    },
    /// The base's reference on head's inputs, over all seeds.
    BaseReference {
        case: CaseId,
        facts: Seen<BaseReference>,
    },
    /// A run with parts of head's compiler in the base's, in the order of the exchanges. No verdict depends on it.
    Exchange(super::Exchange),
    /// Evidence on the base revision, which runs from its own tree on the same device.
    Base(Box<Evidence>),
    /// One case of head and of base, side by side in one timing process.
    Pair {
        case: CaseId,
        /// Counted from 0, without gaps for each case.
        process: u32,
        facts: Seen<PairFacts>,
    },
    /// One process of a rival, right after a round of timing processes.
    Rival {
        rival: String,
        /// The first case of the plan that asks for the same work ([`Plan::task_id`](super::Plan::task_id)). It stands
        /// for all of them.
        task: CaseId,
        /// Counted from 0, without gaps for each rival and task.
        process: u32,
        facts: Seen<RivalFacts>,
    },
}

impl Evidence {
    /// Returns the evidence if it is about the base revision, and `None` if it is about head.
    pub fn as_base(&self) -> Option<&Self> {
        match self {
            Self::Base(piece) => Some(piece),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BaseReference {
    Compared(ReferenceComparison),
    /// The reference gives no answer in the base's own tree to the base's own inputs either.
    Broken {
        /// The message of the compiler or of the reference.
        message: String,
    },
}

/// Head's reference compared with the base's. A reference with the same program and inputs is not run, and adds
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReferenceComparison {
    pub elements: u64,
    /// The number of elements that differ in any bit.
    pub differing: u64,
    /// The largest difference with its seed: `got` is head's, `want` the base's.
    pub largest: Option<(u64, Worst)>,
    /// The values of inputs that the base does not know at which the two references agree, if they do not agree at the
    /// actual values.
    pub neutral: Vec<NeutralInput>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeutralInput {
    pub tensor: String,
    pub value: Num,
}

/// Head and base on the same buffers in one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PairFacts {
    /// The samples of each side. There are two batched samples for each block, in the order of the blocks. Both sides
    /// also have the facts about the process: clock, step and state of the GPU.
    pub head: TimeFacts,
    pub base: TimeFacts,
    pub blocks: Vec<Block>,
    /// The time in us that this process used the GPU for the case.
    pub device_us: u64,
}

/// Four samples in direct succession, so that a steady drift cancels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    pub order: BlockOrder,
    /// The SM clock right before the block.
    pub sm_mhz: Num,
    /// True if a thermal or hardware slowdown was active. Neither side's samples then count.
    pub throttled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockOrder {
    /// The order head, base, base, head.
    Abba,
    /// The order base, head, head, base.
    Baab,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildFacts {
    /// The content address of the artifact in the build cache.
    pub artifact: String,
    /// The entry, or for a launcher each entry that it declares, in the order declared.
    pub entries: Vec<EntryFacts>,
    /// The constants that the host fills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<ConstantFacts>,
    /// The digest of what executes: machine code of the entries and of what they call, constants and relocations with
    /// names normalised, which tensors fill constants, and for a launcher its host code.
    pub identity: String,
    /// The digest of what the simulator executes: the PTX with the name of its entry, without the architecture it is
    /// for and without the origin of its lines. `None` for a launcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptx: Option<String>,
    pub warnings: Vec<String>,
    /// Tensors that the entries may read as another type. They are found when the plan is known, and are no part of the
    /// cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistyped: Vec<Mistyped>,
    /// The number of kernels that a compiled file has for the architecture. Only on the unit that stands for all of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<u32>,
    /// Why a compiled file has no code for the architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingCode>,
}

/// A compiled file, or a library in it, that has no machine code for an architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MissingCode {
    /// The number of kernels that the older file had for the architecture, if the code was expected for that reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub had: Option<u32>,
    pub has: CodeTargets,
}

/// The targets that a compiled file, or a library in it, has code for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeTargets {
    pub machine_code: BTreeSet<Arch>,
    pub ptx: BTreeSet<Arch>,
}

impl CodeTargets {
    /// Returns true if some machine code counts as code for this architecture.
    pub fn answer(&self, asked: Arch) -> bool {
        self.machine_code.iter().any(|own| own.answers(asked))
    }
}

/// A tensor whose elements have another type than those that the entry's parameter points to. A kernel may intend that,
/// because bytes are bytes. A kernel that is wrong most likely does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mistyped {
    /// The entry as written in gates.yaml.
    pub entry: String,
    /// The number of the parameter, counted from 1.
    pub parameter: usize,
    /// The type of the parameter: `__nv_bfloat16 const*`.
    pub takes: String,
    pub tensor: String,
    pub elem: ElemType,
    /// The type that gates.yaml would have to name, if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<ElemType>,
    /// Where the tensor's type is declared: `gates.yaml:12`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryFacts {
    /// The name as written in gates.yaml.
    pub name: String,
    /// The symbol as in the cubin.
    pub symbol: String,
    /// `None` if no assembler has accepted the PTX.
    pub resources: Option<Resources>,
    #[serde(default, skip_serializing_if = "LaunchBounds::is_none")]
    pub bounds: LaunchBounds,
}

/// The promises that the source makes PTXAS about every launch of an entry: `__launch_bounds__` and `__maxnreg__`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchBounds {
    /// The greatest number of threads of a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The least number of blocks that an SM has to hold at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// The greatest number of registers of a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
}

impl LaunchBounds {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A `__constant__` variable of the machine code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConstantFacts {
    /// The name as written in gates.yaml.
    pub name: String,
    /// The symbol as in the cubin.
    pub symbol: String,
    pub bytes: u64,
}

/// The report of `ptxas -v` on one entry, in bytes unless the field says otherwise.
///
/// PTXAS prints the lines of an entry, and after them those of the functions that it calls and did not inline. `stack`
/// is therefore the largest of these frames, and the spills are summed over all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// The number of registers of a thread.
    pub registers: u32,
    /// The largest stack frame among the entry's and those of the functions that PTXAS lists after it.
    pub stack: Option<u32>,
    /// Bytes of spill stores of the entry and of all functions that PTXAS lists after it. A cubin that was made
    /// elsewhere does not always tell `stack` and the spills.
    pub spill_stores: Option<u32>,
    pub spill_loads: Option<u32>,
    pub static_shared: u32,
    /// The number of named barriers of the kernel.
    pub barriers: u32,
    pub cumulative_stack: Option<u32>,
    /// Bytes by bank number (`352 bytes cmem[0]`).
    pub constant_banks: BTreeMap<u32, u32>,
    /// Bytes of machine code. Like the next field, only known for compiled files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u64>,
    /// The number of instructions that load or store local memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_accesses: Option<u32>,
}

/// A GPU and its driver. They are part of the keys of baselines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    pub ordinal: u32,
    pub name: String,
    pub uuid: String,
    pub major: u8,
    pub minor: u8,
    pub multiprocessors: u32,
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    /// The version of the driver: `580.159.04`.
    pub driver: String,
    /// The highest CUDA version that the driver supports, for example 13000.
    pub cuda_driver_version: u32,
    /// `default`, or `locked` if application or locked clocks are set.
    pub clock_policy: String,
    pub max_sm_mhz: Option<u32>,
}

/// The facts of one seed of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckFacts {
    /// The error against the reference over the inputs as the kernel sees them. With several outputs `elements` and
    /// `non_finite` are sums, and every other value is that of the worst output.
    pub error: ErrorFacts,
    /// The error against the reference over the inputs before quantisation. Only if an input has a codec.
    pub original: Option<ErrorFacts>,
    /// The error of that second reference against the first.
    pub codec: Option<ErrorFacts>,
    /// The number of launches on the same data whose outputs were compared bit for bit. The simulator repeats every bit
    /// by construction. It launches again only if a launch left something in variables of the module.
    pub launches: u32,
    /// The first launch whose output differs from the first one's, and where.
    pub differs: Option<Difference>,
    /// The number of elements that still hold the poison after a launch, and the first of them.
    pub unwritten: u64,
    pub first_unwritten: Option<Location>,
    /// The names of inputs whose bytes changed.
    pub clobbered_inputs: Vec<String>,
    /// Writes outside a buffer that did not fault, found in the guards around it: `y: 4 bytes past its end`.
    pub overruns: Vec<String>,
    /// The variables of the module in which the first launch left something, and what later launches showed. `None` if
    /// it left nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<KeptFacts>>,
}

/// Launches that find what an earlier launch left in variables of the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptFacts {
    pub variables: Vec<KeptVariable>,
    /// The first launch whose output differs from the one that it has without these values.
    pub differs: Option<KeptDifference>,
}

/// A variable that a launch leaves with another content than it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptVariable {
    /// The name as in the source if it is known, and else as in the PTX.
    pub name: String,
    /// The instruction that writes the variable. Only the simulator knows it.
    pub place: Option<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptDifference {
    pub over: LaterData,
    pub at: Location,
    pub elements: u64,
}

/// The data that a later launch computes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum LaterData {
    /// The data of the first launch again. `launch` is counted from 1, which is the first.
    Same { launch: u32 },
    /// The data that follows from another seed.
    Other { seed: u64 },
}

/// The facts of one simulated launch other than its outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulationFacts {
    /// The findings of the checks of memory, races and synchronisation.
    pub findings: Vec<Finding>,
    /// Accesses that those checks could not judge.
    pub not_judged: Vec<String>,
    /// Counters whose values the counters of a GPU have confirmed, and that nothing in this launch puts in doubt. Only
    /// these are gated.
    pub counters: BTreeMap<Counter, u64>,
    /// The counters that are not gated, for readers.
    pub information: BTreeMap<Counter, u64>,
    /// Counters that can be gated in general, but not for this launch.
    pub withheld: BTreeMap<Counter, Withheld>,
    /// For each counter a few of the source lines that count most of it, the largest first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<Counter, Vec<LineCount>>,
    /// The arithmetic of the launch, for readers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub computed: BTreeMap<Arithmetic, Work>,
    /// `None` if the kernel printed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Printed>,
}

/// The output of the kernel's `printf` in one launch, in the order of the simulator's schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The beginning of the output, as it was written.
    pub text: String,
    /// The number of bytes after it that are not kept.
    pub left_out: u64,
}

/// Why no gate can rest on a counter of one launch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Withheld {
    pub doubt: Doubt,
    /// The first source line that causes it: `kernels/k.cu:12`.
    pub place: String,
}

named! {
/// A property of a launch that a GPU is not known to count as the simulator does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Doubt {
    /// A loop polls memory: how often it turns follows from a schedule that no GPU shares.
    Polls = "polls",
    /// A form of access that was never compared with a GPU.
    Uncompared = "uncompared",
    /// Lanes of a warp leave a loop in different turns, and the assembler unrolls it its own way.
    RaggedLoop = "ragged_loop",
    /// Accesses that the assembler may make into one.
    Joined = "joined",
    /// Wide asynchronous copies of other than whole sectors.
    SplitCopy = "split_copy",
    /// A fragment is loaded with a stride of 0, of which the assembler may keep a part.
    ZeroStride = "zero_stride",
    /// Products for which the assembler adds an empty one, or of which it may drop one.
    AlteredProducts = "altered_products",
}
}

impl Doubt {
    /// Returns true if simulated values of two launches can still be compared. The assembler or the GPU changes some
    /// accesses, but the simulator executed all of them. After a loop that polls, the count depends only on the
    /// schedule, and nothing is known about a form of access that was never compared.
    pub fn keeps_order(self) -> bool {
        match self {
            Self::Polls | Self::Uncompared => false,
            Self::RaggedLoop
            | Self::Joined
            | Self::SplitCopy
            | Self::ZeroStride
            | Self::AlteredProducts => true,
        }
    }
}

/// The count of one source line in a launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineCount {
    /// The source line that is counted: `kernels/k.cu:12`.
    pub place: String,
    pub count: u64,
    /// The text of the line when the run ended, or `None` if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl LineCount {
    /// Splits `kernels/k.cu:12 inlined at k.cu:40` into file and number.
    pub fn line(&self) -> Option<(&str, u32)> {
        let (file, number) = self.place.split(' ').next()?.rsplit_once(':')?;
        Some((file, number.parse().ok()?))
    }
}

named! {
/// The findings of the simulator's checks, the gravest first: wrong data before order that is left to
/// luck.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum FindingKind {
    /// Data of an asynchronous copy is used before the wait for it, or overwritten by another copy.
    AsyncBeforeWait = "async_before_wait",
    /// Shared memory of another block of the cluster is accessed, and that block may have ended.
    ExitedBlock = "exited_block",
    /// Something depends on a value that nothing wrote.
    Uninitialised = "uninitialised",
    /// An output depends on the machine or the moment: a multiprocessor's number, a clock, an address.
    MachineDependence = "machine_dependence",
    /// A warp-wide instruction names other lanes than those that take part.
    InvalidMembers = "invalid_members",
    /// A descriptor of a matrix in shared memory does not fit the tile that it leads to.
    WrongLayout = "wrong_layout",
    /// `free` of what `malloc` did not give, or gave and took back.
    InvalidFree = "invalid_free",
    SharedRace = "shared_race",
    GlobalRace = "global_race",
    /// A barrier was passed without threads of the block that had ended.
    BarrierByPart = "barrier_by_part",
    /// Lanes of one warp in different branches or iterations, and no `__syncwarp()` between them.
    WarpRace = "warp_race",
    /// Lanes of one warp in one instruction stream, and no `__syncwarp()` between them.
    WarpHazard = "warp_hazard",
    /// Memory from `malloc` that nobody freed, with no pointer left to it.
    Leak = "leak",
}
}

/// The origin of an instruction in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The origin in the form of messages: `kernels/k.cu:12 inlined at kernels/k.cu:40`.
    pub at: String,
    /// The innermost line of the user's own code, or `None` if the compiler named none.
    pub line: Option<SourceLine>,
    /// The calls by which `line` was inlined, the outermost last. They end where the compiler leaves open which call it
    /// is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<SourceLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceLine {
    /// The path, relative to gates.yaml if the file is below it: `kernels/k.cu`.
    pub file: String,
    /// The line number, counted from 1.
    pub number: u32,
    /// The text of the line when the run ended, or `None` if it could not be read.
    pub text: Option<String>,
}

named! {
/// The effect of an instruction on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessKind {
    Read = "read",
    Write = "write",
    /// A read and a write in one, by an atomic operation.
    Update = "update",
    /// A copy that goes on after its instruction.
    Copy = "copy",
    /// No access to memory: a barrier or a shuffle, for example.
    Other = "other",
}
}

/// The role of a place in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Access {
    pub kind: AccessKind,
    /// The first thread that was seen to do it, or `None` if nobody recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<[u32; 3]>,
    /// The block of that thread. `None` if nobody recorded it, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// How the access follows the other access of a race. `None` if only the missing order separates their lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
}

named! {
/// How an access comes after another one whose line may stand below its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Follows {
    /// It belongs to a later call of a function.
    NextCall = "next_call",
    /// It belongs to a later turn of a loop.
    NextTurn = "next_turn",
}
}

/// Something wrong that did not stop a simulated launch. It covers all events of one kind between the same source
/// lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    pub kind: FindingKind,
    /// The entry as written in gates.yaml. `None` if the case launches only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The first event. Older records have a sentence instead, under the key `message`.
    #[serde(alias = "message")]
    pub event: FindingEvent,
    /// The number of the launch, counted from 1. `None` for the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<u32>,
    /// The place of the access, and that of the other access if there are two.
    pub places: Vec<Place>,
    /// One access for each place. Older records have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<Access>,
    /// The block in which it was seen first.
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub address: Option<u64>,
    pub times: u64,
}

/// The simulator that executed kernels instead of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulator {
    /// Grows whenever the same launch may count differently than before.
    pub counter_model: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorFacts {
    /// The number of elements that are compared.
    pub elements: u64,
    /// The number of elements that gates.yaml leaves out of the comparison.
    pub left_out: u64,
    /// The number of elements for which output and reference disagree about being a number: the output is NaN or
    /// infinite and the reference finite, or the reference is not finite and the output is not the same infinity. They
    /// are counted first. The other values are over the remaining elements, and NaN if none remain.
    pub non_finite: u64,
    pub max_err: Num,
    pub mean_err: Num,
    pub rel_l2: Num,
    /// The share of elements for which `!(err <= tolerance)`, non-finite ones included.
    pub over_tolerance: Option<Num>,
    /// The first non-finite element if there is one, and else the element with the largest error.
    pub worst: Option<Box<Worst>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worst {
    pub at: Location,
    pub got: Num,
    pub want: Num,
    /// The differences in captured memory, read as floats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Box<Reading>>,
    /// Where the first infinity and the first NaN of the launch arose, if the value is not finite and was simulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arose: Vec<Arose>,
}

/// Arithmetic of a simulated launch whose result is infinite or NaN, though no operand is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arose {
    pub is_nan: bool,
    pub place: Place,
    pub block: [u32; 3],
    pub thread: [u32; 3],
}

/// Differing words of captured memory, read as floats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The parameter that leads to them, counted from 1.
    pub parameter: Option<u32>,
    pub elem: ElemType,
    /// The element that differs most, counted from where the parameter points.
    pub index: u64,
    pub got: Num,
    pub want: Num,
    /// The largest difference, as a share of the larger value.
    pub share: Num,
    /// The largest difference, in units in the last place.
    pub units: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Location {
    pub tensor: String,
    /// The index of the element, one number for each dimension.
    pub index: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The number of the launch, counted from 1. The others are compared with launch 1.
    pub launch: u32,
    pub at: Location,
    pub elements: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverFacts {
    /// The entries in the order of the unit. For a launcher they are read back from a captured graph.
    pub entries: Vec<DriverEntry>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverEntry {
    pub symbol: String,
    pub launch: Launch,
    pub registers: u32,
    pub static_shared: u32,
    pub local: u32,
    /// The result of cuOccupancyMaxActiveBlocksPerMultiprocessor for this launch.
    pub blocks_per_sm: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeFacts {
    pub mode: Mode,
    /// The number of launches in one batched sample, 1 if nothing is batched.
    pub launches_per_sample: u32,
    /// The GPU time of each batched sample as a whole, in order of measurement.
    pub batched_ns: Vec<u64>,
    /// The GPU time between two events around each single launch, in order of measurement.
    pub single_ns: Vec<u64>,
    /// The smallest step seen between event times.
    pub tick_ns: u64,
    /// The GPU time of an empty graph launch in the same process. It is not subtracted.
    pub empty_graph_ns: u64,
    pub gpu: GpuState,
}

/// The state of the GPU while one case was timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuState {
    /// The SM clock from a clock64/globaltimer kernel right before and right after the batched samples.
    pub sm_mhz_before: Option<Num>,
    pub sm_mhz_after: Option<Num>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<Num>,
    /// The names of NVML's reasons that were active, sorted. `None` if NVML does not tell.
    pub throttle_reasons: Option<Vec<String>>,
    /// True if a thermal or hardware slowdown was among them. False if they are unknown.
    pub throttled: bool,
    /// Other processes that computed on this GPU meanwhile, or `None` if NVML does not tell.
    pub other_processes: Option<Vec<OtherProcess>>,
}

/// A process that computes on the same GPU, as NVML lists it. In a container with process ids of its own, NVML lists
/// none, or those of the host, which mean nothing there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherProcess {
    /// `None` if only their number is known.
    pub pid: Option<u32>,
    /// The name of its program, without the path.
    pub name: Option<String>,
}

impl OtherProcess {
    /// Merges the processes that two looks saw, each once. Of processes without an id, as many are kept as the look
    /// that saw more of them.
    pub fn together(all: Vec<Self>, more: Vec<Self>) -> Vec<Self> {
        let apart = |all: Vec<Self>| -> (Vec<_>, Vec<_>) {
            all.into_iter().partition(|process| process.pid.is_some())
        };
        let ((mut together, hidden), (others, more_hidden)) = (apart(all), apart(more));
        together.extend(others);
        together.sort();
        together.dedup_by(|a, b| a.pid == b.pid);
        together.extend(if hidden.len() >= more_hidden.len() {
            hidden
        } else {
            more_hidden
        });
        together
    }
}

impl fmt::Display for OtherProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.name) {
            (Some(pid), Some(name)) => write!(f, "{name} (pid {pid})"),
            (Some(pid), None) => write!(f, "pid {pid}"),
            (None, Some(name)) => f.write_str(name),
            (None, None) => f.write_str("one that is not shown here"),
        }
    }
}

/// The compiler that built everything of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompilerFacts {
    /// The version of nvcc, for example `13.0.88`.
    pub version: String,
    /// The digest of nvcc, cicc and ptxas.
    pub digest: String,
    /// The host compiler: `g++ (Debian 12.2.0-14) 12.2.0`.
    pub host: String,
}

impl DeviceFacts {
    /// Returns the architecture: `sm_90` for compute capability 9.0.
    pub fn arch(&self) -> Arch {
        Arch {
            major: self.major,
            minor: self.minor,
            suffix: None,
        }
    }

    /// Returns the branch of the driver: `580` for `580.159.04`.
    pub fn driver_branch(&self) -> &str {
        self.driver.split('.').next().unwrap_or(&self.driver)
    }
}
