//! The reasons for which a capture cannot be read.

use std::error::Error;
use std::path::{Path, PathBuf};

/// The reason for which a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        path: PathBuf,
        source: Box<dyn Error + Send + Sync>,
    },
    /// The bytes of a chunk do not have the hash in its name.
    #[error("{} is damaged: its content does not have the hash that is its name", .path.display())]
    NotItsHash { path: PathBuf },
    #[error("the capture is damaged: {found} bytes are stored where {wanted} should be")]
    WrongSize { wanted: u64, found: u64 },
}

impl Damage {
    /// Returns the damage of a file or directory, with the error of the library that reads it or with a sentence.
    pub(crate) fn unreadable(path: &Path, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unreadable {
            path: path.to_owned(),
            source: source.into(),
        }
    }
}
