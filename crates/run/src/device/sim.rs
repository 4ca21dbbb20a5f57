//! Runs PTX on the CPU with ptxsim, where there is no GPU. The simulator checks every access, so buffers need no
//! guards. Its clock would say nothing, so it has no timer.

use super::{
    Address, Device, DeviceCall, Failure, LoadedProgram, MapBytes, MemoryWork, PackedStep, Result,
    Targets, Timer, no_variable,
};
use crate::device::args::PackedArg;
use build::signature::short_name;
use build::{Artifact, is_of_system};
use model::Unsupported;
use model::{
    Arose, Case, Counter, DriverFacts, ElemType, Fault, FaultKind, FaultSite, Finding, Image,
    ImageMemory, Launch, LaunchSite, NotRun, Place, Printed, Sampler, SimulationFacts, TensorMap,
    TextureAddress, TextureFilter, TextureRead,
};
use ptxsim::image as own;
use ptxsim::memory::Variables;
use ptxsim::{
    Circumstances, Counters, Kernel, Limits, LoadError, Look, Memory, Module, NoKernel, Report,
    Turn,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use system::files;
use wording::words::instructions;

/// The most bytes of all buffers of a case together.
const MOST_BYTES: u64 = 4 << 30;

/// The most findings of one launch that are kept, by kind and source lines. No kernel has more.
const FINDINGS: usize = 1000;

/// The number of lines that are kept for each counter. They show where to look, and are no profile.
const LINES: usize = 3;

/// The most bytes of a launch's output that are kept.
const PRINTED: usize = 4 << 10;

/// The cost of a matrix product in the simulator, in other instructions: a warp's 16 x 8 x 16 takes about 16 times as
/// long (sdpa_f16/causal@long, 2026-11-22: products are 4 % of the instructions and 41 % of the time).
const MATRIX_COST: u64 = 16;

/// The most blocks that a sample of a launch has.
const SAMPLE: u32 = 4;

/// Returns why a case is larger than the simulator takes, or `None` if it is not.
pub fn too_large(case: &Case) -> Option<NotRun> {
    let bytes = case
        .tensors
        .iter()
        .map(|tensor| {
            u64::try_from((tensor.offset + tensor.span()).saturating_mul(tensor.elem.size()))
                .unwrap_or(u64::MAX)
        })
        .fold(0, u64::saturating_add);
    (bytes > MOST_BYTES).then_some(NotRun::OverMemory {
        bytes,
        limit: MOST_BYTES,
    })
}

pub struct SimDevice {
    memory: Memory,
    /// The number of warp instructions after which a launch is stopped.
    limit: u64,
    threads: usize,
    /// The modules by path and by the place of their variables. They are kept from job to job.
    modules: HashMap<(PathBuf, Option<Turn>), Arc<Module>>,
    programs: Vec<Loaded>,
    /// The program whose variables are in memory.
    selected: Option<LoadedProgram>,
    /// The bytes that the host reads from memory that no kernel has written.
    poison: BTreeMap<Address, Poison>,
    /// The facts of the last launch.
    shown: Option<SimulationFacts>,
    /// The circumstances that a launch sees with unusual values.
    varied: Circumstances,
    /// True if launches look for places where values arise that are not finite.
    looks_for_arising: bool,
    arose: Vec<Arose>,
}

struct Loaded {
    code: Arc<LoadedCode>,
    /// The variables of a program as its last launch left them, while another program's are in memory. `None` before
    /// they first were.
    variables: Option<Variables>,
}

/// A module, and its entry of each step: name as written, symbol.
struct LoadedCode {
    module: Arc<Module>,
    entries: Vec<(String, String)>,
}

struct Poison {
    pattern: Vec<u8>,
    bytes: usize,
}

impl Default for SimDevice {
    fn default() -> Self {
        Self {
            memory: Memory::new(MOST_BYTES),
            limit: 0,
            threads: 1,
            modules: HashMap::new(),
            programs: Vec::new(),
            selected: None,
            poison: BTreeMap::new(),
            shown: None,
            varied: Circumstances::default(),
            looks_for_arising: false,
            arose: Vec::new(),
        }
    }
}

impl SimDevice {
    /// Stops launches from here on after this many warp instructions, and lets them use this many threads if that
    /// changes no result.
    pub fn limit(&mut self, instructions: u64, threads: usize) {
        self.limit = instructions;
        self.threads = threads;
    }

    /// Begins anew, with no program and no memory. `place` says where memory is given from now on, until it begins
    /// anew the next time; 0 is the usual one.
    pub fn begin(&mut self, place: u64, varied: Circumstances) {
        self.clear();
        self.memory = Memory::elsewhere(MOST_BYTES, place, varied.moved());
        self.varied = varied;
    }

    fn clear(&mut self) {
        self.memory = Memory::new(MOST_BYTES);
        self.programs.clear();
        self.selected = None;
        self.poison.clear();
        self.shown = None;
        self.varied = Circumstances::default();
        self.looks_for_arising = false;
        self.arose.clear();
    }

    /// Makes launches look for places where values arise that are not finite, until memory begins anew.
    pub fn look_for_arising(&mut self) {
        self.looks_for_arising = true;
    }

    /// Returns the first infinity and the first NaN that launches have shown.
    pub fn arose(&self) -> &[Arose] {
        &self.arose
    }

    /// Returns the circumstances that a call reads and on which no result may depend, each with the entry if the call
    /// is a sequence.
    ///
    /// # Errors
    /// Fails like a launch that is refused.
    pub fn looks(&mut self, call: &DeviceCall) -> Result<Vec<(Option<String>, Look)>> {
        let code = self.loaded(call)?;
        let several = call.steps.len() > 1;
        let mut all: Vec<(Option<String>, Look)> = Vec::new();
        for (step, (name, symbol)) in call.steps.iter().zip(&code.entries) {
            let kernel = code.module.kernel(symbol).map_err(|_| not_loaded())?;
            let cooperative = configuration(step)?.cooperative;
            let looks = kernel.looks(&parameters(kernel, step)?, cooperative, &self.memory);
            let new: Vec<_> = looks
                .into_iter()
                .filter(|look| {
                    let mut known = all.iter();
                    !known.any(|(_, known)| known.at == look.at)
                })
                .map(|look| (several.then(|| name.clone()), look))
                .collect();
            all.extend(new);
        }
        Ok(all)
    }

    /// Returns the first place in the entries of a call that writes to a variable, as far as the code says.
    pub fn writer(&self, call: &DeviceCall, symbol: &str) -> Option<Place> {
        let code = &self.programs.get(call.program.0)?.code;
        code.entries
            .iter()
            .filter_map(|(_, entry)| code.module.kernel(entry).ok())
            .find_map(|kernel| kernel.writer(symbol))
    }

    /// Sets what the host reads from now on from memory that no kernel has written. Memory itself is left as it is.
    pub fn show_poison(&mut self, at: Address, pattern: &[u8], count: usize) {
        let poison = Poison {
            pattern: pattern.to_owned(),
            bytes: pattern.len() * count,
        };
        self.poison.insert(at, poison);
    }

    /// Returns the facts of the last launch besides its outputs, or `None` before the first launch.
    pub fn shown(&self) -> Option<SimulationFacts> {
        self.shown.clone()
    }

    /// Estimates the warp instructions of a whole launch from a sample of its blocks. A matrix product counts as
    /// [`MATRIX_COST`] instructions. Returns `None` if the sample alone passes the limit. Memory is left as the sample
    /// leaves it.
    ///
    /// # Errors
    /// Fails like a launch.
    pub fn estimate(&mut self, call: &DeviceCall) -> Result<Option<u64>> {
        let code = self.loaded(call)?;
        let mut whole = 0_u64;
        for (number, (step, (_, symbol))) in call.steps.iter().zip(&code.entries).enumerate() {
            self.work(&step.before)?;
            let launch = configuration(step)?;
            let blocks: u64 = launch.grid.into_iter().map(u64::from).product();
            let Ok(kernel) = code.module.kernel(symbol) else {
                return Err(not_loaded());
            };
            let sampled = kernel.sampled(&launch, SAMPLE).max(1) as u64;
            let limits = Limits {
                checks: false,
                sample: Some(SAMPLE),
                ..self.limits(self.limit)
            };
            match self.execute(&code.module, symbol, step, limits) {
                Ok(report) => {
                    let products = report.counters.get(ptxsim::Counter::MatrixInstructions);
                    let issued = u128::from(report.counters.total.issued)
                        + u128::from(products) * u128::from(MATRIX_COST - 1);
                    let all = issued * u128::from(blocks) / u128::from(sampled);
                    whole = whole.saturating_add(u64::try_from(all).unwrap_or(u64::MAX));
                }
                Err(Stopped::Budget) => return Ok(None),
                // This step may have read what only some blocks of the steps before it have written.
                Err(Stopped::Failed(_)) if number > 0 => break,
                Err(Stopped::Failed(failure)) => return Err(failure),
            }
        }
        Ok(Some(whole))
    }

    fn module(&mut self, ptx: &Path, moved: Option<Turn>) -> Result<Arc<Module>> {
        let key = (ptx.to_owned(), moved);
        if let Some(module) = self.modules.get(&key) {
            return Ok(Arc::clone(module));
        }
        let module = Arc::new(load(ptx, moved)?);
        self.modules.insert(key, Arc::clone(&module));
        Ok(module)
    }

    fn limits(&self, instructions: u64) -> Limits {
        Limits {
            instructions,
            findings: FINDINGS,
            threads: self.threads,
            varied: self.varied,
            arising: self.looks_for_arising,
            ..Limits::default()
        }
    }

    /// Returns the program of a call, with an entry for each of its steps, after it has placed the program's variables
    /// in memory.
    fn loaded(&mut self, call: &DeviceCall) -> Result<Arc<LoadedCode>> {
        self.select(call.program)?;
        match self.programs.get(call.program.0) {
            Some(loaded) if loaded.code.entries.len() == call.steps.len() => {
                Ok(Arc::clone(&loaded.code))
            }
            _ => Err(not_loaded()),
        }
    }

    /// Makes the variables of a program current. On a GPU each loaded module has its own variables; here all of them
    /// have the same addresses.
    fn select(&mut self, program: LoadedProgram) -> Result<()> {
        if self.selected == Some(program) {
            return Ok(());
        }
        let before = self.selected.replace(program);
        let taken = self.memory.take_variables();
        if let Some(before) = before.and_then(|program| self.programs.get_mut(program.0)) {
            before.variables = Some(taken);
        }
        let loaded = self.programs.get_mut(program.0).ok_or_else(not_loaded)?;
        if let Some(variables) = loaded.variables.take() {
            self.memory.put_variables(variables);
        }
        loaded.code.module.place(&mut self.memory);
        Ok(())
    }

    /// Does the work between launches. A copy also copies memory that has no value.
    fn work(&mut self, works: &[MemoryWork]) -> Result<()> {
        for work in works {
            match *work {
                MemoryWork::Set { to, value, bytes } => self.memory.write(to, &vec![value; bytes]),
                MemoryWork::Copy { from, to, bytes } => self.memory.copy(from, to, bytes),
            }
            .map_err(stray)?;
        }
        Ok(())
    }

    fn execute(
        &mut self,
        module: &Module,
        symbol: &str,
        step: &PackedStep,
        limits: Limits,
    ) -> std::result::Result<Report, Stopped> {
        let launch = configuration(step)?;
        let Ok(kernel) = module.kernel(symbol) else {
            return Err(not_loaded().into());
        };
        let params = parameters(kernel, step)?;
        ptxsim::launch_as(kernel, &launch, &params, &mut self.memory, limits).map_err(stopped)
    }
}

/// Returns the start of all texts, up to a character that does not fit.
fn printed(texts: &[String]) -> Option<Printed> {
    let all = texts.iter().map(String::len).sum::<usize>();
    let mut text = String::new();
    for c in texts.iter().flat_map(|text| text.chars()) {
        if text.len() + c.len_utf8() > PRINTED {
            break;
        }
        text.push(c);
    }
    (all > 0).then(|| Printed {
        left_out: (all - text.len()) as u64,
        text,
    })
}

/// The reasons for which a launch did not reach its end.
enum Stopped {
    Budget,
    Failed(Failure),
}

impl Stopped {
    /// Returns this as a failure of the whole launch, which may take `limit` warp instructions. `entry` is the entry of
    /// a step in a sequence.
    fn at_entry(self, entry: Option<&str>, limit: u64) -> Failure {
        let failure = match self {
            Self::Failed(failure) => failure,
            Self::Budget => Failure::case_alone(
                FaultKind::Hang,
                format!(
                    "still running after {}: an endless loop, blocks that wait for each other, \
                     or a case too large to simulate (--sim-budget raises the limit)",
                    instructions(limit)
                ),
            ),
        };
        match (failure, entry) {
            (Failure::Fault { fault, sticky }, Some(entry)) => Failure::Fault {
                fault: Fault {
                    message: format!("in {entry}: {}", fault.message),
                    ..fault
                },
                sticky,
            },
            (failure, _) => failure,
        }
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

fn stopped(fault: ptxsim::Fault) -> Stopped {
    use ptxsim::FaultKind as Kind;
    let kind = match fault.kind {
        Kind::Budget => return Stopped::Budget,
        Kind::Launch => FaultKind::LaunchRefused,
        Kind::OutOfBounds
        | Kind::Misaligned
        | Kind::ReadOnly
        | Kind::Trap
        | Kind::Assert
        | Kind::Deadlock
        | Kind::Undefined => FaultKind::DeviceFault,
    };
    let site = FaultSite::Launch(LaunchSite {
        place: *fault.place,
        block: fault.block,
        thread: fault.thread,
    });
    Stopped::Failed(Failure::Fault {
        fault: Fault {
            kind,
            message: fault.message,
            site: Some(Box::new(site)),
        },
        sticky: false,
    })
}

fn configuration(step: &PackedStep) -> Result<Launch> {
    step.launch
        .ok_or(Failure::Unsupported(Unsupported::Launcher))
}

fn not_loaded() -> Failure {
    Failure::case_alone(
        FaultKind::EntryNotFound,
        "the program is not loaded any more",
    )
}

/// Returns the arguments where the kernel looks for them. This checks what a driver cannot check: the kernel has as
/// many parameters as there are arguments, and of the same sizes.
fn parameters(kernel: &Kernel, step: &PackedStep) -> Result<Vec<u8>> {
    let places = kernel.parameters();
    let refused = |what: String| Err(Failure::case_alone(FaultKind::LaunchRefused, what));
    if places.len() != step.args.len() {
        return refused(format!(
            "gates.yaml gives {} arguments, and {} has {} parameters:{}",
            step.args.len(),
            short_name(kernel.name()),
            places.len(),
            side_by_side(&places, &step.args)
        ));
    }
    let mut params = vec![0; kernel.parameter_bytes() as usize];
    for (at, ((offset, bytes), value)) in places.into_iter().zip(&step.args).enumerate() {
        let value = value.bytes();
        let place = params.get_mut(offset as usize..(offset + bytes) as usize);
        match place {
            Some(place) if place.len() == value.len() => place.copy_from_slice(&value),
            _ => {
                return refused(format!(
                    "argument {} is {} bytes in gates.yaml, and {bytes} in {}",
                    at + 1,
                    value.len(),
                    short_name(kernel.name())
                ));
            }
        }
    }
    Ok(params)
}

/// Returns a line for each parameter. A C name has no types, so only sizes can be compared.
fn side_by_side(places: &[(u32, u32)], args: &[PackedArg]) -> String {
    let bytes = |size: Option<usize>| match size {
        Some(size) => format!("{size} bytes"),
        None => "nothing".to_owned(),
    };
    let lines = (0..places.len().max(args.len())).map(|at| {
        let takes = places.get(at).map(|(_, size)| *size as usize);
        let given = args.get(at).map(|arg| arg.bytes().len());
        format!("\n  {}: {}, given {}", at + 1, bytes(takes), bytes(given))
    });
    lines.collect()
}

fn load(path: &Path, moved: Option<Turn>) -> Result<Module> {
    let text = files::read_text(path, files::made()).map_err(|error| {
        Failure::case_alone(
            FaultKind::Environment,
            format!("the PTX {} cannot be read: {error}", path.display()),
        )
    })?;
    Module::load_moved(&text, |file| !is_of_system(file), moved).map_err(|error| refused(&error))
}

/// Returns a failure of loading. ptxas has accepted the code, so the simulator does not know something in it.
fn refused(error: &LoadError) -> Failure {
    Failure::Unsupported(Unsupported::Ptx {
        problem: match error {
            LoadError::Unsupported { .. } => format!("the simulator does not support it: {error}"),
            LoadError::Parse(_) | LoadError::Invalid { .. } => {
                format!("the simulator does not understand the PTX that ptxas took: {error}")
            }
        },
    })
}

fn own_image(address: Address, image: &Image) -> Option<own::Image> {
    Some(own::Image {
        address,
        format: match image.elem {
            ElemType::U8 => own::Format::U8,
            ElemType::I8 => own::Format::I8,
            ElemType::U16 => own::Format::U16,
            ElemType::I16 => own::Format::I16,
            ElemType::U32 => own::Format::U32,
            ElemType::I32 => own::Format::I32,
            ElemType::F16 => own::Format::F16,
            ElemType::F32 => own::Format::F32,
            ElemType::F64 | ElemType::Bf16 | ElemType::E4m3 | ElemType::E5m2 | ElemType::I64 => {
                return None;
            }
        },
        channels: image.channels,
        geometry: own::Geometry {
            rank: image.rank,
            layered: image.layers.is_some(),
        },
        extents: image.extents,
        layers: image.layers.unwrap_or(1),
        layout: match image.memory {
            ImageMemory::Array => own::Layout::Array,
            ImageMemory::Linear => own::Layout::Linear,
        },
    })
}

fn own_sampler(sampler: &Sampler) -> own::Sampler {
    own::Sampler {
        filter: match sampler.filter {
            TextureFilter::Point => own::Filter::Point,
            TextureFilter::Linear => own::Filter::Linear,
        },
        outside: match sampler.address {
            TextureAddress::Clamp => own::Outside::Clamp,
            TextureAddress::Border => own::Outside::Border,
            TextureAddress::Wrap => own::Outside::Wrap,
            TextureAddress::Mirror => own::Outside::Mirror,
        },
        normalized: sampler.normalized,
        as_float: sampler.read == TextureRead::NormalizedFloat,
    }
}

/// Returns the failure of an address outside all of our buffers, which is gatekeeper's own mistake.
fn stray(error: ptxsim::memory::MemoryError) -> Failure {
    Failure::case_alone(FaultKind::Environment, error.to_string())
}

impl Device for SimDevice {
    fn stream(&self) -> u64 {
        0
    }

    fn load(&mut self, artifact: &Artifact) -> Result<LoadedProgram> {
        let (ptx, entries) = match artifact {
            Artifact::Cubin {
                ptx: Some(ptx),
                entries,
                ..
            } => (ptx, entries),
            Artifact::Ptx { path, entries } => (path, entries),
            Artifact::Cubin { ptx: None, .. } | Artifact::Together { .. } => {
                return Err(Failure::Unsupported(Unsupported::Cubin));
            }
            Artifact::Launcher { .. } => return Err(Failure::Unsupported(Unsupported::Launcher)),
        };
        let mut module = self.module(ptx, None)?;
        if module.has_variables() && self.varied.moved().is_some() {
            module = self.module(ptx, self.varied.moved())?;
        }
        for (_, symbol) in entries {
            match module.kernel(symbol) {
                Ok(_) => {}
                Err(NoKernel::Refused(error)) => return Err(refused(&error)),
                Err(NoKernel::Unknown(_)) => {
                    return Err(Failure::case_alone(
                        FaultKind::EntryNotFound,
                        format!("the entry {symbol} is not in the PTX"),
                    ));
                }
            }
        }
        self.programs.push(Loaded {
            code: Arc::new(LoadedCode {
                module,
                entries: entries.clone(),
            }),
            variables: None,
        });
        Ok(LoadedProgram(self.programs.len() - 1))
    }

    fn variable(
        &mut self,
        program: LoadedProgram,
        _: usize,
        symbol: &str,
    ) -> Result<(Address, usize)> {
        self.select(program)?;
        let loaded = self.programs.get(program.0).ok_or_else(not_loaded)?;
        let found = loaded.code.module.variable(symbol);
        found.ok_or_else(|| no_variable(symbol))
    }

    /// Includes the blocks that `malloc` gave, which live on like variables.
    fn variables(&mut self, program: LoadedProgram) -> Result<Vec<(String, Address, usize)>> {
        self.select(program)?;
        let loaded = self.programs.get(program.0).ok_or_else(not_loaded)?;
        let named = loaded.code.module.written_variables();
        let all = named.chain(self.memory.heap_blocks());
        Ok(all
            .map(|(name, at, bytes)| (name.to_owned(), at, bytes))
            .collect())
    }

    fn alloc(&mut self, name: &str, bytes: usize) -> Result<Address> {
        self.memory
            .alloc(name, bytes.max(1) as u64)
            .map_err(|error| {
                Failure::Unsupported(Unsupported::OutOfMemory {
                    problem: error.to_string(),
                })
            })
    }

    fn place(&mut self, name: &str, at: Address, bytes: usize) -> Result<()> {
        let placed = self.memory.place(name, at, bytes as u64);
        placed.map_err(|error| {
            Failure::Unsupported(Unsupported::OutOfMemory {
                problem: error.to_string(),
            })
        })
    }

    /// Binds a texture or surface. It reads the tensor itself, so the simulator also sees what is undefined in it.
    fn bind(&mut self, at: Address, image: &Image, sampler: Option<&Sampler>) -> Result<u64> {
        let bound = match sampler {
            Some(sampler) => own::Bound::Texture(own_sampler(sampler)),
            None => own::Bound::Surface,
        };
        let Some(image) = own_image(at, image) else {
            return Err(Failure::case_alone(
                FaultKind::LaunchRefused,
                format!("no texture or surface holds {}", image.elem.name()),
            ));
        };
        self.memory.bind(image, bound).map_err(stray)
    }

    fn tensor_map(&mut self, at: Address, map: &TensorMap) -> Result<MapBytes> {
        ptxsim::encode_tensor_map(map, at).map_err(|error| {
            Failure::case_alone(FaultKind::LaunchRefused, format!("a tensor map: {error}"))
        })
    }

    fn guard(&self) -> usize {
        0
    }

    fn reset(&mut self) -> Result<()> {
        self.clear();
        Ok(())
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<()> {
        self.memory.write(to, bytes).map_err(stray)
    }

    /// Leaves the memory without a value, so that a kernel that reads it is found.
    fn fill(&mut self, to: Address, pattern: &[u8], count: usize) -> Result<()> {
        self.show_poison(to, pattern, count);
        self.memory.forget(to, pattern.len() * count).map_err(stray)
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<()> {
        let held = self.memory.read(from, bytes.len()).map_err(stray)?;
        bytes.copy_from_slice(held);
        let unset = self.memory.without_value(from, bytes.len());
        for range in unset.map_err(stray)? {
            for at in range {
                let address = from + at as u64;
                let near = self.poison.range(..=address).next_back();
                let poison = near.and_then(|(base, poison)| {
                    let offset = usize::try_from(address - base).ok()?;
                    let inside = offset < poison.bytes && !poison.pattern.is_empty();
                    inside.then(|| poison.pattern.get(offset % poison.pattern.len()))?
                });
                if let (Some(byte), Some(poison)) = (bytes.get_mut(at), poison) {
                    *byte = *poison;
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, call: &DeviceCall) -> Result<()> {
        self.shown = None;
        let code = self.loaded(call)?;
        let several = call.steps.len() > 1;
        let mut left = self.limit;
        let (mut findings, mut not_judged) = (Vec::new(), Vec::new());
        let (mut counted, mut withheld) = (Counters::default(), BTreeMap::new());
        let mut texts = Vec::new();
        // Every step runs on what the steps before it left in memory.
        for (step, (name, symbol)) in call.steps.iter().zip(&code.entries) {
            let entry = several.then_some(name.as_str());
            self.work(&step.before)?;
            let report = self
                .execute(&code.module, symbol, step, self.limits(left))
                .map_err(|stopped| stopped.at_entry(entry, self.limit))?;
            self.work(&step.after)?;
            left = left.saturating_sub(report.counters.total.issued);
            for arose in report.arose {
                if self.arose.iter().all(|known| known.is_nan != arose.is_nan) {
                    self.arose.push(arose);
                }
            }
            findings.extend(report.findings.into_iter().map(|finding| Finding {
                entry: entry.map(str::to_owned),
                ..finding
            }));
            not_judged.extend(report.not_judged.into_iter().map(|what| match entry {
                Some(entry) => format!("in {entry}: {what}"),
                None => what,
            }));
            for (counter, why) in report.withheld {
                withheld.entry(counter).or_insert(why);
            }
            counted += report.counters;
            texts.extend(report.printed);
        }
        // The gravest findings come first, whichever step they belong to.
        findings.sort_by_key(|found| (found.kind, Reverse(found.times)));
        let [counters, information] = counted.split(&withheld);
        let lines = Counter::ALL.map(|counter| (counter, counted.lines(counter, LINES)));
        self.shown = Some(SimulationFacts {
            findings,
            not_judged,
            counters,
            information,
            withheld,
            lines: lines
                .into_iter()
                .filter(|(_, lines)| !lines.is_empty())
                .collect(),
            computed: counted.computed,
            printed: printed(&texts),
        });
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn describe(&mut self, _: &DeviceCall) -> Result<DriverFacts> {
        Err(Failure::Unsupported(Unsupported::Driver))
    }

    fn timer<'a>(&'a mut self, _: Targets<'a>) -> Option<Result<Box<dyn Timer + 'a>>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_text_is_cut_between_characters() {
        assert_eq!(printed(&[]), None);
        assert_eq!(printed(&[String::new()]), None);
        let short = printed(&["a ".to_owned(), "b\n".to_owned()]);
        let whole = Printed {
            text: "a b\n".to_owned(),
            left_out: 0,
        };
        assert_eq!(short, Some(whole));
        let long = printed(&["x".to_owned(), "\u{e4}".repeat(PRINTED)]).unwrap();
        assert_eq!(long.text.len(), PRINTED - 1);
        assert_eq!(long.left_out, (1 + 2 * PRINTED - long.text.len()) as u64);
    }
}
