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

/// What a verdict answers.
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

/// What a base revision asked of its kernels.
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
    /// What a whole file of gates asks of a case.
    File(String),
    /// That no gate of a variant fails, but for these.
    NoFailure(Vec<GateName>),
    /// That no other variant stands in for this one, but for this.
    NoFallback(Option<String>),
}

/// Why a base gives nothing that head could be compared with. It passes by a label alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum BaseLack {
    /// With the reason of its build: the words of nvcc, or why it was not asked.
    NotBuilt(Box<Reason>),
    /// Its reference has no answer in its own tree to its own inputs either. What the compiler or the reference said.
    ReferenceBroken(String),
    /// Its reference did not answer before its deadline. What it said.
    ReferenceLate(String),
    /// Its record was checked, and has no digest of what its reference computed.
    NoDigests,
    /// A check of it gave no answer.
    Unanswered(Box<Reason>),
    /// Its record is of another kind of device, and answers what head's does not.
    OtherDevice,
}

impl BaseLack {
    const CODES: [&str; 5] = [
        "base-reference-broken",
        "base-reference-late",
        "base-without-digests",
        "base-unanswered",
        "base-on-other-device",
    ];

    pub fn code(&self) -> &'static str {
        let [broken, late, without_digests, unanswered, elsewhere] = Self::CODES;
        match self {
            // The name that it has for times.
            Self::NotBuilt(_) => "base-not-built",
            Self::ReferenceBroken(_) => broken,
            Self::ReferenceLate(_) => late,
            Self::NoDigests => without_digests,
            Self::Unanswered(_) => unanswered,
            Self::OtherDevice => elsewhere,
        }
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

    /// What is lost without a word has the name that it has without a base.
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

/// What one timing process lacks.
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

/// What a figure is compared with.
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
    /// 95 % interval of `change` against a baseline, the bounds of the look against the base. Of times.
    pub interval: Option<[Num; 2]>,
    /// Worse by at most this share.
    pub allowed: Num,
    /// Of times against a baseline: sessions that it rests on, where the spread between days is known.
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

/// What there is no baseline of.
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

/// Why a verdict came out as it did. [`Reason::code`] is its stable name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[cfg_attr(feature = "fixture", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    // What held.
    Held,
    Compiled {
        warnings: u32,
    },
    WithinLimit {
        metric: Metric,
        value: Num,
    },
    ConditionHolds {
        operands: Vec<Operand>,
    },
    /// `slow_share` of launches that have one mode.
    OneMode,
    WithinChange(Box<Comparison>),
    CountersHold {
        compared: u32,
        withheld: Vec<WithheldCounters>,
    },
    /// Same machine code, launch and arguments as the base, and so not timed.
    UnchangedSinceBase {
        revision: String,
    },
    Accepted {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
    },
    /// There are no others.
    FindingsAccepted {
        findings: Vec<AcceptedFinding>,
    },
    LooseningAllowed(Box<Loosened>),
    /// Another variant stands in, which holds all of its own gates.
    FellBack {
        own: Box<Reason>,
        to: String,
    },
    /// Of a variant that is kept to fail: what its gate found.
    ExpectedFailure {
        own: Box<Reason>,
    },

    // A kernel that is wrong.
    SameCode {
        variant: String,
    },
    NonFinite {
        seed: u64,
        count: u64,
        elements: u64,
        worst: Option<Worst>,
    },
    Unwritten {
        seed: u64,
        count: u64,
        first: Option<Location>,
    },
    Nondeterministic {
        seed: u64,
        launch: u32,
        elements: u64,
        at: Location,
    },
    /// The output of a later launch is another, as it finds what the first one left.
    FirstLaunchOnly {
        seed: u64,
        differs: KeptDifference,
        kept: Vec<KeptVariable>,
    },
    WroteOutside {
        seed: u64,
        places: Vec<String>,
    },
    InputWritten {
        seed: u64,
        inputs: Vec<String>,
    },
    /// The first few findings of the first seed that has any that nobody accepted.
    Findings {
        seed: u64,
        first: Vec<Finding>,
        more: usize,
        /// Those of this seed that somebody did accept.
        accepted: usize,
    },
    /// Hazards within a warp that the base does not have, of the first seed that has any.
    NewHazards {
        seed: u64,
        first: Vec<Finding>,
        more: usize,
    },
    NoEntry,
    UndeclaredEntry {
        symbol: String,
    },
    DriverDisagrees {
        entry: String,
        figure: DriverFigure,
        ours: u64,
        drivers: u64,
    },
    LaunchedOtherwise {
        entry: String,
    },
    SharedBeyondDeclared {
        entry: String,
        asked: u32,
        declared: Option<u32>,
    },

    // A limit that is broken.
    BeyondLimit {
        metric: Metric,
        value: Num,
        op: Op,
        bound: Num,
        worst: Option<(u64, Worst)>,
    },
    /// With the seed, and how many of how many elements are not finite.
    NotANumber {
        metric: Metric,
        because: Option<(u64, u64, u64)>,
    },
    ConditionBroken {
        operands: Vec<Operand>,
    },
    BeyondChange(Box<Comparison>),
    CountersRose {
        against: Against,
        rises: Vec<CounterRise>,
        allowed: Num,
    },
    Loosened(Box<Loosened>),
    AcceptanceExpired {
        by: String,
        until: String,
        day: String,
    },
    AcceptanceUndated {
        started: String,
    },
    AcceptanceOfNothing {
        case: String,
    },
    AcceptanceWithoutGate {
        case: String,
    },
    AcceptanceUnused {
        by: String,
        until: String,
    },
    /// A variant that is kept to fail holds all of its gates.
    ExpectedFailurePassed,
    /// It fails gates that it is not kept for.
    FailedOtherwise {
        /// On the first of its cases and units that does.
        on: Box<Subject>,
        failed: Vec<Rule>,
    },
    /// No launch of the cases that an acceptance names has the finding.
    AcceptedFindingGone {
        by: String,
        until: String,
    },
    /// Broken, and no longer accepted.
    AcceptedUntil {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
    },
    BeyondAccepted {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
    },
    BaselineUnreadable {
        path: String,
        problem: String,
    },
    BaselineUnusable {
        of: Against,
        metric: Metric,
        problem: FigureProblem,
    },

    // Something broke, cannot be done, or was not run.
    Fault(Fault),
    Unsupported(Unsupported),
    NotRun(NotRun),
    /// Of a variant that is kept to fail: none of the gates that it is kept for gave an answer that decides.
    ExpectedFailureOpen,
    GpuRequired {
        why: Box<Reason>,
    },
    NotBuilt {
        unit: UnitId,
    },
    NotProven {
        why: Box<Reason>,
    },
    /// Of the code for one of several architectures.
    OnArchitecture {
        arch: Arch,
        why: Box<Reason>,
    },
    NoErrorLimit,
    /// gates.yaml says that there is no reference.
    Unreferenced,
    NotSelected {
        what: String,
    },
    NotInPlan {
        what: String,
    },
    NoArchitecture {
        kernel: String,
        variant: String,
        device: String,
        arch: Arch,
    },
    NotSimulated,
    NotProfiled,
    NoSibling,
    DeclaredNondeterministic {
        because: String,
    },
    RepeatsByConstruction,
    UnknownArchitecture {
        arch: Arch,
    },
    LauncherElsewhere {
        arch: Arch,
    },
    NoCodec,
    CounterWithheld {
        counter: Counter,
        why: Option<Withheld>,
    },
    CountersWithheld {
        why: Option<Withheld>,
    },
    /// In the rival's own words.
    RivalSkipped {
        rival: String,
        backend: String,
        because: String,
    },

    // Evidence that does not decide.
    EvidenceMissing(Piece),
    EvidenceRepeated {
        piece: Piece,
        times: usize,
    },
    TimingIncomplete {
        process: u32,
        gap: TimingGap,
    },
    TooFewProcesses {
        have: usize,
        needed: usize,
    },
    TooFewSingles {
        metric: Metric,
        have: usize,
        needed: u32,
    },
    TooFewLaunches {
        have: usize,
    },
    Throttled {
        throttled: usize,
        processes: usize,
        needed: usize,
        causes: Vec<String>,
    },
    /// The profile has no entry for it, not even that it cannot be had.
    NotInProfile {
        metric: Metric,
    },
    TooFewProfiles {
        metric: Metric,
        have: usize,
        needed: usize,
    },
    /// Profiles of one code disagree on whether the limit holds: it lies inside their spread.
    RepeatsDisagree {
        metric: Metric,
        low: Num,
        high: Num,
        repeats: usize,
    },
    ClockUnknown,
    ClockTooCoarse {
        metric: Metric,
        side: Side,
        value: Num,
        tick_ns: u64,
    },
    NoSpread,
    Undecided {
        comparison: Box<Comparison>,
        visible: Option<Num>,
        needed: Option<u32>,
    },
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Undecidable {
        metric: Metric,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: Undecidable,
    },
    PairingUnknown,
    NoSeeds,
    NothingCompared {
        seed: u64,
    },
    TooFewRepeats {
        seed: u64,
        have: u32,
        needed: u32,
    },
    DriverEntries {
        count: usize,
        expected: usize,
    },
    EntriesDiffer {
        declared: usize,
        reported: usize,
    },
    LaunchUnknown {
        unit: UnitId,
    },
    SiblingUnknown {
        variant: String,
    },
    NoCommonShape {
        variant: String,
    },
    NoTolerance {
        metric: Metric,
    },
    /// A gate or metric on a subject that cannot have it.
    Misplaced {
        metric: Option<Metric>,
    },
    BadChange {
        allowed: Num,
    },
    NoRelative {
        metric: Metric,
    },
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Unparsed {
        text: String,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: ExprError,
    },
    #[cfg_attr(feature = "fixture", serde(skip_deserializing))]
    Unevaluated {
        text: String,
        #[serde(serialize_with = "as_text")]
        #[schemars(with = "String")]
        problem: EvalError,
    },
    UnknownName {
        text: String,
        name: String,
    },
    TimeInCorrectness {
        text: String,
        metric: Metric,
    },
    OperandUnknown {
        name: String,
        why: Box<Reason>,
    },
    /// The simulator checked it when its baselines were made, and does not now.
    CheckLost {
        shape: String,
        why: Box<Reason>,
    },
    CountersLost {
        lost: Vec<(Counter, Option<Withheld>)>,
    },
    PartlyAccepted {
        own: Box<Reason>,
        accepted: Box<AcceptedLimit>,
        other: Box<Reason>,
    },

    // Nothing to compare with.
    New {
        metric: Metric,
        lacking: Lacking,
    },
    NewSinceBase {
        revision: String,
    },
    NewSinceAnchor {
        since: Since,
        found: String,
    },
    NoBase,
    OtherKey {
        differences: Vec<KeyDifference>,
    },
    AnchorOtherKey {
        since: Since,
        differences: Vec<KeyDifference>,
    },
    AnchorMissing {
        since: Since,
    },
    AnchorUnreadable {
        since: Since,
        path: String,
        problem: String,
    },
    TwoBaselines {
        dates: [String; 2],
    },
    BaseLacks {
        metric: Metric,
        why: Box<Reason>,
    },
    /// The base was not simulated, so nobody knows whether it has these hazards within a warp too.
    HazardsNotCompared {
        count: usize,
        why: Box<Reason>,
    },
    BaseNotBuilt {
        why: Box<Reason>,
    },
    BaseIncomparable(BaseLack),
    BaseArchitecture {
        revision: String,
        case: Box<CaseId>,
        device: String,
    },
    HeadPassedOver {
        why: Box<Reason>,
    },
    TwoProtocols,

    // Not fit to become a baseline.
    /// The run does not hold head to what the base asks here: why.
    NotHeldToBase {
        why: Box<Reason>,
    },
    TimedAgainstBase,
    ThrottledProcesses {
        count: u32,
    },
    NothingMeasured,
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// One list gives each variant its code and all of them their order in the documentation.
macro_rules! codes {
    ($($variant:ident => $code:literal,)*) => {
        impl Reason {
            /// Codes of the reasons that the judge itself gives, in the order of the documentation.
            const OWN: &[&str] = &[$($code),*];

            /// Stable: programs match on it. What a fault, a refusal or a skip is has its own.
            pub fn code(&self) -> &'static str {
                match self {
                    Self::Fault(fault) => fault.kind.code(),
                    Self::Unsupported(why) => why.code(),
                    Self::NotRun(why) => why.code(),
                    Self::OnArchitecture { why, .. } => why.code(),
                    Self::Loosened(how) => how.code(),
                    Self::BaseIncomparable(lack) => lack.code(),
                    $(Self::$variant { .. } => $code,)*
                }
            }
        }
    };
}

codes! {
    Held => "held",
    Compiled => "compiled",
    WithinLimit => "within-limit",
    ConditionHolds => "condition-holds",
    OneMode => "one-mode",
    WithinChange => "within-change",
    CountersHold => "counters-hold",
    UnchangedSinceBase => "unchanged-since-base",
    Accepted => "accepted",
    FindingsAccepted => "findings-accepted",
    LooseningAllowed => "loosening-allowed",
    FellBack => "fell-back",
    ExpectedFailure => "expected-failure",
    SameCode => "same-code",
    NonFinite => "non-finite",
    Unwritten => "unwritten",
    Nondeterministic => "nondeterministic",
    FirstLaunchOnly => "first-launch-only",
    WroteOutside => "wrote-outside",
    InputWritten => "input-written",
    Findings => "findings",
    NewHazards => "new-hazards",
    NoEntry => "no-entry",
    UndeclaredEntry => "undeclared-entry",
    DriverDisagrees => "driver-disagrees",
    LaunchedOtherwise => "launched-otherwise",
    SharedBeyondDeclared => "shared-beyond-declared",
    BeyondLimit => "beyond-limit",
    NotANumber => "not-a-number",
    ConditionBroken => "condition-broken",
    BeyondChange => "beyond-change",
    CountersRose => "counters-rose",
    AcceptanceExpired => "acceptance-expired",
    AcceptanceUndated => "acceptance-undated",
    AcceptanceOfNothing => "acceptance-of-nothing",
    AcceptanceWithoutGate => "acceptance-without-gate",
    AcceptanceUnused => "acceptance-unused",
    ExpectedFailurePassed => "expected-failure-passed",
    FailedOtherwise => "failed-otherwise",
    AcceptedFindingGone => "accepted-finding-gone",
    AcceptedUntil => "accepted-until",
    BeyondAccepted => "beyond-accepted",
    BaselineUnreadable => "baseline-unreadable",
    BaselineUnusable => "baseline-unusable",
    ExpectedFailureOpen => "expected-failure-open",
    GpuRequired => "gpu-required",
    NotBuilt => "not-built",
    NotProven => "not-proven",
    NoErrorLimit => "no-error-limit",
    Unreferenced => "unreferenced",
    NotSelected => "not-selected",
    NotInPlan => "not-in-plan",
    NoArchitecture => "no-architecture",
    NotSimulated => "not-simulated",
    NotProfiled => "not-profiled",
    NoSibling => "no-sibling",
    DeclaredNondeterministic => "declared-nondeterministic",
    RepeatsByConstruction => "repeats-by-construction",
    UnknownArchitecture => "unknown-architecture",
    LauncherElsewhere => "launcher-elsewhere",
    NoCodec => "no-codec",
    CounterWithheld => "counter-withheld",
    CountersWithheld => "counters-withheld",
    RivalSkipped => "rival-skipped",
    EvidenceMissing => "evidence-missing",
    EvidenceRepeated => "evidence-repeated",
    TimingIncomplete => "timing-incomplete",
    TooFewProcesses => "too-few-processes",
    TooFewSingles => "too-few-singles",
    TooFewLaunches => "too-few-launches",
    Throttled => "throttled",
    NotInProfile => "not-in-profile",
    TooFewProfiles => "too-few-profiles",
    RepeatsDisagree => "repeats-disagree",
    ClockUnknown => "clock-unknown",
    ClockTooCoarse => "clock-too-coarse",
    NoSpread => "no-spread",
    Undecided => "undecided",
    Undecidable => "undecidable",
    PairingUnknown => "pairing-unknown",
    NoSeeds => "no-seeds",
    NothingCompared => "nothing-compared",
    TooFewRepeats => "too-few-repeats",
    DriverEntries => "driver-entries",
    EntriesDiffer => "entries-differ",
    LaunchUnknown => "launch-unknown",
    SiblingUnknown => "sibling-unknown",
    NoCommonShape => "no-common-shape",
    NoTolerance => "no-tolerance",
    Misplaced => "misplaced",
    BadChange => "bad-change",
    NoRelative => "no-relative",
    Unparsed => "unparsed",
    Unevaluated => "unevaluated",
    UnknownName => "unknown-name",
    TimeInCorrectness => "time-in-correctness",
    OperandUnknown => "operand-unknown",
    CheckLost => "check-lost",
    CountersLost => "counters-lost",
    PartlyAccepted => "partly-accepted",
    New => "new",
    NewSinceBase => "new-since-base",
    NewSinceAnchor => "new-since-anchor",
    NoBase => "no-base",
    OtherKey => "other-key",
    AnchorOtherKey => "anchor-other-key",
    AnchorMissing => "anchor-missing",
    AnchorUnreadable => "anchor-unreadable",
    TwoBaselines => "two-baselines",
    BaseLacks => "base-lacks",
    HazardsNotCompared => "hazards-not-compared",
    BaseNotBuilt => "base-not-built",
    BaseArchitecture => "base-architecture",
    HeadPassedOver => "head-passed-over",
    TwoProtocols => "two-protocols",
    NotHeldToBase => "not-held-to-base",
    TimedAgainstBase => "timed-against-base",
    ThrottledProcesses => "throttled-processes",
    NothingMeasured => "nothing-measured",
}

impl Reason {
    /// Every code that a verdict can have.
    pub fn codes() -> impl Iterator<Item = &'static str> {
        let own = Self::OWN.iter().copied();
        own.chain([Loosened::CODE])
            .chain(BaseLack::CODES)
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
