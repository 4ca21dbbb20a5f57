//! Computes the `gemm` reference: matrix products with an epilogue.

use super::{Array, NoAnswer, Scene, elementwise, same_dims};
use crate::Values;
use matmul::{Matrix, multiply};
use model::{ElemType, Reference};
use rayon::prelude::*;

/// The number of rows that one task computes.
const BAND: usize = 128;

/// An operand: one matrix for the whole batch, or one for each element of it.
struct MatrixOperand<'a> {
    array: Array<'a>,
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<'a> MatrixOperand<'a> {
    fn new(
        name: &str,
        array: Array<'a>,
        transposed: bool,
        batch: &[usize],
    ) -> Result<Self, NoAnswer> {
        let (leading, &[stored_rows, stored_columns]) =
            array.dims.split_at(array.dims.len().saturating_sub(2))
        else {
            return Err(NoAnswer::Reference(format!(
                "`{name}` has dimensions {:?} and is not a matrix",
                array.dims
            )));
        };
        if !leading.is_empty() && leading != batch {
            return Err(NoAnswer::Reference(format!(
                "`{name}` has batch dimensions {leading:?} where the output has {batch:?}"
            )));
        }
        let (rows, columns) = if transposed {
            (stored_columns, stored_rows)
        } else {
            (stored_rows, stored_columns)
        };
        Ok(Self {
            array,
            rows,
            columns,
            transposed,
        })
    }

    fn start(&self, batch: usize) -> usize {
        if self.array.dims.len() > 2 {
            batch * self.rows * self.columns
        } else {
            0
        }
    }

    fn matrix<'b>(&self, values: &'b [f32], batch: usize) -> Matrix<'b> {
        let values = &values[self.start(batch)..][..self.rows * self.columns];
        if self.transposed {
            Matrix::row_major(values, self.columns, self.rows).transposed()
        } else {
            Matrix::row_major(values, self.rows, self.columns)
        }
    }

    fn at(&self, row: usize, column: usize) -> usize {
        if self.transposed {
            column * self.rows + row
        } else {
            row * self.columns + column
        }
    }
}

pub fn gemm(scene: Scene) -> Result<Values, NoAnswer> {
    let Reference::Gemm {
        a,
        b,
        out,
        c,
        bias,
        alpha,
        beta,
        transpose_a,
        transpose_b,
        epilogue,
    } = &scene.case.reference
    else {
        return Err("not a gemm".into());
    };
    let out_tensor = scene.output(out)?;
    let (batch, &[m, n]) = out_tensor
        .dims
        .split_at(out_tensor.dims.len().saturating_sub(2))
    else {
        return Err(NoAnswer::Reference(format!(
            "`{out}` has dimensions {:?} and is not a matrix",
            out_tensor.dims
        )));
    };
    let left = MatrixOperand::new(a, scene.input(a)?, *transpose_a, batch)?;
    let right = MatrixOperand::new(b, scene.input(b)?, *transpose_b, batch)?;
    if (left.rows, left.columns, right.columns) != (m, right.rows, n) {
        return Err(NoAnswer::Reference(format!(
            "`{a}` {:?} times `{b}` {:?} (transposed: {transpose_a}, {transpose_b}) is not `{out}` {:?}",
            left.array.dims, right.array.dims, out_tensor.dims
        )));
    }
    let added = c
        .as_ref()
        .map(|name| MatrixOperand::new(name, scene.input(name)?, false, batch))
        .transpose()?;
    if let (Some(added), Some(name)) = (&added, c) {
        same_dims(name, &[added.rows, added.columns], &[m, n])?;
    }
    let bias_values = scene.optional(bias.as_ref())?;
    if let (Some(bias), Some(name)) = (bias_values, bias) {
        same_dims(name, bias.dims, &[n])?;
    }
    if !out_tensor.elem.is_float() {
        let plain = alpha.0 == 1.0 && epilogue.is_none() && bias.is_none() && added.is_none();
        return integers(
            &left,
            &right,
            batch.iter().product(),
            plain,
            out_tensor.elem,
        );
    }

    let mut result = vec![0.0; out_tensor.len()];
    let (x, y) = (left.array.values.floats(), right.array.values.floats());
    let c_values = added.as_ref().map(|added| added.array.values.floats());
    let bias_values = bias_values.map(|bias| bias.values.floats());
    let beta = beta.0 as f32;
    result
        .par_chunks_mut((m * n).max(1))
        .enumerate()
        .flat_map(|(batch, out)| {
            out.par_chunks_mut(BAND * n)
                .enumerate()
                .map(move |(band, out)| (batch, band * BAND, out))
        })
        .for_each(|(batch, first, out)| {
            let rows = out.len() / n;
            multiply(
                out,
                left.matrix(&x, batch).band(first, rows),
                right.matrix(&y, batch),
                alpha.0 as f32,
            );
            for (row, out) in out.chunks_exact_mut(n).enumerate() {
                if let (Some(added), Some(values)) = (&added, &c_values) {
                    let values = &values[added.start(batch) + (first + row) * n..][..n];
                    out.iter_mut()
                        .zip(values)
                        .for_each(|(out, value)| *out += beta * value);
                }
                if let Some(values) = &bias_values {
                    out.iter_mut()
                        .zip(values.iter())
                        .for_each(|(out, value)| *out += value);
                }
                if let Some(op) = epilogue {
                    out.iter_mut()
                        .for_each(|out| *out = elementwise::apply(*op, *out));
                }
            }
        });
    Ok(Values::F32(result))
}

/// Multiplies matrices of integers, without any rounding.
fn integers(
    left: &MatrixOperand,
    right: &MatrixOperand,
    batches: usize,
    plain: bool,
    elem: ElemType,
) -> Result<Values, NoAnswer> {
    let (Values::I64(x), Values::I64(y), true) = (left.array.values, right.array.values, plain)
    else {
        return Err(NoAnswer::Reference(format!(
            "a gemm into {elem:?} is computed exactly, and only as a plain product of tensors of integers"
        )));
    };
    let (m, n, depth) = (left.rows, right.columns, left.columns);
    (0..batches * m)
        .into_par_iter()
        .flat_map_iter(|row| {
            let (batch, row) = (row / m, row % m);
            (0..n).map(move |column| {
                (0..depth).try_fold(0i64, |sum, k| {
                    let left = x[left.start(batch) + left.at(row, k)];
                    let right = y[right.start(batch) + right.at(k, column)];
                    left.checked_mul(right)
                        .and_then(|product| sum.checked_add(product))
                })
            })
        })
        .collect::<Option<Vec<i64>>>()
        .map(Values::I64)
        .ok_or_else(|| "the product of integers overflows 64 bits".into())
}
