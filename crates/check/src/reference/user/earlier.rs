//! Programs that an earlier run compiled. A manifest under the request lists what the compiler and the linker read for
//! them, as that of the build cache does (`build::inputs`): a program whose inputs all still hold is not compiled again.

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

/// Raised when programs are made in another way.
const TEMPLATE: u32 = 2;

/// Branches that are switched between; older ones cost a compilation.
const KEPT: usize = 16;

/// A longer one is damaged.
const LARGEST: u64 = 64 << 20;

/// Flags that bring in nothing but what the compiler lists, and whose effect does not depend on the machine. A library or
/// an object may be replaced by another that the linker finds first.
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
    /// The digest of the program.
    pub program: String,
}

impl Compilation {
    /// Every file that it was made of, with its digest.
    pub fn reads(&self) -> impl Iterator<Item = (&String, &String)> {
        self.inputs.files.iter().chain(&self.linked)
    }
}

impl Earlier {
    /// `None` where what the flags bring in is not all listed, or the compiler cannot be read.
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
        // Its path is not enough: an upgrade leaves it as it is.
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
            // A base may read less than a head: the program of one may not be that of the other.
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

    /// The latest compilation whose inputs are all as they were, and in sight.
    pub fn find(&self, root: &Path) -> Option<Compilation> {
        let files = &Files::below(root);
        self.read().compilations.into_iter().find(|compilation| {
            compilation.inputs.hold(files)
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

    /// Keeps a compilation for later runs. One that depends on more than what is listed, or on a file that was changed
    /// after `before`, is not kept.
    pub fn store(
        &self,
        root: &Path,
        (compiled, linked): (&[String], &[String]),
        program: &str,
        before: SystemTime,
    ) {
        let files = &Files::below(root);
        let Some(search) = SearchList::of_host(&self.compiler, root, &self.flags) else {
            return;
        };
        // The assembler can read files, and lists none.
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
        // After the digests: they are of what the compiler read.
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
        // A manifest that is not written costs a compilation.
        if let Ok(bytes) = serde_json::to_vec(&manifest) {
            let _ = write_atomically(&self.manifest, &bytes);
        }
    }

    /// Empty where there is none or it is damaged.
    fn read(&self) -> Manifest {
        let bytes = files::read(&self.manifest, LARGEST).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}
