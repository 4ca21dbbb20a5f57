//! Stores memory and modules by hash, in chunks, so that memory that did not change is stored only once.

use crate::Damage;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The size of a chunk in bytes, which is a page of device memory. The last chunk of a content may be smaller.
pub const CHUNK: usize = 2 << 20;

/// A text that is not the hash of a chunk.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no hash of 64 hexadecimal digits")]
pub struct BadHash(String);

/// The BLAKE3 hash of a chunk before it is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hash(blake3::Hash);

impl TryFrom<String> for Hash {
    type Error = BadHash;

    fn try_from(text: String) -> Result<Self, BadHash> {
        blake3::Hash::from_hex(&text)
            .map(Self)
            .map_err(|_| BadHash(text))
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.0.to_hex().to_string()
    }
}

/// Bytes that are stored in chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    pub bytes: u64,
    pub chunks: Vec<Hash>,
}

/// The directory that holds the chunks.
pub struct Contents {
    dir: PathBuf,
    /// Chunks that this process has stored or found.
    stored: BTreeSet<[u8; 32]>,
    /// Bytes of the files that this process wrote.
    pub written: u64,
}

impl Contents {
    pub fn new(capture: &Path) -> Self {
        Self {
            dir: capture.join("contents"),
            stored: BTreeSet::new(),
            written: 0,
        }
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// Returns errors of writing, such as a full disk.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<Content> {
        fs::create_dir_all(&self.dir)?;
        let chunks = bytes.chunks(CHUNK).map(|chunk| self.put_chunk(chunk));
        Ok(Content {
            bytes: bytes.len() as u64,
            chunks: chunks.collect::<io::Result<_>>()?,
        })
    }

    fn put_chunk(&mut self, chunk: &[u8]) -> io::Result<Hash> {
        let hash = Hash(blake3::hash(chunk));
        if !self.stored.insert(*hash.0.as_bytes()) {
            return Ok(hash);
        }
        let path = self.path(hash);
        if path.exists() {
            return Ok(hash);
        }
        let packed = compress_to_vec(chunk, CompressionLevel::Fastest);
        // Another process may store the same chunk at this moment. Each writes a file of its own, and the last one
        // stays.
        let unfinished = path.with_extension(format!("{}.part", std::process::id()));
        fs::write(&unfinished, &packed)?;
        fs::rename(&unfinished, &path)?;
        self.written += packed.len() as u64;
        Ok(hash)
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// Returns an error for a chunk that is missing, cannot be read, or does not have the hash in its name.
    pub fn get(&self, content: &Content) -> Result<Vec<u8>, Damage> {
        let mut bytes = Vec::new();
        for hash in &content.chunks {
            self.get_chunk(*hash, &mut bytes)?;
        }
        if bytes.len() as u64 != content.bytes {
            return Err(Damage::WrongSize {
                wanted: content.bytes,
                found: bytes.len() as u64,
            });
        }
        Ok(bytes)
    }

    fn get_chunk(&self, hash: Hash, bytes: &mut Vec<u8>) -> Result<(), Damage> {
        let path = self.path(hash);
        // Opening a FIFO with this name would wait for ever.
        if path.exists() && !path.is_file() {
            return Err(Damage::unreadable(&path, "it is no file"));
        }
        let file = File::open(&path).map_err(|error| Damage::unreadable(&path, error))?;
        // A few bytes can unpack to many, so the size of a chunk is limited.
        let decoder =
            StreamingDecoder::new(file).map_err(|error| Damage::unreadable(&path, error))?;
        let before = bytes.len();
        decoder
            .take(CHUNK as u64 + 1)
            .read_to_end(bytes)
            .map_err(|error| Damage::unreadable(&path, error))?;
        let chunk = bytes.get(before..).unwrap_or_default();
        if chunk.len() > CHUNK || blake3::hash(chunk) != hash.0 {
            return Err(Damage::NotItsHash { path });
        }
        Ok(())
    }

    fn path(&self, hash: Hash) -> PathBuf {
        self.dir.join(format!("{}.zst", hash.0.to_hex()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn capture() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_chunk_is_stored_once() {
        let dir = capture();
        let mut contents = Contents::new(dir.path());
        let zeros = contents.put(&vec![0; 3 * CHUNK]).unwrap();
        assert_eq!(zeros.chunks.len(), 3);
        let files = fs::read_dir(dir.path().join("contents")).unwrap().count();
        assert_eq!(files, 1);
        assert_eq!(contents.get(&zeros).unwrap(), vec![0; 3 * CHUNK]);
    }

    #[test]
    fn a_damaged_or_missing_chunk_is_an_error() {
        let dir = capture();
        let mut contents = Contents::new(dir.path());
        let [mut one, two] = [contents.put(b"one").unwrap(), contents.put(b"two").unwrap()];
        let path = |content: &Content| contents.path(content.chunks[0]);
        fs::copy(path(&two), path(&one)).unwrap();
        assert!(matches!(contents.get(&one), Err(Damage::NotItsHash { .. })));
        fs::write(path(&one), b"no zstd").unwrap();
        assert!(matches!(contents.get(&one), Err(Damage::Unreadable { .. })));
        fs::remove_file(path(&one)).unwrap();
        assert!(matches!(contents.get(&one), Err(Damage::Unreadable { .. })));
        fs::create_dir(path(&one)).unwrap();
        assert!(matches!(contents.get(&one), Err(Damage::Unreadable { .. })));
        one = two;
        one.bytes = 4;
        assert!(matches!(
            contents.get(&one),
            Err(Damage::WrongSize {
                wanted: 4,
                found: 3
            })
        ));
    }

    proptest! {
        #[test]
        fn bytes_come_back_as_they_were(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            let dir = capture();
            let mut contents = Contents::new(dir.path());
            let content = contents.put(&bytes).unwrap();
            prop_assert_eq!(contents.get(&content).unwrap(), bytes);
        }
    }
}
