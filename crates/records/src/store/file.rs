//! Writes files whole or not at all, and checks the schema that each file names first.

use crate::repo::refuse_links;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use system::error::{Diagnostic, Error, Result};
use system::temporary::{TemporaryFile, sweep};

/// Writes a file and flushes it to the disk before it replaces the earlier one. Unlike the cache, these files cannot be
/// made again.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut new = NewFile::create(path)?;
    new.write_all(bytes)
        .map_err(|error| cannot_write(path, &error))?;
    new.keep()
}

/// A new file that replaces the earlier one when it is kept. Until then the earlier one stays.
pub struct NewFile {
    path: PathBuf,
    dir: PathBuf,
    file: TemporaryFile,
}

impl NewFile {
    /// Creates the file, and its directory if necessary.
    ///
    /// # Errors
    /// Fails with an environment error if no file can be written there, and with a usage error if the directory is a
    /// link of the repository.
    pub fn create(path: &Path) -> Result<Self> {
        let dir = match path.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        };
        refuse_links(dir)?;
        let create = || {
            std::fs::create_dir_all(dir)?;
            sweep(dir);
            TemporaryFile::new_in(dir)
        };
        Ok(Self {
            path: path.to_owned(),
            dir: dir.to_owned(),
            file: create().map_err(|error| cannot_write(path, &error))?,
        })
    }

    /// Moves the file to its place.
    ///
    /// # Errors
    /// Fails with an environment error if it cannot be moved.
    pub fn keep(self) -> Result<()> {
        let Self { path, dir, file } = self;
        let keep = || {
            file.as_file().sync_all()?;
            file.persist(&path)?;
            File::open(dir)?.sync_all()
        };
        keep().map_err(|error| cannot_write(&path, &error))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!("{} cannot be written: {error}", path.display()))
}

#[derive(Deserialize)]
struct Header {
    schema: String,
}

/// A problem with a file before its content counts, with its position (`3:14`) if it has one.
pub(super) struct FileProblem {
    pub message: String,
    pub position: Option<String>,
}

impl FileProblem {
    pub(super) fn json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let bare = text
            .rsplit_once(" at line ")
            .map_or(text.as_str(), |(bare, _)| bare);
        let message = if error.is_eof() {
            format!("it is cut short ({bare})")
        } else {
            bare.to_owned()
        };
        Self {
            message,
            position: (error.line() > 0).then(|| format!("{}:{}", error.line(), error.column())),
        }
    }

    pub(super) fn new(message: String) -> Self {
        Self {
            message,
            position: None,
        }
    }

    pub(super) fn diagnostic(self, path: &str) -> Diagnostic {
        Diagnostic::new(self.message).at(match self.position {
            Some(position) => format!("{path}:{position}"),
            None => path.to_owned(),
        })
    }
}

/// Checks the schema that the file names. `schema` has the form `kind/N`.
///
/// # Errors
/// Fails if the file names no schema, that of a newer gatekeeper, or that of another kind of file.
pub(super) fn expect_schema(text: &str, schema: &str) -> std::result::Result<(), FileProblem> {
    let Header { schema: named } =
        serde_json::from_str(text).map_err(|error| FileProblem::json(&error))?;
    let version = |schema: &str| {
        let (kind, version) = schema.split_once('/')?;
        Some((kind.to_owned(), version.parse::<u32>().ok()?))
    };
    match (version(&named), version(schema)) {
        _ if named == schema => Ok(()),
        (Some((kind, named_version)), Some((ours, version)))
            if kind == ours && named_version > version =>
        {
            Err(FileProblem::new(format!(
                "its schema is {named}, and this version of gatekeeper reads {schema} alone: a newer one wrote it"
            )))
        }
        _ => Err(FileProblem::new(format!(
            "its schema is `{named}`, and {schema} is expected"
        ))),
    }
}
