//! Finds the release of each part of a compiler. Parts of two releases may not fit together, and a record names only
//! one release.

use super::probe::ToolkitLayout;
use super::{Toolchain, compiler, output_of};
use serde::Serialize;
use std::path::Path;
use system::error::Result;
use system::files;

/// A part of a compiler besides nvcc itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompilerPart {
    pub name: &'static str,
    /// The version, such as `13.0.88`, or `13.0` for the headers. `None` if the part does not say.
    pub version: Option<String>,
}

impl CompilerPart {
    /// Updates of one release fit each other.
    pub fn is_of_release(&self, version: &str) -> bool {
        self.version
            .as_deref()
            .is_none_or(|own| release(own) == release(version))
    }
}

/// Returns the release `13.0` for `13.0.88`, as its two numbers.
fn release(version: &str) -> (Option<&str>, Option<&str>) {
    let mut parts = version.split('.');
    (parts.next(), parts.next())
}

/// Returns the parts with their releases. cicc is not among them, because it names its release only in the PTX that it
/// writes.
///
/// # Errors
/// Environment, if nvcc does not tell where its parts are.
pub fn find_parts(toolchain: &Toolchain) -> Result<Vec<CompilerPart>> {
    let layout = ToolkitLayout::ask(&toolchain.nvcc)?;
    let programs = ["ptxas", "cudafe++", "fatbinary", "nvlink"].map(|name| CompilerPart {
        name,
        version: output_of(compiler(&layout.program(name), &["--version"]))
            .ok()
            .and_then(|text| version_in(&text)),
    });
    let headers = CompilerPart {
        name: "headers",
        version: version_of_headers(&toolchain.include),
    };
    Ok(programs.into_iter().chain([headers]).collect())
}

/// Returns the architectures that nvcc lists, such as `sm_89, sm_90`. It names none of those with a letter, such as sm_90a.
pub fn list_architectures(toolchain: &Toolchain) -> Option<String> {
    let text = output_of(compiler(&toolchain.nvcc, &["--list-gpu-code"])).ok()?;
    let listed: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("sm_"))
        .collect();
    (!listed.is_empty()).then(|| listed.join(", "))
}

/// Reads `Cuda compilation tools, release 13.0, V13.0.88`, which every tool of a toolkit prints and cicc writes into PTX.
pub fn version_in(text: &str) -> Option<String> {
    let (_, version) = text
        .lines()
        .filter(|line| line.contains("Cuda compilation tools"))
        .find_map(|line| line.rsplit_once(", V"))?;
    let version = version.trim();
    let is_version = version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_version.then(|| version.to_owned())
}

/// Reads the version from `#define CUDART_VERSION  13000`.
fn version_of_headers(include: &Path) -> Option<String> {
    let text = files::read_text(&include.join("cuda_runtime_api.h"), files::SOURCE).ok()?;
    let number: u32 = text
        .lines()
        .find_map(|line| line.strip_prefix("#define CUDART_VERSION"))?
        .trim()
        .parse()
        .ok()?;
    Some(format!("{}.{}", number / 1000, number % 1000 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_of_one_release_fit() {
        let part = |version: Option<&str>| CompilerPart {
            name: "ptxas",
            version: version.map(str::to_owned),
        };
        for (version, fits) in [
            (Some("13.0.88"), true),
            (Some("13.0.96"), true),
            (Some("13.0"), true),
            (None, true),
            (Some("13.1.2"), false),
            (Some("12.0.88"), false),
            (Some("13"), false),
        ] {
            assert_eq!(part(version).is_of_release("13.0.88"), fits, "{version:?}");
        }
    }

    #[test]
    fn tools_ptx_and_headers_name_their_release() {
        for text in [
            "fatbinary: NVIDIA (R) Cuda fat binary constructor\nCuda compilation tools, release 13.0, V13.0.88\nBuild x\n",
            "//\n// Compiler Build ID: CL-1\n// Cuda compilation tools, release 13.0, V13.0.88\n",
        ] {
            assert_eq!(version_in(text).as_deref(), Some("13.0.88"));
        }
        for none in [
            "",
            "release 13.0, V13.0.88",
            "Cuda compilation tools, V\u{1b}[2J",
        ] {
            assert_eq!(version_in(none), None, "{none:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(version_of_headers(dir.path()), None);
        let header = dir.path().join("cuda_runtime_api.h");
        std::fs::write(&header, "/** x */\n#define CUDART_VERSION  12080\n").unwrap();
        assert_eq!(version_of_headers(dir.path()).as_deref(), Some("12.8"));
    }
}
