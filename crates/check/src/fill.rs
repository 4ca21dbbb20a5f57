//! Draws the elements of an input from its distribution.

use super::error::FillError;
use super::generator::Stream;
use super::{Values, special};
use model::{Fill, Tensor};

/// Draws values before any rounding: floats if the tensor holds floats or has a codec, and else integers.
pub fn draw(tensor: &Tensor, stream: &Stream) -> Result<Values, FillError> {
    let mut values = draw_plain(tensor, stream)?;
    if let Some(shares) = tensor.fill.as_ref().and_then(Fill::special) {
        special::put(&mut values, shares, tensor, &stream.part("special"))?;
    }
    Ok(values)
}

fn draw_plain(tensor: &Tensor, stream: &Stream) -> Result<Values, FillError> {
    let floats = tensor.elem.is_float() || tensor.codec.is_some();
    let len = tensor.value_dims().iter().product();
    let fill = tensor.fill.as_ref().ok_or(FillError::Missing)?;
    let continuous = |values: Vec<f32>| {
        if floats {
            Ok(Values::F32(values))
        } else {
            Err(FillError::Continuous)
        }
    };
    let whole = |values: Vec<i64>| {
        if floats {
            Values::F32(values.into_iter().map(|value| value as f32).collect())
        } else {
            Values::I64(values)
        }
    };
    let given = |values: &mut dyn Iterator<Item = f64>| {
        if floats {
            return Ok(Values::F32(values.map(|value| value as f32).collect()));
        }
        values
            .map(integral)
            .collect::<Result<_, _>>()
            .map(Values::I64)
    };
    match fill {
        &Fill::Normal { mean, std, .. } => {
            let sound = mean.0.is_finite() && std.0.is_finite() && std.0 >= 0.0;
            if !sound {
                return Err(FillError::Normal { mean, std });
            }
            continuous(stream.normal(mean.0, std.0, len))
        }
        &Fill::Uniform { low, high, .. } => {
            let some = f64::from((high.0 as f32).next_down()) >= low.0;
            if !(low.0 < high.0 && (high.0 - low.0).is_finite() && some) {
                return Err(FillError::Uniform { low, high });
            }
            continuous(stream.uniform(low.0, high.0, len))
        }
        Fill::Constant { value } => given(&mut std::iter::repeat_n(value.0, len)),
        Fill::Values { values } if values.len() == len => {
            given(&mut values.iter().map(|value| value.0))
        }
        Fill::Values { values } => Err(FillError::Values {
            values: values.len(),
            elements: len,
        }),
        &Fill::Integers { low, high, .. } if low <= high => {
            Ok(whole(stream.integers(low, high, len)))
        }
        &Fill::Integers { low, high, .. } => Err(FillError::Integers { low, high }),
        Fill::Iota => Ok(whole((0..len as i64).collect())),
        Fill::Permutation => Ok(whole(stream.distinct(len as u64, len))),
        &Fill::BlockTable { pool } => match u64::try_from(pool) {
            Ok(pool) if pool >= len as u64 => Ok(whole(stream.distinct(pool, len))),
            _ => Err(FillError::Pool { pool, blocks: len }),
        },
        Fill::Struct { .. } => Err(FillError::Struct),
        Fill::Captured { .. } => Err(FillError::Captured),
        &Fill::Offsets { total, min } => {
            let sequences = len.checked_sub(1).ok_or(FillError::NoOffsets)?;
            let least = min.checked_mul(sequences as i64);
            if min < 0 || least.is_none_or(|least| least > total) || (sequences == 0 && total != 0)
            {
                return Err(FillError::Offsets {
                    sequences,
                    min,
                    total,
                });
            }
            Ok(whole(stream.offsets(total, min, sequences)))
        }
    }
}

fn integral(value: f64) -> Result<i64, FillError> {
    // This is 2^63: every integral f64 below it converts exactly.
    const BOUND: f64 = -(i64::MIN as f64);
    if value.fract() == 0.0 && value.abs() < BOUND {
        Ok(value as i64)
    } else {
        Err(FillError::NotIntegral(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::{TensorData, generate};
    use crate::testing::{
        case, constant, filled, input, integers, normal, tensor, uniform, values,
    };
    use model::{ElemType, Role};
    use system::error::Error;

    fn one(tensor: Tensor, seed: u64) -> system::error::Result<TensorData> {
        let name = tensor.name.clone();
        let inputs = generate(&case(vec![tensor]), seed)?;
        Ok(inputs.tensors[&name].clone())
    }

    fn offsets(total: i64, min: i64) -> Fill {
        Fill::Offsets { total, min }
    }

    #[test]
    fn fills_that_do_not_suit_are_refused() {
        use ElemType::{F16, F32, I32, U8};
        let bad = [
            (I32, normal(0.0, 1.0)),
            (F32, normal(0.0, -1.0)),
            (F32, normal(f64::NAN, 1.0)),
            (F32, uniform(1.0, 1.0)),
            (F32, uniform(0.0, f64::INFINITY)),
            (F16, constant(70000.0)),
            (I32, constant(0.5)),
            (I32, constant(f64::NAN)),
            (F32, values(&[1.0])),
            (U8, integers(0, 300)),
            (U8, integers(2, 1)),
            (I32, Fill::BlockTable { pool: 3 }),
            (I32, Fill::BlockTable { pool: -1 }),
            (I32, offsets(5, 2)),
            (I32, offsets(5, -1)),
            (I32, offsets(5, i64::MAX)),
        ];
        for (elem, fill) in bad {
            // 300 distinct draws would hide a range error only by chance.
            let count = if matches!(fill, Fill::Integers { .. }) {
                400
            } else {
                4
            };
            let said = format!("{elem:?} {fill:?}");
            let made = one(filled("x", elem, &[count], fill), 1);
            assert!(matches!(made, Err(Error::Usage(_))), "{said}");
        }
        assert!(one(tensor("x", Role::In, F32, &[4]), 1).is_err());
        let mut aliased = input("x", F32, &[4, 4]);
        aliased.strides = Some(vec![0, 1]);
        assert!(one(aliased, 1).is_err());
    }

    #[test]
    fn rules_for_integers() {
        let draw = |fill| {
            let tensor = filled("x", ElemType::I32, &[6], fill);
            one(tensor, 4).unwrap().seen
        };
        assert_eq!(draw(Fill::Iota), Values::I64((0..6).collect()));
        assert_eq!(draw(constant(-3.0)), Values::I64(vec![-3; 6]));
        let Values::I64(mut permutation) = draw(Fill::Permutation) else {
            panic!()
        };
        permutation.sort_unstable();
        assert_eq!(permutation, [0, 1, 2, 3, 4, 5]);
        let Values::I64(offsets) = draw(offsets(20, 1)) else {
            panic!()
        };
        assert_eq!((offsets[0], offsets[5]), (0, 20));
    }
}
