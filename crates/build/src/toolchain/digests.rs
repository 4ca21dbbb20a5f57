//! Keeps digests of programs in the cache, so that a warm run need not read the compiler, which has 150 MB, nor its own
//! executable.

use super::install::DIR;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use system::cache::{Cache, write_atomically};
use system::error::{Error, Result};
use system::files;

/// Digests of files by path, size, change time and inode.
#[derive(Default, Serialize, Deserialize)]
pub struct ProgramDigests {
    files: BTreeMap<PathBuf, FileDigest>,
    #[serde(skip)]
    changed: bool,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileDigest {
    size: u64,
    modified: (i64, i64),
    /// The time of the last change of the file's metadata. Nobody who replaces a file and restores its modification
    /// time can set it back.
    changed: (i64, i64),
    inode: u64,
    digest: String,
}

impl ProgramDigests {
    const FILE: &str = "digests.json";

    /// Loads the digests.
    ///
    /// # Errors
    /// Environment, if the cache cannot be written.
    pub fn load(cache: &Cache) -> Result<Self> {
        // A file of digests that is missing or damaged costs one reading of the programs, nothing else.
        let read = |file: PathBuf| -> Option<Self> {
            serde_json::from_slice(&files::read(&file, files::WRITTEN).ok()?).ok()
        };
        let mut known = cache.layered(DIR)?.places(Self::FILE).filter_map(read);
        let mut digests: Self = known.next().unwrap_or_default();
        for own in known {
            for (file, digest) in own.files {
                digests.files.entry(file).or_insert(digest);
            }
        }
        Ok(digests)
    }

    /// Returns the digest of a file.
    ///
    /// # Errors
    /// Environment, if the file cannot be read.
    pub fn digest(&mut self, file: &Path) -> Result<String> {
        let unreadable = |error: std::io::Error| {
            Error::environment(format!("{} cannot be read: {error}", file.display()))
                .caused_by(error)
        };
        let meta = file.metadata().map_err(unreadable)?;
        let now = FileDigest {
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
            digest: String::new(),
        };
        if let Some(known) = self.files.get(file)
            && (FileDigest {
                digest: String::new(),
                ..known.clone()
            }) == now
        {
            return Ok(known.digest.clone());
        }
        let mut hasher = blake3::Hasher::new();
        files::open(file)
            .and_then(|open| hasher.update_reader(open).map(drop))
            .map_err(unreadable)?;
        let digest = hasher.finalize().to_hex().to_string();
        self.files.insert(
            file.to_owned(),
            FileDigest {
                digest: digest.clone(),
                ..now
            },
        );
        self.changed = true;
        Ok(digest)
    }

    /// Saves the digests.
    ///
    /// # Errors
    /// Environment, if the cache cannot be written.
    pub fn save(&self, cache: &Cache) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let dir = cache.dir(DIR)?;
        write_atomically(
            &dir.join(Self::FILE),
            &serde_json::to_vec(self).map_err(|error| {
                Error::environment(format!("digests of programs: {error}")).caused_by(error)
            })?,
        )
    }
}
