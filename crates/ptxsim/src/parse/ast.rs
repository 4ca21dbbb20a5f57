//! The syntax of PTX text, without the meaning of instructions.
//!
//! Names follow the PTX ISA (9.0, chapters 4 and 5). Nothing here is checked against the instruction set: an
//! instruction is its dotted words and its operands.

use super::lines::{LineId, Lines};
use crate::words::words;
use std::sync::Arc;

/// A position in the PTX text. Lines and columns count from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Pos {
    pub line: u32,
    pub column: u32,
}

words! {
    pub enum Space {
        Reg = "reg",
        Global = "global",
        Shared = "shared",
        Local = "local",
        Param = "param",
        Const = "const",
    }
}

words! {
    /// The fundamental types of PTX (PTX ISA 5.2).
    pub enum Ty {
        Pred = "pred",
        B8 = "b8",
        B16 = "b16",
        B32 = "b32",
        B64 = "b64",
        B128 = "b128",
        U8 = "u8",
        U16 = "u16",
        U32 = "u32",
        U64 = "u64",
        S8 = "s8",
        S16 = "s16",
        S32 = "s32",
        S64 = "s64",
        F16 = "f16",
        F16x2 = "f16x2",
        Bf16 = "bf16",
        Bf16x2 = "bf16x2",
        F32 = "f32",
        F64 = "f64",
    }
}

impl Ty {
    /// Returns the bytes in memory. A predicate has none of its own; 1 is what each one of an array would take.
    pub fn bytes(self) -> u32 {
        match self {
            Ty::Pred | Ty::B8 | Ty::U8 | Ty::S8 => 1,
            Ty::B16 | Ty::U16 | Ty::S16 | Ty::F16 | Ty::Bf16 => 2,
            Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 | Ty::F16x2 | Ty::Bf16x2 => 4,
            Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64 => 8,
            Ty::B128 => 16,
        }
    }

    pub fn is_signed(self) -> bool {
        matches!(self, Ty::S8 | Ty::S16 | Ty::S32 | Ty::S64)
    }
}

/// An element of a variable's initialiser.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    Number(Number),
    /// The address of a symbol plus an offset, possibly through `generic(...)`.
    Symbol {
        name: String,
        offset: i64,
        generic: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer, in two's complement of 64 bits.
    Int(u64),
    F32(u32),
    F64(f64),
}

/// A declaration: a variable, a register or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Var {
    pub space: Space,
    pub align: Option<u32>,
    pub ty: Ty,
    /// The number of elements of a vector type; 1 for other types.
    pub vector: u32,
    pub name: String,
    /// The number of elements of an array; 0 for one without a size (`extern .shared x[]`), and 1 for what is no array.
    pub elements: u64,
    pub is_extern: bool,
    pub init: Vec<Init>,
    /// The number of registers of a range: `.reg .f32 %f<10>` declares %f0 to %f9.
    pub count: Option<u32>,
    pub pos: Pos,
}

impl Var {
    /// Returns the size in bytes, or `None` if it is more than 64 bits hold.
    pub fn bytes(&self) -> Option<u64> {
        self.elements
            .checked_mul(u64::from(self.ty.bytes() * self.vector))
    }

    /// Returns the alignment: the one that is written, or else the size of an element.
    pub fn natural_align(&self) -> u32 {
        self.align.unwrap_or(self.ty.bytes() * self.vector).max(1)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, a symbol, a label, a special register, or `_`.
    Name(String),
    /// A negated predicate, such as `!%p1`.
    Not(String),
    /// A pair of destinations, such as `%p1|%p2`.
    Pair(String, String),
    /// A name and an offset, such as `name+4`.
    Offset(String, i64),
    Number(Number),
    /// A vector of operands, such as `{%f1, %f2}`.
    Vector(Vec<Operand>),
    /// An address, such as `[%rd1+16]` or `[sym]`. The base is a name, or nothing if the address is a number.
    Address {
        base: Option<String>,
        offset: i64,
    },
    /// An element of a texture, a surface or a tensor, such as `[%rd1, {%f1, %f2}]`.
    Element {
        base: String,
        at: Vec<Operand>,
    },
    /// The arguments or results of a call, such as `(param0, param1)`.
    List(Vec<Operand>),
}

impl Operand {
    /// Returns the elements of a vector, or the operand itself as the only element.
    pub fn elements(&self) -> &[Operand] {
        match self {
            Operand::Vector(all) => all,
            one => std::slice::from_ref(one),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    pub register: String,
    pub negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    pub guard: Option<Guard>,
    /// The words of the instruction: `ld.global.v4.f32` is ["ld", "global", "v4", "f32"].
    pub words: Vec<String>,
    pub operands: Vec<Operand>,
    pub pos: Pos,
    pub loc: LineId,
}

impl Instruction {
    /// Returns the words, joined by dots.
    pub fn form(&self) -> String {
        self.words.join(".")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    Label(String, Pos),
    Instruction(Instruction),
    Variable(Var),
    Open,
    Close,
    /// A table of branch targets, such as `name: .branchtargets a, b;`.
    BranchTargets(String, Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    pub name: String,
    pub is_entry: bool,
    /// The statements of the function; `None` if it is only declared.
    pub body: Option<Vec<Statement>>,
    pub params: Vec<Var>,
    pub returns: Vec<Var>,
    pub max_threads: Option<[u32; 3]>,
    pub required_threads: Option<[u32; 3]>,
    /// The values of `.minnctapersm` and, below, of `.maxnreg`.
    pub min_blocks: Option<u32>,
    pub max_registers: Option<u32>,
    pub clusters: Clusters,
    pub pos: Pos,
}

/// The directives of a kernel on clusters of its blocks (PTX ISA 11.7).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters {
    /// The number of blocks of a cluster that the kernel requires, in each dimension.
    pub required: Option<[u32; 3]>,
    /// True if the kernel runs in clusters only.
    pub explicit: bool,
    /// The number of blocks of a cluster, at most.
    pub most: Option<u32>,
    /// A directive that is not built.
    pub refused: Option<(String, Pos)>,
}

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Module {
    pub version: (u32, u32),
    pub target: String,
    pub lines: Arc<Lines>,
    pub variables: Vec<Var>,
    pub functions: Vec<Function>,
}
