//! Reads files that others may have written. Only a regular file of a reasonable size is read: a FIFO would be waited
//! for without end, and /dev/zero has no end.

use crate::process::confine::memory_of_machine;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The greatest size in bytes of a file that people write: gates.yaml, acceptances, baselines.
pub const WRITTEN: u64 = 16 << 20;

/// The greatest size in bytes of what a compiler reads, even if it is generated: a source, a header, a cubin.
pub const SOURCE: u64 = 256 << 20;

/// Returns the greatest size in bytes of what gatekeeper or a compiler makes: half of the machine's memory.
pub fn made() -> u64 {
    memory_of_machine().map_or(u64::MAX, |bytes| bytes / 2)
}

/// The kind of thing at a path, with links followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    /// A FIFO, a device or a socket.
    Special,
}

impl FileKind {
    pub fn from_metadata(about: &Metadata) -> Self {
        match (about.is_file(), about.is_dir()) {
            (true, _) => Self::File,
            (_, true) => Self::Directory,
            _ => Self::Special,
        }
    }
}

/// Opens a regular file.
///
/// # Errors
/// Fails if it cannot be opened, or is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // The kind is checked before the file is opened, because opening some devices does something, and again after,
    // because the path may name something else by then.
    check_kind(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)?;
    check_kind(&file.metadata()?)?;
    Ok(file)
}

fn check_kind(about: &Metadata) -> io::Result<()> {
    match FileKind::from_metadata(about) {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(io::ErrorKind::IsADirectory.into()),
        FileKind::Special => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a pipe, a device or a socket, not a file",
        )),
    }
}

/// Reads a file.
///
/// # Errors
/// Fails as [`open`] does, and if the file has more than `most` bytes.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let size = file.metadata()?.len();
    let too_large = || {
        io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {} MiB", most >> 20),
        )
    };
    if size > most {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).map_err(|_| too_large())?)?;
    // The file may grow meanwhile.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        Err(too_large())
    } else {
        Ok(bytes)
    }
}

/// Reads a text.
///
/// # Errors
/// Fails as [`read`] does, and if the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_size_that_makes_sense_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "1234").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read(&at(name), 4).unwrap(), b"1234");
        }
        // Linux reports its own files as empty.
        assert!(
            !read_text(Path::new("/proc/self/status"), WRITTEN)
                .unwrap()
                .is_empty()
        );

        let why = |path: &Path, most| read(path, most).unwrap_err();
        assert_eq!(why(&at("file"), 3).kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(
            why(Path::new("/proc/self/status"), 3).kind(),
            io::ErrorKind::FileTooLarge
        );
        File::create(at("sparse"))
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        assert_eq!(
            why(&at("sparse"), WRITTEN).to_string(),
            "it has more than 16 MiB"
        );
        assert_eq!(why(dir.path(), 4).kind(), io::ErrorKind::IsADirectory);
        assert_eq!(why(&at("none"), 4).kind(), io::ErrorKind::NotFound);

        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("zero")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["fifo", "zero", "socket"] {
            let error = why(&at(name), u64::MAX);
            assert_eq!(
                error.to_string(),
                "it is a pipe, a device or a socket, not a file"
            );
        }
        std::fs::write(at("bytes"), b"\xff").unwrap();
        assert_eq!(
            read_text(&at("bytes"), 4).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
    }
}
