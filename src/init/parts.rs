//! The values that a kernel gets, one by one, with their names and where each lies. Pure.

use build::inventory::{ListedKernel, Member, ParameterKind, Pointee};
use model::ScalarType;
use std::collections::BTreeSet;

/// One value that a kernel gets: a parameter, or a member of a struct.
pub struct Part<'a> {
    pub name: String,
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

/// # Errors
/// A part without a value, as a part of a sentence.
pub fn parts_of<'a>(
    kernel: &'a ListedKernel,
    program: &ptxsim::Kernel,
) -> Result<Vec<Part<'a>>, String> {
    use ScalarType::{I32, I64, U32, U64};
    let places = program.parameters();
    if places.len() != kernel.parameters.len() {
        return Err(OTHER_PARAMETERS.to_owned());
    }
    let mut names = BTreeSet::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut add = |name: Option<&str>, within: Option<&str>, offset, kind| {
        let fallback = match kind {
            PartKind::Pointer(_) => "t",
            PartKind::Size(_) | PartKind::Value(_) => "n",
        };
        let joined = name
            .zip(within)
            .map(|(name, within)| format!("{within}_{name}"));
        let numbered = format!("{fallback}{}", parts.len());
        let name = [name, joined.as_deref(), Some(&numbered)]
            .into_iter()
            .flatten()
            .filter(|name| model::expr::is_identifier(name) && !names.contains(*name))
            // No dimension can be named `count`.
            .find(|name| model::Metric::from_name(name).is_none())
            .unwrap_or(&numbered)
            .to_owned();
        names.insert(name.clone());
        parts.push(Part { name, offset, kind });
    };
    let of_scalar = |scalar: ScalarType| match scalar {
        I32 | U32 | I64 | U64 => PartKind::Size(scalar),
        _ => PartKind::Value(scalar),
    };
    for (parameter, (offset, bytes)) in kernel.parameters.iter().zip(places) {
        let (offset, bytes) = (offset as usize, bytes as usize);
        let own = parameter.name.as_deref();
        let taken = match &parameter.kind {
            ParameterKind::Pointer(pointee) => {
                add(own, None, offset, PartKind::Pointer(pointee));
                8
            }
            ParameterKind::Scalar(scalar) => {
                add(own, None, offset, of_scalar(*scalar));
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
                    let offset = offset + at;
                    match member {
                        Member::Pointer(name, pointee) => {
                            add(Some(name), own, offset, PartKind::Pointer(pointee));
                        }
                        Member::Scalar(name, scalar) => {
                            add(Some(name), own, offset, of_scalar(*scalar));
                        }
                        Member::Element(name, scalar) => {
                            add(Some(name), own, offset, PartKind::Value(*scalar));
                        }
                        Member::Pad(_) => {}
                    }
                    at += bytes;
                }
                at.next_multiple_of(align)
            }
            ParameterKind::Other(what) => {
                let name = own.unwrap_or("a parameter");
                return Err(format!("`{name}` is {what}"));
            }
        };
        if taken != bytes {
            return Err(OTHER_PARAMETERS.to_owned());
        }
    }
    Ok(parts)
}
