//! Resolves the tensors of one case: their extents and strides, how they are encoded, and how they are compared.

use super::call::find_tensor;
use super::fill::{Drawn, check_fill_of_scratch, resolve_fill, resolve_fill_of_input};
use super::names::check_identifier;
use super::packed;
use super::raw::{Formula, Per, RawCodec, RawCompare, RawTensor, RawType};
use super::scope::{self, Scope};
use super::yaml::{Mistake, Spanned};
use model::expr::{Name, ValueKind};
use model::{Codec, CodecScheme, Compare, ElemType, Expr, Num, Role, Tensor};
use std::collections::BTreeMap;

/// The most bytes of all tensors of a case together. More are a mistake rather than a kernel under test.
const MAX_BYTES: u64 = 16 << 30;

/// A tensor's name as it was declared, with the declaration.
pub type Declared<'a> = (&'a Spanned<String>, &'a Spanned<RawTensor>);

pub fn resolve_tensors(
    declared: &[Declared<'_>],
    scope: &Scope<'_>,
) -> Result<Vec<Tensor>, Mistake> {
    let mut bytes = 0u64;
    let mut tensors = Vec::new();
    for (name, raw) in declared {
        let tensor = resolve_tensor(name, raw, scope)?;
        let elements = (tensor.offset + tensor.span()) as u64;
        bytes = bytes.saturating_add(elements * tensor.elem.size() as u64);
        if bytes > MAX_BYTES {
            return Err(scope.problem(name, "the tensors up to here take more than 16 GiB"));
        }
        tensors.push(tensor);
    }
    for (name, raw) in declared {
        if let Some(compare) = &raw.compare {
            let resolved = resolve_compare(name, compare, raw.shape.len(), &tensors, scope)?;
            if let Some(tensor) = tensors.iter_mut().find(|tensor| tensor.name == name.value) {
                tensor.compare = Some(resolved);
            }
        }
    }
    Ok(tensors)
}

fn resolve_tensor(
    name: &Spanned<String>,
    raw: &Spanned<RawTensor>,
    scope: &Scope<'_>,
) -> Result<Tensor, Mistake> {
    let role = raw.role.as_ref().map_or(Role::In, |role| role.value);
    let layout = match &raw.elem.value {
        RawType::Struct(fields) => Some(packed::resolve_struct(fields, &raw.elem, scope)?),
        _ => None,
    };
    // The elements of structs are bytes.
    let elem = raw.elem.elem().unwrap_or(ElemType::U8);
    let each = layout.as_ref().map_or(elem.size(), |layout| layout.bytes);
    let extent = |formula: &Spanned<Formula>| {
        scope
            .eval_integer_in(formula, "the extent", 1..=i64::from(u32::MAX))
            .map(|extent| extent as usize)
    };
    let dims: Vec<usize> = raw.shape.iter().map(extent).collect::<Result<_, _>>()?;
    let elements = dims
        .iter()
        .try_fold(1u64, |product, &dim| product.checked_mul(dim as u64))
        .filter(|elements| *elements <= MAX_BYTES / each as u64)
        .ok_or_else(|| scope.problem(&raw.shape, "the tensor takes more than 16 GiB"))?;
    let strides = raw
        .strides
        .as_ref()
        .map(|strides| self::resolve_strides(strides, &dims, scope))
        .transpose()?;
    let offset = match &raw.offset {
        None => 0,
        Some(offset) if !role.is_placed() => {
            return Err(offset.problem(format!(
                "`{name}` is for the reference alone, and lies nowhere: `offset` is not allowed"
            )));
        }
        Some(offset) => {
            let most = (MAX_BYTES / each as u64) as i64;
            scope.eval_integer_in(offset, "the offset", 0..=most)? as usize * each / elem.size()
        }
    };

    if !role.is_drawn() {
        let fill = raw.fill.as_ref().filter(|_| role != Role::Scratch);
        let at = fill
            .map(|fill| ("fill", fill.at))
            .or_else(|| raw.codec.as_ref().map(|codec| ("codec", codec.at)));
        if let Some((key, at)) = at {
            return Err(Mistake::new(
                at,
                format!("`{name}` is not an input: `{key}` is not allowed"),
            ));
        }
    }
    let codec = match &raw.codec {
        Some(codec) if role == Role::Inout => {
            return Err(codec.problem(format!(
                "`{name}` is written by the kernel: `codec` is not allowed"
            )));
        }
        Some(codec) if role == Role::Reference => {
            return Err(codec.problem(format!("`{name}` is for the reference alone: `codec` is not allowed"))
            .help(
                "a reference gets the values that it is given; a codec makes what a kernel reads",
            ));
        }
        Some(spot) => Some(match &layout {
            Some(layout) => layout.resolve_codec(spot, &dims, scope)?,
            None => resolve_codec(spot, elem, &dims, scope)?,
        }),
        None => None,
    };
    let floats = codec.is_some() || elem.is_float();
    let value_dims = match codec.as_ref().map(|codec| &codec.scheme) {
        Some(CodecScheme::Blocks(blocks)) => &blocks.values,
        _ => &dims,
    };
    let drawn = Drawn {
        elem,
        floats,
        is_coded: codec.is_some(),
        elements: value_dims.iter().map(|dim| *dim as u64).product(),
        width: value_dims.last().map_or(1, |width| *width as u64),
    };
    let fill = match (&layout, role) {
        (Some(layout), _) if codec.is_none() => {
            layout.resolve_fill(name, role, raw.fill.as_ref(), elements, scope)?
        }
        (_, Role::Out) => None,
        (_, Role::Scratch) => match &raw.fill {
            None => None,
            Some(spot) => {
                check_fill_of_scratch(name, spot)?;
                Some(resolve_fill(spot, drawn, scope)?)
            }
        },
        (_, Role::In | Role::Inout | Role::Reference) => Some(resolve_fill_of_input(
            name,
            raw.at,
            raw.fill.as_ref(),
            drawn,
            scope,
        )?),
    };
    let (dims, strides) = match &layout {
        None => (dims, strides),
        Some(layout) => in_bytes(dims, strides, layout.bytes),
    };
    Ok(Tensor {
        name: name.value.clone(),
        role,
        elem,
        dims,
        strides,
        offset,
        fill,
        codec,
        compare: None,
        address: None,
        floats: None,
        pointers: Vec::new(),
        left: None,
        joined: false,
    })
}

/// Converts the shape of a tensor of structs to the shape of its bytes.
fn in_bytes(
    mut dims: Vec<usize>,
    strides: Option<Vec<usize>>,
    each: usize,
) -> (Vec<usize>, Option<Vec<usize>>) {
    dims.push(each);
    let strides = strides.map(|strides| {
        strides
            .into_iter()
            .map(|stride| stride.saturating_mul(each))
            .chain([1])
            .collect()
    });
    (dims, strides)
}

/// The names of an element's indices, if nothing else is given.
const INDEX: [&str; 6] = ["i", "j", "k", "l", "m", "n"];

fn resolve_compare(
    name: &Spanned<String>,
    raw: &Spanned<RawCompare>,
    rank: usize,
    tensors: &[Tensor],
    scope: &Scope<'_>,
) -> Result<Compare, Mistake> {
    let tensor = find_tensor(name, tensors)?;
    if !tensor.role.is_result() {
        return Err(raw.problem(format!(
            "`{name}` is not an output: `compare` is not allowed"
        )));
    }
    if let (Some(index), None) = (&raw.index, &raw.condition) {
        return Err(index.problem("`index` names what `where` asks about"));
    }
    match (&raw.condition, &raw.mask, &raw.unordered) {
        (Some(condition), None, None) => {
            let index = resolve_index(raw, condition, tensor, scope)?;
            resolve_condition(condition, index, scope)
        }
        (None, None, Some(axis)) if (axis.value as usize) < rank => Ok(Compare::Unordered {
            axis: axis.value as usize,
        }),
        (None, None, Some(axis)) => Err(axis
            .problem(format!(
                "axis {axis} is out of range: the tensor has rank {rank}"
            ))
            .help("axes count from 0")),
        (None, Some(mask), None) => {
            let found = find_tensor(mask, tensors)?;
            let is_integer = !found.elem.is_float() && found.codec.is_none();
            let is_input = matches!(found.role, Role::In | Role::Reference);
            if !is_input || !is_integer || found.dims != tensor.dims {
                return Err(scope.problem(
                    mask,
                    format!(
                        "`{mask}` is no input of integers that is {:?}, as `{name}` is",
                        tensor.dims
                    ),
                ));
            }
            Ok(Compare::Mask {
                tensor: mask.value.clone(),
            })
        }
        _ => Err(raw
            .problem("one of `where`, `mask` and `unordered`")
            .help("compare: {where: \"i >= j\"}")
            .help("compare: {mask: M}, where M is an input of integers of the same shape")
            .help("compare: {unordered: 1}, for an output of which the order along that axis does not matter")),
    }
}

/// Resolves the names of a tensor's indices in a condition. Each name must have only one meaning there.
fn resolve_index(
    raw: &RawCompare,
    condition: &Spanned<String>,
    tensor: &Tensor,
    scope: &Scope<'_>,
) -> Result<Vec<String>, Mistake> {
    let rank = tensor.dims.len();
    let is_taken = |name: &str| scope.env().contains_key(&Name::plain(name));
    let propose = |problem: Mistake| {
        let names: Vec<String> = (0..rank).map(|at| format!("index{at}")).collect();
        problem.help(format!("name the indices: index: [{}]", names.join(", ")))
    };
    let Some(index) = &raw.index else {
        if rank > INDEX.len() {
            return Err(propose(condition.problem(format!(
                "a tensor of {rank} dimensions has indices without a name"
            ))));
        }
        let used = scope::parse_expression(condition, condition)?;
        let mut names = INDEX.iter().take(rank);
        let is_twice = |name: &&&str| is_taken(name) && used.names().contains(&Name::plain(**name));
        if let Some(name) = names.find(is_twice) {
            return Err(propose(scope.problem(
                condition,
                format!("`{name}` is an index of the element, and a dimension or macro too"),
            )));
        }
        return Ok(INDEX
            .iter()
            .take(rank)
            .map(|&name| name.to_owned())
            .collect());
    };
    if index.len() != rank {
        return Err(index.problem(format!("{} names for {rank} dimensions", index.len())));
    }
    for (at, name) in index.iter().enumerate() {
        check_identifier(name, "index")?;
        let is_repeated = index.iter().take(at).any(|other| other.value == name.value);
        if is_repeated || is_taken(name) {
            return Err(scope.problem(name, format!("`{name}` already has a meaning")));
        }
    }
    Ok(index.iter().map(|name| name.value.clone()).collect())
}

fn resolve_condition(
    condition: &Spanned<String>,
    index: Vec<String>,
    scope: &Scope<'_>,
) -> Result<Compare, Mistake> {
    let expression = scope::parse_expression(condition, condition)?;
    if expression.kind() != ValueKind::Truth {
        return Err(condition
            .problem(format!("`{condition}` is no condition"))
            .help("compare the indices with something: i >= j"));
    }
    let mut constants = BTreeMap::new();
    for name in expression.names() {
        let text = name.to_string();
        if index.contains(&text) {
            continue;
        }
        let Some(value) = scope.env().get(name) else {
            return Err(scope
                .explain_unknown(condition, name)
                .help(format!("the indices are {}", index.join(", "))));
        };
        constants.insert(text, Num(value.as_f64()));
    }
    Ok(Compare::Where {
        condition: Expr {
            text: condition.value.clone(),
            constants,
        },
        index,
    })
}

/// Resolves strides. Each element must have a place of its own: if an input were filled twice, the reference would not
/// see what the kernel sees.
fn resolve_strides(
    raw: &Spanned<Vec<Spanned<Formula>>>,
    dims: &[usize],
    scope: &Scope<'_>,
) -> Result<Vec<usize>, Mistake> {
    if raw.len() != dims.len() {
        return Err(raw.problem(format!(
            "{} strides for {} dimensions",
            raw.len(),
            dims.len()
        )));
    }
    let strides: Vec<usize> = raw
        .iter()
        .map(|stride| {
            scope
                .eval_integer_in(stride, "the stride", 0..=MAX_BYTES as i64)
                .map(|stride| stride as usize)
        })
        .collect::<Result<_, _>>()?;
    let mut order: Vec<_> = strides
        .iter()
        .zip(dims)
        .filter(|(_, dim)| **dim > 1)
        .collect();
    order.sort();
    let mut span = 1u64;
    for (&stride, &dim) in order {
        if (stride as u64) < span {
            return Err(scope.problem(raw, "two elements share an address"));
        }
        span = (dim as u64 - 1)
            .checked_mul(stride as u64)
            .and_then(|reach| reach.checked_add(span))
            .filter(|span| *span <= MAX_BYTES)
            .ok_or_else(|| scope.problem(raw, "the tensor spans more than 16 GiB"))?;
    }
    Ok(strides)
}

fn resolve_codec(
    raw: &Spanned<RawCodec>,
    elem: ElemType,
    dims: &[usize],
    scope: &Scope<'_>,
) -> Result<Codec, Mistake> {
    // These are the largest magnitude, and the code of zero if codes are offset.
    let (largest, offset) = match elem {
        ElemType::E4m3 => (448.0, 0),
        ElemType::E5m2 => (57344.0, 0),
        ElemType::I8 => (127.0, 0),
        ElemType::U8 => (127.0, 128),
        _ => {
            return Err(raw
                .problem("elements of this type cannot have a codec")
                .help("a codec makes e4m3, e5m2, i8 or u8"));
        }
    };
    let positive = |formula: Option<&Spanned<Formula>>, absent: f64| match formula {
        None => Ok(absent),
        Some(formula) => match scope.eval_number(formula)? {
            value if value > 0.0 => Ok(value),
            value => Err(scope.problem(formula, format!("{value} must be positive"))),
        },
    };
    match &raw.value {
        RawCodec::Symmetric {
            per,
            levels,
            zero_point,
            scale_divisor,
        } => {
            let (low, high) = elem.range().unwrap_or((0, 0));
            let zero = match zero_point {
                Some(formula) => scope.eval_integer_in(formula, "the zero point", low..=high)?,
                None => offset,
            };
            let count = positive(levels.as_ref(), largest)?;
            let room = elem
                .range()
                .map_or(largest, |(low, high)| (high - zero).min(zero - low) as f64);
            // i8 has one more code below zero than above, and -128 is not one of the 127 levels.
            if count > room {
                let at = levels.as_ref().map_or(raw.at, |levels| levels.at);
                return Err(Mistake::new(
                    at,
                    format!(
                        "{count} levels around the zero point {zero} do not fit the type: at most {room}"
                    ),
                ));
            }
            Ok(Codec {
                scheme: CodecScheme::Symmetric {
                    levels: Num(count),
                    zero_point: zero,
                    scale_divisor: Num(positive(scale_divisor.as_ref(), count)?),
                },
                block: resolve_block(per, dims, scope)?,
            })
        }
        RawCodec::Blocks(_) => Err(raw
            .problem("`blocks` is the codec of a struct")
            .help("type: {struct: {d: {type: f16}, qs: {type: i8, count: 32}}}")),
        RawCodec::Affine { per, low, high } => {
            let (least, most) = elem.range().ok_or_else(|| {
                raw.problem("an affine codec needs an integer type")
                    .help("i8 or u8")
            })?;
            let from = match low {
                Some(low) => scope.eval_integer_in(low, "low", least..=most)?,
                None => least,
            };
            let to = match high {
                Some(high) => scope.eval_integer_in(high, "high", from.saturating_add(1)..=most)?,
                None => most,
            };
            Ok(Codec {
                scheme: CodecScheme::Affine {
                    low: from,
                    high: to,
                },
                block: resolve_block(per, dims, scope)?,
            })
        }
    }
}

fn resolve_block(
    per: &Spanned<Per>,
    dims: &[usize],
    scope: &Scope<'_>,
) -> Result<Vec<usize>, Mistake> {
    match &per.value {
        Per::Tensor => Ok(dims.to_vec()),
        Per::Axes(axes) => {
            let mut block = dims.to_vec();
            for axis in axes {
                match block.get_mut(axis.value as usize) {
                    Some(extent) => *extent = 1,
                    None => {
                        return Err(axis
                            .problem(format!(
                                "axis {axis} is out of range: the tensor has rank {}",
                                dims.len()
                            ))
                            .help("axes count from 0"));
                    }
                }
            }
            Ok(block)
        }
        Per::Block(extents) => {
            if extents.len() != dims.len() {
                return Err(per.problem(format!(
                    "{} extents for {} dimensions",
                    extents.len(),
                    dims.len()
                )));
            }
            extents
                .iter()
                .map(|extent| {
                    scope
                        .eval_integer_in(extent, "the extent", 1..=i64::from(u32::MAX))
                        .map(|extent| extent as usize)
                })
                .collect()
        }
    }
}
