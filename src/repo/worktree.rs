//! The files of another revision: a worktree in the cache, one for each commit, kept for the next run.

use super::git;
use super::history::{commit_of, short};
use crate::cache::Cache;
use crate::error::{Diagnostic, Error, Result};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The repository's files at another revision.
#[derive(Debug)]
pub struct Tree {
    /// What corresponds to the directory that was asked about.
    pub root: PathBuf,
    /// Abbreviated hash.
    pub commit: String,
}

/// The tree of `revision` in the repository that holds `root`.
///
/// # Errors
/// Usage, where `root` is in no repository or the revision is not known there. Environment, where its
/// files cannot be written.
pub fn revision(root: &Path, revision: &str, cache: &Cache) -> Result<Tree> {
    let inside = git(root, &["rev-parse", "--show-prefix"]).map_err(|said| {
        Error::Usage(
            Diagnostic::new(format!(
                "{} is in no git repository: {said}",
                root.display()
            ))
            .help("--base compares with another revision of the same repository"),
        )
    })?;
    let commit = commit_of(root, revision, &format!("--base {revision}"))?;
    let top = git(root, &["rev-parse", "--show-toplevel"]).map_err(Error::environment)?;
    // Two clones have two worktrees: each belongs to the repository that made it.
    let place = blake3::hash(top.as_bytes()).to_hex();
    let place = place.get(..12).unwrap_or_default();
    let trees = cache.dir("trees")?.join(place);
    std::fs::create_dir_all(&trees).map_err(|error| cannot_write(&trees, &error.to_string()))?;
    let lock = trees.join("lock");
    let lock = File::create(&lock).map_err(|error| cannot_write(&lock, &error.to_string()))?;
    lock.lock()
        .map_err(|error| cannot_write(&trees, &error.to_string()))?;
    let tree = trees.join(&commit);
    if !is_whole(&tree, &commit) {
        check_out(root, &tree, &commit)?;
    }
    Ok(Tree {
        root: tree.join(inside),
        commit: short(&commit).to_owned(),
    })
}

/// At that commit, and with nothing changed in it.
fn is_whole(tree: &Path, commit: &str) -> bool {
    tree.is_dir()
        && git(tree, &["rev-parse", "HEAD"]).is_ok_and(|head| head == commit)
        && git(tree, &["status", "--porcelain"]).is_ok_and(|changed| changed.is_empty())
}

fn check_out(root: &Path, tree: &Path, commit: &str) -> Result<()> {
    if tree.exists() {
        std::fs::remove_dir_all(tree).map_err(|error| cannot_write(tree, &error.to_string()))?;
    }
    let text = tree.to_string_lossy();
    // Forced: an earlier one whose files are gone is still registered.
    let add = [
        "worktree", "add", "--force", "--detach", "--quiet", &text, commit,
    ];
    git(root, &add).map_err(|said| cannot_write(tree, &said))?;
    if tree.join(".gitmodules").is_file() {
        let update = ["submodule", "update", "--init", "--recursive", "--quiet"];
        git(tree, &update).map_err(|said| cannot_write(tree, &said))?;
    }
    Ok(())
}

fn cannot_write(tree: &Path, said: &str) -> Error {
    Error::Environment(
        Diagnostic::new(format!(
            "the files of the base revision cannot be written to {}: {said}",
            tree.display()
        ))
        .help("GATEKEEPER_CACHE names another directory"),
    )
}
