//! A kernel made ready to run: one flat array of instructions whose operands are register numbers.

use crate::isa::{AddressSpace, Inst, MemoryAccess, Object, Order, Proxy, Special};
use crate::parse::ast::{Clusters, Pos};
use crate::parse::lines::{LineId, Lines};
use crate::regs::Class;
use model::{Place, SourceLine};
use std::sync::Arc;

/// Position of an instruction in the PTX, its source line, and its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub pos: Pos,
    pub loc: LineId,
    pub form: String,
}

/// The address of the workspace of a cooperative launch's grid. It holds its own size in bytes, and the word by which
/// `grid.sync()` counts blocks (`cooperative_groups/details/driver_abi.h`).
pub const WORKSPACE: u64 = 0x7_0000_0000;
pub const WORKSPACE_BYTES: u32 = 16;

/// The bytes of shared memory that the system reserves at its start, as on sm_90. Cooperative groups keep there what
/// tiles of several warps need (`%reserved_smem_offset_1`).
pub const RESERVED_SHARED: u32 = 1024;

#[derive(Clone, Debug)]
pub struct SharedVariable {
    pub name: String,
    pub offset: u32,
    pub bytes: u32,
}

/// A variable of a state space, whose address an instruction gets by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub space: AddressSpace,
    pub from: u64,
    /// The size, or `None` for dynamic shared memory, which is one block up to the end.
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Parameter {
    pub offset: u32,
    pub bytes: u32,
}

/// A `.global` or `.const` variable with its address and first contents.
#[derive(Clone, Debug)]
pub struct ModuleVariable {
    pub name: String,
    pub address: u64,
    pub bytes: Vec<u8>,
    pub read_only: bool,
}

/// The state of a function that may be entered again before it has returned.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// The first register and the end of the function's registers, in each register file.
    pub registers: [(u32, u32); 3],
    /// The address in local memory and the size in bytes of each variable of the function.
    pub locals: Vec<(u32, u32)>,
    /// The bytes of its variables in local memory, which each activation has for itself, so that pointers to them stay
    /// valid.
    pub stack: u32,
}

/// The part of a thread's local memory that holds the variables of activations.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// The 64-bit register that holds the local address of the present activation's variables.
    pub pointer: u32,
    /// The size of the largest activation in bytes.
    pub largest: u32,
}

/// The bytes of a thread's local memory for variables of activations: eight times the limit that CUDA sets unless a
/// program changes it (cudaLimitStackSize).
pub const STACK_BYTES: u32 = 8 << 10;

#[derive(Clone, Debug, Default)]
pub struct Program {
    pub name: String,
    pub code: Vec<Inst>,
    /// For each instruction, true if it is no `wgmma.mma_async` and names a register of one. Empty if the program has
    /// none.
    pub fragments: Vec<bool>,
    /// The proxy of each instruction's accesses. It is kept here because it is looked up for each word that a product
    /// reads.
    pub proxies: Vec<Proxy>,
    pub entry: u32,
    pub sources: Vec<Source>,
    pub lines: Arc<Lines>,
    pub registers: [u32; 3],
    pub constants32: Vec<(u32, u32)>,
    pub constants64: Vec<(u32, u64)>,
    /// The constants that are addresses in a variable, each with a register of its own.
    pub addresses: Vec<((Class, u32), Variable)>,
    pub specials: Vec<(Special, Class, u32)>,
    pub shared: Vec<SharedVariable>,
    /// The bytes of static shared memory, with what is reserved. Dynamic shared memory begins there.
    pub shared_bytes: u32,
    /// The bytes of it that the program did not declare, which are 0 if it does not ask for them.
    pub reserved_shared: u32,
    pub local_bytes: u32,
    pub frames: Vec<Frame>,
    pub stack: Option<Stack>,
    pub parameters: Vec<Parameter>,
    pub parameter_bytes: u32,
    pub max_threads: Option<[u32; 3]>,
    pub required_threads: Option<[u32; 3]>,
    /// The number of registers of a thread when the kernel begins, if `setmaxnreg` changes it.
    pub entry_registers: Option<u32>,
    /// The smallest access to shared memory, in bytes: how fine races have to be watched.
    pub shared_granule: u32,
    pub clusters: Clusters,
    /// True if an instruction concerns other blocks of the cluster.
    pub uses_clusters: bool,
}

impl Program {
    /// Returns the registers that hold a constant from the start, with its value.
    pub fn constants(&self) -> impl Iterator<Item = ((Class, u32), u64)> {
        let narrow = self
            .constants32
            .iter()
            .map(|(r, value)| ((Class::R32, *r), u64::from(*value)));
        let wide = self
            .constants64
            .iter()
            .map(|(r, value)| ((Class::R64, *r), *value));
        narrow.chain(wide)
    }

    /// Returns what an instruction accesses, by its number.
    pub fn memory_at(&self, instruction: u32) -> impl Iterator<Item = MemoryAccess<'_>> {
        self.code
            .get(instruction as usize)
            .into_iter()
            .flat_map(|inst| inst.op.facts().memory())
    }

    /// Returns the constant that a register holds from the start.
    pub fn constant(&self, register: (Class, u32)) -> Option<u64> {
        self.constants()
            .find(|(constant, _)| *constant == register)
            .map(|(_, value)| value)
    }

    /// Returns an instruction as PTX writes it, without its operands.
    pub fn form(&self, inst: &Inst) -> &str {
        let source = self.sources.get(inst.source as usize);
        source.map_or("", |source| source.form.as_str())
    }

    /// Returns true if the program reads the address of the grid's workspace, which only a cooperative launch has.
    pub fn asks_for_workspace(&self) -> bool {
        let workspace =
            |(special, ..): &(Special, Class, u32)| matches!(special, Special::Workspace { .. });
        self.specials.iter().any(workspace)
    }

    /// Returns true if an instruction can order what blocks do in global memory: a strong access to data there, or
    /// anything that concerns other blocks of a cluster.
    pub fn blocks_meet(&self) -> bool {
        self.uses_clusters
            || self.code.iter().any(|inst| {
                inst.op.facts().memory().any(|access| {
                    access.object == Object::Data
                        && access.is_global()
                        && !access.is_asynchronous()
                        && access.order != Order::Weak
                })
            })
    }

    /// Returns where an instruction comes from, without the text of its lines.
    pub fn where_from(&self, inst: &Inst) -> Place {
        let source = self.sources.get(inst.source as usize);
        let mut lines = source
            .map(|source| self.lines.own_lines(source.loc))
            .unwrap_or_default()
            .into_iter()
            .filter(|at| at.line > 0)
            .filter_map(|at| {
                Some(SourceLine {
                    file: self.lines.files.get(&at.file)?.clone(),
                    number: at.line,
                    text: None,
                })
            });
        Place {
            at: self.place(inst.source),
            line: lines.next(),
            calls: lines.collect(),
        }
    }

    /// Returns a place such as `file.cu:12 inlined at file.cu:40`, or the PTX line if there is no `.loc`.
    pub fn place(&self, source: u32) -> String {
        let Some(s) = self.sources.get(source as usize) else {
            return "an unknown line".into();
        };
        let place = self.lines.place(s.loc);
        place.unwrap_or_else(|| format!("PTX line {} ({})", s.pos.line, s.form))
    }
}
