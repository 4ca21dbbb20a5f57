//! `run --watch`: runs again whenever a file changes.

use super::{complain, remark, run};
use crate::cli::RunArgs;
use report::exit::Exit;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use system::error::Result;
use system::files::FileKind;

/// The time between two looks at the files. Polling works on every file system and with every editor, and takes
/// milliseconds for thousands of files.
const INTERVAL: Duration = Duration::from_millis(200);

/// The extensions of files that make a kernel, its reference or its gates.
const WATCHED: [&str; 17] = [
    "cu", "cuh", "h", "hh", "hpp", "hxx", "inl", "inc", "c", "cc", "cpp", "cxx", "ptx", "cubin",
    "yaml", "yml", "py",
];

const DEPTH: usize = 16;

/// Runs, and runs again after each change, until a signal ends the program.
///
/// # Errors
/// Never returns an error: a mistake is reported, and the next change may correct it.
pub fn watch(args: &RunArgs) -> Result<Exit> {
    let root = match args.config.config.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    loop {
        // The files are read before the run, so that a file that is saved during the run starts the next one.
        let before = look(root);
        if let Err(error) = run::run(args) {
            complain(&error);
        }
        remark(&format!(
            "watching {} below {}; Ctrl-C ends",
            super::counted(before.len(), "file"),
            root.display()
        ));
        let now = wait(root, &before);
        let changed = changed(&before, &now);
        remark(&format!("changed: {}", changed.join(", ")));
    }
}

type WatchedFiles = BTreeMap<PathBuf, (SystemTime, u64)>;

/// Waits until a file differs from `before`, and then until the files stop changing. Returns the new state.
fn wait(root: &Path, before: &WatchedFiles) -> WatchedFiles {
    let mut last = look(root);
    loop {
        std::thread::sleep(INTERVAL);
        let now = look(root);
        if now != *before && now == last {
            return now;
        }
        last = now;
    }
}

fn look(root: &Path) -> WatchedFiles {
    let mut files = WatchedFiles::new();
    let mut open = vec![(root.to_owned(), 0)];
    while let Some((dir, depth)) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let is_hidden = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(b".");
            if path.file_name().is_none_or(is_hidden) {
                continue;
            }
            // Links are not followed, because a directory may be linked into itself.
            let Ok(about) = entry.metadata() else {
                continue;
            };
            match FileKind::from_metadata(&about) {
                FileKind::Directory if depth < DEPTH && !path.join("CACHEDIR.TAG").exists() => {
                    open.push((path, depth + 1));
                }
                FileKind::File if is_watched(&path) => {
                    let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    files.insert(path, (written, about.len()));
                }
                FileKind::Directory | FileKind::File => {}
                // The target of a link may be saved, too.
                FileKind::Special => {
                    if let (true, Ok(about)) = (is_watched(&path), std::fs::metadata(&path)) {
                        let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                        files.insert(path, (written, about.len()));
                    }
                }
            }
        }
    }
    files
}

fn is_watched(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| WATCHED.contains(&extension))
}

/// Returns the names of a few files that were changed, added or removed.
fn changed(before: &WatchedFiles, now: &WatchedFiles) -> Vec<String> {
    before
        .keys()
        .chain(now.keys().filter(|path| !before.contains_key(*path)))
        .filter(|path| before.get(*path) != now.get(*path))
        .take(5)
        .map(|path| path.display().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_new_and_removed_files_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("deep/er")).unwrap();
        for name in [
            "gates.yaml",
            "deep/er/k.cu",
            "deep/k.cuh",
            "notes.txt",
            ".hidden.cu",
        ] {
            std::fs::write(at(name), "1").unwrap();
        }
        let before = look(dir.path());
        assert_eq!(before.len(), 3);
        std::fs::write(at("deep/er/k.cu"), "22").unwrap();
        std::fs::write(at("notes.txt"), "22").unwrap();
        std::fs::remove_file(at("deep/k.cuh")).unwrap();
        std::fs::write(at("new.cu"), "1").unwrap();
        let names: Vec<String> = changed(&before, &look(dir.path()));
        let shown = |name: &str| at(name).display().to_string();
        assert_eq!(
            names,
            [shown("deep/er/k.cu"), shown("deep/k.cuh"), shown("new.cu")]
        );
    }
}
