//! Everything that is known of a kernel's call and of its result.

use super::sizes::{Dim, Product};
use build::inventory::Pointee;
use model::{Role, ScalarType};
use ptxsim::{FindingKind, Place};
use std::collections::BTreeMap;

/// Integers of inputs are below it: they may be indices.
pub const SMALL: u64 = 8;

/// A call of a kernel that came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub dims: Vec<Dim>,
    pub arguments: Vec<Argument>,
    pub grid: Vec<String>,
    pub block: Vec<u32>,
    pub dynamic_shared: u32,
    /// Whether every element of the outputs is written, and nothing is found.
    pub is_whole: bool,
    /// The first thing that the simulator finds wrong with it.
    pub finding: Option<Found>,
    /// A limit on the error of its outputs.
    pub max_err: Limit,
    pub reference: Matches,
}

/// References that give what a kernel does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matches {
    /// The reference of a kernel with one output.
    pub whole: Option<Match>,
    /// References of single outputs, where a kernel has several: no built-in one computes them together.
    pub single: Vec<(String, Match)>,
}

/// A finding of the simulator, which every launch with these inputs has that came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub kind: FindingKind,
    /// The source line, and for a race the other one.
    pub places: Vec<Place>,
    /// Launches that have findings; `None` where only other inputs lead to one.
    pub launches: Option<usize>,
}

impl Found {
    /// Threads that depend on an order that nothing enforces.
    pub fn is_race(&self) -> bool {
        matches!(
            self.kind,
            FindingKind::GlobalRace
                | FindingKind::SharedRace
                | FindingKind::WarpRace
                | FindingKind::AsyncBeforeWait
        )
    }
}

/// A limit on an error, as gates.yaml has it, and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    pub value: String,
    pub because: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    Tensor(Tensor),
    /// One of the dimensions.
    Size {
        of: ScalarType,
        dim: String,
    },
    /// One that is made up.
    Value {
        name: String,
        of: ScalarType,
    },
    /// Its members.
    Struct(Vec<Argument>),
    Pad(usize),
}

impl Argument {
    /// Itself, or what it consists of.
    pub fn parts(&self) -> &[Argument] {
        match self {
            Self::Struct(members) => members,
            other => std::slice::from_ref(other),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    pub role: Role,
    pub pointee: Pointee,
    pub size: Product,
}

/// A reference that gives what the kernel does.
#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    pub name: &'static str,
    /// `softmax`, and of a reference that has operations which one: `add`.
    pub computes: &'static str,
    /// As gates.yaml has it, without its name: `x: a, out: b`.
    pub keys: Vec<(&'static str, String)>,
    /// Its dimensions of each tensor, as expressions.
    pub shapes: BTreeMap<String, Vec<String>>,
    pub max_err: f64,
}
