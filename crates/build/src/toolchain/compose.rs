//! Composes a compiler from parts of several toolkits, as a directory of links to them.

use super::install::{DIR, lock};
use super::probe::{self, ToolkitLayout};
use super::{Search, Toolchain};
use model::Component;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use system::cache::Cache;
use system::error::{Error, Result};
use system::temporary::TemporaryDir;

/// Replaces some parts of `whole` with parts of other compilers.
///
/// # Errors
/// Environment, if the directory cannot be written, or nvcc does not take its parts from it.
pub(super) fn compose(
    whole: Toolchain,
    parts: &BTreeMap<Component, Toolchain>,
    cache: &Cache,
    search: &Search,
) -> Result<Toolchain> {
    let of = |part: Component| parts.get(&part).unwrap_or(&whole);
    let [nvcc, headers, nvvm, ptxas] = Component::ALL.map(of);
    let version = version(nvcc, [headers, nvvm, ptxas]);
    if version == nvcc.facts.version {
        return Ok(nvcc.clone());
    }
    let from = [nvcc, nvvm, ptxas].map(|compiler| ToolkitLayout::ask(&compiler.nvcc));
    let [nvcc_layout, nvvm_layout, ptxas_layout] = from;
    let places = Places {
        bin: real(&nvcc_layout?.here)?,
        include: real(&headers.include)?,
        nvvm: nvvm_of(&real(&nvvm_layout?.cicc)?),
        ptxas: real(&ptxas_layout?.program("ptxas"))?,
    };
    let home = places.link(cache)?;
    let composed = home.join("bin/nvcc");
    let layout = ToolkitLayout::ask(&composed)?;
    let is_taken = |own: &Path, wanted: &Path| real(own).is_ok_and(|own| own == wanted);
    if !is_taken(&layout.cicc, &places.nvvm.join("bin/cicc"))
        || !is_taken(&layout.program("ptxas"), &places.ptxas)
        || !is_taken(&layout.include, &places.include)
    {
        return Err(Error::environment(format!(
            "nvcc {} takes its parts from a place of its own, and cannot be composed with others",
            nvcc.facts.version
        ))
        .help("name a version, or a toolkit as NVIDIA installs it"));
    }
    probe::probe(&composed, version, &search.host_compiler()?, cache)
}

/// Returns a version such as `13.2.86+ptxas13.0.88`.
fn version(nvcc: &Toolchain, others: [&Toolchain; 3]) -> String {
    let mut version = nvcc.facts.version.clone();
    for (part, own) in Component::ALL.into_iter().skip(1).zip(others) {
        if own.facts.digest != nvcc.facts.digest {
            version += &format!("+{part}{}", own.facts.version);
        }
    }
    version
}

fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|error| {
        Error::environment(format!("{} is not there: {error}", path.display())).caused_by(error)
    })
}

/// Returns the directory that has `bin/cicc` and `libdevice`: `nvvm` in NVIDIA's layout, `/usr/lib/nvidia-cuda-toolkit` in
/// Debian's.
fn nvvm_of(cicc: &Path) -> PathBuf {
    cicc.ancestors().nth(2).unwrap_or(cicc).to_owned()
}

/// The directories in which the parts are.
struct Places {
    /// The directory that has nvcc in it.
    bin: PathBuf,
    include: PathBuf,
    nvvm: PathBuf,
    ptxas: PathBuf,
}

impl Places {
    /// Returns the directory of links, and makes it if it does not exist.
    fn link(&self, cache: &Cache) -> Result<PathBuf> {
        let dir = cache.dir(DIR)?;
        let mut name = blake3::Hasher::new();
        for place in [&self.bin, &self.include, &self.nvvm, &self.ptxas] {
            name.update(place.as_os_str().as_encoded_bytes());
            name.update(&[0]);
        }
        let name = name.finalize().to_hex();
        let home = dir.join(format!("composed-{}", name.get(..16).unwrap_or(&name)));
        // Two at once make the same one.
        let lock = lock(&dir, "a composed compiler", &|_| {})?;
        if !home.exists() {
            self.link_in(&dir, &home)
                .map_err(|error| Error::unwritten(home.display(), error))?;
        }
        drop(lock);
        Ok(home)
    }

    fn link_in(&self, dir: &Path, home: &Path) -> std::io::Result<()> {
        let staging = TemporaryDir::new_in(dir)?;
        let new = staging.path().join("new");
        std::fs::create_dir_all(new.join("bin"))?;
        link_all(&self.bin, &new.join("bin"), &["ptxas"])?;
        symlink(&self.ptxas, new.join("bin/ptxas"))?;
        if let Some(top) = self.bin.parent() {
            // If there is a directory `targets`, nvcc takes its headers from it.
            link_all(top, &new, &["bin", "include", "nvvm", "targets"])?;
        }
        symlink(&self.include, new.join("include"))?;
        symlink(&self.nvvm, new.join("nvvm"))?;
        std::fs::rename(&new, home)
    }
}

/// Links to everything in `from` but for some names.
fn link_all(from: &Path, to: &Path, but: &[&str]) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if !but.iter().any(|taken_name| *taken_name == name) {
            symlink(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
