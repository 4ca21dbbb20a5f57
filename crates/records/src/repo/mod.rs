//! Finds the commit of the tree, and the trees of other revisions. No other module uses git.

mod checkout;
mod export;
mod git;
mod history;
mod line;
mod links;
mod named;
mod worktree;

pub use checkout::checkout;
use git::git;
pub use git::git_version;
pub use history::{Commit, files, versions};
pub use line::{Export, LineCommit, diff, first_parents};
pub use links::{refuse_links, refuse_links_below};
pub use named::{commit_of, short};
use worktree::untracked;
pub use worktree::{Tree, files_with, has_more, present, revision, top, tracked};

use std::path::Path;

/// Returns the whole hash of the tree's commit, whatever was edited since. Returns `None` outside git or without git.
pub fn head(root: &Path) -> Option<String> {
    let head = git(root, &["rev-parse", "HEAD"]).ok()?;
    Some(head.trim().to_owned())
}

/// Returns the commit of the tree, with `+` if the tree has changes. Returns `None` outside git or without git.
pub fn commit(root: &Path) -> Option<String> {
    let head = git(root, &["rev-parse", "--short=12", "HEAD"]).ok()?;
    let dirty = git(root, &["status", "--porcelain", "--untracked-files=no"]).ok()?;
    Some(format!(
        "{}{}",
        head,
        if dirty.is_empty() { "" } else { "+" }
    ))
}

/// The extensions of files that are compiled, read as gates or run as a rival. They count even if git does not know the
/// file yet.
const SOURCES: [&str; 18] = [
    "c", "cc", "cpp", "cu", "cubin", "cuh", "cxx", "fatbin", "h", "hh", "hpp", "hxx", "inc", "inl",
    "ptx", "py", "yaml", "yml",
];

/// Returns a digest of the commit and of the tree's differences from it: changes of tracked files, and new sources.
/// Returns `None` outside git or without git.
pub fn digest(root: &Path) -> Option<String> {
    let top = top(root).ok()?;
    let commit = git(&top, &["rev-parse", "HEAD"]).ok()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(commit.as_bytes());
    let changes = [
        "diff",
        "--binary",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "HEAD",
    ];
    hasher.update(git(&top, &changes).ok()?.as_bytes());
    for file in untracked(&top, &SOURCES).ok()? {
        // The length separates a file from the next one.
        let bytes = system::files::read(&top.join(&file), system::files::made()).ok()?;
        hasher.update(format!("\0{file}\0{}\0", bytes.len()).as_bytes());
        hasher.update(&bytes);
    }
    Some(hasher.finalize().to_hex().chars().take(32).collect())
}
