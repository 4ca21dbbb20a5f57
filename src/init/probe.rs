//! Observes a call in the simulator: how far the kernel reaches into each tensor, which of them it reads and writes, and
//! what it computes. The call is the one that the sources say, and no other is tried.
//!
//! Runs of a call: one over room to spare, which tells the extent of each tensor. Up to one more for each tensor over
//! exactly these, which tell what is read before it is written. One for each seed, with inputs as `run` draws them, which
//! tell whether the extents depend on the inputs, and what references are compared with. Sizes that do not divide by a
//! tile are tried first, and where the call is not right with them, sizes that do.

use super::call::{Argument, Call, Captured, Limit, SMALL, Tensor, Unknown};
use super::launches::{Answers, ReadCall, Texts};
use super::parts::{Part, PartKind, nested, parts_of};
use super::references::{self, Observed};
use super::sizes::{self, Alignment, Dim, Product};
use super::tolerances::{rounded_up, tolerance};
use build::inventory::{self, ListedKernel, Pointee};
use model::expr::{Env, ExprValue, Expression, Name};
use model::{ElemType, Role, ScalarType};
use ptxsim::{FaultKind, Finding, FindingKind, Limits, Memory, Module, Report};
use std::collections::BTreeMap;

const OTHER_PARAMETERS: &str = "its parameters are not those of its PTX";
/// Warp instructions of one launch: what a run of one seed may take.
const INSTRUCTIONS: u64 = 10_000_000;
/// Addresses behind a tensor that belong to nothing else.
const APART: u64 = 1 << 30;
const MOST_BYTES: u64 = 1 << 30;
/// Room of one tensor while its extent is not known.
const ROOM: std::ops::RangeInclusive<u64> = 1 << 16..=1 << 26;
/// Seeds whose outputs references are compared with.
const SEEDS: u64 = 2;

/// A source with its code, among all texts.
pub struct Origin<'a> {
    /// Why the simulator cannot read it otherwise.
    pub module: Result<Module, String>,
    pub ptx: &'a str,
    pub texts: &'a Texts,
    pub source: &'a str,
    pub define: &'a [(String, String)],
}

impl Origin<'_> {
    /// Returns what only the compiler can say of these kernels' calls.
    pub fn questions(&self, kernels: &[ListedKernel]) -> Vec<String> {
        let answers = Answers::collecting();
        for kernel in kernels {
            if let Ok((.., parts)) = self.parts(kernel) {
                let _ = self.read(kernel, &parts, &answers);
            }
        }
        answers.questions()
    }

    fn parts<'k>(
        &self,
        kernel: &'k ListedKernel,
    ) -> Result<(&Module, &ptxsim::Kernel, Vec<Part<'k>>), String> {
        let module = self.module.as_ref();
        let module =
            module.map_err(|error| format!("the simulator cannot read its PTX: {error}"))?;
        let program = module.kernel(&kernel.symbol);
        let program = program.map_err(|error| format!("the simulator cannot run it: {error}"))?;
        let entry = binary::find_entry(self.ptx, &kernel.symbol).unwrap_or_default();
        let parts = parts_of(kernel, entry)?;
        let places = program.parameters();
        let fits = |part: &Part| {
            let place = places.get(part.parameter);
            place.is_some_and(|(_, bytes)| part.offset + part.bytes() <= *bytes as usize)
        };
        if places.len() != kernel.parameters.len() || !parts.iter().all(fits) {
            return Err(OTHER_PARAMETERS.to_owned());
        }
        Ok((module, program, parts))
    }

    fn read(
        &self,
        kernel: &ListedKernel,
        parts: &[Part],
        answers: &Answers,
    ) -> Result<ReadCall, String> {
        let bounds = inventory::launch_bounds(self.ptx, &kernel.symbol);
        let place = (self.source, self.define, answers);
        self.texts.call_of(place, kernel, parts, bounds)
    }

    /// Finds the call of a kernel in the sources, and observes it.
    ///
    /// # Errors
    /// What is not known of it.
    pub fn find_call(&self, kernel: &ListedKernel, answers: &Answers) -> Result<Call, Unknown> {
        let unknown = |why: String| Unknown { why, launch: None };
        let (module, program, parts) = self.parts(kernel).map_err(unknown)?;
        let read = self.read(kernel, &parts, answers).map_err(unknown)?;
        let is_flat = read.block.len() == 1 && read.grid.len() == 1;
        let observe = |alignment: Alignment| {
            let dims = sizes::values(&read.dims, alignment, is_flat);
            let trial = Trial::new(program, module, kernel, &parts, &read, dims)?;
            trial.observe()
        };
        let ragged = observe(Alignment::Ragged);
        if ragged.as_ref().is_ok_and(|call| call.numbers() == 0) {
            return ragged.map_err(unknown);
        }
        // A kernel that does not look where it ends reaches whole tiles.
        match (ragged, observe(Alignment::Whole)) {
            (Ok(ragged), Ok(whole)) if whole.numbers() < ragged.numbers() => Ok(whole),
            (Ok(ragged), _) => Ok(ragged),
            (Err(_), Ok(whole)) => Ok(whole),
            (Err(_), Err(why)) => Err(Unknown {
                why,
                launch: Some((read.grid, read.block)),
            }),
        }
    }
}

/// The largest that an output needs: one limit is for all of them.
pub fn limit(call: &Call, observed: &[Observed]) -> Limit {
    let Some((limit, elem, largest)) = call
        .tensors()
        .filter(|tensor| tensor.role.is_result())
        .map(|tensor| {
            let largest = references::largest(observed, &tensor.name);
            let largest = largest.filter(|largest| largest.is_finite() && *largest > 0.0);
            let elem = tensor.pointee.elem;
            (tolerance(elem, largest.unwrap_or(1.0)), elem, largest)
        })
        .max_by(|one, other| one.0.total_cmp(&other.0))
    else {
        return Limit::default();
    };
    let because = match (elem.is_float(), largest) {
        (false, _) => format!("{} has no rounding", elem.name()),
        (true, Some(largest)) => {
            format!("rounding of {}, values up to {largest:.3}", elem.name())
        }
        (true, None) => format!("rounding of {}, values up to 1", elem.name()),
    };
    Limit {
        value: rounded_up(limit),
        because,
    }
}

/// A call with its sizes.
struct Trial<'a> {
    program: &'a ptxsim::Kernel,
    module: &'a Module,
    kernel: &'a ListedKernel,
    parts: &'a [Part<'a>],
    read: &'a ReadCall,
    dims: Vec<Dim>,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    /// The values of integers, by the name of the part.
    values: BTreeMap<&'a str, i64>,
}

/// A tensor of a launch.
#[derive(Clone, Copy)]
struct Given {
    elements: u64,
    /// Whether it has values before the launch.
    is_filled: bool,
}

/// A launch that came to its end.
struct Launched {
    report: Report,
    memory: Memory,
    bases: Vec<Option<u64>>,
}

impl<'a> Trial<'a> {
    fn new(
        program: &'a ptxsim::Kernel,
        module: &'a Module,
        kernel: &'a ListedKernel,
        parts: &'a [Part<'a>],
        read: &'a ReadCall,
        dims: Vec<Dim>,
    ) -> Result<Self, String> {
        let named = |dim: &Dim| (Name::plain(&dim.name), ExprValue::Int(dim.value as i64));
        let env: Env = dims.iter().map(named).collect();
        let value = |text: &String| {
            let parsed = Expression::parse(text).map_err(|error| format!("`{text}`: {error}"))?;
            let value = parsed.integer(&env);
            value.map_err(|error| format!("`{text}` has no value: {error}"))
        };
        let count = |text: &String| {
            let count = value(text)?;
            u32::try_from(count).map_err(|_| format!("`{text}` is {count}"))
        };
        let extents = |texts: &[String]| -> Result<[u32; 3], String> {
            let mut all = [1; 3];
            for (extent, text) in all.iter_mut().zip(texts) {
                *extent = count(text)?;
            }
            Ok(all)
        };
        let values = read.values.iter();
        let values = values.map(|(name, text)| Ok((name.as_str(), value(text)?)));
        Ok(Self {
            grid: extents(&read.grid)?,
            block: extents(&read.block)?,
            shared: count(&read.shared)?,
            values: values.collect::<Result<_, String>>()?,
            program,
            module,
            kernel,
            parts,
            read,
            dims,
        })
    }

    fn observe(&self) -> Result<Call, String> {
        let (extents, changed) = self.extents()?;
        let (given, exact) = self.launch_exactly(&extents, &changed)?;
        let mut call = self.call(&extents, &given, &exact)?;
        let case = references::case_of(&call);
        let drawn: Vec<_> = (1..=SEEDS)
            .map_while(|seed| check::inputs::generate(&case, seed).ok())
            .collect();
        let mut observed = Vec::new();
        let roles = roles(&call);
        let given: Vec<Option<Given>> = self
            .parts
            .iter()
            .zip(given)
            .map(|(part, given)| {
                let is_filled = roles.get(part.name.as_str())?.is_drawn();
                Some(Given {
                    is_filled,
                    ..given?
                })
            })
            .collect();
        for inputs in &drawn {
            let launched = self.launch(&given, &|at, pointee, bytes| {
                let part = self.parts.get(at);
                let drawn = part.and_then(|part| inputs.tensors.get(&part.name));
                let drawn = drawn.map_or_else(
                    || pattern(at, pointee, bytes),
                    |tensor| tensor.bytes.clone(),
                );
                drawn.into_iter().take(bytes as usize).collect()
            });
            let launched = launched.map_err(|fault| format!("with other inputs {fault}"))?;
            reject(&launched.report)?;
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

    /// Returns what a part leads to; `None` of what is no pointer, or a null pointer.
    fn pointee(&self, at: usize) -> Option<&'a Pointee> {
        let part = self.parts.get(at)?;
        match part.kind {
            PartKind::Pointer(pointee) => match self.read.pointees.get(&part.name) {
                Some(other) => other.as_ref(),
                None => Some(pointee),
            },
            PartKind::Size(_) | PartKind::Value(_) => None,
        }
    }

    /// Returns how far the kernel reaches into each tensor, as products of the sizes, and whether it changes it.
    fn extents(&self) -> Result<(Vec<Option<Product>>, Vec<bool>), String> {
        let whole = self
            .dims
            .iter()
            .fold(1 << 10, |all: u64, dim| all.saturating_mul(dim.value));
        let given: Vec<Option<Given>> = (0..self.parts.len())
            .map(|at| {
                let each = bytes_each(self.pointee(at)?);
                let bytes = whole.saturating_mul(each).clamp(*ROOM.start(), *ROOM.end());
                Some(Given {
                    elements: bytes / each,
                    is_filled: true,
                })
            })
            .collect();
        let launched = self.launch(&given, &|at, pointee, bytes| pattern(at, pointee, bytes))?;
        reject(&launched.report)?;
        let fixed = self
            .read
            .grid
            .iter()
            .chain(&self.read.block)
            .chain(self.read.values.values());
        let mut numbers: Vec<u64> = fixed.filter_map(|text| text.parse().ok()).collect();
        numbers.push(self.block.map(u64::from).into_iter().product());
        let reached =
            self.parts
                .iter()
                .enumerate()
                .zip(&launched.bases)
                .map(|((at, part), base)| {
                    let Some((pointee, base)) = self.pointee(at).zip(*base) else {
                        return Ok(None);
                    };
                    let bytes = launched
                        .report
                        .reached
                        .get(&base)
                        .copied()
                        .unwrap_or_default();
                    let elements = bytes.div_ceil(bytes_each(pointee)).max(1);
                    let product = sizes::product_of(elements, &self.dims, &numbers);
                    let names: Vec<&str> = self.dims.iter().map(|dim| dim.name.as_str()).collect();
                    let why = || {
                        format!(
                            "it reaches {elements} elements of `{}`, which {} do not say",
                            part.name,
                            names.join(", ")
                        )
                    };
                    product.map(Some).ok_or_else(why)
                });
        let changed = self
            .written(&given, &launched)
            .into_iter()
            .map(|bytes| bytes > 0);
        Ok((reached.collect::<Result<_, String>>()?, changed.collect()))
    }

    /// Launches over tensors of these extents, in which nothing has a value that the kernel does not read.
    fn launch_exactly(
        &self,
        extents: &[Option<Product>],
        changed: &[bool],
    ) -> Result<(Vec<Option<Given>>, Launched), String> {
        let given = extents.iter().enumerate().map(|(at, extent)| {
            let elements = extent.as_ref()?.value;
            let is_filled = self.pointee(at)?.is_const || changed.get(at) == Some(&false);
            Some(Given {
                elements,
                is_filled,
            })
        });
        let mut given: Vec<Option<Given>> = given.collect();
        loop {
            let launched =
                self.launch(&given, &|at, pointee, bytes| pattern(at, pointee, bytes))?;
            let is_unwritten = |finding: &&Finding| finding.kind == FindingKind::Uninitialised;
            let unwritten: Vec<&Finding> = launched
                .report
                .findings
                .iter()
                .filter(is_unwritten)
                .collect();
            let mut is_new = false;
            for address in unwritten.iter().filter_map(|finding| finding.address) {
                is_new |= fill(&mut given, &launched.bases, |base, _| {
                    (base..base + APART).contains(&address)
                });
            }
            // A result made of nothing has no value either, and does not show as written.
            if !is_new
                && (!unwritten.is_empty()
                    || self
                        .written(&given, &launched)
                        .iter()
                        .all(|bytes| *bytes == 0))
            {
                let written = self.written(&given, &launched);
                is_new = fill(&mut given, &launched.bases, |_, at| {
                    written.get(at) == Some(&0)
                });
            }
            if !is_new {
                reject(&launched.report)?;
                return Ok((given, launched));
            }
        }
    }

    /// Bytes of each part that hold another value than before.
    fn written(&self, given: &[Option<Given>], launched: &Launched) -> Vec<u64> {
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
                let before = pattern(at, pointee, bytes);
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
        given: &[Option<Given>],
        content: &dyn Fn(usize, &Pointee, u64) -> Vec<u8>,
    ) -> Result<Launched, String> {
        let mut memory = Memory::new(MOST_BYTES);
        self.module.place(&mut memory);
        let mut params = vec![0; self.program.parameter_bytes() as usize];
        let begins = self.program.parameters().into_iter();
        let begins: Vec<usize> = begins.map(|(begin, _)| begin as usize).collect();
        let mut bases = Vec::new();
        for (at, (part, given)) in self.parts.iter().zip(given).enumerate() {
            let mut base = None;
            let value = match (&part.kind, given) {
                (PartKind::Pointer(_), Some(given)) => {
                    let pointee = self.pointee(at).ok_or(OTHER_PARAMETERS)?;
                    let bytes = given.elements * bytes_each(pointee);
                    let address = memory
                        .alloc(&part.name, bytes)
                        .map_err(|error| error.to_string())?;
                    memory.skip(APART);
                    if given.is_filled {
                        let content = content(at, pointee, bytes);
                        memory
                            .write(address, &content)
                            .map_err(|error| error.to_string())?;
                    }
                    base = Some(address);
                    address.to_le_bytes().to_vec()
                }
                (PartKind::Pointer(_), None) => Vec::new(),
                (PartKind::Size(scalar), _) => {
                    let value = self.values.get(part.name.as_str()).copied().unwrap_or(1);
                    value
                        .to_le_bytes()
                        .into_iter()
                        .take(scalar.size())
                        .collect()
                }
                (PartKind::Value(scalar), _) => {
                    made_up(*scalar).1.into_iter().take(scalar.size()).collect()
                }
            };
            bases.push(base);
            let begin = begins.get(part.parameter).copied().unwrap_or_default() + part.offset;
            let place = params.get_mut(begin..begin + value.len());
            place.ok_or(OTHER_PARAMETERS)?.copy_from_slice(&value);
        }
        let limits = Limits {
            instructions: INSTRUCTIONS,
            threads: 1,
            ..Limits::default()
        };
        let ended = ptxsim::launch(
            self.program,
            self.grid,
            self.block,
            self.shared,
            &params,
            &mut memory,
            limits,
        );
        let report = ended.map_err(|fault| match fault.kind {
            FaultKind::OutOfBounds => format!(
                "it reaches outside of what its sizes say ({})",
                fault.place.at
            ),
            FaultKind::Budget => "it takes too long in the simulator".to_owned(),
            _ => fault.message.lines().next().unwrap_or_default().to_owned(),
        })?;
        Ok(Launched {
            report,
            memory,
            bases,
        })
    }

    fn call(
        &self,
        extents: &[Option<Product>],
        given: &[Option<Given>],
        exact: &Launched,
    ) -> Result<Call, String> {
        let written = self.written(given, exact);
        if written.iter().all(|bytes| *bytes == 0) {
            return Err("it writes nothing as it is called".to_owned());
        }
        let each = self
            .parts
            .iter()
            .enumerate()
            .map(|(at, part)| match part.kind {
                PartKind::Pointer(_) => {
                    let Some(pointee) = self.pointee(at) else {
                        return Ok(Argument::Null(part.name.clone()));
                    };
                    let size = extents.get(at).cloned().flatten().ok_or(OTHER_PARAMETERS)?;
                    let done = written.get(at).copied().unwrap_or_default();
                    let is_filled = given
                        .get(at)
                        .is_some_and(|given| given.is_some_and(|given| given.is_filled));
                    let role = match done {
                        0 => Role::In,
                        _ if pointee.is_const => Role::In,
                        done if !is_filled && done == size.value * bytes_each(pointee) => Role::Out,
                        // What is not written stays what it was.
                        _ => Role::Inout,
                    };
                    let (name, pointee) = (part.name.clone(), pointee.clone());
                    Ok(Argument::Tensor(Tensor {
                        name,
                        role,
                        pointee,
                        size,
                    }))
                }
                PartKind::Size(of) => {
                    let value = self
                        .read
                        .values
                        .get(&part.name)
                        .cloned()
                        .unwrap_or_default();
                    let name = part.name.clone();
                    Ok(Argument::Size { name, of, value })
                }
                PartKind::Value(of) => Ok(Argument::Value {
                    name: part.name.clone(),
                    of,
                }),
            });
        let arguments = nested(self.kernel, each.collect::<Result<_, String>>()?);
        Ok(Call {
            dims: self.dims.clone(),
            arguments,
            grid: self.read.grid.clone(),
            block: self.read.block.clone(),
            dynamic_shared: self.read.shared.clone(),
            captured: Captured::default(),
            max_err: Limit::default(),
            reference: None,
        })
    }
}

fn roles(call: &Call) -> BTreeMap<&str, Role> {
    call.tensors()
        .map(|tensor| (tensor.name.as_str(), tensor.role))
        .collect()
}

/// Gives values to the tensors for which this is true; returns true if one had none.
fn fill(
    given: &mut [Option<Given>],
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

/// Refuses a call in which something is wrong: the call may be at fault, or the kernel, and only the author knows. Of lanes
/// of one warp that nothing orders a run has a note alone.
fn reject(report: &Report) -> Result<(), String> {
    let wrong = report
        .findings
        .iter()
        .find(|finding| finding.kind != FindingKind::WarpHazard);
    wrong.map_or(Ok(()), |finding| {
        let what = match finding.kind {
            FindingKind::GlobalRace | FindingKind::SharedRace | FindingKind::WarpRace => {
                "its threads race"
            }
            FindingKind::Uninitialised => "it uses memory that nothing wrote",
            _ => finding.message.lines().next().unwrap_or_default(),
        };
        let place = finding.places.first().map_or("", |place| place.at.as_str());
        Err(format!("as the sources seem to call it, {what} ({place})"))
    })
}

fn bytes_each(pointee: &Pointee) -> u64 {
    (pointee.elem.size() * pointee.count) as u64
}

/// A number for what is no size: `(text, bytes)`. No factor of 1, which changes nothing.
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

/// Small numbers of the element's type. Those of two parts differ, so that a copy of one shows in the other.
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
