//! Reads memory of a program that `gatekeeper capture` wrote.

use super::{Outputs, elem};
use capture::{BadHash, Content, Contents, Damage, Hash};
use model::{CapturedContent, Case};
use std::collections::BTreeMap;
use std::path::Path;

/// The reason for which captured memory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CapturedError {
    #[error(transparent)]
    Hash(#[from] BadHash),
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error("{count} bytes from {from} are no part of {bytes} bytes")]
    Part {
        from: usize,
        count: usize,
        bytes: usize,
    },
    #[error("nothing was captured of `{0}`")]
    Missing(String),
}

/// Reads captured memory.
///
/// # Errors
/// Fails if chunks are missing or damaged.
pub fn read(content: &CapturedContent) -> Result<Vec<u8>, CapturedError> {
    let chunks = content
        .chunks
        .iter()
        .map(|hash| Hash::try_from(hash.clone()));
    let stored = Content {
        bytes: content.bytes,
        chunks: chunks.collect::<Result<_, _>>()?,
    };
    let contents = Contents::new(Path::new(&content.capture));
    let bytes = contents.get(&stored)?;
    let Some(part) = content.part else {
        return Ok(bytes);
    };
    let from = usize::try_from(part.from).unwrap_or(usize::MAX);
    let count = usize::try_from(part.bytes).unwrap_or(usize::MAX);
    bytes
        .get(from..from.saturating_add(count))
        .map(<[u8]>::to_vec)
        .ok_or(CapturedError::Part {
            from,
            count,
            bytes: bytes.len(),
        })
}

/// Returns the memory that a captured launch left in the tensors of a case whose reference is another one.
///
/// # Errors
/// Fails as `read` does.
pub fn left(case: &Case) -> Result<Outputs, CapturedError> {
    case.tensors
        .iter()
        .filter_map(|tensor| Some((tensor, tensor.left.as_ref()?)))
        .map(|(tensor, content)| {
            let values = elem::decode(tensor.elem, &read(content)?);
            Ok((tensor.name.clone(), values))
        })
        .collect()
}

/// Returns the memory that a captured launch left, for each output of its case.
///
/// # Errors
/// Fails as `read` does, and if the launch left nothing for an output of the case.
pub fn outputs(
    case: &Case,
    outputs: &BTreeMap<String, CapturedContent>,
) -> Result<Outputs, CapturedError> {
    case.tensors
        .iter()
        .filter(|tensor| tensor.role.is_result())
        .map(|tensor| {
            let content = outputs
                .get(&tensor.name)
                .ok_or_else(|| CapturedError::Missing(tensor.name.clone()))?;
            let values = elem::decode(tensor.elem, &read(content)?);
            Ok((tensor.name.clone(), values))
        })
        .collect()
}
