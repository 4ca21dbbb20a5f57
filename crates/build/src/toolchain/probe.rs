//! Identifies a compiler: its version, its parts, and a digest of them.

use super::digests::ProgramDigests;
use super::{Toolchain, compiler, output_of};
use model::CompilerFacts;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};

/// `13.0.88`.
pub(super) fn nvcc_version(nvcc: &Path) -> Result<String> {
    let broken = |why: String| {
        Error::environment(format!("{} does not work: {why}", nvcc.display()))
            .help("repair it, take it off PATH, or run with --provision")
    };
    let text = output_of(compiler(nvcc, &["--version"])).map_err(broken)?;
    text.lines()
        .rev()
        .find_map(|line| line.rsplit_once(", V").map(|(_, version)| version))
        .map(|version| version.trim().to_owned())
        .filter(|version| {
            version.starts_with(|c: char| c.is_ascii_digit())
                && version.chars().all(|c| c.is_ascii_digit() || c == '.')
        })
        .ok_or_else(|| broken(format!("no version in `nvcc --version`: {}", text.trim())))
}

/// # Errors
/// Environment, where a part of the compiler is missing or cannot be read.
pub(super) fn probe(
    nvcc: &Path,
    version: String,
    host_compiler: &Path,
    cache: &Cache,
) -> Result<Toolchain> {
    let layout = ToolkitLayout::ask(nvcc)?;
    let mut digests = ProgramDigests::load(cache)?;
    let mut digest = blake3::Hasher::new();
    for (name, file) in layout.parts(nvcc) {
        let file = file.canonicalize().map_err(|error| {
            Error::environment(format!(
                "nvcc at {} is incomplete: {name} is not at {}: {error}",
                nvcc.display(),
                file.display()
            ))
            .help("install the whole toolkit, or run with --provision")
        })?;
        digest.update(name.as_bytes());
        digest.update(&[0]);
        digest.update(digests.digest(&file)?.as_bytes());
    }
    digests.save(cache)?;
    Ok(Toolchain {
        nvcc: nvcc.to_owned(),
        host_compiler: host_compiler.to_owned(),
        facts: CompilerFacts {
            version,
            digest: digest.finalize().to_hex().to_string(),
            host: host_version(host_compiler)?,
        },
        include: layout.top.join("include"),
        library_dir: layout.library_dir(),
    })
}

fn host_version(program: &Path) -> Result<String> {
    let broken = |why: String| {
        Error::environment(format!(
            "the host compiler {} does not work: {why}",
            program.display()
        ))
        .help("install a C++ compiler, or set NVCC_CCBIN to the path of one")
    };
    let text = output_of(compiler(program, &["--version"])).map_err(broken)?;
    text.lines()
        .next()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .ok_or_else(|| broken("`--version` prints nothing".to_owned()))
}

/// Where nvcc says its parts are. Asked rather than derived from its own place: distributions put a
/// wrapper on PATH and the rest elsewhere.
pub(super) struct ToolkitLayout {
    pub(super) here: PathBuf,
    top: PathBuf,
    pub(super) cicc: PathBuf,
    libdevice: PathBuf,
}

impl ToolkitLayout {
    pub(super) fn ask(nvcc: &Path) -> Result<Self> {
        let broken = |why: String| {
            Error::environment(format!(
                "{} does not print where its parts are: {why}",
                nvcc.display()
            ))
        };
        let text = output_of(compiler(nvcc, &["--dryrun", "-cubin", "none.cu"])).map_err(broken)?;
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(&format!("#$ {name}=")))
                .map(|value| PathBuf::from(value.trim()))
                .ok_or_else(|| broken(format!("`nvcc --dryrun` prints no {name}")))
        };
        Ok(Self {
            here: value("_HERE_")?,
            top: value("TOP")?,
            cicc: value("CICC_PATH")?,
            libdevice: value("NVVMIR_LIBRARY_DIR")?,
        })
    }

    fn library_dir(&self) -> Option<PathBuf> {
        ["lib64", "lib"]
            .iter()
            .map(|name| self.top.join(name))
            .find(|dir| dir.join("libcudart_static.a").is_file())
    }

    /// Everything of the toolkit that ends up in an artifact and is not seen as an included header.
    fn parts(&self, nvcc: &Path) -> Vec<(&'static str, PathBuf)> {
        let mut parts = vec![
            ("nvcc", nvcc.to_owned()),
            ("cicc", self.cicc.join("cicc")),
            ("libdevice", self.libdevice.join("libdevice.10.bc")),
        ];
        for name in ["ptxas", "cudafe++", "fatbinary", "nvlink", "nvcc.profile"] {
            parts.push((name, self.here.join(name)));
        }
        // Only launchers link; a compiler without them still builds cubins.
        if let Some(dir) = self.library_dir() {
            parts.push(("libcudart_static.a", dir.join("libcudart_static.a")));
        }
        parts
    }
}
