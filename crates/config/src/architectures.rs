//! Resolves lists of architectures, such as `[sm_89, sm_90]`.

use super::yaml::{Mistake, Spanned};
use model::Arch;

/// Resolves a list of architectures.
///
/// # Errors
/// Returns an error for an empty list, a name that is no architecture, and a name that occurs twice.
pub fn resolve_architectures(raw: &Spanned<Vec<Spanned<String>>>) -> Result<Vec<Arch>, Mistake> {
    if raw.is_empty() {
        return Err(raw.problem("no architectures: nothing would be built"));
    }
    let mut architectures = Vec::new();
    for name in raw.iter() {
        let arch: Arch = name
            .parse()
            .map_err(|error: model::BadArch| name.problem(error.to_string()))?;
        if architectures.contains(&arch) {
            return Err(name.problem(format!("duplicate architecture {arch}")));
        }
        architectures.push(arch);
    }
    Ok(architectures)
}
