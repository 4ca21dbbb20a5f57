use super::{Outcome, Rule, Subject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// A part of a compiler that can be exchanged alone, in the order in which they work.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    pub enum Component {
        /// The driver, and all that no other part is.
        Nvcc = "nvcc",
        /// The toolkit's own: `cuda_fp8.h` and CCCL are code that ends up in a kernel.
        Headers = "headers",
        /// From C++ to PTX: cicc and libdevice.
        Nvvm = "nvvm",
        /// The assembler, from PTX to machine code.
        Ptxas = "ptxas",
    }
}

/// One part of the base's compiler that is replaced by head's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartChange {
    pub part: Component,
    /// The version of the part before and after it.
    pub versions: [String; 2],
}

/// Answers of gates that fail with head's compiler, from a run with this part and those before it exchanged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    pub change: PartChange,
    /// Empty after the last part: that compiler is head's, and the rest of the record has its answers.
    pub answers: Vec<GateAnswer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateAnswer {
    pub subject: Subject,
    pub rule: Rule,
    #[serde(default, skip_serializing_if = "GateVerdict::is_own")]
    pub verdict: GateVerdict,
    pub outcome: Outcome,
}

/// Selects which of the verdicts about a gate is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    #[default]
    Own,
    /// That head answers to it, as the base does.
    Answered,
}

impl GateVerdict {
    pub fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

/// Gates that fail since a part of the compiler was exchanged.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Blame {
    /// The guilty exchange is one of these. There are several if a compiler in between gives no answer.
    pub changes: Vec<PartChange>,
    pub gates: Vec<BlamedGate>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlamedGate {
    pub subject: Subject,
    pub rule: Rule,
    #[serde(default, skip_serializing_if = "GateVerdict::is_own")]
    pub verdict: GateVerdict,
}
