use super::counts::Counted;
use model::{CodeLine, Counter, InstructionKind, Num, ProfileMetric, Stall};
use serde::Serialize;

/// One reason why head is not what base is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    pub class: CauseClass,
    /// Where in the source, the most telling line first. None where lines do not matter.
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

model::named! {
/// The kind of reason, and the problem in a few words. Names are stable: programs match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum CauseClass, title: &'static str {
    BarrierAdded = "barrier-added" => "more barriers",
    UnrollLost = "unroll-lost" => "a loop is unrolled less",
    VectorAccessNarrowed = "vector-access-narrowed" => "memory is accessed in narrower pieces",
    CoalescingLost = "coalescing-lost" => "accesses of a warp no longer coalesce",
    BankConflicts = "bank-conflicts" => "bank conflicts in shared memory",
    OccupancyRegisters = "occupancy-registers" => "fewer warps fit an SM, for their registers",
    OccupancyShared = "occupancy-shared" => "fewer blocks fit an SM, for their shared memory",
    Spills = "spills" => "registers are spilled",
    LocalArray = "local-array" => "an array is in local memory",
    Divergence = "divergence" => "lanes of a warp go different ways",
    DoublePrecision = "double-precision" => "arithmetic in double precision",
    SlowDivision = "slow-division" => "division that is rounded exactly",
    SlowSpecialFunction = "slow-special-function" => "a special function in its exact form",
    L2Reuse = "l2-reuse" => "less reuse in L2",
    TailWave = "tail-wave" => "the last wave of blocks is emptier",
    AtomicsContended = "atomics-contended" => "atomics on the same address",
    /// Memory is read again because the compiler cannot know that nobody wrote it meanwhile.
    Reload = "reload" => "memory is read again that may have changed meanwhile",
    AsyncCopySynchronous = "async-copy-synchronous" => "asynchronous copies became synchronous",
    /// A value that does not change in a loop is computed or read in every turn.
    LoopInvariant = "loop-invariant" => "a loop repeats work that does not change in it",
    LaunchBound = "launch-bound" => "the launch bounds changed",
    /// Accesses under a condition where they had none.
    PredicatedAccess = "predicated-access" => "accesses under a condition that had none",
    /// Data that was kept in shared memory is read from global memory every time.
    StagingLost = "staging-lost" => "data that shared memory kept is read from global memory every time",
    MoreInstructions = "more-instructions" => "more instructions",
    /// More is read from global memory or written there, in accesses as good as before.
    MoreTraffic = "more-traffic" => "more is read from global memory or written there",
    /// The tensors, seeds or arguments of the case are other ones.
    Data = "data" => "other data",
    Launch = "launch" => "another launch",
    Compiler = "compiler" => "another compiler",
    Driver = "driver" => "another GPU or driver",
    Clocks = "clocks" => "other clocks",
    /// The machine code differs, and nothing known about it says that it is slower.
    CodeChanged = "code-changed" => "the machine code differs, and no rule says why it would be slower",
    /// Machine code, launch, arguments, compiler, GPU and driver are the same.
    NothingChanged = "nothing-changed" => "nothing in code or launch changed",
}
}

impl CauseClass {
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
}
