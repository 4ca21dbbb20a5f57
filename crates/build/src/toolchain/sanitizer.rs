//! Finds compute-sanitizer. Gatekeeper never runs it on a kernel. It is for people who examine a finding by hand on a
//! GPU.

use super::profiler::version_in;
use super::{Search, clean_command, output_of};
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sanitizer {
    pub program: PathBuf,
    /// The version of the program, such as `2025.3.0.0`.
    pub version: String,
}

/// Returns the first compute-sanitizer of PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda that prints its version.
pub fn find_sanitizer() -> Option<Sanitizer> {
    find_in(&Search::from_environment())
}

fn find_in(search: &Search) -> Option<Sanitizer> {
    search.programs("compute-sanitizer").find_map(|program| {
        let mut command = clean_command(&program);
        command.arg("--version");
        let version = version_in(&output_of(command).ok()?)?;
        Some(Sanitizer { program, version })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::toolchain::tests::write_script;

    #[test]
    fn one_that_does_not_work_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let search = Search {
            path: vec![dir.path().join("path")],
            homes: vec![dir.path().join("home")],
            host_compiler: None,
        };
        assert_eq!(find_in(&search), None);
        write_script(&dir.path().join("path/compute-sanitizer"), "exit 127");
        assert_eq!(find_in(&search), None);
        let works = dir.path().join("home/bin/compute-sanitizer");
        write_script(
            &works,
            "echo 'NVIDIA (R) Compute Sanitizer'; echo 'Version 2025.3.0.0 (build 1) (public-release)'",
        );
        let found = find_in(&search).unwrap();
        assert_eq!((found.program, &*found.version), (works, "2025.3.0.0"));
    }
}
