//! Makes sides of a change from commits that all answer the same question: each side has the sources of its commit, and
//! gates.yaml, baselines and references of one revision, which lie over them.

use super::past;
use build::toolchain::Choice;
use config::{Loaded, Selection};
use model::{Base, Loosening};
use pipeline::{BaseSide, Change, FileIsolation};
use records::repo::{self, Export};
use records::store;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};
use system::files;

/// The files of one revision that lie over the sources of every commit.
pub struct Overlay {
    from: Export,
    /// The files relative to the top of the repository.
    files: BTreeSet<PathBuf>,
    /// The name of the file of gates in the directory of the run.
    gates: PathBuf,
}

impl Overlay {
    /// Starts with the file of gates and its baselines. `gates` is the file of gates, relative to the root of `from`.
    ///
    /// # Errors
    /// Environment, if the baselines cannot be listed.
    pub fn new(from: Export, gates: PathBuf) -> Result<Self> {
        let file = from.root().join(&gates);
        let mut files = BTreeSet::from([file.clone()]);
        let baselines = file.with_file_name(store::BASELINES);
        list(&baselines, &mut files).map_err(|error| unusable(&baselines, error))?;
        let top = from.top();
        Ok(Self {
            files: files
                .iter()
                .filter_map(|file| file.strip_prefix(top).ok().map(Path::to_owned))
                .collect(),
            from,
            gates,
        })
    }

    /// Loads the file of gates with its revision's own sources.
    ///
    /// # Errors
    /// Usage, if it cannot be loaded.
    pub fn load(&self, selection: &Selection) -> Result<Loaded> {
        load(&self.from, &self.gates, selection)
    }

    /// Returns the top of the revision's own files.
    pub fn top(&self) -> &Path {
        self.from.top()
    }

    /// Adds files that are no sources of kernels: references with what they include, and programs of rivals.
    pub fn add(&mut self, references: BTreeSet<PathBuf>, loaded: &Loaded) {
        self.files.extend(references);
        let words = loaded.plan.rivals.iter().flat_map(|rival| &rival.command);
        let top = self.from.top();
        let rivals = words
            .map(|word| loaded.root.join(word))
            .filter(|path| path.is_file())
            .filter_map(|path| path.strip_prefix(top).ok().map(Path::to_owned));
        self.files.extend(rivals);
    }

    /// Returns a digest of the files and their names.
    ///
    /// # Errors
    /// Environment, if one of them cannot be read.
    pub fn digest(&self) -> Result<String> {
        let mut hasher = blake3::Hasher::new();
        for file in &self.files {
            let path = self.from.top().join(file);
            let bytes =
                files::read(&path, files::SOURCE).map_err(|error| unusable(&path, error))?;
            // The length separates a file from the next one.
            hasher.update(format!("\0{}\0{}\0", file.display(), bytes.len()).as_bytes());
            hasher.update(&bytes);
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// Writes the files of a commit, and these over them.
    ///
    /// # Errors
    /// Environment, if the files cannot be written.
    pub fn over(&self, root: &Path, commit: &str, cache: &Cache) -> Result<Overlaid> {
        let export = Export::new(root, commit, cache)?;
        let top = export.top();
        for file in &self.files {
            place(&self.from.top().join(file), top, file)
                .map_err(|error| unusable(&top.join(file), error))?;
        }
        Ok(Overlaid {
            export,
            commit: commit.to_owned(),
            gates: self.gates.clone(),
        })
    }
}

/// The files of one commit with an overlay.
pub struct Overlaid {
    export: Export,
    commit: String,
    gates: PathBuf,
}

impl Overlaid {
    /// Loads the overlaid file of gates with the sources of the commit.
    ///
    /// # Errors
    /// Usage, if they do not fit.
    pub fn load(&self, selection: &Selection) -> Result<Loaded> {
        load(&self.export, &self.gates, selection)
    }

    pub fn top(&self) -> &Path {
        self.export.top()
    }

    /// Returns the change from `good` to these files. `root` is in the repository.
    ///
    /// # Errors
    /// Usage, if an anchor is unknown or acceptances cannot be read. Environment, if git fails.
    pub fn change(&self, head: Loaded, good: (&Self, Loaded), root: &Path) -> Result<Change> {
        let (good, base) = good;
        let compiler = Choice::pin(head.toolchain.cuda.as_deref());
        // A broken file of baselines is reported for head.
        let (baselines, _) = store::load_baselines(&base.root)?;
        let short = repo::short(&good.commit);
        Ok(Change {
            commit: Some(repo::short(&self.commit).to_owned()),
            sources: None,
            checkout: repo::checkout(root, |name| std::env::var(name).ok()),
            anchors: past::anchors(root, &head.gates)?,
            base: Some(BaseSide {
                spec: Base {
                    baselines,
                    accepted: config::load_acceptances(&base)?,
                    loosening: Loosening::Fails,
                    ..Base::new(short, short, base.whole.plan, base.whole.gates)
                },
                binaries: Vec::new(),
                programs: Vec::new(),
                compiler: compiler.clone(),
                root: base.root,
                file_isolation: Some(FileIsolation {
                    top: good.top().to_owned(),
                    head_top: self.top().to_owned(),
                    // No file of an export has a second name.
                    head_files: Vec::new(),
                }),
                files: Box::new(()),
            }),
            compiler,
            head,
        })
    }
}

fn load(export: &Export, gates: &Path, selection: &Selection) -> Result<Loaded> {
    config::load_in_tree(export.top(), &export.root().join(gates), selection)
}

/// Lists the files below a directory, which need not exist.
fn list(dir: &Path, found: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if !dir.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            list(&entry.path(), found)?;
        } else {
            found.insert(entry.path());
        }
    }
    Ok(())
}

/// Copies a file to its path below `top`. A commit can have a link or a file where this path has a directory. It is
/// removed, so that nothing is written outside of the tree.
fn place(from: &Path, top: &Path, file: &Path) -> io::Result<()> {
    let mut dir = top.to_owned();
    for part in file.parent().into_iter().flat_map(Path::components) {
        dir.push(part);
        if dir.symlink_metadata().is_ok_and(|about| !about.is_dir()) {
            std::fs::remove_file(&dir)?;
        }
        if !dir.is_dir() {
            std::fs::create_dir(&dir)?;
        }
    }
    let to = top.join(file);
    match to.symlink_metadata() {
        Ok(about) if about.is_dir() => std::fs::remove_dir_all(&to)?,
        Ok(_) => std::fs::remove_file(&to)?,
        Err(_) => {}
    }
    std::fs::copy(from, to).map(drop)
}

fn unusable(path: &Path, error: io::Error) -> Error {
    Error::at_path(path, error)
}
