//! Resolves tensor maps: a tensor as the boxes that TMA copies. Checks whether the driver would make such a map.

use super::raw::{Formula, MapFill, RawIm2col, RawTensorMap};
use super::scope::Scope;
use super::yaml::{Mistake, Spanned};
use model::{Arg, Boxes, ElemType, Im2col, MapElement, Swizzle, Tensor, TensorMap};

// The limits are in the CUDA driver API, `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col`.
const MOST_DIMENSIONS: usize = 5;
const MOST_EXTENT: i64 = 1 << 32;
const MOST_OF_BOX: i64 = 256;
const MOST_CHANNELS: i64 = 256;
const MOST_PIXELS: i64 = 1024;
const MOST_STEP: i64 = 8;
const CHUNK: u64 = 16;
const STRIDES_BELOW: u64 = 1 << 40;

pub fn resolve_tensor_map(
    raw: &Spanned<RawTensorMap>,
    tensor: &Tensor,
    scope: &Scope<'_>,
) -> Result<Arg, Mistake> {
    let element = element(tensor.elem);
    let swizzle = resolve_swizzle(raw.swizzle.as_ref())?;
    let (mut extents, mut strides) = resolve_view(raw, tensor, scope)?;
    let boxes = resolve_boxes(raw, extents.len(), element, scope)?;
    let mut steps = resolve_steps(raw, extents.len(), scope)?;
    let fills_nan = raw
        .fill
        .as_ref()
        .is_some_and(|fill| fill.value == MapFill::Nan);
    if let Some(fill) = &raw.fill
        && fills_nan
        && !is_float(element)
    {
        return Err(fill.problem(format!(
            "`{}` holds {}, and TMA fills floats of 16, 32 and 64 bits alone with NaN",
            tensor.name,
            tensor.elem.name()
        )));
    }
    let ahead = (tensor.offset * tensor.elem.size()) as u64;
    if !ahead.is_multiple_of(CHUNK) {
        return Err(raw.tensor.problem(format!(
            "`{}` begins {ahead} bytes into its allocation, and a tensor map takes a multiple of {CHUNK}",
            tensor.name
        )));
    }
    // gates.yaml begins with the outermost dimension, the driver with the innermost.
    extents.reverse();
    strides.reverse();
    steps.reverse();
    Ok(Arg::TensorMap {
        tensor: tensor.name.clone(),
        map: TensorMap {
            element,
            extents,
            strides,
            boxes,
            steps,
            swizzle,
            fills_nan,
        },
    })
}

/// Returns the element of a map. Codes are bytes to TMA, and signs do not matter to a copy.
fn element(elem: ElemType) -> MapElement {
    match elem {
        ElemType::F64 => MapElement::F64,
        ElemType::F32 => MapElement::F32,
        ElemType::F16 => MapElement::F16,
        ElemType::Bf16 => MapElement::Bf16,
        ElemType::E4m3 | ElemType::E5m2 | ElemType::I8 | ElemType::U8 => MapElement::U8,
        ElemType::I16 | ElemType::U16 => MapElement::U16,
        ElemType::I32 => MapElement::I32,
        ElemType::U32 => MapElement::U32,
        ElemType::I64 => MapElement::I64,
    }
}

fn is_float(element: MapElement) -> bool {
    use MapElement as M;
    match element {
        M::F16 | M::Bf16 | M::F32 | M::Tf32 | M::F64 => true,
        M::U8 | M::U16 | M::U32 | M::I32 | M::U64 | M::I64 => false,
    }
}

/// Returns the extents, and the bytes from one element to the next in each dimension but the innermost. The outermost
/// dimension comes first.
fn resolve_view(
    raw: &Spanned<RawTensorMap>,
    tensor: &Tensor,
    scope: &Scope<'_>,
) -> Result<(Vec<u64>, Vec<u64>), Mistake> {
    let name = &tensor.name;
    let refuse = |message: String| match &raw.shape {
        Some(shape) => scope.problem(shape, message),
        None => scope.problem(&raw.tensor, message),
    };
    let extents: Vec<u64> = match &raw.shape {
        None => tensor.dims.iter().map(|dim| *dim as u64).collect(),
        Some(_) if tensor.strides.is_some() => {
            return Err(refuse(format!(
                "`{name}` has strides, and only a contiguous tensor has other shapes"
            )));
        }
        Some(shape) => resolve_each(shape, "the extent", MOST_EXTENT, scope)?,
    };
    if !(1..=MOST_DIMENSIONS).contains(&extents.len()) {
        let problem = refuse(format!(
            "a tensor map has 1 to {MOST_DIMENSIONS} dimensions, not {}",
            extents.len()
        ));
        return Err(problem.help("shape: [B * H, S, D] joins dimensions of a contiguous tensor"));
    }
    let product = |extents: &[u64]| {
        extents
            .iter()
            .try_fold(1_u64, |product, extent| product.checked_mul(*extent))
    };
    let held: Vec<u64> = tensor.dims.iter().map(|dim| *dim as u64).collect();
    let (wanted, held) = (product(&extents), product(&held));
    if wanted != held {
        let shown =
            |count: Option<u64>| count.map_or("too many".to_owned(), |number| number.to_string());
        return Err(refuse(format!(
            "the shape {extents:?} has {} elements, and `{name}` has {}",
            shown(wanted),
            shown(held)
        )));
    }
    let bytes = tensor.elem.size() as u64;
    let strides: Vec<u64> = match &tensor.strides {
        Some(strides) => {
            let Some((1, outer)) = strides.split_last() else {
                return Err(refuse(format!(
                    "the last stride of `{name}` is not 1: to TMA the elements of a row lie side by side"
                )));
            };
            outer
                .iter()
                .map(|extent| (*extent as u64).saturating_mul(bytes))
                .collect()
        }
        None => (1..extents.len())
            .map(|at| extents.iter().skip(at).product::<u64>() * bytes)
            .collect(),
    };
    for (at, stride) in strides.iter().enumerate() {
        if !stride.is_multiple_of(CHUNK) || *stride >= STRIDES_BELOW {
            return Err(refuse(format!(
                "the stride of dimension {at} of `{name}` is {stride} bytes; TMA needs a multiple of {CHUNK} below 2^40"
            )));
        }
    }
    Ok((extents, strides))
}

/// Resolves what one copy takes of each dimension, the innermost first: a box, or the pixels of an im2col map.
fn resolve_boxes(
    raw: &Spanned<RawTensorMap>,
    dimensions: usize,
    element: MapElement,
    scope: &Scope<'_>,
) -> Result<Boxes, Mistake> {
    match (&raw.extents, &raw.im2col) {
        (Some(extents), None) => {
            let extents = resolve_box(raw, extents, dimensions, element, scope)?;
            Ok(Boxes::Tiled(extents))
        }
        (None, Some(im2col)) => {
            let im2col = resolve_im2col(raw, im2col, dimensions, element, scope)?;
            Ok(Boxes::Im2col(im2col))
        }
        (Some(_), Some(im2col)) => {
            Err(im2col.problem("a map has either a `box` or `im2col`, not both"))
        }
        (None, None) => Err(raw.problem("a map needs a `box`, or `im2col` in its place")),
    }
}

/// Returns the extents of a box in elements, the dimension that is contiguous in memory first, as CUDA counts them.
fn resolve_box(
    raw: &RawTensorMap,
    extents: &Spanned<Vec<Spanned<Formula>>>,
    dimensions: usize,
    element: MapElement,
    scope: &Scope<'_>,
) -> Result<Vec<u32>, Mistake> {
    let values = resolve_each(extents, "the extent", MOST_OF_BOX, scope)?;
    check_count(extents, "box", values.len(), dimensions, scope)?;
    if let (Some(extent), Some(spot)) = (values.last(), extents.last()) {
        check_row(
            raw,
            spot,
            "a row of the box",
            extent * element.bytes(),
            scope,
        )?;
    }
    Ok(values
        .into_iter()
        .rev()
        .map(|extent| extent as u32)
        .collect())
}

fn resolve_im2col(
    raw: &RawTensorMap,
    im2col: &Spanned<RawIm2col>,
    dimensions: usize,
    element: MapElement,
    scope: &Scope<'_>,
) -> Result<Im2col, Mistake> {
    // 16 bits hold a corner's offsets in all dimensions but images and channels.
    let most = match dimensions {
        3 => 1 << 15,
        4 => 1 << 7,
        5 => 1 << 4,
        _ => {
            let what = format!("im2col takes 3 to 5 dimensions, not {dimensions}");
            return Err(scope.problem(im2col, what));
        }
    };
    let corner = |key: &str, formulas: &Spanned<Vec<Spanned<Formula>>>| {
        let (has, of) = (formulas.len(), dimensions - 2);
        if has != of {
            let what = format!("`{key}` has {has} of {of} items, none for images and channels");
            return Err(scope.problem(formulas, what));
        }
        let value = |formula| scope.eval_integer_in(formula, "the offset", -most..=most - 1);
        formulas
            .iter()
            .rev()
            .map(|formula| value(formula).map(|value| value as i32))
            .collect::<Result<Vec<_>, _>>()
    };
    let (lower, upper) = (
        corner("lower", &im2col.lower)?,
        corner("upper", &im2col.upper)?,
    );
    let channels = scope.eval_integer_in(&im2col.channels, "the number", 1..=MOST_CHANNELS)?;
    let pixels = scope.eval_integer_in(&im2col.pixels, "the number", 1..=MOST_PIXELS)?;
    let bytes = channels as u64 * element.bytes();
    check_row(raw, &im2col.channels, "a pixel", bytes, scope)?;
    Ok(Im2col {
        lower,
        upper,
        channels: channels as u32,
        pixels: pixels as u32,
    })
}

/// Checks the bytes of a row. TMA needs a multiple of 16, and a swizzle limits the row to its own width. `name` says
/// for the message which row it is.
fn check_row(
    raw: &RawTensorMap,
    spot: &Spanned<Formula>,
    name: &str,
    bytes: u64,
    scope: &Scope<'_>,
) -> Result<(), Mistake> {
    if !bytes.is_multiple_of(CHUNK) {
        let what = format!("{name} has {bytes} bytes; TMA needs a multiple of {CHUNK}");
        return Err(scope.problem(spot, what));
    }
    if let Some(swizzle) = &raw.swizzle
        && bytes > u64::from(swizzle.value)
    {
        let most = swizzle.value;
        let what = format!("{name} has {bytes} bytes; with swizzle: {most} it has at most {most}");
        let problem = scope.problem(spot, what);
        return Err(problem.help("copy wider rows as several boxes"));
    }
    Ok(())
}

fn resolve_steps(
    raw: &RawTensorMap,
    dimensions: usize,
    scope: &Scope<'_>,
) -> Result<Vec<u32>, Mistake> {
    let Some(steps) = &raw.steps else {
        return Ok(vec![1; dimensions]);
    };
    let values = resolve_each(steps, "the step", MOST_STEP, scope)?;
    check_count(steps, "steps", values.len(), dimensions, scope)?;
    if let (Some(step), Some(spot)) = (values.last(), steps.last())
        && *step != 1
    {
        return Err(scope.problem(
            spot,
            format!("the step of the innermost dimension is {step}; TMA has none there but 1"),
        ));
    }
    Ok(values.into_iter().map(|step| step as u32).collect())
}

fn resolve_swizzle(raw: Option<&Spanned<u32>>) -> Result<Swizzle, Mistake> {
    match raw {
        None => Ok(Swizzle::None),
        Some(spot) => match spot.value {
            32 => Ok(Swizzle::Bytes32),
            64 => Ok(Swizzle::Bytes64),
            128 => Ok(Swizzle::Bytes128),
            other => Err(spot
                .problem(format!(
                    "{other} is no swizzle: there are 32, 64 and 128 bytes"
                ))
                .help("without a swizzle, leave the key out")),
        },
    }
}

fn resolve_each(
    formulas: &[Spanned<Formula>],
    what: &str,
    most: i64,
    scope: &Scope<'_>,
) -> Result<Vec<u64>, Mistake> {
    let value = |formula| scope.eval_integer_in(formula, what, 1..=most);
    formulas
        .iter()
        .map(|formula| value(formula).map(|value| value as u64))
        .collect()
}

fn check_count<T>(
    spot: &Spanned<T>,
    key: &str,
    has: usize,
    dimensions: usize,
    scope: &Scope<'_>,
) -> Result<(), Mistake> {
    if has == dimensions {
        return Ok(());
    }
    Err(scope.problem(
        spot,
        format!("`{key}` has {has} of {dimensions} items, one for each dimension of the map"),
    ))
}
