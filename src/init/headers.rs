//! Headers that the repository lacks: where else they are looked for, and which package has them.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;
use system::process::confine::{Metadata, Rules, Sockets};
use system::process::{self, helper};

/// Variables in which compilers look for directories of headers.
const VARIABLES: [&str; 2] = ["CPATH", "CPLUS_INCLUDE_PATH"];

/// Directories of headers outside the repository, in the order in which they are asked.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    dirs: Vec<PathBuf>,
    /// The places that were looked at, as a message names them.
    pub looked_in: Vec<String>,
}

impl Elsewhere {
    /// `major`: the compiler's release. Packages for another one have headers that may not suit it.
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
                for site in site_packages(&python) {
                    let place = site.join("nvidia/*/include");
                    found.looked_in.push(place.display().to_string());
                    found.dirs.extend(packaged(&site, major));
                }
            }
        }
        found
    }

    pub fn directory_of(&self, header: &str) -> Option<&Path> {
        let header = Path::new(header);
        // Another path is not the header's place below a directory of headers.
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

/// A python may take long to start from a network's file system.
const DEADLINE: Duration = Duration::from_secs(60);
const MOST_OUTPUT: u64 = 1 << 16;
const ASK: &str = "import site\nfor it in [*site.getsitepackages(), site.getusersitepackages()]: print('site=' + it)";

/// Where this python has its packages. It starts outside of the checkout and isolated, and can change nothing.
fn site_packages(python: &Path) -> Vec<PathBuf> {
    let mut ask = helper::command(python);
    ask.args(["-I", "-B", "-c", ASK]);
    let rules = Rules {
        writes: &[],
        hidden: None,
        sockets: Sockets::None,
        metadata: Metadata::Kept,
        memory: None,
        file: None,
    };
    let ended = process::run_confined(ask, &rules, DEADLINE, MOST_OUTPUT);
    let said = match ended {
        Ok(Some(ended)) if ended.status.success() => ended.log,
        _ => return Vec::new(),
    };
    said.lines()
        .filter_map(|line| line.strip_prefix("site="))
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .collect()
}

/// `nvidia/cu13/include` of CUDA 13, `nvidia/cublas/include` before it. Where one has a whole toolkit, it comes last: its
/// own headers would stand in for the compiler's.
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

/// The beginning of a header's name, and the package of an index of Python packages that has it. `*` is the release.
const PACKAGES: [(&str, &str); 17] = [
    ("cublas", "nvidia-cublas"),
    ("curand", "nvidia-curand"),
    ("cufft", "nvidia-cufft"),
    ("cusolver", "nvidia-cusolver"),
    ("cusparseLt", "nvidia-cusparselt-cu*"),
    ("cusparse", "nvidia-cusparse"),
    ("cudnn_frontend", "nvidia-cudnn-frontend"),
    ("cudnn", "nvidia-cudnn-cu*"),
    ("cutensor", "cutensor-cu*"),
    ("nccl", "nvidia-nccl-cu*"),
    ("npp", "nvidia-npp"),
    ("nvjpeg", "nvidia-nvjpeg"),
    ("nvrtc", "nvidia-cuda-nvrtc"),
    ("cupti", "nvidia-cuda-cupti"),
    ("nvtx3/", "nvidia-nvtx"),
    ("nvml", "nvidia-nvml-dev"),
    ("cufile", "nvidia-cufile"),
];

/// The package that has a header, for a release of the compiler.
pub fn package_of(header: &str, major: &str) -> Option<String> {
    let (_, package) = PACKAGES
        .iter()
        .find(|(begin, _)| header.starts_with(begin))?;
    Some(match package.strip_suffix('*') {
        Some(name) => format!("{name}{major}"),
        // Packages have no release in their names from CUDA 13 on.
        None if matches!(major, "11" | "12") && *package != "nvidia-cudnn-frontend" => {
            format!("{package}-cu{major}")
        }
        None => (*package).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_its_package_by_release() {
        let package = |header, major| package_of(header, major);
        assert_eq!(
            package("cublas_v2.h", "13").as_deref(),
            Some("nvidia-cublas")
        );
        assert_eq!(
            package("cublas_v2.h", "12").as_deref(),
            Some("nvidia-cublas-cu12")
        );
        assert_eq!(
            package("cudnn.h", "13").as_deref(),
            Some("nvidia-cudnn-cu13")
        );
        assert_eq!(
            package("cudnn_frontend.h", "12").as_deref(),
            Some("nvidia-cudnn-frontend")
        );
        assert_eq!(package("mpi.h", "13"), None);
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
