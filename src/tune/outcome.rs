//! Describes the outcome of a search as data. The log holds it, and the report shows it.

use model::{FaultKind, Gate, Reason, Rule, Subject};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The integer that each parameter has.
pub type ParameterValues = BTreeMap<String, i64>;

/// One configuration, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The number of the configuration, in the order of asking. 0 is the start.
    pub number: u32,
    pub values: ParameterValues,
    /// A digest of what would execute: machine code, launches and arguments. `None` if it was not built.
    pub code: Option<String>,
    pub resources: Option<Resources>,
    pub outcome: Outcome,
    /// The time since the search began, in ms.
    pub at_ms: u64,
    /// The time of compiling it in ms, or 0 if it was in the cache.
    pub compile_ms: u64,
}

/// The values that are known before any GPU time, of the first entry at the first shape of the objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resources {
    pub registers: u32,
    /// Static and dynamic shared memory in bytes.
    pub shared: u64,
    pub spills: u32,
    pub threads: u64,
    /// The share (0 to 1) of the warps of a multiprocessor that can be resident.
    pub occupancy: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// The configuration has no time, because a gate did not hold.
    Dropped(Dropped),
    /// The configuration executes the same as an earlier one, and was not tried again.
    Same {
        number: u32,
    },
    /// The configuration has an estimate and no time, because there is no GPU.
    Ranked(Ranked),
    Timed(Timed),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    pub gate: DroppedBy,
    /// The name of the gate in reports, or what broke.
    pub name: String,
    /// The code of the reason (docs/verdicts.md).
    pub code: String,
    pub message: String,
    /// The times that the simulator estimated, by shape. A wrong configuration can be fast.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub estimated_ns: BTreeMap<String, f64>,
    /// The cost relative to the start's, by those estimates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_cost: Option<f64>,
}

model::named! {
/// The kind of gate that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DroppedBy {
    /// gates.yaml cannot call it like this, for example with a launch of no threads.
    Call = "call",
    Build = "build",
    Resource = "resource",
    Correctness = "correctness",
    /// The simulator found a race or a stray access.
    Race = "race",
    /// It faulted, by a stray access that the device itself refused, an assert or a livelock.
    Fault = "fault",
    /// It did not end before the deadline.
    Hang = "hang",
    /// It was correct, and broke while it was timed.
    Timing = "timing",
    /// There is no estimate to rank it by.
    Estimate = "estimate",
}
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// The estimated time of one launch in ns, by shape.
    pub estimated_ns: BTreeMap<String, f64>,
    /// The cost relative to the start's. Below 1 is better.
    pub cost: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// The evaluation that it was timed against.
    pub against: u32,
    /// The ratio of its time to that of `against`, as the geometric mean over processes.
    pub ratio: f64,
    pub processes: u32,
    /// True if it was so clearly slower that it got no more processes.
    pub stopped: bool,
    /// The cost relative to the start's, computed through the configuration that it was timed against. Below 1 is
    /// better. It leads the search and proves nothing.
    pub cost: f64,
    /// The time of one launch in ns, by shape: the geometric mean over processes. Other configurations were timed in
    /// other processes, so these times cannot be compared with theirs.
    pub p50_ns: BTreeMap<String, f64>,
    /// The times of the configuration that it was timed against, in the same form.
    pub against_ns: BTreeMap<String, f64>,
}

/// A comparison of the winner with the start, in processes that the search itself did not use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    pub winner: u32,
    pub shown: Shown,
    /// The ratio of the winner's time to the start's. Below 1 is faster.
    pub ratio: f64,
    pub interval: [f64; 2],
    pub processes: u32,
    pub start_ns: BTreeMap<String, f64>,
    pub winner_ns: BTreeMap<String, f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    Faster,
    NotFaster,
    Undecided,
}

impl Outcome {
    /// Returns the cost relative to the start's, or `None` if the outcome has no cost.
    pub fn cost(&self) -> Option<f64> {
        match self {
            Self::Dropped(_) | Self::Same { .. } => None,
            Self::Ranked(ranked) => Some(ranked.cost),
            Self::Timed(timed) => Some(timed.cost),
        }
    }

    /// Returns true if the evaluation used a part of the budget.
    pub fn is_counted(&self) -> bool {
        !matches!(self, Self::Same { .. })
    }
}

impl Dropped {
    pub fn new(gate: DroppedBy, name: &str, code: &str, message: String) -> Self {
        Self {
            gate,
            name: name.to_owned(),
            code: code.to_owned(),
            message,
            estimated_ns: BTreeMap::new(),
            estimated_cost: None,
        }
    }

    /// Returns the outcome of a gate that did not hold. `message` is the sentence of that gate.
    pub fn by_gate(gate: &Gate, reason: &Reason, name: &str, message: String) -> Self {
        Self::new(kind_of(gate, reason), name, reason.code(), message)
    }
}

fn kind_of(gate: &Gate, reason: &Reason) -> DroppedBy {
    match (reason, &gate.rule, &gate.subject) {
        (_, Rule::Built, _) => DroppedBy::Build,
        (Reason::Fault(fault), ..) if fault.kind == FaultKind::Hang => DroppedBy::Hang,
        (Reason::Fault(_), ..) => DroppedBy::Fault,
        (_, Rule::NoFindings, _) => DroppedBy::Race,
        (_, _, Subject::Unit(_)) => DroppedBy::Resource,
        (_, _, Subject::Case(_)) => DroppedBy::Correctness,
    }
}
