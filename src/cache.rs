//! The one directory that gatekeeper writes to outside the repository.

use crate::error::{Diagnostic, Error, Result};
use crate::temporary::{TemporaryFile, sweep};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `$GATEKEEPER_CACHE`, else `$XDG_CACHE_HOME/gatekeeper`, else `~/.cache/gatekeeper`; made and tried
    /// for writing, because a read-only home is better said now than by nvcc later.
    pub fn open() -> Result<Self> {
        let from = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = from("GATEKEEPER_CACHE")
            .or_else(|| from("XDG_CACHE_HOME").map(|dir| dir.join("gatekeeper")))
            .or_else(|| from("HOME").map(|dir| dir.join(".cache/gatekeeper")))
            .ok_or_else(|| {
                Error::Environment(
                    Diagnostic::new("no directory for the cache: HOME is not set")
                        .help("set GATEKEEPER_CACHE to a directory that can be written"),
                )
            })?;
        Self::at(&root)
    }

    /// # Errors
    /// Environment, where the directory cannot be made or written to.
    pub fn at(root: &Path) -> Result<Self> {
        let writable = std::fs::create_dir_all(root)
            .and_then(|()| tempfile::tempfile_in(root).map(drop))
            .and_then(|()| root.canonicalize());
        let root = writable.map_err(|error| {
            Error::Environment(
                Diagnostic::new(format!(
                    "the cache directory {} cannot be written: {error}",
                    root.display()
                ))
                .help("set GATEKEEPER_CACHE to a directory that can be written"),
            )
        })?;
        // nvcc passes its paths to a shell in double quotes, and puts its own directory into PATH.
        let is_read = |c: &char| matches!(c, '"' | '$' | '`' | ':') || c.is_control();
        match root.to_string_lossy().chars().find(is_read) {
            None => Ok(Self { root }),
            Some(c) => Err(Error::Environment(
                Diagnostic::new(format!(
                    "the path of the cache directory {} has a {c:?}, which nvcc's shell would read",
                    root.display()
                ))
                .help("set GATEKEEPER_CACHE to a directory without one in its path"),
            )),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A subdirectory, made if it is not there, without what killed processes left in it.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join(name);
        sweep(&dir);
        std::fs::create_dir_all(&dir)
            .map(|()| dir.clone())
            .map_err(|error| {
                Error::environment(format!("{} cannot be made: {error}", dir.display()))
            })
    }
}

/// Whole or not at all for every reader, also one at the same time. Not flushed to the disk: whoever
/// reads after a power failure has to tell a damaged file, as every user of the cache does.
///
/// # Errors
/// Environment, where the directory of `file` cannot be written.
pub fn write_atomically(file: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    let written = || {
        let dir = file.parent().unwrap_or(Path::new("."));
        let mut new = TemporaryFile::new_in(dir)?;
        new.write_all(bytes)?;
        new.persist(file)
    };
    written().map_err(|error| {
        Error::environment(format!("{} cannot be written: {error}", file.display()))
    })
}
