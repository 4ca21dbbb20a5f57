//! Executes PTX on the CPU, checks its memory accesses and counts what it costs.
//!
//! [`Module::load`] reads what `nvcc -ptx` writes and refuses, kernel by kernel, what is not built. [`launch`] runs a
//! kernel over a [`Memory`] and returns findings and counters, or the fault that stopped it. The same launch gives the
//! same bits, findings and counters on every x86-64 machine. The crate knows nothing of gates, files or the clock.
//!
//! The way through: `parse` (text to syntax tree), `decode` (names to register numbers, words to operations), `isa`
//! (what each instruction is), `exec` (a warp's lanes side by side; `exec::access`, the one path to memory, and
//! `exec::observe`, the checks on it), `launch` (what fits), `schedule` (blocks and warps in turn), `parallel` (blocks
//! on several threads), `check` (what races are), `report`.
//!
//! # Where the ISA leaves the result open
//!
//! - The `.approx` functions are within an ulp of exact (`num::approx`); a GPU's last bits differ.
//! - A matrix product is what the tensor cores of sm_90 compute, to the bit; those of f64 are summed with k ascending,
//!   each product rounded. `mma.m8n8k4` of f16 is what ptxas makes of it for sm_90.
//! - The fragment layout of `wmma` is that of sm_90, but for A and B of 16 bits, where it is this library's own; they
//!   cost what `ldmatrix` does.
//! - Textures round a coordinate to the nearest 1/256 for their weights, and the weighted sum once ([`image`]).
//! - Integer division by zero gives all ones, and so does its rest. NaNs are those of an H100.
//!
//! CALIBRATION.md, beside this crate's Cargo.toml, has the comparison with hardware: instructions and random programs
//! without a difference, the bounds of the approximations, kernels, counters.
//!
//! Further:
//!
//! - `%clock`, `%globaltimer` and `%pm` count the instructions of the warp; `%smid` and the driver's registers are 0,
//!   unless the launch varies them ([`Circumstance`]).
//! - At most 4096 blocks are resident together, and no more than 1 GiB of this machine's memory holds. Memory is
//!   sequentially consistent. A loop that polls memory gives way to others, and the report names its line, because the
//!   schedule decides how often it turns.
//! - `malloc` has 8 MiB and no overhead; a GPU serves fewer blocks of the same sum.
//! - A function that calls itself may put 64 KiB of its registers and arguments aside, per thread, and its activations
//!   may have 8 KiB of variables in local memory.
//! - `mbarrier.try_wait` waits as long as it takes, `cp.async` and bulk copies arrive at the last moment allowed.
//! - A kernel's blocks run on several threads ([`Limits::threads`]) where that changes nothing: not without checks, not
//!   with atomics or strong accesses to global memory, not when blocks of two threads touch a place that one of them
//!   writes, and not where copies of the buffers would take more memory than the checks have. Then they run one after
//!   the other.
//!
//! # What the checks cannot see
//!
//! - Memory: two reads of a place in shared memory, by different warps, are remembered, one of them the newest. Races
//!   against other reads are missed; none is invented. In global memory two reads are remembered as well, and the
//!   report names the line of a write for which a third would matter.
//! - Order between warps is known per warp, not per thread. Between blocks it is causality order (PTX ISA 8.9.5), which
//!   comes from fences and strong accesses (atomics, volatile, relaxed, acquire, release): the thread that writes the
//!   flag has to have fenced, or to release, and the thread that reads it has to fence, or to acquire. Fences of other
//!   threads count if both sides have a `fence.sc` (`membar`, which `__threadfence()` is). Where only a barrier of the
//!   block stands for such a fence, on either side, the report says that this is not judged. An order that a flag has
//!   handed on stays with it when others store to it again. Within a block atomics and flags order without a fence.
//! - An access is held to the variable whose address it was computed from, as far as the code tells (`origins`). Which
//!   member of a struct, or part of dynamic shared memory, was meant is not known.
//! - Each grid runs alone: `griddepcontrol` does nothing, and the report names its lines.
//! - Strong accesses do not race with one another, except volatile ones by lanes of one warp.
//! - Two weak writes of the same value to global memory are not reported, in whatever order: programs set flags in this
//!   way. In shared memory they are, but for those of one instruction.
//! - Results that depend on values that nothing wrote are tried with some fillings of them (`exec::undefined`).
//!   Registers that nothing wrote read as 0.
//! - A `try_wait` whose result the program ignores, as it always succeeds here; an `mbarrier.inval` that is not ordered
//!   behind the last use.
//! - A bulk copy is its thread's, for all that races with it: that thread's own access to the place once another thread
//!   has waited, and what it does between copy and wait and others read behind the wait. A `fence.proxy.async` is asked
//!   for only where a copy reads shared memory, and it may be any warp's (`exec::bulk`).
//! - Between blocks of a cluster, an mbarrier operation without a scope counts as of the cluster (the ISA says `.cta`,
//!   and CUTLASS counts on more). What a block's threads do in order with a strong access of `.cta` is not told apart
//!   by scope in that block's own shared memory.
//! - A texture that reads what its own launch writes, where a barrier orders the two: on a GPU the texels may be old.
//! - Buffers that need more than the checks have room for (as much as the buffers less an eighth, plus 90 MB) are
//!   watched in part, and the report says so.
//!
//! Every report says what was not judged.
//!
//! # Source lines
//!
//! A line comes with the calls by which it was inlined, as far as PTX says ([`parse::lines`]). Counters are added up
//! for the user's own line ([`Module::load_with_own`]), whatever headers it went through.
//!
//! # Counters
//!
//! [`Counter::tier`] says which equal those of a GPU ([`Tier::Gate`]) by the table of CALIBRATION.md, in a launch whose
//! report does not withhold it ([`Withheld`]).
//!
//! # Not built
//!
//! Sparse wgmma and wgmma of single bits, tensor copies by `.im2col::w`, tcgen05, clusterlaunchcontrol, what sm_100
//! added for 8 bits to `ldmatrix` and `stmatrix`, `st.bulk`, cube maps and mipmaps, `sured`, `sust.p`, `alloca`, video
//! instructions other than `vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax` and `vset` (without `.sat`), `vabsdiff2` and
//! `vabsdiff4`, minima and maxima of vectors of `f16x2` and `bf16x2` in memory, `fma.oob`, sparse mma of fp8, m8n8k4 to
//! f16, and what ptxas refuses for sm_90, such as `cvt.rs`. Each refuses the kernels that may come to it
//! ([`Module::kernel`]); what belongs to no kernel (a `.texref`, a word that the grammar does not have) refuses the
//! module.

mod alu;
mod analysis;
mod arithmetic;
mod branches;
mod check;
mod circumstance;
mod counters;
mod decode;
mod doubt;
mod exec;
mod flow;
mod heap;
pub mod image;
mod isa;
mod job;
mod launch;
pub mod memory;
pub mod num;
mod origins;
mod parallel;
pub mod parse;
mod program;
mod quick;
mod regs;
mod report;
mod schedule;
#[cfg(feature = "switches")]
pub mod switch;
#[cfg(not(feature = "switches"))]
mod switch;
mod tensor_map;
mod turn;
mod words;

pub use arithmetic::Computed;
pub use circumstance::{Circumstance, Circumstances, Look};
pub use counters::{COUNTER_MODEL, Quantity, added_quantity};
pub use decode::LoadError;
pub use job::{Limits, sample};
pub use launch::launch_as;
pub use memory::Memory;
pub use model::Launch;
pub use model::{Arithmetic, Counter, Doubt, LineCount, Tier, Withheld, Work};
pub use model::{Finding, FindingKind, Place};
pub use report::{Cost, Counters, Fault, FaultKind, Kind, LineCost, Report};
pub use tensor_map::{TensorMapError, decode_tensor_map, encode_tensor_map};
pub use turn::Turn;

/// A loaded PTX module: each of its kernels is ready to run, or refused for a reason of its own.
pub struct Module {
    kernels: Vec<Kernel>,
    refused: Vec<Refused>,
    variables: std::sync::Arc<Vec<program::ModuleVariable>>,
}

/// A kernel that can be launched.
pub struct Kernel {
    program: analysis::AnalysedProgram,
    variables: std::sync::Arc<Vec<program::ModuleVariable>>,
}

/// A kernel that cannot be launched: it, or a function that it may call, has a form that this library does not build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Name of the kernel in the PTX (mangled, for C++).
    pub name: String,
    pub error: LoadError,
}

/// The reason for which a module does not give a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoKernel {
    #[error("there is no kernel `{0}` in the PTX")]
    Unknown(String),
    #[error(transparent)]
    Refused(LoadError),
}

impl Module {
    /// Reads a module. Fails on text that is no PTX, and on an unsupported directive or variable of the module. An
    /// unsupported declaration inside a kernel refuses that kernel alone ([`Module::kernel`]).
    pub fn load(text: &str) -> Result<Module, LoadError> {
        Self::load_with_own(text, |_| true)
    }

    /// Reads a module like [`Module::load`]. `own` returns true for a source file, by its name in the PTX, that is the
    /// user's and not a toolkit's. Costs and calls are reported for lines of such files.
    pub fn load_with_own(text: &str, own: impl Fn(&str) -> bool) -> Result<Module, LoadError> {
        Self::load_moved(text, own, None)
    }

    /// Reads a module like [`Module::load_with_own`], and puts its variables at other addresses than usual if `moved`
    /// is given.
    pub fn load_moved(
        text: &str,
        own: impl Fn(&str) -> bool,
        moved: Option<Turn>,
    ) -> Result<Module, LoadError> {
        let mut ast = parse::parse(text)?;
        std::sync::Arc::make_mut(&mut ast.lines).tell_apart(own);
        let variables = std::sync::Arc::new(decode::lay_out(&ast, moved)?);
        let common = decode::Common::new(&ast);
        let (mut kernels, mut refused) = (Vec::new(), Vec::new());
        for entry in ast
            .functions
            .iter()
            .filter(|f| f.is_entry && f.body.is_some())
        {
            match decode::decode(&ast, &common, entry, &variables) {
                Ok(mut program) => {
                    doubt::see_strides(&mut program);
                    flow::mark_guesses(&mut program);
                    flow::mark_answers(&mut program);
                    flow::mark_fragments(&mut program);
                    flow::mark_proxies(&mut program);
                    kernels.push(Kernel {
                        program: analysis::AnalysedProgram::new(program),
                        variables: variables.clone(),
                    });
                }
                Err(error) => refused.push(Refused {
                    name: entry.name.clone(),
                    error,
                }),
            }
        }
        Ok(Module {
            kernels,
            refused,
            variables,
        })
    }

    /// Returns the module, or the error of a refused kernel if there is one.
    pub fn complete(mut self) -> Result<Module, LoadError> {
        if self.refused.is_empty() {
            return Ok(self);
        }
        Err(self.refused.swap_remove(0).error)
    }

    /// Returns the kernel with this name in the PTX (mangled, for C++), or why it cannot be launched.
    pub fn kernel(&self, name: &str) -> Result<&Kernel, NoKernel> {
        if let Some(kernel) = self.kernels.iter().find(|k| k.program.name == name) {
            return Ok(kernel);
        }
        Err(match self.refused.iter().find(|r| r.name == name) {
            Some(refused) => NoKernel::Refused(refused.error.clone()),
            None => NoKernel::Unknown(name.into()),
        })
    }

    /// Puts the variables of the module into `memory` with their first contents, unless they are there. Every module
    /// has them at the same addresses: see [`Memory::take_variables`].
    pub fn place(&self, memory: &mut Memory) {
        launch::place(&self.variables, memory);
    }

    /// Returns the address of a `.const` or `.global` variable, by its name in the PTX, and its size in bytes.
    pub fn variable(&self, name: &str) -> Option<(u64, usize)> {
        let found = self.variables.iter().find(|v| v.name == name)?;
        Some((found.address, found.bytes.len()))
    }

    /// Returns true if the module has `.const` or `.global` variables.
    pub fn has_variables(&self) -> bool {
        !self.variables.is_empty()
    }

    /// Returns name, address and size in bytes of each variable that a kernel can write.
    pub fn written_variables(&self) -> impl Iterator<Item = (&str, u64, usize)> {
        self.variables
            .iter()
            .filter(|v| !v.read_only)
            .map(|v| (v.name.as_str(), v.address, v.bytes.len()))
    }

    /// Returns the kernels that can be launched.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// Returns the kernels that cannot be launched, each with its error.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }
}

impl Kernel {
    /// Returns the name of the kernel in the PTX (mangled, for C++).
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Returns the offset and the size of each parameter within the parameter buffer, in bytes.
    pub fn parameters(&self) -> Vec<(u32, u32)> {
        self.program
            .parameters
            .iter()
            .map(|p| (p.offset, p.bytes))
            .collect()
    }

    /// Returns the size of the parameter buffer in bytes.
    pub fn parameter_bytes(&self) -> u32 {
        self.program.parameter_bytes
    }

    /// Returns the number of blocks that a launch with [`Limits::sample`] of `most` runs. It is a multiple of the
    /// blocks of a cluster. A cooperative launch runs all of its blocks.
    pub fn sampled(&self, launch: &Launch, most: u32) -> usize {
        let cluster = launch.cluster.or(self.program.clusters.required);
        let cluster = cluster.unwrap_or([1; 3]).map(|n| n.max(1));
        let most = Some(most).filter(|_| !launch.cooperative);
        let of_cluster = cluster.iter().map(|&n| n as usize).product::<usize>();
        job::chosen(launch.grid, cluster, most).len() * of_cluster
    }

    /// Returns the circumstances that a launch with these parameters reads, and that a result must not depend on.
    /// Addresses are listed only where the program can use one as something other than an address.
    pub fn looks(&self, params: &[u8], cooperative: bool, memory: &Memory) -> Vec<Look> {
        circumstance::looks(&self.program, params, cooperative, memory)
    }

    /// Returns the place of the first instruction that writes to a variable of the module, as far as the code shows it.
    pub fn writer(&self, variable: &str) -> Option<Place> {
        let found = self.variables.iter().find(|v| v.name == variable)?;
        let inst = circumstance::writer(&self.program, found.address, found.bytes.len() as u64)?;
        Some(self.program.where_from(inst))
    }

    /// Returns the bytes of shared memory that the kernel declares, without dynamic shared memory.
    pub fn static_shared_bytes(&self) -> u32 {
        self.program.shared_bytes - self.program.reserved_shared
    }
}

/// Runs `kernel` to its end. `params` is laid out as [`Kernel::parameters`] says. Variables of the module are put into
/// `memory` on the first launch and keep their values from then on. Fails with the fault that ended the launch, or that
/// refused it.
pub fn launch(
    kernel: &Kernel,
    grid: [u32; 3],
    block: [u32; 3],
    dynamic_shared: u32,
    params: &[u8],
    memory: &mut Memory,
    limits: Limits,
) -> Result<Report, Fault> {
    let launch = Launch {
        grid,
        block,
        cluster: None,
        cooperative: false,
        dynamic_shared,
    };
    launch_as(kernel, &launch, params, memory, limits)
}
