//! Observations. Appended to a record in the order of observation, never changed.

use super::{
    Arch, Arithmetic, CaseId, CodeFacts, Counter, ElemType, Launch, Mode, Num, ProfileFacts,
    RivalFacts, Seen, UnitId, Work,
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
        /// Which architecture, for a case that the simulator runs for several; `None` for the one that this
        /// run's device is given, or that is the oldest.
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
    /// `Check` and `Simulation` of this seed are the results of an earlier run, which simulated the same code on the same
    /// data. No verdict depends on it.
    Reused {
        case: CaseId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arch: Option<Arch>,
        seed: u64,
        /// The start of that run: RFC 3339, UTC.
        since: String,
    },
    /// The driver's facts on an entry on this device, besides those of PTXAS.
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
    /// The machine code of a unit, where the base's is another. No verdict depends on it.
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
    /// The outputs of the reference for one seed: a digest of each.
    Reference {
        case: CaseId,
        seed: u64,
        outputs: BTreeMap<String, String>,
    },
    /// The base's reference on the inputs of head's, over all seeds.
    BaseReference {
        case: CaseId,
        facts: Seen<BaseReference>,
    },
    /// With parts of head's compiler in the base's, in the order of the exchanges. No verdict depends on it.
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
        /// The first case of the plan that asks the same ([`Plan::task_id`](super::Plan::task_id)): it stands
        /// for all of them.
        task: CaseId,
        /// Counted from 0, without gaps for each rival and task.
        process: u32,
        facts: Seen<RivalFacts>,
    },
}

impl Evidence {
    /// The evidence on the base revision alone; `None` where it is on head.
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
    /// It has no answer in the base's own tree to the base's own inputs either.
    Broken {
        /// The message of the compiler or of the reference.
        message: String,
    },
}

/// Head's reference compared with base's. One with the same program and inputs is not run, and adds
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReferenceComparison {
    pub elements: u64,
    /// Elements that are not the same bit for bit.
    pub differing: u64,
    /// With its seed, the largest difference: `got` is head's, `want` base's.
    pub largest: Option<(u64, Worst)>,
    /// The values that inputs unknown to base were set to, where the two agree at those and not at what they hold.
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
    /// Each side's samples; the batched ones are two for each block, in the order of the blocks. Facts on
    /// the process stand in both: clock, step and state of the GPU.
    pub head: TimeFacts,
    pub base: TimeFacts,
    pub blocks: Vec<Block>,
    /// Time that this process used the GPU for the case.
    pub device_us: u64,
}

/// Four samples right after one another, so that what drifts evenly cancels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    pub order: BlockOrder,
    /// SM clock right before the block.
    pub sm_mhz: Num,
    /// A thermal or hardware slowdown was active: neither side's samples count.
    pub throttled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockOrder {
    /// Head, base, base, head.
    Abba,
    /// Base, head, head, base.
    Baab,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BuildFacts {
    /// Content address of the artifact in the build cache.
    pub artifact: String,
    /// The entry, or for a launcher each entry that it declares, in the order declared.
    pub entries: Vec<EntryFacts>,
    /// Those that the host fills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constants: Vec<ConstantFacts>,
    /// Digest of what executes: machine code of the entries and of what they call, constants and
    /// relocations with names normalised, which tensors fill constants, and for a launcher its host code.
    pub identity: String,
    /// Digest of what the simulator executes: the PTX with the name of its entry, but for the architecture it
    /// is for and for where its lines come from. `None` of a launcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptx: Option<String>,
    pub warnings: Vec<String>,
    /// Tensors that the entries may read as something else. Found when the plan is known, and no part of the cache.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistyped: Vec<Mistyped>,
    /// How many kernels a compiled file has for the architecture, for the unit that stands for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<u32>,
    /// Says more where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingCode>,
}

/// A compiled file, or a library in it, that has no machine code for an architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MissingCode {
    /// How many kernels the older file had for the architecture, where that is why it was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub had: Option<u32>,
    pub has: CodeTargets,
}

/// The targets that a compiled file has code for, or a library in it.
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

/// A tensor whose elements are of another type than those that the entry's parameter points to. A kernel may mean it,
/// as bytes are bytes; one that is wrong most likely does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mistyped {
    /// As written in gates.yaml.
    pub entry: String,
    /// From 1.
    pub parameter: usize,
    /// `__nv_bfloat16 const*`
    pub takes: String,
    pub tensor: String,
    pub elem: ElemType,
    /// The type that gates.yaml would have to name, where there is just one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<ElemType>,
    /// `gates.yaml:12`, where the tensor's type is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryFacts {
    /// As written in gates.yaml.
    pub name: String,
    /// As in the cubin.
    pub symbol: String,
    /// `None` where no assembler has taken the PTX.
    pub resources: Option<Resources>,
    #[serde(default, skip_serializing_if = "LaunchBounds::is_none")]
    pub bounds: LaunchBounds,
}

/// The source's promise to PTXAS on every launch of an entry: `__launch_bounds__` and `__maxnreg__`. None where
/// the source has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaunchBounds {
    /// The most of a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// The fewest that an SM has to hold at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// The most of a thread.
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
    /// As written in gates.yaml.
    pub name: String,
    /// As in the cubin.
    pub symbol: String,
    pub bytes: u64,
}

/// The report of `ptxas -v` on one entry. Bytes unless said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Per thread.
    pub registers: u32,
    /// The largest frame among the entry's and those of the functions that PTXAS lists behind it.
    pub stack: Option<u32>,
    /// Spills are the entry's and those of all functions that PTXAS lists behind it, added up. A cubin that was made
    /// elsewhere does not always tell these three.
    pub spill_stores: Option<u32>,
    pub spill_loads: Option<u32>,
    pub static_shared: u32,
    /// Named barriers used.
    pub barriers: u32,
    pub cumulative_stack: Option<u32>,
    /// Bytes by bank number (`352 bytes cmem[0]`).
    pub constant_banks: BTreeMap<u32, u32>,
    /// Bytes of machine code. Known of compiled files alone, as is the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u64>,
    /// Instructions that load or store local memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_accesses: Option<u32>,
}

/// A GPU and its driver. Part of the keys of baselines.
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
    /// `580.159.04`.
    pub driver: String,
    /// The highest CUDA version that the driver supports, for example 13000.
    pub cuda_driver_version: u32,
    /// `default`, or `locked` where application or locked clocks are set.
    pub clock_policy: String,
    pub max_sm_mhz: Option<u32>,
}

/// One seed of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckFacts {
    /// Against the reference over the inputs as the kernel sees them. With several outputs `elements` and
    /// `non_finite` are sums, and every other figure is that of the output where it is worst.
    pub error: ErrorFacts,
    /// Against the reference over the inputs before quantisation; only where an input has a codec.
    pub original: Option<ErrorFacts>,
    /// The error of that second reference against the first.
    pub codec: Option<ErrorFacts>,
    /// Launches on the same data, compared bit for bit. The simulator repeats every bit by construction, and launches
    /// again only where a launch left something in variables of the module.
    pub launches: u32,
    /// The first launch whose output differs from the first one's, and where.
    pub differs: Option<Difference>,
    /// Elements that still hold the poison after a launch, and the first of them.
    pub unwritten: u64,
    pub first_unwritten: Option<Location>,
    /// Names of inputs whose bytes changed.
    pub clobbered_inputs: Vec<String>,
    /// Writes outside a buffer that did not fault, found in the guards around it: `y: 4 bytes past its end`.
    pub overruns: Vec<String>,
    /// The variables of the module in which the first launch left something, and what launches on that showed. `None`
    /// where it left nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<KeptFacts>>,
}

/// Launches on what an earlier launch left in variables of the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptFacts {
    pub variables: Vec<KeptVariable>,
    /// The first launch whose output is not what it is without what was left.
    pub differs: Option<KeptDifference>,
}

/// A variable that a launch leaves with another content than it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeptVariable {
    /// As in the source where that is known, else as in the PTX.
    pub name: String,
    /// The place that writes it; only the simulator knows.
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
    /// The data of the first one. Counted from 1, which is the first.
    Same { launch: u32 },
    /// The data of another seed.
    Other { seed: u64 },
}

/// The facts of one simulated launch besides its outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulationFacts {
    /// The findings of the checks of memory, races and synchronisation.
    pub findings: Vec<Finding>,
    /// Cases that those checks could not judge.
    pub not_judged: Vec<String>,
    /// Counters whose value the counters of a GPU have confirmed, and nothing in this launch puts in doubt.
    /// They alone are gated.
    pub counters: BTreeMap<Counter, u64>,
    /// The others, for the reader.
    pub information: BTreeMap<Counter, u64>,
    /// Counters that can be gated in general, but not for this launch.
    pub withheld: BTreeMap<Counter, Withheld>,
    /// For each counter the source lines that count most of it, the largest first, a few of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<Counter, Vec<LineCount>>,
    /// Arithmetic, for the reader.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub computed: BTreeMap<Arithmetic, Work>,
    /// `None` where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Printed>,
}

/// The output of the kernel's `printf` in one launch, in the order of the simulator's schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The start of it, as it was written.
    pub text: String,
    /// Bytes after that start which are not kept.
    pub left_out: u64,
}

/// Why no gate can rest on a counter of one launch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Withheld {
    pub doubt: Doubt,
    /// The first source line that gives it: `kernels/k.cu:12`.
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
    /// Returns true if simulated values of two launches can still be compared: the assembler or the GPU makes something
    /// else of some accesses, and the simulator executed all of them. After a loop that polls, the count follows from
    /// the schedule alone, and nothing at all is known of a form of access that was never compared.
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
    /// `kernels/k.cu:12`.
    pub place: String,
    pub count: u64,
    /// As it stood when the run ended; `None` where it could not be read.
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

/// Where an instruction comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// `kernels/k.cu:12 inlined at kernels/k.cu:40`, as messages have it.
    pub at: String,
    /// The innermost line that is the user's own; `None` where the compiler named none.
    pub line: Option<SourceLine>,
    /// The calls by which `line` was inlined, the outermost last. They end where the compiler leaves open which one it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<SourceLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceLine {
    /// Relative to gates.yaml where it is below it: `kernels/k.cu`.
    pub file: String,
    /// From 1.
    pub number: u32,
    /// As it stood when the run ended; `None` where it could not be read.
    pub text: Option<String>,
}

named! {
/// The effect of an instruction on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AccessKind {
    Read = "read",
    Write = "write",
    /// An atomic operation.
    Update = "update",
    /// An asynchronous copy.
    Copy = "copy",
    /// None: a barrier, a shuffle.
    Other = "other",
}
}

/// The part that a place has in a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Access {
    pub kind: AccessKind,
    /// The first thread seen to do it. `None` where nobody kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<[u32; 3]>,
    /// The block of that thread. `None` where nobody kept it, and in a record that is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<[u32; 3]>,
    /// How it follows the other access of a race. `None` where nothing but the missing order lies between their lines.
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

/// Something wrong that did not stop a simulated launch: all of a kind between the same source lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    pub kind: FindingKind,
    /// As written in gates.yaml; `None` where the case launches just one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// The message of the first, in full, with places, block, thread and address.
    pub message: String,
    /// The places of the access, and of the other one where there are two.
    pub places: Vec<Place>,
    /// One for each place. None in a record that is older than they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accesses: Vec<Access>,
    /// Where it was seen first.
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub address: Option<u64>,
    pub times: u64,
}

/// The simulator that executed kernels where there is no GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Simulator {
    /// Grows whenever the same launch may count differently than before.
    pub counter_model: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorFacts {
    /// Those that are compared.
    pub elements: u64,
    /// Those that gates.yaml leaves out of the comparison.
    pub left_out: u64,
    /// Elements on whose being a number the two disagree: NaN or infinite where the reference is finite,
    /// or anything but the same infinity where it is not. Counted first; the rest is over the others,
    /// and NaN where there are none.
    pub non_finite: u64,
    pub max_err: Num,
    pub mean_err: Num,
    pub rel_l2: Num,
    /// Share of elements for which `!(err <= tolerance)`, non-finite ones included.
    pub over_tolerance: Option<Num>,
    /// The first non-finite element if there is one, else the one with the largest error.
    pub worst: Option<Box<Worst>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worst {
    pub at: Location,
    pub got: Num,
    pub want: Num,
    /// What differs in captured memory, as floats.
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
    /// The element where they differ most, from where the parameter points.
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
    /// One index for each dimension.
    pub index: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Counted from 1; launch 1 is what the others are compared with.
    pub launch: u32,
    pub at: Location,
    pub elements: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverFacts {
    /// Entries in the order of the unit; for a launcher those read back from a captured graph.
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
    /// cuOccupancyMaxActiveBlocksPerMultiprocessor for this launch.
    pub blocks_per_sm: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeFacts {
    pub mode: Mode,
    /// Launches of one batched sample (1 where nothing is batched).
    pub launches_per_sample: u32,
    /// Each the GPU time of one whole batched sample, in order of measurement.
    pub batched_ns: Vec<u64>,
    /// Each the GPU time between two events around a single launch, in order of measurement.
    pub single_ns: Vec<u64>,
    /// Smallest step seen between event times.
    pub tick_ns: u64,
    /// GPU time of an empty graph launch, measured in the same process; not subtracted.
    pub empty_graph_ns: u64,
    pub gpu: GpuState,
}

/// The GPU's own state while one case was timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GpuState {
    /// From a clock64/globaltimer kernel right before and right after the batched samples.
    pub sm_mhz_before: Option<Num>,
    pub sm_mhz_after: Option<Num>,
    pub temperature_c: Option<u32>,
    pub power_w: Option<Num>,
    /// NVML's reasons that were active, by name, sorted; `None` where NVML does not tell.
    pub throttle_reasons: Option<Vec<String>>,
    /// A thermal or hardware slowdown was among them. False, too, where they are not known.
    pub throttled: bool,
    /// Other processes that computed on this GPU meanwhile; `None` where NVML does not tell.
    pub other_processes: Option<Vec<OtherProcess>>,
}

/// A process that computes on the same GPU, as NVML lists it. Where a container has its own process ids
/// NVML lists none, or those of the host, which mean nothing there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OtherProcess {
    /// `None` where only their number is known.
    pub pid: Option<u32>,
    /// The name of its program, without the path.
    pub name: Option<String>,
}

impl OtherProcess {
    /// Everyone of two looks once; of those without an id, as many as the look that saw more of them.
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
    /// `13.0.88`.
    pub version: String,
    /// Digest of nvcc, cicc and ptxas.
    pub digest: String,
    /// `g++ (Debian 12.2.0-14) 12.2.0`.
    pub host: String,
}

impl DeviceFacts {
    /// `sm_90` for compute capability 9.0.
    pub fn arch(&self) -> Arch {
        Arch {
            major: self.major,
            minor: self.minor,
            suffix: None,
        }
    }

    /// `580` of `580.159.04`.
    pub fn driver_branch(&self) -> &str {
        self.driver.split('.').next().unwrap_or(&self.driver)
    }
}
