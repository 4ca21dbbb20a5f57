//! Everything that is known of a kernel's call and of its result.

use super::sizes::{Dim, Product};
use build::inventory::Pointee;
use model::{Role, ScalarType};
use serde_json::Value;
use std::collections::BTreeMap;

/// Integers of inputs are below it: they may be indices.
pub const SMALL: u64 = 8;

/// A call of a kernel. Expressions are those of gates.yaml, over the dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub dims: Vec<Dim>,
    /// The values of all parameters and of their members, in the order of the kernel.
    pub arguments: Vec<Argument>,
    pub grid: Vec<String>,
    pub block: Vec<String>,
    pub dynamic_shared: String,
    pub captured: Captured,
    /// A limit on the error of its outputs.
    pub max_err: ErrorLimit,
    /// What gives the same.
    pub reference: Option<ReferenceMatch>,
}

impl Call {
    /// Counts the extents that no name says.
    pub fn numbers(&self) -> usize {
        let factors = self.tensors().flat_map(|tensor| &tensor.size.factors);
        factors
            .filter(|factor| factor.parse::<u64>().is_ok())
            .count()
    }

    pub fn tensors_mut(&mut self) -> impl Iterator<Item = &mut Tensor> {
        self.arguments
            .iter_mut()
            .filter_map(|argument| match argument {
                Argument::Tensor(tensor) => Some(tensor),
                _ => None,
            })
    }

    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Tensor(tensor) => Some(tensor),
            _ => None,
        })
    }
}

/// What only a program says of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub cluster: Option<[u32; 3]>,
    pub cooperative: bool,
    /// Sizes of its other shapes, by the names of the first.
    pub shapes: Vec<Vec<Dim>>,
    /// Calls with other sizes, of which no shape is written.
    pub others: usize,
    /// Why the simulator did not tell how far it reaches.
    pub unobserved: Option<String>,
    /// Whether the simulator has findings in a launch of the program, over the program's own memory.
    pub has_findings: bool,
}

/// A kernel whose call is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCall {
    /// What is missing, as a part of a sentence.
    pub why: String,
    /// The grid and the block, if the sources or the program tell them.
    pub launch: Option<(Vec<String>, Vec<String>)>,
}

/// A limit on an error, as gates.yaml has it, and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorLimit {
    pub value: String,
    pub because: String,
}

/// A value that a kernel gets: a parameter, or a member of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    Tensor(Tensor),
    /// A null pointer, with its name.
    Null(String),
    Number {
        name: String,
        of: ScalarType,
        /// An expression; `None` for a number that is made up.
        value: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    pub role: Role,
    pub pointee: Pointee,
    pub size: Product,
    /// How inputs of integers are filled.
    pub integers: Integers,
}

/// Integers of inputs, with both bounds included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers {
    pub low: i64,
    pub high: i64,
    /// The values of a program, one by one. Empty if bounds say enough.
    pub values: Vec<i64>,
}

impl Default for Integers {
    fn default() -> Self {
        Self {
            low: 0,
            high: SMALL as i64 - 1,
            values: Vec::new(),
        }
    }
}

impl Integers {
    /// Leaves what suits another call of the kernel, too.
    pub fn meet(&mut self, other: &Self) {
        let (low, high) = (self.low.max(other.low), self.high.min(other.high));
        if low <= high {
            (self.low, self.high) = (low, high);
        }
        if self.values != other.values {
            self.values.clear();
        }
    }
}

/// A reference that gives what the kernel does.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceMatch {
    pub name: &'static str,
    /// The keys that gates.yaml says. Those without a value are left out there.
    pub keys: Vec<(&'static str, Value)>,
    /// Its dimensions of each tensor, as expressions.
    pub shapes: BTreeMap<String, Vec<String>>,
    pub max_err: f64,
}
