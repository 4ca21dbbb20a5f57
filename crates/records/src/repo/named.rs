//! Which commit a name means. An ambiguous name is refused: anyone who may add a branch or a tag would choose the base.

use super::export::answer_to;
use super::git::{Contents, command, git};
use std::path::Path;
use system::error::{Error, Result};
use system::files;

/// Characters of a hash that people are shown.
const SHOWN: usize = 12;

/// A hash as it is shown.
pub fn short(commit: &str) -> &str {
    commit.get(..SHOWN).unwrap_or(commit)
}

/// The commit that `revision` names in the repository that holds `root`, whole. `asked` is what asks for
/// it, as in `--base v1.0`.
///
/// # Errors
/// Usage, where the revision is not known there or means several commits.
pub fn commit_of(root: &Path, revision: &str, asked: &str) -> Result<String> {
    let commit = format!("{revision}^{{commit}}");
    // An option in the place of a revision is no revision.
    let known = [
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &commit,
    ];
    let found = git(root, &known);
    if let Err(said) = &found
        && refusal(said).is_some()
    {
        // It says what to do, too.
        return Err(Error::usage(format!("{asked}: {said}")));
    }
    refuse_grafts(root)?;
    // Where it means several, git may say that it knows none.
    refuse_several(root, revision, asked)?;
    found.map_err(|_| {
        Error::usage(format!("{asked}: there is no such revision in this clone")).help(
                "a shallow clone lacks it: `git fetch origin BRANCH`, or `fetch-depth: 0` for actions/checkout",
            )
    })
}

/// Why git does not look into a repository at all, and not of a revision that it lacks: a checkout of another
/// user's, as in many containers, or none.
fn refusal(said: &str) -> Option<&str> {
    let first = said.lines().next().unwrap_or_default();
    [
        "dubious ownership",
        "not a git repository",
        "cannot be run",
        "bare repository",
    ]
    .iter()
    .any(|why| first.contains(why))
    .then_some(first)
}

/// Grafts give commits other parents than they have: an old way to do so, which git itself advises against.
///
/// # Errors
/// Usage, where there are any.
pub(super) fn refuse_grafts(root: &Path) -> Result<()> {
    let Ok(common) = git(root, &["rev-parse", "--git-common-dir"]) else {
        // Whoever asks for a commit or for the history hears why.
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

/// One thing that a name can stand for.
struct Meaning {
    /// `the tag refs/tags/v1`.
    what: String,
    commit: String,
}

fn refuse_several(root: &Path, revision: &str, asked: &str) -> Result<()> {
    let Some(name) = name_in(revision) else {
        return Ok(());
    };
    let meanings = meanings(root, name).map_err(Error::environment)?;
    let Some(first) = meanings.first() else {
        return Ok(());
    };
    // Two names of one commit are no question.
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

/// The name that a revision begins with: `v1` of `v1~2^{commit}` and of `v1@{yesterday}`. `None` where it begins with
/// none, as `:/text`.
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

/// All that git would take a name for, whichever it prefers.
fn meanings(root: &Path, name: &str) -> std::result::Result<Vec<Meaning>, String> {
    let commit_of = |name: &str| {
        let commit = format!("{name}^{{commit}}");
        let known = ["rev-parse", "--verify", "--quiet", "--end-of-options"];
        git(root, &[&known[..], &[commit.as_str()]].concat()).ok()
    };
    let mut found = Vec::new();
    let refs = references(root, name)?;
    if name.starts_with("refs/") && refs.iter().any(|reference| reference == name) {
        // A whole name means what it says.
        return Ok(found);
    }
    // HEAD, FETCH_HEAD and the like are files of git's own, and come first.
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
    // `v1.0-3-gabcdef0`, as `git describe` says it, means the hash at its end.
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

/// References that a name can stand for, in git's order.
fn references(root: &Path, name: &str) -> std::result::Result<Vec<String>, String> {
    // No reference has these in its name, and git would read them as a pattern.
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
    // It lists what lies below such a name, too.
    wanted.retain(|wanted| listed.lines().any(|line| line == wanted));
    Ok(wanted)
}

/// Commits by the beginning of their hash, and of those of tags that name them.
fn commits_beginning_with(root: &Path, hash: &str) -> std::result::Result<Vec<String>, String> {
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
