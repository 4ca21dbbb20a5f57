//! Keeps files as they were when first looked at. Contents and names below one root are each read only once.

use crate::apart::{FileRead, was_touched_since};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use system::files;

/// Files that were looked at. Paths are relative to the root, or absolute.
pub struct Files {
    root: PathBuf,
    digests: Mutex<BTreeMap<String, Option<String>>>,
    names: Mutex<BTreeMap<String, Option<Arc<BTreeSet<String>>>>>,
    reads: Mutex<BTreeMap<(String, Option<String>), FileRead>>,
}

impl Files {
    /// Makes a view of the files below a root. Nothing is read yet.
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            digests: Mutex::default(),
            names: Mutex::default(),
            reads: Mutex::default(),
        }
    }

    /// Returns the digest of a file, or `None` if it does not exist or cannot be read.
    pub fn digest(&self, file: &str) -> Option<String> {
        if let Some(known) = lock(&self.digests).get(file) {
            return known.clone();
        }
        let digest = files::read(&self.root.join(file), files::SOURCE)
            .ok()
            .map(|bytes| blake3::hash(&bytes).to_hex().to_string());
        lock(&self.digests).insert(file.to_owned(), digest.clone());
        digest
    }

    /// Returns the text of a file, or `None` if it does not exist or cannot be read. Bytes that are no UTF-8 are
    /// replaced.
    pub fn read(&self, file: &str) -> Option<String> {
        files::read(&self.root.join(file), files::SOURCE)
            .ok()
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns true if something has this name. A link counts as what it leads to.
    pub fn exists(&self, file: &str) -> bool {
        self.root.join(file).exists()
    }

    /// Returns all names in a directory, or `None` if there is no such directory.
    pub fn names(&self, dir: &str) -> Option<Arc<BTreeSet<String>>> {
        if let Some(known) = lock(&self.names).get(dir) {
            return known.clone();
        }
        let names = std::fs::read_dir(self.root.join(dir)).ok().map(|entries| {
            Arc::new(
                entries
                    .filter_map(std::io::Result::ok)
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect(),
            )
        });
        lock(&self.names).insert(dir.to_owned(), names.clone());
        names
    }

    /// Returns true if a file has been written or replaced since then, or can no longer be read.
    pub fn touched_since(&self, file: &str, then: SystemTime) -> bool {
        was_touched_since(&self.root.join(file), then)
    }

    /// Returns a file that was read, with the digest of its content at that time.
    pub fn file_read(&self, file: &str, digest: Option<String>) -> FileRead {
        let key = (file.to_owned(), digest);
        if let Some(known) = lock(&self.reads).get(&key) {
            return known.clone();
        }
        let read = FileRead::new(&self.root, file, key.1.clone());
        lock(&self.reads).insert(key, read.clone());
        read
    }
}

/// Locks a mutex even after a panic elsewhere, because the maps never hold a half-made state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `/a/include` for `/a/bin/..//include`, without asking the file system.
pub(super) fn lexical(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if result.file_name().is_some() => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}
