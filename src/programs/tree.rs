//! Copies trees of files, and identifies them by their content.

use blake3::Hasher;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use system::files;

/// The age of the copied files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// All files are of the same day long ago. Builds compare times, and what an earlier run built from the same files
    /// has to be newer than they are.
    Old,
    Kept,
    /// Files keep their times. The files in which Triton keeps measured times are left out, because with them a program
    /// launches less.
    OfProducts,
}

const MEASURED: &[u8] = b".autotune.json";

/// The date 2000-01-01. Archives of zip cannot have times before 1980.
const OLD: Duration = Duration::from_secs(946_684_800);

/// Returns the digest of a tree: its files with their permission to be executed, and its links.
///
/// # Errors
/// Returns an error if something cannot be read, or is no file, directory or link.
pub fn digest(tree: &Path) -> io::Result<String> {
    let mut hasher = Hasher::new();
    read(tree, &mut hasher)?;
    Ok(hasher.finalize().to_string())
}

/// Reads a tree into a hasher. Each item is one line, and names are quoted so that they cannot contain a line break.
fn read(path: &Path, hasher: &mut Hasher) -> io::Result<()> {
    let about = fs::symlink_metadata(path)?;
    if about.is_symlink() {
        return writeln!(hasher, "link {:?}", fs::read_link(path)?);
    }
    if !about.is_dir() {
        let is_program = about.permissions().mode() & 0o111 != 0;
        let mut content = Hasher::new();
        content.update_reader(files::open(path)?)?;
        return writeln!(hasher, "file {is_program} {}", content.finalize());
    }
    for name in names(path)? {
        writeln!(hasher, "{name:?}")?;
        read(&path.join(name), hasher)?;
    }
    writeln!(hasher, "end")
}

pub fn names(dir: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(dir)?
        .map(|entry| Ok(entry?.file_name()))
        .collect()
}

/// Copies files with their permissions, and links without following them.
///
/// # Errors
/// Returns an error if something cannot be read or written, or is no file, directory or link.
pub fn copy(from: &Path, to: &Path, age: Age) -> io::Result<()> {
    let about = fs::symlink_metadata(from)?;
    if about.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if about.is_dir() {
        fs::create_dir(to)?;
        return names(from)?
            .iter()
            .filter(|name| age != Age::OfProducts || !name.as_bytes().ends_with(MEASURED))
            .try_for_each(|name| copy(&from.join(name), &to.join(name), age));
    }
    // Opening a pipe would wait for its other end.
    drop(files::open(from)?);
    fs::copy(from, to)?;
    File::open(to)?.set_modified(match age {
        Age::Old => SystemTime::UNIX_EPOCH + OLD,
        Age::Kept | Age::OfProducts => about.modified()?,
    })
}

/// Copies those files of a checkout that exist.
///
/// # Errors
/// As [`copy`].
pub fn copy_these(from: &Path, files: &BTreeSet<PathBuf>, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for file in files {
        let place = to.join(file);
        fs::create_dir_all(place.parent().unwrap_or(to))?;
        match copy(&from.join(file), &place, Age::Old) {
            // Git knows the file, but it was removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}
