//! Finds the size of a module that a program gives to the driver. The program passes only the start of the module.

use std::ffi::{CStr, c_char, c_void};

/// The first word of the struct that nvcc puts before a fat binary, in fatbinary_section.h.
const WRAPPER: u32 = 0x466243b1;
/// The first word of fatBinaryHeader, in cuda's fatbinary.h.
const FAT_BINARY: u32 = 0xba55ed50;
const ELF: u32 = 0x464c457f;

/// Returns the bytes of a module, or `None` if its form is not known.
///
/// # Safety
/// `image` is what a program gives to the driver to load: it is whole.
pub unsafe fn read(image: *const c_void) -> Option<Vec<u8>> {
    if image.is_null() {
        return None;
    }
    let at = image.cast::<u8>();
    // SAFETY: the shortest module, an empty text of PTX, is not loaded.
    let magic = unsafe { at.cast::<u32>().read_unaligned() };
    let bytes = match magic {
        WRAPPER => {
            // SAFETY: the third word of the struct is the pointer to the fat binary.
            let inner = unsafe { at.add(8).cast::<*const c_void>().read_unaligned() };
            // SAFETY: a whole fat binary, as the struct is the driver's.
            return unsafe { read(inner) };
        }
        FAT_BINARY => {
            // SAFETY: u16 version, u16 bytes of the header, u64 bytes behind it.
            let header = unsafe { at.add(6).cast::<u16>().read_unaligned() };
            // SAFETY: as above.
            let rest = unsafe { at.add(8).cast::<u64>().read_unaligned() };
            usize::from(header).checked_add(usize::try_from(rest).ok()?)?
        }
        // SAFETY: a whole ELF file.
        ELF => unsafe { elf_bytes(at) }?,
        // SAFETY: all else that the driver takes is a text that ends with a NUL.
        _ => unsafe { CStr::from_ptr(at.cast::<c_char>()) }.count_bytes(),
    };
    // SAFETY: the module has as many bytes.
    Some(unsafe { std::slice::from_raw_parts(at, bytes) }.to_vec())
}

/// Returns the size of a 64-bit ELF file, which is the end of its last section or table.
///
/// # Safety
/// A whole ELF file.
unsafe fn elf_bytes(at: *const u8) -> Option<usize> {
    // SAFETY: within the header of 64 bytes, or a table that the header names.
    let word = |offset: usize| unsafe { at.add(offset).cast::<u64>().read_unaligned() };
    // SAFETY: as above.
    let half = |offset: usize| unsafe { at.add(offset).cast::<u16>().read_unaligned() };
    let usized = |number: u64| usize::try_from(number).ok();
    let (programs, sections) = (usized(word(0x20))?, usized(word(0x28))?);
    let (section_size, section_count) = (usize::from(half(0x3a)), usize::from(half(0x3c)));
    let programs_end = programs + usize::from(half(0x36)) * usize::from(half(0x38));
    let mut end = programs_end.max(sections + section_size * section_count);
    for section in 0..section_count {
        let header = sections + section * section_size;
        // SAFETY: within the table of sections.
        let kind = unsafe { at.add(header + 4).cast::<u32>().read_unaligned() };
        // SHT_NOBITS: the section has no bytes in the file.
        if kind != 8 {
            end = end.max(usized(word(header + 0x18))?.checked_add(usized(word(header + 0x20))?)?);
        }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::ffi::c_void;

    fn bytes_of(image: &[u8]) -> Option<usize> {
        // SAFETY: the tests give whole modules.
        unsafe { read(image.as_ptr().cast()) }.map(|bytes| bytes.len())
    }

    #[test]
    fn text_ends_with_a_nul() {
        assert_eq!(bytes_of(b".version 8.0\n\0behind"), Some(13));
    }

    #[test]
    fn a_fat_binary_has_the_bytes_of_its_header_also_behind_a_struct() {
        let mut image = 0xba55_ed50_u32.to_le_bytes().to_vec();
        image.extend(1_u16.to_le_bytes());
        image.extend(16_u16.to_le_bytes());
        image.extend(4_u64.to_le_bytes());
        image.extend(*b"codebehind");
        assert_eq!(bytes_of(&image), Some(20));
        let mut wrapper = 0x4662_43b1_u32.to_le_bytes().to_vec();
        wrapper.extend(1_u32.to_le_bytes());
        wrapper.extend((image.as_ptr() as u64).to_le_bytes());
        assert_eq!(bytes_of(&wrapper), Some(20));
    }

    #[test]
    fn a_cubin_ends_with_its_last_section() {
        let whole = std::fs::read("/proc/self/exe").unwrap();
        let bytes = bytes_of(&whole).unwrap();
        assert!(bytes <= whole.len(), "{bytes} of {}", whole.len());
        assert!(whole.len() - bytes < 64, "{bytes} of {}", whole.len());
    }

    #[test]
    fn no_module_is_none() {
        // SAFETY: a null pointer is allowed.
        assert_eq!(unsafe { read(std::ptr::null::<c_void>()) }, None);
    }
}
