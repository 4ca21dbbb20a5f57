//! Reads the machine code of one kernel in a module, as the driver selects it for a device, and the variables of that
//! code.

use crate::elf::{ENDIAN, header};
use crate::error::{Error, Problem};
use crate::{Found, FoundCode, PtxText, cubin, find_all, ptx, read_ptx};
use model::Arch;
use object::elf::{SHT_NOBITS, SHT_SYMTAB, STT_OBJECT};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use std::borrow::Cow;

/// The sections of `__constant__` variables, and of `__device__` ones without and with a first value.
const CONSTANTS: &[u8] = b".nv.constant3";
const WRITTEN: [&[u8]; 2] = [b".nv.global", b".nv.global.init"];

/// The lowest nine bits of TEX, TLD4, TLD, TXD, TXQ, SULD, SUST and SURED, in two forms each and SUST in four, as PTXAS
/// 13.0 writes them for sm_80, sm_90, sm_100 and sm_120. The three bits above say where operands are.
const TEXTURES: [u16; 18] = [
    0x160, 0x161, 0x163, 0x164, 0x166, 0x167, 0x16c, 0x16d, 0x16f, 0x170, 0x199, 0x19a, 0x19b,
    0x19c, 0x19d, 0x19e, 0x19f, 0x1a0,
];

/// The machine code of a kernel, as a cubin.
pub struct KernelCode<'a> {
    pub arch: Arch,
    pub bytes: Cow<'a, [u8]>,
}

/// A variable of a cubin, with the value that loading gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The name that the linker knows.
    pub name: String,
    pub initial: Vec<u8>,
}

/// Finds the code of a kernel for the newest architecture that `runs`. Returns `None` if the module has none.
///
/// # Errors
/// Fails if it is not a module, or if it is damaged.
pub fn find_code<'a>(
    module: &'a [u8],
    kernel: &str,
    runs: impl Fn(Arch) -> bool,
) -> Result<Option<KernelCode<'a>>, Error> {
    let (_, found) = find_all(module)?;
    let mut fit = Vec::new();
    for found in &found {
        if let Some(arch) = machine(found)?.filter(|arch| runs(*arch)) {
            fit.push((arch, found));
        }
    }
    fit.sort_by_key(|(arch, _)| std::cmp::Reverse(*arch));
    for (arch, found) in fit {
        let bytes = match &found.code {
            FoundCode::Cubin(bytes) => Cow::Borrowed(*bytes),
            FoundCode::Entry(entry) => entry.unpack(found.at)?,
            FoundCode::Ptx(_) => continue,
        };
        if has_kernel(&bytes, kernel)? {
            return Ok(Some(KernelCode { arch, bytes }));
        }
    }
    Ok(None)
}

/// Finds the PTX of a kernel for the newest architecture that `runs`. Returns `None` if the module has none.
///
/// # Errors
/// Fails as [`find_code`] does.
pub fn find_kernel_ptx<'a>(
    module: &'a [u8],
    kernel: &str,
    runs: impl Fn(Arch) -> bool,
) -> Result<Option<PtxText<'a>>, Error> {
    let (_, mut texts) = read_ptx(module)?;
    let has_kernel = |text: &PtxText| ptx::kernels(&text.text).iter().any(|name| name == kernel);
    texts.retain(|text| runs(text.arch) && has_kernel(text));
    Ok(texts
        .into_iter()
        .max_by_key(|text| text.arch)
        .map(|text| PtxText {
            text: without_end(text.text),
            ..text
        }))
}

/// Removes the NUL after the text of a module, which the assembler would take for code.
fn without_end(text: Cow<[u8]>) -> Cow<[u8]> {
    let length = text
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |text| text + 1);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..length).unwrap_or_default()),
        Cow::Owned(mut text) => {
            text.truncate(length);
            Cow::Owned(text)
        }
    }
}

fn machine(found: &Found) -> Result<Option<Arch>, Error> {
    match &found.code {
        FoundCode::Cubin(bytes) => cubin::read_arch(bytes).map(Some),
        FoundCode::Entry(entry) => Ok(entry.machine()),
        FoundCode::Ptx(_) => Ok(None),
    }
}

fn has_kernel(cubin: &[u8], kernel: &str) -> Result<bool, Error> {
    let sections = header(cubin)?.sections(ENDIAN, cubin);
    let sections = sections.map_err(|_| damaged("table of sections"))?;
    let code = format!(".text.{kernel}");
    Ok(sections.section_by_name(ENDIAN, code.as_bytes()).is_some())
}

/// Returns true if a kernel reads or writes textures or surfaces.
///
/// # Errors
/// Fails if the cubin is damaged.
pub fn has_textures(cubin: &[u8], kernel: &str) -> Result<bool, Error> {
    let sections = header(cubin)?.sections(ENDIAN, cubin);
    let sections = sections.map_err(|_| damaged("table of sections"))?;
    let name = format!(".text.{kernel}");
    let Some((_, code)) = sections.section_by_name(ENDIAN, name.as_bytes()) else {
        return Ok(false);
    };
    let code = code.data(ENDIAN, cubin);
    let (instructions, _) = code.map_err(|_| damaged("code"))?.as_chunks::<16>();
    let operation = |[low, high, ..]: &[u8; 16]| u16::from_le_bytes([*low, *high]) & 0x1ff;
    Ok((instructions.iter()).any(|instruction| TEXTURES.contains(&operation(instruction))))
}

/// Returns all variables of a cubin. A variable may have at most `most` bytes.
///
/// # Errors
/// Fails if the cubin is damaged, or if a variable is larger.
pub fn read_variables(cubin: &[u8], most: u64) -> Result<Vec<Variable>, Error> {
    let sections = header(cubin)?.sections(ENDIAN, cubin);
    let sections = sections.map_err(|_| damaged("table of sections"))?;
    let symbols = sections.symbols(ENDIAN, cubin, SHT_SYMTAB);
    let symbols = symbols.map_err(|_| damaged("table of symbols"))?;
    let mut variables = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let section = symbols.symbol_section(ENDIAN, symbol, index);
        let section = section.map_err(|_| damaged("table of symbols"))?;
        let section = section.and_then(|section| sections.section(section).ok());
        let (STT_OBJECT, Some(section)) = (symbol.st_type(), section) else {
            continue;
        };
        let of = sections.section_name(ENDIAN, section);
        if !of
            .is_ok_and(|section_name| section_name == CONSTANTS || WRITTEN.contains(&section_name))
        {
            continue;
        }
        let size = symbol.st_size(ENDIAN);
        if size > most {
            return Err(Error::at(
                0,
                Problem::TooLarge {
                    claimed: size,
                    limit: most,
                },
            ));
        }
        let name = symbol.name(ENDIAN, symbols.strings());
        let name = name.map_err(|_| damaged("name of a variable"))?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let initial = match section.sh_type(ENDIAN) {
            SHT_NOBITS => vec![0; size],
            _ => {
                let data = section.data(ENDIAN, cubin);
                let data = data.map_err(|_| damaged("section of variables"))?;
                let start = symbol.st_value(ENDIAN).checked_sub(section.sh_addr(ENDIAN));
                let start = start.and_then(|start| usize::try_from(start).ok());
                let bytes = start.and_then(|start| data.get(start..start.checked_add(size)?));
                bytes.ok_or_else(|| damaged("variable"))?.to_vec()
            }
        };
        variables.push(Variable {
            name: String::from_utf8_lossy(name).into_owned(),
            initial,
        });
    }
    Ok(variables)
}

fn damaged(part: &'static str) -> Error {
    Error::at(0, Problem::Damaged(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &[u8] =
        b".version 8.7\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n}\n";

    #[test]
    fn ptx_is_found_for_a_device_that_runs_it() {
        let on = |major, minor| move |arch: Arch| arch.runs_on(major, minor) || arch.major < major;
        let found = find_kernel_ptx(PTX, "k", on(9, 0)).unwrap().unwrap();
        assert_eq!(found.arch.to_string(), "sm_80");
        assert!(find_kernel_ptx(PTX, "other", on(9, 0)).unwrap().is_none());
        assert!(find_kernel_ptx(PTX, "k", on(7, 5)).unwrap().is_none());
        assert!(find_code(PTX, "k", on(9, 0)).unwrap().is_none());
    }

    #[test]
    fn no_module_is_an_error() {
        assert!(find_code(b"text", "k", |_| true).is_err());
        assert!(read_variables(b"text", 1 << 20).is_err());
    }
}
