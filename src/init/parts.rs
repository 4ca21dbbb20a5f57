//! Splits a kernel's parameters into single values, each with its name and place. Pure.

use super::call::CallError;
use build::inventory::{ListedKernel, Member, ParameterKind, Pointee};
use model::ScalarType;
use regex::Regex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

/// One value that a kernel gets: a parameter, or a member of a struct.
pub struct KernelInput<'a> {
    pub name: String,
    /// The number of the parameter, counted from 0.
    pub parameter: usize,
    /// Its path of names within the struct, such as `to_rows`.
    pub member: Option<&'a str>,
    /// True if the code of the kernel loads the value.
    pub is_read: bool,
    /// The byte offset within the parameter.
    pub offset: usize,
    pub kind: InputKind<'a>,
}

pub enum InputKind<'a> {
    Pointer(&'a Pointee),
    Size(ScalarType),
    Value(ScalarType),
}

impl InputKind<'_> {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Pointer(_) => 8,
            Self::Size(scalar) | Self::Value(scalar) => scalar.size(),
        }
    }
}

/// Matches `ld.param.v2.b32 {%r1, %r2}, [k_param_0+8]`, and a load through a register that has the
/// address: `[%rd1+-8]`.
static LOAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^ld\.param(?:\.v(\d))?\.[a-z]+(\d+)\s.*\[([\w$%]+)(?:\+(-?\d+))?\]").ok()
});
/// Matches `mov.b64 %rd1, k_param_0` and `add.s64 %rd2, %rd1, 56`.
static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:mov|add|cvta\.param)\.\w+\s+([\w$%]+), ([\w$%]+)(?:, (-?\d+))?;").ok()
});

/// Returns the bytes of a parameter that the code of an entry loads. Returns `None` if the parameter's address is used
/// in another way, or if the parameter has another name.
fn loads(entry: &str, symbol: &str, parameter: usize) -> Option<Vec<Range<usize>>> {
    let name = format!("{symbol}_param_{parameter}");
    let is_end = |c: char| !(c.is_alphanumeric() || "_$%".contains(c));
    let mut is_known = false;
    let mut held: Vec<(&str, i64)> = vec![(&name, 0)];
    let mut all = Vec::new();
    for line in entry.lines().map(str::trim) {
        let is_named = |(own, _): &&(&str, i64)| line.split(is_end).any(|word| word == *own);
        let Some((_, base)) = held.iter().find(is_named).copied() else {
            continue;
        };
        is_known = true;
        if line.starts_with(".param") {
            continue;
        }
        if let Some(found) = LOAD.as_ref()?.captures(line) {
            let number = |at| found.get(at)?.as_str().parse::<i64>().ok();
            let from = usize::try_from(base + number(4).unwrap_or_default()).ok()?;
            let bytes = number(1).unwrap_or(1) * number(2)? / 8;
            all.push(from..from + bytes as usize);
        } else {
            let found = ADDRESS.as_ref()?.captures(line)?;
            let by = found
                .get(3)
                .map_or(Some(0), |by| by.as_str().parse().ok())?;
            held.push((found.get(1)?.as_str(), base + by));
        }
    }
    is_known.then_some(all)
}

/// Returns the values that a kernel gets. `entry` is its PTX, if that is known.
///
/// # Errors
/// Names a part that cannot have a value, as a part of a sentence.
pub fn parts_of<'a>(
    kernel: &'a ListedKernel,
    entry: &str,
) -> Result<Vec<KernelInput<'a>>, CallError> {
    use ScalarType::{I32, I64, U32, U64};
    let mut names = BTreeSet::new();
    let mut parts: Vec<KernelInput> = Vec::new();
    for (parameter, listed) in kernel.parameters.iter().enumerate() {
        let loads = loads(entry, &kernel.symbol, parameter);
        let within = listed.name.as_deref();
        let of_scalar = |scalar: ScalarType| match scalar {
            I32 | U32 | I64 | U64 => InputKind::Size(scalar),
            _ => InputKind::Value(scalar),
        };
        let mut all = Vec::new();
        match &listed.kind {
            ParameterKind::Pointer(pointee) => all.push((None, 0, InputKind::Pointer(pointee))),
            ParameterKind::Scalar(scalar) => all.push((None, 0, of_scalar(*scalar))),
            ParameterKind::Struct(members) => {
                let mut end = 0usize;
                for member in members {
                    let bytes = member.bytes();
                    let (name, kind) = match member {
                        Member::Pad(_) => {
                            end += bytes;
                            continue;
                        }
                        Member::Pointer(name, pointee) => (name, InputKind::Pointer(pointee)),
                        Member::Scalar(name, scalar) => (name, of_scalar(*scalar)),
                        Member::Element(name, scalar) => (name, InputKind::Value(*scalar)),
                    };
                    let offset = end.next_multiple_of(bytes);
                    all.push((Some(name.as_str()), offset, kind));
                    end = offset + bytes;
                }
            }
            ParameterKind::Other(what) => {
                return Err(CallError::Parameter {
                    name: within.unwrap_or("a parameter").to_owned(),
                    kind: what.clone(),
                });
            }
        }
        for (member, offset, kind) in all {
            let fallback = match kind {
                InputKind::Pointer(_) => "t",
                InputKind::Size(_) | InputKind::Value(_) => "n",
            };
            let both = member.zip(within);
            let joined = both.map(|(name, within)| format!("{within}_{name}"));
            let numbered = format!("{fallback}{}", parts.len());
            let is_free = |name: &&str| {
                // A dimension cannot have the name of a metric, such as `count`.
                let is_metric = model::Metric::from_name(name).is_some();
                model::expr::is_identifier(name) && !is_metric && !names.contains(*name)
            };
            let mut choices = [member.or(within), joined.as_deref()].into_iter().flatten();
            let name = choices.find(is_free).unwrap_or(&numbered).to_owned();
            names.insert(name.clone());
            let end = offset + kind.bytes();
            let is_loaded = |load: &Range<usize>| load.start < end && offset < load.end;
            let loads = loads.as_ref();
            parts.push(KernelInput {
                name,
                parameter,
                member,
                is_read: loads.is_none_or(|loads| loads.iter().any(is_loaded)),
                offset,
                kind,
            });
        }
    }
    Ok(parts)
}
