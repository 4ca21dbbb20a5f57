//! Reads a gates file from the disk, resolves it, and selects.

use super::disk::{find_top, on_disk};
use super::loaded::Loaded;
use super::resolve::parse;
use super::select::{self, Selection};
use model::DEFAULT_CONFIG;
use std::path::{Path, PathBuf};
use system::error::{Diagnostic, Error, Result};
use system::files;
use system::sources;

/// Returns the nearest directory above this one that has a gates file, as `../..`.
pub fn find_above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let mut above = here.ancestors().skip(1);
    let steps = above.position(|dir| dir.join(DEFAULT_CONFIG).is_file())? + 1;
    Some(std::iter::repeat_n("..", steps).collect())
}

/// Reads, checks and resolves `path`, and selects.
///
/// # Errors
/// Usage, for anything wrong with the file or the selection, with line, column and key.
pub fn load(path: &Path, selection: &Selection) -> Result<Loaded> {
    let file = File::read(path)?;
    let top = find_top(&file.root);
    load_file(file, top.as_deref(), selection)
}

/// The same for a file in a tree that need not be a repository, as the files of another revision are none.
///
/// # Errors
/// As above.
pub fn load_in_tree(top: &Path, path: &Path, selection: &Selection) -> Result<Loaded> {
    let top = std::fs::canonicalize(top).ok();
    load_file(File::read(path)?, top.as_deref(), selection)
}

fn load_file(file: File, top: Option<&Path>, selection: &Selection) -> Result<Loaded> {
    let File { root, name, text } = file;
    let mut loaded = {
        let disk = on_disk(&root, top);
        parse(&name, &text, &disk, &sources::of_process).map_err(Error::Usage)?
    };
    loaded.root = root;
    select::select(&mut loaded, selection).map_err(Error::Usage)?;
    Ok(loaded)
}

/// A gates file as it is written.
pub struct File {
    /// Its directory.
    root: PathBuf,
    pub name: String,
    pub text: String,
}

impl File {
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.file_name().map_or_else(
            || path.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        );
        let root = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let bytes = files::read(path, files::WRITTEN).map_err(|error| {
            let diagnostic =
                Diagnostic::new(format!("cannot be read: {error}")).at(path.display().to_string());
            Error::Usage(match error.kind() {
                std::io::ErrorKind::NotFound => match find_above() {
                    Some(there) if path == Path::new(DEFAULT_CONFIG) => diagnostic.help(format!(
                        "one in a parent directory has another owner; if you trust it: --config {}/{DEFAULT_CONFIG}",
                        there.display()
                    )),
                    _ => diagnostic
                        .help("write one with `gatekeeper init`, or name another with --config"),
                },
                std::io::ErrorKind::IsADirectory => diagnostic.help(format!(
                    "name the file in it: --config {}",
                    path.join(DEFAULT_CONFIG).display()
                )),
                _ => diagnostic,
            })
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error
                .as_bytes()
                .get(..error.utf8_error().valid_up_to())
                .unwrap_or_default();
            let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
            Error::Usage(Diagnostic::new("not valid UTF-8").at(format!("{name}:{line}")))
        })?;
        Ok(Self { root, name, text })
    }
}

/// Whether a text is a right file of gates in this directory.
///
/// # Errors
/// The mistakes in it.
pub fn check(root: &Path, text: &str) -> std::result::Result<(), Diagnostic> {
    let top = find_top(root);
    let disk = on_disk(root, top.as_deref());
    parse(DEFAULT_CONFIG, text, &disk, &sources::of_process).map(drop)
}
