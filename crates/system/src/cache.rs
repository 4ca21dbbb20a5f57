//! The cache: the one directory that gatekeeper writes to outside the repository.
//!
//! A second, shared cache can be read in addition. What a pull request leaves in its own directory never reaches the
//! shared one.

pub mod evict;
pub mod sealed;

use crate::error::{Error, Result};
use crate::files;
use crate::temporary::{TemporaryFile, sweep};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tracing::debug;

#[derive(Clone, Debug)]
pub struct Cache {
    root: PathBuf,
    /// A cache shared with others, which is read and never written.
    shared: Option<PathBuf>,
    /// Locks that are held on both caches while they are used, so that nothing is removed meanwhile. `None` if the file
    /// system has no locks.
    lock: Option<Arc<File>>,
    _shared_lock: Option<Arc<File>>,
}

/// A directory of the cache, and the one of the same name in the shared cache.
#[derive(Clone, Debug)]
pub struct CacheDir {
    own: PathBuf,
    shared: Option<PathBuf>,
}

impl CacheDir {
    /// Returns the directory that this run writes to.
    pub fn own(&self) -> &Path {
        &self.own
    }

    /// Returns where a file of this name may be: first in the shared cache, so that nothing in the own cache can
    /// replace it. The file may be damaged in one and whole in the other.
    pub fn places(&self, name: &str) -> impl Iterator<Item = PathBuf> + use<> {
        let shared = self.shared.as_ref().map(|dir| dir.join(name));
        shared.into_iter().chain([self.own.join(name)])
    }
}

impl CacheDir {
    /// Marks a file as used, so that it is among the last to go. A file in the shared cache stays as it is.
    pub fn touch(&self, place: &Path) {
        if place.starts_with(&self.own) {
            // If the file is gone, there is nothing to mark.
            let _ = File::open(place).and_then(|file| file.set_modified(SystemTime::now()));
        }
    }
}

impl From<PathBuf> for CacheDir {
    fn from(own: PathBuf) -> Self {
        Self { own, shared: None }
    }
}

const SHARED: &str = "GATEKEEPER_SHARED_CACHE";

impl Cache {
    /// Opens `$GATEKEEPER_CACHE`, or else `$XDG_CACHE_HOME/gatekeeper`, or else `~/.cache/gatekeeper`. The directory is
    /// created and tried for writing, because a read-only home is better reported now than by nvcc later.
    /// `$GATEKEEPER_SHARED_CACHE` is read in addition, if it is set.
    pub fn open() -> Result<Self> {
        let from = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = from("GATEKEEPER_CACHE")
            .or_else(|| from("XDG_CACHE_HOME").map(|dir| dir.join("gatekeeper")))
            .or_else(|| from("HOME").map(|dir| dir.join(".cache/gatekeeper")))
            .ok_or_else(|| {
                Error::environment("no directory for the cache: HOME is not set")
                    .help("set GATEKEEPER_CACHE to a directory that can be written")
            })?;
        let cache = Self::at(&root)?;
        let cache = match from(SHARED) {
            Some(shared) => cache.with_shared(&shared)?,
            None => cache,
        };
        debug!(own = ?cache.root, shared = ?cache.shared, "cache opened");
        Ok(cache)
    }

    /// Opens the cache in a directory.
    ///
    /// # Errors
    /// Fails with an environment error if the directory cannot be created or written to.
    pub fn at(root: &Path) -> Result<Self> {
        let writable = std::fs::create_dir_all(root)
            .and_then(|()| tempfile::tempfile_in(root).map(drop))
            .and_then(|()| root.canonicalize());
        let root = writable.map_err(|error| {
            Error::environment(format!(
                "the cache directory {} cannot be written: {error}",
                root.display()
            ))
            .help("set GATEKEEPER_CACHE to a directory that can be written")
        })?;
        check_path(&root, "GATEKEEPER_CACHE")?;
        sweep(&root);
        Ok(Self {
            lock: hold(&root, true),
            _shared_lock: None,
            root,
            shared: None,
        })
    }

    /// Adds another cache to read from. One that does not exist yet counts as empty.
    ///
    /// # Errors
    /// Fails with an environment error if its path cannot be used.
    pub fn with_shared(self, shared: &Path) -> Result<Self> {
        let Ok(shared) = shared.canonicalize() else {
            return Ok(self);
        };
        check_path(&shared, SHARED)?;
        let shared = (shared != self.root).then_some(shared);
        Ok(Self {
            _shared_lock: shared.as_deref().and_then(|shared| hold(shared, false)),
            shared,
            ..self
        })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn shared(&self) -> Option<&Path> {
        self.shared.as_deref()
    }

    /// Returns a directory as [`Self::dir`] does, which is also read in the shared cache.
    ///
    /// # Errors
    /// Fails with an environment error if the own directory cannot be created.
    pub fn layered(&self, name: &str) -> Result<CacheDir> {
        Ok(CacheDir {
            own: self.dir(name)?,
            shared: self.shared.as_ref().map(|shared| shared.join(name)),
        })
    }

    /// Returns a subdirectory. It is created if necessary, and what killed processes left in it is removed.
    pub fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.join(name);
        sweep(&dir);
        std::fs::create_dir_all(&dir)
            .map(|()| dir.clone())
            .map_err(|error| {
                Error::environment(format!("{} cannot be made: {error}", dir.display()))
            })
    }
}

/// Takes the lock that all users of a cache share. It waits for a process that removes something.
fn hold(root: &Path, make: bool) -> Option<Arc<File>> {
    let path = root.join("use.lock");
    if make {
        let _ = File::options().create_new(true).write(true).open(&path);
    }
    let lock = files::open(&path).ok()?;
    lock.lock_shared().ok()?;
    Some(Arc::new(lock))
}

/// Refuses paths that nvcc could not pass on. nvcc passes its paths to a shell in double quotes, and puts its own
/// directory into PATH.
fn check_path(root: &Path, variable: &str) -> Result<()> {
    let is_read = |c: &char| matches!(c, '"' | '$' | '`' | ':') || c.is_control();
    match root.to_string_lossy().chars().find(is_read) {
        None => Ok(()),
        Some(c) => Err(Error::environment(format!(
            "the path of the cache directory {} has a {c:?}, which nvcc's shell would read",
            root.display()
        ))
        .help(format!(
            "set {variable} to a directory without one in its path"
        ))),
    }
}

/// Writes a file that every reader sees whole or not at all, even one that reads at the same time. It is not flushed to
/// the disk: after a power failure a reader has to recognise a damaged file, as every user of the cache does.
///
/// # Errors
/// Fails with an environment error if the directory of `file` cannot be written.
pub fn write_atomically(file: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    let written = || {
        let dir = file.parent().unwrap_or(Path::new("."));
        let mut new = TemporaryFile::new_in(dir)?;
        new.write_all(bytes)?;
        new.persist(file)
    };
    written().map_err(|error| Error::unwritten(file.display(), error))
}
