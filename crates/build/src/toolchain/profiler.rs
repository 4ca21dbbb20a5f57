//! Finds Nsight Compute, and identifies it.

use super::{Search, ToolError, clean_command, output_of};
use std::path::{Path, PathBuf};
use system::error::{Error, Result};
use system::files;
use system::process::helper::is_executable;

/// A profiler that was found and said its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiler {
    pub program: PathBuf,
    /// The version of the program, such as `2025.3.1.0`.
    pub version: String,
}

/// The most bytes of the driver's list of parameters, which has a few dozen lines.
const MOST_PARAMS: u64 = 1 << 20;

/// The directory in which NVIDIA's packages have a directory for each version.
const PACKAGES: &str = "/opt/nvidia/nsight-compute";

/// Returns ncu from PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda, or from the newest of NVIDIA's packages.
///
/// # Errors
/// Environment, if there is none, or if it does not work.
pub fn find_profiler() -> Result<Profiler> {
    find_profiler_in(&Search::from_environment(), Path::new(PACKAGES))
}

fn find_profiler_in(search: &Search, packages: &Path) -> Result<Profiler> {
    let mut all = search
        .homes
        .iter()
        .map(|home| home.join("bin/ncu"))
        .chain(newest_first(packages))
        .filter(|file| is_executable(file));
    let program = search.program("ncu").or_else(|| all.next()).ok_or_else(|| {
        Error::environment(format!(
            "ncu of Nsight Compute is neither on PATH, in CUDA_HOME, in /usr/local/cuda nor in {PACKAGES}"
        ))
        .help("install it, for example `apt-get install nsight-compute` from NVIDIA's repository, or put ncu on PATH")
    })?;
    let broken = |why: ToolError| {
        Error::environment(format!("{} does not work: {why}", program.display()))
            .help("install Nsight Compute again, or take this one off PATH")
            .caused_by(why)
    };
    let mut command = clean_command(&program);
    command.arg("--version");
    let text = output_of(command).map_err(broken)?;
    let version = version_in(&text).ok_or_else(|| {
        broken(ToolError::Answer(format!(
            "no version in `ncu --version`: {}",
            text.trim()
        )))
    })?;
    Ok(Profiler { program, version })
}

/// Reads `Version 2025.3.1.0 (build 36398880) (public-release)`.
pub(super) fn version_in(text: &str) -> Option<String> {
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix("Version "))?;
    let version = rest.split_whitespace().next()?;
    let is_version = version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then(|| version.to_owned())
}

fn newest_first(packages: &Path) -> Vec<PathBuf> {
    let mut all: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(packages)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            (
                name.split('.')
                    .map(|part| part.parse().unwrap_or(0))
                    .collect(),
                entry.path().join("ncu"),
            )
        })
        .collect();
    all.sort();
    all.into_iter().rev().map(|(_, path)| path).collect()
}

/// Returns true if the driver lets this user read the GPU's counters, or `None` if it does not say.
pub fn may_read_counters() -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    let params = Path::new("/proc/driver/nvidia/params");
    let text = files::read_text(params, MOST_PARAMS).ok()?;
    // A process's directory there belongs to the user that it runs as.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
    Some(are_open(&text)? || is_root)
}

fn are_open(params: &str) -> Option<bool> {
    let value = params
        .lines()
        .find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
    Some(value.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// The output of `ncu --version`, as ncu 2025.3.1 prints it.
    const SAID: &str = "NVIDIA (R) Nsight Compute Command Line Profiler\nCopyright (c) 2018-2025 NVIDIA Corporation\nVersion 2025.3.1.0 (build 36398880) (public-release)\n";

    fn ncu(dir: &Path, version: &str) {
        std::fs::create_dir_all(dir).unwrap();
        let file = dir.join("ncu");
        let said = SAID.replace("2025.3.1.0", version);
        std::fs::write(&file, format!("#!/bin/sh\ncat <<'END'\n{said}END\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn path_goes_before_toolkits_and_they_before_packages() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let mut search = Search {
            path: vec![at("path")],
            homes: vec![at("home")],
            host_compiler: None,
        };
        let found = |search: &Search| find_profiler_in(search, &at("packages"));
        let missing = found(&search).unwrap_err().to_string();
        assert!(
            missing.contains("neither on PATH") && missing.contains("install"),
            "{missing}"
        );
        // By numbers, 2025.10 is newer than 2025.3. Compared as text, it would be older.
        ncu(&at("packages/2025.3.1"), "2025.3.1.0");
        ncu(&at("packages/2025.10.0"), "2025.10.0.0");
        assert_eq!(found(&search).unwrap().version, "2025.10.0.0");
        ncu(&at("home/bin"), "2024.1.0.0");
        assert_eq!(found(&search).unwrap().version, "2024.1.0.0");
        ncu(&at("path"), "2023.2.0.0");
        assert_eq!(found(&search).unwrap().program, at("path/ncu"));
        std::fs::write(at("path/ncu"), "#!/bin/sh\necho no licence\nexit 3\n").unwrap();
        let broken = found(&search).unwrap_err().to_string();
        assert!(
            broken.contains("exit code 3") && broken.contains("no licence"),
            "{broken}"
        );
        search.path.clear();
        assert!(found(&search).is_ok());
    }

    #[test]
    fn the_driver_says_who_may_read_counters() {
        assert_eq!(are_open("RmProfilingAdminOnly: 0\n"), Some(true));
        assert_eq!(
            are_open("ModifyDeviceFiles: 1\nRmProfilingAdminOnly: 1\n"),
            Some(false)
        );
        assert_eq!(are_open("ModifyDeviceFiles: 1\n"), None);
    }
}
