//! Finds lines of files as tools outside of gatekeeper name them.

use model::Record;
use std::path::{Component, Path, PathBuf};

/// A line of a file, relative to the directory in which gatekeeper ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileLine {
    pub file: String,
    pub line: String,
}

impl FileLine {
    /// Reads the line from the form in which gates state where they are declared: `gates.yaml:7:3`.
    pub fn from_declared(record: &Record, declared: &str) -> Option<Self> {
        let (file, line) = declared.split_once(':')?;
        Some(Self {
            file: within_repository(record, file),
            line: line.split(':').next().unwrap_or(line).to_owned(),
        })
    }
}

/// Returns the path of a file relative to the directory in which the workflow runs. Gates state it relative to their
/// own directory.
pub fn within_repository(record: &Record, file: &str) -> String {
    let config = Path::new(&record.environment.config);
    match config.file_name() {
        Some(name) if name == file => record.environment.config.clone(),
        _ => without_detours(&config.with_file_name(file)),
    }
}

/// Returns a path without detours, `kernels/k.cu` for `gpu/../kernels/k.cu`: a path beside a change has no other form.
fn without_detours(path: &Path) -> String {
    let mut short = PathBuf::new();
    for part in path.components() {
        let is_below = matches!(short.components().next_back(), Some(Component::Normal(_)));
        match part {
            Component::ParentDir if is_below => {
                short.pop();
            }
            part => short.push(part),
        }
    }
    short.display().to_string()
}
