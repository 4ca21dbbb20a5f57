//! Shares one GPU among many processes: one gatekeeper at a time measures, and several may check at once.
//!
//! The lock is a file that is locked exclusively to measure, and shared to check. It is advisory, and ends with the
//! process that holds it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use system::error::{Error, Result};
use system::files;
use tracing::debug;

/// The directory of the locks of all users. Two users share a GPU, but neither a home nor a cache.
pub const SHARED: &str = "/tmp";

/// The time after which a wait is announced.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// The most characters of a command that are shown.
const COMMAND: usize = 120;

/// The purpose for which the GPU is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The GPU is shared with other checks.
    Check,
    /// The GPU is used by one process alone.
    Measure,
}

/// A lock of a GPU, which is released when dropped.
#[derive(Debug)]
pub struct GpuLock {
    _file: File,
}

impl GpuLock {
    /// Waits for the GPU of this UUID; `waiting` gets a message where that takes longer than [`PATIENCE`].
    ///
    /// # Errors
    /// Environment, if the file cannot be made or locked.
    pub fn acquire(
        dir: &Path,
        uuid: &str,
        wanted: Use,
        waiting: impl FnOnce(&str),
    ) -> Result<Self> {
        let path = path_of(dir, uuid);
        let failed = |error: io::Error| {
            Error::environment(format!(
                "the lock file of the GPU, {}, cannot be locked: {error}",
                path.display()
            ))
            .caused_by(error)
            .help(
                "it keeps two runs from timing on one GPU at once; its directory must be writable",
            )
        };
        let asked = Instant::now();
        debug!(uuid, ?wanted, "GPU is asked for");
        let file = open(&path).map_err(failed)?;
        match tried_for(&file, wanted, PATIENCE) {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                waiting(&format!(
                    "waiting for GPU {uuid}: {} is using it",
                    names_of_holders(&file)
                ));
                match wanted {
                    Use::Check => file.lock_shared(),
                    Use::Measure => file.lock(),
                }
                .map_err(failed)?;
            }
        }
        debug!(uuid, ?wanted, waited = ?asked.elapsed(), "GPU is held");
        Ok(Self { _file: file })
    }
}

/// The state of a GPU's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockState {
    /// Nobody measures. Others may be checking.
    Free,
    /// Another process holds the lock alone. The text describes the holder.
    Held(String),
    /// The lock cannot be made, opened or locked.
    Unusable(String),
}

/// Returns the state in which [`GpuLock::acquire`] would find the lock for a check.
pub fn look(dir: &Path, uuid: &str) -> (PathBuf, LockState) {
    let path = path_of(dir, uuid);
    let standing = match open(&path) {
        Err(error) => LockState::Unusable(error.to_string()),
        Ok(file) => match tried_for(&file, Use::Check, PATIENCE) {
            Ok(()) => LockState::Free,
            Err(TryLockError::Error(error)) => LockState::Unusable(error.to_string()),
            Err(TryLockError::WouldBlock) => LockState::Held(names_of_holders(&file)),
        },
    };
    (path, standing)
}

fn path_of(dir: &Path, uuid: &str) -> PathBuf {
    dir.join(format!("gatekeeper-{uuid}.lock"))
}

fn names_of_holders(file: &File) -> String {
    let holders = files::read_text(Path::new("/proc/locks"), files::WRITTEN)
        .map(|locks| holders(&locks, file))
        .unwrap_or_default();
    let names: Vec<_> = holders.iter().map(|pid| described(pid)).collect();
    match names.as_slice() {
        [] => "another gatekeeper".to_owned(),
        names => names.join(" and "),
    }
}

/// Tries for this long, again and again: most processes hold a GPU only for a moment.
fn tried_for(
    file: &File,
    wanted: Use,
    patience: Duration,
) -> std::result::Result<(), TryLockError> {
    let until = Instant::now() + patience;
    loop {
        let tried = match wanted {
            Use::Check => file.try_lock_shared(),
            Use::Measure => file.try_lock(),
        };
        match tried {
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            tried => return tried,
        }
    }
}

/// Returns a text such as `pid 4711 (gatekeeper run --base main)`, or only the number if the process does not show its
/// command.
fn described(pid: &str) -> String {
    let command =
        files::read(Path::new(&format!("/proc/{pid}/cmdline")), files::WRITTEN).unwrap_or_default();
    let words: Vec<_> = command
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let command: String = words.join(" ").chars().take(COMMAND).collect();
    match command.trim() {
        "" => format!("pid {pid}"),
        command => format!("pid {pid} ({command})"),
    }
}

/// Returns the process ids of everyone who holds the file, by the kernel's list of locks. So nothing has to be written
/// into a file that belongs to another user, and nothing in it can be stale. The list is empty if the holder's process
/// is not visible from here (another container).
fn holders(locks: &str, file: &File) -> Vec<String> {
    let Ok(about) = file.metadata() else {
        return Vec::new();
    };
    // `7: FLOCK  ADVISORY  WRITE 4711 08:01:2622 0 EOF`; those that wait have `->` after the number.
    let device = about.dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let place = format!("{major:02x}:{minor:02x}:{}", about.ino());
    let holder = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, _, pid, at, ..] if *at == place && *pid != "0" => {
                Some((*pid).to_owned())
            }
            _ => None,
        }
    };
    locks.lines().filter_map(holder).collect()
}

/// Opens before it creates: Linux refuses `O_CREAT` on another user's file in a sticky directory.
fn open(path: &PathBuf) -> io::Result<File> {
    match files::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path);
    match made {
        Ok(file) => {
            // The umask does not matter: others only have to open the file for reading.
            file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => files::open(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn quiet(_: &str) {
        panic!("nothing to wait for");
    }

    #[test]
    fn checks_share_and_measuring_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let first = GpuLock::acquire(dir.path(), "GPU-1", Use::Check, quiet).unwrap();
        let second = GpuLock::acquire(dir.path(), "GPU-1", Use::Check, quiet).unwrap();
        let other = GpuLock::acquire(dir.path(), "GPU-2", Use::Measure, quiet).unwrap();
        drop((first, second, other));

        let measuring = GpuLock::acquire(dir.path(), "GPU-1", Use::Measure, quiet).unwrap();
        let (said, says) = mpsc::channel();
        let path = dir.path().to_owned();
        let waiter = std::thread::spawn(move || {
            GpuLock::acquire(&path, "GPU-1", Use::Measure, |text| {
                said.send(text.to_owned()).unwrap();
            })
            .unwrap();
        });
        let text = says.recv_timeout(Duration::from_secs(30)).unwrap();
        let pid = std::process::id();
        // On some layered file systems, /proc/locks names another device than the file has.
        let unknown = "waiting for GPU GPU-1: another gatekeeper is using it";
        let known = format!(
            "waiting for GPU GPU-1: {} is using it",
            described(&pid.to_string())
        );
        assert!([unknown, &known].contains(&text.as_str()), "{text}");
        assert!(known.contains(&format!("pid {pid} (/")), "{known}");
        assert!(!waiter.is_finished());
        drop(measuring);
        waiter.join().unwrap();
    }

    #[test]
    fn a_moment_is_waited_for_without_a_word() {
        let dir = tempfile::tempdir().unwrap();
        let first = GpuLock::acquire(dir.path(), "GPU-1", Use::Measure, quiet).unwrap();
        let path = dir.path().to_owned();
        let waiter = std::thread::spawn(move || {
            GpuLock::acquire(&path, "GPU-1", Use::Check, quiet).unwrap();
        });
        std::thread::sleep(Duration::from_millis(100));
        drop(first);
        waiter.join().unwrap();
        assert_eq!(described("0"), "pid 0");
    }

    #[test]
    fn the_kernel_says_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gatekeeper-GPU-1.lock");
        let file = open(&path).unwrap();
        let about = file.metadata().unwrap();
        let device = about.dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        let place = format!("{major:02x}:{minor:02x}:{}", about.ino());
        let locks = format!(
            "1: FLOCK  ADVISORY  READ 4711 {place} 0 EOF\n\
             2: FLOCK  ADVISORY  READ 4712 {place} 0 EOF\n\
             2: -> FLOCK  ADVISORY  WRITE 4713 {place} 0 EOF\n\
             3: POSIX  ADVISORY  WRITE 4714 {place} 0 EOF\n\
             4: FLOCK  ADVISORY  WRITE 4715 {place}1 0 EOF\n\
             5: FLOCK  ADVISORY  READ 0 {place} 0 EOF\n\
             6: nonsense\n"
        );
        assert_eq!(holders(&locks, &file), ["4711", "4712"]);
        assert_eq!(holders("", &file), [""; 0]);
    }

    #[test]
    fn a_look_leaves_the_lock_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let standing = || look(dir.path(), "GPU-1").1;
        assert_eq!(standing(), LockState::Free);
        let checking = GpuLock::acquire(dir.path(), "GPU-1", Use::Check, quiet).unwrap();
        assert_eq!(standing(), LockState::Free);
        drop(checking);
        let measuring = GpuLock::acquire(dir.path(), "GPU-1", Use::Measure, quiet).unwrap();
        assert!(matches!(standing(), LockState::Held(_)));
        drop(measuring);
        let (path, _) = look(dir.path(), "GPU-1");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(standing(), LockState::Unusable(_)));
    }

    #[test]
    fn a_lock_that_cannot_be_made_is_the_environment() {
        let missing = tempfile::tempdir().unwrap().path().join("gone");
        let error = GpuLock::acquire(&missing, "GPU-1", Use::Measure, quiet).unwrap_err();
        assert!(matches!(error, Error::Environment(_)));
    }
}
