//! Finds programs that an earlier run compiled. A manifest for each request lists what the compiler and the linker
//! read, in the same way as the build cache (`build::inputs`). A program is not compiled again while all of its inputs
//! are unchanged.

use super::Build;
use build::files::Files;
use build::inputs::Dependencies;
use build::search::SearchList;
use build::toolchain::clean_command;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use system::cache::write_atomically;
use system::files;
use system::process::confine::Hidden;
use system::process::helper;

/// The version of the way in which programs are made.
const TEMPLATE: u32 = 2;

/// The number of compilations that are kept, for people who switch between branches. An older one costs a compilation.
const KEPT: usize = 16;

/// The size in bytes from which a manifest counts as damaged.
const LARGEST: u64 = 64 << 20;

/// Flags that add nothing but what the compiler lists, and whose effect does not depend on the machine. A library or an
/// object is not among them: the linker may find another one first.
const LISTED: [&str; 6] = ["-O", "-std=", "-D", "-U", "-I", "-w"];

/// The programs that earlier runs compiled for one request.
pub(super) struct Earlier {
    manifest: PathBuf,
    compiler: PathBuf,
    flags: Vec<String>,
    hidden: Option<Hidden>,
}

#[derive(Default, Serialize, Deserialize)]
struct Manifest {
    compilations: Vec<Compilation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Compilation {
    inputs: Dependencies,
    /// Digests of the objects and libraries that the linker read.
    linked: BTreeMap<String, String>,
    /// The digest of the compiled program's bytes.
    pub program: String,
}

impl Compilation {
    /// Returns every file that the program was made from, with its digest.
    pub fn reads(&self) -> impl Iterator<Item = (&String, &String)> {
        self.inputs.files.iter().chain(&self.linked)
    }
}

impl Earlier {
    /// Returns the earlier programs of a build, or `None` if its flags may add something that is not listed, or if the
    /// compiler cannot be read.
    pub fn for_build(
        build: &Build,
        compiler: &Path,
        programs: &Path,
        hidden: Option<&Hidden>,
    ) -> Option<Self> {
        let is_listed = |flag: &String| LISTED.iter().any(|start| flag.starts_with(start));
        if !build.flags.iter().all(is_listed) {
            return None;
        }
        let command = clean_command(compiler);
        // The path is not enough, because an upgrade of the compiler does not change it.
        let compiler = match compiler.components().count() {
            1 => helper::find(compiler.to_str()?)?,
            _ => compiler.to_owned(),
        };
        let digest = blake3::hash(&files::read(&compiler, LARGEST).ok()?);
        let environment: BTreeMap<_, _> = command.get_envs().collect();
        let everything = serde_json::to_vec(&(
            TEMPLATE,
            env!("CARGO_PKG_VERSION"),
            (build.source(), &build.flags, &build.main),
            (&compiler, digest.to_hex().as_str()),
            format!("{environment:?}"),
            // A base may read less than a head, so the program of one may not serve the other.
            hidden.is_some(),
        ));
        let key = blake3::hash(&everything.ok()?).to_hex();
        Some(Self {
            manifest: programs.join(format!("{key}.json")),
            compiler,
            flags: build.flags.clone(),
            hidden: hidden.cloned(),
        })
    }

    /// Finds the latest compilation whose inputs are all unchanged and visible.
    pub fn find(&self, root: &Path) -> Option<Compilation> {
        let files = &Files::below(root);
        self.read().compilations.into_iter().find(|compilation| {
            compilation.inputs.changed(files).is_none()
                && compilation
                    .linked
                    .iter()
                    .all(|(file, digest)| files.digest(file).as_ref() == Some(digest))
                && compilation
                    .reads()
                    .all(|(file, _)| self.is_in_sight(root, file))
        })
    }

    fn is_in_sight(&self, root: &Path, file: &str) -> bool {
        self.hidden.as_ref().is_none_or(|hidden| {
            let named = root.join(file);
            let real = named.canonicalize().unwrap_or(named);
            let mut allowed = hidden.but.iter();
            !real.starts_with(&hidden.dir) || allowed.any(|dir| real.starts_with(dir))
        })
    }

    /// Keeps a compilation for later runs, unless it depends on more than what is listed, or on a file that was changed
    /// after `before`.
    pub fn store(
        &self,
        root: &Path,
        (compiled, linked): (&[String], &[String]),
        program: &str,
        before: SystemTime,
    ) {
        let files = &Files::below(root);
        let Some(search) = SearchList::ask_host(&self.compiler, root, &self.flags) else {
            return;
        };
        // The assembler can read files, and lists none of them.
        let has_assembly = |file: &String| files.read(file).is_none_or(|file| file.contains("asm"));
        if compiled
            .iter()
            .filter(|file| Path::new(file).is_relative())
            .any(has_assembly)
        {
            return;
        }
        let definitions = self.flags.join(" ");
        let digests: Option<BTreeMap<_, _>> = linked
            .iter()
            .map(|file| Some((file.clone(), files.digest(file)?)))
            .collect();
        let (Some(inputs), Some(linked)) = (
            Dependencies::collect(files, compiled, (&[], &definitions), &search),
            digests,
        ) else {
            return;
        };
        let mut read = inputs.files.keys().chain(linked.keys());
        // This comes after the digests, which have to be of what the compiler read.
        if read.any(|file| files.touched_since(file, before)) {
            return;
        }
        let mut manifest = self.read();
        manifest
            .compilations
            .retain(|compilation| compilation.inputs != inputs || compilation.linked != linked);
        let program = program.to_owned();
        manifest.compilations.insert(
            0,
            Compilation {
                inputs,
                linked,
                program,
            },
        );
        manifest.compilations.truncate(KEPT);
        // A manifest that is not written only costs a compilation.
        if let Ok(bytes) = serde_json::to_vec(&manifest) {
            let _ = write_atomically(&self.manifest, &bytes);
        }
    }

    /// Reads the manifest. It is empty if there is none or if it is damaged.
    fn read(&self) -> Manifest {
        let bytes = files::read(&self.manifest, LARGEST).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}
