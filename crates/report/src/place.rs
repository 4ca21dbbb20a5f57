//! Lines of files as tools outside find them.

use model::Record;
use std::path::{Component, Path, PathBuf};

/// A line of a file, from the directory in which gatekeeper ran.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileLine {
    pub file: String,
    pub line: String,
}

impl FileLine {
    /// `gates.yaml:7:3`, as gates say where they stand.
    pub fn from_declared(record: &Record, declared: &str) -> Option<Self> {
        let (file, line) = declared.split_once(':')?;
        Some(Self {
            file: within_repository(record, file),
            line: line.split(':').next().unwrap_or(line).to_owned(),
        })
    }
}

/// Gates say where they stand from their own directory; GitHub looks it up from where the workflow runs.
pub fn within_repository(record: &Record, file: &str) -> String {
    let config = Path::new(&record.environment.config);
    match config.file_name() {
        Some(name) if name == file => record.environment.config.clone(),
        _ => without_detours(&config.with_file_name(file)),
    }
}

/// `gpu/../kernels/k.cu` as `kernels/k.cu`: a path that is shown beside a change has no other form.
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
