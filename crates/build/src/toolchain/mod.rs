//! Finds nvcc, its host compiler and the profiler, identifies them, and installs a compiler on a machine that has none.
//!
//! It may know nothing of gates.yaml except the pinned version, and nothing of kernels.

mod breakage;
mod choice;
mod compose;
mod digests;
mod disassembler;
mod index;
mod install;
mod parts;
mod probe;
mod profiler;
mod releases;
mod sanitizer;
#[doc(hidden)]
pub mod testing;

pub use breakage::find_breakage;
pub use choice::{Choice, CompilerOrigin};
pub use digests::ProgramDigests;
pub use disassembler::{Disassembler, find_disassembler};
pub use index::list_offered;
pub use install::{Installed, install, install_disassembler, list_installed};
pub use parts::{CompilerPart, find_parts, list_architectures, version_in};
pub use profiler::{Profiler, find_profiler, may_read_counters};
pub use releases::{Release, compare_versions, is_version, known_releases, sort_versions};
pub use sanitizer::{Sanitizer, find_sanitizer};

use model::CompilerFacts;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use system::cache::Cache;
use system::error::{Diagnostic, Error, Result};
use system::process::helper::is_executable;
use system::process::{self, helper};

/// A CUDA compiler that was found complete, with the host compiler that it will use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    pub nvcc: PathBuf,
    pub host_compiler: PathBuf,
    pub facts: CompilerFacts,
    /// The directory of the toolkit's own headers.
    pub include: PathBuf,
    /// The directory of libcudart_static.a. nvcc itself looks only in `lib64`, which the wheels do not have.
    pub library_dir: Option<PathBuf>,
    /// The paths of its nvcc, cicc and ptxas without links. They may belong to several toolkits.
    pub programs: Vec<PathBuf>,
}

impl Toolchain {
    /// Returns the first number of the release: `13`.
    pub fn major(&self) -> &str {
        self.facts.version.split('.').next().unwrap_or_default()
    }

    /// Returns the directories that are the compilers' own, wherever they are installed, and the compilers themselves.
    pub fn places(&self) -> Vec<PathBuf> {
        let mut programs = self.programs.clone();
        programs.extend(self.host_compiler.canonicalize());
        // `PREFIX/bin/nvcc`
        let mut places: Vec<PathBuf> = programs
            .iter()
            .filter_map(|program| Some(program.parent()?.parent()?.to_owned()))
            .collect();
        places.extend(programs);
        places.push(self.include.clone());
        places.extend(self.include.canonicalize().ok());
        places.extend(self.library_dir.clone());
        places
    }
}

/// The CUDA release that is installed if nobody names one.
pub const PROVIDED: &str = "13.0";

/// The places where compilers are searched, from the environment or made up by a test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search {
    /// The directories that PATH names, in order.
    pub path: Vec<PathBuf>,
    /// Roots of CUDA toolkits, in the order of preference.
    pub homes: Vec<PathBuf>,
    /// `NVCC_CCBIN`: the host compiler that the user wants.
    pub host_compiler: Option<PathBuf>,
}

impl Search {
    pub fn from_environment() -> Self {
        let set = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Self {
            path: helper::path_dirs(),
            homes: [set("CUDA_HOME"), set("CUDA_PATH")]
                .into_iter()
                .flatten()
                // A relative one would be a directory of the checkout.
                .filter(|home| home.is_absolute())
                .chain([PathBuf::from("/usr/local/cuda")])
                .collect(),
            host_compiler: set("NVCC_CCBIN"),
        }
    }

    pub fn program(&self, name: &str) -> Option<PathBuf> {
        self.all_of(name).next()
    }

    /// Finds the programs of this name on PATH.
    fn all_of(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.path
            .iter()
            .map(move |dir| dir.join(name))
            .filter(|file| is_executable(file))
    }

    /// Finds the programs of CUDA toolkits: first on PATH, then below each root.
    fn programs(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.program(name).into_iter().chain(
            self.homes
                .iter()
                .map(move |home| home.join("bin").join(name))
                .filter(|file| is_executable(file)),
        )
    }

    /// Returns the host compiler.
    ///
    /// # Errors
    /// Environment, if there is none.
    pub fn host_compiler(&self) -> Result<PathBuf> {
        if let Some(wanted) = &self.host_compiler {
            let is_name = wanted.components().count() == 1 && wanted.is_relative();
            if !is_name && !wanted.is_absolute() {
                return Err(Error::environment(format!(
                    "NVCC_CCBIN names {}, which is relative: the checkout could hold that program",
                    wanted.display()
                ))
                .help(
                    "set NVCC_CCBIN to the whole path of a C++ compiler, or to its name on PATH",
                ));
            }
            let found = if is_name {
                wanted.to_str().and_then(|name| self.program(name))
            } else {
                Some(wanted.clone()).filter(|file| is_executable(file))
            };
            return found.ok_or_else(|| {
                Error::environment(format!(
                    "NVCC_CCBIN names {}, which is not a program",
                    wanted.display()
                ))
                .help("unset NVCC_CCBIN, or set it to a C++ compiler")
            });
        }
        ["g++", "c++", "clang++"]
            .into_iter()
            .find_map(|name| self.program(name))
            .ok_or_else(|| {
                Error::environment(
                        "no host compiler: nvcc needs a C++ compiler, and neither g++, c++ nor clang++ is on PATH",
                    )
                    .help("install one, for example `apt-get install g++`")
                    .help("or set NVCC_CCBIN to the path of one")
            })
    }
}

/// Returns the first compiler whose version is the pinned one. The provisioned release comes first, and nvcc of PATH,
/// CUDA_HOME, CUDA_PATH or /usr/local/cuda after it. Other installed releases come between the two if a version is
/// pinned, and last if not. `pin` is a version or the beginning of one (`13`, `13.0`, `13.0.88`).
///
/// # Errors
/// Environment: no nvcc, none of the pinned version, an incomplete one, or no host compiler.
pub fn find(pin: Option<&str>, cache: &Cache) -> Result<Toolchain> {
    find_in(pin, cache, &Search::from_environment())
}

pub(crate) fn find_in(pin: Option<&str>, cache: &Cache, search: &Search) -> Result<Toolchain> {
    find_version(pin, cache, search)?.map_err(|others| Error::Environment(missing(pin, &others)))
}

/// Returns the first compiler of a version, or the compilers that exist instead.
fn find_version(
    version: Option<&str>,
    cache: &Cache,
    search: &Search,
) -> Result<std::result::Result<Toolchain, Vec<String>>> {
    let is_wanted = |own: &str| version.is_none_or(|version| matches_pin(own, version));
    let is_provided = |own: &str| matches_pin(own, PROVIDED);
    let installed = |is_it: &dyn Fn(&str) -> bool| {
        let found = list_installed(cache, &|own| is_wanted(own) && is_it(own));
        found.map(|all| all.into_iter().map(|compiler| compiler.nvcc))
    };
    let mut candidates: Vec<PathBuf> = installed(&is_provided)?.collect();
    let others = installed(&|own| !is_provided(own))?;
    let found = search.programs("nvcc");
    // A run that names no version keeps using its compiler, even if another run has installed a newer one.
    match version {
        Some(_) => candidates.extend(others.chain(found)),
        None => candidates.extend(found.chain(others)),
    }
    let mut of_others = Vec::new();
    for nvcc in candidates {
        let own = probe::nvcc_version(&nvcc)?;
        if is_wanted(&own) {
            return probe::probe(&nvcc, own, &search.host_compiler()?, cache).map(Ok);
        }
        of_others.push(format!("{} is {own}", nvcc.display()));
    }
    Ok(Err(of_others))
}

fn missing(pin: Option<&str>, others: &[String]) -> Diagnostic {
    if let Some(pin) = pin.filter(|pin| !releases::is_supported(pin)) {
        let supported = releases::SUPPORTED;
        return Diagnostic::new(format!(
            "gates.yaml pins nvcc {pin}, which is too old: gatekeeper works with {supported}"
        ))
        .help("pin a newer release in gates.yaml");
    }
    let can_be_installed = pin.is_none_or(releases::can_be_installed);
    let message = match pin {
        None => "no CUDA compiler: nvcc is neither provisioned nor on PATH, in CUDA_HOME or in /usr/local/cuda".to_owned(),
        Some(pin) if others.is_empty() => {
            format!("no CUDA compiler: gates.yaml pins nvcc {pin}, which is neither provisioned nor on PATH, in CUDA_HOME or in /usr/local/cuda")
        }
        Some(pin) => format!("gates.yaml pins nvcc {pin}; {}", others.join("; ")),
    };
    let diagnostic = Diagnostic::new(message);
    let by_hand = pin.unwrap_or("13");
    if can_be_installed {
        diagnostic.help(format!(
            "run with --provision, or install CUDA {by_hand} and put nvcc on PATH"
        ))
    } else {
        diagnostic
            .help(format!("install CUDA {by_hand} and put its nvcc on PATH"))
            .help(format!(
                "or pin {PROVIDED} or newer in gates.yaml: --provision installs no older one"
            ))
    }
}

/// Returns the compiler that one side of a change asks for.
///
/// # Errors
/// Environment, if it does not exist, is incomplete, or consists of parts that cannot be combined.
pub fn find_choice(choice: &Choice, cache: &Cache) -> Result<Toolchain> {
    let search = Search::from_environment();
    let whole = match &choice.whole {
        Some(source) => find_source(source, cache, &search)?,
        None => find_in(None, cache, &search)?,
    };
    let parts: BTreeMap<_, _> = choice
        .parts
        .iter()
        .map(|(part, source)| Ok((*part, find_source(source, cache, &search)?)))
        .collect::<Result<_>>()?;
    compose::compose(whole, &parts, cache, &search)
}

fn find_source(source: &CompilerOrigin, cache: &Cache, search: &Search) -> Result<Toolchain> {
    match source {
        CompilerOrigin::Pin(pin) => find_in(Some(pin), cache, search),
        CompilerOrigin::Release(version) => find_version(Some(version), cache, search)?.map_err(|others| {
            let others = if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
            let help = if releases::can_be_installed(version) {
                format!("run with --provision, or once `gatekeeper toolchain install {version}`")
            } else {
                format!("name the directory of its toolkit instead, for example /usr/local/cuda-{version}")
            };
            Error::environment(format!(
                "CUDA {version} is neither installed nor on PATH, in CUDA_HOME or in /usr/local/cuda{others}"
            ))
            .help(help)
        }),
        CompilerOrigin::Home(home) => {
            let nvcc = home.join("bin/nvcc");
            let version = probe::nvcc_version(&nvcc)?;
            probe::probe(&nvcc, version, &search.host_compiler()?, cache)
        }
    }
}

/// Finds a compiler like [`find_choice`], and installs what is missing.
///
/// # Errors
/// Returns the errors of [`find_choice`] and [`install`].
pub fn provide(choice: &Choice, cache: &Cache, progress: &dyn Fn(&str)) -> Result<Toolchain> {
    let search = Search::from_environment();
    if choice.whole.is_none() && find_in(None, cache, &search).is_err() {
        install(PROVIDED, cache, progress)?;
    }
    for source in choice.sources() {
        let (CompilerOrigin::Pin(version) | CompilerOrigin::Release(version)) = source else {
            continue;
        };
        if !releases::can_be_installed(version) || find_source(source, cache, &search).is_ok() {
            continue;
        }
        match (install(version, cache, progress), source) {
            // It may be one that somebody has to install by hand: said by who looks for it.
            (Err(Error::Usage(_)), CompilerOrigin::Pin(_)) => {}
            (done, _) => drop(done?),
        }
    }
    find_choice(choice, cache)
}

/// Returns true if the version begins with the pinned one: `13.0` matches 13.0.88 and not 13.05.
fn matches_pin(version: &str, pin: &str) -> bool {
    let mut version = version.split('.');
    pin.split('.').all(|part| version.next() == Some(part))
}

/// Returns a command with a clean environment. Variables that steer nvcc or gcc (NVCC_APPEND_FLAGS, NVCC_PREPEND_FLAGS,
/// CPATH, CPLUS_INCLUDE_PATH, LIBRARY_PATH, ...) would change the artifact without changing its key in the cache, so
/// only what a compiler needs in order to start is passed on.
pub fn clean_command(program: &Path) -> Command {
    let mut command = helper::command(program);
    // A compiler that is a front end of ccache would write to its cache.
    command
        .env_clear()
        .env("LC_ALL", "C")
        .env("CCACHE_DISABLE", "1");
    let lists = ["PATH", "LD_LIBRARY_PATH"].map(|name| (name, helper::list(name)));
    let home = [("HOME", std::env::var_os("HOME"))];
    for (name, value) in lists.into_iter().chain(home) {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
}

/// The longest time that a tool may take to state its version. `MOST_OUTPUT` is the number of bytes of its answer that
/// are kept.
const DEADLINE: Duration = Duration::from_secs(120);
const MOST_OUTPUT: u64 = 1 << 20;

/// The reason for which a tool does not say what it is.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error("{how}: {log}")]
    Failed { how: String, log: String },
    #[error("it did not finish within {} s", DEADLINE.as_secs())]
    Late,
    #[error("{0}")]
    Start(#[source] std::io::Error),
    /// Its answer lacks what was asked for.
    #[error("{0}")]
    Answer(String),
}

/// Returns the output of a tool that ends quickly, both streams, because nvcc writes its dry run to stderr.
fn output_of(command: Command) -> std::result::Result<String, ToolError> {
    match process::run(command, DEADLINE, MOST_OUTPUT) {
        Ok(Some(ended)) if ended.status.success() => Ok(ended.log),
        Ok(Some(ended)) => Err(ToolError::Failed {
            how: process::how(ended.status),
            log: ended.log.trim().to_owned(),
        }),
        Ok(None) => Err(ToolError::Late),
        Err(error) => Err(ToolError::Start(error)),
    }
}

fn compiler(program: &Path, args: &[&str]) -> Command {
    let mut command = clean_command(program);
    command.args(args);
    command
}

#[cfg(test)]
pub(crate) mod tests;
