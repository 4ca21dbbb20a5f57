//! Disassembles some kernels of what a user names with nvdisasm: each cubin once, on all cores.

use crate::map::Mapped;
use crate::{directory, if_of_kind, wheel};
use binary::{BinaryKernel, Cubin, Wanted};
use build::code::CodeReader;
use model::{Arch, CodeFacts, Fault, FaultKind, Seen};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use system::error::{Error, Result};

/// The machine code of kernels. Equal code of one name is read once, wherever it is.
#[derive(Default)]
pub struct MachineCode(HashMap<CodeKey, Seen<CodeFacts>>);

/// The name, architecture and digest of a kernel.
type CodeKey = (String, Arch, [u8; 32]);

fn key(kernel: &BinaryKernel) -> CodeKey {
    (kernel.name.clone(), kernel.arch, kernel.digest)
}

impl MachineCode {
    /// Returns the machine code of a kernel, or a fault if the file did not have it when its code was read.
    pub fn get(&self, kernel: &BinaryKernel) -> Seen<CodeFacts> {
        let known = self.0.get(&key(kernel)).cloned();
        known.unwrap_or_else(|| {
            let message = "the file no longer has it: it was written meanwhile".to_owned();
            Seen::Fault(Fault::new(FaultKind::Disassembler, message))
        })
    }
}

/// Reads the machine code of kernels.
///
/// # Errors
/// Fails if something is damaged or cannot be read.
pub fn read_code<'a>(
    path: &Path,
    kernels: impl IntoIterator<Item = &'a BinaryKernel>,
    reader: &CodeReader,
) -> Result<MachineCode> {
    let wanted: Wanted = kernels.into_iter().collect();
    if wanted.is_empty() {
        return Ok(MachineCode::default());
    }
    let cubins = read_cubins(path, &wanted)?;
    let read = cubins
        .par_iter()
        .flat_map_iter(|cubin| read_kernels(cubin, reader));
    Ok(MachineCode(read.collect()))
}

/// Returns the machine code that has these kernels, each of them once.
fn read_cubins(path: &Path, wanted: &Wanted) -> Result<Vec<Cubin<'static>>> {
    let at = path.display().to_string();
    let read = |bytes: &[u8], at: &str| cubins_of(bytes, at, wanted);
    let mut cubins = if path.is_dir() {
        flatten(directory::each(path, read)?)?
    } else {
        let failed = |error| Error::environment(format!("the file cannot be read: {error}"));
        let bytes = Mapped::open(path).map_err(|error| failed(error).at(&at))?;
        read(&bytes, &at)?
    };
    let mut known = HashSet::new();
    for cubin in &mut cubins {
        cubin.kernels.retain(|kernel| known.insert(key(kernel)));
    }
    cubins.retain(|cubin| !cubin.kernels.is_empty());
    Ok(cubins)
}

fn cubins_of(bytes: &[u8], at: &str, wanted: &Wanted) -> Result<Vec<Cubin<'static>>> {
    if wheel::is_zip(bytes) {
        let read = |bytes: &[u8], at: &str| cubins_of(bytes, at, wanted);
        return flatten(wheel::each(bytes, at, read)?);
    }
    let cubins = if_of_kind(binary::read_cubins(bytes, wanted), at)?;
    Ok(cubins
        .into_iter()
        .flatten()
        .map(|cubin| Cubin {
            bytes: Cow::Owned(cubin.bytes.into_owned()),
            kernels: cubin.kernels,
        })
        .collect())
}

fn flatten(members: Vec<Result<(String, Vec<Cubin<'static>>)>>) -> Result<Vec<Cubin<'static>>> {
    let mut all = Vec::new();
    for member in members {
        all.append(&mut member?.1);
    }
    Ok(all)
}

fn read_kernels(cubin: &Cubin, reader: &CodeReader) -> Vec<(CodeKey, Seen<CodeFacts>)> {
    let Cubin { bytes, kernels } = cubin;
    let symbols: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
    let facts = reader.read_kernels(bytes, &symbols);
    kernels.iter().map(key).zip(facts).collect()
}
