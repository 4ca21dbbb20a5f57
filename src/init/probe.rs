//! Observes a call in the simulator: how far the kernel reaches into each tensor, which tensors it reads and writes,
//! and what it computes. Only the call that the sources say is tried.
//!
//! A call runs several times. The first run has room to spare, and tells the extent of each tensor. Up to one more run
//! for each tensor has exactly these extents, and tells what is read before it is written. Then one run for each seed
//! has inputs as `run` draws them. It tells whether the extents depend on the inputs, and references are compared with
//! its output. Sizes that do not divide by a tile are tried first. If the call is not right with them, sizes that do
//! divide are tried.

use super::call::{
    Argument, Call, CallError, Captured, ErrorLimit, Integers, SMALL, Tensor, UnknownCall,
};
use super::launches::{Answers, ReadCall, Texts};
use super::parts::{InputKind, KernelInput, parts_of};
use super::references::{self, Observed};
use super::sizes::{self, Alignment, Dim, Product};
use super::tolerances::{rounded_up, tolerance};
use build::inventory::{self, ListedKernel, Pointee};
use check::Values;
use model::expr::{Env, ExprValue, Expression, Name};
use model::{ElemType, Role, ScalarType};
use ptxsim::{FaultKind, Finding, FindingKind, Launch, Limits, Memory, Module, Report};
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

/// The most warp instructions that one launch may execute in a run of one seed.
const INSTRUCTIONS: u64 = 10_000_000;
/// The distance in bytes between the addresses of two tensors. Nothing else is in between.
const APART: u64 = 1 << 30;
const MOST_BYTES: u64 = 1 << 30;
/// The room of one tensor in bytes, while its extent is not known.
const ROOM: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 26;
/// The most indices of a program that are written one by one. Of more indices, only the bounds are
/// written.
const MOST_VALUES: usize = 64;
/// The number of seeds whose outputs are compared with references.
const SEEDS: u64 = 2;

/// A source with its code, and the texts of all sources.
pub struct KernelOrigin<'a> {
    /// The simulator's module, or why the simulator cannot read it. It is read when a call is first
    /// observed.
    module: OnceLock<Result<Module, ptxsim::LoadError>>,
    ptx: &'a str,
    /// The PTX of each kernel, by its symbol.
    entries: HashMap<&'a str, &'a str>,
    texts: &'a Texts,
    source: &'a str,
    define: &'a [(String, String)],
}

impl<'a> KernelOrigin<'a> {
    pub fn new(
        ptx: &'a str,
        texts: &'a Texts,
        source: &'a str,
        define: &'a [(String, String)],
    ) -> Self {
        Self {
            module: OnceLock::new(),
            ptx,
            entries: inventory::entries(ptx),
            texts,
            source,
            define,
        }
    }

    /// Returns the questions about these kernels' calls that only the compiler can answer.
    pub fn questions<'k>(&self, kernels: impl Iterator<Item = &'k ListedKernel>) -> Vec<String> {
        let answers = Answers::collecting();
        for kernel in kernels {
            if let Ok(parts) = parts_of(kernel, self.entry(kernel)) {
                let _ = self.read(kernel, &parts, &answers);
            }
        }
        answers.questions()
    }

    fn entry(&self, kernel: &ListedKernel) -> &'a str {
        self.entries
            .get(kernel.symbol.as_str())
            .copied()
            .unwrap_or_default()
    }

    fn parts<'k>(
        &self,
        kernel: &'k ListedKernel,
    ) -> Result<(&Module, &ptxsim::Kernel, Vec<KernelInput<'k>>), CallError> {
        let module = self
            .module
            .get_or_init(|| Module::load(self.ptx))
            .as_ref()
            .map_err(|error| CallError::Module(error.clone()))?;
        let program = module.kernel(&kernel.symbol).map_err(CallError::Kernel)?;
        let parts = parts_of(kernel, self.entry(kernel))?;
        let places = program.parameters();
        let fits = |part: &KernelInput| {
            let place = places.get(part.parameter);
            place.is_some_and(|(_, bytes)| part.offset + part.kind.bytes() <= *bytes as usize)
        };
        if places.len() != kernel.parameters.len() || !parts.iter().all(fits) {
            return Err(CallError::PtxParameters);
        }
        Ok((module, program, parts))
    }

    fn read(
        &self,
        kernel: &ListedKernel,
        parts: &[KernelInput],
        answers: &Answers,
    ) -> Result<ReadCall, CallError> {
        let bounds = inventory::launch_bounds(self.entry(kernel), &kernel.symbol);
        let place = (self.source, self.define, answers);
        self.texts.call_of(place, kernel, parts, bounds)
    }

    /// Finds the call of a kernel in the sources, and observes it.
    ///
    /// # Errors
    /// Returns what is not known of the call.
    pub fn find_call(&self, kernel: &ListedKernel, answers: &Answers) -> Result<Call, UnknownCall> {
        let unknown = |why: CallError| UnknownCall {
            why: why.to_string(),
            launch: None,
        };
        let (module, program, parts) = self.parts(kernel).map_err(unknown)?;
        let read = self.read(kernel, &parts, answers).map_err(unknown)?;
        let is_flat = read.block.len() == 1 && read.grid.len() == 1;
        let observe = |alignment: Alignment| {
            let dims = sizes::values(&read.dims, alignment, is_flat);
            Trial::new((program, module), &parts, &read, dims, None)?.observe()
        };
        let ragged = observe(Alignment::Ragged);
        if ragged.as_ref().is_ok_and(|call| call.numbers() == 0) {
            return ragged.map_err(unknown);
        }
        // A kernel that does not check where a tensor ends reaches whole tiles.
        match (ragged, observe(Alignment::Whole)) {
            (Ok(ragged), Ok(whole)) if whole.numbers() < ragged.numbers() => Ok(whole),
            (Ok(ragged), _) => Ok(ragged),
            (Err(_), Ok(whole)) => Ok(whole),
            (Err(_), Err(why)) => Err(UnknownCall {
                why: why.to_string(),
                launch: Some((read.grid, read.block)),
            }),
        }
    }

    /// Runs a launch of a program again, over copies of the memory behind its pointers, and returns what it does with
    /// each.
    ///
    /// # Errors
    /// Returns why the simulator cannot run the launch.
    pub fn observe_launch(
        &self,
        kernel: &ListedKernel,
        read: &ReadCall,
        state: &LaunchState,
    ) -> Result<ObservedLaunch, CallError> {
        let (module, program, parts) = self.parts(kernel)?;
        Trial::new((program, module), &parts, read, Vec::new(), Some(state))?.observe_memory()
    }
}

/// The accesses of a program's launch in the simulator, and whether it has findings there.
pub struct ObservedLaunch {
    /// By part, with what it does with each.
    pub tensors: Vec<Option<Tensor>>,
    pub has_findings: bool,
}

/// The parameters and memory of a launch that a program made.
pub struct LaunchState {
    pub launch: Launch,
    pub parameters: Vec<Vec<u8>>,
    /// The memory behind each pointer to the end of its allocation, in the order of the kernel's
    /// inputs.
    pub memory: Vec<Option<Vec<u8>>>,
    /// The names and contents of the module's variables.
    pub variables: Vec<(String, Vec<u8>)>,
}

/// Returns the limit that suits all outputs, which is the largest that one of them needs.
pub fn limit(call: &Call, observed: &[Observed]) -> ErrorLimit {
    let limits = call.tensors().filter(|tensor| tensor.role.is_result());
    let limits = limits.map(|tensor| {
        let largest = references::largest(observed, &tensor.name);
        let largest = largest.filter(|largest| largest.is_finite() && *largest > 0.0);
        let elem = tensor.pointee.elem;
        (tolerance(elem, largest.unwrap_or(1.0)), elem, largest)
    });
    let Some((limit, elem, largest)) = limits.max_by(|one, other| one.0.total_cmp(&other.0)) else {
        return ErrorLimit::default();
    };
    let values = largest.map_or_else(|| "1".to_owned(), |largest| format!("{largest:.3}"));
    ErrorLimit {
        value: rounded_up(limit),
        because: if elem.is_float() {
            format!("rounding of {}, values up to {values}", elem.name())
        } else {
            format!("{} has no rounding", elem.name())
        },
    }
}

/// A call with values for its sizes, ready to run.
struct Trial<'a> {
    program: &'a ptxsim::Kernel,
    module: &'a Module,
    parts: &'a [KernelInput<'a>],
    read: &'a ReadCall,
    dims: Vec<Dim>,
    launch: Launch,
    /// The values of integers, by the name of the kernel's input.
    values: BTreeMap<&'a str, i64>,
    /// The parameters and memory of a launch that a program made.
    state: Option<&'a LaunchState>,
}

/// A tensor that a launch is given.
#[derive(Clone, Copy)]
struct GivenTensor {
    elements: u64,
    /// True if it has values before the launch.
    is_filled: bool,
}

/// A launch that ended by itself.
struct EndedLaunch {
    report: Report,
    memory: Memory,
    bases: Vec<Option<u64>>,
}

impl<'a> Trial<'a> {
    fn new(
        (program, module): (&'a ptxsim::Kernel, &'a Module),
        parts: &'a [KernelInput<'a>],
        read: &'a ReadCall,
        dims: Vec<Dim>,
        state: Option<&'a LaunchState>,
    ) -> Result<Self, CallError> {
        let named = |dim: &Dim| (Name::plain(&dim.name), ExprValue::Int(dim.value as i64));
        let env: Env = dims.iter().map(named).collect();
        let value = |text: &String| {
            let (parsed, text) = (Expression::parse(text), text.clone());
            match parsed.map(|parsed| parsed.integer(&env)) {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(source)) => Err(CallError::Value { text, source }),
                Err(source) => Err(CallError::Expression { text, source }),
            }
        };
        let count = |text: &String| {
            let (count, text) = (value(text)?, text.clone());
            u32::try_from(count).map_err(|_| CallError::Count { text, count })
        };
        let extents = |texts: &[String]| -> Result<[u32; 3], CallError> {
            let mut all = [1; 3];
            for (extent, text) in all.iter_mut().zip(texts) {
                *extent = count(text)?;
            }
            Ok(all)
        };
        let values = read.values.iter().filter(|_| state.is_none());
        let values = values.map(|(name, text)| Ok((name.as_str(), value(text)?)));
        Ok(Self {
            launch: match state {
                Some(state) => state.launch,
                None => Launch {
                    grid: extents(&read.grid)?,
                    block: extents(&read.block)?,
                    cluster: None,
                    cooperative: read.cooperative,
                    dynamic_shared: count(&read.shared)?,
                },
            },
            values: values.collect::<Result<_, CallError>>()?,
            state,
            program,
            module,
            parts,
            read,
            dims,
        })
    }

    fn observe(&self) -> Result<Call, CallError> {
        let (elements, changed) = self.reach()?;
        let extents = self.extents(&elements)?;
        let (mut given, exact) = self.launch_exactly(&elements, &changed)?;
        let roles = self.roles(&given, &exact);
        if !roles.iter().flatten().any(|role| role.is_result()) {
            return Err(CallError::WritesNothing);
        }
        let tensors = roles.iter().zip(extents).enumerate();
        let tensors = tensors
            .map(|(at, (role, extent))| self.tensor(at, (*role)?, extent?, Integers::default()));
        let mut call = assemble(self.parts, self.read, self.dims.clone(), tensors.collect());
        let case = references::case_of(&call);
        let drawn: Vec<_> = (1..=SEEDS)
            .map_while(|seed| check::inputs::generate(&case, seed).ok())
            .collect();
        let mut observed = Vec::new();
        for (given, role) in given.iter_mut().flatten().zip(roles.iter().flatten()) {
            given.is_filled = role.is_drawn();
        }
        for inputs in &drawn {
            let launched = self.launch(&given, &|at, bytes| {
                let part = self.parts.get(at);
                let drawn = part.and_then(|part| inputs.tensors.get(&part.name));
                let drawn =
                    drawn.map_or_else(|| self.content(at, bytes), |tensor| tensor.bytes.clone());
                drawn.into_iter().take(bytes as usize).collect()
            });
            let launched = launched.map_err(|error| CallError::OtherInputs(Box::new(error)))?;
            self.reject(&launched.report)?;
            let outputs = case.tensors.iter().filter(|tensor| tensor.role.is_result());
            let outputs = outputs.filter_map(|tensor| {
                let at = self
                    .parts
                    .iter()
                    .position(|part| part.name == tensor.name)?;
                let base = (*launched.bases.get(at)?)?;
                let bytes = (*given.get(at)?)?.elements * bytes_each(self.pointee(at)?);
                let bytes = launched.memory.read(base, bytes as usize).ok()?;
                Some((tensor.name.clone(), check::decode(tensor, bytes).ok()?))
            });
            let outputs = outputs.collect();
            observed.push(Observed { inputs, outputs });
        }
        call.max_err = limit(&call, &observed);
        call.reference = references::find_reference(&call, &observed);
        Ok(call)
    }

    /// Returns the elements that a pointer leads to. Returns `None` for a value that is not a
    /// pointer, and for a null pointer.
    fn pointee(&self, at: usize) -> Option<&'a Pointee> {
        let part = self.parts.get(at)?;
        match part.kind {
            InputKind::Pointer(pointee) => match self.read.pointees.get(&part.name) {
                Some(other) => other.as_ref(),
                None => Some(pointee),
            },
            InputKind::Size(_) | InputKind::Value(_) => None,
        }
    }

    /// Returns how many elements of each tensor the kernel reaches, and whether it changes them.
    fn reach(&self) -> Result<(Vec<Option<u64>>, Vec<bool>), CallError> {
        let whole = self
            .dims
            .iter()
            .fold(1 << 10, |all: u64, dim| all.saturating_mul(dim.value));
        let room = |at: usize, each: u64| match self.state {
            Some(state) => Some(state.memory.get(at)?.as_ref()?.len() as u64),
            None => Some(whole.saturating_mul(each).clamp(*ROOM.start(), *ROOM.end())),
        };
        let given: Vec<Option<GivenTensor>> = (0..self.parts.len())
            .map(|at| {
                let each = bytes_each(self.pointee(at)?);
                Some(GivenTensor {
                    elements: room(at, each)? / each,
                    is_filled: true,
                })
            })
            .collect();
        let content = |at: usize, bytes: u64| self.content(at, bytes);
        let launched = self.launch(&given, &content)?;
        self.reject(&launched.report)?;
        let reached = launched.bases.iter().enumerate().map(|(at, base)| {
            let (pointee, base) = self.pointee(at).zip(*base)?;
            let bytes = launched.report.reached.get(&base).copied();
            let bytes = bytes.unwrap_or_default();
            Some(bytes.div_ceil(bytes_each(pointee)).max(1))
        });
        let mut changed = self.written(&given, &launched, &content);
        // A program that repeats a launch left the same output there before, so memory that the launch may write gets
        // other values. If integers are indices, only floats are replaced.
        let repeats: &[bool] = if self.state.is_some() {
            &[false, true]
        } else {
            &[]
        };
        for only_floats in repeats {
            let other = |at: usize, bytes: u64| match self.pointee(at) {
                Some(pointee) if !pointee.is_const && (pointee.elem.is_float() || !only_floats) => {
                    pattern(at, pointee, bytes)
                }
                _ => self.content(at, bytes),
            };
            if let Ok(launched) = self.launch(&given, &other) {
                changed = self.written(&given, &launched, &other);
                break;
            }
        }
        let changed = changed.into_iter().map(|bytes| bytes > 0);
        Ok((reached.collect(), changed.collect()))
    }

    /// Returns the number of elements of each tensor as a product of the sizes.
    fn extents(&self, elements: &[Option<u64>]) -> Result<Vec<Option<Product>>, CallError> {
        let fixed = self
            .read
            .grid
            .iter()
            .chain(&self.read.block)
            .chain(self.read.values.values());
        let mut numbers: Vec<u64> = fixed.filter_map(|text| text.parse().ok()).collect();
        numbers.push(self.launch.block.map(u64::from).into_iter().product());
        let names: Vec<&str> = self.dims.iter().map(|dim| dim.name.as_str()).collect();
        self.parts
            .iter()
            .zip(elements)
            .map(|(part, elements)| {
                let Some(elements) = elements else {
                    return Ok(None);
                };
                let product = sizes::product_of(*elements, &self.dims, &numbers);
                product.map(Some).ok_or_else(|| CallError::Extent {
                    elements: *elements,
                    name: part.name.clone(),
                    dims: names.join(", "),
                })
            })
            .collect()
    }

    /// Launches over tensors of exactly these extents. Only what the kernel reads has values.
    fn launch_exactly(
        &self,
        elements: &[Option<u64>],
        changed: &[bool],
    ) -> Result<(Vec<Option<GivenTensor>>, EndedLaunch), CallError> {
        let given = elements.iter().enumerate().map(|(at, elements)| {
            let is_filled = self.pointee(at)?.is_const || changed.get(at) == Some(&false);
            Some(GivenTensor {
                elements: (*elements)?,
                is_filled,
            })
        });
        let mut given: Vec<Option<GivenTensor>> = given.collect();
        let content = |at: usize, bytes: u64| self.content(at, bytes);
        loop {
            let launched = self.launch(&given, &content)?;
            let findings = launched.report.findings.iter();
            let unwritten: Vec<&Finding> = findings
                .filter(|finding| finding.kind == FindingKind::Uninitialised)
                .collect();
            let mut is_new = false;
            for address in unwritten.iter().filter_map(|finding| finding.address) {
                is_new |= fill(&mut given, &launched.bases, |base, _| {
                    (base..base + APART).contains(&address)
                });
            }
            let written = self.written(&given, &launched, &content);
            // A result that is computed from nothing has no value either, and does not show as
            // written.
            if !is_new && (!unwritten.is_empty() || written.iter().all(|bytes| *bytes == 0)) {
                is_new = fill(&mut given, &launched.bases, |_, at| {
                    written.get(at) == Some(&0)
                });
            }
            if !is_new {
                self.reject(&launched.report)?;
                return Ok((given, launched));
            }
        }
    }

    /// Returns which bytes of each tensor hold another value than before.
    fn written(
        &self,
        given: &[Option<GivenTensor>],
        launched: &EndedLaunch,
        content: &dyn Fn(usize, u64) -> Vec<u8>,
    ) -> Vec<u64> {
        let each = given.iter().zip(&launched.bases).enumerate();
        let written = each.map(|(at, (given, base))| {
            let (Some(pointee), Some(given), Some(base)) = (self.pointee(at), *given, *base) else {
                return 0;
            };
            let bytes = given.elements * bytes_each(pointee);
            if given.is_filled {
                let now = launched
                    .memory
                    .read(base, bytes as usize)
                    .unwrap_or_default();
                let before = content(at, bytes);
                now.iter()
                    .zip(&before)
                    .filter(|(now, was)| now != was)
                    .count() as u64
            } else {
                let left = launched.memory.without_value(base, bytes as usize);
                bytes - left.map_or(0, |gaps| gaps.iter().map(|gap| gap.len() as u64).sum())
            }
        });
        written.collect()
    }

    fn launch(
        &self,
        given: &[Option<GivenTensor>],
        content: &dyn Fn(usize, u64) -> Vec<u8>,
    ) -> Result<EndedLaunch, CallError> {
        let mut memory = Memory::new(MOST_BYTES);
        self.module.place(&mut memory);
        let mut params = vec![0; self.program.parameter_bytes() as usize];
        let begins = self.program.parameters().into_iter();
        let begins: Vec<usize> = begins.map(|(begin, _)| begin as usize).collect();
        for (name, bytes) in self.state.iter().flat_map(|state| &state.variables) {
            if let Some((address, _)) = self.module.variable(name) {
                memory.write(address, bytes)?;
            }
        }
        let captured = self.state.iter().flat_map(|state| &state.parameters);
        for (begin, bytes) in begins.iter().zip(captured) {
            let place = params.get_mut(*begin..begin + bytes.len());
            place
                .ok_or(CallError::PtxParameters)?
                .copy_from_slice(bytes);
        }
        let mut bases = Vec::new();
        for (at, (part, given)) in self.parts.iter().zip(given).enumerate() {
            let mut base = None;
            let value = match (&part.kind, given) {
                (InputKind::Pointer(_), Some(given)) => {
                    let pointee = self.pointee(at).ok_or(CallError::PtxParameters)?;
                    let bytes = given.elements * bytes_each(pointee);
                    let address = memory.alloc(&part.name, bytes)?;
                    memory.skip(APART);
                    if given.is_filled {
                        memory.write(address, &content(at, bytes))?;
                    }
                    base = Some(address);
                    address.to_le_bytes().to_vec()
                }
                (InputKind::Pointer(_), None) => Vec::new(),
                _ if self.state.is_some() => Vec::new(),
                (InputKind::Size(scalar), _) => {
                    let value = self.values.get(part.name.as_str()).copied().unwrap_or(1);
                    value
                        .to_le_bytes()
                        .into_iter()
                        .take(scalar.size())
                        .collect()
                }
                (InputKind::Value(scalar), _) => {
                    made_up(*scalar).1.into_iter().take(scalar.size()).collect()
                }
            };
            bases.push(base);
            let begin = begins.get(part.parameter).copied().unwrap_or_default() + part.offset;
            let place = params.get_mut(begin..begin + value.len());
            place
                .ok_or(CallError::PtxParameters)?
                .copy_from_slice(&value);
        }
        let limits = Limits {
            instructions: INSTRUCTIONS,
            threads: 1,
            ..Limits::default()
        };
        let ended = ptxsim::launch_as(self.program, &self.launch, &params, &mut memory, limits);
        let report = ended.map_err(|fault| match fault.kind {
            FaultKind::OutOfBounds => CallError::OutOfBounds(fault.place.at.to_string()),
            FaultKind::Budget => CallError::Budget,
            _ => CallError::Fault(fault.message.lines().next().unwrap_or_default().to_owned()),
        })?;
        Ok(EndedLaunch {
            report,
            memory,
            bases,
        })
    }

    fn tensor(&self, at: usize, role: Role, size: Product, integers: Integers) -> Option<Tensor> {
        Some(Tensor {
            name: self.parts.get(at)?.name.clone(),
            role,
            pointee: self.pointee(at)?.clone(),
            size,
            integers,
        })
    }

    /// Returns what the kernel does with each tensor. In these runs, tensors hold values where the kernel reads
    /// before it writes.
    fn roles(&self, given: &[Option<GivenTensor>], exact: &EndedLaunch) -> Vec<Option<Role>> {
        let written = self.written(given, exact, &|at, bytes| self.content(at, bytes));
        let roles = given.iter().zip(written).enumerate();
        roles
            .map(|(at, (given, written))| {
                let (pointee, given) = self.pointee(at).zip(*given)?;
                Some(match written {
                    0 => Role::In,
                    _ if pointee.is_const => Role::In,
                    _ if !given.is_filled && written == given.elements * bytes_each(pointee) => {
                        Role::Out
                    }
                    // Elements that the launch does not write keep their values.
                    _ => Role::Inout,
                })
            })
            .collect()
    }

    /// Returns the tensors of a program's launch.
    fn observe_memory(&self) -> Result<ObservedLaunch, CallError> {
        let (elements, changed) = self.reach()?;
        let (given, exact) = self.launch_exactly(&elements, &changed)?;
        let roles = self.roles(&given, &exact);
        let tensors = roles.iter().zip(&given).enumerate();
        let tensors = tensors.map(|(at, (role, own))| {
            let value = (*own)?.elements;
            let factors = vec![value.to_string()];
            let integers = self.integers(at, &given, &exact).unwrap_or_default();
            self.tensor(at, (*role)?, Product { factors, value }, integers)
        });
        Ok(ObservedLaunch {
            tensors: tensors.collect(),
            has_findings: first_grave(&exact.report).is_some(),
        })
    }

    /// Returns the bounds of the integers that a program's launch reads. Returns all values if they are few and are
    /// indices or bounds: if each place held the least one, the kernel would take other branches or reach other memory.
    fn integers(
        &self,
        at: usize,
        given: &[Option<GivenTensor>],
        exact: &EndedLaunch,
    ) -> Option<Integers> {
        let (pointee, own) = self.pointee(at).zip(*given.get(at)?)?;
        if pointee.elem.is_float() || !pointee.is_known || !own.is_filled {
            return None;
        }
        let bytes = own.elements * bytes_each(pointee);
        let count = own.elements as usize * pointee.count;
        let tensor = model::Tensor::new("", Role::In, pointee.elem, vec![count]);
        let decode = |bytes: &[u8]| check::decode(&tensor, bytes).ok();
        let Some(Values::I64(values)) = decode(&self.content(at, bytes)) else {
            return None;
        };
        let (low, high) = values
            .iter()
            .min()
            .copied()
            .zip(values.iter().max().copied())?;
        let least = values.iter().position(|value| *value == low)? * pointee.elem.size();
        let all_least = |other: usize, bytes: u64| {
            let content = self.content(other, bytes);
            match content.get(least..least + pointee.elem.size()) {
                Some(least) if other == at => least.repeat(count),
                _ => content,
            }
        };
        let is_few = low < high && count <= MOST_VALUES;
        let is_data = is_few
            && self.launch(given, &all_least).is_ok_and(|other| {
                let (report, exact) = (&other.report, &exact.report);
                report.counters.total == exact.counters.total && report.reached == exact.reached
            });
        let values = if is_few && !is_data {
            values
        } else {
            Vec::new()
        };
        Some(Integers { low, high, values })
    }

    /// Returns what a tensor holds before the launch.
    fn content(&self, at: usize, bytes: u64) -> Vec<u8> {
        let own = self.state.and_then(|state| state.memory.get(at)?.as_ref());
        match (own, self.pointee(at)) {
            (Some(own), _) => own.iter().copied().take(bytes as usize).collect(),
            (None, Some(pointee)) => pattern(at, pointee, bytes),
            (None, None) => Vec::new(),
        }
    }

    /// Refuses a call in which something is wrong: the call may be at fault, or the kernel, and only the author knows.
    /// A program's launch is as it is.
    fn reject(&self, report: &Report) -> Result<(), CallError> {
        let wrong = first_grave(report).filter(|_| self.state.is_none());
        wrong.map_or(Ok(()), |finding| {
            let sentence = wording::findings::sentence(finding);
            let problem = match finding.kind {
                FindingKind::GlobalRace | FindingKind::SharedRace | FindingKind::WarpRace => {
                    "its threads race"
                }
                FindingKind::Uninitialised => "it uses memory that nothing wrote",
                _ => sentence.lines().next().unwrap_or_default(),
            };
            let place = finding.places.first().map_or("", |place| place.at.as_str());
            Err(CallError::Finding {
                problem: problem.to_owned(),
                place: place.to_owned(),
            })
        })
    }
}

/// Returns the first finding of which a run has more than a note: lanes of one warp that nothing orders are a note.
fn first_grave(report: &Report) -> Option<&Finding> {
    let mut findings = report.findings.iter();
    findings.find(|finding| finding.kind != FindingKind::WarpHazard)
}

/// Puts a call together. A number without a value is made up.
pub fn assemble(
    parts: &[KernelInput],
    read: &ReadCall,
    dims: Vec<Dim>,
    tensors: Vec<Option<Tensor>>,
) -> Call {
    let arguments = parts.iter().zip(tensors).map(|(part, tensor)| {
        let name = part.name.clone();
        match (&part.kind, tensor) {
            (InputKind::Pointer(_), Some(tensor)) => Argument::Tensor(tensor),
            (InputKind::Pointer(_), None) => Argument::Null(name),
            (InputKind::Size(of) | InputKind::Value(of), _) => {
                let value = read.values.get(&name).cloned();
                Argument::Number {
                    name,
                    of: *of,
                    value,
                }
            }
        }
    });
    Call {
        arguments: arguments.collect(),
        dims,
        grid: read.grid.clone(),
        block: read.block.clone(),
        dynamic_shared: read.shared.clone(),
        captured: Captured {
            cooperative: read.cooperative,
            ..Captured::default()
        },
        max_err: ErrorLimit::default(),
        reference: None,
    }
}

/// Fills the tensors that have an element for which `is_read` is true. Returns true if one of them
/// was empty before.
fn fill(
    given: &mut [Option<GivenTensor>],
    bases: &[Option<u64>],
    is_read: impl Fn(u64, usize) -> bool,
) -> bool {
    let mut is_new = false;
    for (at, (given, base)) in given.iter_mut().zip(bases).enumerate() {
        if let (Some(given), Some(base)) = (given, *base)
            && !given.is_filled
            && is_read(base, at)
        {
            given.is_filled = true;
            is_new = true;
        }
    }
    is_new
}

fn bytes_each(pointee: &Pointee) -> u64 {
    (pointee.elem.size() * pointee.count) as u64
}

/// Returns a number for an argument that is not a size, as text and bytes. The number is never 1,
/// because a factor of 1 would not show.
pub fn made_up(scalar: ScalarType) -> (&'static str, Vec<u8>) {
    match scalar {
        ScalarType::Bool => ("0", vec![0]),
        ScalarType::F16 => ("0.5", half::f16::from_f32(0.5).to_le_bytes().to_vec()),
        ScalarType::Bf16 => ("0.5", half::bf16::from_f32(0.5).to_le_bytes().to_vec()),
        ScalarType::F32 => ("0.5", 0.5f32.to_le_bytes().to_vec()),
        ScalarType::F64 => ("0.5", 0.5f64.to_le_bytes().to_vec()),
        _ => ("1", 1u64.to_le_bytes().to_vec()),
    }
}

/// Returns small numbers of the element's type. They differ between two inputs, so that a copy of one in the
/// other is seen.
fn pattern(part: usize, pointee: &Pointee, bytes: u64) -> Vec<u8> {
    let encoded = |small: u64| -> Vec<u8> {
        let part = 0.25 + small as f32 / 16.0;
        match pointee.elem {
            ElemType::F64 => f64::from(part).to_le_bytes().to_vec(),
            ElemType::F32 => part.to_le_bytes().to_vec(),
            ElemType::F16 => half::f16::from_f32(part).to_le_bytes().to_vec(),
            ElemType::Bf16 => half::bf16::from_f32(part).to_le_bytes().to_vec(),
            elem => small.to_le_bytes().into_iter().take(elem.size()).collect(),
        }
    };
    let first = part as u64;
    let values: Vec<u8> = (first..first + SMALL)
        .map(|small| small % SMALL)
        .flat_map(encoded)
        .collect();
    let mut content = values.repeat((bytes as usize).div_ceil(values.len().max(1)));
    content.truncate(bytes as usize);
    content
}
