//! The pinned compiler from NVIDIA's wheels, into the cache.

use super::{Search, Toolchain, find_in, output_of};
use crate::cache::Cache;
use crate::error::{Diagnostic, Error, Result};
use crate::files;
use crate::temporary::{self, TemporaryDir};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `nvcc --version` of the wheels below says.
pub(super) const NVCC_VERSION: &str = "13.0.88";

/// Wheels that are installed together, in a directory of their own.
struct Package {
    what: &'static str,
    version: &'static str,
    /// Of the directory, before the version.
    name: &'static str,
    wheels: &'static [&'static str],
    /// Without it nothing is installed.
    program: &'static str,
    size: &'static str,
}

/// CUDA 13.0 update 2, exactly. nvvm and crt are pinned because nvcc's own wheel asks for them without an
/// upper bound, and nvvm 13.5 writes PTX that ptxas 13.0 refuses. The `cuda-toolkit` package is only a
/// list of these, so they are named and nothing is resolved.
const COMPILER: Package = Package {
    what: "CUDA",
    version: NVCC_VERSION,
    name: "cuda",
    wheels: &[
        "nvidia-cuda-nvcc==13.0.88",
        "nvidia-nvvm==13.0.88",
        "nvidia-cuda-crt==13.0.88",
        "nvidia-cuda-runtime==13.0.96",
        "nvidia-cuda-cccl==13.0.85",
    ],
    program: "bin/nvcc",
    size: "105 MB to fetch, 270 MB on disk",
};

/// Takes machine code apart, for `explain`. In a place of its own, because nothing else needs it. Its first wheel is of
/// CUDA 13.2; each reads the machine code of all CUDA releases before it.
const DISASSEMBLER: Package = Package {
    what: "nvdisasm",
    version: "13.5.37",
    name: "nvdisasm",
    wheels: &["nvidia-cuda-nvdisasm==13.5.37"],
    program: "bin/nvdisasm",
    size: "5 MB to fetch, 6 MB on disk",
};

/// Of the cache.
pub(super) const DIR: &str = "toolchains";
/// Where the wheels put the toolkit.
const TOOLKIT: &str = "nvidia/cu13";
/// Written last; an install without it is none.
const MARKER: &str = "complete.json";

/// Size of every file of an install, by path relative to it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Complete {
    files: BTreeMap<String, u64>,
}

impl Package {
    /// The name of its directory.
    fn home_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Its program, if it is there and whole.
    fn installed(&self, cache: &Cache) -> Result<Option<PathBuf>> {
        let dir = cache.layered(DIR)?;
        let whole = dir
            .places(&self.home_name())
            .find(|home| self.is_complete(home))
            .inspect(|home| dir.touch(home));
        Ok(whole.map(|home| home.join(TOOLKIT).join(self.program)))
    }

    /// Sizes, not contents: contents of the parts that compile are in the toolchain's digest.
    fn is_complete(&self, home: &Path) -> bool {
        let Some(complete) = files::read(&home.join(MARKER), files::WRITTEN)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Complete>(&bytes).ok())
        else {
            return false;
        };
        complete
            .files
            .contains_key(&format!("{TOOLKIT}/{}", self.program))
            && complete.files.iter().all(|(file, &size)| {
                home.join(file)
                    .metadata()
                    .is_ok_and(|meta| meta.len() == size)
            })
    }
}

/// nvcc of the provisioned compiler, if it is there and whole.
pub(super) fn installed(cache: &Cache) -> Result<Option<PathBuf>> {
    COMPILER.installed(cache)
}

/// nvdisasm, if it is there and whole.
pub(super) fn installed_disassembler(cache: &Cache) -> Result<Option<PathBuf>> {
    DISASSEMBLER.installed(cache)
}

/// Installs CUDA 13.0's compiler into the cache unless it is there. Two at once wait for each other.
/// `progress` gets one line at a time.
///
/// # Errors
/// Environment: no host compiler, no python3, no pip, pip failed, or the cache cannot be written.
pub fn install(cache: &Cache, progress: &dyn Fn(&str)) -> Result<Toolchain> {
    install_in(cache, progress, &Search::from_environment())
}

pub(super) fn install_in(
    cache: &Cache,
    progress: &dyn Fn(&str),
    search: &Search,
) -> Result<Toolchain> {
    // Said before anything is fetched.
    search.host_compiler()?;
    COMPILER.install(cache, progress, search)?;
    find_in(Some(NVCC_VERSION), cache, search)
}

/// Installs nvdisasm into the cache unless there is one.
///
/// # Errors
/// As of [`install`].
pub fn install_disassembler(cache: &Cache, progress: &dyn Fn(&str)) -> Result<()> {
    DISASSEMBLER.install(cache, progress, &Search::from_environment())
}

/// Held until dropped; the kernel releases it where a process dies.
fn lock(dir: &Path, progress: &dyn Fn(&str)) -> Result<File> {
    let file = dir.join("install.lock");
    let unusable = |error: std::io::Error| {
        Error::environment(format!("{} cannot be locked: {error}", file.display()))
    };
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .map_err(unusable)?;
    if lock.try_lock().is_err() {
        progress("waiting for another install of the compiler");
        lock.lock().map_err(unusable)?;
    }
    Ok(lock)
}

impl Package {
    fn install(&self, cache: &Cache, progress: &dyn Fn(&str), search: &Search) -> Result<()> {
        if self.installed(cache)?.is_none() {
            let dir = cache.dir(DIR)?;
            let lock = lock(&dir, progress)?;
            // Whoever held the lock may have done it.
            if self.installed(cache)?.is_none() {
                self.fetch(&dir, progress, search)?;
            }
            drop(lock);
        }
        Ok(())
    }

    fn fetch(&self, dir: &Path, progress: &dyn Fn(&str), search: &Search) -> Result<()> {
        let installer = Installer::find(search)?;
        let unwritable = |error: std::io::Error| {
            Error::Environment(
                Diagnostic::new(format!(
                    "the compiler cannot be written to {}: {error}",
                    dir.display()
                ))
                .help("set GATEKEEPER_CACHE to a directory with 500 MB free"),
            )
        };
        // Left by an install that was killed: the lock is ours, so none is in use.
        for entry in std::fs::read_dir(dir).map_err(unwritable)? {
            let path = entry.map_err(unwritable)?.path();
            let name = path.file_name().unwrap_or_default();
            if name
                .as_encoded_bytes()
                .starts_with(temporary::PREFIX.as_bytes())
            {
                std::fs::remove_dir_all(&path).map_err(unwritable)?;
            }
        }
        let staging = TemporaryDir::new_in(dir).map_err(unwritable)?;
        let new = staging.path().join("new");
        let temporary = staging.path().join("tmp");
        std::fs::create_dir(&temporary).map_err(unwritable)?;

        progress(&format!(
            "installing {} {} ({})",
            self.what, self.version, self.size
        ));
        fetch_wheels(&installer, self.wheels, &new, &temporary, progress)?;

        let mut complete = Complete {
            files: BTreeMap::new(),
        };
        list(&new, &new, &mut complete.files).map_err(unwritable)?;
        let marker = serde_json::to_vec(&complete)
            .map_err(|error| Error::environment(format!("{MARKER}: {error}")))?;
        std::fs::write(new.join(MARKER), marker).map_err(unwritable)?;
        if !self.is_complete(&new) {
            return Err(Error::Environment(
                Diagnostic::new(format!(
                    "the wheels contain no {TOOLKIT}/{} for this platform",
                    self.program
                ))
                .help("install CUDA 13 by hand and put nvcc on PATH"),
            ));
        }

        let home = dir.join(self.home_name());
        if home.exists() {
            // Damaged, or `installed` would have found it. Moved first: a removal can be interrupted.
            std::fs::rename(&home, staging.path().join("damaged")).map_err(unwritable)?;
        }
        std::fs::rename(&new, &home).map_err(unwritable)?;
        progress(&format!("installed {} {}", self.what, self.version));
        Ok(())
    }
}

fn list(root: &Path, dir: &Path, files: &mut BTreeMap<String, u64>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let meta = path.metadata()?;
        if meta.is_dir() {
            list(root, &path, files)?;
        } else if let Ok(relative) = path.strip_prefix(root) {
            files.insert(relative.to_string_lossy().into_owned(), meta.len());
        }
    }
    Ok(())
}

/// What fetches wheels.
enum Installer {
    /// A python that has it.
    Pip(PathBuf),
    Uv(PathBuf),
}

impl Installer {
    /// The environments that uv makes have a python without pip, and are the first on PATH in what it runs (`uvx`): then
    /// another python has one, or uv is there.
    fn find(search: &Search) -> Result<Self> {
        let mut first = None;
        for python in search.all_of("python3") {
            let mut pip = Command::new(&python);
            pip.args(["-m", "pip", "--version"]);
            match output_of(pip) {
                Ok(_) => return Ok(Self::Pip(python)),
                Err(why) => drop(first.get_or_insert((python, why))),
            }
        }
        if let Some(uv) = search.program("uv") {
            return Ok(Self::Uv(uv));
        }
        let (wrong, help) = match first {
            None => (
                "--provision needs python3 with pip, and there is no python3 on PATH".to_owned(),
                "install it, for example `apt-get install python3-pip`",
            ),
            Some((python, why)) => (
                format!(
                    "--provision needs pip, and {} has none ({})",
                    python.display(),
                    why.lines().last().unwrap_or_default()
                ),
                "install it, for example `apt-get install python3-pip` or `python3 -m ensurepip`",
            ),
        };
        Err(Error::Environment(
            Diagnostic::new(wrong)
                .help(help)
                .help("or install CUDA 13 by hand and put nvcc on PATH"),
        ))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Pip(_) => "pip",
            Self::Uv(_) => "uv",
        }
    }

    /// Where one sets a mirror.
    fn mirrors(&self) -> &'static str {
        match self {
            Self::Pip(_) => "check the network, or set PIP_INDEX_URL or PIP_FIND_LINKS to a mirror",
            Self::Uv(_) => {
                "check the network, or set UV_DEFAULT_INDEX or UV_FIND_LINKS to a mirror"
            }
        }
    }

    /// In the user's own environment: how this machine finds its packages (index, proxy, certificates) and
    /// its python (pyenv, conda) is the user's to say.
    fn command(&self) -> Command {
        let wheels_alone = ["--no-deps", "--only-binary", ":all:"];
        match self {
            Self::Pip(python) => {
                let mut command = Command::new(python);
                command
                    // Each of these makes pip refuse --target.
                    .env("PIP_USER", "0")
                    .env("PIP_REQUIRE_VIRTUALENV", "0")
                    .env("PYTHONDONTWRITEBYTECODE", "1")
                    .args(["-m", "pip", "install"])
                    .args(wheels_alone)
                    .args(["--no-cache-dir", "--no-compile", "--no-input"])
                    .args(["--disable-pip-version-check", "--progress-bar", "off"]);
                command
            }
            Self::Uv(uv) => {
                let mut command = Command::new(uv);
                command
                    .args(["pip", "install"])
                    .args(wheels_alone)
                    .args(["--no-cache", "--no-progress"]);
                command
            }
        }
    }
}

/// What a line of pip's output says of how far it is.
fn step(line: &str, downloads: &mut usize, of: usize) -> Option<String> {
    if line.starts_with("Installing collected") {
        return Some("unpacking".to_owned());
    }
    // `Downloading https://.../nvidia_nvvm-13.0.88-py3-none-any.whl (61.2 MB)`
    let (file, size) = line.strip_prefix("Downloading ")?.rsplit_once(" (")?;
    let package = file.rsplit('/').next()?.split('-').next()?;
    if !file.ends_with(".whl") {
        return None;
    }
    *downloads += 1;
    let size = size.trim_end_matches(')');
    Some(format!(
        "downloading {package}, {size} ({downloads} of {})",
        of
    ))
}

fn fetch_wheels(
    installer: &Installer,
    wheels: &[&str],
    target: &Path,
    temporary: &Path,
    progress: &dyn Fn(&str),
) -> Result<()> {
    let mut command = installer.command();
    command
        .env("TMPDIR", temporary)
        .arg("--target")
        .arg(target)
        .args(wheels)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let failed = |why: &str| {
        let name = installer.name();
        Error::Environment(
            Diagnostic::new(format!("{name} could not install the compiler:\n{why}"))
                .help(installer.mirrors())
                .help("or install CUDA 13 by hand and put nvcc on PATH"),
        )
    };
    let mut child = command
        .spawn()
        .map_err(|error| failed(&error.to_string()))?;
    let errors = child.stderr.take().map(|mut stderr| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What could be read before a failure is still worth showing.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    });
    if let Some(stdout) = child.stdout.take() {
        let lines = BufReader::new(stdout).lines();
        let mut downloads = 0;
        for line in lines.map_while(std::io::Result::ok) {
            if let Some(told) = step(line.trim(), &mut downloads, wheels.len()) {
                progress(&told);
            }
        }
    }
    let status = child.wait().map_err(|error| failed(&error.to_string()))?;
    let errors = errors
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    if status.success() {
        return Ok(());
    }
    let lines: Vec<&str> = errors
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines.len().saturating_sub(6);
    Err(failed(&lines.get(last..).unwrap_or_default().join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pip_says_how_far_it_is() {
        let mut downloads = 0;
        let mut of = |line| step(line, &mut downloads, 5);
        assert_eq!(of("Collecting nvidia-nvvm==13.0.88"), None);
        let metadata = "Downloading nvidia_nvvm-13.0.88-py3-none-any.whl.metadata (1.7 kB)";
        assert_eq!(of(metadata), None);
        assert_eq!(
            of("Downloading nvidia_nvvm-13.0.88-py3-none-any.whl (61.2 MB)").as_deref(),
            Some("downloading nvidia_nvvm, 61.2 MB (1 of 5)")
        );
        assert_eq!(
            of("Downloading https://mirror/a/nvidia_cuda_crt-13.0.88-py3-none-any.whl (118 kB)")
                .as_deref(),
            Some("downloading nvidia_cuda_crt, 118 kB (2 of 5)")
        );
        let unpacking = of("Installing collected packages: nvidia-nvvm, nvidia-cuda-crt");
        assert_eq!(unpacking.as_deref(), Some("unpacking"));
    }
}
