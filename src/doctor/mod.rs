//! Checks whether a machine is fit for a run, and lists the results. Turns what was seen ([`Machine`]) into items with
//! their problems. Only `look` touches the machine; the rest is pure. The sentences are in report/doctor.

pub mod builtin;
pub mod layout;
mod look;
pub mod peaks;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use look::{DoctorOptions, look};

use build::toolchain::CompilerPart;
use model::{DeviceFacts, OtherProcess, Seen};
use peaks::Measured;
use report::exit::Exit;
use run::device::choice::driver_problem;
use run::device::lock::LockState;
use run::device::nvml::{ComputeMode, Condition};
use serde::Serialize;
use system::error::Diagnostic;
use system::process::confine::Support;
use wording::reasons;

/// Everything that was examined, as it was found.
pub struct Machine {
    pub cache: Result<CacheSeen, Diagnostic>,
    pub output: OutputSeen,
    pub gates: GatesSeen,
    /// The compiler, or `None` if there was no cache in which to look for one.
    pub compiler: Option<Result<CompilerSeen, Diagnostic>>,
    pub disassembler: Option<Tool>,
    pub confinement: Support,
    pub gpus: Seen<GpusSeen>,
    pub profiler: Result<Tool, Diagnostic>,
    /// `None` if the driver does not say.
    pub may_read_counters: Option<bool>,
    pub sanitizer: Option<Tool>,
    pub git: Option<String>,
    /// The measured peaks, or `None` if nobody asked for them.
    pub peaks: Option<PeaksSeen>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CacheSeen {
    pub root: String,
    pub shared: Option<String>,
    /// The content of the cache, or `None` if it could not be counted in time.
    pub holds: Option<Amount>,
    /// The part of it that was not used for [`UNUSED_DAYS`].
    pub unused: Option<Amount>,
    pub free_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    pub entries: usize,
    pub bytes: u64,
}

/// Days after which `cache prune` is proposed.
pub const UNUSED_DAYS: u64 = 30;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputSeen {
    pub directory: String,
    pub free_bytes: Option<u64>,
    /// The reason for which nothing can be written there.
    #[serde(skip)]
    pub unwritable: Option<String>,
}

pub enum GatesSeen {
    Loaded {
        file: String,
        cases: usize,
    },
    /// There is no gates file, and the user named none.
    Absent {
        file: String,
    },
    Broken(Diagnostic),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompilerSeen {
    pub nvcc: String,
    pub version: String,
    pub host_compiler: String,
    pub host_version: String,
    pub parts: Vec<CompilerPart>,
    /// The architecture for which an empty kernel was compiled.
    pub tried: String,
    /// The error, if this step failed.
    #[serde(skip)]
    pub failed: Option<Diagnostic>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tool {
    pub program: String,
    pub version: String,
}

pub struct GpusSeen {
    pub driver: String,
    /// The highest CUDA version that the driver supports, for example 13000.
    pub cuda_driver_version: u32,
    /// All GPUs that were seen, at least one.
    pub all: Vec<GpuSeen>,
    /// The reason for which there may be more GPUs than these.
    pub uncounted: Option<String>,
}

pub struct GpuSeen {
    pub ordinal: u32,
    pub device: Seen<DeviceFacts>,
    /// `None` if NVML did not tell.
    pub condition: Option<Condition>,
    pub lock: Option<LockSeen>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSeen {
    pub path: String,
    pub standing: LockState,
}

pub enum PeaksSeen {
    Measured(Vec<Measured>),
    /// They could not be measured, as there is no cache, no compiler or no GPU.
    Unmeasurable,
    Broken(Diagnostic),
}

/// A line of the checklist, with its problems.
pub struct Item<'a> {
    pub name: String,
    pub facts: Facts<'a>,
    pub problems: Vec<MachineProblem>,
}

/// The facts, as far as they are known.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Facts<'a> {
    Nothing,
    Cache(&'a CacheSeen),
    Output(&'a OutputSeen),
    Gates {
        file: &'a str,
        cases: usize,
    },
    Compiler(&'a CompilerSeen),
    Tool(&'a Tool),
    Git {
        version: &'a str,
    },
    Confinement(Support),
    Driver {
        version: &'a str,
        cuda_driver_version: u32,
    },
    Gpu {
        device: &'a DeviceFacts,
        condition: Option<&'a Condition>,
        lock: Option<&'a str>,
    },
    Peak(&'a Measured),
}

/// A state says how far a run gets. The worst state is the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Good,
    /// The run lacks a part, or its times are less reliable.
    Limited,
    /// A run on this machine would fail.
    Broken,
}

/// The directories that need free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// The cache, with the part of it that was not used for long.
    Cache(Option<Amount>),
    Output,
}

/// Gives each problem its code and its state, and lists both.
macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident $({ $($field:tt)* })? $(($held:ty))? = $code:literal $state:ident,)*) => {
        /// A deviation from what a run needs, with its values.
        #[derive(Clone, Debug, PartialEq)]
        pub enum MachineProblem {
            $($(#[$doc])* $name $({ $($field)* })? $(($held))?,)*
        }

        impl MachineProblem {
            /// All codes, in the order of the documentation.
            pub const CODES: &[(&str, State)] = &[$(($code, State::$state)),*];

            fn about(&self) -> (&'static str, State) {
                match self {
                    $(Self::$name { .. } => ($code, State::$state),)*
                }
            }
        }
    };
}

problems! {
    CacheUnusable(Diagnostic) = "cache-unusable" Broken,
    OutputUnwritable { why: String } = "output-unwritable" Broken,
    NoSpace { free: u64, of: Disk } = "no-space" Broken,
    LittleSpace { free: u64, of: Disk } = "little-space" Limited,
    NoGates { file: String } = "no-gates" Limited,
    GatesBroken(Diagnostic) = "gates-broken" Broken,
    CompilerUnusable(Diagnostic) = "compiler-unusable" Broken,
    CompilerNotLookedFor = "compiler-not-looked-for" Broken,
    PartsMixed { nvcc: String, others: Vec<CompilerPart> } = "parts-mixed" Limited,
    DoesNotCompile(Diagnostic) = "does-not-compile" Broken,
    NoDisassembler = "no-disassembler" Limited,
    NotConfined(Support) = "not-confined" Limited,
    NoGpu { why: String } = "no-gpu" Limited,
    /// There is no GPU, and `--require-gpu` was given.
    NoRequiredGpu { why: String } = "no-gpu" Broken,
    DriverBroken { why: String } = "driver-broken" Broken,
    DriverTooOld { why: String, supports: u32 } = "driver-too-old" Broken,
    GpusUncounted { why: String } = "gpus-uncounted" Broken,
    GpuUnusable { why: String } = "gpu-unusable" Broken,
    ComputeProhibited { uuid: String } = "compute-prohibited" Broken,
    ComputeExclusive { uuid: String } = "compute-exclusive" Limited,
    LockUnusable { path: String, why: String } = "lock-unusable" Broken,
    LockHeld { by: String } = "lock-held" Limited,
    MemoryErrors { uuid: String, uncorrected: u64 } = "memory-errors" Limited,
    Slowed { reasons: Vec<String> } = "slowed" Limited,
    InUse(Vec<OtherProcess>) = "in-use" Limited,
    Sliced { uuid: String } = "mig" Limited,
    NotPersistent { uuid: String } = "no-persistence" Limited,
    ConditionUnknown = "nvml-silent" Limited,
    NoProfiler(Diagnostic) = "no-profiler" Limited,
    CountersLocked = "counters-locked" Limited,
    NoSanitizer = "no-sanitizer" Limited,
    NoGit = "no-git" Limited,
    PeaksUnmeasurable = "peaks-unmeasurable" Limited,
    PeaksBroken(Diagnostic) = "peaks-broken" Broken,
}

impl MachineProblem {
    /// Returns the code of a problem. It is stable, because programs match on it.
    pub fn code(&self) -> &'static str {
        self.about().0
    }

    pub fn state(&self) -> State {
        self.about().1
    }
}

impl Item<'_> {
    /// Returns the worst state of the item's problems.
    pub fn state(&self) -> State {
        self.problems
            .iter()
            .map(MachineProblem::state)
            .max()
            .unwrap_or(State::Good)
    }
}

/// Returns the exit code that a run on this machine would end with, as far as that is known beforehand.
pub fn exit(items: &[Item]) -> Exit {
    let problems = || items.iter().flat_map(|item| &item.problems);
    if problems().any(|problem| matches!(problem, MachineProblem::GatesBroken(_))) {
        return Exit::Usage;
    }
    if problems().any(|problem| problem.state() == State::Broken) {
        Exit::Environment
    } else {
        Exit::Held
    }
}

/// Bytes below which a build, a reference or a record may find no place.
const NO_SPACE: u64 = 64 << 20;
/// Bytes below which something larger may find no place: the pinned compiler takes 400 MB while it is installed.
const LITTLE_SPACE: u64 = 1 << 30;

impl Machine {
    /// Returns the items in the order in which a run needs them. `requires_gpu` says that a run without a GPU would
    /// fail.
    pub fn examine(&self, requires_gpu: bool) -> Vec<Item<'_>> {
        let mut items = vec![
            self.gates(),
            self.output(),
            self.cache(),
            self.compiler(),
            self.disassembler(),
            Item::new("confined", Facts::Confinement(self.confinement)).but_for(
                (!self.is_confined()).then_some(MachineProblem::NotConfined(self.confinement)),
            ),
            self.driver(requires_gpu),
        ];
        if let Seen::Got(gpus) = &self.gpus {
            items.extend(gpus.all.iter().map(gpu));
        }
        items.extend([self.profiler(), self.sanitizer(), self.git()]);
        match &self.peaks {
            None => {}
            Some(PeaksSeen::Measured(all)) => {
                items.extend(all.iter().map(|peak| Item::new("peak", Facts::Peak(peak))));
            }
            Some(PeaksSeen::Unmeasurable) => {
                items.push(Item::lacking("peak", MachineProblem::PeaksUnmeasurable));
            }
            Some(PeaksSeen::Broken(why)) => {
                items.push(Item::lacking(
                    "peak",
                    MachineProblem::PeaksBroken(why.clone()),
                ));
            }
        }
        items
    }

    fn gates(&self) -> Item<'_> {
        match &self.gates {
            GatesSeen::Loaded { file, cases } => Item::new(
                "gates",
                Facts::Gates {
                    file,
                    cases: *cases,
                },
            ),
            GatesSeen::Absent { file } => {
                Item::lacking("gates", MachineProblem::NoGates { file: file.clone() })
            }
            GatesSeen::Broken(why) => {
                Item::lacking("gates", MachineProblem::GatesBroken(why.clone()))
            }
        }
    }

    fn output(&self) -> Item<'_> {
        let output = &self.output;
        let problem = match &output.unwritable {
            Some(why) => Some(MachineProblem::OutputUnwritable { why: why.clone() }),
            None => space(output.free_bytes, Disk::Output),
        };
        Item::new("output", Facts::Output(output)).but_for(problem)
    }

    fn cache(&self) -> Item<'_> {
        match &self.cache {
            Ok(cache) => Item::new("cache", Facts::Cache(cache))
                .but_for(space(cache.free_bytes, Disk::Cache(cache.unused))),
            Err(why) => Item::lacking("cache", MachineProblem::CacheUnusable(why.clone())),
        }
    }

    fn compiler(&self) -> Item<'_> {
        let compiler = match &self.compiler {
            None => return Item::lacking("compiler", MachineProblem::CompilerNotLookedFor),
            Some(Err(why)) => {
                return Item::lacking("compiler", MachineProblem::CompilerUnusable(why.clone()));
            }
            Some(Ok(compiler)) => compiler,
        };
        let differs = |part: &&CompilerPart| !part.is_of_release(&compiler.version);
        let others: Vec<CompilerPart> = compiler.parts.iter().filter(differs).cloned().collect();
        let mixed = (!others.is_empty()).then(|| MachineProblem::PartsMixed {
            nvcc: compiler.version.clone(),
            others,
        });
        Item::new("compiler", Facts::Compiler(compiler))
            .but_for(mixed)
            .but_for(compiler.failed.clone().map(MachineProblem::DoesNotCompile))
    }

    fn disassembler(&self) -> Item<'_> {
        tool(
            "nvdisasm",
            self.disassembler.as_ref(),
            MachineProblem::NoDisassembler,
        )
    }

    fn is_confined(&self) -> bool {
        let Support {
            files,
            signals,
            sockets,
        } = self.confinement;
        files && signals && sockets
    }

    fn driver(&self, requires_gpu: bool) -> Item<'_> {
        let gpus = match (got(&self.gpus), &self.gpus) {
            (Ok(gpus), _) => gpus,
            (Err(why), Seen::NotRun(_)) => {
                let problem = if requires_gpu {
                    MachineProblem::NoRequiredGpu { why }
                } else {
                    MachineProblem::NoGpu { why }
                };
                return Item::lacking("driver", problem);
            }
            (Err(why), _) => return Item::lacking("driver", MachineProblem::DriverBroken { why }),
        };
        let supports = gpus.cuda_driver_version;
        let compiler = self
            .compiler
            .as_ref()
            .and_then(|compiler| compiler.as_ref().ok());
        let too_old = compiler
            .and_then(|compiler| driver_problem(&compiler.version, supports))
            .map(|why| MachineProblem::DriverTooOld { why, supports });
        let uncounted = gpus.uncounted.clone();
        let facts = Facts::Driver {
            version: &gpus.driver,
            cuda_driver_version: supports,
        };
        Item::new("driver", facts)
            .but_for(too_old)
            .but_for(uncounted.map(|why| MachineProblem::GpusUncounted { why }))
    }

    /// Examines the profiler, which only `--profile` and `profile` need.
    fn profiler(&self) -> Item<'_> {
        let profiler = match &self.profiler {
            Ok(profiler) => profiler,
            Err(why) => return Item::lacking("ncu", MachineProblem::NoProfiler(why.clone())),
        };
        let is_locked = self.may_read_counters == Some(false);
        Item::new("ncu", Facts::Tool(profiler))
            .but_for(is_locked.then_some(MachineProblem::CountersLocked))
    }

    fn sanitizer(&self) -> Item<'_> {
        let sanitizer = self.sanitizer.as_ref();
        tool("compute-sanitizer", sanitizer, MachineProblem::NoSanitizer)
    }

    fn git(&self) -> Item<'_> {
        match &self.git {
            Some(version) => Item::new("git", Facts::Git { version }),
            None => Item::lacking("git", MachineProblem::NoGit),
        }
    }
}

impl<'a> Item<'a> {
    fn new(name: impl Into<String>, facts: Facts<'a>) -> Self {
        Self {
            name: name.into(),
            facts,
            problems: Vec::new(),
        }
    }

    fn lacking(name: impl Into<String>, problem: MachineProblem) -> Self {
        Self::new(name, Facts::Nothing).but_for(Some(problem))
    }

    fn but_for(mut self, problem: Option<MachineProblem>) -> Self {
        self.problems.extend(problem);
        self
    }
}

fn tool<'a>(name: &str, tool: Option<&'a Tool>, problem: MachineProblem) -> Item<'a> {
    match tool {
        Some(tool) => Item::new(name, Facts::Tool(tool)),
        None => Item::lacking(name, problem),
    }
}

fn got<T>(seen: &Seen<T>) -> Result<&T, String> {
    match seen {
        Seen::Got(value) => Ok(value),
        Seen::Fault(fault) => Err(fault.message.clone()),
        Seen::Unsupported(why) => Err(reasons::unsupported(why)),
        Seen::NotRun(why) => Err(reasons::not_run(why)),
    }
}

/// Returns a problem if the disk has too little space. Some file systems do not report their free space, and then there
/// is no problem to report.
fn space(free: Option<u64>, of: Disk) -> Option<MachineProblem> {
    let free = free?;
    match free {
        ..NO_SPACE => Some(MachineProblem::NoSpace { free, of }),
        NO_SPACE..LITTLE_SPACE => Some(MachineProblem::LittleSpace { free, of }),
        _ => None,
    }
}

fn gpu(gpu: &GpuSeen) -> Item<'_> {
    let name = format!("cuda:{}", gpu.ordinal);
    let device = match got(&gpu.device) {
        Ok(device) => device,
        Err(why) => return Item::lacking(name, MachineProblem::GpuUnusable { why }),
    };
    let lock = gpu.lock.as_ref();
    let facts = Facts::Gpu {
        device,
        condition: gpu.condition.as_ref(),
        lock: lock.map(|lock| lock.path.as_str()),
    };
    let lock_problem = lock.and_then(|lock| match &lock.standing {
        LockState::Free => None,
        LockState::Held(by) => Some(MachineProblem::LockHeld { by: by.clone() }),
        LockState::Unusable(why) => Some(MachineProblem::LockUnusable {
            path: lock.path.clone(),
            why: why.clone(),
        }),
    });
    let mut item = Item::new(name, facts).but_for(lock_problem);
    match &gpu.condition {
        None => item.problems.push(MachineProblem::ConditionUnknown),
        Some(condition) => item
            .problems
            .extend(check_condition(condition, &device.uuid)),
    }
    item
}

/// Returns the problems in a GPU's condition. A value that NVML does not give is not a problem.
fn check_condition(condition: &Condition, uuid: &str) -> Vec<MachineProblem> {
    let uuid = || condition.uuid.as_deref().unwrap_or(uuid).to_owned();
    let mode = match condition.compute_mode {
        None | Some(ComputeMode::Default) => None,
        Some(ComputeMode::Exclusive) => Some(MachineProblem::ComputeExclusive { uuid: uuid() }),
        Some(ComputeMode::Prohibited) => Some(MachineProblem::ComputeProhibited { uuid: uuid() }),
    };
    let uncorrected = condition.ecc.and_then(|ecc| ecc.uncorrected).unwrap_or(0);
    let errors = (uncorrected > 0).then(|| MachineProblem::MemoryErrors {
        uuid: uuid(),
        uncorrected,
    });
    let filled = |list: &&Vec<String>| !list.is_empty();
    let slowed = condition.slowdowns.as_ref().filter(filled);
    let others = condition.other_processes.as_ref();
    let sliced = condition.mig == Some(true);
    let not_persistent = condition.persistence == Some(false);
    [
        mode,
        errors,
        slowed
            .cloned()
            .map(|reasons| MachineProblem::Slowed { reasons }),
        others
            .filter(|others| !others.is_empty())
            .map(|others| MachineProblem::InUse(others.clone())),
        sliced.then(|| MachineProblem::Sliced { uuid: uuid() }),
        not_persistent.then(|| MachineProblem::NotPersistent { uuid: uuid() }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
