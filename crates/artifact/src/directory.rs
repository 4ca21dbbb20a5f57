//! Reads directories: a build, an unpacked wheel, the cache of a compiler.

use crate::map::Mapped;
use rayon::prelude::*;
use std::collections::HashSet;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::files::FileKind;

/// Calls `read` for each file, and returns the results in the order of their names. The second argument of `read` names
/// the file in an error.
pub fn each<T: Send>(
    dir: &Path,
    read: impl Fn(&[u8], &str) -> Result<T> + Sync,
) -> Result<Vec<Result<(String, T)>>> {
    let read_file = |path: &PathBuf| {
        // A name can contain line breaks.
        let at = path.display().to_string();
        let at = at.replace(char::is_control, "\u{fffd}");
        let bytes = Mapped::open(path).map_err(|error| {
            Error::environment(format!("the file cannot be read: {error}")).at(&at)
        })?;
        let name = path.strip_prefix(dir).unwrap_or(path).to_string_lossy();
        Ok((name.into_owned(), read(&bytes, &at)?))
    };
    Ok(files(dir)?.par_iter().map(read_file).collect())
}

/// Returns the files in the order of their names. A file with several names appears once, under the first.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<(PathBuf, Metadata)> = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        let failed = |error: io::Error| {
            Error::environment(format!("the directory cannot be read: {error}")).at(dir.display())
        };
        for entry in std::fs::read_dir(&dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_link = entry.file_type().map_err(failed)?.is_symlink();
            let about = match std::fs::metadata(entry.path()) {
                // A link may lead nowhere, and a file may be gone by now.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                about => about.map_err(failed)?,
            };
            match FileKind::from_metadata(&about) {
                FileKind::File => found.push((entry.path(), about)),
                // A link could lead back to its own directory.
                FileKind::Directory if !is_link => left.push(entry.path()),
                FileKind::Directory | FileKind::Special => {}
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut seen = HashSet::new();
    found.retain(|(_, about)| seen.insert((about.dev(), about.ino())));
    Ok(found.into_iter().map(|(path, _)| path).collect())
}
