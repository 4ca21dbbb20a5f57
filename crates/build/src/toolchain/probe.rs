//! Identifies a compiler: its version, its parts, and a digest of them.

use super::install::DIR;
use super::{Toolchain, compiler, output_of};
use model::CompilerFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;

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
    let mut memo = Memo::load(cache)?;
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
        digest.update(memo.digest(&file)?.as_bytes());
    }
    memo.save(cache)?;
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

/// Digests of files by path, size, change time and inode, so that a warm run does not read 150 MB.
#[derive(Default, Serialize, Deserialize)]
struct Memo {
    files: BTreeMap<PathBuf, FileDigest>,
    #[serde(skip)]
    changed: bool,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FileDigest {
    size: u64,
    modified: (i64, i64),
    /// Cannot be set back by whoever replaces a file and restores its modification time.
    changed: (i64, i64),
    inode: u64,
    digest: String,
}

impl Memo {
    const FILE: &str = "digests.json";

    fn load(cache: &Cache) -> Result<Self> {
        // A memo that is missing or damaged costs one reading of the compiler, nothing else.
        let read = |file: PathBuf| -> Option<Self> {
            serde_json::from_slice(&files::read(&file, files::WRITTEN).ok()?).ok()
        };
        let mut memos = cache.layered(DIR)?.places(Self::FILE).filter_map(read);
        let mut memo = memos.next().unwrap_or_default();
        for own in memos {
            for (file, digest) in own.files {
                memo.files.entry(file).or_insert(digest);
            }
        }
        Ok(memo)
    }

    fn digest(&mut self, file: &Path) -> Result<String> {
        let unreadable = |error: std::io::Error| {
            Error::environment(format!("{} cannot be read: {error}", file.display()))
        };
        let meta = file.metadata().map_err(unreadable)?;
        let now = FileDigest {
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            inode: meta.ino(),
            digest: String::new(),
        };
        if let Some(known) = self.files.get(file)
            && (FileDigest {
                digest: String::new(),
                ..known.clone()
            }) == now
        {
            return Ok(known.digest.clone());
        }
        let mut hasher = blake3::Hasher::new();
        files::open(file)
            .and_then(|open| hasher.update_reader(open).map(drop))
            .map_err(unreadable)?;
        let digest = hasher.finalize().to_hex().to_string();
        self.files.insert(
            file.to_owned(),
            FileDigest {
                digest: digest.clone(),
                ..now
            },
        );
        self.changed = true;
        Ok(digest)
    }

    fn save(&self, cache: &Cache) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let dir = cache.dir(DIR)?;
        system::cache::write_atomically(
            &dir.join(Self::FILE),
            &serde_json::to_vec(self)
                .map_err(|error| Error::environment(format!("digests of the compiler: {error}")))?,
        )
    }
}
