//! Checks the limits of this process on the machine before anything starts. A thread or allocation that is refused
//! later would end the process without a message.

use crate::error::{Error, Result};
use crate::process::confine::memory_of_machine;
use nix::sys::resource::{Resource, getrlimit};
use std::sync::OnceLock;
use std::thread::available_parallelism;

/// The least address space in bytes. Threads and their stacks take most of it.
const LEAST_MEMORY: u64 = 1 << 30;

/// The most address space of one compiler process in bytes, if the machine has twice as much. Large kernels of
/// libraries take 4 to 5 GiB. A header without an end, like a link to /dev/zero, takes everything that it can get.
const COMPILER_MEMORY: u64 = 8 << 30;

/// The variable that sets another limit: `12GiB`.
const COMPILER_MEMORY_VARIABLE: &str = "GATEKEEPER_COMPILER_MEMORY";

static COMPILER: OnceLock<u64> = OnceLock::new();

/// Returns the bytes of address space that one compiler process may have.
pub fn compiler_memory() -> u64 {
    // A test of a part of the program starts without `prepare`.
    *COMPILER.get_or_init(|| default_compiler_memory(memory_of_machine()))
}

fn default_compiler_memory(machine: Option<u64>) -> u64 {
    machine.map_or(COMPILER_MEMORY, |bytes| COMPILER_MEMORY.min(bytes / 2))
}

fn read_compiler_memory() -> Result<()> {
    let Some(said) = std::env::var_os(COMPILER_MEMORY_VARIABLE).filter(|size| !size.is_empty())
    else {
        return Ok(());
    };
    let said = said.to_string_lossy();
    let bytes = parse_size(&said).map_err(|help| {
        Error::usage(format!(
            "{COMPILER_MEMORY_VARIABLE} is `{said}`, which is no size"
        ))
        .help(help.to_string())
    })?;
    COMPILER.get_or_init(|| bytes);
    Ok(())
}

/// Recognises from its output that a compiler used up its memory, and returns the message to put before that output.
pub fn out_of_memory(log: &str) -> Option<String> {
    const SAYS: [&str; 6] = [
        // These are messages of g++ and clang++.
        "out of memory allocating",
        "virtual memory exhausted",
        "LLVM ERROR: out of memory",
        // These are messages of cudafe++ and cicc.
        "std::bad_alloc",
        "error: out of memory",
        // This is the message of ptxas.
        "Memory allocation failure",
    ];
    let line = log
        .lines()
        .find(|line| SAYS.iter().any(|says| line.contains(says)))?;
    Some(format!(
        "it reached the limit of {} MiB on the memory of a compiler: does it include a file without an end? \
         {COMPILER_MEMORY_VARIABLE} sets another limit\n{}",
        compiler_memory() >> 20,
        line.trim()
    ))
}

/// The way to write a size, for a text that is none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error("write a size with its unit: 500MiB, 10GiB")]
    Unit,
    #[error("write a whole number with its unit: 500MiB, 10GiB")]
    Number,
    #[error("that is more than any disk holds")]
    Large,
}

/// Parses a size such as `10GiB`, and returns it in bytes.
///
/// # Errors
/// Returns how to write a size.
pub fn parse_size(text: &str) -> std::result::Result<u64, SizeError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match text.get(digits.len()..) {
        Some("" | "B") => 1,
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        Some("TiB") => 1 << 40,
        _ => return Err(SizeError::Unit),
    };
    let count: u64 = digits.parse().map_err(|_| SizeError::Number)?;
    count.checked_mul(unit).ok_or(SizeError::Large)
}

/// Checks the limits, and starts the threads that compute: one for each core, or as many as `RAYON_NUM_THREADS` says if
/// that is fewer.
///
/// # Errors
/// Fails with an environment error if a limit is too low, or if the threads cannot be started.
pub fn prepare() -> Result<()> {
    let (memory, _) = getrlimit(Resource::RLIMIT_AS)
        .map_err(|error| Error::environment(format!("limits cannot be read: {error}")))?;
    check_memory(memory)?;
    read_compiler_memory()?;
    let asked = std::env::var("RAYON_NUM_THREADS").ok();
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads(asked.as_deref()))
        .build_global()
        .map_err(|error| {
            Error::environment(format!("threads cannot be started: {error}"))
                .help("look at the limits on processes and memory: ulimit -u, ulimit -v")
        })
}

fn check_memory(limit: u64) -> Result<()> {
    if limit >= LEAST_MEMORY {
        Ok(())
    } else {
        Err(Error::environment(format!(
            "the address space is limited to {} MiB, and gatekeeper needs {} MiB",
            limit >> 20,
            LEAST_MEMORY >> 20
        ))
        .help("raise the limit: ulimit -v unlimited"))
    }
}

fn threads(asked: Option<&str>) -> usize {
    let cores = available_parallelism().map_or(1, std::num::NonZero::get);
    let asked = asked.and_then(|text| text.parse::<usize>().ok());
    asked.filter(|count| *count > 0).unwrap_or(cores).min(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_cores_are_not_started() {
        let cores = available_parallelism().unwrap().get();
        assert_eq!(threads(Some("100000")), cores);
        assert_eq!(threads(Some("1")), 1);
        for none in [None, Some(""), Some("0"), Some("many")] {
            assert_eq!(threads(none), cores);
        }
    }

    #[test]
    fn a_compiler_has_half_of_a_small_machine() {
        assert_eq!(default_compiler_memory(None), 8 << 30);
        assert_eq!(default_compiler_memory(Some(512 << 30)), 8 << 30);
        assert_eq!(default_compiler_memory(Some(4 << 30)), 2 << 30);
    }

    #[test]
    fn a_compiler_that_took_all_memory_says_so_in_its_own_words() {
        for said in [
            "cc1plus: out of memory allocating 4294967296 bytes after a total of 8 bytes",
            "terminate called after throwing an instance of 'std::bad_alloc'\nnvcc error   : 'cicc' died due to signal 6",
            "ptxas fatal   : Memory allocation failure",
        ] {
            let why = out_of_memory(said).unwrap();
            assert!(why.contains(" MiB on the memory of a compiler"), "{why}");
            assert!(why.ends_with(said.lines().next().unwrap()), "{why}");
        }
        assert_eq!(out_of_memory("k.cu(3): error: expected a `;`"), None);
    }

    #[test]
    fn too_little_memory_is_said() {
        assert!(check_memory(u64::MAX).is_ok());
        let error = check_memory(300_000 << 10).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the address space is limited to 292 MiB, and gatekeeper needs 1024 MiB\n  help: raise the limit: ulimit -v unlimited"
        );
    }
}
