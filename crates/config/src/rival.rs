//! Resolves rivals: other programs that do the work of a kernel.

use super::names::check_identifier;
use super::raw::{self, RawRival};
use super::yaml::{Mistake, Spanned};
use super::{defaults, scope};
use model::Rival;

pub fn resolve_rivals(kernel: &str, raw: &raw::Kernel) -> Result<Vec<Rival>, Mistake> {
    raw.rivals
        .iter()
        .map(|(name, rival)| resolve_rival(kernel, name, rival))
        .collect()
}

/// Returns the words of a command, which must at least name a program.
pub fn read_command(
    words: &Spanned<Vec<Spanned<String>>>,
    example: &str,
) -> Result<Vec<String>, Mistake> {
    match words.first() {
        Some(program) if !program.trim().is_empty() => {}
        Some(program) => return Err(program.problem("the program has no name")),
        None => {
            return Err(words
                .problem("no command: nothing would be started")
                .help(format!("command: {example}")));
        }
    }
    if let Some(part) = words.iter().find(|part| part.contains('\0')) {
        return Err(part.problem("a NUL cannot be part of a command"));
    }
    Ok(words.iter().map(|part| part.value.clone()).collect())
}

fn resolve_rival(
    kernel: &str,
    name: &Spanned<String>,
    raw: &Spanned<RawRival>,
) -> Result<Rival, Mistake> {
    check_identifier(name, "rival")?;
    let command = read_command(&raw.command, "[python3, rivals/torch_sdpa.py]")?;
    if raw.backends.is_empty() {
        return Err(raw
            .backends
            .problem("no backends: nothing would be compared"));
    }
    let mut backends: Vec<String> = Vec::new();
    for backend in raw.backends.iter() {
        check_identifier(backend, "backend")?;
        if backends.contains(&backend.value) {
            return Err(backend.problem(format!("duplicate backend `{backend}`")));
        }
        backends.push(backend.value.clone());
    }
    let deadline = match &raw.deadline {
        None => defaults::RIVAL_DEADLINE_NS,
        Some(deadline) => scope::parse_duration(deadline, "a deadline", 1e9..=3.6e12)?,
    };
    Ok(Rival {
        kernel: kernel.to_owned(),
        name: name.value.clone(),
        command,
        backends,
        deadline_ms: (deadline / 1e6) as u64,
        requested: true,
    })
}
