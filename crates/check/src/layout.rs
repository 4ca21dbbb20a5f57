//! Maps an element's index to its place in a device buffer.

use super::{Values, elem};
use model::Tensor;
use std::borrow::Cow;

/// A device buffer whose length does not fit its tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tensor `{tensor}` spans {want} bytes and the buffer has {got}")]
pub struct WrongBytes {
    pub tensor: String,
    pub want: usize,
    pub got: usize,
}

/// The reason for which strides cannot be those of a tensor.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StridesError {
    #[error("{strides} strides for {dims} dimensions")]
    Count { strides: usize, dims: usize },
    #[error("strides {strides:?} over dimensions {dims:?} put several elements in one place")]
    Overlap {
        strides: Vec<usize>,
        dims: Vec<usize>,
    },
}

/// Reads a device buffer and resolves its strides. It undoes no codec, because outputs have none.
///
/// # Errors
/// Fails if `bytes` is not exactly the span of the tensor.
pub fn decode(tensor: &Tensor, bytes: &[u8]) -> Result<Values, WrongBytes> {
    let bytes = Layout::new(tensor).gather(tensor, bytes)?;
    Ok(elem::decode(tensor.elem, &bytes))
}

#[derive(Clone, Copy)]
pub struct Layout<'a> {
    dims: &'a [usize],
    strides: Option<&'a [usize]>,
}

impl<'a> Layout<'a> {
    pub fn new(tensor: &'a Tensor) -> Self {
        Self {
            dims: &tensor.dims,
            strides: tensor.strides.as_deref(),
        }
    }

    /// Refuses strides that put two elements in one place, because their values would depend on an order.
    ///
    /// The check is sufficient, and necessary for the strides that tensor libraries make by slicing and permuting:
    /// ordered by stride, each dimension steps over everything that the smaller ones span.
    pub fn validate(self) -> Result<(), StridesError> {
        let Some(strides) = self.strides else {
            return Ok(());
        };
        if strides.len() != self.dims.len() {
            return Err(StridesError::Count {
                strides: strides.len(),
                dims: self.dims.len(),
            });
        }
        let mut axes: Vec<(usize, usize)> = strides
            .iter()
            .copied()
            .zip(self.dims.iter().copied())
            .filter(|&(_, dim)| dim > 1)
            .collect();
        axes.sort_unstable();
        let mut span = 1;
        for (stride, dim) in axes {
            if stride < span {
                return Err(StridesError::Overlap {
                    strides: strides.to_vec(),
                    dims: self.dims.to_vec(),
                });
            }
            span += (dim - 1) * stride;
        }
        Ok(())
    }

    /// Returns the addressed elements of a device buffer, contiguous.
    ///
    /// # Errors
    /// Fails if `bytes` is not exactly the tensor's span.
    pub fn gather<'b>(self, tensor: &Tensor, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, WrongBytes> {
        let size = tensor.elem.size();
        let want = tensor.span() * size;
        if bytes.len() != want {
            return Err(WrongBytes {
                tensor: tensor.name.clone(),
                want,
                got: bytes.len(),
            });
        }
        let Some(strides) = self.strides else {
            return Ok(Cow::Borrowed(bytes));
        };
        let mut gathered = Vec::with_capacity(tensor.len() * size);
        for offset in offsets(self.dims, strides) {
            gathered.extend_from_slice(&bytes[offset * size..][..size]);
        }
        Ok(Cow::Owned(gathered))
    }

    /// Returns a device buffer with `contiguous` at the addressed places and `gap` (one element) in between.
    pub fn scatter(self, tensor: &Tensor, contiguous: Vec<u8>, gap: &[u8]) -> Vec<u8> {
        if self.strides.is_none() {
            return contiguous;
        }
        let mut image = gap.repeat(tensor.span());
        self.overwrite(tensor, &contiguous, &mut image);
        image
    }

    /// Puts `contiguous` at the addressed places of a device buffer and leaves its gaps.
    pub fn overwrite(self, tensor: &Tensor, contiguous: &[u8], image: &mut [u8]) {
        let Some(strides) = self.strides else {
            return image.copy_from_slice(contiguous);
        };
        let size = tensor.elem.size();
        let elements = contiguous.chunks_exact(size);
        for (offset, element) in offsets(self.dims, strides).zip(elements) {
            image[offset * size..][..size].copy_from_slice(element);
        }
    }
}

/// Returns the offsets in elements, in row-major order of the dimensions.
pub fn offsets(dims: &[usize], strides: &[usize]) -> impl Iterator<Item = usize> + Clone {
    let axes: Vec<(usize, usize)> = dims.iter().copied().zip(strides.iter().copied()).collect();
    let total: usize = dims.iter().product();
    let mut index = vec![0; axes.len()];
    let mut offset = 0;
    (0..total).map(move |_| {
        let here = offset;
        for (position, &(dim, stride)) in index.iter_mut().zip(&axes).rev() {
            *position += 1;
            offset += stride;
            if *position < dim {
                break;
            }
            *position = 0;
            offset -= dim * stride;
        }
        here
    })
}

/// Returns the index of the element at `position` in row-major order, one number for each dimension.
pub fn index(dims: &[usize], mut position: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for (slot, &dim) in index.iter_mut().zip(dims).rev() {
        *slot = position % dim.max(1);
        position /= dim.max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tensor;
    use model::{ElemType, Role};
    use proptest::prelude::*;

    fn strided(dims: &[usize], strides: &[usize]) -> Tensor {
        let mut tensor = tensor("x", Role::In, ElemType::I8, dims);
        tensor.strides = Some(strides.to_vec());
        tensor
    }

    #[test]
    fn a_padded_row_and_a_transposed_matrix() {
        let padded = strided(&[2, 3], &[5, 1]);
        let image = Layout::new(&padded).scatter(&padded, vec![1, 2, 3, 4, 5, 6], &[9]);
        assert_eq!(image, [1, 2, 3, 9, 9, 4, 5, 6]);
        assert_eq!(
            *Layout::new(&padded).gather(&padded, &image).unwrap(),
            [1, 2, 3, 4, 5, 6]
        );
        let transposed = strided(&[2, 3], &[1, 2]);
        let image = Layout::new(&transposed).scatter(&transposed, vec![1, 2, 3, 4, 5, 6], &[9]);
        assert_eq!(image, [1, 4, 2, 5, 3, 6]);
        assert!(
            Layout::new(&transposed)
                .gather(&transposed, &image[..5])
                .is_err()
        );
    }

    #[test]
    fn strides_that_alias_are_refused() {
        for (dims, strides) in [
            (vec![2, 3], vec![0, 1]),
            (vec![2, 3], vec![2, 1]),
            (vec![2, 3], vec![1, 1]),
            (vec![2, 3], vec![3]),
        ] {
            let tensor = strided(&dims, &strides);
            assert!(
                Layout::new(&tensor).validate().is_err(),
                "{dims:?} {strides:?}"
            );
        }
        for (dims, strides) in [(vec![1, 3], vec![0, 1]), (vec![2, 3], vec![1, 2])] {
            let tensor = strided(&dims, &strides);
            assert_eq!(
                Layout::new(&tensor).validate(),
                Ok(()),
                "{dims:?} {strides:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn gather_undoes_scatter(dims in proptest::collection::vec(1usize..5, 0..4), pad in 0usize..3) {
            let mut stride = 1;
            let mut strides = vec![0; dims.len()];
            for axis in (0..dims.len()).rev() {
                strides[axis] = stride;
                stride = stride * dims[axis] + pad;
            }
            let tensor = strided(&dims, &strides);
            prop_assert!(Layout::new(&tensor).validate().is_ok());
            let values: Vec<u8> = (0..tensor.len()).map(|i| i as u8).collect();
            let image = Layout::new(&tensor).scatter(&tensor, values.clone(), &[255]);
            prop_assert_eq!(image.len(), tensor.span());
            for (position, value) in values.iter().enumerate() {
                let at: usize = index(&dims, position).iter().zip(&strides).map(|(i, s)| i * s).sum();
                prop_assert_eq!(image[at], *value);
            }
            prop_assert_eq!(Layout::new(&tensor).gather(&tensor, &image).unwrap().into_owned(), values);
        }
    }
}
