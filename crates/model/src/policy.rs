//! The rules that evidence is judged by: gates, baselines and acceptances.

use super::expr::{ExprError, Expression};
use super::{
    Baseline, CaseId, Facet, Fault, Finding, FindingKind, Margin, Metric, Num, Place, Plan, Rename,
    SourceLine, Subject, UnitId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The gates in the order of gates.yaml.
    pub gates: Vec<Gate>,
    pub baselines: Vec<Baseline>,
    /// Baseline files that exist and could not be used. Each of them fails everything that it covers.
    pub broken_baselines: Vec<BrokenBaseline>,
    /// Faults of the record whose measurements are the baselines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_faults: Vec<BaseFault>,
    /// True if a missing GPU makes verdicts of the environment. Otherwise checks and times are skipped without one.
    pub require_gpu: bool,
    /// One anchor for each revision that a gate names, and one for the best level.
    pub anchors: Vec<Anchor>,
    /// The acceptances in the order of baselines/accepted.yaml.
    pub accepted: Vec<Acceptance>,
    /// The targets in the order of gates.yaml. No verdict follows from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// True if a variant that fails may fall back on another, by --allow-fallback.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_fallback: bool,
    /// The revision that head is compared with.
    pub base: Option<Base>,
}

impl Policy {
    /// A policy that asks for nothing, for runs that only show something.
    pub const NOTHING: Self = Self {
        gates: Vec::new(),
        baselines: Vec::new(),
        broken_baselines: Vec::new(),
        base_faults: Vec::new(),
        require_gpu: false,
        anchors: Vec::new(),
        accepted: Vec::new(),
        targets: Vec::new(),
        allow_fallback: false,
        base: None,
    };
}

/// The point from which slow erosion is counted: each small step is within what one change may cost, and their sum is
/// not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Since {
    /// The values that the baselines of this revision agreed on.
    Revision(String),
    /// The best level that the baselines ever kept up.
    Best,
}

impl fmt::Display for Since {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Revision(revision) => revision,
            Self::Best => "best",
        })
    }
}

/// The baselines that were agreed there, for the kernels of this run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    pub since: Since,
    /// The commit that was found, `0a34415aaaaa`, or the versions among which the best was found, `12 versions`.
    pub found: String,
    pub baselines: Vec<Baseline>,
    pub broken_baselines: Vec<BrokenBaseline>,
}

/// A failing gate that passes: an intended regression, or a known finding, under a name and until a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// The cases as written: `sdpa_fp8/stage2@mission`, each part a glob.
    pub case: String,
    /// The subjects of this run that it names.
    pub subjects: Vec<Subject>,
    /// True if it also names subjects or seeds that a filter left out of this run.
    pub left_out: bool,
    pub allows: Allowance,
    pub reason: String,
    pub by: String,
    /// The last day on which it is valid, by the date of the record: `2027-01-31`.
    pub until: String,
    /// The place of its declaration: for example `baselines/accepted.yaml:3`.
    pub declared: String,
}

impl Acceptance {
    /// Returns true if the acceptance is valid on a day. It is not if the day is unknown.
    pub fn holds_on(&self, day: Option<&str>) -> bool {
        // Days in this form sort by their text.
        day.is_some_and(|day| day <= self.until.as_str())
    }
}

/// The failure that an acceptance lets pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Allowance {
    /// A rule that replaces a gate's own limit: `Limit` or `Counters`. A change replaces limits against the baseline
    /// and against the base revision, and a bound replaces absolute limits.
    Limit(Rule),
    Finding(KnownFinding),
}

/// Findings of one kind at one source line. The line is identified by its text, because its number changes with every
/// edit above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnownFinding {
    pub kind: FindingKind,
    pub file: String,
    /// The text of the line, with single blanks.
    pub line: String,
}

impl KnownFinding {
    /// Returns the place of a finding at this line, or `None` if the line differs.
    pub fn place_in<'a>(&self, finding: &'a Finding) -> Option<&'a Place> {
        let is_line = |line: &SourceLine| {
            line.file == self.file
                && line.text.as_deref().map(with_single_blanks).as_ref() == Some(&self.line)
        };
        finding
            .places
            .iter()
            .filter(|_| finding.kind == self.kind)
            .find(|place| place.line.as_ref().is_some_and(is_line))
    }
}

/// Returns the text of a source line without what an editor changes of it.
pub fn with_single_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Another revision of the same repository, or the same files under another compiler: its demands on its kernels, and
/// how it calls them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// The base as it was named: `origin/main`, `nvcc 13.0`.
    pub revision: String,
    /// The abbreviated hash. Empty outside git, and if the base is the same files.
    pub commit: String,
    /// The compiler that makes the same files a base: `13.0`, as `--base-toolchain` named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<String>,
    /// The whole plan, whatever was selected of head, with head's names. Gates, baselines and acceptances are whole,
    /// too.
    pub plan: Plan,
    pub gates: Vec<Gate>,
    pub baselines: Vec<Baseline>,
    pub accepted: Vec<Acceptance>,
    /// The things that had another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<Rename>,
    /// The cases that are not in `plan` because head has them in another file, and compiled files in the same
    /// situation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedGates>,
    pub gone: Vec<GoneGates>,
    /// Files of gates that head no longer has, and that cannot be loaded at the base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadGates>,
    /// Kernels of compiled files that may be worse ones under another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedKernel>,
    /// Says that the base has no gates for the run's file of gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_gates: Option<NoGates>,
    pub loosening: Loosening,
}

impl Base {
    /// Returns a base that has nothing but these, and that fails head for anything loosened.
    pub fn new(revision: &str, commit: &str, plan: Plan, gates: Vec<Gate>) -> Self {
        Self {
            revision: revision.to_owned(),
            commit: commit.to_owned(),
            toolchain: None,
            plan,
            gates,
            baselines: Vec::new(),
            accepted: Vec::new(),
            renames: Vec::new(),
            moved: Vec::new(),
            gone: Vec::new(),
            unread: Vec::new(),
            replaced: Vec::new(),
            no_gates: None,
            loosening: Loosening::Fails,
        }
    }
}

/// A base with which nothing is compared: it has no file of gates at the path of the run's own, and none that became
/// it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoGates {
    /// The run's own file, relative to the top of the repository.
    pub file: String,
    /// Files of the base with gates for kernels, programs, compiled files or sources of the run's own file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<String>,
}

/// A file of gates that the base has, and head has neither at its path nor where it was moved to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoneGates {
    /// The path, relative to the top of the repository.
    pub file: String,
    pub cases: Vec<CaseId>,
    /// Its compiled files, each as the unit of all its kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binaries: Vec<UnitId>,
}

/// A kernel of a compiled file that is worse than one of the base's, and may be the same kernel under another name. If
/// the new kernels are sorted by what they take, and so are the kernels that are gone, it has the position of `was`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplacedKernel {
    pub unit: UnitId,
    pub metric: Metric,
    pub now: Num,
    pub gone: String,
    pub was: Num,
}

/// A file of gates whose demands are unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnreadGates {
    /// The path, relative to the top of the repository.
    pub file: String,
    pub problem: String,
}

/// Cases and compiled files of the base's file of gates that head has in a new file. A run of that file judges them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MovedGates {
    /// Head's file, relative to the top of the repository.
    pub file: String,
    pub cases: Vec<CaseId>,
    /// Its compiled files, each as the unit of all its kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binaries: Vec<UnitId>,
}

/// The fate of a gate that is looser at head than at the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loosening {
    Fails,
    /// It passes by --allow-loosened, and is still listed.
    Allowed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub subject: Subject,
    pub rule: Rule,
    /// Where the gate was written, `gates.yaml:42`. Rules that need not be written have no place.
    pub declared: Option<String>,
}

/// A value that is to be reached. It is reported, and is no gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub subject: Subject,
    pub metric: Metric,
    pub op: Op,
    pub bound: Bound,
    /// Why the target is missed, if that is known.
    pub because: Option<String>,
    /// The place of its declaration: for example `gates.yaml:42`.
    pub declared: String,
}

impl Target {
    /// Returns the rule that the target would be as a gate.
    pub fn rule(&self) -> Rule {
        Rule::Limit {
            metric: self.metric,
            limit: Limit::Absolute {
                op: self.op,
                bound: self.bound.clone(),
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// It compiles, and PTXAS and the cubin know its entries. Every unit has it.
    Built,
    /// No sibling variant executes the same code with the same launches and arguments.
    HasEffect,
    /// Every output element finite where the reference is, written, equal over launches unless declared
    /// non-deterministic, and inputs untouched. Every case has these four.
    Finite,
    Written,
    Deterministic,
    InputsIntact,
    /// PTXAS and our formula agree with the driver on the device: registers, static shared
    /// memory, blocks per SM; for a launcher, entries and dynamic shared memory as declared.
    AgreesWithDriver,
    /// The simulator's checks of memory, races and synchronisation found nothing.
    NoFindings,
    /// No counter that can be gated is worse than its baseline by more than this share.
    Counters {
        change: Num,
    },
    Limit {
        metric: Metric,
        limit: Limit,
    },
    /// A condition that joins metrics: `registers <= 64 || occupancy >= 0.5`.
    Condition {
        expr: Expr,
    },
}

/// A gate by its subject, whatever its limit: as reports and gates.yaml name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateName {
    Finite,
    Written,
    Deterministic,
    InputsIntact,
    AgreesWithDriver,
    NoFindings,
    Conditions,
    Metric(Metric),
}

impl GateName {
    /// Returns the name of a rule's gate. Returns `None` for a rule that says nothing about a kernel that runs, and for
    /// one that only compares.
    pub fn from_rule(rule: &Rule) -> Option<Self> {
        match rule {
            Rule::Finite => Some(Self::Finite),
            Rule::Written => Some(Self::Written),
            Rule::Deterministic => Some(Self::Deterministic),
            Rule::InputsIntact => Some(Self::InputsIntact),
            Rule::AgreesWithDriver => Some(Self::AgreesWithDriver),
            Rule::NoFindings => Some(Self::NoFindings),
            Rule::Condition { .. } => Some(Self::Conditions),
            Rule::Limit { metric, .. } => Some(Self::Metric(*metric)),
            Rule::Built | Rule::HasEffect | Rule::Counters { .. } => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Finite => "finite",
            Self::Written => "written",
            Self::Deterministic => "deterministic",
            Self::InputsIntact => "inputs intact",
            Self::AgreesWithDriver => "agrees with driver",
            Self::NoFindings => "memory and races",
            Self::Conditions => "conditions",
            Self::Metric(metric) => metric.name(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Limit {
    Absolute {
        op: Op,
        bound: Bound,
    },
    /// Worse than the baseline by at most this much: `+2%`, `+2`.
    Baseline {
        change: Margin,
    },
    /// Worse than what an older revision agreed on, by at most this much: `+5% of v1.0`.
    Anchor {
        anchor: Since,
        change: Margin,
    },
    /// Worse than the base revision, measured in the same run, by at most this share; `+0.5% of base`. Times only.
    Base {
        change: Num,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Op {
    #[serde(rename = "<")]
    Lt,
    #[serde(rename = "<=")]
    Le,
    #[serde(rename = "==")]
    Eq,
    #[serde(rename = ">=")]
    Ge,
    #[serde(rename = ">")]
    Gt,
}

impl Op {
    /// Compares two numbers. Returns false for NaN on either side.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Lt => left < right,
            Self::Le => left <= right,
            Self::Eq => left == right,
            Self::Ge => left >= right,
            Self::Gt => left > right,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Eq => "==",
            Self::Ge => ">=",
            Self::Gt => ">",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Bound {
    Value(Num),
    Expr(Expr),
}

/// An expression over metrics of the same case (`codec_max_err`), of a sibling variant at the same shape
/// (`stage1.p50`), and over constants: dimensions and integer macro definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expr {
    pub text: String,
    pub constants: BTreeMap<String, Num>,
}

impl Expr {
    /// Returns true if both texts have the same terms in the same order: blanks, parentheses that change nothing and
    /// units of the same number do not count.
    pub fn has_terms_of(&self, other: &Self) -> bool {
        let parsed = || -> Result<bool, ExprError> {
            Ok(Expression::parse(&self.text)? == Expression::parse(&other.text)?)
        };
        self.text == other.text || parsed().unwrap_or(false)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BrokenBaseline {
    /// The path, relative to the repository.
    pub path: String,
    pub kernel: String,
    pub variant: String,
    /// The facet that its name states. `None` if the name states none, so that the file may cover any.
    pub facet: Option<Facet>,
    /// The problem, with line and column if they are known.
    pub problem: String,
}

/// A unit that the base's compiler refused. It has no values to compare with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaseFault {
    pub unit: UnitId,
    pub fault: Fault,
}

impl Rule {
    /// Returns the metric that the rule limits.
    pub fn metric(&self) -> Option<Metric> {
        match self {
            Self::Limit { metric, .. } => Some(*metric),
            _ => None,
        }
    }
}

impl Gate {
    /// Returns true if the rule needs a GPU to be judged.
    pub fn needs_device(&self) -> bool {
        match &self.rule {
            Rule::Built | Rule::HasEffect => false,
            Rule::Finite
            | Rule::Written
            | Rule::Deterministic
            | Rule::InputsIntact
            | Rule::AgreesWithDriver
            | Rule::NoFindings
            | Rule::Counters { .. } => true,
            Rule::Limit { metric, .. } => metric.facet() != Facet::Resources,
            Rule::Condition { .. } => matches!(self.subject, Subject::Case(_)),
        }
    }
}

/// The path of the acceptances, relative to gates.yaml.
pub const ACCEPTED: &str = "baselines/accepted.yaml";
