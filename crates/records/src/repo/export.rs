//! Writes the files of a commit to a directory, and checks whether a directory has exactly these files.
//!
//! git writes the files as it would check them out, so that line ends, encodings and keywords are as in any other
//! working tree of this clone. It starts no program while it does so: a file that `git lfs` keeps elsewhere is copied
//! from there. A submodule comes from its clone here, if there is one.

use super::git::{Contents, GitError, command_at, git, said};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use system::files;

/// The error says why there are no such files.
pub(super) type Result<T> = std::result::Result<T, GitError>;

/// A commit, with the directory of its objects.
pub(super) struct Commit {
    git_dir: PathBuf,
    hash: String,
}

/// The kind of thing that a tree has under a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeEntryKind {
    File { executable: bool },
    Link,
    Submodule,
}

struct TreeEntry {
    kind: TreeEntryKind,
    hash: String,
}

type Entries = BTreeMap<PathBuf, TreeEntry>;

/// A longer text is not a pointer to a file that is kept elsewhere.
const LONGEST_POINTER: usize = 1024;

impl Commit {
    /// Makes a commit of the repository that holds `root`.
    pub fn new(root: &Path, hash: &str) -> Result<Self> {
        Ok(Self {
            git_dir: PathBuf::from(git(root, &["rev-parse", "--absolute-git-dir"])?),
            hash: hash.to_owned(),
        })
    }

    fn git(&self, contents: Contents) -> Result<Command> {
        command_at(&self.git_dir, contents)
    }

    /// Writes the files of the commit to `dir`, which is empty. `scratch` is for temporary files.
    pub fn write(&self, dir: &Path, scratch: &Path) -> Result<()> {
        let index = self.index(scratch)?;
        self.check_out(&index, dir, None)?;
        self.fill_pointers(&index, dir)?;
        for (path, commit) in self.submodules()? {
            let dir = dir.join(path);
            std::fs::create_dir_all(&dir).map_err(unusable(&dir))?;
            commit.write(&dir, &scratch_below(scratch)?)?;
        }
        Ok(())
    }

    /// Returns true if `dir` has exactly these files, unchanged. Each file is read and compared with its object,
    /// because the notes that git keeps about a working tree can be altered together with it.
    pub fn is_in(&self, dir: &Path, scratch: &Path) -> Result<bool> {
        let entries = self.entries()?;
        let submodules = self.submodules()?;
        let mut there = Vec::new();
        if list(
            dir,
            Path::new(""),
            &|path| submodules.contains_key(path),
            &mut there,
        )
        .is_err()
        {
            return Ok(false);
        }
        if !is_listed(&entries, &there) {
            return Ok(false);
        }
        let Some(converted) = self.differing(&entries, dir)? else {
            return Ok(false);
        };
        if !converted.is_empty() && !self.is_converted(&converted, dir, scratch)? {
            return Ok(false);
        }
        for (path, commit) in submodules {
            if !commit.is_in(&dir.join(path), &scratch_below(scratch)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn entries(&self) -> Result<Entries> {
        let mut list = self.git(Contents::AsStored)?;
        list.args(["ls-tree", "-r", "-z", "--full-tree", &self.hash]);
        let output = bytes_of(list)?;
        output
            .split(|byte| *byte == 0)
            .filter(|line| !line.is_empty())
            .map(|line| entry(line).ok_or_else(|| refused("git lists a tree in an unknown way")))
            .collect()
    }

    /// Makes an index of the commit. The index of the clone stays as it is.
    fn index(&self, scratch: &Path) -> Result<PathBuf> {
        let index = scratch.join("index");
        let mut read = self.git(Contents::AsStored)?;
        read.env("GIT_INDEX_FILE", &index)
            .args(["read-tree", "--no-sparse-checkout", &self.hash]);
        said(read)?;
        Ok(index)
    }

    /// Checks out all files of an index, or the given ones.
    fn check_out(&self, index: &Path, dir: &Path, these: Option<&[&Path]>) -> Result<()> {
        let mut check_out = self.git(Contents::Converted)?;
        check_out
            .env("GIT_INDEX_FILE", index)
            .arg("--work-tree")
            .arg(dir)
            .current_dir(dir)
            .args(["checkout-index", "--force", "--quiet"]);
        match these {
            None => {
                check_out.arg("--all");
                said(check_out).map(drop)
            }
            Some(these) => {
                check_out.args(["-z", "--stdin"]);
                answer_to(
                    check_out,
                    these
                        .iter()
                        .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"])
                        .collect::<Vec<_>>()
                        .concat(),
                )
                .map(drop)
            }
        }
        .map_err(|said| self.explained(said))
    }

    /// Returns git's message about missing objects, with what can be done about it.
    fn explained(&self, error: GitError) -> GitError {
        let said = error.to_string();
        let partial = |text: &String| text.contains("promisor") || text.contains("lazy fetching");
        if partial(&said) || self.is_partial() {
            GitError::Refused(format!(
                "{said}\nthis clone is partial, and files of the base are not fetched while gatekeeper runs: clone without \
                 --filter, or `git fetch --refetch --no-filter`"
            ))
        } else {
            error
        }
    }

    fn is_partial(&self) -> bool {
        let Ok(mut config) = self.git(Contents::AsStored) else {
            return false;
        };
        config.args([
            "config",
            "--get-regexp",
            "^(extensions.partialclone|remote\\..*\\.promisor)$",
        ]);
        said(config).is_ok_and(|value| !value.is_empty())
    }

    /// Returns the files whose bytes differ from their object's, as attributes can cause. Returns `None` if anything
    /// else differs.
    fn differing<'a>(&self, entries: &'a Entries, dir: &Path) -> Result<Option<Vec<&'a Path>>> {
        let files: Vec<_> = entries
            .iter()
            .filter(|(_, entry)| entry.kind != TreeEntryKind::Submodule)
            .collect();
        let asked = files
            .iter()
            .map(|(_, entry)| format!("{}\n", entry.hash))
            .collect::<String>()
            .into_bytes();
        let mut ask = self.git(Contents::AsStored)?;
        ask.args(["cat-file", "--batch"]);
        answering(ask, asked, |answers| {
            let mut differing = Vec::new();
            for (path, entry) in files {
                let Some(object) = next_object(answers).map_err(|error| self.explained(error))?
                else {
                    let missing = format!("the object of {} is missing", path.display());
                    return Err(self.explained(GitError::Refused(missing)));
                };
                let here = dir.join(path);
                match entry.kind {
                    TreeEntryKind::File { .. } if !has_bytes(&here, &object) => {
                        differing.push(path.as_path())
                    }
                    TreeEntryKind::Link
                        if !std::fs::read_link(&here)
                            .is_ok_and(|target| target.as_os_str().as_bytes() == object) =>
                    {
                        return Ok(None);
                    }
                    _ => {}
                }
            }
            Ok(Some(differing))
        })
    }

    /// Returns true if these files are what git makes of their objects.
    fn is_converted(&self, paths: &[&Path], dir: &Path, scratch: &Path) -> Result<bool> {
        let index = self.index(scratch)?;
        let fresh = scratch.join("fresh");
        std::fs::create_dir(&fresh).map_err(unusable(&fresh))?;
        self.check_out(&index, &fresh, Some(paths))?;
        self.fill_pointers(&index, &fresh)?;
        Ok(paths
            .iter()
            .all(|path| has_same_bytes(&dir.join(path), &fresh.join(path)).unwrap_or(false)))
    }

    /// Replaces each pointer below `dir` by the file that it names, if this clone has the file.
    fn fill_pointers(&self, index: &Path, dir: &Path) -> Result<()> {
        let mut all = Vec::new();
        list(dir, Path::new(""), &|_| false, &mut all).map_err(unusable(dir))?;
        let pointers: Vec<_> = all
            .into_iter()
            .filter_map(|found| Some((pointer(&dir.join(&found.path))?, found.path)))
            .collect();
        if pointers.is_empty() {
            return Ok(());
        }
        let mut ask = self.git(Contents::AsStored)?;
        ask.env("GIT_INDEX_FILE", index)
            .arg("--work-tree")
            .arg(dir)
            .current_dir(dir)
            .args(["check-attr", "--cached", "-z", "--stdin", "filter"]);
        let answer = answer_to(
            ask,
            pointers
                .iter()
                .flat_map(|(_, path)| [path.as_os_str().as_bytes(), b"\0"])
                .collect::<Vec<_>>()
                .concat(),
        )?;
        let filters = answer.split(|byte| *byte == 0).skip(2).step_by(3);
        let kept = self.common_dir()?.join("lfs/objects");
        for ((pointer, path), filter) in pointers.iter().zip(filters) {
            if filter == b"lfs" {
                // A file that is not here stays a pointer, as in a clone without it, and a kernel that needs it does
                // not build.
                let _ = pointer.fill(&kept, &dir.join(path));
            }
        }
        Ok(())
    }

    fn common_dir(&self) -> Result<PathBuf> {
        let mut ask = self.git(Contents::AsStored)?;
        ask.args(["rev-parse", "--git-common-dir"]);
        let text = said(ask)?;
        // The path is relative to the directory in which git starts.
        Ok(self.git_dir.join(text))
    }

    /// Returns the submodules that are cloned here, by path. The others stay empty, as they are in the clone itself.
    fn submodules(&self) -> Result<BTreeMap<PathBuf, Self>> {
        let entries = self.entries()?;
        let links: Vec<_> = entries
            .iter()
            .filter(|(_, entry)| entry.kind == TreeEntryKind::Submodule)
            .collect();
        if links.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut config = self.git(Contents::AsStored)?;
        let blob = format!("{}:.gitmodules", self.hash);
        config.args(["config", "--null", "--blob", &blob]);
        config.args(["--get-regexp", "^submodule\\..*\\.path$"]);
        // Without the file there are no names, and nothing is cloned under any name.
        let listed = bytes_of(config).unwrap_or_default();
        let mut found = BTreeMap::new();
        for line in listed.split(|byte| *byte == 0) {
            let Some((name, path)) = submodule(line) else {
                continue;
            };
            let Some((path, entry)) = links.iter().find(|(link, _)| **link == path) else {
                continue;
            };
            let places = [self.git_dir.clone(), self.common_dir()?];
            let Some(git_dir) = places
                .iter()
                .map(|dir| dir.join("modules").join(&name))
                .find(|dir| dir.join("HEAD").is_file())
            else {
                continue;
            };
            let commit = Self {
                git_dir,
                hash: entry.hash.clone(),
            };
            let mut is_there = commit.git(Contents::AsStored)?;
            is_there.args(["cat-file", "-e", &format!("{}^{{commit}}", commit.hash)]);
            if said(is_there).is_err() {
                return Err(GitError::Refused(format!(
                    "the submodule {} is cloned without {}, which the base has of it: `git -C {} fetch origin {}`",
                    path.display(),
                    commit.hash,
                    path.display(),
                    commit.hash
                )));
            }
            found.insert((*path).clone(), commit);
        }
        Ok(found)
    }
}

/// Parses a line of `git ls-files`: `100644 blob HASH\tPATH`.
fn entry(line: &[u8]) -> Option<(PathBuf, TreeEntry)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let (about, path) = line.split_at_checked(tab)?;
    let about = std::str::from_utf8(about).ok()?;
    let mut words = about.split(' ');
    let kind = match words.next()? {
        "100755" => TreeEntryKind::File { executable: true },
        "120000" => TreeEntryKind::Link,
        "160000" => TreeEntryKind::Submodule,
        _ => TreeEntryKind::File { executable: false },
    };
    let hash = words.nth(1)?.to_owned();
    let path = PathBuf::from(OsString::from_vec(path.get(1..)?.to_vec()));
    Some((path, TreeEntry { kind, hash }))
}

/// Parses `submodule.NAME.path\nPATH`. The name becomes a directory, and must not lead out of its parent.
fn submodule(line: &[u8]) -> Option<(String, PathBuf)> {
    let line = std::str::from_utf8(line).ok()?;
    let (key, path) = line.split_once('\n')?;
    let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
    let is_below = |part| matches!(part, std::path::Component::Normal(_));
    let is_safe = !name.is_empty() && Path::new(name).components().all(is_below);
    is_safe.then(|| (name.to_owned(), PathBuf::from(path)))
}

/// An entry below a directory on disk.
struct DiskEntry {
    path: PathBuf,
    kind: DiskEntryKind,
}

#[derive(PartialEq, Eq)]
enum DiskEntryKind {
    File { executable: bool },
    Link,
    Directory,
}

/// Lists what is below a directory. A pipe, a socket or a device is an error, because no tree has one.
fn list(
    root: &Path,
    below: &Path,
    is_left_out: &dyn Fn(&Path) -> bool,
    found: &mut Vec<DiskEntry>,
) -> io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let about = entry.metadata()?;
        let kind = match about.file_type() {
            kind if kind.is_dir() => DiskEntryKind::Directory,
            kind if kind.is_symlink() => DiskEntryKind::Link,
            kind if kind.is_file() => DiskEntryKind::File {
                executable: about.permissions().mode() & 0o100 != 0,
            },
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        if kind == DiskEntryKind::Directory && !is_left_out(&path) {
            list(root, &path, is_left_out, found)?;
        }
        found.push(DiskEntry { path, kind });
    }
    Ok(())
}

/// Returns true if these are exactly the entries of a tree and their directories.
fn is_listed(entries: &Entries, there: &[DiskEntry]) -> bool {
    let above = |path: &PathBuf| -> Vec<PathBuf> {
        let above = path.ancestors().skip(1);
        above.map(Path::to_owned).collect()
    };
    let dirs: BTreeSet<PathBuf> = entries.keys().flat_map(above).collect();
    let files = there
        .iter()
        .filter(|disk_entry| disk_entry.kind != DiskEntryKind::Directory);
    let wanted = entries
        .values()
        .filter(|entry| entry.kind != TreeEntryKind::Submodule);
    files.count() == wanted.count()
        && there.iter().all(|DiskEntry { path, kind }| {
            match (kind, entries.get(path).map(|entry| entry.kind)) {
                (DiskEntryKind::Directory, Some(TreeEntryKind::Submodule)) => true,
                (DiskEntryKind::Directory, None) => dirs.contains(path),
                (DiskEntryKind::Link, Some(TreeEntryKind::Link)) => true,
                (
                    DiskEntryKind::File { executable },
                    Some(TreeEntryKind::File { executable: wanted }),
                ) => *executable == wanted,
                _ => false,
            }
        })
}

fn has_bytes(path: &Path, bytes: &[u8]) -> bool {
    let is_as_long = path
        .symlink_metadata()
        .is_ok_and(|symlink_metadata| symlink_metadata.len() == bytes.len() as u64);
    is_as_long && files::read(path, bytes.len() as u64).is_ok_and(|here| here == bytes)
}

fn has_same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (files::open(one)?, files::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (a, b) = (one.fill_buf()?, other.fill_buf()?);
        let length = a.len().min(b.len());
        if length == 0 {
            return Ok(a.len() == b.len());
        }
        if a.get(..length) != b.get(..length) {
            return Ok(false);
        }
        one.consume(length);
        other.consume(length);
    }
}

/// A pointer names a file that `git lfs` keeps, by SHA-256 and size.
struct Pointer {
    digest: String,
    size: u64,
}

fn pointer(path: &Path) -> Option<Pointer> {
    let about = path.symlink_metadata().ok()?;
    if !about.is_file() || about.len() > LONGEST_POINTER as u64 {
        return None;
    }
    let text = files::read_text(path, LONGEST_POINTER as u64).ok()?;
    if text.lines().next()? != "version https://git-lfs.github.com/spec/v1" {
        return None;
    }
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let digest = value("oid sha256:")?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest.then_some(Pointer {
        digest: digest.to_owned(),
        size: value("size ")?.parse().ok()?,
    })
}

impl Pointer {
    fn fill(&self, kept: &Path, place: &Path) -> io::Result<()> {
        let digest = &self.digest;
        let (first, second) = (digest.get(..2), digest.get(2..4));
        let kept = kept
            .join(first.unwrap_or_default())
            .join(second.unwrap_or_default())
            .join(digest);
        let mut from = files::open(&kept)?;
        if from.metadata()?.len() != self.size {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mode = place.metadata()?.permissions();
        let dir = place.parent().unwrap_or(place);
        let mut copy = tempfile::NamedTempFile::new_in(dir)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from.read(&mut buffer)?;
            let Some(bytes) = buffer.get(..length).filter(|buffer| !buffer.is_empty()) else {
                break;
            };
            hasher.update(bytes);
            copy.write_all(bytes)?;
        }
        let hex: String = hasher
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if hex != *digest {
            return Err(io::ErrorKind::InvalidData.into());
        }
        copy.as_file().set_permissions(mode)?;
        copy.persist(place).map(drop).map_err(|error| error.error)
    }
}

fn unusable(path: &Path) -> impl FnOnce(io::Error) -> GitError {
    let path = path.to_owned();
    move |source| GitError::File { path, source }
}

fn refused(why: &str) -> GitError {
    GitError::Refused(why.to_owned())
}

fn scratch_below(scratch: &Path) -> Result<PathBuf> {
    let dir = tempfile::Builder::new().tempdir_in(scratch);
    let dir = dir.map_err(unusable(scratch))?;
    // It is removed together with the directory around it.
    Ok(dir.keep())
}

/// Returns the bytes that git prints.
fn bytes_of(mut git: Command) -> Result<Vec<u8>> {
    let output = git.output().map_err(GitError::Start)?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(refused(String::from_utf8_lossy(&output.stderr).trim_end()))
    }
}

/// Writes `input` to git, and returns its answer.
pub(super) fn answer_to(git: Command, input: Vec<u8>) -> Result<Vec<u8>> {
    answering(git, input, |answers| {
        let mut all = Vec::new();
        answers.read_to_end(&mut all)?;
        Ok(all)
    })
}

/// Runs git and calls `read` with its answer while `input` is still being written.
fn answering<T>(
    mut git: Command,
    input: Vec<u8>,
    read: impl FnOnce(&mut dyn BufRead) -> Result<T>,
) -> Result<T> {
    let broken = GitError::Start;
    let log = tempfile::tempfile().map_err(broken)?;
    let mut child = git
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log.try_clone().map_err(broken)?)
        .spawn()
        .map_err(broken)?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let answer = std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
        // The answer is read to its end or closed here, because git does not wait for a reader that has enough.
        stdout.map_or_else(
            || Err(refused("git has no output")),
            |stdout| read(&mut BufReader::new(stdout)),
        )
    });
    let status = child.wait().map_err(broken)?;
    match (answer, status.success()) {
        (Ok(answer), true) => Ok(answer),
        // Not all of the answer was wanted.
        (Ok(answer), false) if end_of(&log).is_empty() => Ok(answer),
        (Ok(_), false) => Err(GitError::Refused(end_of(&log))),
        (Err(error), _) => Err(error),
    }
}

fn end_of(mut log: &File) -> String {
    use std::io::Seek;
    let mut text = String::new();
    // If the log cannot be read, nothing more is known about the failure.
    let _ = log.rewind().and_then(|()| log.read_to_string(&mut text));
    text.trim_end().to_owned()
}

/// Reads the next answer of `git cat-file --batch`: `HASH TYPE SIZE`, and that many bytes, each with a line end.
/// Returns `None` for an object that is missing.
fn next_object(answers: &mut dyn BufRead) -> Result<Option<Vec<u8>>> {
    const CUT: &str = "git's answer is cut short";
    let cut = |_| refused(CUT);
    let mut head = String::new();
    answers.read_line(&mut head).map_err(cut)?;
    let Some(size) = head.trim_end().rsplit(' ').next() else {
        return Ok(None);
    };
    let Ok(size) = size.parse::<u64>() else {
        return if head.trim_end().ends_with(" missing") {
            Ok(None)
        } else {
            Err(refused(&format!(
                "git's answer is no object: {}",
                head.trim_end()
            )))
        };
    };
    let mut bytes = Vec::new();
    answers
        .take(size + 1)
        .read_to_end(&mut bytes)
        .map_err(cut)?;
    match bytes.pop() {
        Some(b'\n') if bytes.len() as u64 == size => Ok(Some(bytes)),
        _ => Err(refused(CUT)),
    }
}
