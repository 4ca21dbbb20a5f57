//! Resolves whole files, and compares results and messages.

use super::*;
use disk::PathKind;
use load::resolve_file;
use loaded::Loaded;
use system::error::Diagnostic;

mod accepted;
mod edits;
mod files;
mod garbage;
mod programs;
mod schema;
mod selection;
mod tune;

/// Returns a disk on which every path with an extension is a file.
fn disk(path: &str) -> Option<PathKind> {
    match path {
        "missing.cu" => None,
        _ if path.ends_with("/missing") => None,
        _ if path.contains('.') && path != "." => Some(PathKind::File),
        _ => Some(PathKind::Directory),
    }
}

fn environment(name: &str) -> Option<String> {
    match name {
        "TORCH_INCLUDE" => Some("/opt/torch/include".to_owned()),
        "RELATIVE" => Some("include".to_owned()),
        _ => None,
    }
}

/// Resolves a file without reading or selecting it.
pub fn parse(
    file: &str,
    text: &str,
    disk: &dyn Fn(&str) -> Option<PathKind>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Diagnostic> {
    let source = Source::parse(file, text)?;
    resolve_file(&source, disk, environment).map_err(|problem| source.diagnose(&problem))
}

fn read(text: &str) -> Result<Loaded, String> {
    parse("gates.yaml", text, &disk, &environment).map_err(|diagnostic| diagnostic.to_string())
}

/// A small file that is correct. Tests change one line of it.
const RIGHT: &str = include_str!("tests/edits/scale.yaml");

/// Returns the message for a file that is wrong.
fn said_of(text: &str) -> String {
    match read(text) {
        Err(said) => said,
        Ok(_) => panic!("accepted:\n{text}"),
    }
}

fn accepted(text: &str) -> Loaded {
    read(text).unwrap_or_else(|said| panic!("{said}\n{text}"))
}
