//! Reads baselines as they were at every commit.

use super::baselines::{BASELINES, broken_at, is_baseline, parse};
use crate::repo::{self, Commit};
use model::{Baseline, BrokenBaseline};
use std::path::{Path, PathBuf};
use system::error::Result;

pub struct Past {
    pub files: Vec<PastFile>,
    /// True if older versions may be missing, as in a shallow clone.
    pub shallow: bool,
}

/// One file of baselines through the commits.
pub struct PastFile {
    pub path: PathBuf,
    /// The versions of the file, oldest first.
    pub versions: Vec<PastVersion>,
}

pub struct PastVersion {
    pub commit: Commit,
    pub state: PastState,
}

pub enum PastState {
    Whole(Box<Baseline>),
    /// A version that cannot be read, for example one that an earlier gatekeeper wrote.
    Unreadable(BrokenBaseline),
    Removed,
}

/// Reads the latest committed versions of those files that `wanted` picks, at most `most` of each. Returns `None`
/// outside git, and before its first commit.
///
/// # Errors
/// Fails with an environment error if there is a repository and git cannot or will not read it.
pub fn past(root: &Path, wanted: &dyn Fn(&Path) -> bool, most: usize) -> Result<Option<Past>> {
    let wanted = |path: &Path| is_baseline(path) && wanted(path);
    let Some(found) = repo::versions(root, BASELINES, &wanted, most)? else {
        return Ok(None);
    };
    let files = found.files.into_iter().map(|(path, versions)| {
        let versions = versions
            .into_iter()
            .map(|version| PastVersion {
                commit: version.commit,
                state: match version.text.map(|text| parse(&path, &text)) {
                    Some(Ok(baseline)) => PastState::Whole(Box::new(baseline)),
                    Some(Err(problem)) => PastState::Unreadable(broken_at(&path, problem)),
                    None => PastState::Removed,
                },
            })
            .collect();
        PastFile { path, versions }
    });
    Ok(Some(Past {
        files: files.collect(),
        shallow: found.shallow,
    }))
}
