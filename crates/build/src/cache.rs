//! Keeps artifacts by content. A manifest is stored under each request (arguments, source path, compiler) and lists
//! what earlier compilations of this request read. The entry whose inputs are all unchanged names the artifact. So a
//! lookup needs no run of the preprocessor, as in ccache's direct mode, and never returns a stale artifact.
//!
//! Every file is written next to its final place and then renamed, so runs at the same time do no harm. The worst
//! result of a race is one more compilation. An artifact is ignored if it does not have the digest it was stored with,
//! or was stored for another request.

use super::command::{NvccCall, TEMPLATE};
use super::compile::{Compiled, CompiledSource};
use super::files::Files;
use super::inputs::Dependencies;
use crate::toolchain::Toolchain;
use model::{BuildFacts, Unit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use system::cache::{Cache, CacheDir, write_atomically};
use system::error::{Error, Result};
use system::files;
use system::temporary::TemporaryDir;
use tracing::debug;

pub struct Artifacts {
    manifests: CacheDir,
    objects: CacheDir,
}

/// An artifact at its place in the cache.
#[derive(Debug, PartialEq)]
pub struct Stored {
    pub facts: BuildFacts,
    pub file: PathBuf,
    /// The file with the PTX, if the facts say that there is PTX.
    pub ptx: Option<PathBuf>,
}

/// Earlier compilations of one request, the latest first.
#[derive(Default, Serialize, Deserialize)]
struct Manifest {
    compilations: Vec<Compilation>,
}

#[derive(Serialize, Deserialize)]
struct Compilation {
    inputs: Dependencies,
    artifact: String,
}

/// Facts about an object, stored next to it.
trait Facts: Serialize + DeserializeOwned {
    /// Returns true if these can be the facts of this artifact.
    fn are_of(&self, artifact: &str) -> bool;
}

impl Facts for BuildFacts {
    fn are_of(&self, artifact: &str) -> bool {
        self.artifact == artifact
    }
}

/// Facts about a whole source, from which every entry can be made.
#[derive(Serialize, Deserialize)]
struct SourceFacts {
    log: String,
    included: Vec<String>,
}

impl Facts for SourceFacts {
    fn are_of(&self, _: &str) -> bool {
        true
    }
}

/// The file next to an artifact, with the facts about it.
#[derive(Serialize, Deserialize)]
struct Sidecar<F> {
    facts: F,
    file: String,
    /// A digest over the facts, the artifact and the PTX.
    seal: String,
}

struct Object<F> {
    facts: F,
    file: PathBuf,
    bytes: Vec<u8>,
    ptx: PathBuf,
    text: Vec<u8>,
}

impl From<Object<BuildFacts>> for Stored {
    fn from(object: Object<BuildFacts>) -> Self {
        let is_known = object.facts.ptx.is_some();
        Self {
            facts: object.facts,
            file: object.file,
            ptx: is_known.then_some(object.ptx),
        }
    }
}

impl From<Object<SourceFacts>> for CompiledSource {
    fn from(object: Object<SourceFacts>) -> Self {
        let SourceFacts { log, included } = object.facts;
        Self {
            output: object.file,
            cubin: object.bytes,
            ptx: String::from_utf8_lossy(&object.text).into_owned(),
            log,
            included,
        }
    }
}

fn seal(facts: &impl Facts, artifact: &[u8], ptx: &[u8]) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&serde_json::to_vec(facts).ok()?);
    hasher.update(&[0]);
    hasher.update(blake3::hash(artifact).as_bytes());
    hasher.update(blake3::hash(ptx).as_bytes());
    Some(hasher.finalize().to_hex().to_string())
}

/// The number of compilations that are kept for a request: branches that a user switches between. An older one costs a
/// compilation.
const KEPT: usize = 16;
const SIDECAR: &str = "facts.json";
const PTX: &str = "unit.ptx";

/// Returns a hex digest of everything on which an outcome depends, except the contents of files. The request contains
/// directories as they are on this machine. The unit contains them as they were written, because messages name places
/// in headers in that form.
///
/// # Errors
/// Never fails in practice, because the hashed data is plain.
pub fn request_key(unit: &Unit, request: &NvccCall, toolchain: &Toolchain) -> Result<String> {
    key(unit, &unit.call, request, toolchain)
}

/// Returns the key of a whole source, whichever of its entries is asked for.
///
/// # Errors
/// Returns the errors of [`request_key`].
pub fn source_key(unit: &Unit, request: &NvccCall, toolchain: &Toolchain) -> Result<String> {
    key(unit, &"every entry", request, toolchain)
}

fn key(
    unit: &Unit,
    call: &impl Serialize,
    request: &NvccCall,
    toolchain: &Toolchain,
) -> Result<String> {
    // Paths of the toolchain are included, because headers in another place are other headers.
    let everything = serde_json::to_vec(&(
        TEMPLATE,
        env!("CARGO_PKG_VERSION"),
        (&unit.source, &unit.include_dirs),
        call,
        &request.args,
        &request.generated,
        &toolchain.facts,
        (&toolchain.nvcc, &toolchain.host_compiler),
        (&toolchain.include, &toolchain.library_dir),
    ))
    .map_err(|error| {
        Error::environment(format!("key of the build cache: {error}")).caused_by(error)
    })?;
    Ok(blake3::hash(&everything).to_hex().to_string())
}

impl Artifacts {
    pub fn open(cache: &Cache) -> Result<Self> {
        Ok(Self {
            manifests: cache.layered("build/manifests")?,
            objects: cache.layered("build/objects")?,
        })
    }

    /// Returns the artifact of this request for the files as they are now, and the digests of the files that it was
    /// made from.
    pub fn find(&self, key: &str, files: &Files) -> Option<(Stored, BTreeMap<String, String>)> {
        let (object, digests) = self.find_object(key, files)?;
        Some((Stored::from(object), digests))
    }

    /// Returns a source that an earlier run compiled from the files as they are now.
    pub fn find_source(&self, key: &str, files: &Files) -> Option<CompiledSource> {
        let (object, _) = self.find_object::<SourceFacts>(key, files)?;
        Some(CompiledSource::from(object))
    }

    fn find_object<F: Facts>(
        &self,
        key: &str,
        files: &Files,
    ) -> Option<(Object<F>, BTreeMap<String, String>)> {
        self.manifests
            .places(&manifest_name(key))
            .find_map(|place| {
                let compilations = manifest(&place).compilations;
                if compilations.is_empty() {
                    debug!(?place, "miss: no entry of this key");
                }
                let found = compilations
                    .into_iter()
                    .filter(|compilation| {
                        let changed = compilation.inputs.changed(files);
                        if let Some(input) = changed {
                            debug!(?place, input, "miss: an input changed");
                        }
                        changed.is_none()
                    })
                    .find_map(|compilation| {
                        let artifact = compilation.artifact;
                        let Some(object) = self.load_object(key, &artifact) else {
                            debug!(?place, artifact, "miss: artifact is gone or damaged");
                            return None;
                        };
                        debug!(?place, artifact, "hit");
                        Some((object, compilation.inputs.files))
                    });
                found.inspect(|_| self.manifests.touch(&place))
            })
    }

    /// Copies what was compiled to its place. Without inputs, no request would find it again.
    pub fn store(
        &self,
        key: &str,
        inputs: Option<Dependencies>,
        compiled: Compiled,
    ) -> Result<Stored> {
        let Compiled {
            mut facts,
            output,
            ptx,
            ..
        } = compiled;
        let bytes = files::read(&output, files::made()).map_err(|error| self.failed(error))?;
        let ptx = ptx.unwrap_or_default();
        facts.artifact = content_address(key, &bytes, ptx.as_bytes());
        let parts = (&output, &bytes[..], ptx.as_bytes());
        self.put(key, inputs, facts, parts).map(Stored::from)
    }

    /// Stores what a whole source was compiled to.
    pub fn store_source(
        &self,
        key: &str,
        inputs: Option<Dependencies>,
        source: &CompiledSource,
    ) -> Result<()> {
        let facts = SourceFacts {
            log: source.log.clone(),
            included: source.included.clone(),
        };
        let parts = (&source.output, &source.cubin[..], source.ptx.as_bytes());
        self.put(key, inputs, facts, parts).map(drop)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::environment(format!(
            "the artifact cannot be written to {}: {error}",
            self.objects.own().display()
        ))
    }

    fn put<F: Facts>(
        &self,
        key: &str,
        inputs: Option<Dependencies>,
        facts: F,
        (output, bytes, ptx): (&PathBuf, &[u8], &[u8]),
    ) -> Result<Object<F>> {
        let objects = self.objects.own();
        let failed = |error: std::io::Error| self.failed(error);
        let artifact = content_address(key, bytes, ptx);
        let file = output.file_name().map_or_else(
            || "artifact".into(),
            |name| name.to_string_lossy().into_owned(),
        );

        let staging = TemporaryDir::new_in(objects).map_err(failed)?;
        let new = staging.path().join("object");
        std::fs::create_dir(&new).map_err(failed)?;
        std::fs::write(new.join(&file), bytes).map_err(failed)?;
        std::fs::write(new.join(PTX), ptx).map_err(failed)?;
        let seal = seal(&facts, bytes, ptx)
            .ok_or_else(|| failed(std::io::Error::other("the facts are not valid JSON")))?;
        let sidecar = serde_json::to_vec(&Sidecar { facts, file, seal })
            .map_err(|error| failed(error.into()))?;
        std::fs::write(new.join(SIDECAR), sidecar).map_err(failed)?;

        let place = objects.join(&artifact);
        if std::fs::rename(&new, &place).is_err() {
            // Another run was first, or the artifact there is damaged.
            if load::<F>(&place, key, &artifact).is_none() {
                std::fs::rename(&place, staging.path().join("damaged")).map_err(failed)?;
                std::fs::rename(&new, &place).map_err(failed)?;
            }
        }
        if let Some(inputs) = inputs {
            self.remember(key, inputs, &artifact)?;
        }
        load(&place, key, &artifact).ok_or_else(|| {
            Error::environment(format!(
                "{} was written but cannot be read back",
                place.display()
            ))
        })
    }

    fn remember(&self, key: &str, inputs: Dependencies, artifact: &str) -> Result<()> {
        let file = self.manifests.own().join(manifest_name(key));
        let mut manifest = manifest(&file);
        manifest
            .compilations
            .retain(|compilation| compilation.inputs != inputs);
        manifest.compilations.insert(
            0,
            Compilation {
                inputs,
                artifact: artifact.to_owned(),
            },
        );
        manifest.compilations.truncate(KEPT);
        let bytes = serde_json::to_vec(&manifest)
            .map_err(|error| Error::environment(format!("manifest: {error}")).caused_by(error))?;
        write_atomically(&file, &bytes)
    }

    pub fn load(&self, key: &str, artifact: &str) -> Option<Stored> {
        self.load_object(key, artifact).map(Stored::from)
    }

    fn load_object<F: Facts>(&self, key: &str, artifact: &str) -> Option<Object<F>> {
        self.objects
            .places(artifact)
            .find_map(|place| load(&place, key, artifact).inspect(|_| self.objects.touch(&place)))
    }
}

fn manifest_name(key: &str) -> String {
    format!("{key}.json")
}

/// Reads a manifest. A missing or damaged manifest is empty, which costs one compilation.
fn manifest(file: &Path) -> Manifest {
    files::read(file, files::made())
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Loads an artifact. Returns `None` if it is missing, truncated, changed, or belongs to another request.
fn load<F: Facts>(dir: &Path, key: &str, artifact: &str) -> Option<Object<F>> {
    let read = |file: &Path| files::read(file, files::made());
    let sidecar: Sidecar<F> = serde_json::from_slice(&read(&dir.join(SIDECAR)).ok()?).ok()?;
    let file = dir.join(&sidecar.file);
    let ptx = dir.join(PTX);
    let (bytes, text) = (read(&file).ok()?, read(&ptx).ok()?);
    let whole = seal(&sidecar.facts, &bytes, &text)? == sidecar.seal
        && sidecar.facts.are_of(artifact)
        && content_address(key, &bytes, &text) == artifact;
    whole.then_some(Object {
        facts: sidecar.facts,
        file,
        bytes,
        ptx,
        text,
    })
}

/// Hashes the bytes themselves, so that two outcomes of one request can never be taken for each other; with
/// the request, because the facts beside the bytes belong to it.
fn content_address(key: &str, artifact: &[u8], ptx: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(key.as_bytes());
    hasher.update(blake3::hash(artifact).as_bytes());
    hasher.update(blake3::hash(ptx).as_bytes());
    hasher.finalize().to_hex().to_string()
}
