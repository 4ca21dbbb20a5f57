//! Makes the inputs of a case: drawn, quantised, and laid out as the device reads them.

use super::error::InputError;
use super::generator::{GENERATOR, Stream};
use super::layout::Layout;
use super::{Values, captured, codec, elem, fill, packed, poison};
use model::{Case, Codec, CodecScheme, Fill, Role, Tensor};
use std::collections::BTreeMap;
use system::error::Error;

/// Selects the values that a reference computes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The values before quantisation if the tensor has a codec, and else the same as `Seen`.
    Original,
    /// The values as the kernel sees them.
    Seen,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TensorData {
    /// The values before quantisation. Only if the tensor has a codec. Rounding to an element type is no codec: the
    /// values of an f16 tensor are f16 values.
    pub original: Option<Values>,
    /// The values as the kernel sees them: rounded to the element type, or dequantised.
    pub seen: Values,
    /// The device image of `Tensor::span` elements. Gaps of the strides hold the `poison` of launch 1.
    pub bytes: Vec<u8>,
    /// The scales of the codec, contiguous over `Codec::scale_dims`.
    pub scales: Option<Vec<f32>>,
    /// The zero points of an affine codec, shaped as the scales.
    pub zero_points: Option<Vec<i32>>,
}

impl TensorData {
    /// Returns data without a codec. `bytes` are contiguous.
    fn plain(seen: Values, bytes: Vec<u8>) -> Self {
        Self {
            original: None,
            seen,
            bytes,
            scales: None,
            zero_points: None,
        }
    }

    pub fn values(&self, view: View) -> &Values {
        match (view, &self.original) {
            (View::Original, Some(original)) => original,
            (View::Original, None) | (View::Seen, _) => &self.seen,
        }
    }
}

/// The data of every tensor that is drawn, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    pub tensors: BTreeMap<String, TensorData>,
}

/// Generates the inputs of a case for one seed, the same bits on every machine. A tensor depends on the seed and on its
/// own name, dimensions, strides, element type, fill and codec, and on nothing else.
///
/// # Errors
/// Fails with a usage error if a fill or codec does not suit its tensor.
pub fn generate(case: &Case, seed: u64) -> Result<Inputs, Error> {
    let mut tensors = BTreeMap::new();
    for tensor in &case.tensors {
        if let Some(data) = draw(case, tensor, seed)? {
            tensors.insert(tensor.name.clone(), data);
        }
    }
    Ok(Inputs { tensors })
}

/// Draws one tensor of the case. Returns `None` for a tensor that is not drawn.
///
/// # Errors
/// Fails as `generate` does.
pub fn draw(case: &Case, tensor: &Tensor, seed: u64) -> Result<Option<TensorData>, Error> {
    let made = match tensor.role {
        Role::Out | Role::Inout | Role::Scratch if tensor.codec.is_some() => {
            Err(InputError::OutputCodec)
        }
        Role::Scratch if tensor.fill.is_some() => make(tensor, seed).map(Some),
        Role::Out | Role::Scratch => Layout::new(tensor)
            .validate()
            .map(|()| None)
            .map_err(InputError::from),
        Role::In | Role::Inout | Role::Reference => make(tensor, seed).map(Some),
    };
    made.map_err(|why| {
        Error::usage(format!("{}: tensor `{}`: {why}", case.id, tensor.name)).caused_by(why)
    })
}

/// Digests everything that is uploaded: equal digests mean equal inputs.
pub fn digest(inputs: &Inputs) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(GENERATOR.as_bytes());
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update_rayon(bytes);
    };
    for (name, data) in &inputs.tensors {
        part(name.as_bytes());
        part(&data.bytes);
        let scales = data
            .scales
            .iter()
            .flatten()
            .flat_map(|scale| scale.to_le_bytes());
        part(&scales.collect::<Vec<u8>>());
        let zeros = data
            .zero_points
            .iter()
            .flatten()
            .flat_map(|zero| zero.to_le_bytes());
        part(&zeros.collect::<Vec<u8>>());
    }
    hasher.finalize()
}

fn make(tensor: &Tensor, seed: u64) -> Result<TensorData, InputError> {
    let layout = Layout::new(tensor);
    layout.validate()?;
    if let Some(Fill::Captured { content }) = &tensor.fill {
        let bytes = captured::read(content)?;
        let wanted = tensor.span() * tensor.elem.size();
        if bytes.len() != wanted {
            return Err(InputError::CapturedBytes {
                captured: bytes.len(),
                wanted,
            });
        }
        return Ok(TensorData::plain(elem::decode(tensor.elem, &bytes), bytes));
    }
    let drawn = match &tensor.fill {
        Some(Fill::Struct { fields }) => packed::draw(tensor, fields, seed)?,
        _ => fill::draw(tensor, &Stream::new(seed, &tensor.name))?,
    };
    let data = match (&tensor.codec, drawn) {
        (Some(codec), Values::F32(values)) => coded(tensor, codec, values)?,
        (_, drawn) => plain(tensor, drawn)?,
    };
    Ok(TensorData {
        bytes: layout.scatter(tensor, data.bytes, &poison::poison(tensor.elem, 1)),
        ..data
    })
}

fn coded(tensor: &Tensor, codec: &Codec, values: Vec<f32>) -> Result<TensorData, InputError> {
    if let CodecScheme::Blocks(blocks) = &codec.scheme {
        let (seen, bytes) = packed::encode(blocks, tensor, &values)?;
        return Ok(TensorData {
            original: Some(Values::F32(values)),
            ..TensorData::plain(Values::F32(seen), bytes)
        });
    }
    let coded = codec::encode(codec, tensor.elem, &tensor.dims, &values)?;
    Ok(TensorData {
        original: Some(Values::F32(values)),
        seen: Values::F32(coded.seen),
        bytes: coded.bytes,
        scales: Some(coded.scales),
        zero_points: coded.zero_points,
    })
}

fn plain(tensor: &Tensor, drawn: Values) -> Result<TensorData, InputError> {
    let bytes = elem::encode(tensor.elem, &drawn)?;
    let seen = elem::decode(tensor.elem, &bytes);
    if let (Values::F32(drawn), Values::F32(seen)) = (&drawn, &seen) {
        let lost = drawn
            .iter()
            .zip(seen)
            .find(|(drawn, seen)| drawn.is_finite() && !seen.is_finite());
        if let Some((&value, _)) = lost {
            let elem = tensor.elem;
            return Err(InputError::Overflow { elem, value });
        }
    }
    Ok(TensorData::plain(seen, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{case, constant, input, output, symmetric, values, with_codec};
    use model::ElemType;
    use proptest::prelude::*;

    fn one(tensor: Tensor, seed: u64) -> Result<TensorData, Error> {
        let name = tensor.name.clone();
        let inputs = generate(&case(vec![tensor]), seed)?;
        Ok(inputs.tensors[&name].clone())
    }

    fn normal(elem: ElemType, dims: &[usize]) -> Tensor {
        input("x", elem, dims)
    }

    fn e4m3() -> CodecScheme {
        symmetric(448.0, 0, 448.0)
    }

    fn offset_u8() -> CodecScheme {
        symmetric(127.0, 128, 448.0)
    }

    fn floats(values: &Values) -> &[f32] {
        let Values::F32(values) = values else {
            panic!("integers")
        };
        values
    }

    #[test]
    fn variants_and_longer_shapes_share_values() {
        let short = one(normal(ElemType::F32, &[4, 5]), 3).unwrap();
        let long = one(normal(ElemType::F32, &[7, 5]), 3).unwrap();
        assert_eq!(floats(&long.seen)[..20], *floats(&short.seen));
        let half = one(normal(ElemType::F16, &[4, 5]), 3).unwrap();
        for (rounded, value) in floats(&half.seen).iter().zip(floats(&short.seen)) {
            assert_eq!(*rounded, half::f16::from_f32(*value).to_f32());
        }
        assert_eq!(half.original, None);
        assert_eq!(half.values(View::Original), &half.seen);
    }

    #[test]
    fn only_inputs_are_made() {
        let mut inout = normal(ElemType::F32, &[3]);
        inout.role = Role::Inout;
        inout.name = "state".to_owned();
        let case = case(vec![
            normal(ElemType::I8, &[0]),
            inout,
            output("y", ElemType::F32, &[3]),
        ]);
        let error = generate(&case, 1).unwrap_err().to_string();
        insta::assert_snapshot!(error, @"k/v@s: tensor `x`: a tensor of integers needs an integer fill or a codec");
        let mut case = case;
        case.tensors.remove(0);
        let inputs = generate(&case, 1).unwrap();
        assert_eq!(inputs.tensors.keys().collect::<Vec<_>>(), ["state"]);
    }

    #[test]
    fn the_digest_sees_every_byte() {
        let case = case(vec![with_codec(
            normal(ElemType::E4m3, &[4, 8]),
            e4m3(),
            &[1, 8],
        )]);
        let inputs = generate(&case, 1).unwrap();
        let first = digest(&inputs);
        assert_eq!(digest(&generate(&case, 1).unwrap()), first);
        assert_ne!(digest(&generate(&case, 2).unwrap()), first);
        let mut changed = inputs.clone();
        changed.tensors.get_mut("x").unwrap().bytes[31] ^= 1;
        assert_ne!(digest(&changed), first);
        let mut changed = inputs;
        changed
            .tensors
            .get_mut("x")
            .unwrap()
            .scales
            .as_mut()
            .unwrap()[3] += 1.0;
        assert_ne!(digest(&changed), first);
    }

    /// Compares the two codecs of sdpa_fp8 with their definition, written out naively.
    #[test]
    fn codecs_of_the_attention_kernels() {
        let (b, h, s, d) = (2, 3, 5, 4);
        let dims = [b, h, s, d];
        let at = |ib: usize, ih: usize, is: usize, id: usize| ((ib * h + ih) * s + is) * d + id;

        let data = one(
            with_codec(normal(ElemType::E4m3, &dims), e4m3(), &[1, 1, s, d]),
            5,
        )
        .unwrap();
        let original = floats(data.original.as_ref().unwrap());
        let scales = data.scales.unwrap();
        assert_eq!(scales.len(), b * h);
        for ib in 0..b {
            for ih in 0..h {
                let head = &original[at(ib, ih, 0, 0)..][..s * d];
                let amax = head.iter().fold(0f32, |amax, x| amax.max(x.abs()));
                let scale = scales[ib * h + ih];
                assert!((scale - amax / 448.0).abs() <= 1e-6 * scale);
                for (i, value) in head.iter().enumerate() {
                    let code = float8::F8E4M3::from_bits(data.bytes[at(ib, ih, 0, 0) + i]);
                    assert_eq!(
                        code.to_bits(),
                        float8::F8E4M3::from_f32(
                            (f64::from(*value) * (448.0 / f64::from(amax))) as f32
                        )
                        .to_bits()
                    );
                    let seen = floats(&data.seen)[at(ib, ih, 0, 0) + i];
                    assert!((seen - code.to_f32() * scale).abs() <= 1e-6 * amax);
                    assert!((seen - *value).abs() <= value.abs() / 16.0 + amax / 448.0 / 512.0);
                }
            }
        }

        let data = one(
            with_codec(normal(ElemType::U8, &dims), offset_u8(), &[b, 1, s, d]),
            5,
        )
        .unwrap();
        let original = floats(data.original.as_ref().unwrap());
        let scales = data.scales.unwrap();
        assert_eq!(scales.len(), h);
        for (ih, &scale) in scales.iter().enumerate() {
            let all = || {
                (0..b).flat_map(move |ib| {
                    (0..s).flat_map(move |is| (0..d).map(move |id| at(ib, ih, is, id)))
                })
            };
            let amax = all().fold(0f32, |amax, i| amax.max(original[i].abs()));
            assert!((scale - amax / 448.0).abs() <= 1e-6 * scale);
            for i in all() {
                let code = (original[i] / amax * 127.0).round_ties_even() + 128.0;
                assert!(
                    (f32::from(data.bytes[i]) - code).abs()
                        <= f32::from(u8::from((original[i] / amax * 127.0).fract().abs() > 0.499))
                );
                let meant = (f32::from(data.bytes[i]) - 128.0) / 127.0 * 448.0 * scale;
                assert!((floats(&data.seen)[i] - meant).abs() <= 1e-6 * amax);
                assert!((floats(&data.seen)[i] - original[i]).abs() <= amax / 254.0 * 1.0001);
            }
        }
    }

    #[test]
    fn a_block_of_zeros_has_scale_one() {
        let i8_codes = symmetric(127.0, 0, 127.0);
        for (scheme, elem) in [(e4m3(), ElemType::E4m3), (i8_codes, ElemType::I8)] {
            let mut zeros = with_codec(normal(elem, &[4]), scheme, &[2]);
            zeros.fill = Some(values(&[0.0, 0.0, 1.0, -2.0]));
            let data = one(zeros, 1).unwrap();
            assert_eq!(data.scales.unwrap()[0], 1.0);
            assert_eq!(floats(&data.seen)[..2], [0.0, 0.0]);
            assert!((floats(&data.seen)[3] + 2.0).abs() < 1e-6);
        }
        let mut tiny = with_codec(normal(ElemType::E4m3, &[1]), e4m3(), &[1]);
        tiny.fill = Some(constant(1e-44));
        let data = one(tiny, 1).unwrap();
        assert_eq!(data.scales, Some(vec![1.0]));
        assert_eq!(floats(&data.seen), [0.0]);
        let mut zeros = with_codec(
            normal(ElemType::U8, &[3]),
            CodecScheme::Affine { low: 0, high: 255 },
            &[3],
        );
        zeros.fill = Some(constant(0.0));
        let data = one(zeros, 1).unwrap();
        assert_eq!(
            (data.scales.unwrap()[0], data.zero_points.unwrap()[0]),
            (1.0, 0)
        );
        assert_eq!(floats(&data.seen), [0.0; 3]);
    }

    #[test]
    fn affine_codes_with_zero_points() {
        let mut tensor = with_codec(
            normal(ElemType::U8, &[4]),
            CodecScheme::Affine { low: 0, high: 255 },
            &[4],
        );
        tensor.fill = Some(values(&[-1.0, 0.0, 0.5, 4.1]));
        let data = one(tensor, 1).unwrap();
        assert_eq!(data.bytes, [0, 50, 75, 255]);
        assert_eq!(data.zero_points, Some(vec![50]));
        assert!((data.scales.unwrap()[0] - 0.02).abs() < 1e-7);
        assert_eq!(floats(&data.seen)[1], 0.0);
    }

    proptest! {
        /// Whatever the blocks are, each has one scale, and a code is off by at most half a step.
        #[test]
        fn quantisation_error_is_bounded(
            dims in proptest::collection::vec(1usize..7, 0..4),
            blocks in proptest::collection::vec(1usize..4, 4),
            seed: u64,
            affine: bool,
        ) {
            let block = &blocks[..dims.len()];
            let scheme = if affine { CodecScheme::Affine { low: -128, high: 127 } } else {
                symmetric(127.0, 0, 127.0)
            };
            let tensor = with_codec(normal(ElemType::I8, &dims), scheme, block);
            let codec = tensor.codec.clone().unwrap();
            let data = one(tensor, seed).unwrap();
            let scale_dims = codec.scale_dims(&dims);
            let scales = data.scales.unwrap();
            prop_assert_eq!(scales.len(), scale_dims.iter().product::<usize>());
            let original = floats(data.original.as_ref().unwrap());
            for (at, (x, seen)) in original.iter().zip(floats(&data.seen)).enumerate() {
                let which = crate::layout::index(&dims, at).iter().zip(block).zip(&scale_dims)
                    .fold(0, |which, ((index, block), dim)| which * dim + index / block);
                let steps = if affine { 1.0 } else { 0.5 };
                prop_assert!((x - seen).abs() <= scales[which] * (steps + 1e-4), "{} for {} at {}", seen, x, at);
                let zero = data.zero_points.as_ref().map_or(0, |zeros| zeros[which]);
                let code = f32::from(data.bytes[at] as i8) - zero as f32;
                prop_assert!((code * scales[which] - seen).abs() <= 1e-5 * scales[which] * 128.0);
            }
        }
    }

    #[test]
    fn gaps_of_strides_are_poisoned() {
        let mut tensor = normal(ElemType::F32, &[2, 2]);
        tensor.strides = Some(vec![3, 1]);
        let data = one(tensor.clone(), 1).unwrap();
        assert_eq!(data.bytes.len(), 5 * 4);
        assert_eq!(data.bytes[8..12], poison::poison(ElemType::F32, 1));
        assert_eq!(crate::decode(&tensor, &data.bytes).unwrap(), data.seen);
    }
}
