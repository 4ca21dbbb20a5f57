//! Keeps what a side built, for later runs on the same files in the same surroundings.
//!
//! [`find_key`] names everything that is known to change what a side builds. A later run with the same key copies the
//! kept build and does not build again. Each key has a directory of its own in the cache, which one run at a time holds
//! by its `lock`:
//!
//! - `run` is the side's directory while it runs, always at the same path, because builds write paths down. Its programs
//!   write here and nowhere else.
//! - `kept` is what gatekeeper copied from there: everything after the builds and before the programs, and [`PRODUCTS`]
//!   after the programs.
//! - `seal` has the whole key and the digest of `kept`, and is written last.
//!
//! A kept build is ignored unless its digest and the whole key are those in the seal. So a run that was killed while it
//! wrote, and two keys whose directories have one name, cost a build and nothing else. The key names the side, so that
//! the base never takes what ran as head.

use super::Setting;
use super::side::ProgramSide;
use super::tree::{self, Age};
use config::Program;
use run::worker::this_program;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, DirEntry, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use system::cache::evict::PROGRAMS;
use system::cache::{Cache, write_atomically};
use system::error::Result;
use system::files;
use system::process::confine::Support;
use system::temporary::{TemporaryDir, sweep};

/// Caches of what programs compile. PyTorch's compiler keeps times in its cache, and a program that finds them launches
/// other kernels than one that does not.
const PRODUCTS: [&str; 3] = ["cache/cuda", "cache/torch-extensions", "cache/triton"];

/// Variables that name directories of libraries and headers.
const NAMED: [&str; 5] = [
    "LD_LIBRARY_PATH",
    "CPATH",
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
];

/// Directories that compilers and linkers know.
const USUAL: [&str; 4] = [
    "/usr/include",
    "/usr/local/include",
    "/usr/local/cuda",
    "/etc/ld.so.cache",
];

/// Programs that builds start, in addition to those that gates.yaml or a variable names.
const TOOLS: &str = "python python3 nvcc cc c++ gcc g++ clang clang++ ld cmake make ninja";

const GPUS: [&str; 3] = [
    "nvidia-smi",
    "--query-gpu=name,driver_version",
    "--format=csv,noheader",
];

const MODULES: &str = "import sys; print(sys.version, *sys.path, sep='\\n')";

/// Returns a name for everything that can change what a side builds, as far as it is known: its files, its programs,
/// the variables that they see, this program, the GPUs with their driver, and of the compilers, headers and Python
/// packages of the machine all names, sizes and times. `None` if a program could write to what is kept.
///
/// It misses a file at a place that no variable and no compiler names, such as a header in /opt.
///
/// # Errors
/// Environment, if a program cannot be confined, or this one is not found.
pub fn find_key(
    side: &ProgramSide,
    checkout: &Path,
    programs: &[Program],
    setting: &Setting,
) -> Result<Option<String>> {
    if !setting.trusted && !Support::detect().files {
        return Ok(None);
    }
    let variables = side.variables();
    let Setting { form, trusted, .. } = setting;
    let (tree, version, gpus) = (&side.tree, env!("CARGO_PKG_VERSION"), side.ask(&GPUS)?);
    let about = (tree, version, gpus, form, trusted, programs, &variables);
    let mut seen = format!("{side} {about:?}\n");
    let dirs = |name: &&str| {
        let value = variables.get(OsStr::new(name));
        value.into_iter().flat_map(std::env::split_paths)
    };
    let path: Vec<PathBuf> = dirs(&"PATH").collect();
    let nvcc = path.iter().map(|dir| dir.join("nvcc").canonicalize());
    let toolkit = nvcc.flatten().next().and_then(|nvcc| {
        let bin = nvcc.parent()?;
        Some(bin.parent()?.to_owned())
    });
    let usual = USUAL.map(PathBuf::from).into_iter().chain(toolkit);
    let mut places: BTreeSet<PathBuf> = NAMED.iter().flat_map(dirs).chain(usual).collect();
    let words: BTreeSet<&str> = programs
        .iter()
        .flat_map(|program| program.command.iter().chain(program.build.iter().flatten()))
        .map(String::as_str)
        .chain(variables.values().filter_map(|value| value.to_str()))
        .chain([TOOLS])
        .flat_map(str::split_whitespace)
        .collect();
    for word in words {
        if is_python(word) {
            let about = side.ask(&[word, "-c", MODULES])?;
            places.extend(about.lines().skip(1).map(PathBuf::from));
            seen += &about;
        }
        // Joining an absolute path to a directory gives that path.
        path.iter().for_each(|dir| note(&dir.join(word), &mut seen));
    }
    note(&this_program()?, &mut seen);
    // Relative paths are below the tree, and an empty part of PYTHONPATH means the root.
    places.retain(|place| place.is_absolute() && place.parent().is_some());
    for place in places {
        look(&place, checkout, &mut seen);
    }
    Ok(Some(blake3::hash(seen.as_bytes()).to_string()))
}

fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    name.strip_prefix("python")
        .is_some_and(|version| version.chars().all(|c| c == '.' || c.is_ascii_digit()))
}

/// Notes what is at a place, including that there is nothing, and everything below it. The checkout is left out: the
/// parts of it that matter are in the key by their content, and a run writes there.
fn look(place: &Path, checkout: &Path, seen: &mut String) {
    note(place, seen);
    let is_own = place.starts_with(checkout) && !place.iter().any(|name| name == "site-packages");
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let mut entries: Vec<DirEntry> = entries
        .filter(|entry| !is_own && entry.file_name() != "__pycache__")
        .collect();
    entries.sort_by_key(DirEntry::file_name);
    for entry in entries {
        // A link to a directory may lead back.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(&entry.path(), checkout, seen);
        } else {
            note(&entry.path(), seen);
        }
    }
}

/// Adds a line with the facts by which a change of a file is recognised: its mode, size and time of change. Anything
/// else is noted as absent.
fn note(place: &Path, seen: &mut String) {
    let facts = fs::metadata(place)
        .ok()
        .filter(Metadata::is_file)
        .map(|file| (file.mode(), file.size(), file.mtime(), file.mtime_nsec()));
    // Writing to a String cannot fail.
    let _ = writeln!(seen, "{place:?} {facts:?}");
}

/// The directory of a key, which is locked for this run.
pub struct Kept {
    dir: PathBuf,
    key: String,
    _lock: File,
}

impl Kept {
    /// Opens the directory of a key, and makes an empty one in it to run in. Returns `None` if another run has it.
    pub fn open(cache: &Cache, key: String) -> Option<(Self, TemporaryDir)> {
        // The path of a socket may have at most 107 characters.
        let dir = cache.dir(PROGRAMS).ok()?.join(key.get(..16)?);
        fs::create_dir_all(&dir).ok()?;
        let lock = File::create(dir.join("lock")).ok()?;
        lock.try_lock().ok()?;
        sweep(&dir);
        let run = dir.join("run");
        // A run that was killed has left its directory.
        if run.is_dir() {
            fs::remove_dir_all(&run).ok()?;
        }
        let run = TemporaryDir::named(&dir, "run").ok()?;
        let kept = Self {
            dir,
            key,
            _lock: lock,
        };
        Some((kept, run))
    }

    fn seal(&self, content: &Path) -> io::Result<String> {
        let digest = tree::digest(content)?;
        Ok(format!("gatekeeper programs/1\n{}\n{digest}\n", self.key))
    }

    /// Copies what is kept to the directory of a run. Returns false if nothing was kept, or if it is damaged.
    ///
    /// # Errors
    /// Returns an error if the directory of the run cannot be written.
    pub fn take(&self, run: &Path) -> io::Result<bool> {
        let content = self.dir.join("kept");
        let is_whole = files::read_text(&self.dir.join("seal"), files::WRITTEN)
            .and_then(|seal| Ok(self.seal(&content)? == seal))
            .unwrap_or(false);
        if is_whole {
            for name in tree::names(&content)? {
                let to = run.join(&name);
                // The builds may have changed the tree.
                if to.is_dir() {
                    fs::remove_dir_all(&to)?;
                }
                tree::copy(&content.join(&name), &to, Age::Kept)?;
            }
        }
        Ok(is_whole)
    }

    /// Copies what the builds made, if there are any builds. The copy that it returns becomes the kept build after the
    /// programs have run.
    ///
    /// # Errors
    /// Returns an error if something cannot be read or written, or is no file, directory or link.
    pub fn stage(&self, run: &Path, is_built: bool) -> io::Result<TemporaryDir> {
        check_places(run)?;
        let staged = TemporaryDir::new_in(&self.dir)?;
        let content = staged.path().join("kept");
        fs::create_dir(&content)?;
        let mut names = tree::names(run)?;
        names.retain(|name| is_built && name != "tmp");
        for name in names {
            tree::copy(&run.join(&name), &content.join(&name), Age::Kept)?;
        }
        Ok(staged)
    }

    /// Keeps what was staged and what the programs compiled, and replaces what was kept before.
    ///
    /// # Errors
    /// As [`Self::stage`].
    pub fn keep(&self, staged: &TemporaryDir, run: &Path) -> io::Result<()> {
        check_places(run)?;
        let content = staged.path().join("kept");
        for place in PRODUCTS {
            let (from, to) = (run.join(place), content.join(place));
            // A directory that the builds used stays as they left it.
            let is_used = tree::names(&to).is_ok_and(|names| !names.is_empty());
            if is_used || tree::names(&from)?.is_empty() {
                continue;
            }
            fs::create_dir_all(&to)?;
            fs::remove_dir(&to)?;
            tree::copy(&from, &to, Age::OfProducts)?;
        }
        if tree::names(&content)?.is_empty() {
            return Ok(());
        }
        let seal = self.seal(&content)?;
        let (own, own_seal) = (self.dir.join("kept"), self.dir.join("seal"));
        let _ = fs::remove_file(&own_seal);
        if own.is_dir() {
            fs::remove_dir_all(&own)?;
        }
        fs::rename(&content, &own)?;
        write_atomically(&own_seal, seal.as_bytes()).map_err(io::Error::other)
    }
}

/// Refuses a link in place of one of these directories, because what is copied to it would be written elsewhere.
fn check_places(run: &Path) -> io::Result<()> {
    for place in ["cache"].iter().chain(&PRODUCTS) {
        if !fs::symlink_metadata(run.join(place))?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
    }
    Ok(())
}
