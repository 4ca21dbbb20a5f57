//! Matrix products in f32: the one place that calls the GEMM library.

use gemm_common::Parallelism;

/// A view of f32 values with any two strides.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// Makes a row-major matrix of these values.
    ///
    /// # Panics
    /// Panics if `data` does not have exactly `rows * columns` values.
    pub fn row_major(data: &'a [f32], rows: usize, columns: usize) -> Self {
        assert_eq!(data.len(), rows * columns, "a matrix of {rows} x {columns}");
        Self {
            data,
            rows,
            columns,
            row_stride: columns,
            column_stride: 1,
        }
    }

    /// Returns the transposed matrix over the same values, which are not moved.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Returns the rows `first..first + count`.
    ///
    /// # Panics
    /// Panics if the matrix has fewer rows.
    #[must_use]
    pub fn band(self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.rows);
        Self {
            data: &self.data[(first * self.row_stride).min(self.data.len())..],
            rows: count,
            ..self
        }
    }
}

/// Computes out = factor * a b, row-major, on the calling thread. Callers have parallel work of their own, and the
/// result then does not depend on the number of threads.
///
/// # Panics
/// Panics if the shapes do not fit.
pub fn multiply(out: &mut [f32], a: Matrix, b: Matrix, factor: f32) {
    assert_eq!(a.columns, b.rows);
    assert_eq!(out.len(), a.rows * b.columns);
    for matrix in [a, b] {
        let empty = matrix.rows == 0 || matrix.columns == 0;
        assert!(
            empty
                || (matrix.rows - 1) * matrix.row_stride
                    + (matrix.columns - 1) * matrix.column_stride
                    < matrix.data.len()
        );
    }
    if out.is_empty() {
        return;
    }
    // The library is best at outputs whose columns are contiguous, which a row-major one is when transposed.
    let (left, right) = match b.columns {
        1 => (a, b),
        _ => (b.transposed(), a.transposed()),
    };
    // SAFETY: the three asserts above bound every address that the strides can form; `out` is borrowed
    // mutably, so nothing else refers to it.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            left.rows,
            right.columns,
            left.columns,
            out.as_mut_ptr(),
            b.columns as isize,
            1,
            false,
            left.data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.data.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            0.0,
            factor,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
