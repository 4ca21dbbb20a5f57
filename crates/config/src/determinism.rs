//! Resolves `nondeterministic`, which says whether launches on the same inputs may differ, and why.

use super::yaml::{Mistake, Spanned};
use model::Determinism;

pub fn resolve_determinism(reason: Option<&Spanned<String>>) -> Result<Determinism, Mistake> {
    let Some(reason) = reason else {
        return Ok(Determinism::BitExact);
    };
    if reason.trim().len() < 3 || matches!(reason.trim(), "true" | "false" | "yes") {
        return Err(reason
            .problem("`nondeterministic` needs the reason why launches differ")
            .help("nondeterministic: float atomics"));
    }
    Ok(Determinism::Declared {
        reason: reason.value.clone(),
    })
}
