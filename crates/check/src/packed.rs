//! Makes tensors of structs: bytes, into which each field is put at its place.

use super::error::{CodecError, FieldError, FillError, InputError};
use super::generator::Stream;
use super::{Values, elem, fill, poison};
use model::{Blocks, ElemType, Field, FilledField, Nibbles, Role, Tensor};
use rayon::prelude::*;

/// Draws the bytes of all structs, contiguous. Bytes between fields hold the poison of launch 1.
///
/// # Errors
/// Fails if a fill does not suit its field.
pub fn draw(tensor: &Tensor, fields: &[FilledField], seed: u64) -> Result<Values, InputError> {
    let (structs, each) = extent(tensor);
    let mut bytes = poison::poison(tensor.elem, 1).repeat(structs * each);
    for FilledField { name, field, fill } in fields {
        let column = Tensor {
            fill: Some(fill.clone()),
            ..Tensor::new(
                &format!("{}.{name}", tensor.name),
                Role::In,
                field.elem,
                vec![structs, field.count],
            )
        };
        let encoded = fill::draw(&column, &Stream::new(seed, &column.name))
            .and_then(|drawn| Ok(elem::encode(field.elem, &drawn)?))
            .map_err(|source: FillError| InputError::Field {
                name: name.clone(),
                source,
            })?;
        put(&mut bytes, each, field, &encoded)?;
    }
    Ok(elem::decode(tensor.elem, &bytes))
}

/// Returns the values that the codes stand for, and the bytes of all structs.
///
/// # Errors
/// Fails if fields do not lie in the tensor's structs, for values that are not finite, and for scales that their type
/// cannot hold.
pub fn encode(
    blocks: &Blocks,
    tensor: &Tensor,
    values: &[f32],
) -> Result<(Vec<f32>, Vec<u8>), CodecError> {
    let (structs, each) = extent(tensor);
    let width = blocks.values_each();
    let is_whole = width > 0 && values.len() == structs * width;
    let (low, high) = match (blocks.codes.elem.range(), blocks.nibbles) {
        (Some(_), Some(_)) if blocks.codes.elem == ElemType::U8 => (0, 15),
        (Some(range), None) => range,
        _ => return Err(CodecError::Codes),
    };
    let levels = blocks.levels.0;
    if !(is_whole && levels > 0.0 && levels.is_finite()) {
        return Err(CodecError::Misfit);
    }
    if let Some(&value) = values.iter().find(|value| !value.is_finite()) {
        return Err(CodecError::NotFinite(value));
    }
    let scales: Vec<f32> = values
        .par_chunks(width)
        .map(|values| {
            let amax = values
                .iter()
                .fold(0f32, |amax, value| amax.max(value.abs()));
            (f64::from(amax) / levels) as f32
        })
        .collect();
    let encoded = elem::encode(blocks.scale.elem, &Values::F32(scales))?;
    // These are the scales that the kernel reads.
    let scales = elem::decode(blocks.scale.elem, &encoded);
    let scales = scales.floats();
    if let Some(&scale) = scales.iter().find(|scale| !scale.is_finite()) {
        return Err(CodecError::Scale {
            elem: blocks.scale.elem,
            scale,
        });
    }
    let zero = blocks.zero_point as f64;
    let (low, high) = (
        (zero - levels).max(low as f64),
        (zero + levels).min(high as f64),
    );
    let codes: Vec<i64> = values
        .par_chunks(width)
        .zip(scales.par_iter())
        .flat_map_iter(|(values, &scale)| {
            let step = f64::from(scale);
            values.iter().map(move |&x| match step {
                // If amax is so small that its scale is not a number of that type, the block reads as zeros, too.
                0.0 => zero as i64,
                step => ((f64::from(x) / step).round_ties_even() + zero).clamp(low, high) as i64,
            })
        })
        .collect();
    let mut bytes = vec![0; structs * each];
    put(&mut bytes, each, &blocks.scale, &encoded)?;
    let meant = |code: i64, scale: f32| (code as f64 - zero) * f64::from(scale);
    if let Some(field) = &blocks.sum {
        let sums = elem::encode(
            field.elem,
            &Values::F32(
                codes
                    .chunks(width)
                    .zip(scales.iter())
                    .map(|(codes, &scale)| {
                        codes.iter().map(|&code| meant(code, scale)).sum::<f64>() as f32
                    })
                    .collect(),
            ),
        )?;
        put(&mut bytes, each, field, &sums)?;
    }
    let seen = codes
        .par_chunks(width)
        .zip(scales.par_iter())
        .flat_map_iter(|(codes, &scale)| codes.iter().map(move |&code| meant(code, scale) as f32))
        .collect();
    let stored = match blocks.nibbles {
        None => codes,
        Some(nibbles) => codes
            .chunks(width)
            .flat_map(|codes| {
                let bytes = 0..width / 2;
                bytes.map(move |at| {
                    let (low, high) = match nibbles {
                        Nibbles::Halves => (at, at + width / 2),
                        Nibbles::Pairs => (2 * at, 2 * at + 1),
                    };
                    codes.get(low).copied().unwrap_or(0)
                        | codes.get(high).copied().unwrap_or(0) << 4
                })
            })
            .collect(),
    };
    let stored = elem::encode(blocks.codes.elem, &Values::I64(stored))?;
    put(&mut bytes, each, &blocks.codes, &stored)?;
    Ok((seen, bytes))
}

/// Returns the number of structs, and the bytes of one.
fn extent(tensor: &Tensor) -> (usize, usize) {
    let each = tensor.dims.last().copied().unwrap_or(0);
    (tensor.len().checked_div(each).unwrap_or(0), each)
}

/// Puts a field into all structs. `contiguous` has its values.
fn put(bytes: &mut [u8], each: usize, field: &Field, contiguous: &[u8]) -> Result<(), FieldError> {
    let size = field.elem.size() * field.count;
    if size == 0 || each == 0 {
        return Err(FieldError::Empty);
    }
    for (one, value) in bytes
        .chunks_exact_mut(each)
        .zip(contiguous.chunks_exact(size))
    {
        one.get_mut(field.offset..field.end())
            .ok_or(FieldError::Beyond)?
            .copy_from_slice(value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{TensorData, generate};
    use crate::testing::{case, input, integers};
    use half::f16;
    use model::{Codec, CodecScheme, Fill, Num};

    fn field(offset: usize, elem: ElemType, count: usize) -> Field {
        Field {
            offset,
            elem,
            count,
        }
    }

    fn made(tensor: Tensor) -> TensorData {
        generate(&case(vec![tensor]), 1).unwrap().tensors["x"].clone()
    }

    fn floats(values: &Values) -> Vec<f32> {
        values.floats().into_owned()
    }

    fn coded(dims: [usize; 2], bytes: usize, blocks: Blocks) -> Tensor {
        let mut tensor = input("x", ElemType::U8, &[dims[0], dims[1], bytes]);
        tensor.codec = Some(Codec {
            block: vec![1, blocks.values_each()],
            scheme: CodecScheme::Blocks(blocks),
        });
        tensor
    }

    /// Returns llama.cpp's q8_0: { half d; int8_t qs[32]; }, x = d * q.
    fn q8_0() -> Tensor {
        let blocks = Blocks {
            values: vec![3, 64],
            scale: field(0, ElemType::F16, 1),
            codes: field(2, ElemType::I8, 32),
            sum: None,
            nibbles: None,
            levels: Num(127.0),
            zero_point: 0,
        };
        coded([3, 2], 34, blocks)
    }

    /// Returns llama.cpp's q4_0: { half d; uint8_t qs[16]; }, x = d * (q - 8), the low halves first.
    fn q4_0(nibbles: Nibbles) -> Tensor {
        let blocks = Blocks {
            values: vec![3, 64],
            scale: field(0, ElemType::F16, 1),
            codes: field(2, ElemType::U8, 16),
            sum: None,
            nibbles: Some(nibbles),
            levels: Num(8.0),
            zero_point: 8,
        };
        coded([3, 2], 18, blocks)
    }

    fn half_at(bytes: &[u8], at: usize) -> f32 {
        f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
    }

    #[test]
    fn decodes_blocks_of_bytes_as_their_reader_does() {
        let data = made(q8_0());
        let (seen, original) = (floats(&data.seen), floats(data.original.as_ref().unwrap()));
        assert_eq!((seen.len(), data.bytes.len()), (192, 6 * 34));
        for (block, bytes) in data.bytes.chunks(34).enumerate() {
            let d = half_at(bytes, 0);
            let values = &original[block * 32..][..32];
            let amax = values.iter().fold(0f32, |amax, x| amax.max(x.abs()));
            assert!((d - amax / 127.0).abs() <= d * 0.0005);
            for (i, &x) in values.iter().enumerate() {
                let means = d * f32::from(bytes[2 + i] as i8);
                assert_eq!(seen[block * 32 + i], means);
                assert!((means - x).abs() <= 0.57 * d, "{x} {means}");
            }
        }
    }

    #[test]
    fn two_codes_share_a_byte_in_either_order() {
        for nibbles in [Nibbles::Halves, Nibbles::Pairs] {
            let data = made(q4_0(nibbles));
            let (seen, original) = (floats(&data.seen), floats(data.original.as_ref().unwrap()));
            for (block, bytes) in data.bytes.chunks(18).enumerate() {
                let d = half_at(bytes, 0);
                for i in 0..32 {
                    let code = match nibbles {
                        Nibbles::Halves => bytes[2 + i % 16] >> (i / 16 * 4),
                        Nibbles::Pairs => bytes[2 + i / 2] >> (i % 2 * 4),
                    } & 15;
                    let means = d * (f32::from(code) - 8.0);
                    let x = original[block * 32 + i];
                    assert_eq!(seen[block * 32 + i], means, "{nibbles:?}");
                    // 16 codes range from -8 to 7, so a value near 8 * d gets the code 7.
                    assert!((means - x).abs() <= 1.01 * d, "{x} {means}");
                }
            }
        }
    }

    #[test]
    fn the_sum_of_a_block_stands_beside_its_scale() {
        // This is llama.cpp's q8_1: { half d; half s; int8_t qs[32]; }.
        let mut tensor = q8_0();
        tensor.dims = vec![3, 2, 36];
        if let Some(CodecScheme::Blocks(blocks)) =
            tensor.codec.as_mut().map(|codec| &mut codec.scheme)
        {
            blocks.sum = Some(field(2, ElemType::F16, 1));
            blocks.codes.offset = 4;
        }
        let data = made(tensor);
        for (bytes, seen) in data.bytes.chunks(36).zip(floats(&data.seen).chunks(32)) {
            let sum: f32 = seen.iter().sum();
            assert!((half_at(bytes, 2) - sum).abs() <= 1e-3 * sum.abs() + 1e-3);
        }
    }

    #[test]
    fn a_block_of_zeros_reads_as_zeros() {
        let mut zeros = q4_0(Nibbles::Halves);
        zeros.fill = Some(Fill::Constant { value: Num(0.0) });
        let data = made(zeros);
        assert_eq!(floats(&data.seen), [0.0; 192]);
        assert!(
            data.bytes
                .chunks(18)
                .all(|byte| byte[..2] == [0, 0] && byte[2..] == [0x88; 16])
        );
        let mut huge = q8_0();
        huge.fill = Some(Fill::Constant { value: Num(1e30) });
        let said = generate(&case(vec![huge]), 1).unwrap_err().to_string();
        assert!(said.contains("F16 cannot hold a scale"), "{said}");
    }

    #[test]
    fn fields_have_fills_of_their_own() {
        let filled = |name: &str, field, fill| FilledField {
            name: name.to_owned(),
            field,
            fill,
        };
        let codes = integers(0, 255);
        let fields = vec![
            filled(
                "d",
                field(0, ElemType::F16, 1),
                Fill::Constant { value: Num(0.5) },
            ),
            filled("n", field(4, ElemType::I32, 2), Fill::Iota),
            filled("qs", field(12, ElemType::U8, 3), codes),
        ];
        let mut tensor = input("x", ElemType::U8, &[2, 16]);
        tensor.fill = Some(Fill::Struct { fields });
        let data = made(tensor.clone());
        let Values::I64(seen) = &data.seen else {
            panic!("bytes")
        };
        assert_eq!(seen.len(), 32);
        for (at, bytes) in data.bytes.chunks(16).enumerate() {
            assert_eq!(half_at(bytes, 0), 0.5);
            let first = (2 * at) as u8;
            assert_eq!(bytes[4..12], [first, 0, 0, 0, first + 1, 0, 0, 0]);
            assert_eq!(
                (&bytes[2..4], bytes[15]),
                (&[0xa5, 0xa5][..], 0xa5),
                "between them"
            );
        }
        let codes: Vec<u8> = [12, 13, 14, 28, 29, 30].map(|at| data.bytes[at]).to_vec();
        assert!(codes.iter().any(|code| *code != codes[0]));
        tensor.dims = vec![2, 14];
        assert!(generate(&case(vec![tensor]), 1).is_err());
    }
}
