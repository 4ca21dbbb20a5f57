//! The machine code of a unit, line by line and loop by loop. `explain` compares two of these.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The machine code of one unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeFacts {
    /// The version of the disassembler that read the machine code.
    pub disassembler: String,
    /// The entry, or those of a sequence, in the order declared.
    pub entries: Vec<EntryCode>,
    /// The text of the source lines that the code comes from, by file and number, because line numbers move with every
    /// edit. Lines that could not be read are missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub text: BTreeMap<String, BTreeMap<u32, String>>,
}

/// One entry, with the functions that it calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntryCode {
    /// The symbol as in the cubin.
    pub symbol: String,
    /// The lines in the order of the machine code.
    pub lines: Vec<LineCode>,
    /// All loops. A loop follows the loop that it is in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loops: Vec<LoopCode>,
}

/// The code of one source line in one place of the control flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineCode {
    /// `None` if the line tables name no line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<CodePlace>,
    /// The index of the innermost loop around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_loop: Option<usize>,
    /// The function that the code is in, if that function is called and not inlined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    pub mix: Mix,
    /// The number of memory accesses under a predicate.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub predicated: u32,
    /// The number of instructions from each load from global memory, and from each asynchronous copy, to its first use,
    /// added up. `None` if there is no load, or in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
    /// The functions that are called from here, and how many times: `__cuda_sm3x_div_rn_noftz_f32_slowpath`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The number of instructions of each kind.
pub type Mix = BTreeMap<InstructionKind, u32>;

/// A source line, and where the function that contains it was inlined.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct CodePlace {
    pub line: CodeLine,
    /// The inlining calls, from inside to outside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined_at: Vec<CodeLine>,
}

/// A line of a file, in the form that the simulator uses, too: `kernels/k.cu:12`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct CodeLine {
    /// The path, relative to gates.yaml if the file is below it.
    pub file: String,
    /// The line number, counted from 1.
    pub number: u32,
}

impl fmt::Display for CodeLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.number)
    }
}

/// A loop of the machine code. One loop of the source can be several: unrolled, and what is left over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopCode {
    /// The line of the branch back to its head, which is that of the `for`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<CodePlace>,
    /// The index of the loop that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// By how much the counted and compared value changes in one iteration, if that is a constant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
}

/// The bits that one lane moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Width {
    W8,
    W16,
    W32,
    W64,
    W128,
    W256,
}

impl Width {
    pub const ALL: [Self; 6] = [
        Self::W8,
        Self::W16,
        Self::W32,
        Self::W64,
        Self::W128,
        Self::W256,
    ];

    pub fn bits(self) -> u32 {
        match self {
            Self::W8 => 8,
            Self::W16 => 16,
            Self::W32 => 32,
            Self::W64 => 64,
            Self::W128 => 128,
            Self::W256 => 256,
        }
    }
}

/// The purpose of an instruction, as far as `explain` distinguishes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(into = "String", try_from = "String")]
pub enum InstructionKind {
    Fp16,
    Fp32,
    Fp64,
    Int,
    Tensor,
    /// Reciprocals on the special function unit (MUFU).
    Reciprocal,
    /// Square roots and their reciprocals on the same unit.
    Root,
    /// Powers of two on the same unit.
    Exponential,
    Logarithm,
    /// Sine and cosine on the same unit.
    Sine,
    /// Tanh, and functions that are newer than this version.
    OtherSpecial,
    /// Tests whether a quotient needs the slow way (FCHK). Every division that is rounded exactly has one.
    DivisionCheck,
    Conversion,
    /// A conversion to or from double precision.
    DoubleConversion,
    GlobalLoad(Width),
    /// A load of memory that the compiler knows to be unchanged meanwhile: `const __restrict__` or `__ldg`.
    ReadOnlyLoad(Width),
    GlobalStore(Width),
    SharedLoad(Width),
    SharedStore(Width),
    /// At a place of the stack that the compiler knows. Mostly this is a spilled register.
    StackLoad(Width),
    StackStore(Width),
    /// At a computed place of the stack: an array under an index.
    LocalLoad(Width),
    LocalStore(Width),
    /// An access for which the compiler does not know which memory it is.
    GenericLoad(Width),
    GenericStore(Width),
    ConstantLoad,
    /// A load of matrices by a warp, `ldmatrix`.
    MatrixLoad,
    /// A store of matrices by a warp, `stmatrix`.
    MatrixStore,
    /// An asynchronous copy of a thread, `cp.async`.
    AsyncCopy,
    AsyncWait,
    /// A copy by the tensor memory accelerator (TMA), or of whole rows at once.
    BulkCopy,
    GlobalAtomic,
    SharedAtomic,
    /// A barrier of a whole block.
    Barrier,
    WarpBarrier,
    Fence,
    Shuffle,
    Vote,
    Texture,
    Compare,
    Select,
    Move,
    Branch,
    /// The point where lanes that diverged meet again.
    Reconvergence,
    Call,
    Return,
    /// An instruction that this version does not know.
    Other,
}

/// Kinds without a width, and their names.
const PLAIN: [(InstructionKind, &str); 36] = {
    use InstructionKind as Kind;
    [
        (Kind::Fp16, "fp16"),
        (Kind::Fp32, "fp32"),
        (Kind::Fp64, "fp64"),
        (Kind::Int, "int"),
        (Kind::Tensor, "tensor"),
        (Kind::Reciprocal, "reciprocal"),
        (Kind::Root, "root"),
        (Kind::Exponential, "exponential"),
        (Kind::Logarithm, "logarithm"),
        (Kind::Sine, "sine"),
        (Kind::OtherSpecial, "other_special"),
        (Kind::DivisionCheck, "division_check"),
        (Kind::Conversion, "conversion"),
        (Kind::DoubleConversion, "double_conversion"),
        (Kind::ConstantLoad, "constant_load"),
        (Kind::MatrixLoad, "matrix_load"),
        (Kind::MatrixStore, "matrix_store"),
        (Kind::AsyncCopy, "async_copy"),
        (Kind::AsyncWait, "async_wait"),
        (Kind::BulkCopy, "bulk_copy"),
        (Kind::GlobalAtomic, "global_atomic"),
        (Kind::SharedAtomic, "shared_atomic"),
        (Kind::Barrier, "barrier"),
        (Kind::WarpBarrier, "warp_barrier"),
        (Kind::Fence, "fence"),
        (Kind::Shuffle, "shuffle"),
        (Kind::Vote, "vote"),
        (Kind::Texture, "texture"),
        (Kind::Compare, "compare"),
        (Kind::Select, "select"),
        (Kind::Move, "move"),
        (Kind::Branch, "branch"),
        (Kind::Reconvergence, "reconvergence"),
        (Kind::Call, "call"),
        (Kind::Return, "return"),
        (Kind::Other, "other"),
    ]
};

type OfWidth = fn(Width) -> InstructionKind;

/// Kinds with a width, and their names without it.
const WIDE: [(OfWidth, &str); 11] = {
    use InstructionKind as Kind;
    [
        (Kind::GlobalLoad, "global_load"),
        (Kind::ReadOnlyLoad, "read_only_load"),
        (Kind::GlobalStore, "global_store"),
        (Kind::SharedLoad, "shared_load"),
        (Kind::SharedStore, "shared_store"),
        (Kind::StackLoad, "stack_load"),
        (Kind::StackStore, "stack_store"),
        (Kind::LocalLoad, "local_load"),
        (Kind::LocalStore, "local_store"),
        (Kind::GenericLoad, "generic_load"),
        (Kind::GenericStore, "generic_store"),
    ]
};

impl InstructionKind {
    /// Returns the width of an access to memory.
    pub fn width(self) -> Option<Width> {
        match self {
            Self::GlobalLoad(width)
            | Self::ReadOnlyLoad(width)
            | Self::GlobalStore(width)
            | Self::SharedLoad(width)
            | Self::SharedStore(width)
            | Self::StackLoad(width)
            | Self::StackStore(width)
            | Self::LocalLoad(width)
            | Self::LocalStore(width)
            | Self::GenericLoad(width)
            | Self::GenericStore(width) => Some(width),
            _ => None,
        }
    }

    pub fn all() -> impl Iterator<Item = Self> {
        let wide = WIDE
            .iter()
            .flat_map(|(of, _)| Width::ALL.into_iter().map(of));
        PLAIN.iter().map(|(kind, _)| *kind).chain(wide)
    }
}

impl fmt::Display for InstructionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, name)) = PLAIN.iter().find(|(kind, _)| kind == self) {
            return f.write_str(name);
        }
        let Some(width) = self.width() else {
            return Err(fmt::Error);
        };
        match WIDE.iter().find(|(of, _)| of(width) == *self) {
            Some((_, name)) => write!(f, "{name}_{}", width.bits()),
            None => Err(fmt::Error),
        }
    }
}

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no kind of instruction")]
pub struct BadKind(String);

impl FromStr for InstructionKind {
    type Err = BadKind;

    fn from_str(text: &str) -> Result<Self, BadKind> {
        if let Some((kind, _)) = PLAIN.iter().find(|(_, name)| *name == text) {
            return Ok(*kind);
        }
        let wide = || {
            let (name, bits) = text.rsplit_once('_')?;
            let mut width = Width::ALL.into_iter();
            let width = width.find(|width| width.bits().to_string() == bits)?;
            let (of, _) = WIDE.iter().find(|(_, stem)| *stem == name)?;
            Some(of(width))
        };
        wide().ok_or_else(|| BadKind(text.to_owned()))
    }
}

impl From<InstructionKind> for String {
    fn from(kind: InstructionKind) -> Self {
        kind.to_string()
    }
}

impl TryFrom<String> for InstructionKind {
    type Error = BadKind;

    fn try_from(text: String) -> Result<Self, BadKind> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_is_read_back_from_its_name() {
        let names: BTreeSet<String> = InstructionKind::all().map(String::from).collect();
        assert_eq!(names.len(), PLAIN.len() + WIDE.len() * Width::ALL.len());
        for kind in InstructionKind::all() {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for wrong in [
            "",
            "global_load",
            "global_load_33",
            "fp32_32",
            "global_load_+32",
        ] {
            assert!(wrong.parse::<InstructionKind>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_mix_is_a_json_object() {
        let mix = Mix::from([(InstructionKind::GlobalLoad(Width::W128), 2)]);
        let text = serde_json::to_string(&mix).unwrap();
        assert_eq!(text, r#"{"global_load_128":2}"#);
        assert_eq!(serde_json::from_str::<Mix>(&text).unwrap(), mix);
    }
}
