//! Devices run kernels. They may not know of gates, references, processes or reports.
//!
//! Only `cuda` names cudarc. A simulated device has the same trait and no timer.

pub mod args;
pub mod choice;
pub mod cuda;
pub mod lock;
pub mod nvml;
pub mod redzone;
pub mod sim;

use args::PackedArg;
use build::Artifact;
use model::Unsupported;
use model::{DriverFacts, Fault, FaultKind, GpuState, Image, Launch, Sampler, TensorMap};
use serde::{Deserialize, Serialize};

pub use choice::DeviceChoice;

/// An address in the device's memory.
pub type Address = u64;

/// A tensor map as a kernel takes it (CUtensorMap).
pub type MapBytes = [u8; 128];

/// A loaded artifact; an index into the device's own table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedProgram(pub usize);

/// One way of calling a program, which is one launch of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceCall {
    pub program: LoadedProgram,
    /// The steps, one after the other. A cubin has one for each entry, a launcher has only one.
    pub steps: Vec<PackedStep>,
    /// The tensors that it reaches through surfaces.
    pub surfaces: Vec<Address>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PackedStep {
    pub args: Vec<PackedArg>,
    /// The launch, or `None` for a launcher, which decides for itself.
    pub launch: Option<Launch>,
    /// The work on memory right before the launch, and right after it.
    pub before: Vec<MemoryWork>,
    pub after: Vec<MemoryWork>,
}

/// An operation on memory that the stream does without a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryWork {
    Set {
        to: Address,
        value: u8,
        bytes: usize,
    },
    Copy {
        from: Address,
        to: Address,
        bytes: usize,
    },
}

/// The reasons for which a device did not do what it should.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Failure {
    Fault {
        fault: Fault,
        /// The process can do nothing more with the device and has to end.
        sticky: bool,
    },
    /// This device cannot do it, whichever kernel it is given.
    Unsupported(Unsupported),
}

impl Failure {
    /// Returns a failure of the case alone, after which the device can go on.
    pub fn case_alone(kind: FaultKind, message: impl Into<String>) -> Self {
        Self::Fault {
            fault: Fault::new(kind, message),
            sticky: false,
        }
    }
}

/// Returns the failure of a missing variable, which is gatekeeper's own mistake, because the build found the variable.
fn no_variable(symbol: &str) -> Failure {
    Failure::case_alone(
        FaultKind::EntryNotFound,
        format!("the program has no variable {symbol}"),
    )
}

pub type Result<T> = std::result::Result<T, Failure>;

/// Something that executes device code. Work is queued in order; `sync` waits for it and reports its faults.
pub trait Device {
    /// Returns the value of an `Arg::Stream`.
    fn stream(&self) -> u64;

    fn load(&mut self, artifact: &Artifact) -> Result<LoadedProgram>;

    /// Returns the address of a `__constant__` or `__device__` variable and its size in bytes. `module` is the number
    /// of its module in the program.
    fn variable(
        &mut self,
        program: LoadedProgram,
        module: usize,
        symbol: &str,
    ) -> Result<(Address, usize)>;

    /// Returns the variables of the program that its kernels can write, and whose values a later launch therefore
    /// finds: symbol, address and bytes.
    fn variables(&mut self, program: LoadedProgram) -> Result<Vec<(String, Address, usize)>>;

    /// Allocates uninitialised memory, aligned to 256 bytes. The name is for messages.
    fn alloc(&mut self, name: &str, bytes: usize) -> Result<Address>;

    /// Allocates memory at the given address, which it had in another process.
    fn place(&mut self, name: &str, at: Address, bytes: usize) -> Result<()>;

    /// Returns the number of bytes to keep on both sides of a buffer, so that a stray write is seen. It is 0 if the
    /// device checks every access itself.
    fn guard(&self) -> usize;

    /// Returns the handle of a texture over the tensor at an address, or of a surface if there is no sampler.
    fn bind(&mut self, at: Address, image: &Image, sampler: Option<&Sampler>) -> Result<u64>;

    /// Returns the tensor map of the tensor at an address.
    fn tensor_map(&mut self, at: Address, map: &TensorMap) -> Result<MapBytes>;

    /// Frees all memory and all programs.
    fn reset(&mut self) -> Result<()>;

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<()>;

    /// Writes `pattern`, of 1, 2, 4 or 8 bytes, `count` times. This is poison, and no value that a kernel may rely on.
    fn fill(&mut self, to: Address, pattern: &[u8], count: usize) -> Result<()>;

    /// Reads memory after all queued work is done.
    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<()>;

    /// Queues one call with all of its steps.
    fn launch(&mut self, call: &DeviceCall) -> Result<()>;

    fn sync(&mut self) -> Result<()>;

    /// Returns the driver's facts on the entries that this call launches, step by step for the entries of a cubin.
    fn describe(&mut self, call: &DeviceCall) -> Result<DriverFacts>;

    /// Returns a timer, or `None` if the device has no clock that can be trusted.
    fn timer<'a>(&'a mut self, targets: Targets<'a>) -> Option<Result<Box<dyn Timer + 'a>>>;
}

/// The timed calls: one, or two side by side.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    pub head: TimedCall<'a>,
    pub base: Option<TimedCall<'a>>,
}

/// One of the two timed calls. A call that is timed alone is the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Head,
    Base,
}

/// A call, and what must be restored before each sample.
#[derive(Clone, Copy, Debug)]
pub struct TimedCall<'a> {
    pub call: &'a DeviceCall,
    /// The copies that restore what the kernel overwrites, outside the timed region.
    pub restore: &'a Restores,
}

#[derive(Clone, Debug)]
pub struct Restores {
    pub copies: Vec<Restore>,
    pub when: RestoredBefore,
}

/// The point before which the copies are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestoredBefore {
    /// Launches of one batch may follow one another.
    EachSample,
    /// No launch may follow another without them.
    EachLaunch,
}

/// A copy inside the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    pub from: Address,
    pub to: Address,
    pub bytes: usize,
}

/// Times calls with the GPU's own clock. All times are GPU time in ns.
pub trait Timer {
    /// Returns true if launches may follow one another in a batch: on both sides, nothing has to be restored between
    /// them.
    fn can_batch(&self) -> bool;

    /// Launches without timing, and waits for the end.
    fn warm_up(&mut self, side: Side, launches: u32) -> Result<()>;

    /// Launches once between the marks that tell a profiler around this process what to profile.
    fn profiled(&mut self, side: Side) -> Result<()>;

    /// Prepares `launches` calls back to back, which run without the host between them.
    fn batch(&mut self, side: Side, launches: u32) -> Result<()>;

    /// Returns the time of one run of the prepared batch.
    fn batched(&mut self, side: Side) -> Result<u64>;

    /// Returns the time of one launch alone. If `cold`, flushes the L2 cache first.
    fn single(&mut self, side: Side, cold: bool) -> Result<u64>;

    /// Returns the median time of an empty batch, measured once in a process.
    fn empty(&mut self) -> Result<u64>;

    /// Returns the smallest step that the clock was seen to make, measured once in a process.
    fn tick(&mut self) -> Result<u64>;

    /// Returns the clock of the multiprocessors right now, which they count themselves.
    fn sm_mhz(&mut self) -> Result<f64>;

    /// Returns true if a thermal or hardware slowdown is active, or `None` if the device does not tell.
    fn slowed(&mut self) -> Option<bool>;

    /// Returns the device's own report while it works on this many launches. `sm_mhz_*` stay empty.
    fn state(&mut self, side: Side, launches: u32) -> Result<GpuState>;
}
