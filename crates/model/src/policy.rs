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
    /// In the order of gates.yaml.
    pub gates: Vec<Gate>,
    pub baselines: Vec<Baseline>,
    /// Baseline files that are there and could not be used: each fails closed for whatever it covers.
    pub broken_baselines: Vec<BrokenBaseline>,
    /// Where baselines are what another record measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_faults: Vec<BaseFault>,
    /// Without a GPU, checks and times are skipped; with this they are verdicts of the environment.
    pub require_gpu: bool,
    /// One for each revision that a gate names, and the best level.
    pub anchors: Vec<Anchor>,
    /// In the order of baselines/accepted.yaml.
    pub accepted: Vec<Acceptance>,
    /// In the order of gates.yaml. No verdict follows from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// Whether a variant that fails may fall back on another, by --allow-fallback.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_fallback: bool,
    /// The revision that head is held against.
    pub base: Option<Base>,
}

impl Policy {
    /// Asks for nothing, of runs that only show something.
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

/// From where slow erosion is counted: each small step lies within what one change may cost, and their
/// sum does not.
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

/// The baselines agreed there, for the kernels of this run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    pub since: Since,
    /// `0a34415aaaaa`, or over what the best was looked for: `12 versions`.
    pub found: String,
    pub baselines: Vec<Baseline>,
    pub broken_baselines: Vec<BrokenBaseline>,
}

/// A red gate that passes: an intended regression, or a known finding, under a name and until a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// As it was written: `sdpa_fp8/stage2@mission`, each part a glob.
    pub case: String,
    /// Those of this run that it names.
    pub subjects: Vec<Subject>,
    /// Whether it names others too, or more seeds of these: what a filter left out of this run.
    pub left_out: bool,
    pub allows: Allowance,
    pub reason: String,
    pub by: String,
    /// The last day on which it holds, by the date of the record: `2027-01-31`.
    pub until: String,
    /// `baselines/accepted.yaml:3`.
    pub declared: String,
}

impl Acceptance {
    /// Whether it holds on a day; it does not where the day is not known.
    pub fn holds_on(&self, day: Option<&str>) -> bool {
        // Days in this form are in the order of their text.
        day.is_some_and(|day| day <= self.until.as_str())
    }
}

/// The failure that an acceptance lets pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Allowance {
    /// The rule in the place of a gate's own limit: `Limit` or `Counters`. A change replaces limits against the
    /// baseline and against the base revision, a bound replaces absolute ones.
    Limit(Rule),
    Finding(KnownFinding),
}

/// Findings of one kind at one source line. The line is known by its text: its number changes with every edit
/// above it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnownFinding {
    pub kind: FindingKind,
    pub file: String,
    /// With single blanks.
    pub line: String,
}

impl KnownFinding {
    /// The finding at this line; `None` where the line differs.
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

/// The text of a source line without what an editor changes of it.
pub fn with_single_blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Another revision of the same repository, or the same files under another compiler: its demands on its kernels, and
/// how it calls them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// As it was named: `origin/main`, `nvcc 13.0`.
    pub revision: String,
    /// Abbreviated hash. Empty outside git, where the base is the same files.
    pub commit: String,
    /// The compiler that makes it the base of the same files: `13.0`, as `--base-toolchain` named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolchain: Option<String>,
    /// Whole, whatever was selected of head, and under head's names; so are gates, baselines and acceptances.
    pub plan: Plan,
    pub gates: Vec<Gate>,
    pub baselines: Vec<Baseline>,
    pub accepted: Vec<Acceptance>,
    /// The things that had another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renames: Vec<Rename>,
    /// The cases that are not in `plan`, because head has them in another file, and compiled files of which that is true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<MovedGates>,
    pub gone: Vec<GoneGates>,
    /// Its files of gates that head does not have, and that cannot be loaded there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadGates>,
    /// Kernels of compiled files that may be worse ones under another name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedKernel>,
    /// Where it has no gates for the run's file of gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_gates: Option<NoGates>,
    pub loosening: Loosening,
}

impl Base {
    /// Returns a base that has nothing but these, and by which nothing may be loosened.
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

/// A base with which nothing is compared: it has no file of gates at the path of the run's own, and none that became it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoGates {
    /// The run's own, from the top of the repository.
    pub file: String,
    /// Files of the base with gates for kernels, programs, compiled files or sources of the run's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<String>,
}

/// A file of gates that the base has, and head none at its path nor where it was moved to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GoneGates {
    /// From the top of the repository.
    pub file: String,
    pub cases: Vec<CaseId>,
    /// Its compiled files, each as the unit of all its kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binaries: Vec<UnitId>,
}

/// A kernel of a compiled file that may be one of the base's under another name, and is worse than that. Sorted by what they
/// take, it has the place of `was` among the kernels that are gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplacedKernel {
    pub unit: UnitId,
    pub metric: Metric,
    pub now: Num,
    pub gone: String,
    pub was: Num,
}

/// A file of gates of which nobody knows what it asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnreadGates {
    /// From the top of the repository.
    pub file: String,
    pub problem: String,
}

/// Cases and compiled files of the base's file of gates that head has in a file that is new. Whoever runs that one judges
/// them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MovedGates {
    /// Head's, from the top of the repository.
    pub file: String,
    pub cases: Vec<CaseId>,
    /// Compiled files, each as the unit of all its kernels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub binaries: Vec<UnitId>,
}

/// The treatment of a gate that is looser at head than at base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Loosening {
    Fails,
    /// By --allow-loosened; it is still listed.
    Allowed,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    pub subject: Subject,
    pub rule: Rule,
    /// `gates.yaml:42`, where it was written; rules that need not be written have none.
    pub declared: Option<String>,
}

/// A figure that is to be reached: reported, and no gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    pub subject: Subject,
    pub metric: Metric,
    pub op: Op,
    pub bound: Bound,
    /// Why it is missed, where that is known.
    pub because: Option<String>,
    /// `gates.yaml:42`.
    pub declared: String,
}

impl Target {
    /// The rule that it would be as a gate.
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

/// A gate by what it is about, whatever its limit: as reports and gates.yaml name it.
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
    /// `None` of what says nothing about a kernel that runs, and of what only compares.
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
    /// False for NaN on either side.
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
    /// Relative to the repository.
    pub path: String,
    pub kernel: String,
    pub variant: String,
    /// As its name says; `None` where it says nothing, and the file may cover any.
    pub facet: Option<Facet>,
    /// The problem with it, with line and column where known.
    pub problem: String,
}

/// A unit that the base's compiler refused: it has no values to compare with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BaseFault {
    pub unit: UnitId,
    pub fault: Fault,
}

impl Rule {
    /// The metric that it limits.
    pub fn metric(&self) -> Option<Metric> {
        match self {
            Self::Limit { metric, .. } => Some(*metric),
            _ => None,
        }
    }
}

impl Gate {
    /// Whether it needs a GPU to be judged.
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

/// Relative to gates.yaml.
pub const ACCEPTED: &str = "baselines/accepted.yaml";
