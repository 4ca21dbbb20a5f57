//! The machine code of some kernels of what a user names, taken apart by nvdisasm: each cubin once, on all cores.

use crate::read_cubins;
use binary::{Cubin, Kernel, Wanted};
use build::code::Reader;
use model::{Arch, CodeFacts, Fault, FaultKind, Seen};
use rayon::prelude::*;
use std::collections::HashMap;
use std::path::Path;
use system::error::Result;

/// Equal code of one name is read once, wherever it is.
#[derive(Default)]
pub struct MachineCode(HashMap<Key, Seen<CodeFacts>>);

/// Name, architecture and digest.
type Key = (String, Arch, [u8; 32]);

fn key(kernel: &Kernel) -> Key {
    (kernel.name.clone(), kernel.arch, kernel.digest)
}

impl MachineCode {
    pub fn of(&self, kernel: &Kernel) -> Seen<CodeFacts> {
        let known = self.0.get(&key(kernel)).cloned();
        known.unwrap_or_else(|| {
            let message = "the file no longer has it: it was written meanwhile".to_owned();
            Seen::Fault(Fault::new(FaultKind::Disassembler, message))
        })
    }
}

/// # Errors
/// Where something is damaged or cannot be read.
pub fn read_code<'a>(
    path: &Path,
    kernels: impl IntoIterator<Item = &'a Kernel>,
    reader: &Reader,
) -> Result<MachineCode> {
    let wanted: Wanted = kernels.into_iter().collect();
    if wanted.is_empty() {
        return Ok(MachineCode::default());
    }
    let cubins = read_cubins(path, &wanted)?;
    let read = cubins.par_iter().flat_map_iter(|it| of_cubin(it, reader));
    Ok(MachineCode(read.collect()))
}

fn of_cubin(cubin: &Cubin, reader: &Reader) -> Vec<(Key, Seen<CodeFacts>)> {
    let Cubin { bytes, kernels } = cubin;
    let symbols: Vec<&str> = kernels.iter().map(|it| it.name.as_str()).collect();
    let facts = reader.read_kernels(bytes, &symbols);
    kernels.iter().map(key).zip(facts).collect()
}
