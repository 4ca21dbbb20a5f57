//! Describes what is known of a kernel's call and of its result.

use super::sizes::{Dim, Product};
use build::inventory::Pointee;
use model::expr::{EvalError, ExprError};
use model::{Role, ScalarType};
use serde_json::Value;
use std::collections::BTreeMap;

/// The integers of made-up inputs are below this number, because they may be indices.
pub const SMALL: u64 = 8;

/// A call of a kernel. Its expressions are written as in gates.yaml, over the dimensions.
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
    /// The reference that gives what the kernel gives, if one was found.
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

/// The facts about a call that only a run of the program can tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub cluster: Option<[u32; 3]>,
    pub cooperative: bool,
    /// The sizes of its other shapes, each with the names of the first shape.
    pub shapes: Vec<Vec<Dim>>,
    /// The number of calls with other sizes for which no shape is written.
    pub others: usize,
    /// The reason why the simulator did not tell how far the call reaches.
    pub unobserved: Option<String>,
    /// Whether the simulator has findings in a launch of the program, over the program's own memory.
    pub has_findings: bool,
}

/// The reason for which a call is not known, as a part of a sentence about its kernel.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    #[error("`{name}` is {kind}")]
    Parameter { name: String, kind: String },
    #[error("the sources launch other instances of it")]
    OtherInstances,
    #[error("there is no source that launches it")]
    NotLaunched,
    #[error("its launch has another number of arguments")]
    ArgumentCount,
    #[error("the {part} of its launch is not known: {source}")]
    Unread { part: &'static str, source: NoValue },
    #[error("`{0}` is no size by its name, and no launch says its value")]
    NoSize(String),
    #[error("nothing says how much shared memory its launch has")]
    SharedMemory,
    #[error("`{text}`: {source}")]
    Expression { text: String, source: ExprError },
    #[error("`{text}` has no value: {source}")]
    Value { text: String, source: EvalError },
    #[error("`{text}` is {count}")]
    Count { text: String, count: i64 },
    #[error("the simulator cannot read its PTX: {0}")]
    Module(#[source] ptxsim::LoadError),
    #[error("the simulator cannot run it: {0}")]
    Kernel(#[source] ptxsim::NoKernel),
    #[error("its parameters are not those of its PTX")]
    PtxParameters,
    #[error(transparent)]
    Memory(#[from] ptxsim::memory::MemoryError),
    #[error("it reaches outside of what its sizes say ({0})")]
    OutOfBounds(String),
    #[error("it takes too long in the simulator")]
    Budget,
    /// The first line of another fault in the simulator.
    #[error("{0}")]
    Fault(String),
    #[error("with other inputs {0}")]
    OtherInputs(#[source] Box<CallError>),
    #[error("it writes nothing as it is called")]
    WritesNothing,
    #[error("it reaches {elements} elements of `{name}`, which {dims} do not say")]
    Extent {
        elements: u64,
        name: String,
        dims: String,
    },
    #[error("as the sources seem to call it, {problem} ({place})")]
    Finding { problem: String, place: String },
    #[error("the program launched it with other parameters than its source has")]
    LaunchedParameters,
    #[error("its memory was not captured whole")]
    Lost,
    #[error("`{0}` leads to no captured memory")]
    NoMemory(String),
    #[error("`{0}` leads to less than one element")]
    NoElement(String),
    #[error("`{0}` is not finite in the program")]
    NotFinite(String),
    #[error("it wrote to no memory that a parameter leads to")]
    WroteNothing,
}

/// A name or a text in the sources that has no value.
#[derive(Debug, thiserror::Error)]
#[error("`{0}`")]
pub struct NoValue(pub String);

/// A kernel whose call is not known, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCall {
    /// The missing fact, as a part of a sentence.
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
        /// The value as an expression, or `None` if the number is made up.
        value: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub name: String,
    pub role: Role,
    pub pointee: Pointee,
    pub size: Product,
    /// The rule by which integers of the input are filled.
    pub integers: Integers,
}

/// Integers of inputs, with both bounds included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers {
    pub low: i64,
    pub high: i64,
    /// The values that the program has, one by one. It is empty if the bounds say enough.
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
    /// Keeps the integers that also suit another call of the kernel: the bounds that both have, and
    /// the values if they are the same.
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

/// A reference that gives the same output as the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceMatch {
    pub name: &'static str,
    /// The keys that gates.yaml has for the reference. Keys without a value are left out there.
    pub keys: Vec<(&'static str, Value)>,
    /// The dimensions that the reference takes each tensor to have, as expressions.
    pub shapes: BTreeMap<String, Vec<String>>,
    pub max_err: f64,
}
