//! Runs programs of this machine that help gatekeeper and are not confined: git, python, uv, and compilers and
//! profilers that are asked for their version.
//!
//! A checkout must not decide what they are or do. They start in the root of the file system, because many programs
//! take modules, settings or libraries from the directory in which they start, or from one above it. Relative and empty
//! directories in `PATH` and `LD_LIBRARY_PATH` refer to that directory, and are left out.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory in which helpers start. It is the parent of every directory and the child of none, so no checkout is
/// above it.
const START: &str = "/";

/// Lists of directories in which a program or its loader looks for others.
const LISTS: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];

/// Returns a call of a helper, without its arguments.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(START);
    keep_whole_lists(&mut command);
    command
}

/// Restores the whole lists for a program that has to start in the checkout, as a worker does. It finds no library
/// there.
pub fn keep_whole_lists(command: &mut Command) {
    for name in LISTS {
        match list(name) {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// Returns a call of a helper that is found by its name. If there is none, it fails as it starts.
pub fn named(name: &str) -> Command {
    match find(name) {
        Some(program) => command(&program),
        // No file has this name, and no other directory is searched for it.
        None => command(&Path::new(START).join("no-such-program").join(name)),
    }
}

/// Returns the first program of this name on PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let files = path_dirs().into_iter().map(|dir| dir.join(name));
    files.into_iter().find(|file| is_executable(file))
}

/// Returns the directories of PATH, without those that depend on where a program starts.
pub fn path_dirs() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    whole(&path)
}

/// Returns a list of directories as a helper gets it, or `None` if nothing is left of it.
pub fn list(name: &str) -> Option<OsString> {
    let dirs = whole(&std::env::var_os(name)?);
    let joined = std::env::join_paths(dirs).ok()?;
    (!joined.is_empty()).then_some(joined)
}

fn whole(list: &OsStr) -> Vec<PathBuf> {
    let dirs = std::env::split_paths(list);
    dirs.filter(|dir| dir.is_absolute()).collect()
}

pub fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_and_empty_directories_are_left_out() {
        let dirs = whole(OsStr::new(":/usr/bin:.:bin::../x:/opt/a b:"));
        assert_eq!(dirs, [Path::new("/usr/bin"), Path::new("/opt/a b")]);
    }

    #[test]
    fn a_helper_starts_in_the_root_directory() {
        let mut command = named("pwd");
        let output = command.output().unwrap();
        assert_eq!(output.stdout, b"/\n");
    }
}
