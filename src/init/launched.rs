//! Calls of kernels as a program made them: real sizes, values and launches. Pure.

use super::Surveyed;
use super::call::{Argument, Call, Limit, Matches, Tensor, Unknown};
use super::sizes::{Dim, Product, product_of};
use super::tolerances::{rounded_up, tolerance};
use super::write::{SCHEMA, as_identifier, quoted};
use build::inventory::{ListedKernel, Member, ParameterKind, Pointee};
use build::signature::qualified;
use capture::{Capture, LaunchRecord};
use model::{Number, Role, ScalarType};
use std::path::Path;

/// Gives each kernel the call with which the program launched it first.
pub fn take_calls(kernels: &mut [Surveyed], captured: &Capture) {
    for kernel in kernels {
        let launch = captured
            .launches()
            .find(|launch| launch.kernel == kernel.kernel.symbol);
        kernel.call = match launch {
            Some(launch) => call_of(launch, &kernel.kernel).map_err(|why| Unknown {
                why,
                launch: Some((numbers(launch.grid), numbers(launch.block))),
            }),
            None => Err(Unknown {
                why: "the program does not launch it".to_owned(),
                launch: None,
            }),
        };
    }
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
    if launch.cluster.is_some() || launch.cooperative {
        return Err("the program launched it with clusters or as a cooperative grid".to_owned());
    }
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
    let used = 3 - of.iter().rev().take_while(|count| **count == 1).count();
    of.iter().take(used.max(1)).map(u32::to_string).collect()
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
            return Err(format!("`{name}` is a null pointer in the program"));
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
        Ok(Argument::Size { of, value })
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
