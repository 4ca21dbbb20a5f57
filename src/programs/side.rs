//! The surroundings of one side's programs: a directory with the side's tree, with everything that its programs make,
//! and with its own Python. Neither side can find what the other made.

use super::Setting;
use super::kept::{self, Kept};
use super::tree::{self, Age};
use crate::logging;
use config::Program;
use pipeline::FileIsolation;
use records::repo;
use run::rivals::TOLD;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use system::error::{Error, Result};
use system::process;
use system::process::confine::{self, Hidden, Metadata, Rules, Sockets};
use system::temporary::TemporaryDir;
use wording::escape::PRINTED;

/// Variables that a program may see in addition to those that a rival may see. They say which compilers build it, and
/// how.
const TOLD_TO_BUILDS: [&str; 6] = ["CC", "CXX", "CUDAHOSTCXX", "CMAKE_", "MAX_JOBS", "NVCC_"];

/// The variable that names the directory of a side, for builds that want to keep things apart.
const DIRECTORY: &str = "GATEKEEPER_PROGRAM_DIR";

/// Caches of compilers and libraries, by the variables that place them.
const CACHES: [(&str, &str); 7] = [
    ("XDG_CACHE_HOME", "cache"),
    ("CUDA_CACHE_PATH", "cache/cuda"),
    ("PYTHONPYCACHEPREFIX", "cache/python"),
    ("TORCH_EXTENSIONS_DIR", "cache/torch-extensions"),
    ("TORCHINDUCTOR_CACHE_DIR", "cache/torch-inductor"),
    ("TRITON_CACHE_DIR", "cache/triton"),
    ("TMPDIR", "tmp"),
];

/// The tree in the directory of a side.
const TREE: &str = "tree";

/// The deadline in ms for a program of the machine that is asked what it is.
const MOMENT_MS: u64 = 30_000;

/// The number of bytes at the end of a program's output in which its error is searched.
const LOG: u64 = 64 << 10;

/// The most lines of a program's output that are shown.
const MOST_LINES: usize = 12;

/// The largest file that it may write.
const LARGEST_FILE: u64 = 64 << 30;

/// A Python script that makes an environment over the one that runs it. The new one sees all packages of the old one,
/// and what a build installs goes into the new one alone.
const ENVIRONMENT: &str = r#"
import pathlib, sys, venv
target = pathlib.Path(sys.argv[1])
venv.create(target, system_site_packages=True, symlinks=True)
outer = [path for path in sys.path if pathlib.Path(path).name in ("site-packages", "dist-packages")]
(own,) = target.glob("lib/python*/site-packages")
(own / "outer.pth").write_text("".join(path + "\n" for path in outer))
for name in "pip", "pip3":
    pip = target / "bin" / name
    pip.write_text('#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n')
    pip.chmod(0o755)
"#;

/// The ways in which a command fails.
#[derive(Clone)]
pub enum Failure {
    /// The program of the command does not exist.
    Missing(String),
    /// The reason and the last lines of output, such as `failed (exit code 1): ImportError: no x`.
    Ended(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(program) => write!(f, "cannot be started: there is no {program}"),
            Self::Ended(said) => f.write_str(said),
        }
    }
}

/// The output of a command that succeeded, or how it failed.
pub type Ended = std::result::Result<String, Failure>;

pub struct ProgramSide {
    name: &'static str,
    /// The directory with its tree and with everything that its programs make.
    dir: TemporaryDir,
    /// The directory of gates.yaml in the tree.
    below: PathBuf,
    /// The digest of the tree at the time of copying.
    pub tree: String,
    /// Head's tree, if this is the base: the base's programs must not read it.
    hidden: Option<Hidden>,
    trusted: bool,
    /// The place where builds are kept for later runs, or `None` if another run uses it.
    kept: Option<Kept>,
    /// True if an earlier run built everything.
    pub is_taken: bool,
}

impl fmt::Display for ProgramSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl ProgramSide {
    /// Copies the working tree, without what git ignores, so that a stranger's program writes to no checkout.
    pub fn head(root: &Path, programs: &[Program], setting: &Setting) -> Result<Self> {
        let root = absolute(root)?;
        let top = repo::top(&root).map(|top| real(&top));
        let checkout = top.as_ref().unwrap_or(&root);
        let below = root.strip_prefix(checkout).unwrap_or(Path::new(""));
        Self::make("head's", checkout, below, programs, setting, |tree| {
            if top.is_ok() {
                tree::copy_these(checkout, &repo::present(checkout)?, tree)
            } else {
                tree::copy(checkout, tree, Age::Old)
            }
            .map_err(|error| cannot_write(tree, error))
        })
    }

    /// Copies the base's tree, because other runs use the tree itself. The base's programs cannot read head's tree,
    /// except for their own directory and Python's.
    pub fn base(
        root: &Path,
        apart: &FileIsolation,
        programs: &[Program],
        setting: &Setting,
    ) -> Result<Self> {
        let below = root.strip_prefix(&apart.top).unwrap_or(Path::new(""));
        let hidden = real(&apart.head_top);
        let mut side = Self::make("the base's", &hidden, below, programs, setting, |tree| {
            tree::copy(&apart.top, tree, Age::Old).map_err(|error| cannot_write(tree, error))
        })?;
        let pythons = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(read_variable);
        let inside = pythons
            .into_iter()
            .flatten()
            .chain([side.dir.path().to_owned()])
            .map(|dir| real(&dir));
        side.hidden = Some(Hidden {
            but: inside
                .filter(|path| path.starts_with(&hidden) && *path != hidden)
                .collect(),
            dir: hidden,
        });
        Ok(side)
    }

    /// Makes the directory of a side. `checkout` is the top of head's files, and `below` is the directory of gates.yaml
    /// relative to the top of this side's files.
    fn make(
        name: &'static str,
        checkout: &Path,
        below: &Path,
        programs: &[Program],
        setting: &Setting,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Self> {
        // The scratch directory is the only place that belongs to neither tree.
        let scratch = setting.cache.dir("scratch")?;
        let dir = TemporaryDir::new_in(&scratch).map_err(|error| cannot_write(&scratch, error))?;
        let tree = dir.path().join(TREE);
        fill(&tree)?;
        let mut side = Self {
            name,
            below: below.to_owned(),
            tree: tree::digest(&tree).map_err(|error| cannot_write(&tree, error))?,
            dir,
            hidden: None,
            trusted: setting.trusted,
            kept: None,
            is_taken: false,
        };
        let key = kept::find_key(&side, checkout, programs, setting)?;
        if let Some((kept, dir)) = key.and_then(|key| Kept::open(setting.cache, key)) {
            let failed = |error| cannot_write(dir.path(), error);
            fs::rename(&tree, dir.path().join(TREE)).map_err(failed)?;
            side.is_taken = !setting.fresh && kept.take(dir.path()).map_err(failed)?;
            side.dir = dir;
            side.kept = Some(kept);
        }
        for (_, place) in CACHES {
            side.make_dir(place)?;
        }
        Ok(side)
    }

    /// Returns true if this side's tree has exactly the files of another tree.
    pub fn has_tree(&self, other: &Path) -> bool {
        tree::digest(other).is_ok_and(|digest| digest == self.tree)
    }

    /// Copies what the builds made, for later runs. If the cache cannot be written, the next run has to build again.
    pub fn stage(&self, is_built: bool) -> Option<TemporaryDir> {
        let kept = self.kept.as_ref().filter(|_| !self.is_taken)?;
        kept.stage(self.dir.path(), is_built).ok()
    }

    /// Keeps what was staged, and what the programs compiled.
    pub fn keep(&self, staged: &TemporaryDir) {
        if let Some(kept) = &self.kept {
            let _ = kept.keep(staged, self.dir.path());
        }
    }

    /// Returns the variables of this process that its programs see, but for what only the log depends on.
    pub fn variables(&self) -> BTreeMap<OsString, OsString> {
        std::env::vars_os()
            .filter(|(name, _)| self.trusted || confine::is_told(name, &told()))
            .filter(|(name, _)| name != logging::VARIABLE)
            .collect()
    }

    /// Returns what a program of the machine prints, or how it failed.
    pub fn ask(&self, words: &[&str]) -> Result<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut command = self.command(&words)?;
        command.current_dir("/");
        let ended = self.run(command, MOMENT_MS)?;
        Ok(ended.unwrap_or_else(|failure| failure.to_string()))
    }

    /// Makes a directory in this side's directory.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.path().join(name);
        fs::create_dir_all(&dir).map_err(|error| cannot_write(&dir, error))?;
        Ok(dir)
    }

    /// Runs the command that builds a program.
    pub fn build(&self, words: &[String], deadline_ms: u64) -> Result<Ended> {
        if !self.environment().is_dir() {
            self.make_environment(deadline_ms)?;
        }
        self.run(self.command(words)?, deadline_ms)
    }

    fn environment(&self) -> PathBuf {
        self.dir.path().join("venv")
    }

    /// Makes an environment for Python. A machine without Python builds without one.
    fn make_environment(&self, deadline_ms: u64) -> Result<()> {
        let mut python = Command::new("python3");
        python.args(["-I", "-c", ENVIRONMENT]);
        python.arg(self.environment()).current_dir("/");
        match self.run(python, deadline_ms)? {
            Ok(_) | Err(Failure::Missing(_)) => Ok(()),
            Err(said) => Err(Error::environment(format!(
                "a Python environment for {self} programs cannot be made: {said}"
            ))),
        }
    }

    /// Returns a command that runs in the directory of gates.yaml and in this side's surroundings.
    pub fn command(&self, words: &[String]) -> Result<Command> {
        let [program, arguments @ ..] = words else {
            return Err(Error::usage("it has no command"));
        };
        let root = self.dir.path().join(TREE).join(&self.below);
        // A name without a slash is looked for in PATH.
        let mut command = if program.contains('/') {
            Command::new(root.join(program))
        } else {
            Command::new(program)
        };
        command.args(arguments).current_dir(&root);
        if !self.trusted {
            confine::tell(&mut command, &told());
        }
        for (variable, place) in CACHES {
            command.env(variable, self.dir.path().join(place));
        }
        command.env(DIRECTORY, self.dir.path());
        // With this variable, the host's part of a launch would be in the times.
        command.env_remove("CUDA_LAUNCH_BLOCKING");
        let environment = self.environment();
        if environment.is_dir() {
            let programs = environment.join("bin");
            let path = std::env::var_os("PATH").unwrap_or_default();
            let all = [programs].into_iter().chain(std::env::split_paths(&path));
            let all = std::env::join_paths(all);
            command.env(
                "PATH",
                all.map_err(|error| Error::environment(error.to_string()))?,
            );
            command.env("VIRTUAL_ENV", environment);
        }
        Ok(command)
    }

    /// Runs a command in its confinement.
    ///
    /// # Errors
    /// Environment, if it cannot be confined.
    pub fn run(&self, command: Command, deadline_ms: u64) -> Result<Ended> {
        let rules = Rules {
            writes: &[self.dir.path(), Path::new("/dev")],
            hidden: self.hidden.as_ref(),
            sockets: Sockets::Local,
            metadata: Metadata::Changed,
            // The memory is not limited, because a CUDA process reserves more than the machine has.
            memory: None,
            file: Some(LARGEST_FILE),
        };
        let program = command.get_program().to_string_lossy().into_owned();
        let deadline = Duration::from_millis(deadline_ms);
        let ended = if self.trusted {
            process::run(command, deadline, LOG)
        } else {
            process::run_confined(command, &rules, deadline, LOG)
        };
        Ok(match ended {
            Ok(Some(ended)) if ended.status.success() => Ok(ended.log),
            Ok(Some(ended)) => Err(Failure::Ended(describe(&ended))),
            Ok(None) => Err(Failure::Ended(format!(
                "did not end within {} s, and was killed",
                deadline.as_secs()
            ))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Failure::Missing(program))
            }
            Err(error) => Err(Failure::Ended(format!("cannot be started: {error}"))),
        })
    }
}

/// Says how a program ended and its error, and then its last lines as it printed them.
fn describe(ended: &process::Ended) -> String {
    let how = process::how(ended.status);
    // A progress bar overwrites its own line.
    let lines: Vec<&str> = ended
        .log
        .trim_end()
        .lines()
        .filter_map(|line| line.rsplit('\r').next())
        .collect();
    let Some(error) = find_error(&lines) else {
        return format!("failed ({how})");
    };
    let last = lines.get(lines.len().saturating_sub(MOST_LINES)..);
    let last = last.filter(|last| *last != [error]).unwrap_or_default();
    std::iter::once(format!("failed ({how}): {}", error.trim()))
        .chain(last.iter().map(|line| format!("{PRINTED}{line}")))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the line of the last exception that Python did not catch, or else the last line. More lines may follow an
/// exception, such as the program's own output and warnings at exit.
fn find_error<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let raised = lines
        .iter()
        .rposition(|line| line.starts_with("Traceback (most recent call last):"))
        .and_then(|at| lines.get(at + 1..))
        .and_then(|after| after.iter().find(|line| !line.starts_with(' ')));
    raised.or(lines.last()).copied()
}

fn told() -> Vec<&'static str> {
    [&TOLD[..], &TOLD_TO_BUILDS].concat()
}

fn read_variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(PathBuf::from(value))
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let found = path.canonicalize();
    found.map_err(|error| Error::at_path(path, error))
}

fn cannot_write(path: &Path, error: std::io::Error) -> Error {
    Error::unwritten(path.display(), error).help("set GATEKEEPER_CACHE to another directory")
}
