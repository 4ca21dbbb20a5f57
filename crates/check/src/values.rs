//! Tensors as the CPU side holds them: contiguous, in one of three types.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The elements of a tensor in row-major order of its dimensions, whatever its strides on the device.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// The type of all floating-point element types but f64, and of every tensor with a codec.
    F32(Vec<f32>),
    /// The values of tensors whose elements are f64.
    F64(Vec<f64>),
    /// The values of every integer element type, exactly.
    I64(Vec<i64>),
}

/// Each tensor that a kernel writes, by its name.
pub type Outputs = BTreeMap<String, Values>;

impl Values {
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the values in bytes of memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::F32(values) => size_of_val(values.as_slice()),
            Self::F64(values) => size_of_val(values.as_slice()),
            Self::I64(values) => size_of_val(values.as_slice()),
        }
    }

    /// Returns the values as f32. Integers beyond 2^24 are rounded.
    pub fn floats(&self) -> Cow<'_, [f32]> {
        match self {
            Self::F32(values) => Cow::Borrowed(values),
            Self::F64(values) => Cow::Owned(values.iter().map(|&value| value as f32).collect()),
            Self::I64(values) => Cow::Owned(values.iter().map(|&value| value as f32).collect()),
        }
    }

    pub(super) fn all_finite(&self) -> bool {
        match self {
            Self::F32(values) => values.iter().all(|value| value.is_finite()),
            Self::F64(values) => values.iter().all(|value| value.is_finite()),
            Self::I64(_) => true,
        }
    }
}
