//! Problems as data: causes with the verdicts that they broke.

use super::{FaultKind, Finding, Mistyped, Outcome, Reason, Subject};
use schemars::JsonSchema;
use serde::Serialize;

/// One cause, and every verdict that did not hold because of it. A verdict may have several causes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Problem {
    /// The worst outcome of its verdicts.
    pub outcome: Outcome,
    /// The code, as a verdict has it: `findings`, `beyond-limit`.
    pub code: &'static str,
    pub cause: ProblemCause,
    /// Units and cases with this cause, in the order of the verdicts.
    pub subjects: Vec<Subject>,
    /// The verdicts that name the cause themselves, as positions in the list of verdicts.
    pub verdicts: Vec<usize>,
    /// The verdicts that the cause is likely to have broken, too, as positions.
    pub follows: Vec<usize>,
    /// `None` if there is no base, or if the evidence does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_base: Option<SinceBase>,
}

/// Whether a change brought a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinceBase {
    /// The base does not have it.
    New,
    /// The base also has the problem.
    Old,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCause {
    /// Tensors whose elements have another type than the kernel's parameters.
    Arguments(Vec<Mistyped>),
    /// Findings of the simulator that share source lines. The first leads to the others.
    Findings {
        /// The first seed that shows them.
        seed: u64,
        findings: Vec<Finding>,
    },
    /// The reason of the first verdict.
    Verdict(Box<Reason>),
    /// Gates that demand less than at the base.
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
