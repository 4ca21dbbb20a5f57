//! Calls of kernels as a program made them: real sizes, values and launches. Pure.

use super::Surveyed;
use super::call::{Argument, Call, Captured, Limit, Matches, Tensor, Unknown};
use super::sizes::{Dim, Product, product_of};
use super::tolerances::{rounded_up, tolerance};
use super::write::{SCHEMA, as_identifier, quoted};
use build::inventory::{ListedKernel, Member, ParameterKind, Pointee};
use build::signature::qualified;
use capture::{Capture, LaunchRecord};
use model::{Number, Role, ScalarType};
use std::path::Path;

/// Shapes that one kernel is given. Calls with more sizes are counted in a comment.
const MOST_SHAPES: usize = 4;

/// Gives each kernel the calls with which the program launched it: what differs between them is a dimension.
pub fn take_calls(kernels: &mut [Surveyed], launches: &Capture) {
    for kernel in kernels {
        let of_kernel = launches
            .launches()
            .filter(|launch| launch.kernel == kernel.kernel.symbol);
        let mut calls: Vec<Call> = Vec::new();
        let mut unknown = Unknown {
            why: "the program does not launch it".to_owned(),
            launch: None,
        };
        for launch in of_kernel {
            match call_of(launch, &kernel.kernel) {
                Ok(call) if calls.contains(&call) => {}
                Ok(call) => calls.push(call),
                Err(why) => {
                    let [grid, block] = [launch.grid, launch.block].map(numbers);
                    let launch = Some((trimmed(grid), trimmed(block)));
                    unknown = Unknown { why, launch };
                }
            }
        }
        let mut calls = calls.into_iter();
        kernel.call = calls.next().ok_or(unknown).map(|first| {
            let mut call = calls.fold(first, |first, other| add_shape(&first, other));
            call.grid = trimmed(call.grid);
            call.block = trimmed(call.block);
            call
        });
    }
}

/// Returns a call with the sizes of another as one more shape, or with that one counted where it differs in more.
fn add_shape(first: &Call, other: Call) -> Call {
    let is_full = first.captured.shapes.len() + 1 >= MOST_SHAPES;
    let merged = if is_full { None } else { merge(first, other) };
    merged.unwrap_or_else(|| {
        let mut call = first.clone();
        call.captured.others += 1;
        call
    })
}

/// Returns `None` where the calls differ in what no dimension can say.
fn merge(first: &Call, mut other: Call) -> Option<Call> {
    let mut call = first.clone();
    let launch = |call: &Call| (call.captured.cluster, call.captured.cooperative);
    if launch(first) != launch(&other) {
        return None;
    }
    let value = |text: &str, dims: &[Dim]| {
        let named = dims.iter().find(|dim| dim.name == *text);
        named.map_or_else(|| text.parse().ok(), |dim| Some(dim.value))
    };
    let other_dims = std::mem::take(&mut other.dims);
    let mut shape = Shape {
        dims: first.dims.clone(),
        added: Vec::new(),
    };
    let (own, others) = (texts(&mut call), texts(&mut other));
    if own.len() != others.len() {
        return None;
    }
    for ((name, text), (other_name, other_text)) in own.into_iter().zip(others) {
        if name != other_name {
            return None;
        }
        let known = shape.dims.iter_mut().find(|dim| dim.name == *text);
        match known {
            Some(dim) => dim.value = value(other_text, &other_dims)?,
            None if text == other_text => {}
            None => {
                let now = value(other_text, &other_dims)?;
                *text = shape.add(&name, value(text, &[])?, now);
            }
        }
    }
    let own = call.arguments.iter_mut().flat_map(Argument::parts_mut);
    let others = other.arguments.iter().flat_map(Argument::parts);
    for pair in own.zip(others) {
        match pair {
            (Argument::Tensor(own), Argument::Tensor(other)) => {
                if other.role == Role::Inout {
                    own.role = Role::Inout;
                }
                if own.size.with(&shape.dims) != Some(other.size.value) {
                    let name = format!("{}_size", own.name);
                    let name = shape.add(&name, own.size.value, other.size.value);
                    own.size.factors = vec![name];
                }
            }
            (own, other) if std::mem::discriminant(own) == std::mem::discriminant(other) => {}
            _ => return None,
        }
    }
    call.dims.extend(shape.added.iter().cloned());
    for dims in &mut call.captured.shapes {
        dims.extend(shape.added.iter().cloned());
    }
    if call.dims != shape.dims && !call.captured.shapes.contains(&shape.dims) {
        call.captured.shapes.push(shape.dims);
    }
    Some(call)
}

/// One more shape of a call.
struct Shape {
    dims: Vec<Dim>,
    /// Dimensions that the call has not had yet, with its own values.
    added: Vec<Dim>,
}

impl Shape {
    /// Adds a dimension, and returns its name.
    fn add(&mut self, name: &str, own: u64, value: u64) -> String {
        let mut name = name.to_owned();
        while self.dims.iter().any(|dim| dim.name == name) {
            name.push('_');
        }
        self.added.push(Dim {
            name: name.clone(),
            value: own,
        });
        self.dims.push(Dim {
            name: name.clone(),
            value,
        });
        name
    }
}

/// The texts of a call that may be a size, and a name for each.
fn texts(call: &mut Call) -> Vec<(String, &mut String)> {
    let axes = |what| ["x", "y", "z"].map(|axis| format!("{what}_{axis}"));
    let mut texts: Vec<_> = axes("grid").into_iter().zip(&mut call.grid).collect();
    texts.extend(axes("block").into_iter().zip(&mut call.block));
    texts.push(("shared_bytes".to_owned(), &mut call.dynamic_shared));
    let parts = call.arguments.iter_mut().flat_map(Argument::parts_mut);
    texts.extend(parts.filter_map(|part| match part {
        Argument::Size { name, value, .. } => Some((name.clone(), value)),
        _ => None,
    }));
    texts
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
        arguments: Vec::new(),
    };
    for ((at, parameter), captured) in kernel.parameters.iter().enumerate().zip(&launch.parameters)
    {
        let bytes = captured.decode().ok_or(OTHER_PARAMETERS)?;
        let numbered = format!("p{at}");
        let name = parameter.name.as_deref().unwrap_or(&numbered);
        let argument = reader.read(name, &parameter.kind, &bytes)?;
        reader.arguments.push(argument);
    }
    let Reader {
        dims,
        mut arguments,
        ..
    } = reader;
    // Extents of tensors are named once all sizes are known.
    for part in arguments.iter_mut().flat_map(Argument::parts_mut) {
        if let Argument::Tensor(tensor) = part
            && let Some(named) = product_of(tensor.size.value, &dims, &[])
        {
            tensor.size = named;
        }
    }
    let call = Call {
        dims,
        arguments,
        grid: numbers(launch.grid),
        block: numbers(launch.block),
        dynamic_shared: launch.dynamic_shared.to_string(),
        captured: Captured {
            cluster: launch.cluster,
            cooperative: launch.cooperative,
            ..Captured::default()
        },
        max_err: Limit::default(),
        reference: Matches::default(),
    };
    let limit = call
        .tensors()
        .filter(|tensor| tensor.role.is_result())
        .map(|tensor| (tolerance(tensor.pointee.elem, 1.0), tensor.pointee.elem))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let Some((limit, elem)) = limit else {
        return Err("it wrote to no memory that a parameter leads to".to_owned());
    };
    Ok(Call {
        max_err: Limit {
            value: rounded_up(limit),
            because: format!("rounding of {}, values up to 1", elem.name()),
        },
        ..call
    })
}

fn numbers(of: [u32; 3]) -> Vec<String> {
    of.iter().map(u32::to_string).collect()
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
    arguments: Vec<Argument>,
}

impl Reader<'_> {
    fn read(&mut self, name: &str, kind: &ParameterKind, bytes: &[u8]) -> Result<Argument, String> {
        match kind {
            ParameterKind::Pointer(pointee) => self.tensor(name, pointee, bytes),
            ParameterKind::Scalar(scalar) => self.scalar(name, *scalar, bytes),
            ParameterKind::Struct(members) => self.members(name, members, bytes),
            ParameterKind::Other(what) => Err(format!("`{name}` is {what}")),
        }
    }

    fn members(
        &mut self,
        within: &str,
        members: &[Member],
        bytes: &[u8],
    ) -> Result<Argument, String> {
        let mut at = 0usize;
        let mut read = Vec::new();
        for member in members {
            let size = member.bytes();
            if !matches!(member, Member::Pad(_)) {
                at = at.next_multiple_of(size);
            }
            let own = bytes.get(at..at + size).ok_or(OTHER_PARAMETERS)?;
            at += size;
            read.push(match member {
                Member::Pointer(name, pointee) => {
                    self.tensor(&format!("{within}_{name}"), pointee, own)?
                }
                Member::Scalar(name, scalar) | Member::Element(name, scalar) => {
                    self.scalar(&format!("{within}_{name}"), *scalar, own)?
                }
                Member::Pad(size) => Argument::Pad(*size),
            });
        }
        Ok(Argument::Struct(read))
    }

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
                Ok(size) if size > 1 && model::expr::is_identifier(name) => {
                    let name = name.to_owned();
                    self.dims.push(Dim { name, value: size });
                    self.dims
                        .last()
                        .map(|dim| dim.name.clone())
                        .unwrap_or_default()
                }
                _ => value.to_string(),
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
