//! Installs compilers from NVIDIA's wheels into the cache.
//!
//! pip and uv are not confined, because they need the network and the user's settings for it. Therefore nothing of a
//! checkout may reach them, and whichever mirror answers, only wheels with these digests are installed.

use super::releases::{self, can_be_installed, compare_versions, is_version};
use super::{Search, Toolchain, index, output_of, probe};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;
use system::process::helper;
use system::temporary::{self, TemporaryDir};

/// Wheels that are installed together, in a directory of their own.
pub(super) struct Package {
    what: &'static str,
    /// The name of the directory, before the version.
    name: &'static str,
    version: String,
    /// The requirements file for pip: each wheel with its version and digests.
    requirements: String,
    /// The program that the package must contain to count as installed.
    program: &'static str,
    size: &'static str,
    /// The way in which a user can get it without an installer.
    by_hand: &'static str,
}

/// nvdisasm, which disassembles machine code for `explain`. It has a place of its own, because nothing else needs it.
/// The first wheel belongs to CUDA 13.2, and each reads the machine code of all CUDA releases before it.
const DISASSEMBLER: &str = "nvidia-cuda-nvdisasm==13.5.37 \
--hash=sha256:d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca \
--hash=sha256:a3a8248074edb9fba63b74c38a5416b712a91ab09e70b8ab37186c3d293fc605\n";

impl Package {
    /// Returns the package of a CUDA compiler. `version` is the version of its nvcc.
    pub(super) fn compiler(version: String, requirements: String) -> Self {
        Self {
            what: "CUDA",
            name: COMPILER,
            version,
            requirements,
            program: "bin/nvcc",
            size: "105 to 130 MB to fetch, up to 350 MB on disk",
            by_hand: "install CUDA 13 by hand and put nvcc on PATH",
        }
    }

    fn disassembler() -> Self {
        Self {
            what: "nvdisasm",
            name: "nvdisasm",
            version: "13.5.37".to_owned(),
            requirements: DISASSEMBLER.to_owned(),
            program: "bin/nvdisasm",
            size: "5 MB to fetch, 6 MB on disk",
            by_hand: "install CUDA 13 by hand and put nvdisasm on PATH",
        }
    }
}

/// The beginning of the names of directories of compilers.
const COMPILER: &str = "cuda";
/// The directory of compilers in the cache.
pub(super) const DIR: &str = "toolchains";
/// The directory in which the wheels put the toolkit.
const TOOLKIT: &str = "nvidia/cu13";
/// The file that is written last. An install without it is not complete.
const MARKER: &str = "complete.json";

/// Size of every file of an install, by path relative to it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Complete {
    files: BTreeMap<String, u64>,
}

impl Package {
    /// Returns the name of its directory.
    fn home_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// Returns its program if it is installed completely.
    fn installed(&self, cache: &Cache) -> Result<Option<PathBuf>> {
        let dir = cache.layered(DIR)?;
        let whole = dir
            .places(&self.home_name())
            .find(|home| self.is_complete(home))
            .inspect(|home| dir.touch(home));
        Ok(whole.map(|home| home.join(TOOLKIT).join(self.program)))
    }

    /// Returns true if the marker lists the program and all files have the sizes in it. Contents are not read here,
    /// because the toolchain's digest covers the parts that compile.
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

/// A compiler in the cache that is whole.
pub struct Installed {
    /// The version of the compiler's nvcc.
    pub version: String,
    pub nvcc: PathBuf,
}

/// Lists the installed compilers for which `is_meant` is true, the newest first.
///
/// # Errors
/// Environment, if the cache cannot be read.
pub fn list_installed(cache: &Cache, is_meant: &dyn Fn(&str) -> bool) -> Result<Vec<Installed>> {
    let mut versions = Vec::new();
    for dir in cache.layered(DIR)?.places("") {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = name
                .strip_prefix(COMPILER)
                .and_then(|digits| digits.strip_prefix('-'));
            let version = version.filter(|version| is_version(version) && is_meant(version));
            versions.extend(version.map(str::to_owned));
        }
    }
    versions.sort_by(|a, b| compare_versions(b, a));
    versions.dedup();
    let mut all = Vec::new();
    for version in versions {
        let package = Package::compiler(version, String::new());
        if let Some(nvcc) = package.installed(cache)? {
            let version = package.version;
            all.push(Installed { version, nvcc });
        }
    }
    Ok(all)
}

/// Returns nvdisasm if it is installed completely.
pub(super) fn installed_disassembler(cache: &Cache) -> Result<Option<PathBuf>> {
    Package::disassembler().installed(cache)
}

/// Installs the newest CUDA compiler of this version into the cache unless it is there. If two processes install at
/// once, one waits for the other. `progress` gets one line at a time.
///
/// # Errors
/// Usage, if there is no such version. Environment: no host compiler, no python3, no pip, pip failed, or the cache
/// cannot be written.
pub fn install(version: &str, cache: &Cache, progress: &dyn Fn(&str)) -> Result<Toolchain> {
    install_in(version, cache, progress, &Search::from_environment())
}

pub(super) fn install_in(
    version: &str,
    cache: &Cache,
    progress: &dyn Fn(&str),
    search: &Search,
) -> Result<Toolchain> {
    if !can_be_installed(version) {
        return Err(Error::usage(format!(
            "CUDA {version} cannot be installed: PyPI has whole compilers from 13.0 on"
        ))
        .help("`gatekeeper toolchain list` shows them")
        .help(format!(
            "or install CUDA {version} as NVIDIA offers it, and name its directory: --toolchain /usr/local/cuda-{version}"
        )));
    }
    // Said before anything is fetched.
    let host_compiler = search.host_compiler()?;
    let package = match releases::newest(version) {
        Some(known) => Package::compiler(known.version.to_owned(), known.requirements.to_owned()),
        None => {
            let named = Package::compiler(version.to_owned(), String::new());
            match named.installed(cache)? {
                Some(_) => named,
                None => index::ask(version, cache, progress, search)?,
            }
        }
    };
    package.install(cache, progress, search)?;
    let nvcc = package.installed(cache)?.ok_or_else(|| {
        Error::environment(format!(
            "CUDA {} is gone from the cache again",
            package.version
        ))
    })?;
    probe::probe(&nvcc, probe::nvcc_version(&nvcc)?, &host_compiler, cache)
}

/// Installs nvdisasm into the cache unless there is one.
///
/// # Errors
/// As of [`install`].
pub fn install_disassembler(cache: &Cache, progress: &dyn Fn(&str)) -> Result<()> {
    Package::disassembler().install(cache, progress, &Search::from_environment())
}

/// Locks a directory until the file is dropped. The kernel releases the lock if the process dies.
pub(super) fn lock(dir: &Path, what: &str, progress: &dyn Fn(&str)) -> Result<File> {
    let file = dir.join("install.lock");
    let unusable = |error: std::io::Error| {
        Error::environment(format!("{} cannot be locked: {error}", file.display())).caused_by(error)
    };
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .map_err(unusable)?;
    if lock.try_lock().is_err() {
        progress(&format!("waiting for another install, to install {what}"));
        lock.lock().map_err(unusable)?;
    }
    Ok(lock)
}

impl Package {
    fn install(&self, cache: &Cache, progress: &dyn Fn(&str), search: &Search) -> Result<()> {
        if self.installed(cache)?.is_none() {
            let dir = cache.dir(DIR)?;
            let lock = lock(&dir, self.what, progress)?;
            // Another process may have installed it while this one waited for the lock.
            if self.installed(cache)?.is_none() {
                self.fetch(&dir, progress, search)?;
            }
            drop(lock);
        }
        Ok(())
    }

    fn fetch(&self, dir: &Path, progress: &dyn Fn(&str), search: &Search) -> Result<()> {
        let installer = Installer::find(search, self.what, self.by_hand)?;
        let unwritable = |error: std::io::Error| {
            Error::environment(format!(
                "{} cannot be written to {}: {error}",
                self.what,
                dir.display()
            ))
            .caused_by(error)
            .help("set GATEKEEPER_CACHE to a directory with 500 MB free")
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
        let requirements = staging.path().join("requirements.txt");
        std::fs::write(&requirements, &self.requirements).map_err(unwritable)?;
        let mut command = installer.command();
        command
            .env("TMPDIR", &temporary)
            .arg("--target")
            .arg(&new)
            .arg("--requirement")
            .arg(&requirements);
        self.fetch_wheels(&installer, command, progress)?;

        let mut complete = Complete {
            files: BTreeMap::new(),
        };
        list(&new, &new, &mut complete.files).map_err(unwritable)?;
        let marker = serde_json::to_vec(&complete)
            .map_err(|error| Error::environment(format!("{MARKER}: {error}")).caused_by(error))?;
        std::fs::write(new.join(MARKER), marker).map_err(unwritable)?;
        if !self.is_complete(&new) {
            return Err(Error::environment(format!(
                "the wheels contain no {TOOLKIT}/{} for this platform",
                self.program
            ))
            .help(self.by_hand));
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

/// The program that downloads and unpacks wheels.
pub(super) enum Installer {
    /// The path of a python that has pip.
    Pip(PathBuf),
    Uv(PathBuf),
}

impl Installer {
    /// Finds an installer. An environment made by uv has a python without pip, which is first on PATH in programs that
    /// uv runs (`uvx`). In that case another python has pip, or uv itself is used.
    pub(super) fn find(search: &Search, what: &str, by_hand: &str) -> Result<Self> {
        let mut first = None;
        for python in search.all_of("python3") {
            let mut pip = isolated(&python);
            pip.args(["-m", "pip", "--version"]);
            match output_of(pip) {
                Ok(_) => return Ok(Self::Pip(python)),
                Err(error) => drop(first.get_or_insert((python, error.to_string()))),
            }
        }
        if let Some(uv) = search.program("uv") {
            return Ok(Self::Uv(uv));
        }
        let (wrong, help) = match first {
            None => (
                format!(
                    "installing {what} needs python3 with pip, and there is no python3 on PATH"
                ),
                "install it, for example `apt-get install python3-pip`",
            ),
            Some((python, why)) => (
                format!(
                    "installing {what} needs pip, and {} has none ({})",
                    python.display(),
                    why.lines().last().unwrap_or_default()
                ),
                "install it, for example `apt-get install python3-pip` or `python3 -m ensurepip`",
            ),
        };
        Err(Error::environment(wrong)
            .help(help)
            .help(format!("or {by_hand}")))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Pip(_) => "pip",
            Self::Uv(_) => "uv",
        }
    }

    /// Returns the advice that names the installer's settings for a mirror.
    pub(super) fn mirrors(&self) -> &'static str {
        match self {
            Self::Pip(_) => "check the network, or set PIP_INDEX_URL or PIP_FIND_LINKS to a mirror",
            Self::Uv(_) => {
                "check the network, or set UV_DEFAULT_INDEX or UV_FIND_LINKS to a mirror"
            }
        }
    }

    /// Returns a command with the user's own settings for the network, because only the user knows how this machine
    /// finds its packages (index, proxy, certificates). Settings that would change what is installed, or by what, are
    /// left out.
    fn command(&self) -> Command {
        let wheels_alone = ["--no-deps", "--only-binary", ":all:", "--require-hashes"];
        match self {
            Self::Pip(python) => {
                let mut command = pip(python);
                command
                    .arg("install")
                    .args(wheels_alone)
                    .args(["--no-cache-dir", "--no-compile", "--no-input"])
                    .args(["--progress-bar", "off"]);
                command
            }
            Self::Uv(uv) => {
                let mut command = helper::command(uv);
                told(&mut command, "UV_", &UV_SETTINGS);
                command
                    .args(["pip", "install"])
                    .args(wheels_alone)
                    // uv's settings of a project would be the checkout's.
                    .args(["--no-config", "--no-cache", "--no-progress"]);
                command
            }
        }
    }
}

/// Variables that tell pip about the network, by how their names begin.
const PIP_SETTINGS: [&str; 12] = [
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_KEYRING_PROVIDER",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_RETRIES",
    "PIP_TRUSTED_HOST",
];

const UV_SETTINGS: [&str; 12] = [
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_HTTP_",
    // These variables can have names and passwords, as `UV_INDEX_NAME_PASSWORD`.
    "UV_INDEX",
    "UV_INSECURE_HOST",
    "UV_KEYRING_PROVIDER",
    "UV_NATIVE_TLS",
    "UV_NO_INDEX",
    "UV_OFFLINE",
    // The directory in which uv keeps its own pythons.
    "UV_PYTHON_",
    "UV_SYSTEM_CERTS",
];

/// Removes the variables that steer a program, but for those that begin with one of `kept`.
fn told(command: &mut Command, program: &str, kept: &[&str]) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with(program)
            && !kept
                .iter()
                .any(|other_program| text.starts_with(other_program))
        {
            command.env_remove(&name);
        }
    }
}

/// Returns a command for pip with the user's settings for the network and no other settings.
pub(super) fn pip(python: &Path) -> Command {
    let mut command = isolated(python);
    told(&mut command, "PIP_", &PIP_SETTINGS);
    command
        // Each of these makes pip refuse --target, and may be in the user's own file.
        .env("PIP_USER", "0")
        .env("PIP_REQUIRE_VIRTUALENV", "0")
        .args(["-m", "pip", "--disable-pip-version-check"]);
    command
}

/// Returns a command for a python that imports nothing from its working directory, from `PYTHONPATH` or from the user's
/// own packages, and writes no bytecode.
fn isolated(python: &Path) -> Command {
    let mut command = helper::command(python);
    command.args(["-I", "-B"]);
    command
}

/// Returns the progress that a line of pip's output shows.
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

impl Package {
    fn fetch_wheels(
        &self,
        installer: &Installer,
        mut command: Command,
        progress: &dyn Fn(&str),
    ) -> Result<()> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let failed = |why: &str| {
            let name = installer.name();
            Error::environment(format!("{name} could not install {}:\n{why}", self.what))
                .help(installer.mirrors())
                .help(format!("or {}", self.by_hand))
        };
        let mut child = command
            .spawn()
            .map_err(|error| failed(&error.to_string()))?;
        let errors = child.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                // The part that could be read before a failure is still worth showing.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        if let Some(stdout) = child.stdout.take() {
            let lines = BufReader::new(stdout).lines();
            let mut downloads = 0;
            for line in lines.map_while(std::io::Result::ok) {
                if let Some(told) = step(
                    line.trim(),
                    &mut downloads,
                    self.requirements.lines().count(),
                ) {
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
