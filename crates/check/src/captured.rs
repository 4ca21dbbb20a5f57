//! Memory of a program, as `gatekeeper capture` wrote it.

use super::{Outputs, elem};
use capture::{Content, Contents, Hash};
use model::{CapturedContent, Case};
use std::collections::BTreeMap;
use std::path::Path;

/// # Errors
/// Chunks that are missing or damaged.
pub fn read(content: &CapturedContent) -> Result<Vec<u8>, String> {
    let chunks = content.chunks.iter();
    let chunks = chunks.map(|hash| Hash::try_from(hash.clone()));
    let stored = Content {
        bytes: content.bytes,
        chunks: chunks.collect::<Result<_, _>>()?,
    };
    let contents = Contents::of(Path::new(&content.capture));
    contents.get(&stored).map_err(|damage| damage.to_string())
}

/// The memory that a captured launch left, for each output of its case.
///
/// # Errors
/// As `read`, and where an output of the case has none.
pub fn outputs(
    case: &Case,
    outputs: &BTreeMap<String, CapturedContent>,
) -> Result<Outputs, String> {
    let results = case.tensors.iter().filter(|tensor| tensor.role.is_result());
    results
        .map(|tensor| {
            let content = outputs.get(&tensor.name);
            let content =
                content.ok_or_else(|| format!("nothing was captured of `{}`", tensor.name))?;
            let values = elem::decode(tensor.elem, &read(content)?);
            Ok((tensor.name.clone(), values))
        })
        .collect()
}
