//! Temporary files and directories, which are gone when this process is, however it ends.
//!
//! They are removed when they are dropped, and at a signal ([`Unfinished`]). A process that is killed outright leaves
//! them. Their names contain its process id, so that [`sweep`] can remove those without an owner.

use crate::process::children::Unfinished;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::{Builder, NamedTempFile, TempDir};

/// The text that begins all of their names.
pub const PREFIX: &str = ".gatekeeper-";

/// The age up to which leftovers stay. Process ids are used again, and other machines may share the directory.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

fn prefix() -> String {
    format!("{PREFIX}{}-", std::process::id())
}

pub struct TemporaryDir {
    // The order of the fields matters: what a signal would remove is removed first.
    dir: TempDir,
    _unfinished: Unfinished,
}

impl TemporaryDir {
    /// Creates a directory in `dir`.
    ///
    /// # Errors
    /// Fails if `dir` cannot be written.
    pub fn new_in(dir: &Path) -> io::Result<Self> {
        let dir = Builder::new().prefix(&prefix()).tempdir_in(dir)?;
        Ok(Self {
            _unfinished: Unfinished::new(dir.path()),
            dir,
        })
    }

    /// Creates a directory with exactly this name. A process that is killed leaves it.
    ///
    /// # Errors
    /// Fails if it exists already, or if `dir` cannot be written.
    pub fn named(dir: &Path, name: &str) -> io::Result<Self> {
        let dir = Builder::new().prefix(name).rand_bytes(0).tempdir_in(dir)?;
        Ok(Self {
            _unfinished: Unfinished::new(dir.path()),
            dir,
        })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// A file that gets its place, whole, when it is kept.
pub struct TemporaryFile {
    file: NamedTempFile,
    _unfinished: Unfinished,
}

impl TemporaryFile {
    /// Creates a file with the rights of any new file: all except those that the umask takes.
    ///
    /// # Errors
    /// Fails if `dir` cannot be written.
    pub fn new_in(dir: &Path) -> io::Result<Self> {
        let file = Builder::new()
            .prefix(&prefix())
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir)?;
        Ok(Self {
            _unfinished: Unfinished::new(file.path()),
            file,
        })
    }

    pub fn as_file(&self) -> &File {
        self.file.as_file()
    }

    /// Moves the file to its place.
    ///
    /// # Errors
    /// Fails if it cannot be moved there.
    pub fn persist(self, path: &Path) -> io::Result<()> {
        self.file
            .persist(path)
            .map(drop)
            .map_err(|error| error.error)
    }
}

impl io::Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Removes the leftovers of killed processes that are older than a day. Anything that cannot be read or removed stays.
pub fn sweep(dir: &Path) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(owner) = name.to_str().and_then(owner) else {
            continue;
        };
        let old = entry
            .metadata()
            .and_then(|data| data.modified())
            .is_ok_and(|then| then.elapsed().is_ok_and(|age| age > KEPT));
        if old && !is_alive(owner) {
            let path = entry.path();
            let _ = if path.is_dir() && !path.is_symlink() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
        }
    }
}

fn owner(name: &str) -> Option<i32> {
    let (number, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    number.parse().ok().filter(|number| *number > 0)
}

/// Returns true if a process exists. For a process of another user, nothing more can be told.
fn is_alive(process: i32) -> bool {
    kill(Pid::from_raw(process), None) != Err(nix::errno::Errno::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::SystemTime;

    #[test]
    fn sweeps_only_old_directories_of_ended_processes() {
        let dir = tempfile::tempdir().unwrap();
        // This process has ended, and was waited for.
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let gone = ended.id();
        ended.wait().unwrap();
        let me = std::process::id();
        let long_ago = SystemTime::now() - 2 * KEPT;
        let make = |name: &str, then: SystemTime| {
            let path = dir.path().join(name);
            let file = File::create(path).unwrap();
            file.set_modified(then).unwrap();
        };
        make(&format!(".gatekeeper-{gone}-a"), long_ago);
        make(&format!(".gatekeeper-{gone}-b"), SystemTime::now());
        make(&format!(".gatekeeper-{me}-c"), long_ago);
        make("record.json", long_ago);
        make(".gatekeeper-x", long_ago);
        let tree = dir.path().join(format!(".gatekeeper-{gone}-tree"));
        std::fs::create_dir(&tree).unwrap();
        std::fs::write(tree.join("file"), "").unwrap();
        File::open(&tree).unwrap().set_modified(long_ago).unwrap();
        sweep(dir.path());
        let mut left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        let mut expected = vec![
            format!(".gatekeeper-{gone}-b"),
            format!(".gatekeeper-{me}-c"),
            ".gatekeeper-x".to_owned(),
            "record.json".to_owned(),
        ];
        expected.sort();
        assert_eq!(left, expected);
    }

    #[test]
    fn dropped_is_removed_and_kept_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(dir.path()).unwrap().count();
        let temporary = TemporaryDir::new_in(dir.path()).unwrap();
        std::fs::write(temporary.path().join("x"), "x").unwrap();
        let mut file = TemporaryFile::new_in(dir.path()).unwrap();
        file.write_all(b"whole").unwrap();
        assert_eq!(count(), 2);
        drop(temporary);
        file.persist(&dir.path().join("kept")).unwrap();
        assert_eq!(count(), 1);
        assert_eq!(std::fs::read(dir.path().join("kept")).unwrap(), b"whole");
    }
}
