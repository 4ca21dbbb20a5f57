//! Maps files into memory, because a library has gigabytes, and its kernels are a small part of them.
//!
//! If a file becomes shorter while it is mapped, the rest of its pages have no bytes, and the system ends the process
//! that reads them with SIGBUS. Copies would not help, because they would need memory of the file's size. So the signal
//! ends the program as other errors of the machine do: with a sentence and exit code 4.

use memmap2::Mmap;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::Once;
use system::files;

const SHORTER: &[u8] =
    b"error: a file cannot be read to its end: it became shorter meanwhile, or its disk failed\n";

/// The exit code of errors of the machine.
const ENVIRONMENT: i32 = 4;

pub struct Mapped(Mmap);

impl Mapped {
    /// Opens and maps a file.
    ///
    /// # Errors
    /// Fails if it cannot be opened, or is not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::new(&files::open(path)?)
    }

    /// Maps a file.
    ///
    /// # Errors
    /// Fails if there is no address space for it.
    pub fn new(file: &File) -> io::Result<Self> {
        static HANDLED: Once = Once::new();
        let mut handled = Ok(());
        HANDLED.call_once(|| handled = end_at_missing_pages());
        handled?;
        // SAFETY: it is mapped for reading, and nothing here writes to it. It must not change meanwhile. Compilers and
        // installers give a new file the old one's name, which leaves a mapped one as it was. Pages that are gone end
        // the program (above).
        unsafe { Mmap::map(file) }.map(Self)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

fn end_at_missing_pages() -> io::Result<()> {
    let action = SigAction::new(SigHandler::Handler(end), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler calls two functions that POSIX allows in one, and does not return.
    unsafe { sigaction(Signal::SIGBUS, &action) }?;
    Ok(())
}

extern "C" fn end(_: libc::c_int) {
    // SAFETY: the bytes are constant, and both functions may be called in a handler.
    unsafe {
        libc::write(libc::STDERR_FILENO, SHORTER.as_ptr().cast(), SHORTER.len());
        libc::_exit(ENVIRONMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const CHILD: &str = "GATEKEEPER_TEST_SHORTER";

    /// This runs in a process of its own, which it ends.
    #[test]
    fn a_file_that_becomes_shorter_ends_the_program_with_a_sentence() {
        if let Some(path) = std::env::var_os(CHILD) {
            let mapped = Mapped::open(Path::new(&path)).unwrap();
            assert_eq!(mapped.len(), 1 << 20);
            assert_eq!(mapped.last(), Some(&7));
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(0)
                .unwrap();
            panic!("read {:?}", mapped.last());
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, &[7; 1 << 20]).unwrap();
        let mut own = Command::new(std::env::current_exe().unwrap());
        own.env(CHILD, file.path()).args([
            "--exact",
            "map::tests::a_file_that_becomes_shorter_ends_the_program_with_a_sentence",
            "--nocapture",
        ]);
        let output = own.output().unwrap();
        assert_eq!(output.status.code(), Some(ENVIRONMENT));
        assert_eq!(output.stderr, SHORTER);
    }
}
