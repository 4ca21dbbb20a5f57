//! Calls of kernels as a program made them: real sizes, values and launches. Pure.

use super::Surveyed;
use super::call::{Argument, Call, Captured, Limit, Tensor, Unknown};
use super::parts::{PartKind, nested, parts_of};
use super::probe::limit;
use super::sizes::{Dim, Product, product_of};
use super::write::{SCHEMA, as_identifier, quoted};
use build::inventory::{ListedKernel, Pointee};
use build::signature::qualified;
use capture::{Capture, LaunchRecord};
use model::{Number, Role, ScalarType};
use std::path::Path;

/// Shapes that one kernel is given. Calls with more sizes are counted in a comment.
const MOST_SHAPES: usize = 4;

/// Returns the calls with which a program launched a kernel: what differs between them is a dimension.
///
/// # Errors
/// What is not known of them, or that there are none.
pub fn find_call(kernel: &ListedKernel, launches: &Capture) -> Result<Call, Unknown> {
    let mut calls: Vec<Call> = Vec::new();
    let mut unknown = Unknown {
        why: "the program does not launch it".to_owned(),
        launch: None,
    };
    for launch in launches
        .launches()
        .filter(|launch| launch.kernel == kernel.symbol)
    {
        match call_of(launch, kernel) {
            Ok(call) if calls.contains(&call) => {}
            Ok(call) => calls.push(call),
            Err(why) => {
                let [grid, block] = [launch.grid, launch.block].map(|extents| {
                    let texts = extents.iter().map(u32::to_string);
                    trimmed(texts.collect())
                });
                unknown = Unknown {
                    why,
                    launch: Some((grid, block)),
                };
            }
        }
    }
    let mut calls = calls.into_iter();
    calls
        .next()
        .ok_or(unknown)
        .map(|first| combine(first, calls))
}

/// Makes one call of several: those that differ in dimensions alone are its shapes, and the others are counted.
fn combine(first: Call, others: impl Iterator<Item = Call>) -> Call {
    let outline = |call: &Call| {
        let mut call = call.clone();
        call.max_err = Limit::default();
        for dim in &mut call.dims {
            dim.value = 0;
        }
        for tensor in call.tensors_mut() {
            (tensor.role, tensor.size.value) = (Role::In, 0);
        }
        call
    };
    let mut call = first.clone();
    for other in others {
        if call.captured.shapes.len() + 1 >= MOST_SHAPES || outline(&other) != outline(&first) {
            call.captured.others += 1;
            continue;
        }
        // What one launch leaves as it is another may write.
        for (tensor, other) in call.tensors_mut().zip(other.tensors()) {
            if other.role == Role::Inout {
                tensor.role = Role::Inout;
            }
        }
        call.captured.shapes.push(other.dims);
    }
    close(&mut call);
    call
}

/// Takes out the dimensions that are needless: numbers of a launch that are the same in all shapes, and sizes of tensors
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
        .flat_map(Argument::parts)
        .filter_map(|part| match part {
            Argument::Size { value, .. } => Some(value.clone()),
            _ => None,
        })
        .collect();
    let sizes: Vec<Dim> = call
        .dims
        .iter()
        .filter(|dim| dim.value > 1 && scalars.contains(&dim.name))
        .cloned()
        .collect();
    let mut sized = Vec::new();
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
        sized.push(own);
    }
    for dim in call.dims.clone() {
        let is_fixed = shapes
            .iter()
            .all(|shape| value(shape, &dim.name) == Some(dim.value));
        let names = |tensor: &Tensor| tensor.size.factors.contains(&dim.name);
        // The size of a tensor that has another name now.
        let is_replaced = sized.contains(&dim.name) && !call.tensors().any(names);
        if (sizes.contains(&dim) || !is_fixed) && !is_replaced {
            continue;
        }
        let number = dim.value.to_string();
        let launch = call.grid.iter_mut().chain(&mut call.block);
        let parts = call.arguments.iter_mut().flat_map(Argument::parts_mut);
        let texts = parts.flat_map(|part| match part {
            Argument::Size { value, .. } => std::slice::from_mut(value),
            Argument::Tensor(tensor) => tensor.size.factors.as_mut_slice(),
            _ => &mut [],
        });
        let texts = launch.chain([&mut call.dynamic_shared]).chain(texts);
        for text in texts.filter(|text| **text == dim.name) {
            text.clone_from(&number);
        }
        call.dims.retain(|own| own.name != dim.name);
        for shape in &mut call.captured.shapes {
            shape.retain(|own| own.name != dim.name);
        }
    }
    call.grid = trimmed(std::mem::take(&mut call.grid));
    call.block = trimmed(std::mem::take(&mut call.block));
}

/// Adds a dimension, and returns its name, which none has yet.
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

/// Names of the kernels that the program launched and no source has, each once.
pub fn find_others<'a>(kernels: &[Surveyed], captured: &'a Capture) -> Vec<&'a str> {
    let is_listed = |symbol: &str| {
        let mut listed = kernels.iter();
        listed.any(|kernel| kernel.kernel.symbol == symbol)
    };
    let mut others: Vec<&str> = captured
        .launches()
        .map(|launch| launch.kernel.as_str())
        .filter(|symbol| !is_listed(symbol))
        .collect();
    others.sort_unstable();
    others.dedup();
    others
}

/// More kernels are not named: the program is captured whole.
const MOST_KERNELS: usize = 12;

/// Writes a file in which the program itself is gated, for kernels that no source here has: of Triton, JAX or a library.
pub fn write_program(command: &[String], symbols: &[&str]) -> String {
    let script = command.iter().find(|word| word.ends_with(".py"));
    let name = script.or(command.first()).map_or("", String::as_str);
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str());
    let name = match as_identifier(stem.unwrap_or_default()) {
        empty if empty.is_empty() => "program".to_owned(),
        name => name,
    };
    let listed = |words: &[String]| {
        let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        quoted.join(", ")
    };
    let mut names: Vec<String> = symbols
        .iter()
        .map(|symbol| unqualified(symbol))
        .filter(|name| !name.is_empty())
        .map(|name| format!("*{name}*"))
        .collect();
    names.sort_unstable();
    names.dedup();
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

/// The name of a kernel without namespaces, template arguments and parameters.
fn unqualified(symbol: &str) -> String {
    let name = qualified(symbol).replace("(anonymous namespace)::", "");
    let name = name.split(['<', '(']).next().unwrap_or_default();
    name.rsplit("::").next().unwrap_or(name).to_owned()
}

const OTHER_PARAMETERS: &str = "the program launched it with other parameters than its source has";

fn call_of(launch: &LaunchRecord, kernel: &ListedKernel) -> Result<Call, String> {
    if launch.parameters.len() != kernel.parameters.len() {
        return Err(OTHER_PARAMETERS.to_owned());
    }
    let mut reader = Reader {
        launch,
        dims: Vec::new(),
    };
    let decoded = launch.parameters.iter().map(|captured| captured.decode());
    let decoded: Vec<_> = decoded.collect::<Option<_>>().ok_or(OTHER_PARAMETERS)?;
    let mut arguments = Vec::new();
    for part in parts_of(kernel, "")? {
        let own = part.offset..part.offset + part.bytes();
        let bytes = decoded.get(part.parameter);
        let bytes = bytes
            .and_then(|bytes| bytes.get(own))
            .ok_or(OTHER_PARAMETERS)?;
        arguments.push(match part.kind {
            PartKind::Pointer(pointee) => reader.tensor(&part.name, pointee, bytes)?,
            PartKind::Size(of) | PartKind::Value(of) => reader.scalar(&part.name, of, bytes)?,
        });
    }
    let mut dims = reader.dims;
    for argument in &mut arguments {
        if let Argument::Tensor(tensor) = argument {
            let name = format!("{}_size", tensor.name);
            tensor.size.factors = vec![add_dim(&mut dims, &name, tensor.size.value)];
        }
    }
    let mut extents = |what: &str, extents: [u32; 3]| -> Vec<String> {
        let axes = ["x", "y", "z"].into_iter().zip(extents);
        axes.map(|(axis, count)| add_dim(&mut dims, &format!("{what}_{axis}"), count.into()))
            .collect()
    };
    let (grid, block) = (extents("grid", launch.grid), extents("block", launch.block));
    let dynamic_shared = add_dim(&mut dims, "shared_bytes", launch.dynamic_shared.into());
    let mut call = Call {
        dims,
        arguments: nested(kernel, arguments),
        grid,
        block,
        dynamic_shared,
        captured: Captured {
            cluster: launch.cluster,
            cooperative: launch.cooperative,
            ..Captured::default()
        },
        max_err: Limit::default(),
        reference: None,
    };
    if !call.tensors().any(|tensor| tensor.role.is_result()) {
        return Err("it wrote to no memory that a parameter leads to".to_owned());
    }
    call.max_err = limit(&call, &[]);
    Ok(call)
}

/// Removes what a launch need not say.
fn trimmed(mut extents: Vec<String>) -> Vec<String> {
    while extents.len() > 1 && extents.last().is_some_and(|extent| extent == "1") {
        extents.pop();
    }
    extents
}

/// Reads the values of one launch.
struct Reader<'a> {
    launch: &'a LaunchRecord,
    dims: Vec<Dim>,
}

impl Reader<'_> {
    fn tensor(&self, name: &str, pointee: &Pointee, bytes: &[u8]) -> Result<Argument, String> {
        let address = u64::from_le_bytes(bytes.try_into().map_err(|_| OTHER_PARAMETERS)?);
        if address == 0 {
            return Ok(Argument::Null(name.to_owned()));
        }
        let ends = |start: u64, bytes: u64| start.saturating_add(bytes);
        let allocation = self
            .launch
            .allocations
            .iter()
            .find(|allocation| {
                let end = ends(allocation.address, allocation.before.bytes);
                (allocation.address..end).contains(&address)
            })
            .ok_or_else(|| format!("`{name}` leads to no captured memory"))?;
        // Tensors of a pool lie in one allocation: one ends where the next pointer leads.
        let end = self
            .launch
            .parameters
            .iter()
            .flat_map(|other| other.addresses())
            .filter(|other| *other > address)
            .chain([ends(allocation.address, allocation.before.bytes)])
            .min()
            .unwrap_or(address);
        let each = (pointee.elem.size() * pointee.count) as u64;
        let value = (end - address) / each.max(1);
        if value == 0 {
            return Err(format!("`{name}` leads to less than one element"));
        }
        // Where the same values were there before, nothing has changed, and the type alone says what it may write. Whether
        // it reads what it overwrites, a capture does not say.
        let has_changes = self
            .launch
            .allocations
            .iter()
            .any(|allocation| allocation.after.is_some());
        let role = if pointee.is_const || (has_changes && allocation.after.is_none()) {
            Role::In
        } else {
            Role::Inout
        };
        Ok(Argument::Tensor(Tensor {
            name: name.to_owned(),
            role,
            pointee: pointee.clone(),
            size: Product {
                factors: vec![value.to_string()],
                value,
            },
        }))
    }

    fn scalar(&mut self, name: &str, of: ScalarType, bytes: &[u8]) -> Result<Argument, String> {
        let number = number_of(of, bytes).ok_or(OTHER_PARAMETERS)?;
        let value = match number {
            Value::Whole(value) => match u64::try_from(value) {
                Ok(size) => add_dim(&mut self.dims, name, size),
                Err(_) => value.to_string(),
            },
            Value::Float(value) if value.is_finite() => value.to_string(),
            Value::Float(_) => return Err(format!("`{name}` is not finite in the program")),
        };
        let name = name.to_owned();
        Ok(Argument::Size { name, of, value })
    }
}

enum Value {
    Whole(i128),
    Float(f64),
}

fn number_of(of: ScalarType, bytes: &[u8]) -> Option<Value> {
    let bytes = bytes.get(..of.size())?;
    let mut wide = [0; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len() as u32;
    Some(match (of.number(), of) {
        (Number::Signed(_), _) => Value::Whole((((bits << unused) as i64) >> unused).into()),
        (Number::Bool | Number::Unsigned(_), _) => Value::Whole(bits.into()),
        (Number::Float(_), ScalarType::F64) => Value::Float(f64::from_bits(bits)),
        (Number::Float(_), ScalarType::F32) => Value::Float(f32::from_bits(bits as u32).into()),
        (Number::Float(_), ScalarType::Bf16) => {
            Value::Float(half::bf16::from_bits(bits as u16).into())
        }
        (Number::Float(_), _) => Value::Float(half::f16::from_bits(bits as u16).into()),
    })
}
