//! The process between this one and a program that it starts: a keeper, which leaves nothing of the program behind.
//!
//! It is a subreaper (prctl(2)), so that everything that the program starts, and that loses its parent, becomes a child
//! of the keeper, whatever process group or session it is in. When the program has ended, or when the socket to this
//! process is closed, the keeper kills until it has no child. Then it ends as the program did.
//!
//! A confined program runs in a Landlock domain inside the keeper's own domain, and can signal neither the keeper nor
//! anything else outside. The keeper can signal its own domain and those inside, and nothing more. So its `kill(-1)`
//! reaches all that the program started and no other process. The kernel sends that under the lock that a fork needs:
//! a program that forks without end does not get away. Elsewhere (Linux before 6.12, and programs that are not
//! confined) the keeper kills those that /proc lists as its children, one generation after another.
//!
//! The keeper is a fork of this process, and never becomes another program: it needs no file that could be missing.

use super::confine::{Confinement, domain};
use landlock::RulesetCreated;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid, setpgid, setsid};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

/// Everything that a keeper needs, made before the fork.
pub(super) struct Keeper {
    /// The socket that reports the process id of the program. Its other end is closed when everything is to end.
    lifeline: UnixStream,
    confinement: Option<Confinement>,
    /// `None` if the system has no domain that keeps signals inside, or if the program is not confined.
    domain: Option<RulesetCreated>,
}

impl Keeper {
    pub(super) fn new(lifeline: UnixStream, confinement: Option<Confinement>) -> io::Result<Self> {
        let domain = match confinement {
            Some(_) => domain()?,
            None => None,
        };
        Ok(Self {
            lifeline,
            confinement,
            domain,
        })
    }

    /// Forks. The process that calls this becomes the keeper and never returns. Its child returns, as the process that
    /// becomes the program.
    pub(super) fn step_between(&mut self) -> io::Result<()> {
        // Without this a program could type into the terminal (TIOCSTI).
        setsid()?;
        prctl::set_child_subreaper(true)?;
        let ends = SigSet::from(Signal::SIGCHLD);
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ends), None)?;
        let ended = SignalFd::with_flags(&ends, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let has_domain = self.domain.is_some();
        if let Some(domain) = self.domain.take() {
            domain
                .restrict_self()
                .map_err(|_| io::Error::last_os_error())?;
        }
        // This is tested and not only assumed, because `kill(-1)` would otherwise end everything that the user runs.
        // The parent belongs to the user, too.
        let is_alone = has_domain && kill(getppid(), None) == Err(Errno::EPERM);
        let keeper = getpid();
        // SAFETY: this is a process of one thread, and the C library's allocator works after a fork.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => {
                let _ = self.lifeline.write_all(&child.as_raw().to_ne_bytes());
                keep(child, &self.lifeline, ended, is_alone)
            }
            ForkResult::Child => {
                sigprocmask(SigmaskHow::SIG_UNBLOCK, Some(&ends), None)?;
                setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                // The keeper ended between the fork and this check.
                if getppid() != keeper {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                self.confinement.as_mut().map_or(Ok(()), Confinement::enter)
            }
        }
    }
}

fn keep(program: Pid, lifeline: &UnixStream, ended: SignalFd, is_alone: bool) -> ! {
    // The keeper's memory is a copy of the memory of the process that started it, so nobody may read it, and no core
    // file has it.
    let _ = prctl::set_dumpable(false);
    close_all_but([lifeline.as_raw_fd(), ended.as_raw_fd()]);
    let status = wait_for(program, lifeline, &ended);
    kill_all(program, is_alone);
    end_as(status)
}

/// Closes all other descriptors. Files stay open, and locks locked, as long as any process has them.
fn close_all_but(mut kept: [RawFd; 2]) {
    kept.sort_unstable();
    let [first, second] = kept;
    for (from, to) in [
        (0, first - 1),
        (first + 1, second - 1),
        (second + 1, RawFd::MAX),
    ] {
        // SAFETY: nothing in this process uses the descriptors from here on.
        let closed = from > to || unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) } == 0;
        if !closed {
            // The call is missing before Linux 5.9.
            let most = nix::unistd::sysconf(nix::unistd::SysconfVar::OPEN_MAX);
            let most = most
                .ok()
                .flatten()
                .map_or(1024, |most| most.min(1 << 20) as RawFd);
            for fd in from..=to.min(most) {
                // SAFETY: as above.
                unsafe { libc::close(fd) };
            }
        }
    }
}

/// Returns how the program ended, as waitpid(2) reports it, or `None` if the lifeline was cut before.
fn wait_for(program: Pid, lifeline: &UnixStream, ended: &SignalFd) -> Option<i32> {
    loop {
        // Signals are taken before children are reaped. If a program ends between the two, its signal stays for `poll`.
        // In the other order the signal would be taken, the program not reaped, and nobody would ever wake this
        // process.
        while let Ok(Some(_)) = ended.read_signal() {}
        while let Some((pid, status)) = reap(libc::WNOHANG) {
            if pid == program.as_raw() {
                return Some(status);
            }
        }
        let mut both =
            [lifeline.as_fd(), ended.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        match poll(&mut both, PollTimeout::NONE) {
            Ok(_) if both[0].any() == Some(true) => return None,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return None,
        }
    }
}

/// Kills until this process has no child.
fn kill_all(program: Pid, is_alone: bool) {
    loop {
        if is_alone {
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        } else if !kill_children() {
            let _ = killpg(program, Signal::SIGKILL);
            return;
        }
        // When a process is reaped, its children become this process's.
        if reap(0).is_none() {
            return;
        }
    }
}

/// Returns a child that has ended, and how, or `None` if there is none. nix does not know the real-time signals.
fn reap(flags: i32) -> Option<(i32, i32)> {
    loop {
        let mut status = 0;
        // SAFETY: writes to `status` alone.
        match unsafe { libc::waitpid(-1, &raw mut status, flags) } {
            pid @ 1.. => return Some((pid, status)),
            -1 if Errno::last() == Errno::EINTR => {}
            _ => return None,
        }
    }
}

/// Kills the children. Returns false if none could be killed.
fn kill_children() -> bool {
    let me = getpid().to_string();
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let mut stat = Vec::new();
            let file = File::open(format!("/proc/{pid}/stat"));
            let _ = file.and_then(|file| file.take(1 << 12).read_to_end(&mut stat));
            let stat = String::from_utf8_lossy(&stat);
            // The name before it can contain anything. State and parent follow the last parenthesis.
            let parent = stat
                .rsplit(')')
                .next()
                .and_then(|rest| rest.split_whitespace().nth(1));
            parent == Some(&me)
        })
        .filter(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).is_ok())
        .count()
        > 0
}

fn end_as(status: Option<i32>) -> ! {
    let signal = match status {
        // SAFETY: ends this process, and runs nothing of the one that it is a fork of.
        Some(status) if libc::WIFEXITED(status) => unsafe {
            libc::_exit(libc::WEXITSTATUS(status))
        },
        Some(status) => libc::WTERMSIG(status),
        None => libc::SIGKILL,
    };
    let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
    // SAFETY: without a handler, the signal ends this process and runs nothing; nor does `_exit`.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}
