//! Computes functions of one element or two.

use super::{NoAnswer, Scene, same_dims};
use crate::Values;
use model::{Binary, Unary};
use rayon::prelude::*;

pub fn unary(scene: Scene, x: &str, out: &str, op: Unary) -> Result<Values, NoAnswer> {
    let input = scene.input(x)?;
    same_dims(out, &scene.output(out)?.dims, input.dims)?;
    match input.values {
        values @ (Values::F32(_) | Values::F64(_)) => Ok(Values::F32(
            values
                .floats()
                .par_iter()
                .map(|&value| apply(op, value))
                .collect(),
        )),
        Values::I64(values) => {
            let exact: Option<Option<Vec<i64>>> =
                values.iter().map(|&value| whole(op, value)).collect();
            match exact {
                Some(values) => values
                    .map(Values::I64)
                    .ok_or_else(|| "the result overflows 64 bits".into()),
                None => Ok(Values::F32(
                    input
                        .values
                        .floats()
                        .iter()
                        .map(|&value| apply(op, value))
                        .collect(),
                )),
            }
        }
    }
}

/// Applies a function in f64 and rounds once.
pub fn apply(op: Unary, x: f32) -> f32 {
    let wide = f64::from(x);
    let value = match op {
        Unary::Copy => wide,
        Unary::Neg => -wide,
        Unary::Abs => wide.abs(),
        // `max(0, x)` would turn NaN into 0.
        Unary::Relu => {
            if wide < 0.0 {
                0.0
            } else {
                wide
            }
        }
        Unary::Gelu => 0.5 * wide * libm::erfc(-wide * std::f64::consts::FRAC_1_SQRT_2),
        Unary::GeluTanh => {
            // This is the approximation of Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2.
            let inner =
                std::f64::consts::FRAC_2_PI.sqrt() * (wide + 0.044_715 * wide * wide * wide);
            0.5 * wide * (1.0 + libm::tanh(inner))
        }
        Unary::Silu => wide * sigmoid(wide),
        Unary::Sigmoid => sigmoid(wide),
        Unary::Tanh => libm::tanh(wide),
        Unary::Exp => libm::exp(wide),
        Unary::Sqrt => wide.sqrt(),
    };
    value as f32
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// Applies a function to an integer. Returns `None` if the result is not an integer, and `Some(None)` if it overflows.
fn whole(op: Unary, x: i64) -> Option<Option<i64>> {
    match op {
        Unary::Copy => Some(Some(x)),
        Unary::Neg => Some(x.checked_neg()),
        Unary::Abs => Some(x.checked_abs()),
        Unary::Relu => Some(Some(x.max(0))),
        Unary::Gelu
        | Unary::GeluTanh
        | Unary::Silu
        | Unary::Sigmoid
        | Unary::Tanh
        | Unary::Exp
        | Unary::Sqrt => None,
    }
}

pub fn binary(scene: Scene, a: &str, b: &str, out: &str, op: Binary) -> Result<Values, NoAnswer> {
    let (left, right) = (scene.input(a)?, scene.input(b)?);
    same_dims(b, right.dims, left.dims)?;
    same_dims(out, &scene.output(out)?.dims, left.dims)?;
    if let (Values::I64(left), Values::I64(right)) = (left.values, right.values)
        && op != Binary::Div
    {
        return left
            .iter()
            .zip(right)
            .map(|(&left, &right)| match op {
                Binary::Add => left.checked_add(right),
                Binary::Sub => left.checked_sub(right),
                Binary::Mul => left.checked_mul(right),
                Binary::Min => Some(left.min(right)),
                Binary::Max => Some(left.max(right)),
                Binary::Div => None,
            })
            .collect::<Option<_>>()
            .map(Values::I64)
            .ok_or_else(|| "the result overflows 64 bits".into());
    }
    let (left, right) = (left.values.floats(), right.values.floats());
    Ok(Values::F32(
        left.par_iter()
            .zip(right.par_iter())
            .map(|(&left, &right)| match op {
                Binary::Add => left + right,
                Binary::Sub => left - right,
                Binary::Mul => left * right,
                Binary::Div => left / right,
                Binary::Min => least(left, right),
                Binary::Max => -least(-left, -right),
            })
            .collect(),
    ))
}

/// Returns the smaller of two, or NaN if either is NaN, unlike `f32::min`.
pub fn least(left: f32, right: f32) -> f32 {
    if left.is_nan() || left < right {
        left
    } else {
        right
    }
}
