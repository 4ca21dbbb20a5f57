//! Why a verdict came out as it did: data with its figures. Sentences are the report's.

use super::Undecidable;
use super::{
    Allowance, Arch, BaselineKey, CaseId, Compare, Counter, EditedFigure, Facet, Fault, Finding,
    GateName, KeptDifference, KeptVariable, KnownFinding, LineCount, Location, Metric, Mode,
    NotRun, Num, Op, ReferenceComparison, Rename, Role, Rule, Since, Subject, UnitId, Unsupported,
    Withheld, Worst,
};
use crate::expr::{EvalError, ExprError};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// The question that a verdict answers.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// A gate of head.
    Gate(Rule),
    /// A baseline file of this variant can be read.
    Baseline,
    /// An acceptance is in force and needed. With what it lets pass.
    Acceptance(Allowance),
    /// Head holds what base asked, no looser.
    NoLooser(BaseDemand),
    /// A variant that is kept to fail does, by one of these gates.
    Failure(Vec<GateName>),
}

/// The demand of a base revision on its kernels.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum BaseDemand {
    Gate(Rule),
    Seeds(Vec<u64>),
    BitExact,
    /// Launches of each seed.
    Launches(u32),
    Reference,
    /// Sizes of a shape, those that changed.
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
    /// Which elements of an output are compared; `None` for all.
    ComparedElements {
        tensor: String,
        compare: Option<Compare>,
    },
    /// Working memory of which the kernel may expect nothing.
    UnpreparedScratch {
        tensor: String,
    },
    SimulatorBudget,
    /// That hazards within a warp fail.
    WarpHazards,
    TimingSchedule,
    /// An answer by these gates.
    Checks(Vec<Rule>),
    /// The figures of a baseline file.
    Baseline(Facet),
    /// The gates as they are, without an acceptance.
    NoAcceptance,
    /// The demands of a whole file of gates on a case.
    File(String),
    /// That no gate of a variant fails, but for these.
    NoFailure(Vec<GateName>),
    /// That no other variant stands in for this one, but for this.
    NoFallback(Option<String>),
}

coded! {
/// Why a base gives nothing that head could be compared with. It passes by a label alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum BaseLack {
    /// With the reason of its build: the words of nvcc, or why it was not asked.
    // The name that it has for times.
    NotBuilt(Box<Reason>) => Self::NotBuilt(_) => "base-not-built",
    /// Its reference has no answer in its own tree to its own inputs either. Has the message of the compiler or the reference.
    ReferenceBroken(String) = "base-reference-broken",
    /// Its reference did not answer before its deadline. Has its message.
    ReferenceLate(String) = "base-reference-late",
    /// Its record was checked, and has no digest of what its reference computed.
    NoDigests = "base-without-digests",
    /// A check of it gave no answer.
    Unanswered(Box<Reason>) = "base-unanswered",
    /// Its record is of another kind of device, and answers what head's does not.
    OtherDevice = "base-on-other-device",
}
}

/// How head asks less than base did.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Loosened {
    /// Head has no such case or unit.
    SubjectRemoved(Subject),
    GateRemoved,
    /// Head has another limit in its place, and a looser one.
    Looser(Rule),
    /// Another expression, whose strictness cannot be compared.
    Incomparable(Rule),
    Seeds(Vec<u64>),
    Nondeterministic {
        because: String,
    },
    Launches(u32),
    /// On the same inputs the reference computes something else.
    Reference(Box<ReferenceComparison>),
    /// The same of two records, which have no figures.
    ReferenceDigest,
    /// Base's reference cannot be computed on head's inputs; why, where it was tried.
    ReferenceIncomparable(Option<String>),
    /// The limit names a rival, which is another program at head.
    Rival(String),
    /// Sizes of head under the same name; `None` where it has no such dimension.
    Dims(BTreeMap<String, Option<i64>>),
    InputValues,
    OutputType,
    OutputRemoved,
    TensorRole(Role),
    TensorDims(Vec<usize>),
    /// Head compares these alone: fewer, or others.
    ComparedElements(Compare),
    /// Its caller has to fill working memory before each launch, which no time has in it.
    PreparedScratch,
    /// Warp instructions that a case may take.
    SimulatorBudget {
        base: u64,
        head: u64,
    },
    /// Hazards within a warp are notes.
    WarpHazards,
    TimingSchedule(Vec<ScheduleChange>),
    /// It has none: why.
    ChecksLost(Box<Reason>),
    /// Counters that the base can be held to, and head cannot.
    CountersLost(Vec<(Counter, Option<Withheld>)>),
    FileRemoved,
    /// Head keeps the variant to fail by these gates.
    ExpectedToFail(Vec<GateName>),
    /// Head has this variant stand in for it.
    FallsBack(String),
    BaselineRemoved,
    /// Head's is still under the old names.
    BaselineLeft(Vec<Rename>),
    /// Figures that head's baseline file has worse.
    BaselineEdited(Vec<EditedFigure>),
    /// Head's baseline agrees on figures that are worse than what the base measures on this device, by more
    /// than a gate allows.
    BaselineAbove(Vec<EditedFigure>),
    /// The same under another compiler or other flags, which are another key.
    BaselineMoved {
        differences: Vec<KeyDifference>,
        figures: Vec<EditedFigure>,
    },
    /// The base gives nothing to compare with, which a label lets pass.
    BaseIncomparable(BaseLack),
    /// Head accepts what base does not, or less of it, or not as long.
    Accepts {
        allows: Allowance,
        by: String,
        until: String,
    },
}

impl Loosened {
    const CODE: &str = "loosened";

    /// A check that is lost silently has the name that it has without a base.
    fn code(&self) -> &'static str {
        match self {
            Self::ChecksLost(_) => "check-lost",
            Self::CountersLost(_) => "counters-lost",
            _ => Self::CODE,
        }
    }
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

/// A kind of evidence, of one subject.
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
    /// It is missing, or there twice.
    Numbering,
    Mode {
        ran: Mode,
        planned: Mode,
    },
    /// Head and base ran in two modes.
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

/// A figure that PTXAS or our formula gives, and that the driver gives too.
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
    /// With the commit that the anchor was found at, or the versions that the best was found among.
    Anchor {
        since: Since,
        found: String,
    },
    /// The base revision, measured in the same processes.
    Base,
}

/// One value against another, and how much worse it may be.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct Comparison {
    pub metric: Metric,
    pub against: Against,
    /// None of a share of slow launches against the base: there only the difference is known.
    pub was: Option<Num>,
    pub now: Option<Num>,
    /// (now - was) / was; of the slow share now - was.
    pub change: Num,
    /// 95 % interval of `change` against a baseline, the bounds of the look against the base. For times.
    pub interval: Option<[Num; 2]>,
    /// Worse by at most this share.
    pub allowed: Num,
    /// For times against a baseline: sessions that it rests on, where the spread between days is known.
    pub sessions: Option<u32>,
    /// Fresh processes of head.
    pub processes: Option<u32>,
}

/// A name of an expression with its value.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct Operand {
    pub name: String,
    /// Where it is a metric and no constant.
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
    /// Source lines that count most of it, where they are known.
    pub lines: Vec<LineCount>,
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
    /// No file of this variant under this key.
    File,
    Case,
    Metric,
}

/// Why a stored figure cannot be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum FigureProblem {
    NotFinite(Num),
    /// No value of the metric can be this.
    OutOfRange(Num),
    /// A time of one process.
    NoSpread,
    /// No interval follows from these.
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
    /// `2027-01-31`.
    pub until: String,
    pub because: String,
}

/// A finding that was accepted, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
pub struct AcceptedFinding {
    pub finding: KnownFinding,
    /// Where the line is now: `kernels/k.cu:12`.
    pub place: String,
    pub times: u64,
    pub by: String,
    /// `2027-01-31`.
    pub until: String,
    pub because: String,
    /// Where it was accepted: `baselines/accepted.yaml:3`.
    pub declared: String,
}

coded! {
/// Why a verdict came out as it did. [`Reason::code`] is its stable name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    // Held.
    Held = "held",
    Compiled {
        warnings: u32,
    } = "compiled",
    WithinLimit {
        metric: Metric,
        value: Num,
    } = "within-limit",
    ConditionHolds {
        operands: Vec<Operand>,
    } = "condition-holds",
    /// `slow_share` of launches that have one mode.
    OneMode = "one-mode",
    WithinChange(Box<Comparison>) = "within-change",
    CountersHold {
        compared: u32,
        withheld: Vec<WithheldCounters>,
    } = "counters-hold",
    /// Same machine code, launch and arguments as the base, and so not timed.
    UnchangedSinceBase {
        revision: String,
    } = "unchanged-since-base",
    Accepted {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
    } = "accepted",
    /// There are no others.
    FindingsAccepted {
        findings: Vec<AcceptedFinding>,
    } = "findings-accepted",
    LooseningAllowed(Box<Loosened>) = "loosening-allowed",
    /// Another variant stands in, which holds all of its own gates.
    FellBack {
        own: Box<Reason>,
        to: String,
    } = "fell-back",
    /// For a variant that is kept to fail: the finding of its gate.
    ExpectedFailure {
        own: Box<Reason>,
    } = "expected-failure",

    // A kernel that is wrong.
    SameCode {
        variant: String,
    } = "same-code",
    NonFinite {
        seed: u64,
        count: u64,
        elements: u64,
        worst: Option<Worst>,
    } = "non-finite",
    Unwritten {
        seed: u64,
        count: u64,
        first: Option<Location>,
    } = "unwritten",
    /// Nothing defined: what was stored there comes from memory that was never written.
    StoredUndefined {
        seed: u64,
        count: u64,
        first: Option<Location>,
    } = "stored-undefined",
    Nondeterministic {
        seed: u64,
        launch: u32,
        elements: u64,
        at: Location,
    } = "nondeterministic",
    /// The output of a later launch is another, as it finds what the first one left.
    FirstLaunchOnly {
        seed: u64,
        differs: KeptDifference,
        kept: Vec<KeptVariable>,
    } = "first-launch-only",
    WroteOutside {
        seed: u64,
        places: Vec<String>,
    } = "wrote-outside",
    InputWritten {
        seed: u64,
        inputs: Vec<String>,
    } = "input-written",
    /// The first few findings of the first seed that has any that nobody accepted.
    Findings {
        seed: u64,
        first: Vec<Finding>,
        more: usize,
        /// Those of this seed that somebody did accept.
        accepted: usize,
    } = "findings",
    /// Hazards within a warp that the base does not have, of the first seed that has any.
    NewHazards {
        seed: u64,
        first: Vec<Finding>,
        more: usize,
    } = "new-hazards",
    NoEntry = "no-entry",
    UndeclaredEntry {
        symbol: String,
    } = "undeclared-entry",
    DriverDisagrees {
        entry: String,
        figure: DriverFigure,
        ours: u64,
        drivers: u64,
    } = "driver-disagrees",
    LaunchedOtherwise {
        entry: String,
    } = "launched-otherwise",
    SharedBeyondDeclared {
        entry: String,
        asked: u32,
        declared: Option<u32>,
    } = "shared-beyond-declared",

    // A limit that is broken.
    BeyondLimit {
        metric: Metric,
        value: Num,
        op: Op,
        bound: Num,
        worst: Option<(u64, Worst)>,
    } = "beyond-limit",
    /// With the seed, and how many of how many elements are not finite.
    NotANumber {
        metric: Metric,
        because: Option<(u64, u64, u64)>,
    } = "not-a-number",
    ConditionBroken {
        operands: Vec<Operand>,
    } = "condition-broken",
    BeyondChange(Box<Comparison>) = "beyond-change",
    CountersRose {
        against: Against,
        rises: Vec<CounterRise>,
        allowed: Num,
    } = "counters-rose",
    Loosened(Box<Loosened>) => Self::Loosened(it) => it.code(),
    AcceptanceExpired {
        by: String,
        until: String,
        day: String,
    } = "acceptance-expired",
    AcceptanceUndated {
        started: String,
    } = "acceptance-undated",
    AcceptanceOfNothing {
        case: String,
    } = "acceptance-of-nothing",
    AcceptanceWithoutGate {
        case: String,
    } = "acceptance-without-gate",
    AcceptanceUnused {
        by: String,
        until: String,
    } = "acceptance-unused",
    /// A variant that is kept to fail holds all of its gates.
    ExpectedFailurePassed = "expected-failure-passed",
    /// It fails gates that it is not kept for.
    FailedOtherwise {
        /// On the first of its cases and units that does.
        on: Box<Subject>,
        failed: Vec<Rule>,
    } = "failed-otherwise",
    /// No launch of the cases that an acceptance names has the finding.
    AcceptedFindingGone {
        by: String,
        until: String,
    } = "accepted-finding-gone",
    /// Broken, and no longer accepted.
    AcceptedUntil {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
    } = "accepted-until",
    BeyondAccepted {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
    } = "beyond-accepted",
    BaselineUnreadable {
        path: String,
        problem: String,
    } = "baseline-unreadable",
    BaselineUnusable {
        of: Against,
        metric: Metric,
        problem: FigureProblem,
    } = "baseline-unusable",

    // Something broke, cannot be done, or was not run.
    Fault(Fault) => Self::Fault(it) => it.kind.code(),
    Unsupported(Unsupported) => Self::Unsupported(it) => it.code(),
    NotRun(NotRun) => Self::NotRun(it) => it.code(),
    /// For a variant that is kept to fail: none of the gates that it is kept for gave an answer that decides.
    ExpectedFailureOpen = "expected-failure-open",
    GpuRequired {
        why: Box<Reason>,
    } = "gpu-required",
    NotBuilt {
        unit: UnitId,
    } = "not-built",
    NotProven {
        why: Box<Reason>,
    } = "not-proven",
    /// For the code of one of several architectures.
    OnArchitecture {
        arch: Arch,
        why: Box<Reason>,
    } => Self::OnArchitecture { why, .. } => why.code(),
    NoErrorLimit = "no-error-limit",
    /// gates.yaml says that there is no reference.
    Unreferenced = "unreferenced",
    NotSelected {
        what: String,
    } = "not-selected",
    NotInPlan {
        what: String,
    } = "not-in-plan",
    NoArchitecture {
        kernel: String,
        variant: String,
        device: String,
        arch: Arch,
    } = "no-architecture",
    NotSimulated = "not-simulated",
    NotProfiled = "not-profiled",
    NoSibling = "no-sibling",
    DeclaredNondeterministic {
        because: String,
    } = "declared-nondeterministic",
    RepeatsByConstruction = "repeats-by-construction",
    UnknownArchitecture {
        arch: Arch,
    } = "unknown-architecture",
    LauncherElsewhere {
        arch: Arch,
    } = "launcher-elsewhere",
    NoCodec = "no-codec",
    CounterWithheld {
        counter: Counter,
        why: Option<Withheld>,
    } = "counter-withheld",
    CountersWithheld {
        why: Option<Withheld>,
    } = "counters-withheld",
    /// In the rival's own words.
    RivalSkipped {
        rival: String,
        backend: String,
        because: String,
    } = "rival-skipped",

    // Evidence that does not decide.
    EvidenceMissing(Piece) = "evidence-missing",
    EvidenceRepeated {
        piece: Piece,
        times: usize,
    } = "evidence-repeated",
    TimingIncomplete {
        process: u32,
        gap: TimingGap,
    } = "timing-incomplete",
    TooFewProcesses {
        have: usize,
        needed: usize,
    } = "too-few-processes",
    TooFewSingles {
        metric: Metric,
        have: usize,
        needed: u32,
    } = "too-few-singles",
    TooFewLaunches {
        have: usize,
    } = "too-few-launches",
    Throttled {
        throttled: usize,
        processes: usize,
        needed: usize,
        causes: Vec<String>,
    } = "throttled",
    /// The profile has no entry for it, not even that it cannot be had.
    NotInProfile {
        metric: Metric,
    } = "not-in-profile",
    TooFewProfiles {
        metric: Metric,
        have: usize,
        needed: usize,
    } = "too-few-profiles",
    /// Profiles of one code disagree on whether the limit holds: it lies inside their spread.
    RepeatsDisagree {
        metric: Metric,
        low: Num,
        high: Num,
        repeats: usize,
    } = "repeats-disagree",
    ClockUnknown = "clock-unknown",
    ClockTooCoarse {
        metric: Metric,
        side: Side,
        value: Num,
        tick_ns: u64,
    } = "clock-too-coarse",
    NoSpread = "no-spread",
    Undecided {
        comparison: Box<Comparison>,
        visible: Option<Num>,
        needed: Option<u32>,
    } = "undecided",
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Undecidable {
        metric: Metric,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: Undecidable,
    } = "undecidable",
    PairingUnknown = "pairing-unknown",
    NoSeeds = "no-seeds",
    NothingCompared {
        seed: u64,
    } = "nothing-compared",
    TooFewRepeats {
        seed: u64,
        have: u32,
        needed: u32,
    } = "too-few-repeats",
    DriverEntries {
        count: usize,
        expected: usize,
    } = "driver-entries",
    EntriesDiffer {
        declared: usize,
        reported: usize,
    } = "entries-differ",
    LaunchUnknown {
        unit: UnitId,
    } = "launch-unknown",
    SiblingUnknown {
        variant: String,
    } = "sibling-unknown",
    NoCommonShape {
        variant: String,
    } = "no-common-shape",
    NoTolerance {
        metric: Metric,
    } = "no-tolerance",
    /// A gate or metric on a subject that cannot have it.
    Misplaced {
        metric: Option<Metric>,
    } = "misplaced",
    BadChange {
        allowed: Num,
    } = "bad-change",
    NoRelative {
        metric: Metric,
    } = "no-relative",
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Unparsed {
        text: String,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: ExprError,
    } = "unparsed",
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Unevaluated {
        text: String,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: EvalError,
    } = "unevaluated",
    UnknownName {
        text: String,
        name: String,
    } = "unknown-name",
    TimeInCorrectness {
        text: String,
        metric: Metric,
    } = "time-in-correctness",
    OperandUnknown {
        name: String,
        why: Box<Reason>,
    } = "operand-unknown",
    /// The simulator checked it when its baselines were made, and does not now.
    CheckLost {
        shape: String,
        why: Box<Reason>,
    } = "check-lost",
    CountersLost {
        lost: Vec<(Counter, Option<Withheld>)>,
    } = "counters-lost",
    PartlyAccepted {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
        other: Box<Reason>,
    } = "partly-accepted",

    // Nothing to compare with.
    New {
        metric: Metric,
        lacking: Lacking,
    } = "new",
    NewSinceBase {
        revision: String,
    } = "new-since-base",
    NewSinceAnchor {
        since: Since,
        found: String,
    } = "new-since-anchor",
    NoBase = "no-base",
    OtherKey {
        differences: Vec<KeyDifference>,
    } = "other-key",
    AnchorOtherKey {
        since: Since,
        differences: Vec<KeyDifference>,
    } = "anchor-other-key",
    AnchorMissing {
        since: Since,
    } = "anchor-missing",
    AnchorUnreadable {
        since: Since,
        path: String,
        problem: String,
    } = "anchor-unreadable",
    TwoBaselines {
        dates: [String; 2],
    } = "two-baselines",
    BaseLacks {
        metric: Metric,
        why: Box<Reason>,
    } = "base-lacks",
    /// The base was not simulated, so nobody knows whether it has these hazards within a warp too.
    HazardsNotCompared {
        count: usize,
        why: Box<Reason>,
    } = "hazards-not-compared",
    BaseNotBuilt {
        why: Box<Reason>,
    } = "base-not-built",
    BaseIncomparable(BaseLack) => Self::BaseIncomparable(it) => it.code(),
    BaseArchitecture {
        revision: String,
        case: Box<CaseId>,
        device: String,
    } = "base-architecture",
    HeadPassedOver {
        why: Box<Reason>,
    } = "head-passed-over",
    TwoProtocols = "two-protocols",

    // Not fit to become a baseline.
    /// The run does not hold head to what the base asks here: why.
    NotHeldToBase {
        why: Box<Reason>,
    } = "not-held-to-base",
    TimedAgainstBase = "timed-against-base",
    ThrottledProcesses {
        count: u32,
    } = "throttled-processes",
    NothingMeasured = "nothing-measured",
}
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Reason {
    /// Every code that a verdict can have.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let own = Self::CODES.iter().copied();
        own.chain([Loosened::CODE])
            .chain(BaseLack::CODES.iter().copied())
            .chain(super::FaultKind::ALL.map(super::FaultKind::code))
            .chain(Unsupported::CODES.iter().copied())
            .chain(NotRun::CODES.iter().copied())
    }

    /// A skip for want of any baseline: to be accepted, and no failure.
    pub fn is_new(&self) -> bool {
        matches!(self, Self::New { .. } | Self::NewSinceBase { .. })
    }
}

impl KeyDifference {
    /// Fields in which two keys of one kind differ.
    pub fn between(theirs: &BaselineKey, here: &BaselineKey) -> Vec<Self> {
        let pairs = theirs.fields().into_iter().zip(here.fields());
        pairs
            .filter(|(theirs, here)| theirs != here)
            .map(|((field, theirs), (_, here))| Self {
                field,
                theirs,
                here,
            })
            .collect()
    }
}
