//! How much of a project's PTX ptxsim loads: for counting what people have written, and what is missing most.

use crate::gpu::Result;
use ptxsim::{LoadError, Module};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Forms that belong to the asynchronous engines of sm_90 and later. They are counted apart: one missing
/// engine would hide what else is missing.
const ENGINES: [&str; 7] = [
    "wgmma.",
    "cp.async.bulk.tensor",
    "cp.reduce.async.bulk",
    "multicast::cluster",
    "tcgen05.",
    "barrier.cluster",
    "mapa.",
];

#[derive(Default)]
struct Count {
    loaded: usize,
    /// Refused, with a form of an engine in it.
    engines: usize,
    /// The kernels that are refused, by the first thing that is.
    refused: BTreeMap<String, Vec<String>>,
}

/// One line for each directory of `.ptx` files, then what its kernels are refused for. A kernel that several
/// files have counts once.
pub fn run(directories: &[PathBuf], out: &mut dyn Write) -> Result<bool> {
    for directory in directories {
        let count = count(directory)?;
        let refused: usize = count.refused.values().map(Vec::len).sum();
        let all = count.loaded + count.engines + refused;
        let share = 100.0 * count.loaded as f64 / (all - count.engines).max(1) as f64;
        writeln!(
            out,
            "{}: {all} entries, {} use wgmma, TMA, clusters or tcgen05; of the others {} load, {share:.1} %",
            directory.display(),
            count.engines,
            count.loaded,
        )?;
        let mut reasons: Vec<_> = count.refused.iter().collect();
        reasons.sort_by_key(|(_, kernels)| std::cmp::Reverse(kernels.len()));
        for (reason, kernels) in reasons {
            let example = kernels.first().map_or("", String::as_str);
            writeln!(out, "  {:5}  {reason}  ({example})", kernels.len())?;
        }
    }
    Ok(true)
}

fn count(directory: &Path) -> Result<Count> {
    let (mut count, mut seen) = (Count::default(), BTreeSet::new());
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<std::io::Result<_>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "ptx"));
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path)?;
        let module = Module::load(&text);
        for (name, body) in entries(&text) {
            if !seen.insert(name.to_owned()) {
                continue;
            }
            let refusal = match &module {
                Err(error) => Some(error),
                Ok(module) => module
                    .refused()
                    .iter()
                    .find(|r| r.name == name)
                    .map(|r| &r.error),
            };
            match refusal {
                None => count.loaded += 1,
                Some(_) if ENGINES.iter().any(|form| body.contains(form)) => count.engines += 1,
                Some(error) => {
                    let kernels = count.refused.entry(reason(error)).or_default();
                    kernels.push(name.to_owned());
                }
            }
        }
    }
    Ok(count)
}

/// Returns the names and texts of a module's kernels. It searches the text, because a module that is refused offers
/// nothing else.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(".entry ").skip(1).map(|rest| {
        let name = rest.split(['(', ' ', '\n', '\t']).next().unwrap_or("");
        let body = rest.split("\n}").next().unwrap_or(rest);
        (name, body)
    })
}

/// Removes places from a refusal, so that kernels which miss the same thing have the same text.
fn reason(error: &LoadError) -> String {
    match error {
        LoadError::Unsupported { form, detail, .. } => format!("{form}{detail}"),
        LoadError::Invalid { message, .. } => message.clone(),
        LoadError::Parse(error) => {
            let text = error.to_string();
            let message = text.split_once(": ").map(|(_, message)| message.to_owned());
            message.unwrap_or(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_kernels_by_their_missing_instructions() {
        let dir = std::env::temp_dir().join(format!("ptxsim-loads-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
        let kernel = |name: &str, body: &str| {
            format!(".visible .entry {name}()\n{{\n.reg .b32 %r<9>;\n{body}\nret;\n}}\n")
        };
        let right = kernel("right", "mov.b32 %r1, 3;");
        let files = [
            (
                "a.ptx",
                format!("{head}{right}{}", kernel("no", "frob.b32 %r1, 3;")),
            ),
            (
                "b.ptx",
                format!(
                    "{head}{right}{}",
                    kernel("engine", "tcgen05.wait::ld.sync.aligned;")
                ),
            ),
            ("c.txt", "no PTX".to_owned()),
        ];
        for (name, text) in files {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let counted = count(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        let counted = counted.unwrap();
        assert_eq!((counted.loaded, counted.engines), (1, 1));
        let refused: Vec<_> = counted.refused.into_iter().collect();
        assert_eq!(refused, [("frob.b32".to_owned(), vec!["no".to_owned()])]);
    }
}
