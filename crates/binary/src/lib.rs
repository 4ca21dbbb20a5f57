//! The GPU kernels of a compiled file: registers, stack, shared memory, code, for each architecture. Reads
//! cubins, fat binaries, host objects, static archives and PTX. Knows nothing of gates or files, and needs no tool of NVIDIA.
//! All of it is outside data: an error says at which byte it is, and nothing panics.

#![warn(clippy::disallowed_methods)]

mod bytes;
mod cubin;
mod elf;
mod error;
mod fatbin;
mod host;
mod ptx;

pub use error::{Error, Offset, Problem};

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
    /// PTX, as text.
    Ptx,
    /// A zip archive, such as a wheel, of any of these.
    Zip,
    /// A directory of any of these.
    Directory,
}

/// How files start.
const ELF: &[u8] = b"\x7fELF";
const FATBIN: [u8; 4] = fatbin::MAGIC.to_le_bytes();
const ARCHIVE: &[u8] = b"!<arch>\n";

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
    /// Where it is in an archive or a directory: `x.o`, `pkg/_C.so`, and `pkg/lib.a(x.o)` in an archive within one.
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
    pub fn new(format: Format) -> Self {
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

    /// Adds what a file lists to what the directory or archive lists that has it under this name.
    pub fn add_member(&mut self, name: &str, listing: Self) {
        let within = |member: Option<String>| match member {
            Some(member) => Some(format!("{name}({member})")),
            None => Some(name.to_owned()),
        };
        let Self {
            format: _,
            mut kernels,
            mut ptx,
            mut others,
            compilers,
        } = listing;
        for member in (kernels.iter_mut().map(|it| &mut it.member))
            .chain(ptx.iter_mut().map(|it| &mut it.member))
            .chain(others.iter_mut().map(|it| &mut it.member))
        {
            *member = within(member.take());
        }
        self.kernels.append(&mut kernels);
        self.ptx.append(&mut ptx);
        self.others.append(&mut others);
        for (compiler, cubins) in compilers {
            *self.compilers.entry(compiler).or_default() += cubins;
        }
    }
}

/// A part of a file: where it starts, whose it is, and what lists it.
struct Part<'a> {
    /// In the file.
    start: u64,
    member: Option<&'a str>,
    listing: &'a mut Listing,
}

impl Part<'_> {
    /// The same from a later byte on.
    fn further(&mut self, by: u64) -> Part<'_> {
        Part {
            start: self.start.saturating_add(by),
            member: self.member,
            listing: self.listing,
        }
    }

    fn add_cubin(&mut self, cubin: cubin::Cubin) {
        *self.listing.compilers.entry(cubin.compiler).or_default() += 1;
        let kernels = cubin.kernels.into_iter();
        self.listing.kernels.extend(kernels.map(|kernel| Kernel {
            member: self.member.map(str::to_owned),
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

/// How much of a file says whether it may have GPU code.
pub const START: usize = 4096;

/// Whether a file that starts like this can have GPU code. `start`: [`START`] bytes, or the whole file.
pub fn may_have_code(start: &[u8]) -> bool {
    let magics = [ELF, &FATBIN, ARCHIVE];
    magics.iter().any(|it| start.starts_with(it)) || ptx::is_ptx(start)
}

fn read_all(bytes: &[u8]) -> Result<Listing, Error> {
    let list = |format, read: fn(&[u8], &mut Part) -> Result<(), Error>| {
        let mut listing = Listing::new(format);
        let mut part = Part {
            start: 0,
            member: None,
            listing: &mut listing,
        };
        read(bytes, &mut part)?;
        Ok(listing)
    };
    match bytes {
        _ if bytes.starts_with(ELF) => match elf::is_cubin(bytes)? {
            true => list(Format::Cubin, read_elf),
            false => list(Format::Host, read_elf),
        },
        _ if bytes.starts_with(&FATBIN) => list(Format::Fatbin, fatbin::read),
        _ if bytes.starts_with(ARCHIVE) => list(Format::Archive, read_archive),
        _ if ptx::is_ptx(bytes) => list(Format::Ptx, ptx::read),
        _ => Err(Error::at(0, Problem::Unknown)),
    }
}

fn read_elf(bytes: &[u8], part: &mut Part) -> Result<(), Error> {
    let shifted = |error: Error| error.shifted(part.start);
    if !elf::is_cubin(bytes).map_err(shifted)? {
        return host::read(bytes, part);
    }
    let cubin = cubin::read(bytes, None).map_err(shifted)?;
    part.add_cubin(cubin);
    Ok(())
}

fn read_archive(bytes: &[u8], part: &mut Part) -> Result<(), Error> {
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
    let mut end = 0;
    for member in archive.members() {
        let member = member.map_err(damaged(end))?;
        let (start, size) = member.file_range();
        let data = member.data(bytes).map_err(damaged(start))?;
        end = start.saturating_add(size);
        // Other members have no code for a GPU: a list of symbols, the bitcode of a host compiler.
        if data.starts_with(ELF) {
            let name = String::from_utf8_lossy(member.name());
            let mut part = Part {
                member: Some(&name),
                ..part.further(start)
            };
            read_elf(data, &mut part)?;
        }
    }
    Ok(())
}
