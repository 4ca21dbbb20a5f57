//! Reads cubins: ELF files of machine code for one architecture. NVIDIA does not document the attributes. Their numbers
//! are those that cuobjdump names, compared here with what PTXAS reports.

use crate::bytes::{u16_at, u32_at};
use crate::elf::{ENDIAN, Header, header};
use crate::error::{Error, Problem};
use crate::{BinaryKernel, Compiler, bytes, code};
use model::Arch;
use object::LittleEndian;
use object::elf::{ET_REL, SHT_SYMTAB, STT_FUNC};
use object::read::SectionIndex;
use object::read::elf::{
    FileHeader as _, NoteIterator, SectionHeader, SectionTable, Sym, SymbolTable,
};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

/// The bit in `st_other` of a symbol that marks a kernel, and no function that kernels call.
const ENTRY: u8 = 0x10;

/// The value of `EI_ABIVERSION` from CUDA 13 on. Before it the architecture was in the lowest byte of the flags.
const ABI_OF_CUDA_13: u8 = 8;

/// The flag before CUDA 13 that distinguishes `sm_90a` from `sm_90`.
const ARCH_SPECIFIC_BEFORE_13: u32 = 0x800;

/// The number of bytes at the start of shared memory that belong to the system from sm_90 on. PTXAS does not count
/// them, but the section includes them.
const RESERVED_SHARED: u64 = 1024;

/// How often the same bytes may be read. Compilers only let tails of names overlap. In a hostile file thousands of
/// kernels can have the same long name.
const MOST_OVERLAP: usize = 16;

pub struct Cubin {
    pub kernels: Vec<BinaryKernel>,
    pub compiler: Option<Compiler>,
}

/// Formats of an attribute, which say what follows its number.
mod format {
    /// 16 bits, which may be unused.
    pub const NONE: u8 = 1;
    pub const BYTE: u8 = 2;
    pub const HALF: u8 = 3;
    /// 16 bits with the number of bytes that follow.
    pub const SIZED: u8 = 4;
}

/// The numbers by which attributes are identified.
mod attribute {
    pub const MAX_THREADS: u8 = 0x05;
    pub const REQUIRED_THREADS: u8 = 0x10;
    pub const FRAME_SIZE: u8 = 0x11;
    pub const MIN_STACK_SIZE: u8 = 0x12;
    pub const REGISTERS: u8 = 0x2f;
    pub const BARRIERS: u8 = 0x4c;
    /// In a section of its own, which has other numbers.
    pub const COMPAT_ARCH_SPECIFIC: u8 = 0x09;
}

struct Attribute<'a> {
    number: u8,
    value: &'a [u8],
}

/// The parts of a cubin that belong to one kernel.
#[derive(Default)]
struct Parts {
    info: Option<usize>,
    shared: Option<u64>,
    constants: BTreeMap<u32, u64>,
    /// The section of each constant bank.
    banks: BTreeMap<u32, usize>,
}

struct CubinReader<'a> {
    bytes: &'a [u8],
    /// The number of bytes that may still be read.
    left: Cell<usize>,
    sections: SectionTable<'a, Header>,
    symbols: SymbolTable<'a, Header>,
}

/// Returns the architecture: `sm_90a` for 90 and `a`. Returns `None` for a number that no architecture has.
pub fn arch(number: u32, suffix: Option<char>) -> Option<Arch> {
    let (major, minor) = (number / 10, number % 10);
    Some(Arch {
        major: u8::try_from(major).ok().filter(|major| *major > 0)?,
        minor: u8::try_from(minor).ok()?,
        suffix,
    })
}

/// Reads a cubin. `named` is the architecture according to the container, which knows what the machine code does not
/// say (`sm_120f`).
pub fn read(bytes: &[u8], named: Option<Arch>) -> Result<Cubin, Error> {
    let (head, reader) = CubinReader::open(bytes)?;
    let arch = match named {
        Some(arch) => arch,
        None => reader.arch(head)?,
    };
    Ok(Cubin {
        kernels: reader.kernels(arch, head.e_type(ENDIAN) == ET_REL)?,
        compiler: reader.compiler()?,
    })
}

/// Returns the architecture that machine code without a container states.
pub fn read_arch(bytes: &[u8]) -> Result<Arch, Error> {
    let (head, reader) = CubinReader::open(bytes)?;
    reader.arch(head)
}

impl<'a> CubinReader<'a> {
    fn open(bytes: &'a [u8]) -> Result<(&'a Header, Self), Error> {
        let head = header(bytes)?;
        let table = head.e_shoff(ENDIAN);
        let damaged = |part| move |_| Error::at(table, Problem::Damaged(part));
        if head.e_machine(ENDIAN) != object::elf::EM_CUDA {
            return Err(Error::at(0, Problem::Damaged("header of the machine code")));
        }
        let sections = head
            .sections(ENDIAN, bytes)
            .map_err(damaged("table of sections"))?;
        let symbols = sections
            .symbols(ENDIAN, bytes, SHT_SYMTAB)
            .map_err(damaged("table of symbols"))?;
        let reader = CubinReader {
            bytes,
            left: Cell::new(bytes.len().saturating_mul(MOST_OVERLAP)),
            sections,
            symbols,
        };
        Ok((head, reader))
    }

    fn arch(&self, head: &Header) -> Result<Arch, Error> {
        let flags = head.e_flags(ENDIAN).0;
        let (number, is_specific) = if head.e_ident().abi_version < ABI_OF_CUDA_13 {
            (flags & 0xff, flags & ARCH_SPECIFIC_BEFORE_13 != 0)
        } else {
            ((flags >> 8) & 0xff, self.is_compat_specific()?)
        };
        arch(number, is_specific.then_some('a'))
            .ok_or_else(|| Error::at(48, Problem::Damaged("architecture")))
    }

    /// Returns true if the code is for exactly one chip. From CUDA 13 on the flags of `sm_90` and `sm_90a` are the
    /// same.
    fn is_compat_specific(&self) -> Result<bool, Error> {
        let Some((_, section)) = self.sections.section_by_name(ENDIAN, b".nv.compat") else {
            return Ok(false);
        };
        let attributes = self.attributes(section)?;
        Ok(attributes.iter().any(|attribute| {
            attribute.number == attribute::COMPAT_ARCH_SPECIFIC
                && attribute.value.first() == Some(&1)
        }))
    }

    fn data(&self, section: &SectionOf) -> Result<&'a [u8], Error> {
        section.data(ENDIAN, self.bytes).map_err(|_| {
            Error::at(
                section.sh_offset(ENDIAN),
                Problem::Damaged("section of the machine code"),
            )
        })
    }

    fn spend(&self, amount: usize, at: u64) -> Result<(), Error> {
        let left = self.left.get().checked_sub(amount);
        self.left.set(left.unwrap_or_default());
        let overlaps = || Error::at(at, Problem::Damaged("machine code, whose parts overlap,"));
        left.map(|_| ()).ok_or_else(overlaps)
    }

    fn attributes(&self, section: &SectionOf) -> Result<Vec<Attribute<'a>>, Error> {
        let data = self.data(section)?;
        self.spend(data.len(), section.sh_offset(ENDIAN))?;
        let mut attributes = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let (attribute, size) = attribute_at(data, at).ok_or_else(|| {
                let offset = section.sh_offset(ENDIAN).saturating_add(at as u64);
                Error::at(offset, Problem::Damaged("list of attributes"))
            })?;
            attributes.push(attribute);
            at += size;
        }
        Ok(attributes)
    }

    fn kernels(&self, arch: Arch, is_relocatable: bool) -> Result<Vec<BinaryKernel>, Error> {
        let parts = self.parts()?;
        let (mut registers, mut frames, mut stacks) =
            (HashMap::new(), HashMap::new(), HashMap::new());
        if let Some((_, section)) = self.sections.section_by_name(ENDIAN, b".nv.info") {
            for Attribute { number, value } in self.attributes(section)? {
                // The value of these attributes is the index of a symbol, and a number.
                let of = match number {
                    attribute::REGISTERS => &mut registers,
                    attribute::FRAME_SIZE => &mut frames,
                    attribute::MIN_STACK_SIZE => &mut stacks,
                    _ => continue,
                };
                if let (Some(symbol), Some(amount)) = (u32_at(value, 0), u32_at(value, 4)) {
                    of.insert(symbol as usize, amount);
                }
            }
        }
        let mut code = code::CodeReader::new(
            self.bytes,
            &self.sections,
            &self.symbols,
            arch,
            is_relocatable,
        )?;
        let mut kernels = Vec::new();
        for (index, symbol) in self.symbols.enumerate() {
            if symbol.st_type() != STT_FUNC || symbol.st_other().0 & ENTRY == 0 {
                continue;
            }
            // This kernel is in another cubin, and this one calls it.
            if symbol.is_undefined(ENDIAN) {
                continue;
            }
            let strings = self.symbols.string_section();
            let at_strings = self
                .sections
                .section(strings)
                .map(|section| section.sh_offset(ENDIAN));
            let damaged = |_| {
                let at = at_strings.unwrap_or_default();
                Error::at(at, Problem::Damaged("table of symbols"))
            };
            let name = self.symbols.symbol_name(ENDIAN, symbol).map_err(damaged)?;
            self.spend(name.len(), at_strings.unwrap_or_default())?;
            let section = self.symbols.symbol_section(ENDIAN, symbol, index);
            let section = section.ok().flatten().unwrap_or(SectionIndex(0));
            let text = self.sections.section(section).map_err(damaged)?;
            let part = parts.get(name);
            // Bank 0 holds parameters, which a launch fills.
            let banks = part
                .into_iter()
                .flat_map(|part| &part.banks)
                .filter(|(bank, _)| **bank > 0)
                .map(|(_, at)| *at);
            let machine_code = code.kernel(section.0, banks)?;
            let info = part.and_then(|part| part.info);
            let info = match info.map(|info| self.sections.section(SectionIndex(info))) {
                Some(Ok(section)) => self.attributes(section)?,
                _ => Vec::new(),
            };
            let of_info = |number| info.iter().find(|info| info.number == number);
            let (static_shared, reserved_shared) =
                shared(part.and_then(|part| part.shared), arch, is_relocatable);
            kernels.push(BinaryKernel {
                name: String::from_utf8_lossy(name).into_owned(),
                arch,
                registers: registers
                    .get(&index.0)
                    .copied()
                    .or_else(|| registers_of_text(text)),
                frame: frames.get(&index.0).copied(),
                stack: stacks.get(&index.0).copied(),
                static_shared,
                reserved_shared,
                constants: part.map(|part| part.constants.clone()).unwrap_or_default(),
                code: text.sh_size(ENDIAN),
                barriers: match of_info(attribute::BARRIERS) {
                    Some(info) => info.value.first().map(|value| u32::from(*value)),
                    None => Some(barriers_of_text(text)),
                },
                max_threads: of_info(attribute::MAX_THREADS).and_then(|info| three(info.value)),
                required_threads: of_info(attribute::REQUIRED_THREADS)
                    .and_then(|info| three(info.value)),
                is_linked: !is_relocatable,
                digest: machine_code.digest,
                opcodes: machine_code.opcodes,
                local_instructions: machine_code.local_instructions,
                member: None,
            });
        }
        Ok(kernels)
    }

    fn parts(&self) -> Result<HashMap<&'a [u8], Parts>, Error> {
        let mut parts: HashMap<&[u8], Parts> = HashMap::new();
        for (index, section) in self.sections.enumerate() {
            let damaged = |_| {
                let names = Problem::Damaged("names of sections");
                Error::at(section.sh_offset(ENDIAN), names)
            };
            let name = self
                .sections
                .section_name(ENDIAN, section)
                .map_err(damaged)?;
            self.spend(name.len(), section.sh_offset(ENDIAN))?;
            let size = section.sh_size(ENDIAN);
            if let Some(kernel) = name.strip_prefix(b".nv.info.") {
                parts.entry(kernel).or_default().info = Some(index.0);
            } else if let Some(kernel) = name.strip_prefix(b".nv.shared.") {
                parts.entry(kernel).or_default().shared = Some(size);
            } else if let Some((bank, kernel)) = constant_bank(name) {
                let part = parts.entry(kernel).or_default();
                part.constants.insert(bank, size);
                part.banks.insert(bank, index.0);
            }
        }
        Ok(parts)
    }

    /// Returns the compiler according to its note. Linked machine code keeps the note of PTXAS. Among several notes the
    /// last one counts.
    fn compiler(&self) -> Result<Option<Compiler>, Error> {
        let Some((_, section)) = self.sections.section_by_name(ENDIAN, b".note.nv.tkinfo") else {
            return Ok(None);
        };
        let damaged = |_| {
            let offset = section.sh_offset(ENDIAN);
            Error::at(offset, Problem::Damaged("note of the compiler"))
        };
        let data = self.data(section)?;
        let mut notes = NoteIterator::<Header>::new(ENDIAN, section.sh_addralign(ENDIAN), data)
            .map_err(damaged)?;
        let mut last = None;
        while let Some(note) = notes.next().map_err(damaged)? {
            last = tool(note.desc()).or(last);
        }
        Ok(last)
    }
}

type SectionOf = object::elf::SectionHeader64<LittleEndian>;

/// Reads an attribute, and returns how many bytes it takes.
fn attribute_at(data: &[u8], at: usize) -> Option<(Attribute<'_>, usize)> {
    let [format, number] = bytes::array(data, at)?;
    let first = at.checked_add(2)?;
    let (start, size) = match format {
        format::NONE | format::BYTE | format::HALF => (first, 2),
        format::SIZED => (at.checked_add(4)?, usize::from(u16_at(data, first)?)),
        _ => return None,
    };
    let end = start.checked_add(size)?;
    let value = data.get(start..end)?;
    Some((Attribute { number, value }, end - at))
}

/// Returns static and reserved shared memory. A kernel without the section has none. Before device code is linked, that
/// is unknown.
fn shared(section: Option<u64>, arch: Arch, is_relocatable: bool) -> (Option<u64>, u64) {
    match section {
        None if is_relocatable => (None, 0),
        None => (Some(0), 0),
        Some(size) if arch.major >= 9 => match size.checked_sub(RESERVED_SHARED) {
            Some(size) => (Some(size), RESERVED_SHARED),
            None => (Some(size), 0),
        },
        Some(size) => (Some(size), 0),
    }
}

/// Returns the registers from the highest byte of `sh_info`, which newer compilers leave empty.
fn registers_of_text(text: &SectionOf) -> Option<u32> {
    let registers = text.sh_info(ENDIAN) >> 24;
    (registers > 0).then_some(registers)
}

/// Returns the barriers, which were in the flags of the section before CUDA 13.
fn barriers_of_text(text: &SectionOf) -> u32 {
    ((text.sh_flags(ENDIAN).0 >> 20) & 0x7f) as u32
}

/// Parses the name of a constant section: `.nv.constant0.k` is bank 0 of `k`, and `.nv.constant3` belongs to all
/// kernels.
fn constant_bank(section: &[u8]) -> Option<(u32, &[u8])> {
    let rest = section.strip_prefix(b".nv.constant")?;
    let dot = rest.iter().position(|byte| *byte == b'.')?;
    let (bank, kernel) = rest.split_at_checked(dot)?;
    let bank = std::str::from_utf8(bank).ok()?.parse().ok()?;
    Some((bank, kernel.strip_prefix(b".")?))
}

fn three(value: &[u8]) -> Option<[u32; 3]> {
    Some([u32_at(value, 0)?, u32_at(value, 4)?, u32_at(value, 8)?])
}

/// Parses a note: a version, then the starts of five texts after these six words (object, tool, version, build,
/// options).
fn tool(note: &[u8]) -> Option<Compiler> {
    let texts = note.get(24..)?;
    let text = |word: usize| bytes::text_at(texts, u32_at(note, word * 4)? as usize);
    let version = text(3)?;
    let number = version.rsplit(['V', ' ']).next();
    let is_number = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    Some(Compiler {
        tool: text(2)?,
        version: number.filter(is_number).unwrap_or(&version).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_has_two_bytes_or_as_many_as_it_says() {
        let data = [2, 0x4c, 3, 0, 4, 5, 4, 0, 1, 2, 3, 4, 9, 1, 0, 0];
        let read = |at| attribute_at(&data, at).map(|(it, size)| (it.number, it.value, size));
        assert_eq!(read(0), Some((0x4c, &[3, 0][..], 4)));
        assert_eq!(read(4), Some((5, &[1, 2, 3, 4][..], 8)));
        assert_eq!(read(12), None, "no such format");
        assert!(attribute_at(&data[..11], 4).is_none(), "cut off");
    }

    #[test]
    fn shared_memory_of_the_system_is_not_that_of_the_source() {
        let arch = |number| arch(number, None).unwrap();
        assert_eq!(shared(Some(1536), arch(89), false), (Some(1536), 0));
        assert_eq!(shared(Some(1536), arch(90), false), (Some(512), 1024));
        assert_eq!(shared(Some(1024), arch(120), false), (Some(0), 1024));
        assert_eq!(shared(None, arch(90), false), (Some(0), 0));
        assert_eq!(shared(None, arch(90), true), (None, 0));
    }

    #[test]
    fn constants_of_a_kernel_are_not_those_of_the_module() {
        assert_eq!(constant_bank(b".nv.constant0.k"), Some((0, &b"k"[..])));
        assert_eq!(constant_bank(b".nv.constant3"), None);
    }

    /// Makes an ELF file for a GPU whose kernels all have one name of this length.
    fn with_kernels(count: usize, length: usize) -> Vec<u8> {
        let mut names = b"\0.text\0".to_vec();
        names.extend(std::iter::repeat_n(b'k', length));
        names.push(0);
        // A symbol has a name and the type FUNC, and is a kernel in section 1.
        let symbol = |bytes: &mut Vec<u8>| {
            bytes.extend([7, 0, 0, 0, 0x12, ENTRY, 1, 0]);
            bytes.extend([0; 16]);
        };
        let (names_at, symbols_at) = (64, 64 + names.len());
        let mut symbols = vec![0; 24];
        (0..count).for_each(|_| symbol(&mut symbols));
        let table = symbols_at + symbols.len();
        // The file has 64 bits and is little-endian, as CUDA 13 writes it.
        let mut file = b"\x7fELF\x02\x01\x01\x41\x08\0\0\0\0\0\0\0".to_vec();
        file.extend([2, 0, 190, 0, 1, 0, 0, 0]);
        file.extend([0; 16]);
        file.extend((table as u64).to_le_bytes());
        file.extend(0x0600_5a04_u32.to_le_bytes());
        // These are the sizes of the header, no segments, and four sections of 64 bytes with names in the second.
        file.extend([64, 0, 0, 0, 0, 0, 64, 0, 4, 0, 2, 0]);
        file.extend(&names);
        file.extend(&symbols);
        let mut section = |name: u32, kind: u32, at: usize, size: usize, link: u32, each: u64| {
            file.extend(name.to_le_bytes());
            file.extend(kind.to_le_bytes());
            file.extend([0; 16]);
            file.extend((at as u64).to_le_bytes());
            file.extend((size as u64).to_le_bytes());
            file.extend(link.to_le_bytes());
            file.extend([0; 12]);
            file.extend(each.to_le_bytes());
        };
        section(0, 0, 0, 0, 0, 0);
        section(1, 1, names_at, 0, 0, 0);
        section(0, 3, names_at, names.len(), 0, 0);
        section(0, 2, symbols_at, symbols.len(), 2, 24);
        file
    }

    #[test]
    fn names_that_overlap_cost_no_more_than_their_file() {
        let honest = read(&with_kernels(3, 100), None).unwrap();
        assert_eq!(honest.kernels.len(), 3);
        assert_eq!(honest.kernels[0].name.len(), 100);
        assert_eq!(honest.kernels[0].arch.to_string(), "sm_90");
        let error = read(&with_kernels(2000, 60_000), None).err().unwrap();
        assert_eq!(error.offset.file, 64);
        assert!(matches!(error.problem, Problem::Damaged(_)), "{error}");
    }
}
