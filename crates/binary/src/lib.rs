//! Lists the GPU kernels of a compiled file: registers, stack, shared memory and code, for each architecture. It reads
//! cubins, fat binaries, host objects, static archives and PTX. It knows nothing of gates or files, and needs no tool
//! of NVIDIA. All of the input is outside data: an error states its byte, and nothing panics.

#![warn(clippy::disallowed_methods)]

mod bytes;
mod code;
mod cubin;
mod elf;
mod error;
mod fatbin;
mod host;
mod libraries;
mod matching;
mod module;
mod normal;
mod ptx;
mod rank;
mod similar;

pub use error::{Error, Offset, Problem};
pub use libraries::{Libraries, LostArchitecture, all_targets, libraries, lost_architectures};
pub use matching::{MatchedBy, Matching, Pair, match_kernels};
pub use module::{KernelCode, Variable, find_code, find_kernel_ptx, has_textures, read_variables};
pub use normal::name as normal_name;
pub use ptx::{find_entry, kernels as ptx_kernels};
pub use rank::{Resident, Worsening};

use model::Arch;
use model::occupancy::{Demand, Occupancy, occupancy};
use object::read::archive::ArchiveFile;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The container format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An ELF file with machine code for one architecture.
    Cubin,
    /// Machine code and PTX for several architectures.
    Fatbin,
    /// An object, a shared library or a program of the host.
    Host,
    /// A static library of host objects.
    Archive,
    /// Bytecode of MLIR, as in the cache of CuTe DSL.
    Mlir,
    /// PTX in the form of text.
    Ptx,
    /// A zip archive, such as a wheel, of any of these.
    Zip,
    /// A directory of any of these.
    Directory,
}

/// The bytes that a file of this format starts with.
const ELF: &[u8] = b"\x7fELF";
const FATBIN: [u8; 4] = fatbin::MAGIC.to_le_bytes();
const ARCHIVE: &[u8] = b"!<arch>\n";
const MLIR: &[u8] = b"ML\xefR";

/// A kernel for one architecture, as its machine code describes it. `None`: this machine code does not say. A committed
/// baseline has one on each line, with the fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinaryKernel {
    pub arch: Arch,
    /// The mangled name, which the linker knows.
    #[serde(rename = "symbol")]
    pub name: String,
    /// The place in an archive or a directory: `x.o`, `pkg/_C.so`, and `pkg/lib.a(x.o)` in an archive within one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The number of registers of a thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<u32>,
    /// Bytes of a thread's stack frame as PTXAS reports it, without the frames of functions that it calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<u32>,
    /// Bytes of a thread's stack, with the frames of functions that it calls. `None` before device code is linked.
    /// Recursion is not counted, because its depth is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<u32>,
    /// Bytes that the source declares, as PTXAS reports them. `None` before device code is linked.
    #[serde(rename = "shared", default, skip_serializing_if = "Option::is_none")]
    pub static_shared: Option<u64>,
    /// Bytes that the system adds to them from sm_90 on. cuobjdump reports the sum.
    pub reserved_shared: u64,
    /// The number of instructions that load or store local memory, if the encoding is known. If it is 0, nothing is
    /// spilled. No compiled file says how many bytes are.
    #[serde(
        rename = "local_accesses",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub local_instructions: Option<u32>,
    /// Bytes of code, with functions that are not inlined.
    pub code: u64,
    /// Bytes by bank. Bank 0 has the parameters and what the driver keeps before them.
    pub constants: BTreeMap<u32, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barriers: Option<u32>,
    /// The largest block that the source's `__launch_bounds__` allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<[u32; 3]>,
    /// The block shape that `.reqntid` of PTX requires exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_threads: Option<[u32; 3]>,
    /// True if the device code is linked, which it is not after `nvcc -dc`.
    pub is_linked: bool,
    /// Equal for equal machine code, including the functions that it calls. It covers neither the names of the kernel
    /// and of functions, nor the values of variables.
    #[serde(with = "hex")]
    pub digest: [u8; 32],
    /// The number of instructions of each opcode in the machine code, sorted by opcode.
    pub opcodes: Vec<(u16, u32)>,
}

mod hex {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(digest: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&blake3::Hash::from(*digest).to_hex())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        blake3::Hash::from_hex(&text)
            .map(|digest| *digest.as_bytes())
            .map_err(|_| D::Error::custom(format!("`{text}` is not a digest")))
    }
}

impl BinaryKernel {
    /// Returns the threads of the largest block that the bounds allow.
    pub fn largest_block(&self) -> Option<u64> {
        let block = self.required_threads.or(self.max_threads)?;
        Some(
            block
                .into_iter()
                .map(|block| u64::from(block.max(1)))
                .fold(1, u64::saturating_mul),
        )
    }

    /// Returns the occupancy with the largest block that the bounds allow, and with static shared memory alone. Returns
    /// `None` if the kernel has no bounds, if its device code is not linked, or if the limits of the architecture are
    /// unknown.
    pub fn occupancy(&self) -> Option<Occupancy> {
        self.occupancy_of(self.largest_block()?)
    }

    /// Returns the occupancy with blocks of another size.
    pub fn occupancy_of(&self, threads_per_block: u64) -> Option<Occupancy> {
        let demand = Demand {
            registers: self.registers?,
            shared_bytes: self.static_shared?,
            barriers: self.barriers?,
            threads_per_block,
        };
        occupancy(self.arch, demand)
    }
}

/// PTX that a driver compiles for the GPU that it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    pub arch: Arch,
    pub kernels: Vec<String>,
    pub member: Option<String>,
    /// The reason why an assembler made no machine code from it. `None` if no assembler was called.
    pub refused: Option<String>,
}

/// The text of PTX, as an assembler reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxText<'a> {
    /// The target that the PTX itself names.
    pub arch: Arch,
    pub text: Cow<'a, [u8]>,
    /// The member, as for a kernel.
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

/// The program that wrote machine code, according to its own note.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compiler {
    pub tool: String,
    /// The version, `13.0.88`, or the whole text if it has no such number.
    pub version: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub format: Format,
    pub kernels: Vec<BinaryKernel>,
    pub ptx: Vec<Ptx>,
    pub others: Vec<Other>,
    /// The number of cubins that each compiler made. `None` stands for cubins that do not say, which is usual before
    /// CUDA 13.
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

    /// Returns true if the file has nothing for a GPU.
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
            && self.ptx.is_empty()
            && self.others.is_empty()
            && self.compilers.is_empty()
    }

    /// Returns the names of kernels that it has no machine code for, but PTX.
    pub fn only_ptx(&self) -> BTreeSet<&str> {
        let made: HashSet<&str> = self
            .kernels
            .iter()
            .map(|kernel| kernel.name.as_str())
            .collect();
        self.ptx
            .iter()
            .flat_map(|ptx| &ptx.kernels)
            .map(String::as_str)
            .filter(|name| !made.contains(name))
            .collect()
    }

    fn add(&mut self, at: u64, member: Option<Cow<str>>, content: Content) {
        let member = member.map(Cow::into_owned);
        match content {
            Content::Cubin(cubin) => {
                *self.compilers.entry(cubin.compiler).or_default() += 1;
                self.kernels
                    .extend(cubin.kernels.into_iter().map(|kernel| BinaryKernel {
                        member: member.clone(),
                        ..kernel
                    }));
            }
            Content::Ptx { arch, kernels } => self.ptx.push(Ptx {
                arch,
                kernels,
                member,
                refused: None,
            }),
            Content::Other { kind, arch } => self.others.push(Other {
                kind,
                arch,
                offset: at,
                member,
            }),
        }
    }

    /// Adds the listing of a file to the listing of the directory or archive which has it under this name.
    pub fn add_member(&mut self, name: &str, mut listing: Self) {
        let within = |member: Option<String>| match member {
            Some(member) => Some(format!("{name}({member})")),
            None => Some(name.to_owned()),
        };
        for member in (listing.kernels.iter_mut().map(|kernel| &mut kernel.member))
            .chain(listing.ptx.iter_mut().map(|ptx| &mut ptx.member))
            .chain(listing.others.iter_mut().map(|other| &mut other.member))
        {
            *member = within(member.take());
        }
        self.append(listing);
    }

    /// Adds the listing of another part of the same file.
    pub fn append(&mut self, listing: Self) {
        let Self {
            format: _,
            mut kernels,
            mut ptx,
            mut others,
            compilers,
        } = listing;
        self.kernels.append(&mut kernels);
        self.ptx.append(&mut ptx);
        self.others.append(&mut others);
        for (compiler, cubins) in compilers {
            *self.compilers.entry(compiler).or_default() += cubins;
        }
    }
}

/// GPU code that was found in a file.
struct Found<'a> {
    /// The position of the code in the file.
    at: u64,
    member: Option<Cow<'a, str>>,
    code: FoundCode<'a>,
}

enum FoundCode<'a> {
    Cubin(&'a [u8]),
    Entry(fatbin::FatbinEntry<'a>),
    Ptx(&'a [u8]),
}

/// GPU code, after it was read.
enum Content {
    Cubin(cubin::Cubin),
    Ptx { arch: Arch, kernels: Vec<String> },
    Other { kind: u16, arch: Arch },
}

impl<'a> Found<'a> {
    fn read(&self) -> Result<Content, Error> {
        let shifted = |error: Error| error.shifted(self.at);
        match &self.code {
            FoundCode::Cubin(bytes) => {
                Ok(Content::Cubin(cubin::read(bytes, None).map_err(shifted)?))
            }
            FoundCode::Ptx(text) => ptx::read(text).map_err(shifted),
            FoundCode::Entry(entry) => entry.read(self.at),
        }
    }

    /// Returns the PTX, or `None` if the code is no PTX.
    fn ptx(self) -> Result<Option<PtxText<'a>>, Error> {
        let (arch, text) = match self.code {
            FoundCode::Cubin(_) => return Ok(None),
            FoundCode::Ptx(text) => {
                let arch = ptx::target(text).map_err(|error| error.shifted(self.at))?;
                (arch, Cow::Borrowed(text))
            }
            FoundCode::Entry(entry) => match entry.ptx(self.at)? {
                Some(text) => (entry.target(), text),
                None => return Ok(None),
            },
        };
        let member = self.member.map(Cow::into_owned);
        Ok(Some(PtxText { arch, text, member }))
    }

    /// Returns the machine code, or `None` if it has no wanted kernel.
    fn read_cubin(&self, wanted: &Wanted) -> Result<Option<Cubin<'a>>, Error> {
        let (cubin, bytes) = match &self.code {
            FoundCode::Cubin(bytes) => {
                let cubin = cubin::read(bytes, None).map_err(|cubin| cubin.shifted(self.at))?;
                (cubin, Cow::Borrowed(*bytes))
            }
            FoundCode::Entry(entry) => match entry.machine() {
                Some(arch) if wanted.architectures.contains(&arch) => entry.read_cubin(self.at)?,
                _ => return Ok(None),
            },
            FoundCode::Ptx(_) => return Ok(None),
        };
        let mut kernels = cubin.kernels;
        kernels.retain(|kernel| wanted.has(kernel));
        Ok((!kernels.is_empty()).then_some(Cubin { bytes, kernels }))
    }
}

/// The kernels whose machine code is wanted. Equal code of one name and architecture is the same kernel, wherever it
/// is.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    kernels: HashSet<(&'a str, Arch, [u8; 32])>,
    architectures: HashSet<Arch>,
}

impl<'a> FromIterator<&'a BinaryKernel> for Wanted<'a> {
    fn from_iter<I: IntoIterator<Item = &'a BinaryKernel>>(kernels: I) -> Self {
        let mut wanted = Self::default();
        for kernel in kernels {
            wanted.architectures.insert(kernel.arch);
            wanted
                .kernels
                .insert((&kernel.name, kernel.arch, kernel.digest));
        }
        wanted
    }
}

impl Wanted<'_> {
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Returns true if a kernel with this name, architecture and digest is in the set.
    pub fn has(&self, kernel: &BinaryKernel) -> bool {
        let key = (kernel.name.as_str(), kernel.arch, kernel.digest);
        self.kernels.contains(&key)
    }
}

/// Machine code from a file, with the kernels in it that are wanted.
#[derive(Debug)]
pub struct Cubin<'a> {
    pub bytes: Cow<'a, [u8]>,
    pub kernels: Vec<BinaryKernel>,
}

/// Returns the cubins that have a wanted kernel, in the order of the file.
///
/// # Errors
/// Fails if it is no such file, or if it is damaged.
pub fn read_cubins<'a>(bytes: &'a [u8], wanted: &Wanted) -> Result<Vec<Cubin<'a>>, Error> {
    let (_, found) = find_all(bytes)?;
    let cubins: Vec<_> = (found.par_iter())
        .map(|packed| packed.read_cubin(wanted))
        .collect();
    cubins.into_iter().filter_map(Result::transpose).collect()
}

/// A part of a file that is searched for GPU code: where it starts, whose it is, and what was found so far.
struct SearchedPart<'a, 'f> {
    /// The position of the part in the file.
    start: u64,
    member: Option<Cow<'a, str>>,
    found: &'f mut Vec<Found<'a>>,
}

impl<'a> SearchedPart<'a, '_> {
    /// Returns the rest of the part from a later byte on.
    fn further(&mut self, by: u64) -> SearchedPart<'a, '_> {
        SearchedPart {
            start: self.start.saturating_add(by),
            member: self.member.clone(),
            found: self.found,
        }
    }

    fn add(&mut self, at: u64, code: FoundCode<'a>) {
        let member = self.member.clone();
        self.found.push(Found { at, member, code });
    }
}

/// Lists the GPU code of a file.
///
/// # Errors
/// Fails if it is no such file, or if it is damaged.
pub fn read(bytes: &[u8]) -> Result<Listing, Error> {
    let mut listing = read_all(bytes)?;
    if listing.kernels.iter().all(|kernel| kernel.is_linked) {
        return Ok(listing);
    }
    // A library keeps what its device code was linked from.
    let linked: HashSet<_> = listing
        .kernels
        .iter()
        .filter(|kernel| kernel.is_linked)
        .map(|kernel| (kernel.name.clone(), kernel.arch))
        .collect();
    let is_kept = |kernel: &BinaryKernel| {
        kernel.is_linked || !linked.contains(&(kernel.name.clone(), kernel.arch))
    };
    listing.kernels.retain(is_kept);
    Ok(listing)
}

/// The number of bytes that say whether a file may have GPU code.
pub const START: usize = 4096;

/// Returns true if a file that starts like this can have GPU code. `start` is the first [`START`] bytes, or the whole
/// file.
pub fn may_have_code(start: &[u8]) -> bool {
    let magics = [ELF, &FATBIN, ARCHIVE, MLIR];
    magics.iter().any(|magic| start.starts_with(magic)) || ptx::is_ptx(start)
}

type Find<'a> = fn(&'a [u8], &mut SearchedPart<'a, '_>) -> Result<(), Error>;

/// Returns the PTX of a file, and the format of its container.
///
/// # Errors
/// Fails as [`read`] does, except for machine code, which is not read.
pub fn read_ptx(bytes: &[u8]) -> Result<(Format, Vec<PtxText<'_>>), Error> {
    let (format, found) = find_all(bytes)?;
    let texts: Vec<Option<PtxText>> = found
        .into_iter()
        .map(Found::ptx)
        .collect::<Result<_, _>>()?;
    Ok((format, texts.into_iter().flatten().collect()))
}

fn read_all(bytes: &[u8]) -> Result<Listing, Error> {
    let (format, found) = find_all(bytes)?;
    // Unpacking takes nearly all of the time. Results stay in order, so that the first error is always the same one.
    let contents: Vec<Result<Content, Error>> = found.par_iter().map(Found::read).collect();
    let mut listing = Listing::new(format);
    for (found, content) in found.into_iter().zip(contents) {
        listing.add(found.at, found.member, content?);
    }
    Ok(listing)
}

fn find_all(bytes: &[u8]) -> Result<(Format, Vec<Found<'_>>), Error> {
    let (format, find): (_, Find) = match bytes {
        _ if bytes.starts_with(ELF) => {
            if elf::is_cubin(bytes)? {
                (Format::Cubin, find_in_elf)
            } else {
                (Format::Host, find_in_elf)
            }
        }
        _ if bytes.starts_with(&FATBIN) => (Format::Fatbin, fatbin::find),
        _ if bytes.starts_with(ARCHIVE) => (Format::Archive, find_in_archive),
        _ if bytes.starts_with(MLIR) => (Format::Mlir, fatbin::find_among),
        _ if ptx::is_ptx(bytes) => (Format::Ptx, find_ptx),
        _ => return Err(Error::at(0, Problem::Unknown)),
    };
    let mut found = Vec::new();
    find(
        bytes,
        &mut SearchedPart {
            start: 0,
            member: None,
            found: &mut found,
        },
    )?;
    Ok((format, found))
}

fn find_ptx<'a>(bytes: &'a [u8], part: &mut SearchedPart<'a, '_>) -> Result<(), Error> {
    part.add(part.start, FoundCode::Ptx(bytes));
    Ok(())
}

fn find_in_elf<'a>(bytes: &'a [u8], part: &mut SearchedPart<'a, '_>) -> Result<(), Error> {
    if elf::is_cubin(bytes).map_err(|error| error.shifted(part.start))? {
        part.add(part.start, FoundCode::Cubin(bytes))
    } else {
        host::find(bytes, part)?
    }
    Ok(())
}

fn find_in_archive<'a>(bytes: &'a [u8], part: &mut SearchedPart<'a, '_>) -> Result<(), Error> {
    let damaged = |offset: u64| move |_| Error::at(offset, Problem::Damaged("archive member"));
    let archive = ArchiveFile::parse(bytes).map_err(damaged(0))?;
    // The list of symbols names members, which shows if any were cut off at the end.
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
        // Other members have no code for a GPU. They are a list of symbols, or the bitcode of a host compiler.
        if data.starts_with(ELF) {
            let mut part = SearchedPart {
                member: Some(String::from_utf8_lossy(member.name())),
                ..part.further(start)
            };
            find_in_elf(data, &mut part)?;
        }
    }
    Ok(())
}
