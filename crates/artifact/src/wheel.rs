//! Reads zip archives, such as wheels. A member is unpacked if its start says that it can have GPU code. Its path is
//! only a name: no file is made that has it.

use crate::map::Mapped;
use rayon::prelude::*;
use std::fmt::Display;
use std::io::{self, Cursor, Read, Write};
use system::error::{Error, Result};
use zip::ZipArchive;
use zip::result::{ZipError, ZipResult};

/// Members of up to this many bytes are unpacked into memory, larger ones into a file.
const MOST_IN_MEMORY: u64 = 32 << 20;

/// All members together may unpack to this many times the size of the archive. Public wheels need less than a tenth of
/// it, and a bomb ten times as much.
const MOST_RATIO: u64 = 100;

/// An archive of any size may unpack to this many bytes.
const ALWAYS_UNPACKED: u64 = 64 << 20;

type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

struct WheelMember {
    index: usize,
    name: String,
    /// The position of the member in the archive.
    start: u64,
    /// The size that the archive claims.
    size: u64,
}

impl WheelMember {
    fn damaged(&self, why: impl Display) -> Error {
        let start = self.start;
        Error::environment(format!(
            "byte {start}: the member cannot be unpacked: {why}"
        ))
    }
}

/// Returns true if the bytes begin as a zip archive with members does.
pub fn is_zip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK\x03\x04")
}

/// Calls `read` for each member that can have GPU code, and returns the results in the order of their names. `at` names
/// the archive in an error.
pub fn each<T: Send>(
    bytes: &[u8],
    at: &str,
    read: impl Fn(&[u8], &str) -> Result<T> + Sync,
) -> Result<Vec<Result<(String, T)>>> {
    let damaged = |error: ZipError| {
        let end = bytes.len();
        Error::environment(format!(
            "byte {end}: the table of members, at the end of the archive, is damaged or cut off: {error}"
        ))
        .at(at)
    };
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    if archive.has_duplicate_names() {
        return Err(Error::environment(
            "two members of the archive have the same name, so it is open which one counts",
        )
        .at(at));
    }
    let mut members = (0..archive.len())
        .map(|index| {
            let entry = archive.by_index_data(index)?;
            Ok(WheelMember {
                index,
                name: String::from_utf8_lossy(entry.name_raw()).into_owned(),
                start: entry.header_start(),
                size: entry.size(),
            })
        })
        .collect::<ZipResult<Vec<WheelMember>>>()
        .map_err(damaged)?;
    members.sort_by(|one, other| one.name.cmp(&other.name));

    let sniffed: Vec<Result<bool>> = (members.par_iter())
        .map(|member| can_have_code(&archive, member).map_err(|error| error.at(place(at, member))))
        .collect();
    let mut candidates = Vec::new();
    for (member, is_candidate) in members.into_iter().zip(sniffed) {
        if is_candidate? {
            candidates.push(member);
        }
    }
    check_sizes(&candidates, bytes.len() as u64).map_err(|error| error.at(at))?;

    let read_member = |member: &WheelMember| {
        let at = place(at, member);
        let made = if member.size > MOST_IN_MEMORY {
            read(
                &unpack_into_file(&archive, member).map_err(|error| error.at(&at))?,
                &at,
            )
        } else {
            read(
                &unpack(&archive, member).map_err(|error| error.at(&at))?,
                &at,
            )
        };
        Ok((member.name.clone(), made?))
    };
    Ok(candidates.par_iter().map(read_member).collect())
}

fn place(archive: &str, member: &WheelMember) -> String {
    // A name can contain line breaks.
    let name = member.name.replace(char::is_control, "\u{fffd}");
    format!("{archive}: {name}")
}

fn check_sizes(members: &[WheelMember], packed: u64) -> Result<()> {
    let claimed = members
        .iter()
        .map(|member| u128::from(member.size))
        .sum::<u128>();
    let limit = packed.saturating_mul(MOST_RATIO).max(ALWAYS_UNPACKED);
    if claimed > u128::from(limit) {
        Err(Error::environment(format!(
            "its members with GPU code claim to unpack to {claimed} bytes; the limit for an archive of {packed} bytes is {limit}"
        )))
    } else {
        Ok(())
    }
}

fn can_have_code(archive: &Archive, member: &WheelMember) -> Result<bool> {
    let mut archive = archive.clone();
    let file = (archive.by_index(member.index)).map_err(|error| member.damaged(error))?;
    let mut start = Vec::new();
    file.take(binary::START as u64)
        .read_to_end(&mut start)
        .map_err(|error| member.damaged(error))?;
    Ok(binary::may_have_code(&start))
}

fn unpack(archive: &Archive, member: &WheelMember) -> Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    unpack_to(archive, member, &mut unpacked)?;
    Ok(unpacked)
}

/// Unpacks a member into a file without a name, so that nobody else has it, and nothing is left of it.
fn unpack_into_file(archive: &Archive, member: &WheelMember) -> Result<Mapped> {
    let mut file = tempfile::tempfile().map_err(not_unpacked)?;
    unpack_to(archive, member, &mut file)?;
    Mapped::new(&file).map_err(not_unpacked)
}

fn unpack_to(archive: &Archive, member: &WheelMember, into: &mut impl Write) -> Result<()> {
    let mut archive = archive.clone();
    let mut file = (archive.by_index(member.index)).map_err(|error| member.damaged(error))?;
    let mut unpacked = 0;
    let mut buffer = vec![0; 128 << 10];
    loop {
        // Reading compares the checksum, too, and fails if there is more than the archive says.
        let read = file
            .read(&mut buffer)
            .map_err(|file| member.damaged(file))?;
        if read == 0 {
            break;
        }
        unpacked += read as u64;
        into.write_all(&buffer[..read]).map_err(not_unpacked)?;
    }
    if unpacked == member.size {
        Ok(())
    } else {
        Err(member.damaged("it is smaller than the archive says"))
    }
}

fn not_unpacked(error: io::Error) -> Error {
    let dir = std::env::temp_dir();
    let message = format!("it cannot be unpacked into {}: {error}", dir.display());
    Error::environment(message).help("set TMPDIR to a directory with more room")
}
