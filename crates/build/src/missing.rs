//! Finds headers that a compiler did not find, and the commands that install them. `init` and `run` use one table.

use regex::Regex;
use std::path::Path;
use std::sync::LazyLock;
use system::files;

/// Returns the name of a header that neither the host compiler nor nvcc found.
pub fn missing_header(message: &str) -> Option<&str> {
    static MISSING: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r#"fatal error: (\S+): No such file|could not open source file "([^"]+)"|cannot open source file "([^"]+)""#).ok()
    });
    let found = MISSING.as_ref()?.captures(message)?;
    [1, 2, 3]
        .into_iter()
        .filter_map(|at| found.get(at))
        .map(|name| name.as_str())
        .next()
}

/// The source of a header that CUDA's compiler does not contain.
#[derive(Clone, Copy)]
enum Package {
    /// A package of pip that NVIDIA names after the release up to CUDA 12: `nvidia-cublas-cu12`, then `nvidia-cublas`.
    Nvidia(&'static str),
    /// A package of pip that is named after the release in each of them.
    Release(&'static str),
    /// A package of pip with one name.
    Pip(&'static str),
    /// A package of Debian and Ubuntu.
    Apt(&'static str),
}

/// The beginnings of headers' names, each with the package. The first that fits counts.
const PACKAGES: [(&str, Package); 26] = [
    ("torch/", Package::Pip("torch")),
    ("ATen/", Package::Pip("torch")),
    ("c10/", Package::Pip("torch")),
    ("pybind11/", Package::Pip("pybind11")),
    ("Python.h", Package::Apt("python3-dev")),
    ("cutlass/", Package::Pip("nvidia-cutlass")),
    ("cute/", Package::Pip("nvidia-cutlass")),
    ("cublas", Package::Nvidia("nvidia-cublas")),
    ("curand", Package::Nvidia("nvidia-curand")),
    ("cufft", Package::Nvidia("nvidia-cufft")),
    ("cusolver", Package::Nvidia("nvidia-cusolver")),
    ("cusparseLt", Package::Release("nvidia-cusparselt-cu")),
    ("cusparse", Package::Nvidia("nvidia-cusparse")),
    ("cudnn_frontend", Package::Pip("nvidia-cudnn-frontend")),
    ("cudnn", Package::Release("nvidia-cudnn-cu")),
    ("cutensor", Package::Release("cutensor-cu")),
    ("nccl", Package::Release("nvidia-nccl-cu")),
    ("npp", Package::Nvidia("nvidia-npp")),
    ("nvjpeg", Package::Nvidia("nvidia-nvjpeg")),
    ("nvrtc", Package::Nvidia("nvidia-cuda-nvrtc")),
    ("cupti", Package::Nvidia("nvidia-cuda-cupti")),
    (
        "cuda_profiler_api",
        Package::Nvidia("nvidia-cuda-profiler-api"),
    ),
    ("cudaProfiler", Package::Nvidia("nvidia-cuda-profiler-api")),
    ("nvtx3/", Package::Nvidia("nvidia-nvtx")),
    ("nvml", Package::Nvidia("nvidia-nvml-dev")),
    ("cufile", Package::Nvidia("nvidia-cufile")),
];

/// Returns the commands that may bring a header: those that fetch the submodules that were not cloned, else the one that
/// installs its package. `major` is the compiler's release.
pub fn find_remedies(root: &Path, header: &str, major: &str) -> Vec<String> {
    let first = header.split('/').next().unwrap_or_default();
    let empty = empty_submodules(root);
    let is_its_own = |path: &&String| path.split('/').any(|part| part.eq_ignore_ascii_case(first));
    let package = PACKAGES
        .iter()
        .find(|(begin, _)| header.starts_with(begin))
        .map(|(_, package)| package.command(major));
    // A package is the better guess, unless a submodule has the header's name.
    match (empty.iter().find(is_its_own), package) {
        (Some(own), _) => vec![fetch(own)],
        (None, Some(package)) => vec![package],
        (None, None) => empty.iter().map(|path| fetch(path)).collect(),
    }
}

fn fetch(submodule: &str) -> String {
    format!("git submodule update --init {submodule}")
}

impl Package {
    fn command(self, major: &str) -> String {
        match self {
            // Packages have no release in their names from CUDA 13 on.
            Self::Nvidia(name) if matches!(major, "11" | "12") => pip(&format!("{name}-cu{major}")),
            Self::Nvidia(name) | Self::Pip(name) => pip(name),
            Self::Release(name) => pip(&format!("{name}{major}")),
            Self::Apt(name) => format!("apt-get install {name}"),
        }
    }
}

fn pip(package: &str) -> String {
    format!("python3 -m pip install {package}")
}

/// The most bytes of `.gitmodules` that are read. No person writes a larger one.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the paths of `.gitmodules` that hold nothing: `git clone` leaves them so.
fn empty_submodules(root: &Path) -> Vec<String> {
    let text = files::read_text(&root.join(".gitmodules"), MOST_BYTES).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let value = line.trim().strip_prefix("path")?.trim_start();
            Some(value.strip_prefix('=')?.trim().to_owned())
        })
        .filter(|path| {
            std::fs::read_dir(root.join(path)).map_or(true, |mut entries| entries.next().is_none())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_header_is_named_by_both_compilers() {
        let host = "src/k.cu:1:10: fatal error: util/math.cuh: No such file or directory\n";
        assert_eq!(missing_header(host), Some("util/math.cuh"));
        let device = "k.cu(1): catastrophic error: cannot open source file \"a.h\"";
        assert_eq!(missing_header(device), Some("a.h"));
        assert_eq!(missing_header("k.cu(3): error: x is undefined"), None);
    }

    #[test]
    fn a_header_has_its_package_by_release() {
        let nowhere = Path::new("/nowhere");
        for (header, major, command) in [
            ("cublas_v2.h", "13", "python3 -m pip install nvidia-cublas"),
            (
                "cublas_v2.h",
                "12",
                "python3 -m pip install nvidia-cublas-cu12",
            ),
            ("cudnn.h", "13", "python3 -m pip install nvidia-cudnn-cu13"),
            (
                "cudnn_frontend.h",
                "12",
                "python3 -m pip install nvidia-cudnn-frontend",
            ),
            (
                "cuda_profiler_api.h",
                "12",
                "python3 -m pip install nvidia-cuda-profiler-api-cu12",
            ),
            ("torch/extension.h", "12", "python3 -m pip install torch"),
            ("Python.h", "13", "apt-get install python3-dev"),
        ] {
            assert_eq!(find_remedies(nowhere, header, major), [command]);
        }
        assert!(find_remedies(nowhere, "mpi.h", "13").is_empty());
    }

    #[test]
    fn submodules_that_were_not_cloned_are_fetched() {
        let root = tempfile::tempdir().unwrap();
        let modules = "[submodule \"a\"]\n\tpath = third_party/cutlass\n\turl = x\n[submodule \"b\"]\n\tpath=deps/fmt\n\
                       [submodule \"c\"]\n\tpath = full\n";
        std::fs::write(root.path().join(".gitmodules"), modules).unwrap();
        std::fs::create_dir_all(root.path().join("deps/fmt")).unwrap();
        std::fs::create_dir(root.path().join("full")).unwrap();
        std::fs::write(root.path().join("full/x.h"), "").unwrap();
        let of = |header| find_remedies(root.path(), header, "13");
        let cutlass = "git submodule update --init third_party/cutlass";
        assert_eq!(of("cutlass/numeric_types.h"), [cutlass]);
        assert_eq!(of("torch/all.h"), ["python3 -m pip install torch"]);
        let fmt = "git submodule update --init deps/fmt";
        assert_eq!(of("json.hpp"), [cutlass, fmt]);
    }
}
