//! Lists what the cache holds, and evicts entries when it has become too large, the least recently used first.

use super::Cache;
use crate::error::{Error, Result};
use crate::temporary::{PREFIX, TemporaryDir};
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// One thing that is removed as a whole. What remains is as if it had never been made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    pub part: &'static str,
    pub path: PathBuf,
    pub bytes: u64,
    /// The time at which it was last made or taken from the cache.
    pub used: SystemTime,
}

/// The directory of what programs built.
pub const PROGRAMS: &str = "programs";

/// The parts of the cache: a name for people, the directory, and how far below it the entries are.
const PARTS: [(&str, &str, u32); 11] = [
    ("compilers", "toolchains", 1),
    ("builds", "build/objects", 1),
    ("builds", "build/manifests", 1),
    ("builds", "build/code", 1),
    ("expected outputs", "references", 1),
    ("simulated results", "simulated", 1),
    ("inputs", "inputs", 1),
    ("reference programs", "reference-programs", 1),
    ("base revisions", "trees", 2),
    ("built-in kernels", "builtin", 1),
    ("built programs", PROGRAMS, 1),
];

/// The most that may remain in the cache, by size and by age.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub bytes: Option<u64>,
    pub age: Option<Duration>,
}

impl Limits {
    /// Returns the entries to evict, least recently used first.
    pub fn choose(self, mut entries: Vec<CacheEntry>, now: SystemTime) -> Vec<CacheEntry> {
        entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
        let mut bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let is_old = |entry: &CacheEntry| {
            let age = now.duration_since(entry.used).unwrap_or_default();
            self.age.is_some_and(|most| age > most)
        };
        entries
            .into_iter()
            .take_while(|entry| {
                let goes = is_old(entry) || self.bytes.is_some_and(|most| bytes > most);
                bytes = bytes.saturating_sub(entry.bytes);
                goes
            })
            .collect()
    }
}

impl Cache {
    /// Lists all entries.
    ///
    /// # Errors
    /// Fails with an environment error if a directory of the cache cannot be read.
    pub fn entries(&self) -> Result<Vec<CacheEntry>> {
        let mut found = Vec::new();
        for (part, dir, depth) in PARTS {
            let dir = self.root.join(dir);
            list(part, &dir, depth, &mut found).map_err(|error| {
                Error::environment(format!("{} cannot be read: {error}", dir.display()))
            })?;
        }
        Ok(found)
    }

    /// Removes what `limits` does not allow, and returns what that was.
    ///
    /// # Errors
    /// Fails with an environment error if another gatekeeper uses the cache, or if something cannot be removed.
    pub fn prune(&self, limits: Limits) -> Result<Vec<CacheEntry>> {
        self.hold_alone()?;
        let goes = limits.choose(self.entries()?, SystemTime::now());
        let failed = |path: &Path, error: io::Error| {
            Error::environment(format!("{} cannot be removed: {error}", path.display()))
        };
        // Entries are moved first. An interruption leaves each of them whole or gone, and what was moved is swept
        // later.
        let away = TemporaryDir::new_in(&self.root).map_err(|error| failed(&self.root, error))?;
        for (number, entry) in goes.iter().enumerate() {
            match std::fs::rename(&entry.path, away.path().join(number.to_string())) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(&entry.path, error));
                }
                _ => {}
            }
        }
        Ok(goes)
    }

    /// Takes the lock alone. Until it is dropped nobody else begins to use the cache.
    fn hold_alone(&self) -> Result<()> {
        let broken = |error: io::Error| {
            Error::environment(format!(
                "the cache {} cannot be locked: {error}",
                self.root.display()
            ))
        };
        let Some(lock) = &self.lock else {
            return Err(broken(io::ErrorKind::Unsupported.into()));
        };
        lock.unlock().map_err(broken)?;
        match lock.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(Error::environment(format!(
                "another gatekeeper is using the cache {}; prune it when that has ended",
                self.root.display()
            ))),
            Err(TryLockError::Error(error)) => Err(broken(error)),
        }
    }
}

fn list(part: &'static str, dir: &Path, depth: u32, found: &mut Vec<CacheEntry>) -> io::Result<()> {
    // A link leads to a place that is not ours.
    if dir.is_symlink() || !dir.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
        {
            continue;
        }
        // A run may replace the entry meanwhile.
        let Ok(about) = entry.metadata() else {
            continue;
        };
        if depth > 1 && about.is_dir() {
            list(part, &entry.path(), depth - 1, found)?;
            continue;
        }
        found.push(CacheEntry {
            part,
            bytes: size(&entry.path()).unwrap_or_default(),
            used: about.modified()?,
            path: entry.path(),
        });
    }
    Ok(())
}

fn size(path: &Path) -> io::Result<u64> {
    let about = path.symlink_metadata()?;
    if !about.is_dir() {
        return Ok(about.len());
    }
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        bytes += size(&entry?.path())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::write_atomically;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// Writes 1000 bytes that were last used this number of days ago.
    fn put(cache: &Cache, path: &str, days: u32) -> PathBuf {
        let path = cache.root().join(path);
        let dir = path.parent().unwrap();
        std::fs::create_dir_all(dir).unwrap();
        write_atomically(&path, &[7; 1000]).unwrap();
        let used = SystemTime::now() - days * DAY;
        let file = std::fs::File::open(&path).unwrap();
        file.set_modified(used).unwrap();
        // The directory of an entry of several files says how old it is.
        if dir.ends_with("whole") {
            std::fs::File::open(dir)
                .unwrap()
                .set_modified(used)
                .unwrap();
        }
        path
    }

    fn filled() -> (tempfile::TempDir, Cache) {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path()).unwrap();
        put(&cache, "references/a", 40);
        put(&cache, "build/objects/whole/object", 30);
        put(&cache, "trees/clone/0123", 20);
        put(&cache, "inputs/b", 10);
        put(&cache, "inputs/.gatekeeper-1-x", 50);
        put(&cache, "notes/of-someone-else", 90);
        (dir, cache)
    }

    fn names(entries: &[CacheEntry]) -> Vec<String> {
        let name = |entry: &CacheEntry| {
            entry
                .path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .into_owned()
        };
        entries.iter().map(name).collect()
    }

    #[test]
    fn evicts_the_least_recently_used_first() {
        let (_dir, cache) = filled();
        let chosen = |bytes: Option<u64>, days: Option<u32>| {
            let age = days.map(|days| days * DAY);
            let limits = Limits { bytes, age };
            names(&limits.choose(cache.entries().unwrap(), SystemTime::now()))
        };
        assert_eq!(chosen(None, None), [""; 0]);
        assert_eq!(chosen(Some(4000), None), [""; 0]);
        assert_eq!(chosen(Some(3999), None), ["a"]);
        assert_eq!(chosen(None, Some(25)), ["a", "whole"]);
        assert_eq!(chosen(Some(1000), Some(35)), ["a", "whole", "0123"]);
        assert_eq!(chosen(Some(0), None), ["a", "whole", "0123", "b"]);
    }

    #[test]
    fn prunes_unused_entries_and_keeps_used_ones() {
        let (dir, cache) = filled();
        let of_run = Cache::at(dir.path()).unwrap();
        let limits = Limits {
            bytes: Some(2000),
            age: None,
        };
        let error = cache.prune(limits).unwrap_err().to_string();
        assert!(
            error.contains("another gatekeeper is using the cache"),
            "{error}"
        );
        assert_eq!(cache.entries().unwrap().len(), 4);
        drop(of_run);

        // It was taken from the cache, so it is the last to go.
        let references = cache.layered("references").unwrap();
        references.touch(&references.own().join("a"));
        assert_eq!(names(&cache.prune(limits).unwrap()), ["whole", "0123"]);
        assert_eq!(names(&cache.entries().unwrap()), ["a", "b"]);
        let others = dir.path().join("notes/of-someone-else");
        assert!(others.exists() && dir.path().join("inputs/.gatekeeper-1-x").exists());
        assert!(!dir.path().join("build/objects/whole").exists());
    }

    #[test]
    fn a_part_that_is_a_link_belongs_to_another() {
        let (dir, cache) = filled();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("nvcc"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("toolchains")).unwrap();
        let limits = Limits {
            bytes: Some(0),
            age: None,
        };
        cache.prune(limits).unwrap();
        assert!(elsewhere.path().join("nvcc").exists());
    }
}
