//! Lists the commits between two revisions on one line, and exports and compares them.

use super::export::Commit;
use super::git::{GitError, git};
use super::named::{refuse_grafts, short};
use super::worktree::top;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};
use system::temporary::{self, TemporaryDir};

/// A commit between the two revisions that were asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCommit {
    pub hash: String,
    pub parents: Vec<String>,
    /// The day on which its author wrote it: `2026-11-22`.
    pub day: String,
    pub subject: String,
}

/// Returns the commits after `good` up to `bad`, the oldest first. Of a merge only the first parent is followed, so that
/// the commits are the states that the branch of `bad` had.
///
/// # Errors
/// Fails with a usage error if `good` is not on that line, and with an environment error if git cannot read it.
pub fn first_parents(root: &Path, good: &str, bad: &str) -> Result<Vec<LineCommit>> {
    refuse_grafts(root)?;
    let range = format!("{good}..{bad}");
    let log = [
        "log",
        "--first-parent",
        "--reverse",
        "-z",
        "--date=short",
        "--format=%H%n%P%n%ad%n%s",
        &range,
        "--",
    ];
    let log = git(root, &log)?;
    let line: Vec<LineCommit> = log
        .split('\0')
        .filter_map(|commit| {
            let mut fields = commit.splitn(4, '\n');
            let mut next = || fields.next().map(str::to_owned);
            Some(LineCommit {
                hash: next().filter(|hash| !hash.is_empty())?,
                parents: next()?.split(' ').map(str::to_owned).collect(),
                day: next()?,
                subject: next()?,
            })
        })
        .collect();
    if line.is_empty() {
        let (good, bad) = (short(good), short(bad));
        return Err(Error::usage(format!(
            "{bad} is not after {good}: there are no states between them"
        ))
        .help("GOOD, at which the gates hold, is the older one and comes first"));
    }
    let starts_at_good = line
        .first()
        .is_some_and(|first| first.parents.first().is_some_and(|parent| parent == good));
    if starts_at_good {
        return Ok(line);
    }
    Err(Error::usage(format!(
        "{} is not on the line of first parents of {}: there are no states between them",
        short(good),
        short(bad)
    ))
    .help(format!(
        "name an ancestor, for example the one that `git merge-base {} {}` prints",
        short(good),
        short(bad)
    ))
    .help("a shallow clone may lack it: `git fetch --unshallow`, or `fetch-depth: 0` for actions/checkout"))
}

/// Files of a commit in a directory of their own, which is removed with this value.
pub struct Export {
    dir: TemporaryDir,
    /// The path of the asked directory from the top of the repository.
    prefix: PathBuf,
}

impl Export {
    /// Writes the files of a commit of the repository that holds `root`.
    ///
    /// # Errors
    /// Fails with a usage error outside git, and with an environment error if the files cannot be written.
    pub fn new(root: &Path, commit: &str, cache: &Cache) -> Result<Self> {
        let prefix = git(root, &["rev-parse", "--show-prefix"]).map_err(|error| {
            Error::usage(format!(
                "{} is not in a git repository: {error}",
                root.display()
            ))
            .caused_by(error)
        })?;
        let trees = cache.dir("trees")?;
        let top = top(root)?;
        temporary::sweep(&trees);
        let write = || -> std::result::Result<TemporaryDir, GitError> {
            let dir = TemporaryDir::new_in(&trees)?;
            let scratch = TemporaryDir::new_in(&trees)?;
            Commit::new(&top, commit)?.write(dir.path(), scratch.path())?;
            Ok(dir)
        };
        let dir = write().map_err(|error| {
            Error::environment(format!(
                "the files of {} cannot be written to {}: {error}",
                short(commit),
                trees.display()
            ))
            .caused_by(error)
            .help("set GATEKEEPER_CACHE to another directory")
        })?;
        Ok(Self {
            dir,
            prefix: PathBuf::from(prefix),
        })
    }

    /// Returns the top of the tree.
    pub fn top(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directory that corresponds to the one that was asked about.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join(&self.prefix)
    }
}

/// Returns the changes of a commit to these files, as `git diff` prints them. The paths are relative to the top of the
/// repository.
///
/// # Errors
/// Fails with an environment error if git cannot compare the commits.
pub fn diff(root: &Path, from: &str, to: &str, files: &[PathBuf]) -> Result<String> {
    // Without a path git would compare everything.
    if files.is_empty() {
        return Ok(String::new());
    }
    let files: Vec<String> = files
        .iter()
        .map(|file| format!(":(top,literal){}", file.display()))
        .collect();
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let call = [
        "diff",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        from,
        to,
        "--",
    ];
    Ok(git(root, &[&call[..], &names].concat())?)
}
