//! Gives outputs of captured launches a reference. The allocation that a pointer leads to is split into a typed tensor
//! and the memory around it, and this memory is compared with what the launch left there.

use config::{Program, ProgramOutput, TypedTensor};
use model::{
    Arg, Callable, CapturedContent, Case, ContentPart, ElemType, Fill, Gate, Plan, Reference, Role,
    Subject, Tensor, Unit,
};
use std::collections::BTreeMap;
use std::ops::Range;
use system::error::{Diagnostic, Error, Result};

/// Gives the launches of a program the references of its `outputs`. Returns the limits on their errors.
///
/// # Errors
/// Usage, at a line of gates.yaml, if two globs fit one kernel, or if a tensor is not in the memory of a launch.
pub fn add_references(
    plan: &mut Plan,
    program: &Program,
    fits: &dyn Fn(&str, &str) -> bool,
) -> Result<Vec<Gate>> {
    let mut gates = Vec::new();
    let Plan { units, cases, .. } = plan;
    for case in cases
        .iter_mut()
        .filter(|case| case.id.kernel == program.name)
    {
        let symbol = units.iter().find(|unit| unit.is_of(&case.id)).map(symbol);
        let symbol = symbol.unwrap_or_default();
        let mut outputs = program
            .outputs
            .iter()
            .filter(|output| fits(&output.kernels, symbol));
        let Some(output) = outputs.next() else {
            continue;
        };
        if let Some(other) = outputs.next() {
            return Err(Error::usage(format!(
                "`{}` and `{}` both fit the kernel of {}",
                output.kernels, other.kernels, case.id
            ))
            .at(&other.declared)
            .help("each kernel has one reference"));
        }
        add_reference(case, output).map_err(|mut diagnostic| {
            diagnostic.message = format!("{}: {}", case.id, diagnostic.message);
            Error::Usage(diagnostic)
        })?;
        gates.extend(output.limits.iter().map(|limit| Gate {
            subject: Subject::Case(case.id.clone()),
            rule: limit.rule.clone(),
            declared: Some(limit.declared.clone()),
        }));
    }
    Ok(gates)
}

fn symbol(unit: &Unit) -> &str {
    match &unit.call {
        Callable::Entries { names, .. } => names.first().map_or("", String::as_str),
        Callable::Launcher { .. } | Callable::Compiled { .. } | Callable::Together { .. } => "",
    }
}

fn add_reference(case: &mut Case, output: &ProgramOutput) -> std::result::Result<(), Diagnostic> {
    let parameters: Vec<Vec<u8>> = case
        .steps
        .iter()
        .flat_map(|step| &step.args)
        .map(bytes_of)
        .collect();
    let launch = output.resolve(&parameters)?;
    let left = match std::mem::replace(&mut case.reference, launch.reference) {
        Reference::Captured { outputs } => outputs,
        _ => BTreeMap::new(),
    };
    case.tensors = split(&case.tensors, &left, launch.tensors)?;
    case.tolerance = output.tolerance;
    case.determinism = output.determinism.clone();
    Ok(())
}

fn bytes_of(arg: &Arg) -> Vec<u8> {
    let Arg::Raw { bytes } = arg else {
        return Vec::new();
    };
    let digits = bytes.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.map(|pair| byte(pair).unwrap_or_default()).collect()
}

/// Splits memory into typed tensors and what is around them. `left` is what the launch left in the memory that it
/// changed.
fn split(
    memory: &[Tensor],
    left: &BTreeMap<String, CapturedContent>,
    mut typed: Vec<TypedTensor>,
) -> std::result::Result<Vec<Tensor>, Diagnostic> {
    typed.sort_by_key(|output| output.tensor.address);
    for pair in typed.windows(2) {
        if let [first, second] = pair
            && range(&first.tensor).end > range(&second.tensor).start
        {
            return Err(refuse(
                second,
                format!("it overlaps `{}`", first.tensor.name),
            ));
        }
    }
    let is_taken = |output: &&TypedTensor| is_name_of_memory(&output.tensor.name);
    if let Some(named) = typed.iter().find(is_taken) {
        return Err(
            refuse(named, "captured memory is called so".to_owned()).help("give it another name")
        );
    }
    let mut tensors = Vec::new();
    let mut typed = typed.into_iter().peekable();
    for allocation in memory {
        let whole = range(allocation);
        let mut from = whole.start;
        let mut parts = Vec::new();
        while let Some(next) = typed.next_if(|output| whole.contains(&range(&output.tensor).start))
        {
            let inside = range(&next.tensor);
            check(&next, allocation)?;
            parts.extend(cut(allocation, left, from..inside.start));
            from = inside.end;
            let fill = content(allocation).map(|content| Fill::Captured {
                content: part(content, offsets(&inside, &whole)),
            });
            parts.push(Tensor {
                fill: fill.filter(|_| next.tensor.role != Role::Out),
                ..next.tensor
            });
        }
        parts.extend(cut(allocation, left, from..whole.end));
        for (at, part) in parts.into_iter().enumerate() {
            tensors.push(Tensor {
                joined: at > 0,
                ..part
            });
        }
        // A tensor that was passed by is in no allocation.
        if let Some(next) = typed.next_if(|output| range(&output.tensor).start < whole.start) {
            return Err(leads_nowhere(&next));
        }
    }
    match typed.next() {
        Some(next) => Err(leads_nowhere(&next)),
        None => Ok(tensors),
    }
}

/// Returns true for a name such as `at_200000001000`.
fn is_name_of_memory(name: &str) -> bool {
    let address = name.strip_prefix("at_").unwrap_or_default();
    u64::from_str_radix(address, 16).is_ok()
}

fn leads_nowhere(typed: &TypedTensor) -> Diagnostic {
    let at = range(&typed.tensor).start;
    refuse(
        typed,
        format!("its pointer, {at:#x}, leads to no captured memory"),
    )
    .help("is it another parameter, or another offset in it?")
}

fn refuse(typed: &TypedTensor, why: String) -> Diagnostic {
    Diagnostic::new(format!("tensor `{}`: {why}", typed.tensor.name)).at(&typed.declared)
}

fn check(typed: &TypedTensor, allocation: &Tensor) -> std::result::Result<(), Diagnostic> {
    let (own, whole) = (range(&typed.tensor), range(allocation));
    if own.end > whole.end {
        return Err(refuse(
            typed,
            format!(
                "it has {} bytes, and its allocation {} from its pointer on",
                own.end - own.start,
                whole.end - own.start
            ),
        ));
    }
    let each = typed.tensor.elem.size() as u64;
    if !own.start.is_multiple_of(each) {
        return Err(refuse(
            typed,
            format!(
                "its pointer, {:#x}, is not aligned to the {each} bytes of {}",
                own.start, typed.tensor.elem
            ),
        ));
    }
    Ok(())
}

/// Returns the addresses of a tensor. Variables of a module have no address, and an empty range.
fn range(tensor: &Tensor) -> Range<u64> {
    let Some(start) = tensor.address else {
        return 0..0;
    };
    start..start.saturating_add((tensor.len() * tensor.elem.size()) as u64)
}

fn offsets(inside: &Range<u64>, whole: &Range<u64>) -> Range<u64> {
    inside.start - whole.start..inside.end - whole.start
}

fn content(tensor: &Tensor) -> Option<&CapturedContent> {
    match &tensor.fill {
        Some(Fill::Captured { content }) => Some(content),
        _ => None,
    }
}

/// Returns the memory of an allocation between typed tensors, as it was captured, or `None` if there is none.
fn cut(
    allocation: &Tensor,
    left: &BTreeMap<String, CapturedContent>,
    inside: Range<u64>,
) -> Option<Tensor> {
    let left = left.get(&allocation.name);
    let whole = range(allocation);
    if inside == whole {
        return Some(Tensor {
            left: left.cloned(),
            ..allocation.clone()
        });
    }
    let bytes = inside.end - inside.start;
    if bytes == 0 {
        return None;
    }
    let (elem, count) = match bytes % 4 {
        0 => (ElemType::U32, bytes / 4),
        _ => (ElemType::U8, bytes),
    };
    let offsets = offsets(&inside, &whole);
    let name = format!("at_{:x}", inside.start);
    let dims = vec![usize::try_from(count).unwrap_or(usize::MAX)];
    Some(Tensor {
        fill: content(allocation).map(|content| Fill::Captured {
            content: part(content, offsets.clone()),
        }),
        address: Some(inside.start),
        left: left.map(|content| part(content, offsets)),
        ..Tensor::new(&name, allocation.role, elem, dims)
    })
}

/// Returns a range of the bytes of a content, with the chunks that contain them.
fn part(content: &CapturedContent, bytes: Range<u64>) -> CapturedContent {
    const CHUNK: u64 = capture::CHUNK as u64;
    let first = bytes.start / CHUNK;
    let behind = bytes.end.div_ceil(CHUNK).max(first + 1);
    let chunks = content.chunks.iter().skip(first as usize);
    CapturedContent {
        capture: content.capture.clone(),
        bytes: content.bytes.min(behind * CHUNK) - first * CHUNK,
        chunks: chunks.take((behind - first) as usize).cloned().collect(),
        part: Some(ContentPart {
            from: bytes.start - first * CHUNK,
            bytes: bytes.end - bytes.start,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(address: u64, bytes: usize) -> Tensor {
        let chunks = bytes.div_ceil(capture::CHUNK);
        Tensor {
            address: Some(address),
            fill: Some(Fill::Captured {
                content: CapturedContent {
                    capture: "c".to_owned(),
                    bytes: bytes as u64,
                    chunks: (0..chunks).map(|chunk| chunk.to_string()).collect(),
                    part: None,
                },
            }),
            ..Tensor::new(
                &format!("at_{address:x}"),
                Role::In,
                ElemType::U8,
                vec![bytes],
            )
        }
    }

    fn typed(name: &str, address: u64, count: usize) -> TypedTensor {
        TypedTensor {
            tensor: Tensor {
                address: Some(address),
                ..Tensor::new(name, Role::In, ElemType::F32, vec![count])
            },
            declared: "gates.yaml:9".to_owned(),
        }
    }

    fn names(tensors: &[Tensor]) -> Vec<String> {
        let text = |tensor: &Tensor| {
            let joined = if tensor.joined { "+" } else { "" };
            format!("{joined}{} {} {:?}", tensor.name, tensor.elem, tensor.dims)
        };
        tensors.iter().map(text).collect()
    }

    #[test]
    fn an_allocation_is_cut_around_its_tensors() {
        let all = [memory(0x1000, 100), memory(0x2000, 64)];
        let cut = |tensors: Vec<TypedTensor>| split(&all, &BTreeMap::new(), tensors);
        let found = cut(vec![typed("y", 0x1028, 2), typed("x", 0x1008, 8)]).unwrap();
        assert_eq!(
            names(&found),
            [
                "at_1000 u32 [2]",
                "+x f32 [8]",
                "+y f32 [2]",
                "+at_1030 u32 [13]",
                "at_2000 u8 [64]"
            ]
        );
        let found = cut(vec![typed("x", 0x2000, 16)]).unwrap();
        assert_eq!(names(&found), ["at_1000 u8 [100]", "x f32 [16]"]);
    }

    #[test]
    fn a_tensor_that_is_not_in_captured_memory_is_refused() {
        let all = [memory(0x1000, 100), memory(0x2000, 64)];
        let said = |tensors: Vec<TypedTensor>| {
            let refused = split(&all, &BTreeMap::new(), tensors).unwrap_err();
            assert_eq!(refused.at.as_deref(), Some("gates.yaml:9"));
            refused.message
        };
        for (at, count, says) in [
            (0x0, 1, "its pointer, 0x0, leads to no captured memory"),
            (
                0x1064,
                1,
                "its pointer, 0x1064, leads to no captured memory",
            ),
            (
                0x3000,
                1,
                "its pointer, 0x3000, leads to no captured memory",
            ),
            (
                0x2020,
                9,
                "it has 36 bytes, and its allocation 32 from its pointer on",
            ),
            (
                0x2002,
                1,
                "its pointer, 0x2002, is not aligned to the 4 bytes of f32",
            ),
        ] {
            assert_eq!(
                said(vec![typed("x", at, count)]),
                format!("tensor `x`: {says}")
            );
        }
        let overlap = vec![typed("x", 0x1000, 4), typed("y", 0x100c, 4)];
        assert_eq!(said(overlap), "tensor `y`: it overlaps `x`");
        let named = "tensor `at_1020`: captured memory is called so";
        assert_eq!(said(vec![typed("at_1020", 0x2000, 4)]), named);
    }

    #[test]
    fn a_part_names_the_chunks_that_have_it() {
        let chunk = capture::CHUNK as u64;
        let all = memory(0, 3 * capture::CHUNK - 10);
        let content = content(&all).unwrap();
        let found = part(content, chunk + 4..2 * chunk);
        assert_eq!(
            (found.bytes, &found.chunks[..]),
            (chunk, &["1".to_owned()][..])
        );
        assert_eq!(
            found.part,
            Some(ContentPart {
                from: 4,
                bytes: chunk - 4
            })
        );
        let found = part(content, chunk - 4..3 * chunk - 10);
        assert_eq!((found.bytes, found.chunks.len()), (3 * chunk - 10, 3));
        let found = part(content, 2 * chunk..2 * chunk + 8);
        assert_eq!(
            (found.bytes, &found.chunks[..]),
            (chunk - 10, &["2".to_owned()][..])
        );
    }
}
