//! Compares machine code: whether two kernels have equal code, and which instructions it has.
//!
//! The digest of a kernel covers its section, its own constants, and every section with code that they refer to. The
//! digest of a section covers its bytes, the places where it is relocated, and the names of variables. Sections are
//! numbered in the order in which they are found, so neither their order in the file nor the names of functions count.

use crate::bytes::{u32_at, u64_at};
use crate::elf::{ENDIAN, Header};
use crate::error::{Error, Problem};
use crate::normal;
use model::Arch;
use object::elf::{SHF_EXECINSTR, STT_SECTION, SectionHeader64};
use object::read::elf::{Rel as _, Rela as _, SectionHeader as _, SectionTable, Sym, SymbolTable};
use object::read::{SectionIndex, SymbolIndex};
use object::{LittleEndian, elf};
use std::collections::HashMap;

/// The number of steps that may be taken for each byte of the file: bytes read, and relocations followed, which are
/// counted again for each kernel. In public libraries it is less than two. In a hostile file sections can overlap, and
/// every kernel can call all functions.
const MOST_STEPS: usize = 4;

/// Facts that the machine code of a kernel states.
pub struct ComparedCode {
    pub digest: [u8; 32],
    pub opcodes: Vec<(u16, u32)>,
    pub local_instructions: Option<u32>,
}

/// A place that is filled when code is loaded or linked.
struct Relocation {
    offset: u64,
    kind: u32,
    addend: i64,
    symbol: SymbolIndex,
}

/// A section by itself, without what it refers to.
struct SectionCode {
    digest: blake3::Hash,
    opcodes: Vec<(u16, u32)>,
    /// The sections that it refers to, and where in them.
    targets: Vec<(usize, u64)>,
    /// True if it calls a function that is still to be linked.
    is_open: bool,
}

pub struct CodeReader<'file, 'data> {
    bytes: &'data [u8],
    sections: &'file SectionTable<'data, Header>,
    symbols: &'file SymbolTable<'data, Header>,
    encoding: Encoding,
    is_relocatable: bool,
    /// The sections of relocations, by the section that they belong to.
    relocations: HashMap<usize, Vec<usize>>,
    parts: HashMap<usize, SectionCode>,
    /// The digests of names, by symbol.
    names: HashMap<usize, blake3::Hash>,
    /// The number of steps that may still be taken.
    left: usize,
}

impl<'file, 'data> CodeReader<'file, 'data> {
    pub fn new(
        bytes: &'data [u8],
        sections: &'file SectionTable<'data, Header>,
        symbols: &'file SymbolTable<'data, Header>,
        arch: Arch,
        is_relocatable: bool,
    ) -> Result<Self, Error> {
        let mut relocations: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, section) in sections.enumerate() {
            if matches!(section.sh_type(ENDIAN), elf::SHT_REL | elf::SHT_RELA) {
                let of = section.sh_info(ENDIAN) as usize;
                relocations.entry(of).or_default().push(index.0);
            }
        }
        Ok(Self {
            bytes,
            sections,
            symbols,
            encoding: Encoding::for_arch(arch),
            is_relocatable,
            relocations,
            parts: HashMap::new(),
            names: HashMap::new(),
            left: bytes.len().saturating_mul(MOST_STEPS),
        })
    }

    /// Reads a kernel. `text` is its section, and `constants` are the sections of its own constants.
    pub fn kernel(
        &mut self,
        text: usize,
        constants: impl Iterator<Item = usize>,
    ) -> Result<ComparedCode, Error> {
        let mut met: Vec<usize> = vec![text];
        met.extend(constants);
        let mut numbers: HashMap<usize, usize> = met
            .iter()
            .enumerate()
            .map(|(at, symbol)| (*symbol, at))
            .collect();
        let mut digest = blake3::Hasher::new();
        let mut opcodes: HashMap<u16, u32> = HashMap::new();
        let mut is_open = false;
        let mut next = 0;
        while let Some(section) = met.get(next).copied() {
            next += 1;
            if !self.parts.contains_key(&section) {
                let part = self.part(section)?;
                self.parts.insert(section, part);
            }
            let Some(part) = self.parts.get(&section) else {
                continue;
            };
            let steps = part.targets.len() + part.opcodes.len() + 1;
            self.left = self
                .left
                .checked_sub(steps)
                .ok_or_else(|| self.overlaps(section))?;
            digest.update(part.digest.as_bytes());
            is_open |= part.is_open;
            for (opcode, count) in &part.opcodes {
                let sum = opcodes.entry(*opcode).or_default();
                *sum = sum.saturating_add(*count);
            }
            for (target, at) in &part.targets {
                let number = *numbers.entry(*target).or_insert_with(|| {
                    met.push(*target);
                    met.len() - 1
                });
                digest.update(&(number as u64).to_le_bytes());
                digest.update(&at.to_le_bytes());
            }
        }
        let mut opcodes: Vec<_> = opcodes.into_iter().collect();
        opcodes.sort_unstable();
        Ok(ComparedCode {
            digest: *digest.finalize().as_bytes(),
            local_instructions: if is_open {
                None
            } else {
                self.encoding.local_instructions(&opcodes)
            },
            opcodes,
        })
    }

    fn spend(&mut self, steps: usize, section: usize) -> Result<(), Error> {
        let left = self.left.checked_sub(steps);
        self.left = left.ok_or_else(|| self.overlaps(section))?;
        Ok(())
    }

    fn overlaps(&self, section: usize) -> Error {
        let problem = Problem::Damaged("machine code, whose parts overlap,");
        Error::at(self.offset(section), problem)
    }

    fn offset(&self, section: usize) -> u64 {
        let section = self.sections.section(SectionIndex(section));
        section.map_or(0, |section| section.sh_offset(ENDIAN))
    }

    fn part(&mut self, index: usize) -> Result<SectionCode, Error> {
        let damaged = || {
            let problem = Problem::Damaged("section of the machine code");
            Error::at(self.offset(index), problem)
        };
        let section = self.sections.section(SectionIndex(index));
        let section = section.map_err(|_| damaged())?;
        let data = section.data(ENDIAN, self.bytes).map_err(|_| damaged())?;
        self.spend(data.len(), index)?;
        let mut digest = blake3::Hasher::new();
        digest.update(&(data.len() as u64).to_le_bytes());
        digest.update(data);
        let mut targets = Vec::new();
        let mut is_open = false;
        for relocation in self.relocations(index)? {
            digest.update(&relocation.offset.to_le_bytes());
            digest.update(&relocation.kind.to_le_bytes());
            digest.update(&relocation.addend.to_le_bytes());
            let Ok(symbol) = self.symbols.symbol(relocation.symbol) else {
                continue;
            };
            let section = self
                .symbols
                .symbol_section(ENDIAN, symbol, relocation.symbol);
            let section = section.ok().flatten();
            if let Some(section) = section
                && self.has_code(section)
            {
                targets.push((section.0, symbol.st_value(ENDIAN)));
                continue;
            }
            is_open |= self.is_relocatable && section.is_none();
            digest.update(self.name(relocation.symbol, index)?.as_bytes());
        }
        Ok(SectionCode {
            digest: digest.finalize(),
            opcodes: if is_code(section) {
                self.encoding.count(data)
            } else {
                Vec::new()
            },
            targets,
            is_open,
        })
    }

    /// Returns the digest of a name. `from` is the section that refers to it.
    fn name(&mut self, index: SymbolIndex, from: usize) -> Result<blake3::Hash, Error> {
        if let Some(digest) = self.names.get(&index.0) {
            return Ok(*digest);
        }
        let symbol = self.symbols.symbol(index).ok();
        let section =
            symbol.and_then(|symbol| self.symbols.symbol_section(ENDIAN, symbol, index).ok()?);
        // A section has no name of its own in the table of symbols.
        let name = match (symbol.map(Sym::st_type), section) {
            (Some(STT_SECTION), Some(section)) => self.section_name(section),
            _ => symbol.and_then(|symbol| self.symbols.symbol_name(ENDIAN, symbol).ok()),
        };
        let name = name.unwrap_or_default();
        self.spend(name.len(), from)?;
        let digest = blake3::hash(normal::name(&String::from_utf8_lossy(name)).as_bytes());
        self.names.insert(index.0, digest);
        Ok(digest)
    }

    fn has_code(&self, section: SectionIndex) -> bool {
        self.sections.section(section).is_ok_and(is_code)
    }

    fn section_name(&self, section: SectionIndex) -> Option<&'data [u8]> {
        let section = self.sections.section(section).ok()?;
        self.sections.section_name(ENDIAN, section).ok()
    }

    /// Returns the relocations of a section in the order of their offsets.
    fn relocations(&mut self, of: usize) -> Result<Vec<Relocation>, Error> {
        let mut all = Vec::new();
        for index in self.relocations.remove(&of).iter().flatten() {
            let offset = self.offset(*index);
            let damaged = |_| Error::at(offset, Problem::Damaged("table of relocations"));
            let section = self.sections.section(SectionIndex(*index));
            let section = section.map_err(damaged)?;
            let size = usize::try_from(section.sh_size(ENDIAN)).unwrap_or(usize::MAX);
            self.spend(size, *index)?;
            if let Some((list, _)) = section.rel(ENDIAN, self.bytes).map_err(damaged)? {
                all.extend(list.iter().map(|relocation| Relocation {
                    offset: relocation.r_offset(ENDIAN),
                    kind: relocation.r_type(ENDIAN).0,
                    addend: 0,
                    symbol: SymbolIndex(relocation.r_sym(ENDIAN) as usize),
                }));
            }
            if let Some((list, _)) = section.rela(ENDIAN, self.bytes).map_err(damaged)? {
                all.extend(list.iter().map(|relocation| Relocation {
                    offset: relocation.r_offset(ENDIAN),
                    kind: relocation.r_type(ENDIAN, false).0,
                    addend: relocation.r_addend(ENDIAN),
                    symbol: SymbolIndex(relocation.r_sym(ENDIAN, false) as usize),
                }));
            }
        }
        all.sort_by_key(|relocation| (relocation.offset, relocation.kind, relocation.addend));
        Ok(all)
    }
}

fn is_code(section: &SectionHeader64<LittleEndian>) -> bool {
    section.sh_flags(ENDIAN).0 & SHF_EXECINSTR.0 != 0
}

/// The layout of instructions in machine code. NVIDIA does not document it. The opcodes were compared with what
/// nvdisasm prints for all of public libraries, for sm_50 to sm_61 and sm_70 to sm_121.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    /// From sm_70 on: 16 bytes each, with the opcode in the lowest 12 bits.
    Volta,
    /// sm_50 to sm_62: 8 bytes each, three after a word for the scheduler, with the opcode in the highest 13 bits.
    Maxwell,
    /// Older architectures. They were not compared, so the highest bits of each word stand for its opcode.
    Kepler,
}

impl Encoding {
    fn for_arch(arch: Arch) -> Self {
        match arch.major {
            0..=4 => Self::Kepler,
            5..=6 => Self::Maxwell,
            _ => Self::Volta,
        }
    }

    /// Counts the instructions of each opcode, sorted by opcode.
    fn count(self, code: &[u8]) -> Vec<(u16, u32)> {
        let mut counts = vec![0_u32; 1 << 13];
        let mut add = |opcode: u64| {
            if let Some(count) = counts.get_mut(opcode as usize) {
                *count = count.saturating_add(1);
            }
        };
        let highest = |word: &[u8], at: usize| u64_at(word, at).unwrap_or_default() >> 51;
        match self {
            Self::Volta => {
                for instruction in code.chunks_exact(16) {
                    add(u64::from(
                        u32_at(instruction, 0).unwrap_or_default() & 0xfff,
                    ));
                }
            }
            Self::Maxwell => {
                for bundle in code.chunks_exact(32) {
                    (1..4).for_each(|word| add(highest(bundle, word * 8)));
                }
            }
            Self::Kepler => code.chunks_exact(8).for_each(|word| add(highest(word, 0))),
        }
        let counts = (0_u16..).zip(counts);
        let counts = counts.filter(|(opcode, count)| *count > 0 && self.padding() != Some(*opcode));
        counts.collect()
    }

    /// Returns the opcode of NOP, which fills up the end.
    fn padding(self) -> Option<u16> {
        match self {
            Self::Volta => Some(0x918),
            Self::Maxwell => Some(0xa16),
            Self::Kepler => None,
        }
    }

    fn local_instructions(self, opcodes: &[(u16, u32)]) -> Option<u32> {
        // These are LDL and STL.
        let local: [u16; 2] = match self {
            Self::Volta => [0x983, 0x387],
            Self::Maxwell => [0x1de8, 0x1dea],
            Self::Kepler => return None,
        };
        Some(
            opcodes
                .iter()
                .filter(|(opcode, _)| local.contains(opcode))
                .fold(0, |sum, (_, count)| sum.saturating_add(*count)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(arch: &str) -> Encoding {
        Encoding::for_arch(arch.parse().unwrap())
    }

    /// nvdisasm prints these instructions for sm_90: STL, LDL, EXIT, NOP.
    #[test]
    fn opcodes_from_sm_70_on_are_in_the_lowest_bits() {
        let words: [u64; 8] = [
            0x0000_0038_1c00_7387,
            0x0001_ee00_0010_0a00,
            0x0000_0000_0102_7983,
            0x000e_a200_0010_0800,
            0x0000_0000_0000_794d,
            0x000f_ea00_0380_0000,
            0x0000_0000_0000_7918,
            0x000f_c000_0000_0000,
        ];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        for arch in ["sm_70", "sm_90a", "sm_120"] {
            let opcodes = encoding(arch).count(&code);
            assert_eq!(opcodes, [(0x387, 1), (0x94d, 1), (0x983, 1)]);
            assert_eq!(encoding(arch).local_instructions(&opcodes), Some(2));
        }
    }

    /// nvdisasm prints these instructions for sm_61, behind the scheduler's word: LDL, STL, LDS.
    #[test]
    fn opcodes_before_that_are_in_the_highest_bits() {
        let words: [u64; 4] = [
            0xef44_0000_0047_0f0f,
            0xef44_0000_0047_0f0f,
            0xef54_0000_0207_0100,
            0xef4c_0000_0007_0100,
        ];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let opcodes = encoding("sm_61").count(&code);
        assert_eq!(opcodes, [(0x1de8, 1), (0x1de9, 1), (0x1dea, 1)]);
        assert_eq!(encoding("sm_61").local_instructions(&opcodes), Some(2));
        let opcodes = encoding("sm_35").count(&code);
        assert_eq!(encoding("sm_35").local_instructions(&opcodes), None);
    }
}
