//! The reasons for which a capture cannot be read.

use std::fmt;
use std::path::PathBuf;

/// The reasons for which a capture cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    Unreadable {
        path: PathBuf,
        why: String,
    },
    /// The bytes of a chunk do not have the hash in its name.
    NotItsHash {
        path: PathBuf,
    },
    WrongSize {
        wanted: u64,
        found: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => {
                write!(f, "{} cannot be read: {why}", path.display())
            }
            Self::NotItsHash { path } => write!(
                f,
                "{} is damaged: its content does not have the hash that is its name",
                path.display()
            ),
            Self::WrongSize { wanted, found } => write!(
                f,
                "the capture is damaged: {found} bytes are stored where {wanted} should be"
            ),
        }
    }
}

impl std::error::Error for Damage {}
