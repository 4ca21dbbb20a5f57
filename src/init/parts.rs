//! The values that a kernel gets, one by one, with their names and where each lies. Pure.

use build::inventory::{ListedKernel, Member, ParameterKind, Pointee};
use model::ScalarType;
use regex::Regex;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

/// One value that a kernel gets: a parameter, or a member of a struct.
pub struct Part<'a> {
    pub name: String,
    /// Counted from 0.
    pub parameter: usize,
    /// Its names within the struct: `to_rows`.
    pub member: Option<&'a str>,
    /// Whether the code of the kernel loads it.
    pub is_read: bool,
    /// In the parameter buffer.
    pub offset: usize,
    pub kind: PartKind<'a>,
}

pub enum PartKind<'a> {
    Pointer(&'a Pointee),
    Size(ScalarType),
    Value(ScalarType),
}

pub const OTHER_PARAMETERS: &str = "its parameters are not those of its PTX";

/// `ld.param.v2.b32 {%r1, %r2}, [k_param_0+8]`, also by a register with an address: `[%rd1+-8]`.
static LOAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^ld\.param(?:\.v(\d))?\.[a-z]+(\d+)\s.*\[([\w$%]+)(?:\+(-?\d+))?\]").ok()
});
/// `mov.b64 %rd1, k_param_0`, `add.s64 %rd2, %rd1, 56`.
static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:mov|add|cvta\.param)\.\w+\s+([\w$%]+), ([\w$%]+)(?:, (-?\d+))?;").ok()
});

/// Returns the bytes of a parameter that the code of an entry loads; `None` where its address goes elsewhere, or where it
/// has another name.
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

/// `entry`: its PTX.
///
/// # Errors
/// A part without a value, as a part of a sentence.
pub fn parts_of<'a>(
    kernel: &'a ListedKernel,
    program: &ptxsim::Kernel,
    entry: &str,
) -> Result<Vec<Part<'a>>, String> {
    use ScalarType::{I32, I64, U32, U64};
    let places = program.parameters();
    if places.len() != kernel.parameters.len() {
        return Err(OTHER_PARAMETERS.to_owned());
    }
    let mut names = BTreeSet::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut add =
        |place: &Place<'a>, member: Option<&'a str>, offset: usize, kind: PartKind<'a>| {
            let (fallback, bytes) = match kind {
                PartKind::Pointer(_) => ("t", 8),
                PartKind::Size(scalar) | PartKind::Value(scalar) => ("n", scalar.size()),
            };
            let joined = member
                .zip(place.name)
                .map(|(name, within)| format!("{within}_{name}"));
            let numbered = format!("{fallback}{}", parts.len());
            let name = [member.or(place.name), joined.as_deref(), Some(&numbered)]
                .into_iter()
                .flatten()
                .filter(|name| model::expr::is_identifier(name) && !names.contains(*name))
                // No dimension can be named `count`.
                .find(|name| model::Metric::from_name(name).is_none())
                .unwrap_or(&numbered)
                .to_owned();
            names.insert(name.clone());
            let is_loaded = |load: &Range<usize>| load.start < offset + bytes && offset < load.end;
            parts.push(Part {
                name,
                parameter: place.parameter,
                member,
                is_read: place
                    .loads
                    .as_ref()
                    .is_none_or(|loads| loads.iter().any(is_loaded)),
                offset: place.begin + offset,
                kind,
            });
        };
    let of_scalar = |scalar: ScalarType| match scalar {
        I32 | U32 | I64 | U64 => PartKind::Size(scalar),
        _ => PartKind::Value(scalar),
    };
    for (at, (parameter, (begin, bytes))) in kernel.parameters.iter().zip(places).enumerate() {
        let place = Place {
            parameter: at,
            name: parameter.name.as_deref(),
            begin: begin as usize,
            loads: loads(entry, &kernel.symbol, at),
        };
        let taken = match &parameter.kind {
            ParameterKind::Pointer(pointee) => {
                add(&place, None, 0, PartKind::Pointer(pointee));
                8
            }
            ParameterKind::Scalar(scalar) => {
                add(&place, None, 0, of_scalar(*scalar));
                scalar.size()
            }
            ParameterKind::Struct(members) => {
                let mut at = 0usize;
                let mut align = 1;
                for member in members {
                    let bytes = member.bytes();
                    if !matches!(member, Member::Pad(_)) {
                        at = at.next_multiple_of(bytes);
                        align = align.max(bytes);
                    }
                    match member {
                        Member::Pointer(name, pointee) => {
                            add(&place, Some(name), at, PartKind::Pointer(pointee));
                        }
                        Member::Scalar(name, scalar) => {
                            add(&place, Some(name), at, of_scalar(*scalar));
                        }
                        Member::Element(name, scalar) => {
                            add(&place, Some(name), at, PartKind::Value(*scalar));
                        }
                        Member::Pad(_) => {}
                    }
                    at += bytes;
                }
                at.next_multiple_of(align)
            }
            ParameterKind::Other(what) => {
                let name = place.name.unwrap_or("a parameter");
                return Err(format!("`{name}` is {what}"));
            }
        };
        if taken != bytes as usize {
            return Err(OTHER_PARAMETERS.to_owned());
        }
    }
    Ok(parts)
}

/// A parameter that parts belong to.
struct Place<'a> {
    parameter: usize,
    name: Option<&'a str>,
    /// In the parameter buffer.
    begin: usize,
    loads: Option<Vec<Range<usize>>>,
}
