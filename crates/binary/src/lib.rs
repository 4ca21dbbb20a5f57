//! The GPU kernels of a compiled file: registers, stack, shared memory, code, for each architecture. Reads
//! cubins, fat binaries, host objects and static archives. Knows nothing of gates or files, and needs no tool of NVIDIA.
//! All of it is outside data: an error says at which byte it is, and nothing panics.

#![warn(clippy::disallowed_methods)]

mod bytes;
mod code;
mod cubin;
mod elf;
mod error;
mod fatbin;
mod host;
mod matching;
mod normal;
mod ptx;
mod similar;

pub use error::{Error, Offset, Problem};
pub use matching::{MatchedBy, Matching, Pair, match_kernels};

use model::Arch;
use object::read::archive::ArchiveFile;
use std::collections::{BTreeMap, HashSet};

/// The container that a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Machine code for one architecture.
    Cubin,
    /// Machine code and PTX for several.
    Fatbin,
    /// An object, a shared library or a program of the host.
    Host,
    /// A static library.
    Archive,
}

/// A kernel for one architecture, as its machine code describes it. `None`: this machine code does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// As the linker knows it.
    pub name: String,
    pub arch: Arch,
    /// For each thread.
    pub registers: Option<u32>,
    /// Bytes of a thread, without those of functions that it calls: PTXAS's stack frame.
    pub frame: Option<u32>,
    /// Bytes of a thread, with those of functions that it calls; `None` before device code is linked. Recursion is not
    /// counted, as its depth is unknown.
    pub stack: Option<u32>,
    /// Bytes that the source declares, as PTXAS reports them; `None` before device code is linked.
    pub static_shared: Option<u64>,
    /// Bytes that the system adds to them from sm_90 on; cuobjdump reports the sum.
    pub reserved_shared: u64,
    /// Bytes by bank; those of bank 0 are the parameters and what the driver keeps before them.
    pub constants: BTreeMap<u32, u64>,
    /// Bytes, with those of functions that are not inlined.
    pub code: u64,
    pub barriers: Option<u32>,
    /// `__launch_bounds__`
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid` of PTX, which is a block of exactly that shape.
    pub required_threads: Option<[u32; 3]>,
    /// Whether its device code is linked: not so after `nvcc -dc`.
    pub is_linked: bool,
    /// Equal for equal machine code, with that of the functions that it calls. Not in it: the names of the kernel and
    /// of functions, and the values of variables.
    pub digest: [u8; 32],
    /// How many instructions of each opcode its machine code has, by opcode.
    pub opcodes: Vec<(u16, u32)>,
    /// Instructions that load or store local memory, where the encoding is known. Nothing is spilled where it is 0:
    /// no compiled file says how many bytes are.
    pub local_instructions: Option<u32>,
    /// The member of an archive.
    pub member: Option<String>,
}

/// PTX that a driver compiles for the GPU that it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    pub arch: Arch,
    pub kernels: Vec<String>,
    pub member: Option<String>,
}

/// An entry of a fat binary that is neither machine code nor PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    pub kind: u16,
    pub arch: Arch,
    pub offset: u64,
    pub member: Option<String>,
}

/// The program that wrote machine code, by its own note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Compiler {
    pub tool: String,
    /// `13.0.88`, or the whole text where it has no such number.
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub format: Format,
    pub kernels: Vec<Kernel>,
    pub ptx: Vec<Ptx>,
    pub others: Vec<Other>,
    /// How many cubins each has made. `None`: they do not say, as is usual before CUDA 13.
    pub compilers: BTreeMap<Option<Compiler>, usize>,
}

impl Listing {
    fn new(format: Format) -> Self {
        Self {
            format,
            kernels: Vec::new(),
            ptx: Vec::new(),
            others: Vec::new(),
            compilers: BTreeMap::new(),
        }
    }

    /// Whether the file has nothing for a GPU.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
            && self.ptx.is_empty()
            && self.others.is_empty()
            && self.compilers.is_empty()
    }

    fn add_cubin(&mut self, cubin: cubin::Cubin, member: Option<&str>) {
        *self.compilers.entry(cubin.compiler).or_default() += 1;
        let kernels = cubin.kernels.into_iter();
        self.kernels.extend(kernels.map(|kernel| Kernel {
            member: member.map(str::to_owned),
            ..kernel
        }));
    }
}

/// # Errors
/// Where it is no such file, or damaged.
pub fn read(bytes: &[u8]) -> Result<Listing, Error> {
    let mut listing = read_all(bytes)?;
    if listing.kernels.iter().all(|it| it.is_linked) {
        return Ok(listing);
    }
    // A library keeps what its device code was linked from.
    let linked = listing.kernels.iter().filter(|it| it.is_linked);
    let linked: HashSet<_> = linked.map(|it| (it.name.clone(), it.arch)).collect();
    let is_kept = |it: &Kernel| it.is_linked || !linked.contains(&(it.name.clone(), it.arch));
    listing.kernels.retain(is_kept);
    Ok(listing)
}

fn read_all(bytes: &[u8]) -> Result<Listing, Error> {
    if bytes.starts_with(b"\x7fELF") {
        return match elf::is_cubin(bytes)? {
            true => {
                let mut listing = Listing::new(Format::Cubin);
                listing.add_cubin(cubin::read(bytes, None)?, None);
                Ok(listing)
            }
            false => {
                let mut listing = Listing::new(Format::Host);
                host::read(bytes, 0, None, &mut listing)?;
                Ok(listing)
            }
        };
    }
    if bytes.starts_with(&fatbin::MAGIC.to_le_bytes()) {
        let mut listing = Listing::new(Format::Fatbin);
        fatbin::read(bytes, 0, None, &mut listing)?;
        return Ok(listing);
    }
    if bytes.starts_with(b"!<arch>\n") {
        return read_archive(bytes);
    }
    Err(Error::at(0, Problem::Unknown))
}

fn read_archive(bytes: &[u8]) -> Result<Listing, Error> {
    let damaged = |offset: u64| move |_| Error::at(offset, Problem::Damaged("archive member"));
    let archive = ArchiveFile::parse(bytes).map_err(damaged(0))?;
    // The list of symbols names members that were cut off at the end of another.
    let symbols = archive.symbols().map_err(damaged(0))?;
    for symbol in symbols.into_iter().flatten() {
        let offset = symbol.map_err(damaged(0))?.offset();
        archive
            .member(offset)
            .map_err(damaged(bytes.len() as u64))?;
    }
    let mut listing = Listing::new(Format::Archive);
    let mut end = 0;
    for member in archive.members() {
        let member = member.map_err(damaged(end))?;
        let (start, size) = member.file_range();
        let data = member.data(bytes).map_err(damaged(start))?;
        end = start.saturating_add(size);
        // Other members have no code for a GPU: a list of symbols, the bitcode of a host compiler.
        if data.starts_with(b"\x7fELF") {
            let name = String::from_utf8_lossy(member.name());
            let name = Some(name.as_ref());
            match elf::is_cubin(data).map_err(|error| error.shifted(start))? {
                true => {
                    let cubin = cubin::read(data, None).map_err(|error| error.shifted(start))?;
                    listing.add_cubin(cubin, name);
                }
                false => host::read(data, start, name, &mut listing)?,
            }
        }
    }
    Ok(listing)
}
