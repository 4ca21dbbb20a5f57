//! One GPU, many processes: times are taken by one gatekeeper at a time, checks by several.
//!
//! The lock is advisory and ends with the process that holds it.

use crate::error::{Diagnostic, Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the locks of all users stand: two users share a GPU, and neither a home nor a cache.
pub const SHARED: &str = "/tmp";

/// What the GPU is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Together with other checks.
    Check,
    /// Alone.
    Measure,
}

/// Released when dropped.
#[derive(Debug)]
pub struct GpuLock {
    _file: File,
}

impl GpuLock {
    /// Waits for the GPU of this UUID; `waiting` hears a sentence if it has to.
    ///
    /// # Errors
    /// Environment, where the file cannot be made or locked.
    pub fn acquire(
        dir: &Path,
        uuid: &str,
        wanted: Use,
        waiting: impl FnOnce(&str),
    ) -> Result<Self> {
        let path = dir.join(format!("gatekeeper-{uuid}.lock"));
        let failed = |error: io::Error| {
            Error::Environment(
                Diagnostic::new(format!(
                    "the lock of the GPU, {}, cannot be taken: {error}",
                    path.display()
                ))
                .help("it keeps two runs from timing on one GPU at once; its directory has to be writable"),
            )
        };
        let file = open(&path).map_err(failed)?;
        let tried = match wanted {
            Use::Check => file.try_lock_shared(),
            Use::Measure => file.try_lock(),
        };
        match tried {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {
                waiting(&format!(
                    "waiting for GPU {uuid}: another gatekeeper is using it"
                ));
                match wanted {
                    Use::Check => file.lock_shared(),
                    Use::Measure => file.lock(),
                }
                .map_err(failed)?;
            }
        }
        Ok(Self { _file: file })
    }
}

/// Opens before it creates: Linux refuses `O_CREAT` on another user's file in a sticky directory.
fn open(path: &PathBuf) -> io::Result<File> {
    match OpenOptions::new().read(true).open(path) {
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
            // Whatever the umask: others only have to open it for reading.
            file.set_permissions(std::fs::Permissions::from_mode(0o644))?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().read(true).open(path)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

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
        assert!(text.contains("waiting for GPU GPU-1"), "{text}");
        assert!(!waiter.is_finished());
        drop(measuring);
        waiter.join().unwrap();
    }

    #[test]
    fn a_lock_that_cannot_be_made_is_the_environment() {
        let missing = tempfile::tempdir().unwrap().path().join("gone");
        let error = GpuLock::acquire(&missing, "GPU-1", Use::Measure, quiet).unwrap_err();
        assert!(matches!(error, Error::Environment(_)));
    }
}
