//! Refuses links in paths that gatekeeper writes to.

use super::git::{Contents, command, said};
use std::path::{Path, PathBuf};
use system::error::{Error, Result};

/// Refuses a path that is a link of the checkout, or that leads through one. Otherwise the author of a commit could
/// choose what is overwritten or removed, even outside of the checkout. A link that git does not know is the user's
/// own, for example a link to a larger disk. Callers use this for everything that they create, overwrite or remove at a
/// place that a checkout can hold.
///
/// # Errors
/// Fails with a usage error if there is such a link.
pub fn refuse_links(path: &Path) -> Result<()> {
    let whole = std::path::absolute(path).map_err(|error| Error::at_path(path, error))?;
    // A slash at the end would stand for the target of the link.
    let whole: PathBuf = whole.components().collect();
    let mut links = whole.ancestors().filter(|part| part.is_symlink());
    let Some(link) = links.find(|link| is_committed(link)) else {
        return Ok(());
    };
    let leads = std::fs::read_link(link).unwrap_or_default();
    Err(Error::usage(format!(
        "{} is a link in the repository, to {}: nothing is written or removed through it",
        link.display(),
        leads.display()
    ))
    .help("remove the link from the repository, or name the directory itself"))
}

/// Returns true if git tracks the link. If git cannot tell, as with a repository of another user, the link may be
/// committed.
fn is_committed(link: &Path) -> bool {
    let (Some(dir), Some(name)) = (link.parent(), link.file_name()) else {
        return false;
    };
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let is_checkout = |dir: &Path| dir.join(".git").symlink_metadata().is_ok();
    dir.ancestors().any(is_checkout)
        && command(&dir, Contents::AsStored)
            .and_then(|mut git| {
                git.args(["--literal-pathspecs", "ls-files", "--"])
                    .arg(name);
                said(git)
            })
            .map_or(true, |known| !known.is_empty())
}

/// Refuses links in all of a directory, into which files are written at any depth.
///
/// # Errors
/// Fails as [`refuse_links`] does.
pub fn refuse_links_below(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_symlink() {
            refuse_links(&path)?;
        } else if path.is_dir() {
            refuse_links_below(&path)?;
        }
    }
    Ok(())
}
