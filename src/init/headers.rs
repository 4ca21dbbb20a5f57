//! Finds headers that the repository lacks in other places of this machine.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use system::process::confine::{Metadata, Rules, Sockets};
use system::process::{self, helper};

/// Variables in which compilers look for directories of headers.
const VARIABLES: [&str; 2] = ["CPATH", "CPLUS_INCLUDE_PATH"];

/// Variables that name the directory of a toolkit.
const HOMES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];

/// Directories of headers outside the repository, in the order in which they are searched.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    dirs: Vec<PathBuf>,
    /// The places that were searched, as a message names them.
    pub looked_in: Vec<String>,
}

impl Elsewhere {
    /// Finds the directories. `major` is the compiler's release, because packages for another
    /// release have headers that may not fit it.
    pub fn find(major: &str) -> Self {
        let mut found = Self::default();
        for name in VARIABLES {
            let list = helper::list(name);
            found.looked_in.push(match &list {
                Some(_) => name.to_owned(),
                None => format!("{name} (not set)"),
            });
            found
                .dirs
                .extend(list.iter().flat_map(std::env::split_paths));
        }
        match helper::find("python3") {
            None => {
                let none = "pip's packages (there is no python3 on PATH)";
                found.looked_in.push(none.to_owned());
            }
            Some(python) => {
                let [sites, headers] = ask(&python);
                for site in sites {
                    let place = site.join("nvidia/*/include");
                    found.looked_in.push(place.display().to_string());
                    found.dirs.extend(packaged(&site, major));
                }
                for dir in headers {
                    found.looked_in.push(dir.display().to_string());
                    found.dirs.push(dir);
                }
            }
        }
        // nvcc may come from elsewhere than this toolkit, and then lacks its libraries.
        for name in HOMES {
            if let Some(home) = std::env::var_os(name).map(PathBuf::from)
                && home.is_absolute()
            {
                found.looked_in.push(name.to_owned());
                found.dirs.push(home.join("include"));
            }
        }
        found
    }

    pub fn directory_of(&self, header: &str) -> Option<&Path> {
        let header = Path::new(header);
        // Only a plain relative path says where the header is below a directory of headers.
        let mut parts = header.components();
        let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
        let found = self
            .dirs
            .iter()
            .filter(|_| is_below)
            .find(|dir| dir.join(header).is_file());
        found.map(PathBuf::as_path)
    }
}

/// The deadline for Python, which may take long to start from a network's file system.
const DEADLINE: Duration = Duration::from_secs(60);
const MOST_OUTPUT: u64 = 1 << 16;
/// Finds packages without importing them. An import would run their code, and torch's takes
/// seconds.
const ASK: &str = r#"
import importlib.util, os, site, sysconfig
for path in [*site.getsitepackages(), site.getusersitepackages()]:
    print("site=" + path)
for package, below in [
    ("torch", "include"),
    ("torch", "include/torch/csrc/api/include"),
    ("pybind11", "include"),
    ("cutlass_library", "source/include"),
]:
    found = importlib.util.find_spec(package)
    if found and found.origin:
        print("headers=" + os.path.join(os.path.dirname(found.origin), below))
print("headers=" + sysconfig.get_path("include"))
"#;

/// Asks a Python for the directories of packages, and for directories of headers: first those of packages, then its
/// own. Python starts outside the checkout and isolated, and can change nothing.
fn ask(python: &Path) -> [Vec<PathBuf>; 2] {
    let mut command = helper::command(python);
    command.args(["-I", "-B", "-c", ASK]);
    let rules = Rules {
        writes: &[],
        hidden: None,
        sockets: Sockets::None,
        metadata: Metadata::Kept,
        memory: None,
        file: None,
    };
    let ended = process::run_confined(command, &rules, DEADLINE, MOST_OUTPUT);
    let said = match ended {
        Ok(Some(ended)) if ended.status.success() => ended.log,
        _ => String::new(),
    };
    ["site=", "headers="].map(|key| {
        said.lines()
            .filter_map(|line| line.strip_prefix(key))
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .collect()
    })
}

/// Returns the header directories of NVIDIA's packages: `nvidia/cu13/include` for CUDA 13, `nvidia/cublas/include` for
/// earlier ones. A directory with a whole toolkit comes last, because its headers would replace the compiler's own.
fn packaged(site: &Path, major: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(site.join("nvidia")) else {
        return Vec::new();
    };
    let is_for = |name: &str| match name.strip_prefix("cu") {
        Some(number) if number.chars().all(|character| character.is_ascii_digit()) => {
            number == major
        }
        _ => true,
    };
    let mut dirs: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_for))
        .map(|entry| entry.path().join("include"))
        .filter(|dir| dir.is_dir())
        .collect();
    dirs.sort_by_key(|dir| (dir.join("cuda_runtime.h").exists(), dir.clone()));
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_says_where_its_headers_are() {
        let [sites, headers] = ask(&helper::find("python3").unwrap());
        assert!(!sites.is_empty());
        let own = headers.last().unwrap().file_name().unwrap();
        assert!(own.to_str().unwrap().starts_with("python3"), "{headers:?}");
    }

    #[test]
    fn packages_of_another_release_are_not_looked_at() {
        let site = tempfile::tempdir().unwrap();
        for dir in ["cu12", "cu13", "cublas"] {
            let dir = site.path().join("nvidia").join(dir).join("include");
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("cublas_v2.h"), "").unwrap();
        }
        let whole = site.path().join("nvidia/cu13/include/cuda_runtime.h");
        std::fs::write(whole, "").unwrap();
        let found = Elsewhere {
            dirs: packaged(site.path(), "13"),
            looked_in: Vec::new(),
        };
        let at = |dir: &str| site.path().join("nvidia").join(dir).join("include");
        assert_eq!(found.dirs, [at("cublas"), at("cu13")]);
        assert_eq!(
            found.directory_of("cublas_v2.h"),
            Some(at("cublas").as_path())
        );
        assert_eq!(found.directory_of("../include/cublas_v2.h"), None);
        assert_eq!(found.directory_of("/etc/hostname"), None);
    }
}
