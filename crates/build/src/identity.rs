//! Computes a digest of what an entry executes, read from the compiler's ELF output, and of what the simulator
//! executes, read from its PTX. Pure: bytes in, digest out.
//!
//! The digest contains the machine code of the entry and of every function that it reaches, constants, initial values
//! and names of the variables that it addresses, and the attributes by which the driver sets up a launch. It does not
//! contain paths, line tables, PTX text, and the names of the entry and of functions, because a template argument
//! without effect renames them.
//!
//! Where machine code does not say what it uses, the digest contains everything: the module's constant banks 3 and 4
//! belong to every entry, so a neighbour's new `__constant__` counts as a change. This errs on the safe side: a change
//! is never reported as none.

use model::Resources;
use object::elf;
use object::read::elf::{ElfFile64, ElfSection64, ElfSymbol64, FileHeader};
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget,
    SectionIndex, SymbolIndex, SymbolSection,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

type Elf<'data> = ElfFile64<'data, LittleEndian>;
type Section<'data, 'file> = ElfSection64<'data, 'file, LittleEndian>;
type Sym<'data, 'file> = ElfSymbol64<'data, 'file, LittleEndian>;
type Result<T> = std::result::Result<T, CubinError>;

/// The reason for which a cubin does not say what it executes.
#[derive(Debug, thiserror::Error)]
pub enum CubinError {
    #[error("the cubin cannot be read: {0}")]
    Unreadable(#[from] object::Error),
    #[error("the host object cannot be read: {0}")]
    UnreadableHost(#[source] object::Error),
    /// It lacks something, or contradicts itself.
    #[error("{0}")]
    Unsuitable(String),
}

impl From<String> for CubinError {
    fn from(why: String) -> Self {
        Self::Unsuitable(why)
    }
}

/// The ELF file with machine code for one architecture.
pub struct Cubin<'data> {
    elf: Elf<'data>,
}

/// `st_other` of an entry, as nvcc's cubins mark it (STO_CUDA_ENTRY).
const STO_CUDA_ENTRY: u8 = 0x10;

/// The section that holds `__constant__` variables.
const CONSTANT_BANK: &str = ".nv.constant3";

/// The sections that hold `__device__` variables, without and with an initial value.
const WRITTEN: [&str; 2] = [".nv.global", ".nv.global.init"];

impl<'data> Cubin<'data> {
    /// Parses a cubin.
    ///
    /// # Errors
    /// Returns an error if it is no ELF file of 64 bits.
    pub fn parse(bytes: &'data [u8]) -> Result<Self> {
        Ok(Self {
            elf: Elf::parse(bytes)?,
        })
    }

    /// Returns true if functions of it are still to be linked. Then it does not hold everything that an entry executes,
    /// and the final code has other numbers than PTXAS reported.
    pub fn is_relocatable(&self) -> bool {
        self.elf.elf_header().e_type(LittleEndian) == elf::ET_REL
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.elf.symbols().filter_map(|symbol| symbol.name().ok())
    }

    /// Returns the symbols of all entries.
    pub fn entries(&self) -> Vec<&str> {
        self.elf
            .symbols()
            .filter(is_entry)
            .filter_map(|symbol| symbol.name().ok())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// Returns the variables that the host can fill, `__constant__` and `__device__`, with their sizes in bytes.
    pub fn fillable(&self) -> Vec<(&str, u64)> {
        let mut all = self.variables(&[CONSTANT_BANK]);
        all.extend(self.variables(&WRITTEN));
        all
    }

    /// Returns the `__device__` variables, which kernels can write, with their sizes in bytes.
    pub fn written(&self) -> Vec<(&str, u64)> {
        self.variables(&WRITTEN)
    }

    fn variables(&self, sections: &[&str]) -> Vec<(&str, u64)> {
        let is_there = |symbol: &Sym| {
            let SymbolSection::Section(index) = symbol.section() else {
                return false;
            };
            let section = self.elf.section_by_index(index);
            symbol.elf_symbol().st_type() == elf::STT_OBJECT
                && section
                    .is_ok_and(|section| section.name().is_ok_and(|name| sections.contains(&name)))
        };
        self.elf
            .symbols()
            .filter(is_there)
            .filter_map(|symbol| Some((symbol.name().ok()?, symbol.size())))
            .collect()
    }

    fn entry(&self, entry: &str) -> Result<Sym<'data, '_>> {
        let mut symbols = self.elf.symbols();
        symbols
            .find(|symbol| is_entry(symbol) && symbol.name() == Ok(entry))
            .ok_or_else(|| format!("the cubin has no entry {entry}").into())
    }

    /// Returns the place of an entry in the symbol table.
    ///
    /// # Errors
    /// Returns an error if the entry is not there.
    pub fn symbol_index(&self, entry: &str) -> Result<usize> {
        Ok(self.entry(entry)?.index().0)
    }

    /// Returns the digest of what an entry executes.
    ///
    /// # Errors
    /// Returns an error if the entry is not there, or if the file contradicts itself.
    pub fn identity(&self, entry: &str) -> Result<[u8; 32]> {
        let symbol = self.entry(entry)?;
        let mut walk = Walk::new(self);
        let header = self.elf.elf_header();
        walk.number(u64::from(header.e_machine(LittleEndian).0));
        walk.number(u64::from(header.e_flags(LittleEndian).0));
        walk.function(&symbol)?;
        // Banks of the whole module (3: `__constant__`, 4: addresses) are included, because code reads them by offset.
        for section in self.elf.sections() {
            let name = section.name()?;
            if let Some(bank) = name.strip_prefix(".nv.constant")
                && bank.bytes().all(|byte| byte.is_ascii_digit())
            {
                walk.bytes(bank.as_bytes());
                walk.section(&section)?;
            }
        }
        Ok(*walk.digest.finalize().as_bytes())
    }
}

/// The values that machine code itself states, for code that PTXAS did not report on here.
impl Cubin<'_> {
    /// Returns the compute capability that the code is for.
    ///
    /// # Errors
    /// Returns an error if the file does not say it in the form that PTXAS of CUDA 11 to 13 uses.
    pub fn capability(&self) -> Result<(u8, u8)> {
        let header = self.elf.elf_header();
        let flags = header.e_flags(LittleEndian).0;
        // LLVM, llvm/BinaryFormat/ELF.h: EF_CUDA_SM, EF_CUDA_SM_MASK.
        let number = match header.e_ident.abi_version {
            7 => flags & 0xff,
            8 => flags >> 8 & 0xffff,
            other => {
                return Err(format!("the cubin has an unknown version of the ABI: {other}").into());
            }
        };
        match (u8::try_from(number / 10), number % 10) {
            (Ok(major), minor) if major > 0 => Ok((major, minor as u8)),
            _ => Err(format!("the cubin is for sm_{number}, which is none").into()),
        }
    }

    /// Returns registers, static shared memory and barriers, and stack and spills if there certainly are none.
    ///
    /// # Errors
    /// Returns an error if the entry or its number of registers is missing.
    pub fn resources(&self, entry: &str) -> Result<Resources> {
        let symbol = self.entry(entry)?;
        let of_module = |kind: u8| -> Result<Option<u32>> {
            let Some(section) = self.elf.section_by_name(".nv.info") else {
                return Ok(None);
            };
            let mut attributes = Attributes(section.data()?);
            let found = attributes.find_map(|attribute| {
                let (index, rest) = attribute.value.split_first_chunk::<4>()?;
                let is_own = u32::from_le_bytes(*index) as usize == symbol.index().0;
                let value = rest
                    .first_chunk::<4>()
                    .map(|value| u32::from_le_bytes(*value));
                value.filter(|_| is_own && attribute.kind == kind)
            });
            Ok(found)
        };
        let registers = of_module(Attribute::REGISTERS)?
            .ok_or_else(|| format!("the cubin does not say how many registers {entry} takes"))?;
        let frame = of_module(Attribute::FRAME)?;
        // A called function has its own frame, and no value gives the depth of a recursion.
        let calls = self.elf.symbols().any(|symbol| {
            symbol.elf_symbol().st_type() == elf::STT_FUNC
                && !is_entry(&symbol)
                && !symbol.is_undefined()
        });
        let stack = frame.filter(|_| !calls);
        // Nothing can be spilled without a place on the stack.
        let spilled = stack.filter(|stack| *stack == 0);
        let size_of = |kind: &str| {
            let section = self.elf.section_by_name(&format!("{kind}.{entry}"));
            section.map_or(0, |section| section.size())
        };
        // From sm_90 on, the first KiB of a block's shared memory is the system's. Libraries have kernels without the
        // section that says so.
        let is_named = self.elf.section_by_name(".nv.shared.reserved.0").is_some();
        let is_reserved = is_named || self.capability().is_ok_and(|capability| capability.0 >= 9);
        let reserved = if is_reserved { 1024 } else { 0 };
        let shared = size_of(".nv.shared").saturating_sub(reserved);
        let mut barriers = 0;
        if let Some(section) = self.elf.section_by_name(&format!(".nv.info.{entry}")) {
            barriers = Attributes(section.data()?)
                .filter(|attribute| attribute.kind == Attribute::BARRIERS)
                .filter_map(|attribute| attribute.value.first().copied())
                .map(u32::from)
                .max()
                .unwrap_or_default();
        }
        Ok(Resources {
            registers,
            stack,
            spill_stores: spilled,
            spill_loads: spilled,
            static_shared: u32::try_from(shared)
                .map_err(|_| format!("{entry} takes {shared} bytes of shared memory"))?,
            barriers,
            cumulative_stack: None,
            constant_banks: BTreeMap::new(),
            code: None,
            local_accesses: None,
        })
    }
}

fn is_entry(symbol: &Sym) -> bool {
    symbol.elf_symbol().st_other.0 & STO_CUDA_ENTRY != 0 && !symbol.is_undefined()
}

/// Identifies what the simulator executes of a module, and which of its symbols are `called`: entries, and variables that the host fills. The
/// architecture, the version of PTX, comments and source lines are not in it. The whole module is, so a neighbour's change reads
/// as one of the entry.
pub fn ptx_identity(called: &[&str], ptx: &str) -> String {
    let mut digest = blake3::Hasher::new();
    let mut add = |text: &str| {
        digest.update(&(text.len() as u64).to_le_bytes());
        digest.update(text.as_bytes());
    };
    match ptxsim::parse::code_tokens(ptx) {
        Ok(tokens) => {
            let names = Renamed::new(tokens.iter().map(|token| token.text));
            called.iter().for_each(|symbol| add(names.name(symbol)));
            for token in tokens {
                add(if token.is_apart { " " } else { "" });
                add(names.name(token.text));
            }
        }
        // The simulator does not run it, and it is the same as itself alone.
        Err(_) => {
            called.iter().for_each(|symbol| add(symbol));
            add(ptx);
        }
    }
    digest.finalize().to_hex().to_string()
}

/// New names for those that a compiler derived from a file's path and definitions. Code is the same under other names as long as
/// different ones stay different. So one whose new name another word of the text has, or gets, is numbered.
struct Renamed<'text>(BTreeMap<&'text str, String>);

impl<'text> Renamed<'text> {
    fn new(words: impl Iterator<Item = &'text str>) -> Self {
        let (kept, derived): (Vec<&str>, Vec<&str>) =
            words.partition(|word| matches!(normalised(word.as_bytes()), Cow::Borrowed(_)));
        if derived.is_empty() {
            return Self(BTreeMap::new());
        }
        let mut taken: BTreeSet<Cow<str>> = kept.into_iter().map(Cow::Borrowed).collect();
        let mut names = BTreeMap::new();
        for word in derived {
            let new = normalised(word.as_bytes());
            names.entry(word).or_insert_with(|| {
                let new = String::from_utf8_lossy(&new);
                // No word of PTX contains a `#`.
                let new = (0..)
                    .map(|number| match number {
                        0 => new.to_string(),
                        number => format!("{new}#{number}"),
                    })
                    .find(|name| !taken.contains(name.as_str()))
                    .unwrap_or_default();
                taken.insert(Cow::Owned(new.clone()));
                new
            });
        }
        Self(names)
    }

    fn name<'name>(&'name self, word: &'name str) -> &'name str {
        self.0.get(word).map_or(word, String::as_str)
    }

    /// Replaces names in data that are whole words there.
    fn data<'data>(&self, data: &'data [u8]) -> Cow<'data, [u8]> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
        if self.0.is_empty() {
            return Cow::Borrowed(data);
        }
        let replaced = data
            .chunk_by(|left, right| is_part(*left) == is_part(*right))
            .flat_map(|run| match std::str::from_utf8(run) {
                Ok(word) => self.name(word).as_bytes(),
                Err(_) => run,
            })
            .copied()
            .collect();
        Cow::Owned(replaced)
    }
}

/// Follows what code refers to. Things are numbered as they are met, so that their order in the file and
/// their names do not matter.
struct Walk<'cubin, 'data> {
    elf: &'cubin Elf<'data>,
    names: Renamed<'cubin>,
    digest: blake3::Hasher,
    met: BTreeMap<Thing, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    Section(usize),
    Function(usize),
    Variable(usize),
}

impl<'cubin, 'data> Walk<'cubin, 'data> {
    fn new(cubin: &'cubin Cubin<'data>) -> Self {
        Self {
            elf: &cubin.elf,
            names: Renamed::new(cubin.names()),
            digest: blake3::Hasher::new(),
            met: BTreeMap::new(),
        }
    }

    fn number(&mut self, value: u64) {
        self.digest.update(&value.to_le_bytes());
    }

    /// Adds bytes to the digest, preceded by their length, so that two strings cannot be confused with two others.
    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.digest.update(bytes);
    }

    /// Returns true if `thing` occurs for the first time. Its number goes into the digest in either case.
    fn meet(&mut self, thing: Thing) -> bool {
        let next = self.met.len() as u64;
        let number = *self.met.entry(thing).or_insert(next);
        self.number(number);
        number == next
    }

    /// Adds a function: its code, and every section that belongs to it alone, such as `.nv.constant0.k`, `.nv.info.k`,
    /// `.nv.shared.k`.
    fn function(&mut self, symbol: &Sym<'data, '_>) -> Result<()> {
        if !self.meet(Thing::Function(symbol.index().0)) {
            return Ok(());
        }
        let SymbolSection::Section(code) = symbol.section() else {
            return Err("a function of the cubin is in no section".to_owned().into());
        };
        let name = symbol.name()?;
        self.number(symbol.address());
        self.number(symbol.size());
        self.launch_attributes(symbol.index())?;
        self.section(&self.elf.section_by_index(code)?)?;
        let suffix = format!(".{name}");
        let mut own = BTreeMap::new();
        for section in self.elf.sections() {
            let full = section.name()?;
            if let Some(kind) = full.strip_suffix(&suffix)
                && kind.starts_with(".nv.")
                // From Blackwell on, a file contains the code a second time, in an encoding for other chips of the
                // family, and with numbers of symbols in it.
                && !kind.starts_with(".nv.capmerc")
                && !kind.starts_with(".nv.merc")
                && section.index() != code
            {
                own.insert(kind, section);
            }
        }
        for (kind, section) in own {
            self.bytes(kind.as_bytes());
            if kind == ".nv.info" {
                self.attributes(section.data()?);
            } else {
                self.section(&section)?;
            }
        }
        Ok(())
    }

    /// Reads the attributes of this function in the module's `.nv.info`: registers, frame, stack.
    fn launch_attributes(&mut self, function: SymbolIndex) -> Result<()> {
        let Some(section) = self.elf.section_by_name(".nv.info") else {
            return Ok(());
        };
        for attribute in Attributes(section.data()?) {
            if let Some((index, rest)) = attribute.value.split_first_chunk::<4>()
                && attribute.format == Attribute::SIZED
                && u32::from_le_bytes(*index) as usize == function.0
            {
                self.number(u64::from(attribute.kind));
                self.bytes(rest);
            }
        }
        Ok(())
    }

    /// Adds the section `.nv.info` of one function.
    fn attributes(&mut self, data: &[u8]) {
        for attribute in Attributes(data) {
            self.number(u64::from(attribute.format));
            self.number(u64::from(attribute.kind));
            let value = match (attribute.kind, attribute.value.split_first_chunk::<4>()) {
                // The value begins with an index into the symbol table, which depends on neighbours.
                (Attribute::PARAM_CBANK, Some((_, rest))) => rest,
                (Attribute::CUDA_RELEASE, _) => &Attribute::CUDA_13_0,
                _ => attribute.value,
            };
            self.bytes(value);
        }
    }

    /// Adds a whole section, with what its relocations refer to.
    fn section(&mut self, section: &Section<'data, '_>) -> Result<()> {
        if self.meet(Thing::Section(section.index().0)) {
            let whole = section.size();
            self.range(section, 0, whole)?;
        }
        Ok(())
    }

    fn range(&mut self, section: &Section<'data, '_>, start: u64, size: u64) -> Result<()> {
        let beyond = || "a symbol of the cubin ends beyond its section".to_owned();
        let end = start.checked_add(size).ok_or_else(beyond)?;
        let header = section.elf_section_header();
        // The upper bits of the flags are CUDA's (barriers); the info holds the register count.
        self.number(header.sh_flags.get(LittleEndian).0 >> 20);
        self.number(u64::from(header.sh_info.get(LittleEndian) >> 24));
        self.number(size);
        let data = section.data()?;
        if !data.is_empty() {
            let (start, end) = (usize::try_from(start), usize::try_from(end));
            let (Ok(start), Ok(end)) = (start, end) else {
                return Err("a section of the cubin is larger than memory"
                    .to_owned()
                    .into());
            };
            let part = data.get(start..end).ok_or_else(beyond)?;
            self.bytes(part);
        }
        let mut relocations: Vec<_> = section
            .relocations()
            .filter(|(offset, _)| (start..end).contains(offset))
            .collect();
        relocations.sort_by_key(|(offset, _)| *offset);
        for (offset, relocation) in relocations {
            self.number(offset - start);
            if let RelocationFlags::Elf { r_type } = relocation.flags() {
                self.number(u64::from(r_type.0));
            }
            self.number(relocation.addend() as u64);
            match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    self.target(&self.elf.symbol_by_index(index)?)?;
                }
                RelocationTarget::Section(index) => self.section_at(index)?,
                _ => self.number(u64::MAX),
            }
        }
        Ok(())
    }

    fn section_at(&mut self, index: SectionIndex) -> Result<()> {
        let section = self.elf.section_by_index(index)?;
        self.section(&section)
    }

    fn target(&mut self, symbol: &Sym<'data, '_>) -> Result<()> {
        match (symbol.elf_symbol().st_type(), symbol.section()) {
            (elf::STT_FUNC, SymbolSection::Section(_)) => self.function(symbol),
            (elf::STT_SECTION, SymbolSection::Section(index)) => self.section_at(index),
            (_, SymbolSection::Section(index)) => self.variable(symbol, index),
            // The symbol is undefined, and the driver supplies it by its name (`vprintf`, `malloc`).
            _ => {
                self.bytes(symbol.name_bytes()?);
                Ok(())
            }
        }
    }

    /// Adds a variable, including its name: two variables with the same initial value are not the same variable.
    fn variable(&mut self, symbol: &Sym<'data, '_>, section: SectionIndex) -> Result<()> {
        if !self.meet(Thing::Variable(symbol.index().0)) {
            return Ok(());
        }
        let name = symbol.name()?;
        let name = self.names.name(name).to_owned();
        self.bytes(name.as_bytes());
        self.range(
            &self.elf.section_by_index(section)?,
            symbol.address(),
            symbol.size(),
        )
    }
}

/// One record of a `.nv.info` section.
struct Attribute<'a> {
    format: u8,
    kind: u8,
    value: &'a [u8],
}

impl Attribute<'_> {
    /// Followed by a 16-bit length and that many bytes; the other formats hold 16 bits in place.
    const SIZED: u8 = 4;
    const PARAM_CBANK: u8 = 0x0a;
    const FRAME: u8 = 0x11;
    const REGISTERS: u8 = 0x2f;
    const BARRIERS: u8 = 0x4c;
    /// The release of the compiler (`EIATTR_CUDA_API_VERSION`), which changes nothing that executes.
    const CUDA_RELEASE: u8 = 0x37;
    /// All releases count as this one, which keeps the identities in baselines that were taken with it.
    const CUDA_13_0: [u8; 4] = 130_u32.to_le_bytes();
}

struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let ([format, kind, low, high], rest) = self.0.split_first_chunk::<4>()?;
        let (value, rest) = if *format == Attribute::SIZED {
            let size = usize::from(u16::from_le_bytes([*low, *high]));
            // A truncated record is read as far as it goes.
            rest.split_at(size.min(rest.len()))
        } else {
            (self.0.get(2..4).unwrap_or_default(), rest)
        };
        self.0 = rest;
        Some(Attribute {
            format: *format,
            kind: *kind,
            value,
        })
    }
}

/// Returns the digest of the host code of a launcher's object file: code and data with their relocations, by section
/// name. The embedded machine code is left out, because it is compared by entry, and so are unwinding tables, which
/// follow from the code. If data contains the name of a symbol, as the registration of a kernel does, it may be another
/// name of the same symbol.
///
/// # Errors
/// Returns an error if it is no ELF file of 64 bits.
pub fn host_identity(object: &[u8], cubin: &Cubin) -> Result<[u8; 32]> {
    let unreadable = CubinError::UnreadableHost;
    let elf = Elf::parse(object).map_err(unreadable)?;
    let symbols = elf.symbols().filter_map(|symbol| symbol.name().ok());
    let sections = elf.sections().filter_map(|section| section.name().ok());
    let names = Renamed::new(symbols.chain(sections).chain(cubin.names()));
    let mut digest = blake3::Hasher::new();
    let mut add = |bytes: &[u8]| {
        digest.update(&(bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    for section in elf.sections() {
        let name = section.name_bytes().map_err(unreadable)?;
        let header = section.elf_section_header();
        let loaded = header.sh_flags.get(LittleEndian).0 & elf::SHF_ALLOC.0 != 0;
        let skipped = name.starts_with(b".nv")
            || name.starts_with(b"__nv")
            || name.starts_with(b".eh_frame")
            || name.starts_with(b".note");
        if !loaded || skipped {
            continue;
        }
        add(&names.data(name));
        add(&section.size().to_le_bytes());
        add(&names.data(section.data().map_err(unreadable)?));
        for (offset, relocation) in section.relocations() {
            add(&offset.to_le_bytes());
            if let RelocationFlags::Elf { r_type } = relocation.flags() {
                add(&r_type.0.to_le_bytes());
            }
            add(&relocation.addend().to_le_bytes());
            if let RelocationTarget::Symbol(index) = relocation.target() {
                let symbol = elf.symbol_by_index(index).map_err(unreadable)?;
                add(&names.data(symbol.name_bytes().map_err(unreadable)?));
                if let SymbolSection::Section(index) = symbol.section() {
                    let section = elf.section_by_index(index).map_err(unreadable)?;
                    add(&names.data(section.name_bytes().map_err(unreadable)?));
                    add(&symbol.address().to_le_bytes());
                }
            }
        }
    }
    Ok(*digest.finalize().as_bytes())
}

/// Returns a name without what nvcc adds to it from the file's path and the definitions.
/// `_GLOBAL__N__a3e553f2_4_k_cu_lut` and `_INTERNAL_a3e553f2_4_k_cu_lut` lose everything after the marker, and the
/// length before the name. That length says where the name ends.
fn normalised(name: &[u8]) -> Cow<'_, [u8]> {
    const MARKERS: [&[u8]; 2] = [b"_GLOBAL__N_", b"_INTERNAL_"];
    let find = |text: &[u8]| {
        MARKERS
            .iter()
            .filter_map(|marker| {
                text.windows(marker.len())
                    .position(|window| window == *marker)
                    .map(|at| (at, *marker))
            })
            .min()
    };
    if find(name).is_none() {
        return Cow::Borrowed(name);
    }
    let mut result = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((at, marker)) = find(rest) {
        let (before, from) = rest.split_at(at);
        let (kept, length) = split_length(before, from, marker.len());
        result.extend_from_slice(kept);
        result.extend_from_slice(marker);
        rest = from.get(length..).unwrap_or_default();
    }
    result.extend_from_slice(rest);
    Cow::Owned(result)
}

/// Splits off the length of the name that `from` begins with: the digits at the end of `before`. If an earlier name
/// ends in a digit, the shortest number that is long enough is the length.
fn split_length<'a>(before: &'a [u8], from: &[u8], marker: usize) -> (&'a [u8], usize) {
    let digits = before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    (1..=digits)
        .filter_map(|count| {
            let (kept, number) = before.split_at_checked(before.len() - count)?;
            let length: usize = std::str::from_utf8(number).ok()?.parse().ok()?;
            (length > marker && length <= from.len()).then_some((kept, length))
        })
        .next()
        .unwrap_or((before, marker))
}

#[cfg(test)]
mod tests;
