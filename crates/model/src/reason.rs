//! Why a verdict came out as it did, as data with values. The sentences are written in the `wording` crate.

use super::Undecidable;
use super::{
    Allowance, Arch, BaselineKey, CaseId, CodedVariant, Compare, Counter, EditedFigure, Facet,
    Fault, FaultKind, Finding, GateName, KeptDifference, KeptVariable, KnownFinding, LineCount,
    Location, Margin, Metric, MissingCode, Mode, NoGates, NotRun, Num, Op, OtherKernels,
    ReasonCode, ReferenceComparison, Rename, ReplacedKernel, Role, Rule, Since, Subject, UnitId,
    UnreadGates, Unsupported, Withheld, Worst,
};
use crate::expr::{EvalError, ExprError};
use crate::occupancy::Excess;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// The question that a verdict answers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Whether one of head's gates holds.
    Gate(Rule),
    /// Whether a baseline file of this variant can be read.
    Baseline,
    /// Whether an acceptance is valid and needed, with what it lets pass.
    Acceptance(Allowance),
    /// Whether head demands everything that the base demanded.
    NoLooser(BaseDemand),
    /// Whether a variant that is kept to fail does so by one of these gates.
    Failure(Vec<GateName>),
    /// Whether resources that no gate limits are no worse than before, if they cost time on any GPU.
    UngatedResources,
}

/// The demand of a base revision on its kernels.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum BaseDemand {
    Gate(Rule),
    Seeds(Vec<u64>),
    BitExact,
    /// The number of launches of each seed.
    Launches(u32),
    Reference,
    /// The sizes of a shape that changed.
    Dims(BTreeMap<String, i64>),
    InputValues {
        tensor: String,
    },
    OutputType {
        tensor: String,
    },
    TensorRole {
        tensor: String,
        role: Role,
    },
    TensorDims {
        tensor: String,
        dims: Vec<usize>,
    },
    /// The tensor is a view, this many elements into its allocation.
    TensorOffset {
        tensor: String,
        offset: usize,
    },
    /// The elements of an output that are compared, or `None` for all.
    ComparedElements {
        tensor: String,
        compare: Option<Compare>,
    },
    /// Working memory whose content the kernel may not rely on.
    UnpreparedScratch {
        tensor: String,
    },
    /// The kernel itself does all work from the inputs of the reference on.
    OwnWork,
    SimulatorBudget,
    /// A hazard within a warp fails the case.
    WarpHazards,
    TimingSchedule,
    /// The checks of these gates give an answer.
    Checks(Vec<Rule>),
    /// The values of a baseline file.
    Baseline(Facet),
    /// The gates hold without an acceptance.
    NoAcceptance,
    /// The demands of a whole file of gates on a case.
    File(String),
    /// No gate of a variant fails except these.
    NoFailure(Vec<GateName>),
    /// No other variant stands in for this one, except the given one.
    NoFallback(Option<String>),
    /// The launches of a program can be compared.
    Launch,
}

coded! {
/// Why a base has nothing that head could be compared with. It passes only with a label.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum BaseLack {
    [New]
    /// With the reason of its build: the words of nvcc, or why it was not asked.
    // The name that it has for times.
    NotBuilt(Box<Reason>) => Self::NotBuilt(_) => "base-not-built",
    /// The base's reference gives no answer in the base's own tree.
    ///
    /// Commit the files that it needs there. A change that mends it passes with `--allow-loosened`.
    // With the message of the compiler or the reference.
    ReferenceBroken(String) = "base-reference-broken" [Inconclusive],
    /// The base's reference did not answer before its deadline.
    ///
    /// Run again on a machine that is less busy, or pass `--allow-loosened`.
    // With its message.
    ReferenceLate(String) = "base-reference-late" [Inconclusive],
    /// The record of the base does not say what its user's reference computed.
    ///
    /// Make the record again with this gatekeeper, or pass `--allow-loosened`.
    NoDigests = "base-without-digests" [Inconclusive],
    /// The base gave no answer that could be compared.
    ///
    /// See the rest of the message. A change that mends the base passes with `--allow-loosened`.
    Unanswered(Box<Reason>) = "base-unanswered" [Inconclusive],
    /// The record of the base is from another kind of device, and has an answer where head has none.
    ///
    /// Make both records on one kind of device, or pass `--allow-loosened`.
    OtherDevice = "base-on-other-device" [Inconclusive],
    /// A launch of a program has other memory at the base: other allocations, or other parameters and contents.
    ///
    /// Have the program do the same on both sides: fixed seeds, the same allocations in the same order. A change that
    /// is meant passes with `--allow-loosened`.
    OtherInputs = "base-has-other-inputs" [Inconclusive],
    /// A program launches other kernels than at the base. What kernels that are gone wrote is compared with nothing;
    /// times are compared as a group, unless the message says why not.
    ///
    /// See the rest of the message. A change that is meant passes with `--allow-loosened`.
    OtherKernels(OtherKernels) = "base-launches-other-kernels" [Inconclusive],
    /// A compiled file has kernels that the base's baseline does not know, lacks others, and the new ones take more.
    /// One may be an old one under another name.
    ///
    /// Compare the two kernels that the message names. New kernels that are meant pass with `--allow-loosened`.
    KernelReplaced(ReplacedKernel) = "base-kernels-replaced" [Inconclusive],
    /// The base has gates for the same kernels, programs, compiled files or sources in another file, which head still
    /// has, and no file at this path.
    ///
    /// Run the base's file (`--config`), or move its gates to the new file in one change. A second file that is meant
    /// passes with `--allow-loosened`.
    GatesElsewhere(NoGates) = "base-has-gates-elsewhere" [Inconclusive],
    /// A file of gates is gone, and the base's cannot be loaded.
    ///
    /// Mend the file in a change of its own, or keep it. A removal that is meant passes with `--allow-loosened`.
    GatesUnread(UnreadGates) = "base-gates-unreadable" [Inconclusive],
}
}

/// How head demands less than the base did.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Loosened {
    /// Head has no such case or unit.
    SubjectRemoved(Subject),
    GateRemoved,
    /// Head has another, looser limit in its place.
    Looser(Rule),
    /// Head has another expression, whose strictness cannot be compared.
    Incomparable(Rule),
    Seeds(Vec<u64>),
    Nondeterministic {
        because: String,
    },
    Launches(u32),
    /// The reference computes something else from the same inputs.
    Reference(Box<ReferenceComparison>),
    /// The references of two records differ. Records have digests and no values.
    ReferenceDigest,
    /// The base's reference cannot be computed on head's inputs. The text says why, if it was tried.
    ReferenceIncomparable(Option<String>),
    /// The limit names a rival that is another program at head.
    Rival(String),
    /// Head's sizes under the same names. `None` for a dimension that head does not have.
    Dims(BTreeMap<String, Option<i64>>),
    InputValues,
    OutputType,
    OutputRemoved,
    TensorRole(Role),
    TensorDims(Vec<usize>),
    TensorOffset(usize),
    /// Head compares only these elements: fewer, or others.
    ComparedElements(Compare),
    /// Head's caller has to fill working memory before each launch, and no measured time includes that.
    PreparedScratch,
    /// Head has no such working memory, and gives the kernel this new input.
    InputInstead(String),
    /// Head gives the kernel this new input, which the reference does not read. It can hold what the kernel computed.
    UnreadInput(String),
    /// Head has this copy in the stream before or after its launches, which no counter includes.
    Copies {
        from: String,
        to: String,
    },
    /// Warp instructions that a case may take.
    SimulatorBudget {
        base: u64,
        head: u64,
    },
    /// Hazards within a warp are only noted.
    WarpHazards,
    TimingSchedule(Vec<ScheduleChange>),
    /// Head's check gives no answer, for this reason.
    ChecksLost(Box<Reason>),
    /// Counters that the base can be held to, and head cannot.
    CountersLost(Vec<(Counter, Option<Withheld>)>),
    /// Counters that rose by their simulated values, of which at least one is withheld from gates.
    CountersInDoubt(Vec<DoubtedRise>),
    FileRemoved,
    /// Head keeps the variant to fail by these gates.
    ExpectedToFail(Vec<GateName>),
    /// Head lets this variant stand in for it.
    FallsBack(String),
    BaselineRemoved,
    /// Head's baseline still has the old names.
    BaselineLeft(Vec<Rename>),
    /// Values that are worse in head's baseline file.
    BaselineEdited(Vec<EditedFigure>),
    /// Head's baseline agrees on values that are worse than what the base measures on this device, by more than a gate
    /// allows.
    BaselineAbove(Vec<EditedFigure>),
    /// Head's baseline is under another key, because of another compiler or other flags.
    BaselineMoved {
        differences: Vec<KeyDifference>,
        values: Vec<EditedFigure>,
    },
    /// The base has nothing to compare with, which a label lets pass.
    BaseIncomparable(BaseLack),
    /// Head accepts what the base does not accept, or accepts only in part, or not for as long.
    Accepts {
        allows: Allowance,
        by: String,
        until: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum ScheduleChange {
    Mode { base: Mode, head: Mode },
    Processes { base: u32, head: u32 },
    Iterations { base: u32, head: u32 },
    Singles { base: u32, head: u32 },
}

/// A kind of evidence about one subject.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    Build(UnitId),
    Check { case: CaseId, seed: u64 },
    Simulation { case: CaseId, seed: u64 },
    Driver(CaseId),
    BaseReference(CaseId),
    Timing(CaseId),
    Profile { case: CaseId, repeat: u32 },
    Rival { rival: String, task: CaseId },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Head,
    Base,
}

/// The gap in one timing process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum TimingGap {
    /// The process is missing, or it is there twice.
    Numbering,
    Mode {
        ran: Mode,
        planned: Mode,
    },
    /// Head and base ran in two different modes.
    TwoModes,
    NothingLaunched {
        side: Side,
    },
    Batched {
        have: usize,
        planned: u32,
    },
    Singles {
        have: usize,
        planned: u32,
    },
    Blocks {
        side: Side,
        samples: usize,
        blocks: usize,
        least: u32,
    },
    NoSingles {
        side: Side,
    },
}

/// A value that PTXAS or our formula gives, and that the driver gives too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum DriverFigure {
    Registers,
    StaticShared,
    BlocksPerSm,
}

/// The value that another is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Against {
    Baseline,
    /// An anchor, with the commit that it was found at, or the versions among which the best was found.
    Anchor {
        since: Since,
        found: String,
    },
    /// The base revision, measured in the same processes.
    Base,
}

/// A comparison of two values, with the margin that it may be worse by.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct Comparison {
    pub metric: Metric,
    pub against: Against,
    /// `None` for the slow share against the base, of which only the difference is known.
    pub was: Option<Num>,
    pub now: Option<Num>,
    /// (now - was) / was, or now - was for the slow share.
    pub change: Num,
    /// The interval of `change`, for times: 95 % against a baseline, and the bounds of the look against the base.
    pub interval: Option<[Num; 2]>,
    /// The greatest margin by which the value may be worse.
    pub allowed: Margin,
    /// The number of sessions that a comparison of times with a baseline rests on, if the spread between days is known.
    pub sessions: Option<u32>,
    /// The number of fresh processes of head.
    pub processes: Option<u32>,
}

/// A name in an expression, with its value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct Operand {
    pub name: String,
    /// The metric, if the name is no constant.
    pub metric: Option<Metric>,
    pub value: Num,
}

/// A counter that is worse than its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct CounterRise {
    pub counter: Counter,
    pub was: Num,
    pub now: Num,
    pub change: Num,
    /// Source lines that count most of it, if they are known.
    pub lines: Vec<LineCount>,
}

/// A resource that is worse than before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct WorseValue {
    pub metric: Metric,
    pub was: Num,
    pub now: Num,
}

/// A counter whose simulated value is worse than the one that it is compared with, and at least one of the two is
/// withheld from gates.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct DoubtedRise {
    pub rise: CounterRise,
    /// The side whose value is withheld. Head, if both are.
    pub side: Side,
    pub why: Withheld,
}

/// Counters that no gate can rest on in a launch, and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct WithheldCounters {
    pub counters: Vec<Counter>,
    pub why: Withheld,
}

/// One field in which the key of a baseline differs from this run's.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct KeyDifference {
    pub field: KeyField,
    pub theirs: String,
    pub here: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum KeyField {
    Architecture,
    Compiler,
    Flags,
    CounterModel,
    Gpu,
    DriverBranch,
    ClockPolicy,
    TimingProtocol,
    Mode,
    Profiler,
}

/// The part that has no baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Lacking {
    /// There is no file of this variant under this key.
    File,
    Case,
    Metric,
    /// The committed list of a compiled file does not have the kernel, or not this value of it.
    Kernel,
    /// The older of two compiled files does not state the value.
    OlderFile,
}

/// Why a stored value cannot be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum FigureProblem {
    NotFinite(Num),
    /// No value of the metric can be this.
    OutOfRange(Num),
    /// A time that was measured in one process has no spread.
    NoSpread,
    /// No interval follows from these values.
    BadSpread {
        value: Num,
        spread: Num,
        processes: u32,
    },
}

/// Who accepted a broken limit, until when and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct AcceptedLimit {
    pub limit: Rule,
    pub by: String,
    /// The last day on which it is valid: `2027-01-31`.
    pub until: String,
    pub because: String,
}

/// A finding that was accepted, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct AcceptedFinding {
    pub finding: KnownFinding,
    /// The present place of the line: `kernels/k.cu:12`.
    pub place: String,
    pub times: u64,
    pub by: String,
    /// The last day on which it is valid: `2027-01-31`.
    pub until: String,
    pub because: String,
    /// The place of its acceptance: for example `baselines/accepted.yaml:3`.
    pub declared: String,
}

coded! {
/// Why a verdict came out as it did. [`Reason::code`] is its stable name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    [Held]
    /// The rule holds, without a value to show.
    Held = "held" [Pass],
    /// It compiles; the message counts warnings.
    Compiled { warnings: u32 } = "compiled" [Pass],
    /// The value is within an absolute limit.
    WithinLimit { metric: Metric, value: Num } = "within-limit" [Pass],
    /// The condition of the gate is true.
    ConditionHolds { operands: Vec<Operand> } = "condition-holds" [Pass],
    /// Single launches have one mode, so no share of them is slow.
    OneMode = "one-mode" [Pass],
    /// The value is within its limit of the baseline, an anchor or the base.
    WithinChange(Box<Comparison>) = "within-change" [Pass],
    /// No counter is worse than its baseline by more than the limit.
    CountersHold { compared: u32, withheld: Vec<WithheldCounters> } = "counters-hold" [Pass],
    /// Machine code, launch and arguments are those of the base, so it was not timed.
    UnchangedSinceBase { revision: String } = "unchanged-since-base" [Pass],
    /// The limit is broken, and an acceptance covers that.
    ///
    /// Fix it before the acceptance ends.
    Accepted { own: Box<Reason>, accepted: Box<AcceptedLimit> } = "accepted" [Pass],
    /// The simulator found something at lines that are accepted, and nothing else.
    ///
    /// Fix it before the acceptance ends.
    FindingsAccepted { findings: Vec<AcceptedFinding> } = "findings-accepted" [Pass],
    /// Head is looser than the base, and `--allow-loosened` allowed it.
    LooseningAllowed(Box<Loosened>) = "loosening-allowed" [Pass],
    /// The gate did not hold, and the variant's `fallback` holds all of its own.
    ///
    /// Fix the variant, or use the other one.
    FellBack { own: Box<Reason>, to: String } = "fell-back" [Replaced],
    /// The gate fails, and gates.yaml expects that of the variant (`expect: {fail: ...}`).
    ExpectedFailure { own: Box<Reason> } = "expected-failure" [Expected],

    [Wrong]
    /// A variant compiles to the same code, launches and arguments as another.
    ///
    /// Use its macros in the source, or remove the variant.
    SameCode { variant: String } = "same-code" [Fail],
    /// Output elements are NaN or infinite where the reference is finite, or are not the same infinity or NaN as it.
    ///
    /// Fix the kernel. `--dump DIR` writes inputs, output and reference.
    NonFinite { seed: u64, count: u64, elements: u64, worst: Option<Box<Worst>> } = "non-finite" [Fail],
    /// Output elements were never written.
    ///
    /// Fix bounds or grid, or make the tensor `inout`.
    Unwritten { seed: u64, count: u64, first: Option<Location> } = "unwritten" [Fail],
    /// Output elements hold what comes from memory that was never written.
    ///
    /// Fix the read that `memory and races` names.
    StoredUndefined { seed: u64, count: u64, first: Option<Location> } = "stored-undefined" [Fail],
    /// Two launches on the same inputs differ.
    ///
    /// Fix the race, or declare it with `nondeterministic`.
    Nondeterministic { seed: u64, launch: u32, elements: u64, at: Location } = "nondeterministic" [Fail],
    /// A launch that finds what an earlier one left in variables of the module computes something else.
    ///
    /// Reset the variable that the message names in the kernel, or before each launch (`constants`).
    FirstLaunchOnly {
        seed: u64,
        differs: KeptDifference,
        kept: Vec<KeptVariable>,
    } = "first-launch-only" [Fail],
    /// The kernel writes before or after its buffers.
    ///
    /// Fix the index.
    WroteOutside { seed: u64, places: Vec<String> } = "wrote-outside" [Fail],
    /// The kernel writes to a tensor declared as input.
    ///
    /// Fix the kernel, or make the tensor `inout` or `scratch`.
    InputWritten { seed: u64, inputs: Vec<String> } = "input-written" [Fail],
    /// The simulator found an invalid access, a value that nothing wrote and that is used, a race, or an output
    /// that depends on the machine or the moment.
    ///
    /// Fix the source line in the message.
    Findings {
        /// The first one that has any that nobody accepted.
        seed: u64,
        first: Vec<Finding>,
        more: usize,
        /// Those of this seed that somebody did accept.
        accepted: usize,
    } = "findings" [Fail],
    /// A hazard within a warp that the base does not have.
    ///
    /// Put `__syncwarp()` between the two accesses of the message.
    NewHazards { seed: u64, first: Vec<Finding>, more: usize } = "new-hazards" [Fail],
    /// The compiler reported no entry for this unit.
    ///
    /// Correct `entry` in gates.yaml.
    NoEntry = "no-entry" [Fail, Inconclusive],
    /// A compiled file has no machine code for an architecture of `architectures`, or a library lost that of one. PTX
    /// does not count.
    ///
    /// Build the file for this architecture. A loss that is meant passes with `--allow-loosened`, or with `gatekeeper
    /// binary --update --allow-worse`.
    NoMachineCode { arch: Arch, missing: Option<MissingCode> } = "no-machine-code" [Fail],
    /// A kernel of a compiled file uses local memory, and no such file says how much of it is spilled registers.
    ///
    /// Limit `local_accesses` or `stack` instead.
    SpillsUnknown { accesses: u64 } = "spills-unknown" [Inconclusive],
    /// A block asks for more threads, registers, barriers or shared memory than the architecture gives to one block.
    ///
    /// Take the architecture out of `architectures`, give the kernel a variant for it, or make the block smaller.
    LaunchImpossible { case: Box<CaseId>, excess: Excess } = "launch-impossible" [Fail],
    /// A launcher launches an entry that gates.yaml does not declare for it.
    ///
    /// Declare it under `launches` of the launcher.
    UndeclaredEntry { symbol: String } = "undeclared-entry" [Fail, Inconclusive],
    /// The driver reports other resources than PTXAS, or another occupancy than the published limits allow.
    ///
    /// Check that nothing else builds or patches the cubin. If not, report it.
    DriverDisagrees {
        entry: String,
        figure: DriverFigure,
        ours: u64,
        drivers: u64,
    } = "driver-disagrees" [Fail],
    /// The launch that ran is not the one that gates.yaml plans.
    ///
    /// Correct `launch` of the kernel.
    LaunchedOtherwise { entry: String } = "launched-otherwise" [Fail],
    /// A launcher asks for more dynamic shared memory than it declares.
    ///
    /// Correct `dynamic_shared` under `launches` of the launcher.
    SharedBeyondDeclared { entry: String, asked: u32, declared: Option<u32> } = "shared-beyond-declared" [Fail],

    [Broken]
    /// The value is beyond an absolute limit.
    ///
    /// Fix the kernel, or change the limit in gates.yaml.
    BeyondLimit {
        metric: Metric,
        value: Num,
        op: Op,
        bound: Num,
        worst: Option<(u64, Box<Worst>)>,
    } = "beyond-limit" [Fail],
    /// The value is NaN, which no limit allows.
    ///
    /// Fix the elements that are not finite.
    NotANumber {
        metric: Metric,
        /// Seed, and how many of how many elements are not finite.
        because: Option<(u64, u64, u64)>,
    } = "not-a-number" [Fail],
    /// The condition is false.
    ///
    /// Fix the kernel, or change the condition.
    ConditionBroken { operands: Vec<Operand> } = "condition-broken" [Fail],
    /// The value is worse than the baseline, an anchor or the base by more than the limit.
    ///
    /// Fix the regression, accept it, or run `gatekeeper baseline update --allow-worse`.
    BeyondChange(Box<Comparison>) = "beyond-change" [Fail],
    /// Counters are worse than their baseline by more than the limit. The message names the source lines.
    ///
    /// Fix the regression, accept it, or run `gatekeeper baseline update --allow-worse`.
    CountersRose { against: Against, rises: Vec<CounterRise>, allowed: Num } = "counters-rose" [Fail],
    /// A unit uses more local memory than before, or has a lower occupancy, and no gate of it names that metric.
    ///
    /// Fix the regression, or limit the metric (`stack: 64`, `occupancy: 50%`), or pass `--allow-loosened`, or update
    /// the baseline with `--allow-worse`. A case whose time against the base holds needs none of these.
    UngatedWorse { against: Against, values: Vec<WorseValue> } = "ungated-worse" [Fail],
    /// Head is looser than the base: a gate, a seed, a tolerance, a baseline or a case was removed or relaxed, a
    /// reference computes something else, or the change accepts what it breaks.
    ///
    /// Restore it, or pass `--allow-loosened`.
    // A check that is lost silently has the code that it has without a base.
    Loosened(Box<Loosened>) = "loosened" [Fail]
        => Self::Loosened(how) if matches!(**how, Loosened::ChecksLost(_)) => "check-lost"
        => Self::Loosened(how) if matches!(**how, Loosened::CountersLost(_)) => "counters-lost",
    /// An acceptance has passed its date.
    ///
    /// Fix the regression, update the baseline, or extend the acceptance.
    AcceptanceExpired { by: String, until: String, day: String } = "acceptance-expired" [Fail],
    /// The record has no readable start date, so an acceptance may have expired.
    ///
    /// Record the run again.
    AcceptanceUndated { started: String } = "acceptance-undated" [Fail],
    /// An acceptance names a case that gates.yaml does not have.
    ///
    /// Correct the name, or remove the acceptance.
    AcceptanceOfNothing { case: String } = "acceptance-of-nothing" [Fail],
    /// No gate of the named case has a limit of the accepted kind.
    ///
    /// Correct the acceptance, or remove it.
    AcceptanceWithoutGate { case: String } = "acceptance-without-gate" [Fail],
    /// Every gate holds without the acceptance.
    ///
    /// Remove it.
    AcceptanceUnused { by: String, until: String } = "acceptance-unused" [Fail],
    /// A variant that is expected to fail holds every gate that was judged.
    ///
    /// Find out why nothing catches it any more, or remove its `expect`.
    ExpectedFailurePassed = "expected-failure-passed" [Fail],
    /// A variant that is expected to fail fails a gate that `expect` does not name.
    ///
    /// Fix that, or name the gate too.
    FailedOtherwise {
        /// On the first of its cases and units that does.
        on: Box<Subject>,
        failed: Vec<Rule>,
    } = "failed-otherwise" [Fail],
    /// None of the cases that the acceptance names has the finding at that line.
    ///
    /// Remove the acceptance, or write the new text of the line.
    AcceptedFindingGone { by: String, until: String } = "accepted-finding-gone" [Fail],
    /// The limit is broken, and its acceptance has ended.
    ///
    /// Fix the regression, update the baseline, or extend the acceptance.
    AcceptedUntil { own: Box<Reason>, accepted: Box<AcceptedLimit> } = "accepted-until" [Fail],
    /// The value is worse than even the acceptance allows.
    ///
    /// Fix the regression.
    BeyondAccepted { own: Box<Reason>, accepted: Box<AcceptedLimit> } = "beyond-accepted" [Fail],
    /// A baseline file cannot be read.
    ///
    /// Restore the file, or remove it and run `gatekeeper baseline update`.
    BaselineUnreadable { path: String, problem: String } = "baseline-unreadable" [Fail],
    /// A value of the baseline is not usable: not finite, outside the range of its metric, or without a valid
    /// spread.
    ///
    /// Measure again and run `gatekeeper baseline update`.
    BaselineUnusable { of: Against, metric: Metric, problem: FigureProblem } = "baseline-unusable" [Fail],

    [NotRun]
    Fault(Fault) => Self::Fault(fault) => fault.kind.code(),
    Unsupported(Unsupported) => Self::Unsupported(unsupported) => unsupported.code(),
    NotRun(NotRun) => Self::NotRun(not_run) => not_run.code(),
    /// No gate that `expect` names gave an answer here, or a filter left out some of the variant's shapes.
    ///
    /// See the reasons of these gates; run the whole variant.
    ExpectedFailureOpen = "expected-failure-open" [Skipped, Inconclusive, Environment],
    /// `--require-gpu` was given, and there is no usable GPU.
    ///
    /// Run on a machine with a GPU.
    GpuRequired { why: Box<Reason> } = "gpu-required" [Environment],
    /// The unit was not built. Its gate `built` says why.
    ///
    /// Fix what that gate reports.
    NotBuilt { unit: UnitId } = "not-built" [Skipped],
    /// A wrong kernel is not timed.
    ///
    /// Fix what the message names.
    NotProven { why: Box<Reason> } = "not-proven" [Skipped],
    /// For the code of one of several architectures.
    OnArchitecture { arch: Arch, why: Box<Reason> } => Self::OnArchitecture { why, .. } => why.code(),
    /// Correctness is not established: no gate sets an absolute limit on the error.
    ///
    /// Add `max_err` or `rel_l2` with an absolute limit.
    NoErrorLimit = "no-error-limit" [Inconclusive],
    /// gates.yaml says `reference: none`.
    ///
    /// Write a reference: a built-in one, a C or Python function, or a variant that is known to be right.
    Unreferenced = "unreferenced" [Inconclusive],
    /// A filter left it out.
    ///
    /// Run without the filter.
    NotSelected { what: String } = "not-selected" [Skipped],
    /// A gate names a unit or case that the plan does not have.
    ///
    /// Correct the name.
    NotInPlan { what: String } = "not-in-plan" [Inconclusive],
    /// It is built for no architecture that runs on this device.
    ///
    /// Add the architecture to `architectures`.
    NoArchitecture {
        kernel: String,
        variant: String,
        device: String,
        arch: Arch,
    } = "no-architecture" [Unsupported],
    /// Counters, and findings of a base, come from the simulator, and this run used a GPU.
    ///
    /// Run with `--device sim`.
    NotSimulated = "not-simulated" [Skipped],
    /// The gate rests on a profile, and none was asked for.
    ///
    /// Run with `--profile` on a GPU.
    NotProfiled = "not-profiled" [Skipped],
    /// The kernel has no other variant in this run to compare with.
    NoSibling = "no-sibling" [Skipped],
    /// The results may differ: gates.yaml declares the case non-deterministic.
    DeclaredNondeterministic { because: String } = "declared-nondeterministic" [Skipped],
    /// The simulator repeats its results, so determinism is judged on a GPU only.
    ///
    /// Run on a GPU.
    RepeatsByConstruction = "repeats-by-construction" [Skipped],
    /// This version does not know the limits of the architecture.
    ///
    /// Update gatekeeper.
    UnknownArchitecture { arch: Arch } = "unknown-architecture" [Unsupported],
    /// A launcher's block size is read on a GPU, and this one has another architecture.
    ///
    /// Run on a GPU of that architecture.
    LauncherElsewhere { arch: Arch } = "launcher-elsewhere" [Unsupported],
    /// The metric needs an input with a codec, and the case has none.
    ///
    /// Remove the gate, or declare the codec.
    NoCodec = "no-codec" [Unsupported],
    /// The simulator is not known to count this launch as a GPU does.
    ///
    /// Gate another counter.
    CounterWithheld { counter: Counter, why: Option<Withheld> } = "counter-withheld" [Unsupported],
    /// No counter of this launch can be gated.
    ///
    /// Gate times on a GPU.
    CountersWithheld { why: Option<Withheld> } = "counters-withheld" [Skipped],
    /// The rival did not run this backend. The message is the rival's.
    ///
    /// Install what the message names, or gate another backend.
    RivalSkipped { rival: String, backend: String, because: String } = "rival-skipped" [Skipped],

    [Undecided]
    /// The gate names a rival that the run was not asked to time.
    ///
    /// Run with `--rivals`.
    RivalNotRequested { rival: String } = "rival-not-requested" [Inconclusive],
    /// The record lacks a piece of evidence.
    ///
    /// Record the run again.
    EvidenceMissing(Piece) = "evidence-missing" [Inconclusive],
    /// The record has a piece of evidence twice.
    ///
    /// Record the run again; merge each record once.
    EvidenceRepeated { piece: Piece, times: usize } = "evidence-repeated" [Inconclusive],
    /// A timing process lacks samples, or ran in another mode than planned.
    ///
    /// Record the run again.
    TimingIncomplete { process: u32, gap: TimingGap } = "timing-incomplete" [Inconclusive],
    /// Fewer timing processes than planned.
    ///
    /// Record the run again.
    TooFewProcesses { have: usize, needed: usize } = "too-few-processes" [Inconclusive],
    /// p90, p99 and cv need more single launches.
    ///
    /// Raise `timing: {singles: ...}`.
    TooFewSingles { metric: Metric, have: usize, needed: u32 } = "too-few-singles" [Inconclusive],
    /// Too few single launches to tell two modes from one.
    ///
    /// Raise `timing: {singles: ...}`.
    TooFewLaunches { have: usize } = "too-few-launches" [Inconclusive],
    /// Too many timing processes ran on a throttled GPU.
    ///
    /// Let it cool, raise its power limit, or run again.
    Throttled {
        throttled: usize,
        processes: usize,
        needed: usize,
        causes: Vec<String>,
    } = "throttled" [Inconclusive],
    /// The profile lacks the metric.
    ///
    /// Record the run again.
    NotInProfile { metric: Metric } = "not-in-profile" [Inconclusive],
    /// A relative limit needs to know how much profiles of the same code differ.
    ///
    /// Run with `--profile` and update the baseline.
    TooFewProfiles { metric: Metric, have: usize, needed: usize } = "too-few-profiles" [Inconclusive],
    /// Profiles of the same code differ by more than the limit allows.
    ///
    /// Widen the limit, or gate a count that repeats exactly.
    RepeatsDisagree { metric: Metric, low: Num, high: Num, repeats: usize } = "repeats-disagree" [Inconclusive],
    /// The SM clock was not measured, and cycles needs it.
    ///
    /// Run where NVML works; `gatekeeper doctor` tells.
    ClockUnknown = "clock-unknown" [Inconclusive],
    /// The sample is too short for the clock's step.
    ///
    /// Raise `timing: {batch: ...}`, or use a larger shape.
    ClockTooCoarse { metric: Metric, side: Side, value: Num, tick_ns: u64 } = "clock-too-coarse" [Inconclusive],
    /// One timing process has no spread.
    ///
    /// Time with two or more processes.
    NoSpread = "no-spread" [Inconclusive],
    /// The limit lies inside the interval of the change.
    ///
    /// Raise `max_processes`, use a quieter GPU, or widen the limit.
    Undecided {
        comparison: Box<Comparison>,
        visible: Option<Num>,
        needed: Option<u32>,
    } = "undecided" [Inconclusive],
    /// The samples fit no valid comparison. The message says which value is wrong.
    ///
    /// Record the run again.
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Undecidable {
        metric: Metric,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: Undecidable,
    } = "undecidable" [Inconclusive],
    /// The plan does not say how head and base are timed side by side.
    ///
    /// Record the run again.
    PairingUnknown = "pairing-unknown" [Inconclusive],
    /// The case has no seeds.
    ///
    /// Add `seeds`.
    NoSeeds = "no-seeds" [Inconclusive],
    /// No output element was compared with the reference.
    ///
    /// Declare an output tensor.
    NothingCompared { seed: u64 } = "nothing-compared" [Inconclusive],
    /// Fewer launches were compared than planned.
    ///
    /// Record the run again.
    TooFewRepeats { seed: u64, have: u32, needed: u32 } = "too-few-repeats" [Inconclusive],
    /// The driver was asked about more or fewer entries than a launch has.
    ///
    /// Record the run again.
    DriverEntries { count: usize, expected: usize } = "driver-entries" [Inconclusive],
    /// The compiler reported more or fewer entries than declared.
    ///
    /// Correct `launches` of the launcher, or record the run again.
    EntriesDiffer { declared: usize, reported: usize } = "entries-differ" [Inconclusive],
    /// Occupancy needs a launch, and none is known.
    ///
    /// Add a shape, or run a launcher on a GPU.
    LaunchUnknown { unit: UnitId } = "launch-unknown" [Inconclusive],
    /// Another variant has no machine code to compare with.
    ///
    /// Fix its build.
    SiblingUnknown { variant: String } = "sibling-unknown" [Inconclusive],
    /// Two variants have the same code and no shape in common.
    ///
    /// Give them a common shape, or remove one.
    NoCommonShape { variant: String } = "no-common-shape" [Inconclusive],
    /// The metric is relative to the `max_err` limit, and there is none.
    ///
    /// Add an absolute limit on `max_err`.
    NoTolerance { metric: Metric } = "no-tolerance" [Inconclusive],
    /// The gate does not apply to this kind of subject.
    ///
    /// Move or remove the gate.
    Misplaced { metric: Option<Metric> } = "misplaced" [Inconclusive],
    /// A relative limit is negative or not finite, or an amount (`+2`) where only a share (`+2%`) can limit.
    ///
    /// Correct the limit.
    BadChange { allowed: Margin } = "bad-change" [Inconclusive],
    /// The metric is mostly 0, so a relative limit says nothing.
    ///
    /// Use an absolute limit.
    NoRelative { metric: Metric } = "no-relative" [Inconclusive],
    /// An expression cannot be read.
    ///
    /// Correct it at the given column.
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Unparsed {
        text: String,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: ExprError,
    } = "unparsed" [Inconclusive],
    /// An expression has no value, as for a division by zero.
    ///
    /// Correct the expression.
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Unevaluated {
        text: String,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: EvalError,
    } = "unevaluated" [Inconclusive, Fail],
    /// An expression uses a name that is neither a metric nor a constant.
    ///
    /// Correct the name.
    UnknownName { text: String, name: String } = "unknown-name" [Inconclusive],
    /// A limit on correctness depends on a time.
    ///
    /// Use a constant.
    TimeInCorrectness { text: String, metric: Metric } = "time-in-correctness" [Inconclusive],
    /// A metric in an expression has no value; the outcome is that of the metric.
    ///
    /// See the rest of the message.
    OperandUnknown {
        name: String,
        why: Box<Reason>,
    } = "operand-unknown" [Inconclusive, Skipped, Unsupported, Fail],
    /// The base, or the run that the baseline is from, was checked here, and head gives no answer.
    ///
    /// Revert what the message names, raise the budget, or pass `--allow-loosened`. Without a base: remove the shape
    /// from the baselines of correctness and counters.
    CheckLost { shape: String, why: Box<Reason> } = "check-lost" [Fail, Inconclusive],
    /// Counters of the base, or of the baseline, can no longer be gated in this launch.
    ///
    /// Revert the line in the message, or pass `--allow-loosened`. Without a base: run `gatekeeper baseline update`.
    CountersLost { lost: Vec<(Counter, Option<Withheld>)> } = "counters-lost" [Fail, Inconclusive],
    /// A counter rose by more than the limit, and one of the two values is withheld from gates. The message has both
    /// and the line that causes the doubt.
    ///
    /// Fix the regression, or allow it with `--allow-loosened`, or without a base by `gatekeeper baseline update`.
    CountersInDoubt { against: Against, rises: Vec<DoubtedRise> } = "counters-in-doubt" [Inconclusive],
    /// An acceptance covers the broken limit, and what it allows instead is undecided.
    ///
    /// See the rest of the message.
    PartlyAccepted {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
        other: Box<Reason>,
    } = "partly-accepted" [Inconclusive],

    [New]
    /// There is no baseline yet.
    ///
    /// Run `gatekeeper baseline update`.
    New { metric: Metric, lacking: Lacking } = "new" [Skipped],
    /// The base has no such case.
    NewSinceBase { revision: String } = "new-since-base" [Skipped],
    /// The anchor has no baseline for it.
    NewSinceAnchor { since: Since, found: String } = "new-since-anchor" [Skipped],
    /// A gate compares with the base, and no base was named.
    ///
    /// Run with `--base REF`.
    NoBase = "no-base" [Skipped],
    /// Baselines exist, for another GPU, driver branch, compiler or setting.
    ///
    /// Measure here and run `gatekeeper baseline update`.
    OtherKey {
        differences: Vec<KeyDifference>,
        /// The GPUs that have the value, where this one has none.
        gpus: Vec<String>,
    } = "other-key" [Inconclusive],
    /// The anchor's baseline is for another GPU, driver branch, compiler or setting.
    ///
    /// Choose an anchor with a baseline for this machine.
    AnchorOtherKey { since: Since, differences: Vec<KeyDifference> } = "anchor-other-key" [Inconclusive],
    /// The record has no baselines of the anchor.
    ///
    /// Record the run again from a clone that has that revision.
    AnchorMissing { since: Since } = "anchor-missing" [Inconclusive],
    /// A baseline file of the anchor cannot be read.
    ///
    /// Choose another anchor.
    AnchorUnreadable { since: Since, path: String, problem: String } = "anchor-unreadable" [Inconclusive],
    /// Two baseline files have the same key.
    ///
    /// Remove one.
    TwoBaselines { dates: [String; 2] } = "two-baselines" [Inconclusive],
    /// The base has no value for this metric.
    ///
    /// See the rest of the message.
    BaseLacks { metric: Metric, why: Box<Reason> } = "base-lacks" [Inconclusive],
    /// A hazard within a warp, and whether the base has it too is not known: it was not simulated.
    ///
    /// Put `__syncwarp()` between the two accesses, or see the rest of the message.
    HazardsNotCompared { count: usize, why: Box<Reason> } = "hazards-not-compared" [Inconclusive],
    /// The base was not built.
    ///
    /// See the rest of the message.
    BaseNotBuilt { why: Box<Reason> } = "base-not-built" [Inconclusive],
    BaseIncomparable(BaseLack) => Self::BaseIncomparable(lack) => lack.code(),
    /// The base is not built for this device.
    ///
    /// Use another base, or another GPU.
    BaseArchitecture {
        revision: String,
        case: Box<CaseId>,
        device: String,
    } = "base-architecture" [Inconclusive],
    /// One record timed the case alone, the other against a base.
    ///
    /// Make both records with `--base`, or both without.
    TwoProtocols = "two-protocols" [Inconclusive],

    [Undecided]
    /// The base was measured, and head was skipped.
    ///
    /// Measure head too.
    HeadPassedOver { why: Box<Reason> } = "head-passed-over" [Inconclusive],

    [Unfit]
    /// The comparison of the case with the base failed or could not be done.
    ///
    /// Mend what the message names, or run with `--allow-loosened` where the change is meant.
    NotHeldToBase { why: Box<Reason> } = "not-held-to-base" [],
    /// The case was timed against a base.
    ///
    /// Run without `--base`.
    TimedAgainstBase = "timed-against-base" [],
    /// Timing processes ran on a throttled GPU.
    ///
    /// Let it cool, raise its power limit, or run again.
    ThrottledProcesses { count: u32 } = "throttled-processes" [],
    /// There is nothing to take as a baseline.
    ///
    /// Run the case first.
    NothingMeasured = "nothing-measured" [],
}
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Reason {
    /// Returns every code that a verdict can have.
    pub fn codes() -> impl Iterator<Item = ReasonCode> {
        let all = [
            Self::CODES,
            BaseLack::CODES,
            FaultKind::CODES,
            Unsupported::CODES,
            NotRun::CODES,
        ];
        all.into_iter().flatten().flat_map(CodedVariant::codes)
    }

    /// Returns true for a skip because no baseline exists. It is to be accepted, and is no failure.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New { .. } | Self::NewSinceBase { .. })
    }
}

impl KeyDifference {
    /// Returns the fields in which two keys of one kind differ.
    pub fn between(theirs: &BaselineKey, here: &BaselineKey) -> Vec<Self> {
        theirs
            .fields()
            .into_iter()
            .zip(here.fields())
            .filter(|(theirs, here)| theirs != here)
            .map(|((field, theirs), (_, here))| Self {
                field,
                theirs,
                here,
            })
            .collect()
    }
}
