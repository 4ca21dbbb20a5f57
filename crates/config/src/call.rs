//! Resolves how a kernel is called: its entry or launcher, its arguments, and its launch.

use super::image;
use super::raw::{Formula, Launcher, RawArg, RawLaunch};
use super::scope::{Scope, is_cut_at_a_comma};
use super::tensor_map;
use super::yaml::{Mistake, Spanned};
use model::{
    Arg, CType, Callable, Codec, CodecScheme, Launch, LaunchedEntry, Num, ScalarType, ScalarValue,
    Tensor,
};

/// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the same for every
/// architecture since 3.0, and so known before there is a device.
const MAX_GRID: [i64; 3] = [i32::MAX as i64, 65_535, 65_535];
const MAX_BLOCK: [i64; 3] = [1024, 1024, 64];
const MAX_THREADS: i64 = 1024;
/// The largest cluster. 8 is portable, and 16 is the most that any device allows.
const MAX_CLUSTER: i64 = 16;

pub fn resolve_launch(raw: &Spanned<RawLaunch>, scope: &Scope<'_>) -> Result<Launch, Mistake> {
    let grid = resolve_extents(&raw.grid, "grid", MAX_GRID, scope)?;
    let block = resolve_extents(&raw.block, "block", MAX_BLOCK, scope)?;
    let threads: i64 = block.iter().map(|&extent| i64::from(extent)).product();
    if threads > MAX_THREADS {
        return Err(scope.problem(
            &raw.block,
            format!("a block has {threads} threads; the limit is {MAX_THREADS}"),
        ));
    }
    let cluster = match &raw.cluster {
        None => None,
        Some(raw) => {
            let cluster = resolve_extents(raw, "cluster", [MAX_CLUSTER; 3], scope)?;
            let blocks: u32 = cluster.iter().product();
            if i64::from(blocks) > MAX_CLUSTER {
                return Err(scope.problem(
                    raw,
                    format!("a cluster has {blocks} blocks; the limit is {MAX_CLUSTER}"),
                ));
            }
            if grid
                .iter()
                .zip(cluster)
                .any(|(blocks, cluster)| blocks % cluster != 0)
            {
                return Err(scope.problem(
                    raw,
                    format!("the grid {grid:?} is not a multiple of the cluster {cluster:?}"),
                ));
            }
            Some(cluster)
        }
    };
    Ok(Launch {
        grid,
        block,
        cluster,
        cooperative: raw.cooperative.unwrap_or_default(),
        dynamic_shared: resolve_dynamic_shared(raw.dynamic_shared.as_ref(), scope)?,
    })
}

fn resolve_extents(
    raw: &Spanned<Vec<Spanned<Formula>>>,
    what: &str,
    most: [i64; 3],
    scope: &Scope<'_>,
) -> Result<[u32; 3], Mistake> {
    if !(1..=3).contains(&raw.len()) {
        if let Some(cut) = raw
            .iter()
            .find(|argument| is_cut_at_a_comma(&argument.value.0))
        {
            scope.eval_integer(cut)?;
        }
        return Err(raw.problem(format!(
            "a {what} has one to three extents, not {}",
            raw.len()
        )));
    }
    let mut extents = [1; 3];
    for (index, ((extent, formula), most)) in
        extents.iter_mut().zip(&raw.value).zip(most).enumerate()
    {
        let what = format!("{what} {}", ["x", "y", "z"].get(index).unwrap_or(&""));
        // The value fits, because it is at most i32::MAX.
        *extent = scope.eval_integer_in(formula, &what, 1..=most)? as u32;
    }
    Ok(extents)
}

fn resolve_dynamic_shared(
    formula: Option<&Spanned<Formula>>,
    scope: &Scope<'_>,
) -> Result<u32, Mistake> {
    match formula {
        None => Ok(0),
        Some(formula) => scope
            .eval_integer_in(formula, "dynamic shared memory", 0..=i64::from(u32::MAX))
            .map(|bytes| bytes as u32),
    }
}

/// Resolves the launcher of a unit. `scopes` has every shape of the file, selected or not, so that the unit does not
/// depend on a filter.
pub fn resolve_launcher(
    raw: &Spanned<Launcher>,
    args: &[Arg],
    arg_spots: &[Spanned<RawArg>],
    scopes: &[Scope<'_>],
) -> Result<Callable, Mistake> {
    let signature = args
        .iter()
        .zip(arg_spots)
        .map(|(arg, spot)| match arg {
            Arg::Tensor { .. }
            | Arg::Scales { .. }
            | Arg::ZeroPoints { .. }
            | Arg::Bytes { .. }
            | Arg::Null => Ok(CType::Pointer),
            Arg::Scalar { elem, .. } => Ok(CType::Scalar(*elem)),
            Arg::Texture { .. } | Arg::Surface { .. } => Ok(CType::Scalar(ScalarType::U64)),
            Arg::Stream => Ok(CType::Stream),
            Arg::TensorMap { .. } => Err(spot.problem("a launcher cannot take a tensor map")
            .help("pass the tensor, and make the map in the launcher; or call the kernel itself, by `entry`")),
            Arg::Struct { .. } | Arg::Pad { .. } | Arg::Raw { .. } => Err(spot.problem("a launcher cannot take a struct by value")
            .help("pass its fields one by one, and build the struct in the launcher")),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let streams = signature
        .iter()
        .filter(|ctype| **ctype == CType::Stream)
        .count();
    if streams != 1 {
        return Err(raw
            .problem(format!(
                "a launcher must take the stream exactly once, not {streams} times"
            ))
            .help("add `stream` to args, where the function has its cudaStream_t"));
    }
    if raw.launches.is_empty() {
        return Err(raw
            .launches
            .problem("a launcher must list the kernels that it launches"));
    }
    let launches = raw
        .launches
        .iter()
        .map(|launched| {
            let mut most = 0;
            for scope in scopes {
                most = most.max(resolve_dynamic_shared(
                    launched.dynamic_shared.as_ref(),
                    scope,
                )?);
            }
            Ok(LaunchedEntry {
                name: check_entry_name(&launched.entry, "a kernel")?,
                dynamic_shared: most,
            })
        })
        .collect::<Result<_, Mistake>>()?;
    Ok(Callable::Launcher {
        function: check_c_name(&raw.function)?,
        signature,
        launches,
    })
}

/// Checks the name of an entry. `of` says for the message what has this name.
pub fn check_entry_name(name: &Spanned<String>, of: &str) -> Result<String, Mistake> {
    let trimmed = name.trim();
    if trimmed.is_empty() || trimmed.contains(['\n', ';', '{', '"', '\\']) {
        return Err(name
            .problem(format!("not the name of {of}"))
            .help("write it as in the source: k, ns::k, or \"k<float, 4>\""));
    }
    Ok(trimmed.to_owned())
}

/// Reads the name of an entry at one shape: `k<{D / 2}>` has the value of an expression between braces.
pub fn resolve_entry_name(name: &Spanned<String>, scope: &Scope<'_>) -> Result<String, Mistake> {
    let (mut text, mut rest) = (String::new(), name.as_str());
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((formula, after)) = behind.split_once('}') else {
            return Err(name.problem("`{` without a `}`: an expression ends with it"));
        };
        let value = scope.eval_integer(&name.with(Formula(formula.to_owned())))?;
        text = text + before + &value.to_string();
        rest = after;
    }
    check_entry_name(&name.with(text + rest), "a kernel")
}

pub fn check_c_name(name: &Spanned<String>) -> Result<String, Mistake> {
    if model::expr::is_identifier(name) {
        return Ok(name.value.clone());
    }
    Err(name.problem(format!("`{name}` is not the name of a function")))
}

/// The kinds of function that a step calls. Each accepts other arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    Kernel,
    Launcher,
    Reference,
}

pub fn resolve_args(
    raw: &[Spanned<RawArg>],
    tensors: &[Tensor],
    callee: Callee,
    scope: &Scope<'_>,
) -> Result<Vec<Arg>, Mistake> {
    raw.iter()
        .map(|spot| resolve_arg(spot, tensors, callee, scope))
        .collect()
}

fn resolve_arg(
    spot: &Spanned<RawArg>,
    tensors: &[Tensor],
    callee: Callee,
    scope: &Scope<'_>,
) -> Result<Arg, Mistake> {
    use RawArg as R;
    let refuse = |what: &str| Err(spot.problem(what));
    let integer = |formula, elem: ScalarType| {
        let (low, high) = elem.number().range().unwrap_or((i64::MIN, i64::MAX));
        Ok(Arg::Scalar {
            elem,
            value: ScalarValue::Int(scope.eval_integer_in(formula, "the argument", low..=high)?),
        })
    };
    let float = |formula, elem, most: f64| {
        let value = scope.eval_number(formula)?;
        if value.abs() > most {
            return Err(scope.problem(
                formula,
                format!("{value} is out of range: the largest value of the type is {most}"),
            ));
        }
        Ok(Arg::Scalar {
            elem,
            value: ScalarValue::Float(Num(value)),
        })
    };
    match &spot.value {
        R::Tensor(name) => Ok(Arg::Tensor {
            name: find_tensor(name, tensors)?.name.clone(),
        }),
        R::Scales(_) | R::ZeroPoints(_) if callee == Callee::Reference => {
            refuse("a reference gets dequantised floats; it cannot take scales or zero points")
        }
        R::Scales(name) => match find_tensor(name, tensors)? {
            Tensor {
                codec:
                    Some(Codec {
                        scheme: CodecScheme::Blocks(_),
                        ..
                    }),
                ..
            } => Err(name.problem(format!("the scales of `{name}` are in its structs"))),
            Tensor {
                codec: Some(_),
                name,
                ..
            } => Ok(Arg::Scales {
                tensor: name.clone(),
            }),
            _ => Err(name.problem(format!("`{name}` has no codec, so it has no scales"))),
        },
        R::ZeroPoints(name) => match find_tensor(name, tensors)?
            .codec
            .as_ref()
            .map(|codec| &codec.scheme)
        {
            Some(CodecScheme::Affine { .. }) => Ok(Arg::ZeroPoints {
                tensor: name.value.clone(),
            }),
            _ => Err(name.problem(format!(
                "`{name}` has no affine codec, so it has no zero points"
            ))),
        },
        R::Bytes(name) => match find_tensor(name, tensors)? {
            _ if callee != Callee::Reference => {
                refuse("only a reference takes `bytes`; to a kernel they are the `tensor`")
            }
            Tensor { role, name, .. } if role.is_drawn() => Ok(Arg::Bytes {
                tensor: name.clone(),
            }),
            _ => Err(name.problem(format!(
                "`{name}` is not an input; a reference reads inputs"
            ))),
        },
        R::Texture(_) | R::Surface(_) if callee == Callee::Reference => {
            refuse("a reference takes the `tensor`, and neither textures nor surfaces")
        }
        R::Texture(raw) => image::resolve_texture(raw, find_tensor(&raw.tensor, tensors)?),
        R::Surface(raw) => image::resolve_surface(raw, find_tensor(&raw.tensor, tensors)?),
        R::TensorMap(_) if callee == Callee::Reference => {
            refuse("a reference takes the `tensor`, and no tensor map")
        }
        R::TensorMap(raw) => {
            tensor_map::resolve_tensor_map(raw, find_tensor(&raw.tensor, tensors)?, scope)
        }
        R::Nullptr => Ok(Arg::Null),
        R::Stream if callee == Callee::Launcher => Ok(Arg::Stream),
        R::Stream => refuse("only a launcher can take a stream"),
        R::Bool(formula) => integer(formula, ScalarType::Bool),
        R::I8(formula) => integer(formula, ScalarType::I8),
        R::U8(formula) => integer(formula, ScalarType::U8),
        R::I16(formula) => integer(formula, ScalarType::I16),
        R::U16(formula) => integer(formula, ScalarType::U16),
        R::I32(formula) => integer(formula, ScalarType::I32),
        R::U32(formula) => integer(formula, ScalarType::U32),
        R::I64(formula) => integer(formula, ScalarType::I64),
        R::U64(formula) => integer(formula, ScalarType::U64),
        R::F16(formula) => float(formula, ScalarType::F16, 65_504.0),
        R::Bf16(formula) => float(formula, ScalarType::Bf16, BF16_MAX),
        R::F32(formula) => float(formula, ScalarType::F32, f64::from(f32::MAX)),
        R::F64(formula) => float(formula, ScalarType::F64, f64::MAX),
        R::Struct(_) if callee == Callee::Reference => {
            refuse("a reference cannot take a struct; pass its fields one by one")
        }
        R::Struct(fields) if fields.is_empty() => refuse("a struct needs at least one field"),
        R::Struct(fields) => Ok(Arg::Struct {
            fields: fields
                .iter()
                .map(|field| match &field.value {
                    R::Pad(bytes) if (1..=4096).contains(&bytes.value) => {
                        Ok(Arg::Pad { bytes: bytes.value })
                    }
                    R::Pad(bytes) => Err(bytes.problem("padding must be 1 to 4096 bytes")),
                    // CUDA 12 aligns a map inside a struct to 64 bytes, CUDA 13 to 128.
                    R::TensorMap(_) => Err(field.problem(
                        "a tensor map is a parameter of its own, and no field of a struct",
                    )),
                    _ => resolve_arg(field, tensors, callee, scope),
                })
                .collect::<Result<_, _>>()?,
        }),
        R::Pad(_) => refuse("only a struct can have padding"),
    }
}

/// The largest finite bf16: (2 - 2^-7) * 2^127.
const BF16_MAX: f64 = 3.389_531_389_251_535_5e38;

/// Returns the tensor with this name.
pub fn find_tensor<'a>(
    name: &Spanned<String>,
    tensors: &'a [Tensor],
) -> Result<&'a Tensor, Mistake> {
    tensors
        .iter()
        .find(|tensor| tensor.name == name.value)
        .ok_or_else(|| {
            let known = tensors.iter().map(|tensor| tensor.name.as_str());
            name.unknown("tensor", known)
        })
}

/// Returns the names of the tensors that the arguments give the kernel.
pub fn passed_tensors(args: &[Arg]) -> Vec<&str> {
    args.iter()
        .flat_map(|arg| match arg {
            Arg::Tensor { name } => vec![name.as_str()],
            Arg::Texture { tensor, .. }
            | Arg::Surface { tensor, .. }
            | Arg::TensorMap { tensor, .. } => vec![tensor.as_str()],
            Arg::Struct { fields } => passed_tensors(fields),
            _ => Vec::new(),
        })
        .collect()
}
