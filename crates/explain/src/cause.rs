use super::counts::Counted;
use model::{CodeLine, Counter, InstructionKind, Num, ProfileMetric, Stall};
use serde::Serialize;

/// One reason why head is not what base is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    pub class: CauseClass,
    /// Where in the source, the most telling line first. None where it is no matter of lines.
    pub places: Vec<CausePlace>,
    /// The values that show it.
    pub figures: Vec<Figure>,
    /// The part of the slowdown that it can account for, where that can be known.
    pub share: Option<Num>,
    /// Orders causes and means nothing else: about how many cycles it adds to a warp, with a guess for the turns of
    /// loops.
    #[serde(skip)]
    pub weight: f64,
}

impl Cause {
    pub fn new(class: CauseClass, weight: f64) -> Self {
        Self {
            class,
            places: Vec::new(),
            figures: Vec::new(),
            share: None,
            weight,
        }
    }

    pub fn at(mut self, places: impl IntoIterator<Item = CausePlace>) -> Self {
        self.places.extend(places);
        self
    }

    /// Adds the simulator's count.
    pub fn with_count(self, counter: Counter, counted: Counted) -> Self {
        self.with(Measure::Counter(counter), counted.base, counted.head)
    }

    pub fn with(mut self, measure: Measure, base: impl Into<f64>, head: impl Into<f64>) -> Self {
        self.figures.push(Figure {
            measure,
            base: Num(base.into()),
            head: Num(head.into()),
        });
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceSide {
    Head,
    /// A place that head no longer has.
    Base,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CausePlace {
    pub of: PlaceSide,
    pub line: CodeLine,
    /// The source text there, where it is known.
    pub text: Option<String>,
}

/// A figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    pub measure: Measure,
    pub base: Num,
    pub head: Num,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Instructions in the machine code, at the places of the cause.
    Code(InstructionKind),
    /// All of them.
    CodeSize,
    /// Calls of a function, at the places of the cause.
    Calls(String),
    /// The step by which one turn of a loop moves its counter.
    Step,
    /// Instructions of one turn, without loops in it.
    LoopSize,
    /// Arithmetic around a special function, at the places of the cause.
    Around,
    /// Accesses to memory under a condition, at the places of the cause.
    PredicatedAccesses,
    /// Per thread.
    Registers,
    /// Bytes of one thread.
    Stack,
    SpillStores,
    SpillLoads,
    /// Bytes of a block, static and dynamic.
    Shared,
    /// A counter of the simulator or of a profile, over all of a launch.
    Counter(Counter),
    /// Resident warps of an SM, of all that it can hold.
    Occupancy,
    BlocksPerSm,
    Blocks,
    ThreadsPerBlock,
    /// How often the GPU is filled with blocks.
    Waves,
    SmMhz,
    /// Cycles that a warp spends in this state for each instruction that it issues, by a profile.
    Stall(Stall),
    /// The GPU's own counter, over a launch.
    Profile(ProfileMetric),
}

/// The kind of reason. Names are stable: programs match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseClass {
    BarrierAdded,
    UnrollLost,
    VectorAccessNarrowed,
    CoalescingLost,
    BankConflicts,
    OccupancyRegisters,
    OccupancyShared,
    Spills,
    LocalArray,
    Divergence,
    DoublePrecision,
    SlowDivision,
    SlowSpecialFunction,
    L2Reuse,
    TailWave,
    AtomicsContended,
    /// Memory is read again because the compiler cannot know that nobody wrote it meanwhile.
    Reload,
    AsyncCopySynchronous,
    /// A value that does not change in a loop is computed or read in every turn.
    LoopInvariant,
    LaunchBound,
    /// Accesses under a condition where they had none.
    PredicatedAccess,
    /// Data that was kept in shared memory is read from global memory every time.
    StagingLost,
    MoreInstructions,
    /// More is read from global memory or written there, in accesses as good as before.
    MoreTraffic,
    /// The tensors, seeds or arguments of the case are other ones.
    Data,
    Launch,
    Compiler,
    Driver,
    Clocks,
    /// The machine code is another one, and nothing that is known of it says that it is slower.
    CodeChanged,
    /// Machine code, launch, arguments, compiler, GPU and driver are the same.
    NothingChanged,
}

impl CauseClass {
    pub const ALL: [Self; 31] = [
        Self::BarrierAdded,
        Self::UnrollLost,
        Self::VectorAccessNarrowed,
        Self::CoalescingLost,
        Self::BankConflicts,
        Self::OccupancyRegisters,
        Self::OccupancyShared,
        Self::Spills,
        Self::LocalArray,
        Self::Divergence,
        Self::DoublePrecision,
        Self::SlowDivision,
        Self::SlowSpecialFunction,
        Self::L2Reuse,
        Self::TailWave,
        Self::AtomicsContended,
        Self::Reload,
        Self::AsyncCopySynchronous,
        Self::LoopInvariant,
        Self::LaunchBound,
        Self::PredicatedAccess,
        Self::StagingLost,
        Self::MoreInstructions,
        Self::MoreTraffic,
        Self::Data,
        Self::Launch,
        Self::Compiler,
        Self::Driver,
        Self::Clocks,
        Self::CodeChanged,
        Self::NothingChanged,
    ];

    /// Classes that bring this one about.
    pub fn origins(self) -> &'static [Self] {
        match self {
            Self::LoopInvariant | Self::Reload => &[Self::StagingLost, Self::Spills],
            Self::StagingLost => &[Self::AsyncCopySynchronous],
            Self::MoreTraffic => &[
                Self::VectorAccessNarrowed,
                Self::Reload,
                Self::LoopInvariant,
                Self::StagingLost,
                Self::AsyncCopySynchronous,
            ],
            Self::OccupancyRegisters => &[Self::LaunchBound],
            _ => &[],
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::BarrierAdded => "barrier-added",
            Self::UnrollLost => "unroll-lost",
            Self::VectorAccessNarrowed => "vector-access-narrowed",
            Self::CoalescingLost => "coalescing-lost",
            Self::BankConflicts => "bank-conflicts",
            Self::OccupancyRegisters => "occupancy-registers",
            Self::OccupancyShared => "occupancy-shared",
            Self::Spills => "spills",
            Self::LocalArray => "local-array",
            Self::Divergence => "divergence",
            Self::DoublePrecision => "double-precision",
            Self::SlowDivision => "slow-division",
            Self::SlowSpecialFunction => "slow-special-function",
            Self::L2Reuse => "l2-reuse",
            Self::TailWave => "tail-wave",
            Self::AtomicsContended => "atomics-contended",
            Self::Reload => "reload",
            Self::AsyncCopySynchronous => "async-copy-synchronous",
            Self::LoopInvariant => "loop-invariant",
            Self::LaunchBound => "launch-bound",
            Self::PredicatedAccess => "predicated-access",
            Self::StagingLost => "staging-lost",
            Self::MoreInstructions => "more-instructions",
            Self::MoreTraffic => "more-traffic",
            Self::Data => "data",
            Self::Launch => "launch",
            Self::Compiler => "compiler",
            Self::Driver => "driver",
            Self::Clocks => "clocks",
            Self::CodeChanged => "code-changed",
            Self::NothingChanged => "nothing-changed",
        }
    }
}
