//! Finds out what the paths of gates.yaml lead to.

use std::path::{Path, PathBuf};
use system::files::{self, FileKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    File,
    /// A file that is larger than any source.
    LargeFile,
    /// A FIFO, a device or a socket, which is never read.
    Special,
    Directory,
    /// Something above the directory of gates.yaml that does not belong to its repository.
    Outside(Outside),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The path is outside the repository, once its links are followed.
    Repository,
    /// There is no repository, so no path is inside it.
    Everything,
}

/// Looks up the kind of a path below a directory, or above it in the same repository.
pub fn on_disk<'a>(
    root: &'a Path,
    top: Option<&'a Path>,
) -> impl Fn(&str) -> Option<PathKind> + 'a {
    move |path| {
        let place = root.join(path);
        let metadata = std::fs::metadata(&place).ok()?;
        if let Some(outside) = find_outside(top, path, &place) {
            return Some(PathKind::Outside(outside));
        }
        Some(match FileKind::from_metadata(&metadata) {
            FileKind::Directory => PathKind::Directory,
            FileKind::File if metadata.len() > files::SOURCE => PathKind::LargeFile,
            FileKind::File => PathKind::File,
            FileKind::Special => PathKind::Special,
        })
    }
}

/// Returns the top of the repository that a directory is in, with all links followed.
pub fn find_top(root: &Path) -> Option<PathBuf> {
    let root = std::fs::canonicalize(root).ok()?;
    let mut dirs = root.ancestors();
    // A worktree and a submodule have a file of this name.
    let top = dirs.find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
    Some(top.to_owned())
}

/// Returns why a path that goes up leaves the repository, or `None` if it stays inside.
fn find_outside(top: Option<&Path>, path: &str, place: &Path) -> Option<Outside> {
    if path != ".." && !path.starts_with("../") {
        return None;
    }
    let Some(top) = top else {
        return Some(Outside::Everything);
    };
    // Links are followed to their end, so that none leads out of the repository.
    let is_inside = std::fs::canonicalize(place).is_ok_and(|path| path.starts_with(top));
    (!is_inside).then_some(Outside::Repository)
}
