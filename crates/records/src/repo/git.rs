//! Calls git. No other module does.
//!
//! git reads settings from many places, and some of them name programs. Settings in the user's own files and in `.git`
//! are trusted, because a pull request cannot commit them. Files that it can commit must not count: a bare repository
//! among them, and attributes that ask for a program. So each call states what git may not do. Objects are read as
//! their hashes say: nothing replaces them, nothing gives a commit other parents, and nothing is fetched.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use system::error::Error;
use system::process::helper;
use tracing::debug;

/// The reason for which git gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git cannot be run: {0}")]
    Start(#[source] io::Error),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(
        "{} is a bare repository among the files of the checkout, whose settings git would follow; remove it, or move \
         the file of gates out of it",
        .0.display()
    )]
    Bare(PathBuf),
    /// git's message, which may be empty, or what is wrong with its answer.
    #[error("{0}")]
    Refused(String),
}

impl GitError {
    /// Returns true if git said no by its exit code alone.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Refused(said) if said.is_empty())
    }
}

impl From<GitError> for Error {
    fn from(error: GitError) -> Self {
        Self::environment(error.to_string()).caused_by(error)
    }
}

/// Settings of each call. Options on the command line override any file.
const SETTINGS: [&str; 10] = [
    // This needs git 2.38; `bare_repository` protects from bare repositories with an older one.
    "safe.bareRepository=explicit",
    // The following are programs that git would start.
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "credential.helper=",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    // git would print the advice in each call.
    "advice.graftFileDeprecated=false",
];

/// The variables that hold the user's own settings. All others are removed: they say which repository and index to
/// take, as inside of a hook, or name programs.
const KEPT: [&str; 4] = [
    "GIT_CONFIG_",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_SSL_",
];

const VARIABLES: [(&str, &str); 8] = [
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    // A partial clone would fetch what it lacks. The next variable prevents it for git before 2.45.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // `git status` would write the index otherwise.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    // This module also reads git's messages, so they must be in English.
    ("LC_ALL", "C"),
];

/// Returns a call of git without a directory.
fn bare_call() -> Command {
    let mut git = helper::named("git");
    for (name, value) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_kept = KEPT.iter().any(|kept| text.starts_with(kept));
        // A relative path would name a file of the checkout.
        let is_file = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].contains(&&*text);
        let is_relative = is_file && Path::new(&value).is_relative();
        if text.starts_with("GIT_") && (!is_kept || is_relative) {
            git.env_remove(&name);
        }
    }
    git.envs(VARIABLES);
    for setting in SETTINGS {
        git.args(["-c", setting]);
    }
    git.stdin(Stdio::null());
    git
}

/// Returns the version, `2.39.5`, or `None` if no git works.
pub fn git_version() -> Option<String> {
    let mut git = helper::named("git");
    git.arg("--version");
    let ended = system::process::run(git, std::time::Duration::from_secs(10), 4096).ok()??;
    let version = ended.log.trim().strip_prefix("git version ")?;
    ended.status.success().then(|| version.to_owned())
}

/// The way in which a call handles the contents of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// The call reads objects, names or settings.
    AsStored,
    /// The call converts contents from or to the form of a working tree, by the programs that attributes ask for.
    Converted,
}

impl Contents {
    /// Returns how a call handles contents. A call that is not listed here may convert.
    fn for_call(args: &[&str]) -> Self {
        match args.first() {
            Some(
                &("config" | "for-each-ref" | "log" | "ls-files" | "ls-tree" | "merge-base"
                | "rev-parse" | "symbolic-ref"),
            ) => Self::AsStored,
            _ => Self::Converted,
        }
    }
}

/// Returns a call of git in `dir`, without its arguments.
///
/// # Errors
/// Returns why git must not be called there.
pub(super) fn command(dir: &Path, contents: Contents) -> Result<Command, GitError> {
    let dir = std::path::absolute(dir)?;
    if let Some(bare) = bare_repository(&dir) {
        return Err(GitError::Bare(bare));
    }
    let at = [Path::new("-C"), &dir].map(Path::as_os_str);
    call_at(&at, contents)
}

/// Returns a call for a repository whose directory is known, such as a submodule's.
pub(super) fn command_at(git_dir: &Path, contents: Contents) -> Result<Command, GitError> {
    let at = [Path::new("--git-dir"), git_dir].map(Path::as_os_str);
    call_at(&at, contents)
}

fn call_at(at: &[&OsStr], contents: Contents) -> Result<Command, GitError> {
    let mut git = bare_call();
    git.args(at);
    if contents == Contents::Converted {
        without_filters(&mut git, at)?;
    }
    Ok(git)
}

/// Returns the text that git prints without the last line end, or the message of its failure.
pub(super) fn git(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    let mut git = command(dir, Contents::for_call(args))?;
    git.args(args);
    said(git)
}

/// Runs a command and returns what it prints, as [`git`] does.
pub(super) fn said(mut git: Command) -> Result<String, GitError> {
    let output = git.output().map_err(GitError::Start)?;
    debug!(
        arguments = ?git.get_args().skip(2 * SETTINGS.len()).collect::<Vec<_>>(),
        status = system::process::how(output.status),
        stderr = ?String::from_utf8_lossy(&output.stderr),
        "git ended"
    );
    let text = |bytes| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(GitError::Refused(text(&output.stderr)))
    }
}

/// Disables the programs that the user has set up to convert files. Attributes choose among these programs, and a pull
/// request can commit attributes. git knows the programs by name only, so each name is looked up.
fn without_filters(git: &mut Command, at: &[&OsStr]) -> Result<(), GitError> {
    let mut list = bare_call();
    list.args(at)
        .args(["config", "--null", "--name-only", "--get-regexp"])
        .arg("^filter\\.");
    // git fails if there is no such setting, or no repository, which the call itself then reports.
    let output = list.output().map_err(GitError::Start)?;
    let names = String::from_utf8_lossy(&output.stdout);
    let mut drivers: Vec<&str> = names
        .split('\0')
        .filter_map(|name| Some(name.strip_prefix("filter.")?.rsplit_once('.')?.0))
        .collect();
    drivers.sort_unstable();
    drivers.dedup();
    // The settings go through the environment, because on the command line a name would end at the first `=`.
    let own = std::env::var("GIT_CONFIG_COUNT").ok();
    let mut count: usize = own.and_then(|own| own.parse().ok()).unwrap_or(0);
    for driver in drivers {
        for (key, value) in [
            ("smudge", ""),
            ("clean", ""),
            ("process", ""),
            ("required", "false"),
        ] {
            let key = format!("filter.{driver}.{key}");
            git.env(format!("GIT_CONFIG_KEY_{count}"), key);
            git.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
    }
    git.env("GIT_CONFIG_COUNT", count.to_string());
    Ok(())
}

/// Returns the bare repository that git would find before the one that holds `dir`. git looks at each directory from
/// here up, and takes the first that has `.git` in it or that looks like a repository itself.
fn bare_repository(dir: &Path) -> Option<PathBuf> {
    let real = dir.canonicalize().ok()?;
    real.ancestors()
        .take_while(|dir| dir.join(".git").symlink_metadata().is_err())
        .find(|dir| {
            let has = |name: &str| dir.join(name).symlink_metadata().is_ok();
            has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
        })
        .map(Path::to_owned)
}
