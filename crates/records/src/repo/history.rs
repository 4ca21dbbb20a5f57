//! Reads files as they were: at another revision, and in each version that they had.

use super::export::answer_to;
use super::git::{Contents, GitError, command, git};
use super::named::{refuse_grafts, short};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use system::error::{Error, Result};

/// Reads every file under `dir` at a commit. Paths are relative to `root`, as `dir` is.
///
/// # Errors
/// Fails with an environment error if git cannot read the commit.
pub fn files(root: &Path, commit: &str, dir: &str) -> Result<Vec<(PathBuf, String)>> {
    let list = ["ls-tree", "-r", "-z", "--name-only", commit, "--", dir];
    let listed = git(root, &list)?;
    let names: Vec<&str> = listed.split('\0').filter(|name| !name.is_empty()).collect();
    let objects: Vec<String> = names
        .iter()
        .map(|name| format!("{commit}:./{name}"))
        .collect();
    let texts = contents(root, &objects)?;
    Ok(names
        .into_iter()
        .zip(texts)
        .filter_map(|(name, text)| Some((PathBuf::from(name), text?)))
        .collect())
}

/// The commits that touched files under one directory.
pub struct FileVersions {
    /// The versions of each path, oldest first.
    pub files: BTreeMap<PathBuf, Vec<FileVersion>>,
    /// True if older versions may be missing, as in a shallow clone.
    pub shallow: bool,
}

/// The effect of a commit on a file.
pub struct FileVersion {
    pub commit: Commit,
    /// `None` if the commit removed the file.
    pub text: Option<String>,
}

/// A commit of git's log. Commits sort from the oldest to the newest in git's order, because many have the same day,
/// and a clock can go back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Commit {
    /// The number of newer commits in the log. It is the first field, so that commits sort by it.
    #[serde(skip)]
    pub newer: Reverse<usize>,
    /// The day of the commit: `2026-11-22`.
    pub day: String,
    /// The abbreviated hash of the commit.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
}

/// Writes the day and the hash: `2026-11-22 0a34415aaaaa`.
impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.day, self.commit)
    }
}

/// Reads the latest committed versions of those files under `dir` that `wanted` picks, at most `most` of each. A
/// renamed file counts as one that was removed and one that is new. Returns `None` outside git, and before its first
/// commit.
///
/// # Errors
/// Fails with an environment error if there is a repository and git cannot or will not read it.
pub fn versions(
    root: &Path,
    dir: &str,
    wanted: &dyn Fn(&Path) -> bool,
    most: usize,
) -> Result<Option<FileVersions>> {
    const COMMIT: &str = "commit ";
    let log = [
        "log",
        "--format=commit %H %cd %s",
        // A commit comes after all commits that it is made on.
        "--date-order",
        "--date=short",
        "--name-status",
        "--no-renames",
        // A version that a merge made from two is a version, too.
        "-c",
        "--relative",
        "--",
        dir,
    ];
    let log = match git(root, &log) {
        Ok(log) => log,
        Err(GitError::Start(_)) => return Ok(None),
        Err(error) => {
            let none = ["not a git repository", "any commits yet"];
            let said = error.to_string();
            return if none.iter().any(|why| said.contains(why)) {
                Ok(None)
            } else {
                Err(error.into())
            };
        }
    };
    refuse_grafts(root)?;
    let shallow = git(root, &["rev-parse", "--is-shallow-repository"]).is_ok_and(|is| is == "true");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found: Vec<Touched> = Vec::new();
    let mut newer = 0;
    let mut hash = "";
    let mut at = None;
    for line in log.lines().filter(|line| !line.is_empty()) {
        if let Some(commit) = line.strip_prefix(COMMIT) {
            let mut words = commit.splitn(3, ' ');
            let mut next = || words.next().unwrap_or_default();
            hash = next();
            at = Some(Commit {
                newer: Reverse(newer),
                day: next().to_owned(),
                commit: short(hash).to_owned(),
                subject: next().to_owned(),
            });
            newer += 1;
            continue;
        }
        // The status is one letter, `M`, or for a merge one letter for each parent. If one of them says that the file
        // is gone, it is gone.
        let Some((status, name)) = line.split_once('\t') else {
            continue;
        };
        let count = counts.entry(name).or_default();
        if let Some(commit) = &at
            && wanted(Path::new(name))
            && *count < most
        {
            *count += 1;
            found.push(Touched {
                name,
                commit: commit.clone(),
                object: (!status.starts_with('D')).then(|| format!("{hash}:./{name}")),
            });
        }
    }
    // git's log begins with the newest commit.
    found.reverse();
    let objects = found.iter().filter_map(|version| version.object.clone());
    let mut texts = contents(root, &objects.collect::<Vec<_>>())?.into_iter();
    let mut files: BTreeMap<PathBuf, Vec<FileVersion>> = BTreeMap::new();
    for Touched {
        name,
        commit,
        object,
    } in found
    {
        let text = object.and_then(|_| texts.next().flatten());
        let versions = files.entry(PathBuf::from(name)).or_default();
        versions.push(FileVersion { commit, text });
    }
    Ok(Some(FileVersions { files, shallow }))
}

/// A file that a line of git's log names.
struct Touched<'a> {
    name: &'a str,
    commit: Commit,
    /// `None` if the file is gone.
    object: Option<String>,
}

/// Returns the texts of objects (`COMMIT:./PATH`) in their order, with `None` for an object that is not there.
fn contents(root: &Path, objects: &[String]) -> Result<Vec<Option<String>>> {
    let broken = |error: GitError| {
        Error::environment(format!("git cannot read old files: {error}")).caused_by(error)
    };
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let mut git = command(root, Contents::AsStored).map_err(broken)?;
    git.args(["cat-file", "--batch"]);
    let asked = objects.join("\n") + "\n";
    let output = answer_to(git, asked.into_bytes()).map_err(broken)?;
    let mut rest = output.as_slice();
    objects
        .iter()
        .map(|object| {
            answer(&mut rest)
                .ok_or_else(|| broken(GitError::Refused(format!("no answer for {object}"))))
        })
        .collect()
}

/// Parses one answer of `git cat-file --batch`: `HASH blob SIZE`, and that many bytes, each with a line end, or a line
/// that ends in `missing`.
fn answer(rest: &mut &[u8]) -> Option<Option<String>> {
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let (head, after) = rest.split_at_checked(end)?;
    *rest = after.get(1..)?;
    let head = String::from_utf8_lossy(head);
    if head.ends_with(" missing") {
        return Some(None);
    }
    let size = head.rsplit(' ').next()?.parse().ok()?;
    let (text, after) = rest.split_at_checked(size)?;
    *rest = after.get(1..)?;
    Some(Some(String::from_utf8_lossy(text).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::named::commit_of;
    use super::*;

    fn run(dir: &Path, args: &[&str]) {
        let who = ["-c", "user.name=t", "-c", "user.email=t@t"];
        git(dir, &[&who, args].concat()).unwrap();
    }

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        run(dir, &["add", "--all"]);
        run(dir, &["commit", "--quiet", "-m", "change"]);
    }

    #[test]
    fn files_are_read_as_they_were_at_a_tag_and_in_every_version() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("gpu");
        std::fs::create_dir(&sub).unwrap();
        assert!(
            versions(&sub, "b", &|_| true, 9).unwrap().is_none(),
            "no repository"
        );
        run(dir.path(), &["init", "--quiet"]);
        write(dir.path(), "gpu/b/x.json", "one\n");
        write(dir.path(), "b/x.json", "another directory");
        run(dir.path(), &["tag", "v1.0"]);
        write(dir.path(), "gpu/b/x.json", "two\n");
        write(dir.path(), "gpu/b/y.json", "y");
        write(dir.path(), "gpu/b/x.json", "three\n");
        let commit = commit_of(&sub, "v1.0", "the anchor v1.0").unwrap();
        assert_eq!(
            files(&sub, &commit, "b").unwrap(),
            [(PathBuf::from("b/x.json"), "one\n".to_owned())]
        );
        let error = commit_of(&sub, "v9", "the anchor v9").unwrap_err();
        assert_eq!(
            error.diagnostic().message,
            "the anchor v9: there is no such revision in this clone"
        );
        assert!(commit_of(&sub, "--all", "x").is_err());
        let outside = tempfile::tempdir().unwrap();
        let error = commit_of(outside.path(), "v1.0", "the anchor v1.0").unwrap_err();
        assert!(
            error
                .diagnostic()
                .message
                .starts_with("the anchor v1.0: fatal: not a git repository"),
            "{error}"
        );

        let all = versions(&sub, "b", &|_| true, 9).unwrap().unwrap();
        assert!(!all.shallow);
        assert_eq!(texts(&all, "b/x.json"), ["one\n", "two\n", "three\n"]);
        let is_x = |path: &Path| path.ends_with("x.json");
        let some = versions(&sub, "b", &is_x, 2).unwrap().unwrap();
        assert_eq!(some.files.len(), 1);
        assert_eq!(texts(&some, "b/x.json"), ["two\n", "three\n"]);
    }

    /// Returns the versions of a file, with `-` for a commit that removed it.
    fn texts<'a>(versions: &'a FileVersions, name: &str) -> Vec<&'a str> {
        let file = versions.files.get(Path::new(name)).unwrap();
        file.iter()
            .map(|version| version.text.as_deref().unwrap_or("-"))
            .collect()
    }

    #[test]
    fn versions_have_their_commit_and_day_and_name_removed_files() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let head = || git(root, &["rev-parse", "HEAD"]).unwrap();
        run(root, &["init", "--quiet"]);
        let text = "a file\nof four\nlines, alike\nin both\n";
        write(root, "b/old.json", text);
        let first = head();
        run(root, &["mv", "b/old.json", "b/new.json"]);
        run(root, &["commit", "--quiet", "-m", "renamed"]);
        let all = versions(root, "b", &|_| true, 9).unwrap().unwrap();
        assert_eq!(texts(&all, "b/old.json"), [text, "-"]);
        assert_eq!(texts(&all, "b/new.json"), [text]);
        let commit = &all.files[Path::new("b/old.json")][0].commit;
        assert_eq!(commit.commit, short(&first));
        let day = git(root, &["log", "-1", "--format=%cs", &first]).unwrap();
        assert_eq!(commit.day, day);
    }

    /// The last of these commits says that it is the oldest.
    #[test]
    fn commits_of_one_day_are_in_git_s_order() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        run(root, &["init", "--quiet"]);
        let dates = [9, 9, 9, 9, 9, 5];
        for (at, hour) in dates.into_iter().enumerate() {
            std::fs::create_dir_all(root.join("b")).unwrap();
            std::fs::write(root.join("b/x.json"), at.to_string()).unwrap();
            run(root, &["add", "--all"]);
            let date = format!("2026-11-22T0{hour}:00:00Z");
            let subject = format!("step {at}: a tab\tand words");
            let mut git = std::process::Command::new("git");
            git.current_dir(root).env("GIT_COMMITTER_DATE", date);
            git.args(["-c", "user.name=t", "-c", "user.email=t@t"]);
            git.args(["commit", "--quiet", "-m", &subject]);
            assert!(git.status().unwrap().success());
        }
        let all = versions(root, "b", &|_| true, 9).unwrap().unwrap();
        assert_eq!(texts(&all, "b/x.json"), ["0", "1", "2", "3", "4", "5"]);
        let versions = &all.files[Path::new("b/x.json")];
        assert!(versions.is_sorted_by(|a, b| a.commit < b.commit));
        let subjects: Vec<_> = versions
            .iter()
            .map(|version| &version.commit.subject)
            .collect();
        assert_eq!(subjects[0], "step 0: a tab\tand words");
        assert_eq!(versions[5].commit.day, "2026-11-22");
    }

    #[test]
    fn decisions_of_a_merge_are_versions() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        run(root, &["init", "--quiet", "--initial-branch=main"]);
        write(root, "b/x.json", "one");
        write(root, "b/gone.json", "one");
        run(root, &["checkout", "--quiet", "-b", "side"]);
        write(root, "b/x.json", "side");
        write(root, "b/gone.json", "side");
        run(root, &["checkout", "--quiet", "main"]);
        write(root, "b/x.json", "main");
        write(root, "b/gone.json", "main");
        assert!(git(root, &["merge", "--quiet", "side"]).is_err());
        run(root, &["rm", "--quiet", "--force", "b/gone.json"]);
        write(root, "b/x.json", "both");
        let all = versions(root, "b", &|_| true, 9).unwrap().unwrap();
        assert_eq!(texts(&all, "b/x.json").last(), Some(&"both"));
        assert_eq!(texts(&all, "b/gone.json").last(), Some(&"-"));
        assert_eq!(texts(&all, "b/x.json").len(), 4);
    }

    #[test]
    fn answers_are_cut_by_their_size() {
        let mut rest = &b"abc blob 5\na\nb\nc\nHEAD:./x missing\nabc blob 0\n\n"[..];
        assert_eq!(answer(&mut rest), Some(Some("a\nb\nc".to_owned())));
        assert_eq!(answer(&mut rest), Some(None));
        assert_eq!(answer(&mut rest), Some(Some(String::new())));
        assert_eq!(answer(&mut rest), None);
        let mut short = &b"abc blob 50\nabc\n"[..];
        assert_eq!(answer(&mut short), None);
    }
}
