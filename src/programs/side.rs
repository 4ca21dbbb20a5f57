//! The surroundings of one side's programs: a directory of its own with its tree, with everything that they make, and with its
//! own Python. Neither side finds what the other made.

use super::Setting;
use pipeline::Apart;
use records::repo;
use run::rivals::TOLD;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use system::error::{Error, Result};
use system::files;
use system::process;
use system::process::confine::{self, Hidden, Metadata, Rules, Sockets};
use system::temporary::TemporaryDir;

/// Variables that a program may see in addition to what a rival may: which compilers build it, and how.
const TOLD_TO_BUILDS: [&str; 6] = ["CC", "CXX", "CUDAHOSTCXX", "CMAKE_", "MAX_JOBS", "NVCC_"];

/// The directory of one side, for what a build wants to keep apart.
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

/// How much of the end of a program's output is kept.
const LOG: u64 = 8 << 10;

/// The largest file that it may write.
const LARGEST_FILE: u64 = 64 << 30;

/// An environment over the one that runs this: it has all of its packages, and what a build installs goes into it alone.
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

/// How a command ended that is not right.
#[derive(Clone)]
pub enum Failure {
    /// There is no such program.
    Missing(String),
    /// `failed (exit code 1):` and the end of its output.
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

/// How a command ended.
type Ended = std::result::Result<(), Failure>;

pub struct Side {
    name: &'static str,
    /// Its tree, and all that its programs make.
    dir: TemporaryDir,
    /// The directory of gates.yaml in the tree.
    root: PathBuf,
    /// Head's tree, of the base.
    hidden: Option<Hidden>,
    trusted: bool,
    /// Commands that made programs, which are run once.
    built: Mutex<Vec<(Vec<String>, Ended)>>,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Side {
    /// A copy of the working tree, without what git ignores: a stranger's program writes to no checkout.
    pub fn head(root: &Path, setting: &Setting) -> Result<Self> {
        let root = absolute(root)?;
        Self::make("head's", None, setting, |tree| match repo::top(&root) {
            Ok(top) => {
                let top = real(&top);
                let files = repo::present(&top)?;
                copy_these(&top, &files, tree).map_err(|error| cannot_write(tree, &error))?;
                Ok(tree.join(root.strip_prefix(&top).unwrap_or(Path::new(""))))
            }
            Err(_) => {
                copy(&root, tree).map_err(|error| cannot_write(tree, &error))?;
                Ok(tree.to_owned())
            }
        })
    }

    /// A copy of the base's tree, as other runs use the tree itself. Its programs do not read head's.
    pub fn base(root: &Path, apart: &Apart, setting: &Setting) -> Result<Self> {
        let below = root.strip_prefix(&apart.top).unwrap_or(Path::new(""));
        let hidden = Some(real(&apart.head_top));
        Self::make("the base's", hidden, setting, |tree| {
            copy(&apart.top, tree).map_err(|error| cannot_write(tree, &error))?;
            Ok(tree.join(below))
        })
    }

    /// `hidden`: the tree that its programs do not read, but for its own directory and for Python's.
    fn make(
        name: &'static str,
        hidden: Option<PathBuf>,
        setting: &Setting,
        fill: impl FnOnce(&Path) -> Result<PathBuf>,
    ) -> Result<Self> {
        // The one place that belongs to neither tree.
        let scratch = setting.cache.dir("scratch")?;
        let dir = TemporaryDir::new_in(&scratch).map_err(|error| cannot_write(&scratch, &error))?;
        let root = fill(&dir.path().join("tree"))?;
        let hidden = hidden.map(|tree| {
            let pythons = ["VIRTUAL_ENV", "CONDA_PREFIX"].map(of_variable);
            let inside = pythons
                .into_iter()
                .flatten()
                .chain([dir.path().to_owned()])
                .map(|dir| real(&dir));
            Hidden {
                but: inside
                    .filter(|path| path.starts_with(&tree) && *path != tree)
                    .collect(),
                dir: tree,
            }
        });
        let side = Self {
            name,
            dir,
            root,
            hidden,
            trusted: setting.trusted,
            built: Mutex::default(),
        };
        for (_, place) in CACHES {
            side.make_dir(place)?;
        }
        Ok(side)
    }

    /// Whether its tree has the same files as another, and no others.
    pub fn has_tree(&self, other: &Path) -> bool {
        is_same(&self.dir.path().join("tree"), other).unwrap_or(false)
    }

    /// A directory in its own.
    pub fn make_dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir.path().join(name);
        fs::create_dir_all(&dir).map_err(|error| cannot_write(&dir, &error))?;
        Ok(dir)
    }

    /// Runs what makes a program, unless it did already.
    pub fn build(&self, words: &[String], deadline_ms: u64) -> Result<Ended> {
        let mut built = self
            .built
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, ended)) = built.iter().find(|(done, _)| done == words) {
            return Ok(ended.clone());
        }
        if built.is_empty() {
            self.make_environment(deadline_ms)?;
        }
        let ended = self.run(self.command(words)?, deadline_ms)?;
        built.push((words.to_vec(), ended.clone()));
        Ok(ended)
    }

    fn environment(&self) -> PathBuf {
        self.dir.path().join("venv")
    }

    /// A machine without Python builds without it.
    fn make_environment(&self, deadline_ms: u64) -> Result<()> {
        let mut python = Command::new("python3");
        python.args(["-I", "-c", ENVIRONMENT]);
        python.arg(self.environment()).current_dir("/");
        match self.run(python, deadline_ms)? {
            Ok(()) => Ok(()),
            Err(Failure::Missing(_)) => Ok(()),
            Err(said) => Err(Error::environment(format!(
                "a Python environment for {self} programs cannot be made: {said}"
            ))),
        }
    }

    /// A command in the directory of gates.yaml, and in this side's surroundings.
    pub fn command(&self, words: &[String]) -> Result<Command> {
        let [program, arguments @ ..] = words else {
            return Err(Error::usage("it has no command"));
        };
        // A name without a slash is looked for in PATH.
        let mut command = if program.contains('/') {
            Command::new(self.root.join(program))
        } else {
            Command::new(program)
        };
        command.args(arguments).current_dir(&self.root);
        if !self.trusted {
            confine::tell(&mut command, &[&TOLD[..], &TOLD_TO_BUILDS].concat());
        }
        for (variable, place) in CACHES {
            command.env(variable, self.dir.path().join(place));
        }
        command.env(DIRECTORY, self.dir.path());
        // As for our own workers: it would put the host into the times.
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

    /// # Errors
    /// Environment, where it cannot be confined.
    pub fn run(&self, command: Command, deadline_ms: u64) -> Result<Ended> {
        let rules = Rules {
            writes: &[self.dir.path(), Path::new("/dev")],
            hidden: self.hidden.as_ref(),
            sockets: Sockets::Local,
            metadata: Metadata::Changed,
            // A CUDA process reserves more than the machine has.
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
            Ok(Some(ended)) if ended.status.success() => Ok(()),
            Ok(Some(ended)) => Err(Failure::Ended(ended.failure())),
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

fn of_variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty())?;
    Some(PathBuf::from(value))
}

fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let found = path.canonicalize();
    found.map_err(|error| Error::environment(format!("{}: {error}", path.display())))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!("{} cannot be written: {error}", path.display()))
        .help("set GATEKEEPER_CACHE to another directory")
}

/// Whether two trees have the same files, with the same rights to start them, and the same links.
fn is_same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let (about, about_other) = (fs::symlink_metadata(one)?, fs::symlink_metadata(other)?);
    let kinds = (about.file_type(), about_other.file_type());
    if kinds.0 != kinds.1 {
        return Ok(false);
    }
    if kinds.0.is_symlink() {
        return Ok(fs::read_link(one)? == fs::read_link(other)?);
    }
    if kinds.0.is_file() {
        let is_program = |about: &fs::Metadata| about.permissions().mode() & 0o111 != 0;
        let is_alike =
            about.len() == about_other.len() && is_program(&about) == is_program(&about_other);
        return Ok(is_alike && files::read(one, LARGEST_FILE)? == files::read(other, LARGEST_FILE)?);
    }
    if !kinds.0.is_dir() {
        return Ok(false);
    }
    let names = |dir: &Path| -> std::io::Result<BTreeSet<OsString>> {
        let entries = fs::read_dir(dir)?;
        entries.map(|entry| Ok(entry?.file_name())).collect()
    };
    let own = names(one)?;
    if own != names(other)? {
        return Ok(false);
    }
    own.iter().try_fold(true, |is_so_far, name| {
        Ok(is_so_far && is_same(&one.join(name), &other.join(name))?)
    })
}

/// Files with their rights, and links as they are.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(from)?, to);
    }
    if !kind.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy_these(from: &Path, files: &BTreeSet<PathBuf>, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for file in files {
        let place = to.join(file);
        fs::create_dir_all(place.parent().unwrap_or(to))?;
        match copy(&from.join(file), &place) {
            // Git knows it, and it was removed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}
