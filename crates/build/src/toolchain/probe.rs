//! Identifies a compiler by its version, its parts, and a digest of them.

use super::digests::ProgramDigests;
use super::releases::{SUPPORTED, is_supported};
use super::{PROVIDED, ToolError, Toolchain, compiler, output_of};
use model::CompilerFacts;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};
use system::process::helper::is_executable;

/// Returns the version of nvcc, such as `13.0.88`.
pub(super) fn nvcc_version(nvcc: &Path) -> Result<String> {
    let broken = |why: ToolError| {
        Error::environment(format!("{} does not work: {why}", nvcc.display()))
            .help("repair it, take it off PATH, or run with --provision")
            .caused_by(why)
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
        .ok_or_else(|| {
            broken(ToolError::Answer(format!(
                "no version in `nvcc --version`: {}",
                text.trim()
            )))
        })
}

/// Identifies the compiler.
///
/// # Errors
/// Environment, if the compiler is too old, or if a part of it is missing or cannot be read.
pub(super) fn probe(
    nvcc: &Path,
    version: String,
    host_compiler: &Path,
    cache: &Cache,
) -> Result<Toolchain> {
    if !is_supported(&version) {
        return Err(Error::environment(format!(
            "nvcc at {} is {version}, which is too old: gatekeeper works with {SUPPORTED}",
            nvcc.display()
        ))
        .help("put a newer nvcc on PATH, or name its directory: --toolchain /usr/local/cuda-12.4")
        .help(format!(
            "or run with --provision, which installs CUDA {PROVIDED}"
        )));
    }
    let layout = ToolkitLayout::ask(nvcc)?;
    let mut digests = ProgramDigests::load(cache)?;
    let mut digest = blake3::Hasher::new();
    let mut programs = Vec::new();
    for (name, file) in layout.parts(nvcc) {
        let file = file.canonicalize().map_err(|error| {
            Error::environment(format!(
                "nvcc at {} is incomplete: {name} is not at {}: {error}",
                nvcc.display(),
                file.display()
            ))
            .caused_by(error)
            .help("install the whole toolkit, or run with --provision")
        })?;
        digest.update(name.as_bytes());
        digest.update(&[0]);
        digest.update(digests.digest(&file)?.as_bytes());
        if ["nvcc", "cicc", "ptxas"].contains(&name) {
            programs.push(file);
        }
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
        include: layout.include,
        library_dir: layout.library_dir,
        programs,
    })
}

fn host_version(program: &Path) -> Result<String> {
    let broken = |why: ToolError| {
        Error::environment(format!(
            "the host compiler {} does not work: {why}",
            program.display()
        ))
        .help("install a C++ compiler, or set NVCC_CCBIN to the path of one")
        .caused_by(why)
    };
    let text = output_of(compiler(program, &["--version"])).map_err(broken)?;
    text.lines()
        .next()
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .ok_or_else(|| broken(ToolError::Answer("`--version` prints nothing".to_owned())))
}

/// The places of a toolkit's parts, as nvcc itself names them. Distributions put a wrapper on PATH and the rest elsewhere,
/// so the place of nvcc does not tell.
pub(super) struct ToolkitLayout {
    /// The directory that has nvcc itself, and its nvcc.profile.
    pub(super) here: PathBuf,
    /// Directories in which nvcc looks for the programs that it starts.
    path: Vec<PathBuf>,
    /// The program that compiles CUDA C++ to PTX.
    pub(super) cicc: PathBuf,
    libdevice: PathBuf,
    pub(super) include: PathBuf,
    library_dir: Option<PathBuf>,
}

impl ToolkitLayout {
    /// Asks nvcc. Releases differ in what they print: `CICC_PATH` comes with 12.5, and before it cicc is found by `PATH`.
    /// Debian's nvcc prints no `TOP`, because its toolkit is spread over /usr.
    pub(super) fn ask(nvcc: &Path) -> Result<Self> {
        let broken = |why: ToolError| {
            Error::environment(format!(
                "{} does not print where its parts are: {why}",
                nvcc.display()
            ))
            .caused_by(why)
        };
        let text = output_of(compiler(nvcc, &["--dryrun", "-cubin", "none.cu"])).map_err(broken)?;
        let value = |name: &str| {
            text.lines().find_map(|line| {
                line.strip_prefix("#$ ")?
                    .strip_prefix(name)?
                    .strip_prefix('=')
            })
        };
        let needed = |name: &str| {
            value(name)
                .map(|value| PathBuf::from(value.trim()))
                .ok_or_else(|| {
                    broken(ToolError::Answer(format!(
                        "`nvcc --dryrun` prints no {name}"
                    )))
                })
        };
        let here = needed("_HERE_")?;
        let path: Vec<PathBuf> = value("PATH").map_or_else(Vec::new, |path| {
            std::env::split_paths(path.trim()).collect()
        });
        let cicc = match value("CICC_PATH") {
            Some(dir) => Path::new(dir.trim()).join("cicc"),
            None => find_program("cicc", &path, &here),
        };
        let top = value("TOP").map(|top| PathBuf::from(top.trim()));
        // Debian's headers and libraries are where the host compiler looks by itself.
        let headers = directories(value("INCLUDES"), "-I")
            .chain(top.as_ref().map(|top| top.join("include")))
            .chain([PathBuf::from("/usr/include")])
            .collect();
        let library_dir = directories(value("LIBRARIES"), "-L")
            .chain(
                ["lib64", "lib"]
                    .iter()
                    .filter_map(|name| Some(top.as_ref()?.join(name))),
            )
            .find(|dir| dir.join("libcudart_static.a").is_file());
        Ok(Self {
            include: with_headers(headers),
            library_dir,
            libdevice: needed("NVVMIR_LIBRARY_DIR")?,
            cicc,
            path,
            here,
        })
    }

    /// Returns the program that nvcc starts by this name.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        find_program(name, &self.path, &self.here)
    }

    /// Returns all files of the toolkit that influence an artifact and are not found as included headers.
    fn parts(&self, nvcc: &Path) -> Vec<(&'static str, PathBuf)> {
        let mut parts = vec![
            ("nvcc", nvcc.to_owned()),
            ("cicc", self.cicc.clone()),
            ("libdevice", self.libdevice.join("libdevice.10.bc")),
        ];
        for name in ["ptxas", "cudafe++", "fatbinary", "nvlink"] {
            parts.push((name, self.program(name)));
        }
        // The nvcc on PATH may be a wrapper that starts this one.
        let itself = self.here.join("nvcc");
        if itself.canonicalize().ok() != nvcc.canonicalize().ok() {
            parts.push(("nvcc", itself));
        }
        parts.push(("nvcc.profile", self.here.join("nvcc.profile")));
        // Only launchers are linked. A compiler without the library still builds cubins.
        if let Some(dir) = &self.library_dir {
            parts.push(("libcudart_static.a", dir.join("libcudart_static.a")));
        }
        parts
    }
}

/// Returns the first program of this name in `path`. If there is none, returns its place in `here`.
fn find_program(name: &str, path: &[PathBuf], here: &Path) -> PathBuf {
    path.iter()
        .map(|dir| dir.join(name))
        .find(|file| is_executable(file))
        .unwrap_or_else(|| here.join(name))
}

/// Returns the first directory with the headers of CUDA, or the first one.
fn with_headers(dirs: Vec<PathBuf>) -> PathBuf {
    let has_headers = |dir: &&PathBuf| dir.join("cuda_runtime.h").is_file();
    let found = dirs.iter().find(has_headers).or(dirs.first());
    found.cloned().unwrap_or_default()
}

/// Returns the directories that a variable of nvcc.profile gives to an option: `"-I/opt/cuda 12/bin/..//include"  -I/usr/x`.
fn directories(value: Option<&str>, option: &str) -> impl Iterator<Item = PathBuf> {
    value
        .unwrap_or_default()
        .split('"')
        .enumerate()
        .flat_map(|(at, part)| {
            let is_quoted = at % 2 == 1;
            let words: Vec<&str> = if is_quoted {
                vec![part]
            } else {
                part.split_whitespace().collect()
            };
            words
        })
        // By components, which leaves out the second slash of `..//include`.
        .filter_map(move |word| Some(Path::new(word.strip_prefix(option)?).components().collect()))
}
