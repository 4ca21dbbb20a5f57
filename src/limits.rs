//! What this process may use of the machine, looked at before anything starts: later, a thread or an allocation that
//! is refused ends the process without a sentence.

use crate::error::{Diagnostic, Error, Result};
use nix::sys::resource::{Resource, getrlimit};
use std::thread::available_parallelism;

/// Of address space, of which threads and their stacks take most.
const LEAST_MEMORY: u64 = 1 << 30;

/// Checks the limits, and starts the threads that compute: one for each core, or as many as `RAYON_NUM_THREADS` says
/// if that is fewer.
///
/// # Errors
/// Environment, where a limit is too low or the threads cannot be started.
pub fn prepare() -> Result<()> {
    let (memory, _) = getrlimit(Resource::RLIMIT_AS)
        .map_err(|error| Error::environment(format!("limits cannot be read: {error}")))?;
    check_memory(memory)?;
    let asked = std::env::var("RAYON_NUM_THREADS").ok();
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads(asked.as_deref()))
        .build_global()
        .map_err(|error| {
            Error::Environment(
                Diagnostic::new(format!("threads cannot be started: {error}"))
                    .help("look at the limits on processes and memory: ulimit -u, ulimit -v"),
            )
        })
}

fn check_memory(limit: u64) -> Result<()> {
    match limit >= LEAST_MEMORY {
        true => Ok(()),
        false => Err(Error::Environment(
            Diagnostic::new(format!(
                "the address space is limited to {} MiB, and gatekeeper needs {} MiB",
                limit >> 20,
                LEAST_MEMORY >> 20
            ))
            .help("raise the limit: ulimit -v unlimited"),
        )),
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
    fn too_little_memory_is_said() {
        assert!(check_memory(u64::MAX).is_ok());
        let error = check_memory(300_000 << 10).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the address space is limited to 292 MiB, and gatekeeper needs 1024 MiB\n  help: raise the limit: ulimit -v unlimited"
        );
    }
}
