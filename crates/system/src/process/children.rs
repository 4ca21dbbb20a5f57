//! Tracks what ends with this process: programs that it started, and files that are not complete yet.
//!
//! SIGINT, SIGTERM and SIGHUP kill the former, remove the latter, and end this process with 128 plus the number of the
//! signal, as a shell reports it. If this process is killed outright, programs are killed all the same, because their
//! lifelines close with it. A later run sweeps half-written files.

use super::confine::{Confinement, Rules};
use super::keeper::Keeper;
use crate::error::{Error, Result};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tracing::debug;

static LIVING: Mutex<Living> = Mutex::new(Living {
    lifelines: BTreeMap::new(),
    unfinished: BTreeSet::new(),
});

struct Living {
    /// The lifelines by the process ids of their keepers.
    lifelines: BTreeMap<i32, UnixStream>,
    unfinished: BTreeSet<PathBuf>,
}

fn living() -> MutexGuard<'static, Living> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handles signals as the module says from here on. `main` calls it once.
///
/// # Errors
/// Fails with an environment error if the system refuses a handler or a thread.
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
    // The lock is held to the end, so that nothing is started or begun any more.
    let mut living = living();
    let keepers: Vec<i32> = living.lifelines.keys().copied().collect();
    living.lifelines.clear();
    let began = Instant::now();
    while began.elapsed() < KILLING && keepers.iter().any(|keeper| is_running(*keeper)) {
        std::thread::sleep(Duration::from_millis(1));
    }
    for path in &living.unfinished {
        // The final file stays as it was, and nobody is left who could be told of a failure.
        let _ = if path.is_dir() {
            std::fs::remove_dir_all(path)
        } else {
            std::fs::remove_file(path)
        };
    }
    std::process::exit(code)
}

/// Calls `what` now, or never if a signal ends this process, because the outcome of a program that the signal killed
/// must not be written down.
pub fn unless_ending<T>(what: impl FnOnce() -> T) -> T {
    let _living = living();
    what()
}

/// The time that killed processes may take to be gone. A process that is stuck in a driver takes longer.
const KILLING: Duration = Duration::from_secs(2);

/// Returns true if a child is running. A child that has ended is left to whoever waits for it.
fn is_running(child: i32) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(Id::Pid(Pid::from_raw(child)), flags) == Ok(WaitStatus::StillAlive)
}

/// A program that ends with this process, together with everything that it starts.
pub struct Kin {
    keeper: i32,
    /// The process id of the program.
    pub program: u32,
}

impl Kin {
    /// Starts the program under a [`keeper`](super::keeper), which is the returned child. nvcc starts cicc and ptxas,
    /// and all of them must end with it. The keeper ends when nothing of the program is left.
    ///
    /// # Errors
    /// Fails if the program cannot be confined or started.
    pub fn spawn(mut command: Command, rules: Option<&Rules>) -> io::Result<(Child, Self)> {
        use std::os::unix::process::CommandExt;
        let call: Vec<OsString> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(OsStr::to_owned)
            .collect();
        let (mut lifeline, its_end) = UnixStream::pair()?;
        let mut keeper = Keeper::new(its_end, rules.map(Confinement::new).transpose()?)?;
        // SAFETY: between fork and exec, in one thread, as `Keeper` says.
        unsafe { command.pre_exec(move || keeper.step_between()) };
        let mut living = living();
        let child = command.spawn()?;
        let keeper = i32::try_from(child.id()).map_err(io::Error::other)?;
        // This drops this process's copy of the other end of the lifeline. Otherwise the end of a keeper could not be
        // noticed.
        drop(command);
        let mut program = [0; 4];
        let _ = lifeline.read_exact(&mut program);
        let program = u32::from_ne_bytes(program);
        living.lifelines.insert(keeper, lifeline);
        drop(living);
        debug!(
            pid = program,
            ?call,
            confined = rules.is_some(),
            "program started"
        );
        Ok((child, Self { keeper, program }))
    }

    pub fn kill(&self) {
        living().lifelines.remove(&self.keeper);
    }
}

impl Drop for Kin {
    fn drop(&mut self) {
        self.kill();
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
