//! Links in paths that are written to.

use super::git::{Contents, command, said};
use std::path::{Path, PathBuf};
use system::error::{Error, Result};

/// Refuses a path that is a link of the checkout, or leads through one: whoever wrote the commit would choose what is
/// overwritten or removed, outside of the checkout too. A link that git does not know is the user's own, as one to a
/// larger disk. To be called for all that is made, overwritten or removed at a place that a checkout can hold.
///
/// # Errors
/// Usage, where there is such a link.
pub fn refuse_links(path: &Path) -> Result<()> {
    let whole = std::path::absolute(path)
        .map_err(|error| Error::environment(format!("{}: {error}", path.display())))?;
    // Without a slash at its end, which would stand for what the link leads to.
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

/// Where git cannot tell, as with a repository of another user, it may be.
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

/// As [`refuse_links`], of all that is in a directory: for one that files are put into in depth.
///
/// # Errors
/// As of [`refuse_links`].
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
