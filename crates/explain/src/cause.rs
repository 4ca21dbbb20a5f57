use super::counts::CountPair;
use model::{CodeLine, Counter, InstructionKind, Num, ProfileMetric, Stall};
use serde::Serialize;

/// One reason why head differs from the base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    pub class: CauseClass,
    /// Places in the source, the most telling line first. Empty if lines do not matter.
    pub places: Vec<CausePlace>,
    /// The values that show the cause.
    pub values: Vec<CauseValue>,
    /// The part of the slowdown that it can account for, if that can be known.
    pub share: Option<Num>,
    /// The largest part of the slowdown that it can account for, where an argument gives one that is less than all of
    /// it. The rule has the argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Num>,
    /// Causes that this one brings about, the gravest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub consequences: Vec<Cause>,
    /// Orders causes and means nothing else. It is about the number of cycles that the cause adds to a warp, with a
    /// guess of how often loops repeat.
    #[serde(skip)]
    pub weight: f64,
}

impl Cause {
    pub fn new(class: CauseClass, weight: f64) -> Self {
        Self {
            class,
            places: Vec::new(),
            values: Vec::new(),
            share: None,
            at_most: None,
            consequences: Vec::new(),
            weight,
        }
    }

    /// Adds places in the source that the cause is about.
    pub fn at(mut self, places: impl IntoIterator<Item = CausePlace>) -> Self {
        self.places.extend(places);
        self
    }

    /// Adds the simulator's count of a counter.
    pub fn with_count(self, counter: Counter, counted: CountPair) -> Self {
        self.with(Measure::Counter(counter), counted.base, counted.head)
    }

    /// Adds the values that a measure has on both sides.
    pub fn with(mut self, measure: Measure, base: impl Into<f64>, head: impl Into<f64>) -> Self {
        self.values.push(CauseValue {
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
    /// The source text of the place, if it is known.
    pub text: Option<String>,
}

/// A value that both sides have, and that shows the cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseValue {
    pub measure: Measure,
    pub base: Num,
    pub head: Num,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Instructions in the machine code, at the places of the cause.
    Code(InstructionKind),
    /// All instructions of the machine code.
    CodeSize,
    /// Calls of a function, at the places of the cause.
    Calls(String),
    /// The step by which one iteration of a loop changes its counter.
    Step,
    /// Instructions of one iteration, without loops in it.
    LoopSize,
    /// Arithmetic around a special function, at the places of the cause.
    Around,
    /// Instructions between a load, or an asynchronous copy, and its first use, on average.
    Ahead,
    /// Memory accesses under a condition, at the places of the cause.
    PredicatedAccesses,
    /// The number of registers of one thread.
    Registers,
    /// Bytes of stack of one thread.
    Stack,
    SpillStores,
    SpillLoads,
    /// Bytes of shared memory of a block, static and dynamic.
    Shared,
    /// A counter of the simulator or of a profile, over the whole launch.
    Counter(Counter),
    /// Resident warps of an SM, out of all that it can hold.
    Occupancy,
    BlocksPerSm,
    Blocks,
    /// Blocks of the grid along an axis: `x`, `y` or `z`.
    Grid(char),
    /// Threads of a block along an axis.
    Block(char),
    /// Blocks of a cluster along an axis.
    Cluster(char),
    /// Bytes of shared memory that the launch adds to those of the code.
    DynamicShared,
    /// How often the GPU is filled with blocks.
    Waves,
    SmMhz,
    /// Cycles that a warp spends in this state for each instruction that it issues, by a profile.
    Stall(Stall),
    /// The GPU's own counter, over a launch.
    Profile(ProfileMetric),
}

/// All classes of causes under the rule that finds them, one file of `causes/` each, after what it sees. A name is stable:
/// programs match on it. Its documentation is what the rule sees, for docs/explain.md, and its title the problem in a few words.
macro_rules! causes {
    ($with:ident) => { $with! {
        Code barrier {
            /// More barriers of a block, or one that went into a loop.
            BarrierAdded = "barrier-added" => "more barriers",
        }
        Code unroll {
            /// A loop takes several turns for one of the base's.
            UnrollLost = "unroll-lost" => "a loop is unrolled less",
        }
        Code narrowed {
            /// As many bytes in more and narrower loads or stores.
            VectorAccessNarrowed = "vector-access-narrowed" => "memory is accessed in narrower pieces",
        }
        Code local {
            /// An array in local memory, under an index that only a launch knows.
            LocalArray = "local-array" => "an array is in local memory",
        }
        Code spills {
            /// PTXAS spills more bytes; lines that load and store them. In a compiled file: more is stored on the stack and
            /// read back.
            Spills = "spills" => "registers are spilled",
        }
        Code double {
            /// Instructions or conversions of FP64 that were not there.
            DoublePrecision = "double-precision" => "arithmetic in double precision",
        }
        Code division {
            /// Exactly rounded division, or division of integers, where there was a reciprocal or none.
            SlowDivision = "slow-division" => "division that is rounded exactly",
        }
        Code special {
            /// More arithmetic around as many special functions: `expf` for `__expf`.
            SlowSpecialFunction = "slow-special-function" => "a special function in its exact form",
        }
        Code loads {
            /// Memory is read again because a store may have changed it: `const __restrict__` is gone.
            Reload = "reload" => "memory is read again that may have changed meanwhile",
            /// A load went into a loop, though its value does not change there.
            LoopInvariant = "loop-invariant" => "a loop repeats work that does not change in it",
        }
        Code copies {
            /// `cp.async` became loads and stores, or is waited for more often or sooner.
            AsyncCopySynchronous = "async-copy-synchronous" => "asynchronous copies became synchronous",
        }
        Code exposed {
            /// As many loads, issued closer to what needs them, or after a barrier.
            LatencyExposed = "latency-exposed" => "memory is asked for closer to where it is needed",
        }
        Code predicated {
            /// Accesses under a condition that had none.
            PredicatedAccess = "predicated-access" => "accesses under a condition that had none",
        }
        Code staging {
            /// Data that shared memory kept is read from global memory every time.
            StagingLost = "staging-lost" => "data that shared memory kept is read from global memory every time",
        }
        Run traffic {
            /// More sectors for each access of a warp to global memory (counters).
            CoalescingLost = "coalescing-lost" => "accesses of a warp no longer coalesce",
            /// More accesses to global memory, as good as before (counters).
            MoreTraffic = "more-traffic" => "more is read from global memory or written there",
        }
        Run banks {
            /// More passes for each access to shared memory (counters).
            BankConflicts = "bank-conflicts" => "bank conflicts in shared memory",
        }
        Run divergence {
            /// Fewer lanes of a warp at work (counters).
            Divergence = "divergence" => "lanes of a warp go different ways",
        }
        Code atomics {
            /// More atomics, or on global memory where they were on shared memory.
            AtomicsContended = "atomics-contended" => "atomics on the same address",
        }
        Code occupancy {
            /// Fewer warps fit an SM, for their registers.
            OccupancyRegisters = "occupancy-registers" => "fewer warps fit an SM, for their registers",
            /// Fewer blocks fit an SM, for their shared memory.
            OccupancyShared = "occupancy-shared" => "fewer blocks fit an SM, for their shared memory",
            /// The source no longer asks for as many resident blocks, or allows more registers.
            LaunchBound = "launch-bound" => "the launch bounds changed",
        }
        Run waves {
            /// The last wave of blocks is emptier.
            TailWave = "tail-wave" => "the last wave of blocks is emptier",
        }
        Run l2 {
            /// As much is asked of L2, and more comes from device memory (needs a profile).
            L2Reuse = "l2-reuse" => "less reuse in L2",
        }
        Run changes {
            /// Kernels of a program that only one side launches, timed together: each side has its own.
            Kernels = "kernels" => "other kernels",
            /// The tensors, seeds or arguments of the case are other ones.
            Data = "data" => "other data",
            /// Grid, block, cluster or dynamic shared memory differ.
            Launch = "launch" => "another launch",
            /// Another version of the compiler.
            Compiler = "compiler" => "another compiler",
            /// Another model of GPU, or another driver.
            Driver = "driver" => "another GPU or driver",
            /// The GPU ran at another clock, or under another policy for it.
            Clocks = "clocks" => "other clocks",
        }
        Code instructions {
            /// More instructions, and none of the other rules knows why.
            MoreInstructions = "more-instructions" => "more instructions",
        }
        // Without a rule: no other one has found anything.
        _ {
            /// The machine code differs, and nothing known says that it is slower; with two profiles, the lines at which
            /// warps spend more time, and what they wait for.
            CodeChanged = "code-changed" => "the machine code differs, and no rule says why it would be slower",
            /// Machine code, launch, arguments, compiler, GPU and driver are the same.
            NothingChanged = "nothing-changed" => "nothing in code or launch changed",
        }
    } };
}
pub(crate) use causes;

macro_rules! classes {
    ($($sees:ident $rule:ident { $($class:tt)* })* _ { $($none:tt)* }) => {
        model::named! {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub enum CauseClass, title: &'static str {
            $($($class)*)*
            $($none)*
        }
        }
    };
}

causes!(classes);

impl CauseClass {
    /// Returns the classes of causes that bring this one about.
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
            Self::LatencyExposed => &[
                Self::UnrollLost,
                Self::AsyncCopySynchronous,
                Self::VectorAccessNarrowed,
                Self::StagingLost,
                Self::Spills,
                Self::LaunchBound,
                Self::Reload,
                Self::LoopInvariant,
                Self::BarrierAdded,
            ],
            _ => &[],
        }
    }
}
