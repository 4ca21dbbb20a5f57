//! Finds the commit that a name means. An ambiguous name is refused, because anybody who may add a branch or a tag
//! could choose the base otherwise.

use super::export::answer_to;
use super::git::{Contents, GitError, command, git};
use std::path::Path;
use system::error::{Error, Result};
use system::files;

/// The number of characters of a hash that people see.
const SHOWN: usize = 12;

/// Returns a hash as it is shown.
pub fn short(commit: &str) -> &str {
    commit.get(..SHOWN).unwrap_or(commit)
}

/// Returns the whole hash of the commit that `revision` names in the repository that holds `root`. `asked` is what asks
/// for it, as in `--base v1.0`.
///
/// # Errors
/// Fails with a usage error if the revision is unknown there or means several commits.
pub fn commit_of(root: &Path, revision: &str, asked: &str) -> Result<String> {
    let commit = format!("{revision}^{{commit}}");
    // An option in place of a revision is refused.
    let known = [
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &commit,
    ];
    let found = git(root, &known);
    if let Err(said) = &found
        && refuses_repository(said)
    {
        // git's message also says what to do.
        return Err(Error::usage(format!("{asked}: {said}")));
    }
    refuse_grafts(root)?;
    // If the name means several commits, git may say that it knows none.
    refuse_several(root, revision, asked)?;
    found.map_err(|_| {
        Error::usage(format!("{asked}: there is no such revision in this clone")).help(
                "a shallow clone lacks it: `git fetch origin BRANCH`, or `fetch-depth: 0` for actions/checkout",
            )
    })
}

/// Returns true if git refuses a repository as a whole, and not just a revision that it lacks: the checkout belongs to
/// another user, as in many containers, or there is no repository.
fn refuses_repository(error: &GitError) -> bool {
    match error {
        GitError::Start(_) | GitError::Bare(_) => true,
        GitError::File { .. } | GitError::Io(_) => false,
        GitError::Refused(said) => {
            let first = said.lines().next().unwrap_or_default();
            [
                "dubious ownership",
                "not a git repository",
                "bare repository",
            ]
            .iter()
            .any(|why| first.contains(why))
        }
    }
}

/// Refuses grafts, which give commits other parents than they have. They are an old mechanism that git itself advises
/// against.
///
/// # Errors
/// Fails with a usage error if there are any.
pub(super) fn refuse_grafts(root: &Path) -> Result<()> {
    let Ok(common) = git(root, &["rev-parse", "--git-common-dir"]) else {
        // Whoever asks for a commit or for the history gets git's message.
        return Ok(());
    };
    let grafts = root.join(common).join("info/grafts");
    let is_graft = |line: &str| !line.trim().is_empty() && !line.starts_with('#');
    let is_empty = match files::read_text(&grafts, files::WRITTEN) {
        Ok(text) => !text.lines().any(is_graft),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if is_empty {
        Ok(())
    } else {
        Err(Error::usage(format!(
                "{} gives commits other parents than they have: the history of this clone is not that of its commits",
                grafts.display()
            ))
            .help("remove that file"))
    }
}

/// One thing that a name can mean.
struct Meaning {
    /// The thing in words: `the tag refs/tags/v1`.
    what: String,
    commit: String,
}

fn refuse_several(root: &Path, revision: &str, asked: &str) -> Result<()> {
    let Some(name) = name_in(revision) else {
        return Ok(());
    };
    let meanings = meanings(root, name)?;
    let Some(first) = meanings.first() else {
        return Ok(());
    };
    // Two names of one commit are not ambiguous.
    if meanings
        .iter()
        .all(|meaning| meaning.commit == first.commit)
    {
        return Ok(());
    }
    let list = meanings
        .iter()
        .map(|meaning| format!("{} is {}", meaning.what, short(&meaning.commit)))
        .collect::<Vec<_>>()
        .join(", ");
    Err(Error::usage(format!("{asked}: `{name}` means several commits: {list}"))
        .help("give the whole name, as refs/heads/NAME or refs/tags/NAME, or the whole hash of the commit"))
}

/// Returns the name that a revision begins with: `v1` for `v1~2^{commit}` and for `v1@{yesterday}`. Returns `None` for
/// a revision without a name, like `:/text`.
fn name_in(revision: &str) -> Option<&str> {
    let end = [
        revision.find(['^', '~', ':']),
        revision.find("@{"),
        revision.find(".."),
    ];
    let end = end.into_iter().flatten().min().unwrap_or(revision.len());
    let name = revision.get(..end)?;
    (!name.is_empty() && name != "@").then_some(name)
}

/// Returns everything that git would take a name for, whichever it prefers.
fn meanings(root: &Path, name: &str) -> std::result::Result<Vec<Meaning>, GitError> {
    let commit_of = |name: &str| {
        let commit = format!("{name}^{{commit}}");
        let known = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
        git(root, &[&known[..], &[commit.as_str()]].concat()).ok()
    };
    let mut found = Vec::new();
    let refs = references(root, name)?;
    if name.starts_with("refs/") && refs.iter().any(|reference| reference == name) {
        // A full reference name has one meaning.
        return Ok(found);
    }
    // HEAD, FETCH_HEAD and the like are files of git's own, and take precedence.
    let is_own = name
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    if is_own && let Some(commit) = commit_of(name) {
        let what = format!("git's own {name}");
        found.push(Meaning { what, commit });
    }
    for reference in refs {
        if let Some(commit) = commit_of(&reference) {
            let what = match &reference {
                name if name.starts_with("refs/tags/") => format!("the tag {name}"),
                name if name.starts_with("refs/heads/") => format!("the branch {name}"),
                name if name.starts_with("refs/remotes/") => format!("the remote's branch {name}"),
                name => format!("the reference {name}"),
            };
            found.push(Meaning { what, commit });
        }
    }
    // `v1.0-3-gabcdef0`, which `git describe` prints, means the hash at its end.
    let hash = match name.rsplit_once("-g") {
        Some((_, hash)) => hash,
        None => name,
    };
    for commit in commits_beginning_with(root, hash)? {
        let what = format!("the commit whose hash begins with {hash}");
        if !found
            .iter()
            .any(|meaning| meaning.commit == commit && meaning.what == what)
        {
            found.push(Meaning { what, commit });
        }
    }
    Ok(found)
}

/// Returns the references that a name can stand for, in git's order.
fn references(root: &Path, name: &str) -> std::result::Result<Vec<String>, GitError> {
    // No reference contains these characters, and git would read them as a pattern.
    if name.contains(['*', '?', '[', '\\', ' ']) || name.starts_with('-') {
        return Ok(Vec::new());
    }
    let mut wanted = vec![
        format!("refs/{name}"),
        format!("refs/tags/{name}"),
        format!("refs/heads/{name}"),
        format!("refs/remotes/{name}"),
        format!("refs/remotes/{name}/HEAD"),
    ];
    if name.starts_with("refs/") {
        wanted.insert(0, name.to_owned());
    }
    let mut list = vec!["for-each-ref", "--format=%(refname)"];
    list.extend(wanted.iter().map(String::as_str));
    let listed = git(root, &list)?;
    // git also lists references below such a name.
    wanted.retain(|wanted| listed.lines().any(|line| line == wanted));
    Ok(wanted)
}

/// Returns the commits whose hash begins with `hash`, and the commits of tags whose hash does.
fn commits_beginning_with(root: &Path, hash: &str) -> std::result::Result<Vec<String>, GitError> {
    let is_hash =
        (4..=64).contains(&hash.len()) && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash {
        return Ok(Vec::new());
    }
    let listed = git(root, &["rev-parse", &format!("--disambiguate={hash}")])?;
    let asked: String = listed
        .lines()
        .map(|object| format!("{object}^{{commit}}\n"))
        .collect();
    let mut ask = command(root, Contents::AsStored)?;
    ask.args(["cat-file", "--batch-check=%(objectname) %(objecttype)"]);
    let answer = answer_to(ask, asked.into_bytes())?;
    let answer = String::from_utf8_lossy(&answer);
    let mut commits: Vec<String> = answer
        .lines()
        .filter_map(|line| line.strip_suffix(" commit"))
        .map(str::to_owned)
        .collect();
    commits.sort_unstable();
    commits.dedup();
    Ok(commits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_begins_with_a_name() {
        for (revision, name) in [
            ("v1.0", Some("v1.0")),
            ("v1.0~3^2", Some("v1.0")),
            ("main@{1}:x", Some("main")),
            ("origin/main^{commit}", Some("origin/main")),
            ("main..v1", Some("main")),
            (":/text", None),
            ("@", None),
            ("@{1}", None),
            ("^v1", None),
        ] {
            assert_eq!(name_in(revision), name, "{revision}");
        }
    }
}
