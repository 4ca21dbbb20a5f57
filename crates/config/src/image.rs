//! Resolves textures and surfaces: a tensor of one to three dimensions as an image. Knows which images CUDA supports.

use super::raw::{RawSurface, RawTexture};
use super::yaml::{Mistake, Position, Spanned};
use model::{
    Arg, ElemType, Image, ImageMemory, Sampler, Tensor, TextureAddress, TextureFilter, TextureRead,
};

pub fn resolve_texture(raw: &Spanned<RawTexture>, tensor: &Tensor) -> Result<Arg, Mistake> {
    let memory = raw.memory.as_ref().map(|memory| memory.value);
    let image = resolve_image(
        raw.at,
        tensor,
        raw.channels.as_ref(),
        raw.layered.unwrap_or_default(),
        memory.unwrap_or(ImageMemory::Array),
        Kind::Texture,
    )?;
    let sampler = Sampler {
        filter: raw
            .filter
            .as_ref()
            .map_or(TextureFilter::Point, |filter| filter.value),
        address: raw
            .address
            .as_ref()
            .map_or(TextureAddress::Clamp, |address| address.value),
        normalized: raw.normalized.unwrap_or_default(),
        read: raw
            .read
            .as_ref()
            .map_or(TextureRead::Element, |read| read.value),
    };
    let refuse = |at, what: &str| Err(Mistake::new(at, what));
    if let Some(read) = &raw.read
        && sampler.read == TextureRead::NormalizedFloat
        && (image.elem.is_float() || image.elem.size() > 2)
    {
        return refuse(
            read.at,
            "only integers of 8 and 16 bits are read as `normalized_float`",
        );
    }
    if let Some(filter) = &raw.filter
        && sampler.filter == TextureFilter::Linear
        && !image.elem.is_float()
        && sampler.read == TextureRead::Element
    {
        return Err(filter
            .problem("a linear filter gives floats, and the tensor holds integers")
            .help("read: normalized_float, which integers of 8 and 16 bits can be read as"));
    }
    if let Some(address) = &raw.address
        && matches!(
            sampler.address,
            TextureAddress::Wrap | TextureAddress::Mirror
        )
        && !sampler.normalized
    {
        return Err(address
            .problem("wrap and mirror need normalised coordinates")
            .help("normalized: true, where the kernel's coordinates go from 0 to 1"));
    }
    if image.memory == ImageMemory::Linear
        && (sampler.filter == TextureFilter::Linear
            || sampler.normalized
            || sampler.address != TextureAddress::Clamp)
    {
        return refuse(
            raw.at,
            "linear memory is read by the number of the texel: it has no filter, address mode or normalised \
             coordinates",
        );
    }
    Ok(Arg::Texture {
        tensor: tensor.name.clone(),
        image,
        sampler,
    })
}

pub fn resolve_surface(raw: &Spanned<RawSurface>, tensor: &Tensor) -> Result<Arg, Mistake> {
    let image = resolve_image(
        raw.at,
        tensor,
        raw.channels.as_ref(),
        raw.layered.unwrap_or_default(),
        ImageMemory::Array,
        Kind::Surface,
    )?;
    Ok(Arg::Surface {
        tensor: tensor.name.clone(),
        image,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Texture,
    Surface,
}

fn resolve_image(
    at: Position,
    tensor: &Tensor,
    channels: Option<&Spanned<u32>>,
    layered: bool,
    memory: ImageMemory,
    kind: Kind,
) -> Result<Image, Mistake> {
    let name = &tensor.name;
    let refuse = |message: String| Mistake::new(at, message);
    if !matches!(
        tensor.elem,
        ElemType::U8
            | ElemType::I8
            | ElemType::U16
            | ElemType::I16
            | ElemType::U32
            | ElemType::I32
            | ElemType::F16
            | ElemType::F32
    ) {
        return Err(refuse(format!(
            "`{name}` holds {}, which no texture or surface does",
            tensor.elem.name()
        ))
        .help("u8, i8, u16, i16, u32, i32, f16 or f32"));
    }
    if tensor.strides.is_some() {
        return Err(refuse(format!(
            "`{name}` has strides, and an image has none"
        )));
    }
    if tensor.offset > 0 {
        return Err(refuse(format!(
            "`{name}` has an `offset`, and an image begins with its allocation"
        )));
    }
    let mut dims: &[usize] = &tensor.dims;
    let count = channels.map_or(1, |channels| channels.value);
    if let Some(channels) = channels {
        if !matches!(count, 1 | 2 | 4) {
            return Err(channels.problem("an image has 1, 2 or 4 channels"));
        }
        if count > 1 {
            match dims.split_last() {
                Some((last, rest)) if *last == count as usize => dims = rest,
                _ => {
                    return Err(channels.problem(format!(
                        "the last dimension of `{name}`, {:?}, is not {count}",
                        tensor.dims
                    )));
                }
            }
        }
    }
    let mut layers = None;
    if layered {
        let Some((first, rest)) = dims.split_first() else {
            return Err(refuse(format!("`{name}` has no dimension for layers")));
        };
        (layers, dims) = (Some(*first), rest);
    }
    let most_axes = if layered { 2 } else { 3 };
    if dims.is_empty() || dims.len() > most_axes {
        return Err(refuse(format!(
            "an image has 1 to {most_axes} dimensions, and `{name}` leaves {}",
            dims.len()
        ))
        .help("channels: 4 takes the last dimension, layered: true the first"));
    }
    if memory == ImageMemory::Linear && (dims.len() != 1 || layered) {
        return Err(Mistake::new(
            at,
            "linear memory has one dimension and no layers",
        ));
    }
    let mut extents = [1; 3];
    let limits = most(kind, memory, layered, dims.len());
    let at_most = |dim: usize, most: u32| {
        u32::try_from(dim)
            .ok()
            .filter(|dim| *dim <= most)
            .ok_or_else(|| {
                refuse(format!(
                    "a dimension of `{name}` is {dim}, and CUDA allows {most} in such an image"
                ))
            })
    };
    for ((to, dim), most) in extents.iter_mut().zip(dims.iter().rev()).zip(limits) {
        *to = at_most(*dim, most)?;
    }
    let layers = layers.map(|layers| at_most(layers, MOST_LAYERS));
    Ok(Image {
        elem: tensor.elem,
        channels: count,
        extents,
        rank: dims.len() as u8,
        layers: layers.transpose()?,
        memory,
    })
}

/// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": from 7.5 on.
const MOST_LAYERS: u32 = 2048;

/// Returns the largest x, y and z that CUDA supports for this kind of image.
fn most(kind: Kind, memory: ImageMemory, layered: bool, rank: usize) -> [u32; 3] {
    match (rank, layered, memory, kind) {
        (1, _, ImageMemory::Linear, _) => [1 << 28, 1, 1],
        (1, true, ..) | (1, _, _, Kind::Surface) => [32_768, 1, 1],
        (1, ..) => [131_072, 1, 1],
        (2, true, ..) => [32_768, 32_768, 1],
        (2, ..) => [131_072, 65_536, 1],
        _ => [16_384; 3],
    }
}

/// Checks the arrays of a case. An array is memory of its own, so a tensor in an array cannot be reached in any other
/// way, and all that read or write it must see the same image. `args` are the arguments of all steps.
pub fn check_together(args: &[&Arg], at: Position) -> Result<(), Mistake> {
    let mut seen: Vec<(&str, Option<Image>)> = Vec::new();
    let mut written: Vec<&str> = Vec::new();
    collect(args.iter().copied(), &mut seen, &mut written);
    for (name, image) in &seen {
        let Some(image) = image else { continue };
        let others = seen.iter().filter(|(other, _)| other == name);
        for (_, other) in others {
            match other {
                None => {
                    return Err(Mistake::new(
                        at,
                        format!(
                            "`{name}` is passed as a pointer and as a texture or surface, whose array is other memory"
                        ),
                    )
                    .help("memory: linear, for a texture of one dimension that is read by tex1Dfetch"));
                }
                Some(other) if other != image => {
                    return Err(Mistake::new(
                        at,
                        format!("`{name}` is passed as two different images"),
                    )
                    .help("give all its textures and surfaces the same `channels` and `layered`"));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// Returns the tensors that are in an array and that no surface reaches. A kernel cannot write them.
pub fn only_read<'a>(args: &[&'a Arg]) -> Vec<&'a str> {
    let (mut seen, mut written) = (Vec::new(), Vec::new());
    collect(args.iter().copied(), &mut seen, &mut written);
    seen.into_iter()
        .filter(|(_, image)| image.is_some())
        .map(|(name, _)| name)
        .filter(|name| !written.contains(name))
        .collect()
}

/// Collects each tensor with its array, or with `None` if the image is the memory itself, and the tensors that a
/// surface reaches.
fn collect<'a>(
    args: impl Iterator<Item = &'a Arg>,
    seen: &mut Vec<(&'a str, Option<Image>)>,
    written: &mut Vec<&'a str>,
) {
    for arg in args {
        match arg {
            Arg::Tensor { name } | Arg::TensorMap { tensor: name, .. } => seen.push((name, None)),
            Arg::Texture { tensor, image, .. } => {
                let array = (image.memory == ImageMemory::Array).then_some(*image);
                seen.push((tensor, array));
            }
            Arg::Surface { tensor, image } => {
                seen.push((tensor, Some(*image)));
                written.push(tensor);
            }
            Arg::Struct { fields } => collect(fields.iter(), seen, written),
            _ => {}
        }
    }
}
