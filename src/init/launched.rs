//! Finds calls of kernels as a program made them, with real sizes, values and launches. A program's memory may be one
//! block for many tensors, so each launch is run again in the simulator, which tells how far the launch reaches behind
//! each pointer.

use super::Surveyed;
use super::call::{Argument, Call, CallError, ErrorLimit, Integers, Tensor, UnknownCall};
use super::launches::ReadCall;
use super::parts::{InputKind, KernelInput, parts_of};
use super::probe::{KernelOrigin, LaunchState, assemble, limit};
use super::sizes::{Dim, Product, product_of};
use super::write::{SCHEMA, as_identifier, listed};
use crate::captures::{extents_of, unqualified};
use build::inventory::{ListedKernel, Pointee, element};
use capture::{Allocation, CHUNK, Capture, Content, Contents, LaunchRecord};
use check::Values;
use model::{Role, ScalarType};
use std::collections::BTreeSet;
use std::path::Path;

/// The most shapes that one kernel gets. Calls with further sizes are counted in a comment.
const MOST_SHAPES: usize = 4;
/// The most bytes behind one pointer that are looked at.
const MOST_BEHIND: u64 = 64 << 20;

/// The launches of a program, with their memory.
pub struct ProgramLaunches {
    pub capture: Capture,
    pub contents: Contents,
}

/// Returns the calls with which a program launched a kernel, as one call. Values that differ between
/// them become dimensions.
///
/// # Errors
/// Says what is not known of the calls, or that there are none.
pub fn find_call(
    kernel: &ListedKernel,
    origin: &KernelOrigin,
    program: &ProgramLaunches,
) -> Result<Call, UnknownCall> {
    let mut calls = Vec::new();
    let mut unknown = UnknownCall {
        why: "the program does not launch it".to_owned(),
        launch: None,
    };
    let launches = program.capture.launches();
    for launch in launches.filter(|launch| launch.kernel == kernel.symbol) {
        let reader = LaunchReader {
            launch,
            contents: &program.contents,
            dims: Vec::new(),
            read: ReadCall::default(),
        };
        match reader.call(kernel, origin) {
            Ok(call) => calls.push(call),
            Err(why) => {
                let [grid, block] = [launch.grid, launch.block]
                    .map(|extents| trimmed(extents.iter().map(u32::to_string).collect()));
                let launch = Some((grid, block));
                unknown = UnknownCall {
                    why: why.to_string(),
                    launch,
                };
            }
        }
    }
    let mut calls = calls.into_iter();
    let first = calls.next().ok_or(unknown)?;
    Ok(combine(first, calls))
}

/// Makes one call of several. Calls that differ only in dimensions become its shapes, and the others are
/// counted.
fn combine(first: Call, others: impl Iterator<Item = Call>) -> Call {
    let outline = |call: &Call| {
        let mut call = call.clone();
        call.max_err = ErrorLimit::default();
        for dim in &mut call.dims {
            dim.value = 0;
        }
        call.captured.unobserved = None;
        call.captured.has_findings = false;
        for tensor in call.tensors_mut() {
            (tensor.role, tensor.size.value) = (Role::In, 0);
            tensor.integers = Integers::default();
        }
        call
    };
    let mut call = first.clone();
    for other in others {
        let is_known = call.dims == other.dims || call.captured.shapes.contains(&other.dims);
        let is_full = !is_known && call.captured.shapes.len() + 1 >= MOST_SHAPES;
        if is_full || outline(&other) != outline(&first) {
            call.captured.others += 1;
            continue;
        }
        // A tensor that one launch leaves as it is may be written by another.
        for (tensor, other) in call.tensors_mut().zip(other.tensors()) {
            if other.role != tensor.role {
                tensor.role = Role::Inout;
            }
            tensor.integers.meet(&other.integers);
        }
        let unobserved = &mut call.captured.unobserved;
        *unobserved = unobserved.take().or(other.captured.unobserved);
        call.captured.has_findings |= other.captured.has_findings;
        if !is_known {
            call.captured.shapes.push(other.dims);
        }
    }
    close(&mut call);
    call
}

/// Removes dimensions that are not needed: numbers of a launch that are the same in all shapes, and sizes of tensors
/// that are products of others.
fn close(call: &mut Call) {
    let shapes = call.captured.shapes.iter().chain([&call.dims]).cloned();
    let shapes: Vec<Vec<Dim>> = shapes.collect();
    let value = |shape: &[Dim], name: &str| {
        let dim = shape.iter().find(|dim| dim.name == name);
        dim.map(|dim| dim.value)
    };
    let scalars: Vec<String> = call
        .arguments
        .iter()
        .filter_map(|argument| match argument {
            Argument::Number { value, .. } => value.clone(),
            _ => None,
        })
        .collect();
    let sizes: Vec<Dim> = call
        .dims
        .iter()
        .filter(|dim| dim.value > 1 && scalars.contains(&dim.name))
        .cloned()
        .collect();
    for tensor in call.tensors_mut() {
        let own = tensor.size.factors.concat();
        let named = product_of(tensor.size.value, &sizes, &[]);
        let is_same = |named: &Product| {
            let mut shapes = shapes.iter();
            shapes.all(|shape| named.with(shape) == value(shape, &own))
        };
        if let Some(named) = named.filter(is_same) {
            tensor.size = named;
        }
    }
    for dim in call.dims.clone() {
        let mut values = shapes.iter().map(|shape| value(shape, &dim.name));
        let is_fixed = values.all(|value| value == Some(dim.value));
        let is_kept = sizes.contains(&dim) || !is_fixed;
        let launch = call.grid.iter_mut().chain(&mut call.block);
        let texts = call
            .arguments
            .iter_mut()
            .flat_map(|argument| match argument {
                Argument::Number { value, .. } => value.as_mut_slice(),
                Argument::Tensor(tensor) => tensor.size.factors.as_mut_slice(),
                Argument::Null(_) => &mut [],
            });
        let texts = launch.chain([&mut call.dynamic_shared]).chain(texts);
        let mut is_used = false;
        for text in texts.filter(|text| **text == dim.name) {
            is_used = true;
            if !is_kept {
                *text = dim.value.to_string();
            }
        }
        if !is_kept || !is_used {
            call.dims.retain(|own| own.name != dim.name);
            for shape in &mut call.captured.shapes {
                shape.retain(|own| own.name != dim.name);
            }
        }
    }
    call.grid = trimmed(std::mem::take(&mut call.grid));
    call.block = trimmed(std::mem::take(&mut call.block));
}

/// Adds a dimension, and returns its name, which no other dimension has.
fn add_dim(dims: &mut Vec<Dim>, name: &str, value: u64) -> String {
    let mut name = name.to_owned();
    while dims.iter().any(|dim| dim.name == name) || !model::expr::is_identifier(&name) {
        name.push('_');
    }
    dims.push(Dim {
        name: name.clone(),
        value,
    });
    name
}

/// Returns the names of the kernels that the program launched and no source has. Each occurs once.
pub fn find_others<'a>(kernels: &[Surveyed], captured: &'a Capture) -> Vec<&'a str> {
    let launched = captured.launches().map(|launch| launch.kernel.as_str());
    let mut others: BTreeSet<&str> = launched.collect();
    for kernel in kernels {
        others.remove(kernel.kernel.symbol.as_str());
    }
    others.into_iter().collect()
}

/// The most kernels that are named. With more than these, the program is captured whole.
const MOST_KERNELS: usize = 12;

/// Writes a gates file that judges the program itself, for kernels that no source here has because they come from
/// Triton, JAX or a library.
pub fn write_program(command: &[String], symbols: &[&str]) -> String {
    let script = command.iter().find(|word| word.ends_with(".py"));
    let name = script.or(command.first()).map_or("", String::as_str);
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str());
    let name = match as_identifier(stem.unwrap_or_default()) {
        empty if empty.is_empty() => "program".to_owned(),
        name => name,
    };
    let names: BTreeSet<String> = symbols
        .iter()
        .map(|symbol| unqualified(symbol))
        .filter(|name| !name.is_empty())
        .map(|name| format!("*{name}*"))
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    let kernels = match names.len() {
        1..=MOST_KERNELS => format!("    kernels: [{}]\n", listed(&names)),
        count => {
            format!("    # It launches {count} kernels: name those that matter in `kernels`.\n")
        }
    };
    format!(
        "{SCHEMA}\n# Written by `gatekeeper init --program`: no source here has the kernels that the program launches, so the program is\n\
         # run at head and at the base, and its launches are compared: gatekeeper run --base main (docs/capture.md)\n\
         version: 1\nprograms:\n  {name}:\n    command: [{}]\n{kernels}    gates: {{output: same, registers: \"+0\", spills: 0}}\n",
        listed(command)
    )
}

/// Removes the extents that a launch need not state.
fn trimmed(mut extents: Vec<String>) -> Vec<String> {
    while extents.len() > 1 && extents.last().is_some_and(|extent| extent == "1") {
        extents.pop();
    }
    extents
}

/// Reads the values of one launch.
struct LaunchReader<'a> {
    launch: &'a LaunchRecord,
    contents: &'a Contents,
    dims: Vec<Dim>,
    read: ReadCall,
}

impl<'a> LaunchReader<'a> {
    fn call(mut self, kernel: &ListedKernel, origin: &KernelOrigin) -> Result<Call, CallError> {
        let launch = self.launch;
        let decoded = launch.parameters.iter().map(|captured| captured.decode());
        let decoded: Vec<_> = decoded
            .collect::<Option<_>>()
            .ok_or(CallError::LaunchedParameters)?;
        if decoded.len() != kernel.parameters.len() {
            return Err(CallError::LaunchedParameters);
        }
        let parts = parts_of(kernel, "")?;
        let mut tensors = Vec::new();
        let mut memory = Vec::new();
        for part in &parts {
            let own = part.offset..part.offset + part.kind.bytes();
            let bytes = decoded.get(part.parameter);
            let bytes = bytes
                .and_then(|bytes| bytes.get(own))
                .ok_or(CallError::LaunchedParameters)?;
            let (mut tensor, mut behind) = (None, None);
            match part.kind {
                InputKind::Pointer(_) if bytes.iter().all(|byte| *byte == 0) => {
                    self.read.pointees.insert(part.name.clone(), None);
                }
                InputKind::Pointer(pointee) => {
                    let address = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
                    let allocation = self.allocation(part, address)?;
                    tensor = Some(self.tensor(part, pointee, address, allocation)?);
                    behind = Some((allocation, address));
                }
                InputKind::Size(of) | InputKind::Value(of) => self.scalar(&part.name, of, bytes)?,
            }
            tensors.push(tensor);
            memory.push(behind);
        }
        let mut extents = |what: &str, extents: [u32; 3]| -> Vec<String> {
            let axes = ["x", "y", "z"].into_iter().zip(extents);
            axes.map(|(axis, count)| {
                add_dim(&mut self.dims, &format!("{what}_{axis}"), count.into())
            })
            .collect()
        };
        self.read.grid = extents("grid", launch.grid);
        self.read.block = extents("block", launch.block);
        self.read.shared = add_dim(&mut self.dims, "shared_bytes", launch.dynamic_shared.into());
        self.read.cooperative = launch.cooperative;
        let observed = self
            .state(decoded, &memory)
            .and_then(|state| origin.observe_launch(kernel, &self.read, &state));
        let is_result = |tensor: &Tensor| tensor.role.is_result();
        let mut has_findings = false;
        let unobserved = match observed {
            Ok(observed) if observed.tensors.iter().flatten().any(is_result) => {
                tensors = observed.tensors;
                has_findings = observed.has_findings;
                None
            }
            Ok(_) => Some("it wrote nothing in the simulator".to_owned()),
            Err(why) => Some(why.to_string()),
        };
        for tensor in tensors.iter_mut().flatten() {
            let name = format!("{}_size", tensor.name);
            tensor.size.factors = vec![add_dim(&mut self.dims, &name, tensor.size.value)];
        }
        let mut call = assemble(&parts, &self.read, self.dims, tensors);
        call.captured.cluster = launch.cluster;
        call.captured.unobserved = unobserved;
        call.captured.has_findings = has_findings;
        if !call.tensors().any(is_result) {
            return Err(CallError::WroteNothing);
        }
        call.max_err = limit(&call, &[]);
        Ok(call)
    }

    /// Returns the launch's parameters, and the memory that its pointers lead to.
    fn state(
        &self,
        parameters: Vec<Vec<u8>>,
        memory: &[Option<(&Allocation, u64)>],
    ) -> Result<LaunchState, CallError> {
        let behind = |(allocation, address): (&Allocation, u64)| {
            let from = address - allocation.address;
            let to = allocation.before.bytes.min(from + MOST_BEHIND);
            let chunk = CHUNK as u64;
            let first = from / chunk * chunk;
            let chunks = (from / chunk) as usize..to.div_ceil(chunk) as usize;
            let part = Content {
                bytes: allocation.before.bytes.min(chunks.end as u64 * chunk) - first,
                chunks: allocation.before.chunks.get(chunks)?.to_vec(),
            };
            let mut bytes = self.contents.get(&part).ok()?;
            bytes.truncate((to - first) as usize);
            Some(bytes.split_off((from - first) as usize))
        };
        let memory = memory.iter().map(|pointer| match pointer {
            Some(pointer) => behind(*pointer).map(Some).ok_or(CallError::Lost),
            None => Ok(None),
        });
        let variables = self.launch.variables.iter().map(|variable| {
            let bytes = self.contents.get(&variable.before);
            Ok((variable.name.clone(), bytes.map_err(|_| CallError::Lost)?))
        });
        Ok(LaunchState {
            launch: extents_of(self.launch),
            parameters,
            memory: memory.collect::<Result<_, CallError>>()?,
            variables: variables.collect::<Result<_, CallError>>()?,
        })
    }

    fn allocation(&self, part: &KernelInput, address: u64) -> Result<&'a Allocation, CallError> {
        let mut allocations = self.launch.allocations.iter();
        let found = allocations.find(|allocation| {
            let end = allocation.address.saturating_add(allocation.before.bytes);
            (allocation.address..end).contains(&address)
        });
        found.ok_or_else(|| CallError::NoMemory(part.name.clone()))
    }

    /// Returns a tensor that ends with the allocation, or where the next pointer leads.
    fn tensor(
        &self,
        part: &KernelInput,
        pointee: &Pointee,
        address: u64,
        allocation: &Allocation,
    ) -> Result<Tensor, CallError> {
        let end = self
            .launch
            .parameters
            .iter()
            .flat_map(|other| other.addresses())
            .filter(|other| *other > address)
            .chain([allocation.address.saturating_add(allocation.before.bytes)])
            .min()
            .unwrap_or(address);
        let each = (pointee.elem.size() * pointee.count) as u64;
        let value = (end - address) / each.max(1);
        if value == 0 {
            return Err(CallError::NoElement(part.name.clone()));
        }
        // If the same values were there before, nothing has changed, and only the type tells what the launch may
        // write.
        let mut allocations = self.launch.allocations.iter();
        let has_changes = allocations.any(|allocation| allocation.after.is_some());
        let role = if pointee.is_const || (has_changes && allocation.after.is_none()) {
            Role::In
        } else {
            Role::Inout
        };
        Ok(Tensor {
            name: part.name.clone(),
            role,
            pointee: pointee.clone(),
            size: Product {
                factors: vec![value.to_string()],
                value,
            },
            integers: Integers::default(),
        })
    }

    fn scalar(&mut self, name: &str, of: ScalarType, bytes: &[u8]) -> Result<(), CallError> {
        let elem = element(of).ok_or(CallError::LaunchedParameters)?;
        let tensor = model::Tensor::new(name, Role::In, elem, vec![1]);
        let number =
            match check::decode(&tensor, bytes).map_err(|_| CallError::LaunchedParameters)? {
                Values::I64(numbers) => numbers.first().map(|number| {
                    if of == ScalarType::U64 || *number >= 0 {
                        add_dim(&mut self.dims, name, number.cast_unsigned())
                    } else {
                        number.to_string()
                    }
                }),
                Values::F32(numbers) => numbers.first().map(f32::to_string),
                Values::F64(numbers) => numbers.first().map(f64::to_string),
            };
        let value = number.ok_or(CallError::LaunchedParameters)?;
        if matches!(value.as_str(), "NaN" | "inf" | "-inf") {
            return Err(CallError::NotFinite(name.to_owned()));
        }
        self.read.values.insert(name.to_owned(), value);
        Ok(())
    }
}
