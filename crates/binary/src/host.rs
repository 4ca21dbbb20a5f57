//! Finds fat binaries in the sections of ELF files of the host.

use crate::elf::{ENDIAN, header};
use crate::error::{Error, Problem};
use crate::{SearchedPart, fatbin};
use object::read::elf::{FileHeader as _, SectionHeader as _};

/// The sections with fat binaries: after and before device code is linked.
const SECTIONS: [&[u8]; 2] = [b".nv_fatbin", b"__nv_relfatbin"];

/// The constants of an object that CuTe DSL exports, which contain its fat binaries.
const CONSTANTS: &[u8] = b".lrodata";

pub fn find<'a>(bytes: &'a [u8], part: &mut SearchedPart<'a, '_>) -> Result<(), Error> {
    let start = part.start;
    let header = header(bytes).map_err(|error| error.shifted(start))?;
    let damaged = |at: u64, what| Error::at(start.saturating_add(at), Problem::Damaged(what));
    let table = header.e_shoff(ENDIAN);
    let sections = header
        .sections(ENDIAN, bytes)
        .map_err(|_| damaged(table, "table of sections"))?;
    let mut left = bytes.len();
    for section in sections.iter() {
        // A section without a name has no fat binaries.
        let name = sections.section_name(ENDIAN, section).unwrap_or_default();
        let find = match name {
            CONSTANTS => fatbin::find_among,
            _ if SECTIONS.contains(&name) => fatbin::find,
            _ => continue,
        };
        let at = section.sh_offset(ENDIAN);
        let data = section
            .data(ENDIAN, bytes)
            .map_err(|_| damaged(at, "section with GPU code"))?;
        // In a hostile file many sections can have the same bytes.
        left = left
            .checked_sub(data.len())
            .ok_or_else(|| damaged(at, "section with GPU code"))?;
        find(data, &mut part.further(at))?;
    }
    Ok(())
}
