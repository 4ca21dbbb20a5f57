//! Problems as data: causes with the verdicts that they broke.

use super::{FaultKind, Finding, Mistyped, Outcome, Reason, Subject};
use schemars::JsonSchema;
use serde::Serialize;

/// One cause, and every verdict that did not hold because of it. A verdict may have several causes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Problem {
    /// The worst of its verdicts.
    pub outcome: Outcome,
    /// As a verdict has it: `findings`, `beyond-limit`.
    pub code: &'static str,
    pub cause: ProblemCause,
    /// Units and cases with this cause, in the order of the verdicts.
    pub subjects: Vec<Subject>,
    /// Positions in the list of verdicts: those that name the cause themselves.
    pub verdicts: Vec<usize>,
    /// Positions of those that the cause is likely to have broken, too.
    pub follows: Vec<usize>,
    /// `None` without a base, and where nothing tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_base: Option<SinceBase>,
}

/// Whether a change brought a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinceBase {
    /// The base does not have it.
    New,
    /// The base has it, too.
    Old,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCause {
    /// Tensors whose elements are of another type than the kernel's parameters.
    Arguments(Vec<Mistyped>),
    /// Findings of the simulator that share source lines; the first leads to the others.
    Findings {
        /// The first that shows them.
        seed: u64,
        findings: Vec<Finding>,
    },
    /// The reason of the first verdict.
    Verdict(Box<Reason>),
    /// Gates that ask less than at the base.
    Loosened,
}

impl ProblemCause {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Arguments(_) => FaultKind::Arguments.code(),
            Self::Findings { .. } => "findings",
            Self::Verdict(reason) => reason.code(),
            Self::Loosened => "loosened",
        }
    }
}
