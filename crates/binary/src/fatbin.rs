//! Reads fat binaries: containers of machine code and PTX, one after another. NVIDIA does not document the layout. It
//! is known from projects that read it (ZLUDA, cuda-fatbin-decompression), and was compared here with what nvcc writes.
//!
//! A container has a header of 16 bytes: magic, version, size of the header, size of what follows. Each entry has a
//! header, too, which states its own size, and its payload.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::cubin::Cubin;
use crate::error::{Error, Problem};
use crate::{Content, FoundCode, SearchedPart, cubin, ptx};
use memchr::memmem;
use model::Arch;
use std::borrow::Cow;

pub const MAGIC: u32 = 0xBA55_ED50;

/// Magic, version, and size of the header, which begin each container.
const START: [u8; 8] = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];

/// The number of bytes that an entry may unpack to. The largest cubins of public libraries have a tenth of it.
pub const MOST_UNPACKED: u64 = 1 << 30;

/// The greatest growth of a block of LZ4: a byte of its stream stands for at most 255 bytes.
const LZ4_RATIO: u64 = 255;

/// The greatest growth that is accepted for a block of zstd, which can grow without limit. No entry of cublas or cudnn
/// 9 grows to more than 135 times its size.
const ZSTD_RATIO: u64 = 2048;

const PTX: u16 = 1;
const MACHINE_CODE: u16 = 2;

const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const ARCH_SPECIFIC: u64 = 0x10_0000;
const FAMILY_SPECIFIC: u64 = 0x20_0000;

/// The fields of an entry's header that are read, in their layout.
pub struct FatbinEntry<'a> {
    kind: u16,
    arch: Arch,
    flags: u64,
    unpacked_size: u64,
    payload: &'a [u8],
    /// The position of the payload in the file.
    payload_at: u64,
}

/// Finds the parts of fat binary containers that follow each other, with zeros between them.
///
/// # Errors
/// Fails if a container is damaged.
pub fn find<'a>(bytes: &'a [u8], part: &mut SearchedPart<'a, '_>) -> Result<(), Error> {
    let mut at = 0;
    while let Some(zeros) = padding(bytes, at) {
        at += zeros;
        at = find_in_container(bytes, at, part)?;
    }
    Ok(())
}

/// Finds containers that lie among other data.
pub fn find_among<'a>(bytes: &'a [u8], part: &mut SearchedPart<'a, '_>) -> Result<(), Error> {
    let mut at = 0;
    while let Some(next) = memmem::find(bytes.get(at..).unwrap_or_default(), &START) {
        at = find_in_container(bytes, at + next, part)?;
    }
    Ok(())
}

/// Returns how many zeros precede the next container, or `None` if there is no more container.
fn padding(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.iter().position(|byte| *byte != 0)
}

/// Finds the entries of a container, and returns where it ends.
fn find_in_container<'a>(
    bytes: &'a [u8],
    at: usize,
    part: &mut SearchedPart<'a, '_>,
) -> Result<usize, Error> {
    let start = part.start;
    let in_file = |at: usize| start.saturating_add(at as u64);
    let damaged = |at: usize, part| Error::at(in_file(at), Problem::Damaged(part));
    let header = || {
        let fits = u32_at(bytes, at)? == MAGIC && u16_at(bytes, at.checked_add(4)?)? == 1;
        let own = usize::from(u16_at(bytes, at.checked_add(6)?)?);
        let rest = usize::try_from(u64_at(bytes, at.checked_add(8)?)?).ok()?;
        let first = at.checked_add(own)?;
        let end = first.checked_add(rest)?;
        (fits && own >= 16 && end <= bytes.len()).then_some((first, end))
    };
    let (mut next, end) = header().ok_or_else(|| damaged(at, "header of the fat binary"))?;
    while next < end {
        let (entry, after) = entry(bytes.get(..end).unwrap_or_default(), next, start)
            .ok_or_else(|| damaged(next, "entry of the fat binary"))?;
        part.add(in_file(next), FoundCode::Entry(entry));
        next = after;
    }
    Ok(end)
}

/// Reads an entry, and returns where the next one starts.
fn entry(bytes: &[u8], at: usize, start: u64) -> Option<(FatbinEntry<'_>, usize)> {
    let header = bytes.get(at..)?;
    let own = usize::try_from(u32_at(header, 4)?).ok()?;
    let padded = usize::try_from(u64_at(header, 8)?).ok()?;
    let packed = usize::try_from(u32_at(header, 16)?).ok()?;
    let flags = u64_at(header, 40)?;
    let payload_at = at.checked_add(own)?;
    let after = payload_at.checked_add(padded)?;
    let whole = bytes.get(payload_at..after)?;
    let suffix = match (flags & ARCH_SPECIFIC, flags & FAMILY_SPECIFIC) {
        (0, 0) => None,
        (0, _) => Some('f'),
        _ => Some('a'),
    };
    let entry = FatbinEntry {
        kind: u16_at(header, 0)?,
        arch: cubin::arch(u32_at(header, 28)?, suffix)?,
        flags,
        unpacked_size: u64_at(header, 56)?,
        payload: match flags & (LZ4 | ZSTD) {
            0 => whole,
            // Padding is not part of the stream.
            _ => whole.get(..packed)?,
        },
        payload_at: start.saturating_add(payload_at as u64),
    };
    (own >= 64).then_some((entry, after))
}

impl<'a> FatbinEntry<'a> {
    /// Returns the PTX of the entry, or `None` if it is something else. `at` is its position in the file.
    pub fn ptx(&self, at: u64) -> Result<Option<Cow<'a, [u8]>>, Error> {
        match self.kind {
            PTX => Ok(Some(unpack(self, at)?)),
            _ => Ok(None),
        }
    }

    /// Returns the architecture that the entry is for.
    pub fn target(&self) -> Arch {
        self.arch
    }

    /// Returns the architecture that the entry has machine code for.
    pub fn machine(&self) -> Option<Arch> {
        (self.kind == MACHINE_CODE).then_some(self.arch)
    }

    /// Returns the bytes of the entry. `at` is its position in the file.
    pub fn unpack(&self, at: u64) -> Result<Cow<'a, [u8]>, Error> {
        unpack(self, at)
    }

    /// Returns the machine code of the entry, with its bytes. `at` is its position in the file.
    pub fn read_cubin(&self, at: u64) -> Result<(Cubin, Cow<'a, [u8]>), Error> {
        let code = unpack(self, at)?;
        let cubin = cubin::read(&code, Some(self.arch)).map_err(|error| match code {
            Cow::Borrowed(_) => error.shifted(self.payload_at),
            Cow::Owned(_) => error.unpacked_from(at),
        })?;
        Ok((cubin, code))
    }

    /// Reads the entry. `at` is its position in the file.
    pub fn read(&self, at: u64) -> Result<Content, Error> {
        let FatbinEntry { kind, arch, .. } = *self;
        match kind {
            MACHINE_CODE => Ok(Content::Cubin(self.read_cubin(at)?.0)),
            PTX => Ok(Content::Ptx {
                arch,
                kernels: ptx::kernels(&unpack(self, at)?),
            }),
            _ => Ok(Content::Other { kind, arch }),
        }
    }
}

fn unpack<'a>(entry: &FatbinEntry<'a>, at: u64) -> Result<Cow<'a, [u8]>, Error> {
    if entry.flags & (LZ4 | ZSTD) == 0 {
        return Ok(Cow::Borrowed(entry.payload));
    }
    let damaged = || Error::at(at, Problem::Damaged("packed code"));
    let claimed = entry.unpacked_size;
    let ratio = match entry.flags & LZ4 {
        0 => ZSTD_RATIO,
        _ => LZ4_RATIO,
    };
    let limit = MOST_UNPACKED.min((entry.payload.len() as u64).saturating_mul(ratio));
    if claimed > limit {
        return Err(Error::at(at, Problem::TooLarge { claimed, limit }));
    }
    let size = usize::try_from(claimed).map_err(|_| damaged())?;
    let mut unpacked = vec![0; size];
    let written = match entry.flags & LZ4 {
        0 => unpack_zstd(entry.payload, &mut unpacked),
        _ => lz4_flex::block::decompress_into(entry.payload, &mut unpacked).ok(),
    };
    if written == Some(size) {
        Ok(Cow::Owned(unpacked))
    } else {
        Err(damaged())
    }
}

fn unpack_zstd(packed: &[u8], unpacked: &mut [u8]) -> Option<usize> {
    let mut decoder = ruzstd::decoding::FrameDecoder::new();
    decoder.decode_all(packed, unpacked).ok()
}
