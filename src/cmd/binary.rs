//! `binary`: which GPU kernels a compiled file has.

use super::{print, width};
use crate::cli::{BinaryArgs, ProfileFormat};
use binary::{Format, Listing, Offset, Problem};
use report::binary as layout;
use report::exit::Exit;
use system::error::{Error, Result};
use system::files;

const NAME_INSTEAD: &str = "name a shared library, an object or a program that nvcc linked, a static library (.a), a cubin, or a fat binary";

pub fn run(args: &BinaryArgs) -> Result<Exit> {
    let file = args.file.display();
    let bytes = files::read(&args.file, files::made()).map_err(|error| {
        Error::environment(format!("the file cannot be read: {error}")).at(&file)
    })?;
    let listing = binary::read(&bytes).map_err(|error| match error.problem {
        // Further in it is a part of a file that is of the right kind.
        Problem::Unknown | Problem::Foreign if error.offset == Offset::START => {
            Error::usage(looks_like(&bytes))
                .at(&file)
                .help(NAME_INSTEAD)
        }
        _ => Error::environment(error.to_string()).at(&file),
    })?;
    if listing.is_empty() {
        return Err(Error::usage(without_code(&listing))
            .at(&file)
            .help(NAME_INSTEAD));
    }
    let name = file.to_string();
    print(&match args.format {
        ProfileFormat::Terminal => layout::terminal(&name, &listing, width()) + "\n",
        ProfileFormat::Json => layout::json(&name, &listing)?,
    })?;
    Ok(Exit::Held)
}

fn without_code(listing: &Listing) -> &'static str {
    match listing.format {
        Format::Cubin | Format::Fatbin => "it is a container for GPU code, and it is empty",
        Format::Host => "it is an ELF file of the host without GPU code",
        Format::Archive => "it is a static library without GPU code",
    }
}

/// The kind of a file that has no GPU code, by how it starts.
fn looks_like(bytes: &[u8]) -> &'static str {
    match bytes {
        [] => "it is empty",
        [0x7f, b'E', b'L', b'F', ..] => {
            "it is an ELF file of another kind of machine than 64-bit Linux"
        }
        [b'P', b'K', 3, 4, ..] => "it is a zip file, such as a wheel; unpack it first",
        [b'M', b'Z', ..] => "it is a program or library of Windows",
        [b'!', b'<', b't', b'h', b'i', b'n', b'>', ..] => {
            "it is a thin archive, which has the names of its members alone"
        }
        [0x1f, 0x8b, ..] => "it is compressed with gzip; unpack it first",
        _ if bytes.starts_with(b"//") || is_text(bytes) => {
            "it is text, such as PTX or a source, and not a compiled file"
        }
        _ => "it is none of the files that have GPU code",
    }
}

fn is_text(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(4096)];
    std::str::from_utf8(start).is_ok_and(|text| !text.contains('\0'))
}
