//! Things that end with this process: programs that it started and files that are not complete yet.
//!
//! SIGINT, SIGTERM and SIGHUP kill the one and remove the other, and end this process with 128 and the number of the
//! signal, as a shell reports it. Where this process is killed outright, the system kills the programs, workers end when
//! their input closes, and a later run sweeps half-written files.

use crate::error::{Error, Result};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

static LIVING: Mutex<Living> = Mutex::new(Living {
    groups: BTreeSet::new(),
    unfinished: BTreeSet::new(),
});

struct Living {
    groups: BTreeSet<i32>,
    unfinished: BTreeSet<PathBuf>,
}

fn living() -> MutexGuard<'static, Living> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on this process ends as the module says. Called once, by `main`.
///
/// # Errors
/// Environment, where the system refuses a handler or a thread.
pub fn end_on_signals() -> Result<()> {
    let refused =
        |error: io::Error| Error::environment(format!("signals cannot be handled: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
    let handle = move || {
        if let Some(signal) = signals.forever().next() {
            end(128 + signal);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned());
    thread.spawn(handle).map(drop).map_err(refused)
}

fn end(code: i32) -> ! {
    // Kept to the end: nothing is started or begun any more.
    let living = living();
    for group in &living.groups {
        kill_group(*group);
    }
    for path in &living.unfinished {
        // The final file stays as it was; nobody is left to be told of a failure.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
    }
    std::process::exit(code)
}

/// Does `what` now, or never where a signal ends this process: what it killed has no outcome that could be written
/// down.
pub fn unless_ending<T>(what: impl FnOnce() -> T) -> T {
    let _living = living();
    what()
}

/// Fails only where the group is gone already.
pub(super) fn kill_group(group: i32) {
    let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
}

/// Killed by the system if this thread ends before it, as it does with a process that is killed outright. For a
/// program that this thread waits for.
pub(super) fn end_with_this_thread(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let parent = nix::unistd::getpid();
    let before_start = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        match nix::unistd::getppid() == parent {
            true => Ok(()),
            // It ended between the fork and this.
            false => Err(io::ErrorKind::Interrupted.into()),
        }
    };
    // SAFETY: between fork and exec, in one thread: two system calls.
    unsafe { command.pre_exec(before_start) };
}

/// A program that ends with this process, and everything that it starts with it.
pub struct Group {
    id: i32,
}

impl Group {
    /// In a process group of its own: nvcc starts cicc and ptxas, and all of them are to end with it.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
        let mut living = living();
        let child = command.spawn()?;
        let id = i32::try_from(child.id()).map_err(io::Error::other)?;
        living.groups.insert(id);
        Ok((child, Self { id }))
    }

    /// To be called before its first process is reaped: its number may be another's then.
    pub fn kill(&self) {
        kill_group(self.id);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        living().groups.remove(&self.id);
    }
}

/// A path that is removed if this process ends by a signal before this is dropped.
pub struct Unfinished(PathBuf);

impl Unfinished {
    pub fn new(path: &Path) -> Self {
        living().unfinished.insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        living().unfinished.remove(&self.0);
    }
}
