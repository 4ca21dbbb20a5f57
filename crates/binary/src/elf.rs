//! Opens ELF files, of the host or of GPU code.

use crate::error::{Error, Problem};
use object::LittleEndian;
use object::elf::{EM_CUDA, FileHeader64};
use object::read::elf::FileHeader as _;

pub type Header = FileHeader64<LittleEndian>;
pub const ENDIAN: LittleEndian = LittleEndian;

/// Reads the header of an ELF file.
///
/// # Errors
/// Fails if it is damaged, or if the file is not a little-endian one of 64 bits.
pub fn header(bytes: &[u8]) -> Result<&Header, Error> {
    let header = Header::parse(bytes).map_err(|_| Error::at(0, Problem::Damaged("ELF header")))?;
    if header.is_class_64() && header.is_little_endian() {
        Ok(header)
    } else {
        Err(Error::at(0, Problem::Foreign))
    }
}

/// Returns true if the machine of an ELF file is CUDA.
///
/// # Errors
/// Fails as [`header`] does.
pub fn is_cubin(bytes: &[u8]) -> Result<bool, Error> {
    Ok(header(bytes)?.e_machine(ENDIAN) == EM_CUDA)
}
