//! Opens what a user names, and lists its GPU kernels: a compiled file, a wheel, a directory, or the cache of a
//! compiler. It also makes two listings two records, for the judge. `binary` reads the bytes, and this crate handles
//! files, archives and directories.

mod assembled;
mod baseline;
mod code;
mod directory;
mod gates;
mod map;
mod record;
mod replaced;
mod wheel;

pub use assembled::{Assembly, Refused};
pub use baseline::{baseline_path, parse_baseline, read_baseline, write_baseline};
pub use code::{MachineCode, read_code};
pub use gates::{
    BaseBinaries, Library, NewBaseline, Worse, add_libraries, empty_record, leave_out_files, open,
};
pub use record::{
    AllowedChange, Circumstances, DEFAULT_LIMITS, Matched, Records, make_records, name_all_kernels,
};

use binary::{Format, Listing, Offset, Problem};
use map::Mapped;
use std::path::Path;
use system::error::{Error, Result};

const NAME_INSTEAD: &str = "name a shared library, an object or a program that nvcc linked, a static library (.a), a cubin, a fat binary or PTX, or a wheel or a directory with such files";

const NAME_PTX_INSTEAD: &str = "name a .ptx file, or a file, wheel or directory that has PTX in it; without --toolchain, --base-toolchain and --arch, machine code is read as it is";

/// The code of a file that is listed, and the way in which it is read.
#[derive(Clone, Copy)]
enum CodeListing<'a> {
    /// The machine code of the file, and the names in its PTX.
    AsItIs,
    /// Only the PTX of the file, assembled to machine code.
    Assembled(&'a Assembly<'a>),
}

/// Lists the kernels of what a path names.
///
/// # Errors
/// Fails if nothing in it has GPU code, and if something in it is damaged or cannot be read.
pub fn read(path: &Path) -> Result<Listing> {
    read_as(path, CodeListing::AsItIs)
}

/// Lists the kernels of all PTX in it, as an assembler makes them. Machine code in it is ignored.
///
/// # Errors
/// Fails as [`read`] does, and if PTX cannot be assembled, unless that is to be listed.
pub fn read_assembled(path: &Path, assembly: &Assembly) -> Result<Listing> {
    read_as(path, CodeListing::Assembled(assembly))
}

fn read_as(path: &Path, reading: CodeListing) -> Result<Listing> {
    let at = path.display().to_string();
    let without_code = |why: &str| match reading {
        CodeListing::AsItIs => Error::usage(why).at(&at).help(NAME_INSTEAD),
        CodeListing::Assembled(_) => Error::usage("nothing in it is PTX")
            .at(&at)
            .help(NAME_PTX_INSTEAD),
    };
    if path.is_dir() {
        let members = directory::each(path, |bytes, at| list(bytes, at, reading))?;
        let listing = merge(Format::Directory, members)?;
        return listing.ok_or_else(|| without_code("no file in this directory has GPU code"));
    }
    let bytes = Mapped::open(path)
        .map_err(|error| Error::environment(format!("the file cannot be read: {error}")).at(&at))?;
    list(&bytes, &at, reading)?.ok_or_else(|| without_code(looks_like(&bytes)))
}

/// Lists the kernels in the bytes of a file. `at` names the file in an error. Returns `None` if it has no GPU code.
///
/// # Errors
/// Fails if something in it is damaged.
pub fn read_bytes(bytes: &[u8], at: &str) -> Result<Option<Listing>> {
    list(bytes, at, CodeListing::AsItIs)
}

fn list(bytes: &[u8], at: &str, reading: CodeListing) -> Result<Option<Listing>> {
    if wheel::is_zip(bytes) {
        let members = wheel::each(bytes, at, |bytes, at| list(bytes, at, reading))?;
        return merge(Format::Zip, members);
    }
    let listing = match reading {
        CodeListing::AsItIs => if_of_kind(binary::read(bytes), at)?,
        CodeListing::Assembled(assembly) => {
            let texts = if_of_kind(binary::read_ptx(bytes), at)?;
            let listing = texts.map(|(format, texts)| assembly.list_all(format, &texts, at));
            listing.transpose()?
        }
    };
    Ok(listing.filter(|listing| !listing.is_empty()))
}

/// Returns `None` for a file of a kind that has no GPU code.
fn if_of_kind<T>(read: std::result::Result<T, binary::Error>, at: &str) -> Result<Option<T>> {
    match read {
        Ok(made) => Ok(Some(made)),
        // The damage is in a part of a file of the right kind.
        Err(error)
            if matches!(error.problem, Problem::Unknown | Problem::Foreign)
                && error.offset == Offset::START =>
        {
            Ok(None)
        }
        Err(error) => Err(Error::environment(error.to_string()).at(at)),
    }
}

/// Merges the members in the order of their names. The first error in that order is returned.
fn merge(
    format: Format,
    members: Vec<Result<(String, Option<Listing>)>>,
) -> Result<Option<Listing>> {
    let mut all = Listing::new(format);
    for member in members {
        if let (name, Some(listing)) = member? {
            all.add_member(&name, listing);
        }
    }
    Ok(Some(all).filter(|files| !files.is_empty()))
}

/// Returns the kind of a file without GPU code, by how it starts.
fn looks_like(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => "it is empty",
        [0x7f, b'E', b'L', b'F', 2, 1, ..] => "it is an ELF file without GPU code",
        [0x7f, b'E', b'L', b'F', ..] => {
            "it is an ELF file of another kind of machine than 64-bit Linux"
        }
        [b'P', b'K', 3, 4, ..] => "no file in this zip archive has GPU code",
        [b'M', b'Z', ..] => "it is a program or library of Windows",
        _ if bytes.starts_with(b"!<arch>\n") => "it is a static library without GPU code",
        [b'!', b'<', b't', b'h', b'i', b'n', b'>', ..] => {
            "it is a thin archive, which has the names of its members alone"
        }
        [b'M', b'L', 0xef, b'R', ..] => "it is MLIR bytecode without GPU code",
        [0x1f, 0x8b, ..] => "it is compressed with gzip; unpack it first",
        [0x50, 0xed, 0x55, 0xba, ..] => "it is a container for GPU code, and it is empty",
        _ if bytes.starts_with(b"//") || is_text(bytes) => {
            "it is text, such as a source, and not a compiled file"
        }
        _ => "it is none of the files that have GPU code",
    }
}

fn is_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    std::str::from_utf8(start).is_ok_and(|text| !text.contains('\0'))
}
