//! Keeps the files of other revisions as working trees in the cache, one for each commit. A tree stays for the next run
//! if one follows within [`UNUSED`]. Before each use the whole tree is compared with the commit, and files that were
//! altered are written anew.

use super::export::Commit;
use super::git::{GitError, git};
use super::named::{commit_of, short};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use system::cache::Cache;
use system::error::{Error, Result};
use system::temporary::TemporaryDir;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Worktrees that no run asked for in this time are removed.
const UNUSED: Duration = Duration::from_secs(14 * DAY.as_secs());

/// The file whose time is the time of the last sweep. Nothing else in the cache counts or removes a file of this name.
const SWEPT: &str = ".gatekeeper-swept";

/// The repository's files at another revision.
#[derive(Debug)]
pub struct Tree {
    /// The directory that corresponds to the one that was asked about.
    pub root: PathBuf,
    /// The top of the whole tree.
    pub top: PathBuf,
    /// The abbreviated hash of the commit.
    pub commit: String,
    /// The top of the repository that the commit belongs to.
    repository: PathBuf,
    whole_hash: String,
    /// A shared lock, held by everybody who uses the tree, so that nobody removes it meanwhile.
    _used: File,
}

/// Provides the tree of `revision` in the repository that holds `root`.
///
/// # Errors
/// Fails with a usage error if `root` is in no repository or the revision is unknown there, and with an environment
/// error if its files cannot be written.
pub fn revision(root: &Path, revision: &str, cache: &Cache) -> Result<Tree> {
    let inside = git(root, &["rev-parse", "--show-prefix"]).map_err(|error| {
        Error::usage(format!(
            "{} is not in a git repository: {error}",
            root.display()
        ))
        .caused_by(error)
        .help("--base and --changed name another revision of the same repository")
    })?;
    let commit = commit_of(root, revision, &format!("--base {revision}"))?;
    // Two clones have two worktrees, because each worktree belongs to the repository that made it.
    let repository = top(root)?;
    let place = blake3::hash(repository.as_os_str().as_encoded_bytes()).to_hex();
    let place = place.get(..12).unwrap_or_default();
    let trees = cache.dir("trees")?.join(place);
    std::fs::create_dir_all(&trees).map_err(|error| cannot_write(&trees, error.into()))?;
    sweep_daily(&cache.dir("trees")?, SystemTime::now());
    let lock = trees.join(LOCK);
    let lock = File::create(&lock).map_err(|error| cannot_write(&lock, error.into()))?;
    lock.lock()
        .map_err(|error| cannot_write(&trees, error.into()))?;
    let tree = trees.join(&commit);
    let used = used(&tree).map_err(|error| cannot_write(&tree, error.into()))?;
    provide(&repository, &tree, &commit).map_err(|error| cannot_write(&tree, error))?;
    // The pruning of the cache looks at the time.
    let _ = File::open(&tree).and_then(|tree| tree.set_modified(SystemTime::now()));
    Ok(Tree {
        root: tree.join(inside),
        top: tree,
        commit: short(&commit).to_owned(),
        repository,
        whole_hash: commit,
        _used: used,
    })
}

impl Tree {
    /// Returns the files of the commit that have one of these extensions or contain one of these words, relative to the
    /// top. Links are left out.
    ///
    /// # Errors
    /// Fails with an environment error if git cannot list them.
    pub fn files_with(&self, words: &[&str], extensions: &[&str]) -> Result<Vec<String>> {
        let commit = self.whole_hash.as_str();
        let all = ["ls-tree", "-r", "-z", "--name-only", commit];
        let all = git(&self.repository, &all)?;
        let grep = [&GREP[..], &patterns(words), &[commit]].concat();
        let with_word = found(git(&self.repository, &grep))?;
        let prefix = format!("{commit}:");
        let with_word = with_word
            .split('\0')
            .filter_map(|name| name.strip_prefix(&prefix));
        Ok(files_of(
            &self.top,
            all.split('\0')
                .filter(|name| has_extension(name, extensions))
                .chain(with_word),
        ))
    }
}

/// `-a` reads every file as text, because an attribute may say that a file is binary.
const GREP: [&str; 5] = ["grep", "-l", "-z", "-a", "-F"];

fn patterns<'a>(words: &[&'a str]) -> Vec<&'a str> {
    words.iter().flat_map(|word| ["-e", *word]).collect()
}

/// Returns the list of `git grep`, which reports an empty list by its exit code alone.
fn found(said: std::result::Result<String, GitError>) -> Result<String> {
    match said {
        Err(error) if error.is_silent() => Ok(String::new()),
        found => Ok(found?),
    }
}

/// Returns true if another revision has commits that this one lacks. A shallow clone cannot tell.
pub fn has_more(root: &Path, commit: &str) -> bool {
    let shallow = git(root, &["rev-parse", "--is-shallow-repository"]);
    let inside = git(root, &["merge-base", "--is-ancestor", commit, "HEAD"]);
    // git says no by its exit code alone.
    shallow.is_ok_and(|is| is == "false") && inside.is_err_and(|error| error.is_silent())
}

/// Returns the top of the repository that holds `root`.
///
/// # Errors
/// Fails with an environment error if git does not say.
pub fn top(root: &Path) -> Result<PathBuf> {
    Ok(git(root, &["rev-parse", "--show-toplevel"]).map(PathBuf::from)?)
}

/// Returns the whole paths of the files of a working tree that git tracks.
///
/// # Errors
/// Fails with an environment error if git cannot list them.
pub fn tracked(top: &Path) -> Result<Vec<PathBuf>> {
    let names = git(top, &["ls-files", "-z"])?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(|name| top.join(name))
        .collect())
}

/// Returns the files of a working tree relative to its top: those that git tracks, and new ones that it does not
/// ignore. Some of them may be gone.
///
/// # Errors
/// Fails with an environment error if git cannot list them.
pub fn present(top: &Path) -> Result<BTreeSet<PathBuf>> {
    let names = list_present(top)?;
    Ok(names
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .collect())
}

/// Lists names relative to the top, each followed by a NUL.
fn list_present(top: &Path) -> Result<String> {
    let all = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    Ok(git(top, &all)?)
}

/// Returns the files of a working tree that have one of these extensions or contain one of these words, relative to the
/// top. Links and ignored files are left out.
///
/// # Errors
/// Fails with an environment error if git cannot list them.
pub fn files_with(top: &Path, words: &[&str], extensions: &[&str]) -> Result<Vec<String>> {
    let all = list_present(top)?;
    let grep = [&GREP[..], &["--untracked"], &patterns(words)].concat();
    let with_word = found(git(top, &grep))?;
    Ok(files_of(
        top,
        all.split('\0')
            .filter(|name| has_extension(name, extensions))
            .chain(with_word.split('\0')),
    ))
}

/// Returns the files with one of these extensions that git neither tracks nor ignores, relative to the top.
///
/// # Errors
/// Fails if git cannot list them.
pub fn untracked(top: &Path, extensions: &[&str]) -> Result<Vec<String>> {
    let names = git(top, &["ls-files", "-z", "--others", "--exclude-standard"])?;
    let names = names
        .split('\0')
        .filter(|name| has_extension(name, extensions));
    Ok(files_of(top, names))
}

fn has_extension(name: &str, extensions: &[&str]) -> bool {
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str());
    let mut known = extensions.iter();
    extension.is_some_and(|extension| known.any(|known| extension.eq_ignore_ascii_case(known)))
}

/// Returns each file once, in order, without links.
fn files_of<'a>(top: &Path, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: BTreeSet<&str> = names.collect();
    let is_file = |name: &&str| {
        let metadata = top.join(name).symlink_metadata();
        !name.is_empty() && metadata.is_ok_and(|metadata| metadata.is_file())
    };
    names
        .into_iter()
        .filter(is_file)
        .map(str::to_owned)
        .collect()
}

/// The lock that is held while a worktree of a repository is made or removed.
const LOCK: &str = "lock";

/// Returns the mark beside a worktree. Its time says when the tree was asked for last, and its users lock it.
fn mark(tree: &Path) -> PathBuf {
    tree.with_extension("used")
}

fn used(tree: &Path) -> std::io::Result<File> {
    let file = File::create(mark(tree))?;
    file.set_modified(SystemTime::now())?;
    file.lock_shared()?;
    Ok(file)
}

/// Sweeps if nobody has done so for a day. A sweep opens files of each repository that was ever run against a base
/// here, and tests make thousands of them.
fn sweep_daily(trees: &Path, now: SystemTime) {
    let mark = trees.join(SWEPT);
    let last = mark
        .metadata()
        .and_then(|metadata| metadata.modified())
        .ok();
    let age = last.and_then(|last| now.duration_since(last).ok());
    if age.is_some_and(|age| age < DAY) {
        return;
    }
    // If the mark cannot be made, the next run sweeps again.
    let _ = File::create(&mark).and_then(|mark| mark.set_modified(now));
    sweep(trees, now);
}

/// Removes worktrees of all repositories that were not used for a long time and are not in use. A tree that cannot be
/// removed stays, which is no reason not to run.
fn sweep(trees: &Path, now: SystemTime) {
    for place in entries(trees) {
        let Ok(lock) = File::open(place.join(LOCK)) else {
            continue;
        };
        // Somebody else holds the lock to make a tree, and will sweep another time.
        if lock.try_lock().is_err() {
            continue;
        }
        for tree in entries(&place).into_iter().filter(|path| path.is_dir()) {
            let mark = mark(&tree);
            // A tree from before there were marks is as old as its directory.
            let last = [&mark, &tree].into_iter().find_map(|path| {
                path.metadata()
                    .and_then(|metadata| metadata.modified())
                    .ok()
            });
            let unused = last
                .and_then(|last| now.duration_since(last).ok())
                .is_some_and(|age| age > UNUSED);
            let free = || match File::open(&mark) {
                Ok(file) => file.try_lock().is_ok(),
                Err(error) => error.kind() == std::io::ErrorKind::NotFound,
            };
            if unused && free() {
                let _ = std::fs::remove_dir_all(&tree);
                let _ = std::fs::remove_file(&mark);
            }
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// Provides the files of a commit at `tree`, and nothing else.
fn provide(repository: &Path, tree: &Path, hash: &str) -> std::result::Result<(), GitError> {
    let commit = Commit::new(repository, hash)?;
    let trees = tree.parent().unwrap_or(tree);
    if tree.is_dir() {
        let scratch = TemporaryDir::new_in(trees)?;
        if commit.is_in(tree, scratch.path())? {
            return Ok(());
        }
        std::fs::remove_dir_all(tree)?;
    }
    let scratch = TemporaryDir::new_in(trees)?;
    let new = scratch.path().join("new");
    std::fs::create_dir(&new)?;
    commit.write(&new, scratch.path())?;
    let again = TemporaryDir::new_in(trees)?;
    if !commit.is_in(&new, again.path())? {
        let why = "what git wrote is not what the commit has";
        return Err(GitError::Refused(why.to_owned()));
    }
    // The tree appears whole, or not at all.
    Ok(std::fs::rename(&new, tree)?)
}

fn cannot_write(tree: &Path, error: GitError) -> Error {
    Error::environment(format!(
        "the files of the base revision cannot be written to {}: {error}",
        tree.display()
    ))
    .caused_by(error)
    .help("set GATEKEEPER_CACHE to another directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a repository with two commits and returns them, the older one first.
    fn repository() -> (tempfile::TempDir, [String; 2]) {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "--quiet"]).unwrap();
        let commits = ["one", "two"].map(|text| {
            std::fs::write(dir.path().join("file"), text).unwrap();
            git(dir.path(), &["add", "file"]).unwrap();
            let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
            let commit = ["commit", "--quiet", "--no-verify", "-m", text];
            git(dir.path(), &[&who[..], &commit[..]].concat()).unwrap();
            git(dir.path(), &["rev-parse", "HEAD"]).unwrap()
        });
        (dir, commits)
    }

    /// Waits for a sweep to succeed: a process that another test is just starting holds all open files and their locks
    /// for a moment.
    fn until_gone(root: &Path, sweep: impl Fn()) {
        for _ in 0..100 {
            sweep();
            if !root.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn unused_worktrees_are_removed_and_used_ones_stay() {
        let (dir, [old, new]) = repository();
        let store = tempfile::tempdir().unwrap();
        let cache = Cache::at(store.path()).unwrap();
        let trees = cache.dir("trees").unwrap();
        let first = revision(dir.path(), &old, &cache).unwrap();
        let second = revision(dir.path(), &new, &cache).unwrap();
        let roots = [first.root.clone(), second.root.clone()];
        let there = || [roots[0].exists(), roots[1].exists()];

        let now = SystemTime::now();
        sweep(&trees, now + 30 * DAY);
        assert_eq!(there(), [true, true], "both are in use");
        drop(first);
        sweep(&trees, now + 13 * DAY);
        assert_eq!(there(), [true, true], "the one that is not was used lately");
        until_gone(&roots[0], || sweep(&trees, now + 15 * DAY));
        assert_eq!(there(), [false, true]);

        // The tree comes back, and its time is new.
        drop(revision(dir.path(), &old, &cache).unwrap());
        assert_eq!(there(), [true, true]);
        drop(second);
        // A repository that is gone removes nothing with it.
        dir.close().unwrap();
        for root in &roots {
            until_gone(root, || sweep(&trees, now + 15 * DAY));
        }
        assert_eq!(there(), [false, false]);
    }

    #[test]
    fn a_revision_that_went_on_has_more() {
        let (dir, [old, new]) = repository();
        assert!(!has_more(dir.path(), &old));
        assert!(!has_more(dir.path(), &new));
        git(dir.path(), &["checkout", "--quiet", &old]).unwrap();
        assert!(has_more(dir.path(), &new));
        assert!(!has_more(dir.path(), "no such commit"));
    }

    #[test]
    fn asking_for_it_again_keeps_it() {
        let (dir, [old, new]) = repository();
        let store = tempfile::tempdir().unwrap();
        let cache = Cache::at(store.path()).unwrap();
        let root = revision(dir.path(), &old, &cache).unwrap().root;
        let aged = |days: u32| {
            let mark = File::open(mark(&root)).unwrap();
            mark.set_modified(SystemTime::now() - days * DAY).unwrap();
        };
        let swept = store.path().join("trees").join(SWEPT);
        let a_day_later = || {
            let swept = File::open(&swept).unwrap();
            swept.set_modified(SystemTime::now() - DAY).unwrap();
        };
        aged(13);
        a_day_later();
        drop(revision(dir.path(), &new, &cache).unwrap());
        assert!(root.exists());
        aged(13);
        drop(revision(dir.path(), &old, &cache).unwrap());
        let age = mark(&root).metadata().unwrap().modified().unwrap();
        assert!(age.elapsed().unwrap() < DAY);
        aged(15);
        drop(revision(dir.path(), &new, &cache).unwrap());
        assert!(root.exists(), "swept less than a day ago");
        until_gone(&root, || {
            a_day_later();
            drop(revision(dir.path(), &new, &cache).unwrap());
        });
        assert!(!root.exists(), "swept as another run begins");
    }

    /// Commits everything and returns the hash.
    fn commit_all(dir: &Path) -> String {
        git(dir, &["add", "--all"]).unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let commit = ["commit", "--quiet", "--no-verify", "-m", "all"];
        git(dir, &[&who[..], &commit[..]].concat()).unwrap();
        git(dir, &["rev-parse", "HEAD"]).unwrap()
    }

    /// Makes a program that leaves a mark, and returns its command and the mark.
    fn marking(dir: &Path) -> (String, PathBuf) {
        let mark = dir.join("mark");
        (format!("touch {}; cat", mark.display()), mark)
    }

    /// Calls git as anybody does, with the settings of the repository.
    fn plain(dir: &Path, args: &[&str]) {
        let mut git = std::process::Command::new("git");
        assert!(
            git.arg("-C")
                .arg(dir)
                .args(args)
                .output()
                .unwrap()
                .status
                .success()
        );
    }

    #[test]
    fn a_tree_that_was_altered_is_not_used() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "--quiet"]).unwrap();
        std::fs::create_dir(root.join("below")).unwrap();
        std::fs::write(root.join("below/gates.yaml"), "max: 10\n").unwrap();
        std::fs::write(root.join(".gitignore"), "*.ignored\n").unwrap();
        symlink("below/gates.yaml", root.join("link")).unwrap();
        let commit = commit_all(root);
        let store = tempfile::tempdir().unwrap();
        let cache = Cache::at(store.path()).unwrap();
        let get = || revision(root, &commit, &cache).unwrap().top;
        let top = get();
        let gates = top.join("below/gates.yaml");
        let times = gates.metadata().unwrap().modified().unwrap();
        let same_size_and_time = || {
            std::fs::write(&gates, "max: 99\n").unwrap();
            let file = File::options().write(true).open(&gates).unwrap();
            file.set_modified(times).unwrap();
        };
        let other_link = || {
            std::fs::remove_file(top.join("link")).unwrap();
            symlink("/etc/passwd", top.join("link")).unwrap();
        };
        let link_for_file = || {
            std::fs::rename(&gates, store.path().join("moved")).unwrap();
            symlink(store.path().join("moved"), &gates).unwrap();
        };
        let link_for_directory = || {
            std::fs::rename(top.join("below"), store.path().join("dir")).unwrap();
            symlink(store.path().join("dir"), top.join("below")).unwrap();
        };
        let executable = || {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&gates, mode).unwrap();
        };
        let write = |name: &str| std::fs::write(top.join(name), "#error").unwrap();
        let attempts: [(&str, &dyn Fn()); 11] = [
            (
                "other content of the same size and time",
                &same_size_and_time,
            ),
            ("a file that is gone", &|| {
                std::fs::remove_file(&gates).unwrap()
            }),
            ("a file more", &|| write("below/extra.h")),
            ("a file that git ignores", &|| write("x.ignored")),
            ("a git directory", &|| write(".git")),
            ("a directory more", &|| {
                std::fs::create_dir(top.join("cuda")).unwrap()
            }),
            ("another link", &other_link),
            ("a link in the place of a file", &link_for_file),
            ("a link in the place of a directory", &link_for_directory),
            ("a file that may be run", &executable),
            ("a pipe", &|| {
                nix::unistd::mkfifo(&top.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
            }),
        ];
        use std::os::unix::fs::MetadataExt;
        let inode = || gates.symlink_metadata().unwrap().ino();
        for (what, alter) in attempts {
            alter();
            assert_eq!(get(), top);
            assert_eq!(
                std::fs::read_to_string(&gates).unwrap(),
                "max: 10\n",
                "{what}"
            );
            assert!(gates.symlink_metadata().unwrap().is_file(), "{what}");
            let names = std::fs::read_dir(&top).unwrap().count();
            assert_eq!(names, 3, "{what}");
            let link = std::fs::read_link(top.join("link")).unwrap();
            assert_eq!(link, Path::new("below/gates.yaml"), "{what}");
            let mode = gates.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o111, 0, "{what}");
        }
        // A tree that nobody altered stays as it is.
        let before = inode();
        get();
        assert_eq!(inode(), before);
    }

    #[test]
    fn line_ends_encodings_and_keywords_are_as_in_the_clone_and_filters_are_not_started() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "--quiet"]).unwrap();
        let (program, mark) = marking(dir.path());
        for key in [
            "filter.evil.smudge",
            "filter.evil.clean",
            "filter.a=b.smudge",
        ] {
            git(root, &["config", key, &program]).unwrap();
        }
        git(root, &["config", "filter.evil.required", "true"]).unwrap();
        let attributes = "*.crlf text eol=crlf\n*.id ident\n*.utf16 text working-tree-encoding=UTF-16LE\n\
            *.bin filter=evil\n*.odd filter=a=b\n*.txt diff=evil\n";
        std::fs::write(root.join(".gitattributes"), attributes).unwrap();
        std::fs::write(root.join("a.crlf"), "a\r\nb\r\n").unwrap();
        std::fs::write(root.join("a.id"), "// $Id$\n").unwrap();
        std::fs::write(root.join("a.utf16"), [b'a', 0, b'\n', 0]).unwrap();
        std::fs::write(root.join("a.bin"), "as it is\n").unwrap();
        std::fs::write(root.join("a.odd"), "as it is\n").unwrap();
        git(root, &["config", "diff.evil.textconv", &program]).unwrap();
        std::fs::write(root.join("a.txt"), "text\n").unwrap();
        let commit = commit_all(root);
        assert!(!mark.exists(), "as it was added");
        std::fs::remove_file(root.join("a.id")).unwrap();
        plain(
            root,
            &["checkout", "--quiet", "--force", "HEAD", "--", "a.id"],
        );
        // git itself may have checked whether the other files are unchanged.
        let _ = std::fs::remove_file(&mark);
        let store = tempfile::tempdir().unwrap();
        let cache = Cache::at(store.path()).unwrap();
        let tree = revision(root, &commit, &cache).unwrap().top;
        for name in ["a.crlf", "a.id", "a.utf16", "a.bin", "a.odd"] {
            let read = |dir: &Path| std::fs::read(dir.join(name)).unwrap();
            assert_eq!(read(&tree), read(root), "{name}");
        }
        let id = std::fs::read_to_string(tree.join("a.id")).unwrap();
        assert!(id.starts_with("// $Id: "), "{id}");
        // A tree with converted files is whole, and one that was altered is not.
        use std::os::unix::fs::MetadataExt;
        let inode = || tree.join("a.crlf").metadata().unwrap().ino();
        let before = inode();
        revision(root, &commit, &cache).unwrap();
        assert_eq!(inode(), before);
        std::fs::write(tree.join("a.crlf"), "a\nb\r\n").unwrap();
        revision(root, &commit, &cache).unwrap();
        assert_eq!(std::fs::read(tree.join("a.crlf")).unwrap(), b"a\r\nb\r\n");
        // Files that look changed are read as they are.
        for name in ["a.bin", "a.txt"] {
            std::fs::write(root.join(name), "changed\n").unwrap();
        }
        assert!(crate::repo::digest(root).is_some());
        assert!(crate::repo::commit(root).unwrap().ends_with('+'));
        assert!(!mark.exists());
        // The attributes do what their comments say.
        plain(
            root,
            &["checkout", "--quiet", "--force", "HEAD", "--", "a.bin"],
        );
        assert!(mark.exists());
    }

    #[test]
    fn takes_a_file_in_lfs_from_its_local_store() {
        use sha2::{Digest, Sha256};
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        git(root, &["init", "--quiet"]).unwrap();
        std::fs::write(root.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
        let pointer = |content: &str| {
            let digest = Sha256::digest(content.as_bytes());
            let digest: String = digest
                .iter()
                .map(|digest| format!("{digest:02x}"))
                .collect();
            let text = format!(
                "version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {}\n",
                content.len()
            );
            (digest, text)
        };
        let keep = |digest: &str, content: &str| {
            let kept = root
                .join(".git/lfs/objects")
                .join(&digest[..2])
                .join(&digest[2..4]);
            std::fs::create_dir_all(&kept).unwrap();
            std::fs::write(kept.join(digest), content).unwrap();
        };
        let (here, here_text) = pointer("weights");
        let (forged, forged_text) = pointer("others!");
        let (_, absent_text) = pointer("absent");
        std::fs::write(root.join("here.bin"), &here_text).unwrap();
        std::fs::write(root.join("forged.bin"), &forged_text).unwrap();
        std::fs::write(root.join("absent.bin"), &absent_text).unwrap();
        std::fs::write(root.join("no-attribute"), &here_text).unwrap();
        let commit = commit_all(root);
        keep(&here, "weights");
        keep(&forged, "forged!");
        let store = tempfile::tempdir().unwrap();
        let cache = Cache::at(store.path()).unwrap();
        let tree = revision(root, &commit, &cache).unwrap().top;
        let read = |name: &str| std::fs::read_to_string(tree.join(name)).unwrap();
        assert_eq!(read("here.bin"), "weights");
        assert_eq!(read("forged.bin"), forged_text);
        assert_eq!(read("absent.bin"), absent_text);
        assert_eq!(read("no-attribute"), here_text);
        std::fs::write(tree.join("here.bin"), "altered").unwrap();
        revision(root, &commit, &cache).unwrap();
        assert_eq!(read("here.bin"), "weights");
    }

    #[test]
    fn a_submodule_comes_from_its_clone_and_nothing_is_fetched() {
        let dir = tempfile::tempdir().unwrap();
        let (sub, root) = (dir.path().join("sub"), dir.path().join("root"));
        for repository in [&sub, &root] {
            std::fs::create_dir(repository).unwrap();
            git(repository, &["init", "--quiet"]).unwrap();
        }
        std::fs::write(sub.join("k.cuh"), "one").unwrap();
        let first = commit_all(&sub);
        let url = sub.display().to_string();
        let add = [
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
        ];
        plain(&root, &[&add[..], &[&url, "lib"]].concat());
        let commit = commit_all(&root);
        let store = tempfile::tempdir().unwrap();
        let cache = Cache::at(store.path()).unwrap();
        let get = |commit: &str| revision(&root, commit, &cache);
        let tree = get(&commit).unwrap().top;
        let header = tree.join("lib/k.cuh");
        assert_eq!(std::fs::read_to_string(&header).unwrap(), "one");
        std::fs::write(&header, "two").unwrap();
        get(&commit).unwrap();
        assert_eq!(std::fs::read_to_string(&header).unwrap(), "one");

        // The next commit exists where it was made, and not in the clone.
        std::fs::write(sub.join("k.cuh"), "three").unwrap();
        let next = commit_all(&sub);
        let place = format!("160000,{next},lib");
        git(&root, &["update-index", "--cacheinfo", &place]).unwrap();
        let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let staged = ["commit", "--quiet", "-m", "next"];
        git(&root, &[&who[..], &staged[..]].concat()).unwrap();
        let commit = git(&root, &["rev-parse", "HEAD"]).unwrap();
        let said = get(&commit).unwrap_err().to_string();
        assert!(
            said.contains(&format!("git -C lib fetch origin {next}")),
            "{said}"
        );

        // In a clone without the submodule, whose address is a program, the directory stays empty.
        let (program, mark) = marking(dir.path());
        let modules = format!("[submodule \"x\"]\n\tpath = lib\n\turl = \"ext::{program}\"\n");
        std::fs::write(root.join(".gitmodules"), modules).unwrap();
        git(
            &root,
            &[
                "update-index",
                "--cacheinfo",
                &format!("160000,{first},lib"),
            ],
        )
        .unwrap();
        git(&root, &["add", ".gitmodules"]).unwrap();
        git(&root, &[&who[..], &staged[..]].concat()).unwrap();
        let commit = git(&root, &["rev-parse", "HEAD"]).unwrap();
        let tree = get(&commit).unwrap().top;
        assert_eq!(std::fs::read_dir(tree.join("lib")).unwrap().count(), 0);
        // A name that leads out of the directory finds no clone either.
        std::fs::write(
            root.join(".gitmodules"),
            "[submodule \"../../sub/.git/modules\"]\n\tpath = lib\n\turl = x\n",
        )
        .unwrap();
        git(&root, &["add", ".gitmodules"]).unwrap();
        git(&root, &[&who[..], &staged[..]].concat()).unwrap();
        let commit = git(&root, &["rev-parse", "HEAD"]).unwrap();
        get(&commit).unwrap();
        assert!(!mark.exists());
    }

    #[test]
    fn a_partial_clone_is_told_to_be_made_whole_and_fetches_nothing() {
        let (dir, [old, _]) = repository();
        plain(dir.path(), &["config", "uploadpack.allowFilter", "true"]);
        let clone = tempfile::tempdir().unwrap();
        let from = format!("file://{}", dir.path().display());
        let place = clone.path().join("clone");
        let text = place.display().to_string();
        plain(
            clone.path(),
            &["clone", "--quiet", "--filter=blob:none", &from, &text],
        );
        let store = tempfile::tempdir().unwrap();
        let cache = Cache::at(store.path()).unwrap();
        let said = revision(&place, &old, &cache).unwrap_err().to_string();
        assert!(said.contains("this clone is partial"), "{said}");
        plain(&place, &["fetch", "--quiet", "--refetch", "--no-filter"]);
        assert!(revision(&place, &old, &cache).is_ok());
    }
}
