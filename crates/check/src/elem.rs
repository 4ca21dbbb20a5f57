//! Converts numbers to little-endian bytes of an element type and back.

use super::Values;
use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use model::ElemType;
use rayon::prelude::*;

/// The number of elements that one task converts. The result does not depend on it.
const CHUNK: usize = 1 << 14;

/// The reason for which values cannot be elements of a type.
#[derive(Debug, thiserror::Error)]
pub enum ElemError {
    #[error("{0:?} elements cannot hold f64")]
    Doubles(ElemType),
    #[error("{0:?} elements cannot hold floats")]
    Floats(ElemType),
    #[error("{0:?} elements are not integers")]
    Integers(ElemType),
    #[error("{value} is outside of {elem:?}'s {}..={}", .range.0, .range.1)]
    Range {
        value: i64,
        elem: ElemType,
        range: (i64, i64),
    },
}

/// Encodes values, rounding to nearest even. The 8-bit floats saturate at their largest finite value, infinities
/// included, as `__NV_SATFINITE` does (cuda_fp8.h). f16 and bf16 overflow to infinity.
///
/// # Errors
/// Returns the first integer that the element type cannot hold.
pub fn encode(elem: ElemType, values: &Values) -> Result<Vec<u8>, ElemError> {
    match values {
        Values::F32(values) => floats(elem, values),
        Values::F64(values) if elem == ElemType::F64 => Ok(pack(values, f64::to_le_bytes)),
        Values::F64(_) => Err(ElemError::Doubles(elem)),
        Values::I64(values) => integers(elem, values),
    }
}

fn floats(elem: ElemType, values: &[f32]) -> Result<Vec<u8>, ElemError> {
    Ok(match elem {
        ElemType::F64 => pack(values, |value| f64::from(value).to_le_bytes()),
        ElemType::F32 => pack(values, f32::to_le_bytes),
        ElemType::F16 => pack(values, |value| f16::from_f32(value).to_le_bytes()),
        ElemType::Bf16 => pack(values, |value| bf16::from_f32(value).to_le_bytes()),
        ElemType::E4m3 => pack(values, |value| [F8E4M3::from_f32(value).to_bits()]),
        ElemType::E5m2 => pack(values, |value| [F8E5M2::from_f32(value).to_bits()]),
        ElemType::I8
        | ElemType::U8
        | ElemType::I16
        | ElemType::U16
        | ElemType::I32
        | ElemType::U32
        | ElemType::I64 => return Err(ElemError::Floats(elem)),
    })
}

fn integers(elem: ElemType, values: &[i64]) -> Result<Vec<u8>, ElemError> {
    let range @ (low, high) = elem.range().ok_or(ElemError::Integers(elem))?;
    if let Some(&value) = values.iter().find(|value| !(low..=high).contains(*value)) {
        return Err(ElemError::Range { value, elem, range });
    }
    Ok(match elem {
        ElemType::I64 => pack(values, i64::to_le_bytes),
        ElemType::I32 | ElemType::U32 => pack(values, |value| (value as u32).to_le_bytes()),
        ElemType::I16 | ElemType::U16 => pack(values, |value| (value as u16).to_le_bytes()),
        _ => pack(values, |value| [value as u8]),
    })
}

/// Decodes the bytes of contiguous elements. Trailing bytes that are no whole element are dropped.
pub fn decode(elem: ElemType, bytes: &[u8]) -> Values {
    match elem {
        ElemType::F64 => Values::F64(unpack(bytes, f64::from_le_bytes)),
        ElemType::F32 => Values::F32(unpack(bytes, f32::from_le_bytes)),
        ElemType::F16 => Values::F32(unpack(bytes, |raw| f16::from_le_bytes(raw).to_f32())),
        ElemType::Bf16 => Values::F32(unpack(bytes, |raw| bf16::from_le_bytes(raw).to_f32())),
        ElemType::E4m3 => Values::F32(unpack(bytes, |[raw]| F8E4M3::from_bits(raw).to_f32())),
        ElemType::E5m2 => Values::F32(unpack(bytes, |[raw]| F8E5M2::from_bits(raw).to_f32())),
        ElemType::I8 => Values::I64(unpack(bytes, |[raw]| i64::from(raw as i8))),
        ElemType::U8 => Values::I64(unpack(bytes, |[raw]| i64::from(raw))),
        ElemType::I16 => Values::I64(unpack(bytes, |raw| i64::from(i16::from_le_bytes(raw)))),
        ElemType::U16 => Values::I64(unpack(bytes, |raw| i64::from(u16::from_le_bytes(raw)))),
        ElemType::I32 => Values::I64(unpack(bytes, |raw| i64::from(i32::from_le_bytes(raw)))),
        ElemType::U32 => Values::I64(unpack(bytes, |raw| i64::from(u32::from_le_bytes(raw)))),
        ElemType::I64 => Values::I64(unpack(bytes, i64::from_le_bytes)),
    }
}

fn pack<T: Copy + Sync, const N: usize>(
    values: &[T],
    encode: impl Fn(T) -> [u8; N] + Sync,
) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * N];
    bytes
        .par_chunks_mut(CHUNK * N)
        .zip(values.par_chunks(CHUNK))
        .for_each(|(bytes, values)| {
            for (slot, &value) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(values) {
                *slot = encode(value);
            }
        });
    bytes
}

fn unpack<T: Copy + Default + Send, const N: usize>(
    bytes: &[u8],
    decode: impl Fn([u8; N]) -> T + Sync,
) -> Vec<T> {
    let mut values = vec![T::default(); bytes.len() / N];
    values
        .par_chunks_mut(CHUNK)
        .zip(bytes.par_chunks(CHUNK * N))
        .for_each(|(values, bytes)| {
            for (value, &raw) in values.iter_mut().zip(bytes.as_chunks::<N>().0) {
                *value = decode(raw);
            }
        });
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the value of an 8-bit float by its definition (OCP 8-bit Floating Point Specification 1.0, table 1).
    fn meaning(bits: u8, exponent_bits: u32, has_infinity: bool) -> f64 {
        let mantissa_bits = 7 - exponent_bits;
        let bias = (1 << (exponent_bits - 1)) - 1;
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        let exponent = i32::from((bits & 0x7f) >> mantissa_bits);
        let mantissa = i32::from(bits & ((1 << mantissa_bits) - 1));
        let top = exponent == (1 << exponent_bits) - 1;
        if top && has_infinity {
            return if mantissa == 0 {
                sign * f64::INFINITY
            } else {
                f64::NAN
            };
        }
        if top && mantissa == (1 << mantissa_bits) - 1 {
            return f64::NAN;
        }
        let (significand, exponent) = if exponent == 0 {
            (mantissa, 1)
        } else {
            (mantissa + (1 << mantissa_bits), exponent)
        };
        sign * f64::from(significand) * 2f64.powi(exponent - bias - mantissa_bits as i32)
    }

    /// Returns the nearest finite code of the same sign, with ties to the even code. It looks at all codes.
    fn nearest(value: f32, exponent_bits: u32, has_infinity: bool) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let meaning = |code| meaning(code, exponent_bits, has_infinity);
        let finite: Vec<u8> = (0..0x80)
            .filter(|&code| meaning(code).is_finite())
            .collect();
        // Beyond the largest value, rounding would absorb distances.
        let value = f64::from(value.abs()).min(1.0 + meaning(*finite.last().unwrap()));
        let distance = |code: u8| (meaning(code) - value).abs();
        let best = finite.into_iter().min_by(|&left, &right| {
            let by_distance = distance(left).total_cmp(&distance(right));
            by_distance.then((left & 1).cmp(&(right & 1)))
        });
        best.unwrap() | sign
    }

    fn formats() -> [(ElemType, u32, bool); 2] {
        [(ElemType::E4m3, 4, false), (ElemType::E5m2, 5, true)]
    }

    fn code(elem: ElemType, value: f32) -> u8 {
        encode(elem, &Values::F32(vec![value])).unwrap()[0]
    }

    #[test]
    fn every_8_bit_float_has_the_value_of_its_format() {
        for (elem, exponent_bits, has_infinity) in formats() {
            let all: Vec<u8> = (0..=255).collect();
            for (bits, value) in all.iter().zip(&*decode(elem, &all).floats()) {
                let want = meaning(*bits, exponent_bits, has_infinity) as f32;
                assert!(
                    value.to_bits() == want.to_bits() || (value.is_nan() && want.is_nan()),
                    "{elem:?} {bits:#x}: {value} for {want}"
                );
            }
        }
    }

    /// The test tries every value, every midpoint and the floats next to it, which are all places where rounding can go
    /// wrong.
    #[test]
    fn eight_bit_floats_round_to_nearest_even_and_saturate() {
        for (elem, exponent_bits, has_infinity) in formats() {
            let finite: Vec<f64> = (0..0x80)
                .map(|bits| meaning(bits, exponent_bits, has_infinity))
                .filter(|value| value.is_finite())
                .collect();
            let largest = *finite.last().unwrap();
            let mut points: Vec<f32> = finite
                .windows(2)
                .map(|pair| ((pair[0] + pair[1]) / 2.0) as f32)
                .collect();
            points.extend(finite.iter().map(|&value| value as f32));
            points.extend([
                largest as f32 * 1.03,
                largest as f32 * 1.0625,
                largest as f32 * 1.1,
                largest as f32 * 1.125,
                f32::MAX,
                f32::INFINITY,
                f32::MIN_POSITIVE,
                1e-45,
            ]);
            for point in points {
                for value in [
                    point,
                    point.next_up(),
                    point.next_down(),
                    -point,
                    -point.next_up(),
                    -point.next_down(),
                ] {
                    let want = if value.is_nan() {
                        continue;
                    } else {
                        nearest(value, exponent_bits, has_infinity)
                    };
                    assert_eq!(code(elem, value), want, "{elem:?} of {value:e}");
                }
            }
            let nan = code(elem, f32::NAN);
            assert!(decode(elem, &[nan]).floats()[0].is_nan());
            let infinite = decode(elem, &[code(elem, f32::NEG_INFINITY)]).floats()[0];
            assert_eq!(f64::from(infinite), -largest);
        }
    }

    proptest! {
        #[test]
        fn eight_bit_floats_round_any_float(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assume!(!value.is_nan());
            for (elem, exponent_bits, has_infinity) in formats() {
                prop_assert_eq!(code(elem, value), nearest(value, exponent_bits, has_infinity));
            }
        }
    }

    #[test]
    fn sixteen_bit_floats_round_to_nearest_even_and_overflow() {
        let round = |elem, value| {
            decode(elem, &encode(elem, &Values::F32(vec![value])).unwrap()).floats()[0]
        };
        assert_eq!(round(ElemType::F16, 1.0 + 2f32.powi(-11)), 1.0);
        assert_eq!(
            round(ElemType::F16, 1.0 + 3.0 * 2f32.powi(-11)),
            1.0 + 2f32.powi(-9)
        );
        assert_eq!(round(ElemType::F16, 2f32.powi(-24)), 2f32.powi(-24));
        assert_eq!(round(ElemType::F16, 65519.0), 65504.0);
        assert_eq!(round(ElemType::F16, 65520.0), f32::INFINITY);
        assert_eq!(round(ElemType::Bf16, 1.0 + 2f32.powi(-8)), 1.0);
        assert_eq!(
            round(ElemType::Bf16, 1.0 + 3.0 * 2f32.powi(-8)),
            1.0 + 2f32.powi(-6)
        );
        assert!(round(ElemType::Bf16, f32::NAN).is_nan());
    }

    #[test]
    fn f64_holds_all_f32_values_and_more() {
        let widened = encode(ElemType::F64, &Values::F32(vec![0.1, f32::INFINITY])).unwrap();
        let values = Values::F64(vec![f64::from(0.1f32), f64::INFINITY]);
        assert_eq!(decode(ElemType::F64, &widened), values);
        let fine = Values::F64(vec![0.1, 1e300]);
        let bytes = encode(ElemType::F64, &fine).unwrap();
        assert_eq!(decode(ElemType::F64, &bytes), fine);
        assert!(encode(ElemType::F32, &fine).is_err());
    }

    #[test]
    fn integers_keep_their_value_or_are_refused() {
        for elem in [
            ElemType::I8,
            ElemType::U8,
            ElemType::I16,
            ElemType::U16,
            ElemType::I32,
            ElemType::U32,
            ElemType::I64,
        ] {
            let (low, high) = elem.range().unwrap();
            let values = Values::I64(vec![low, high, 1]);
            let bytes = encode(elem, &values).unwrap();
            assert_eq!(bytes.len(), 3 * elem.size());
            assert_eq!(decode(elem, &bytes), values);
            if let Some(beyond) = high.checked_add(1) {
                assert!(encode(elem, &Values::I64(vec![beyond])).is_err());
            }
            assert!(encode(elem, &Values::F32(vec![1.0])).is_err());
        }
        assert!(encode(ElemType::F32, &Values::I64(vec![1])).is_err());
    }
}
