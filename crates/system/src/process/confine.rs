//! Limits on programs that strangers wrote or control: the compilers, which take their flags and sources, and
//! references and launchers, which are their code.
//!
//! On Linux, by Landlock (files, signals to others, reading another process) and seccomp (sockets, leaving the process
//! group); both hold for all that the program starts, and cannot be taken back. A kernel that is too old for a part
//! goes without it: [`Support`] tells, and `gatekeeper doctor` says so.

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of which a program can read no file and start no program.
#[derive(Clone, Debug)]
pub struct Hidden {
    /// Without links.
    pub dir: PathBuf,
    /// Directories in it that it can read all the same.
    pub but: Vec<PathBuf>,
}

impl Hidden {
    /// Everything else: Landlock knows what is allowed, and nothing that is not.
    fn rest(&self) -> Vec<PathBuf> {
        let mut rest = self.but.clone();
        for (inner, outer) in self.dir.ancestors().zip(self.dir.ancestors().skip(1)) {
            let entries = std::fs::read_dir(outer).into_iter().flatten().flatten();
            // A link is no place of its own: it may lead into what is hidden.
            let is_link = |entry: &DirEntry| entry.file_type().is_ok_and(|it| it.is_symlink());
            let others = entries.filter(|entry| entry.path() != inner && !is_link(entry));
            rest.extend(others.map(|entry| entry.path()));
        }
        rest
    }
}

/// Permissions of one program besides reading and computing.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Directories in which it may change files. Elsewhere it can only read.
    pub writes: &'a [&'a Path],
    /// The directory that it cannot read. A system that enforces no rules on files shows it anyway: [`Support::files`].
    pub hidden: Option<&'a Hidden>,
    pub sockets: Sockets,
    /// Bytes of its address space; `None` is no limit.
    pub memory: Option<u64>,
    /// Bytes of the largest file that it may write.
    pub file: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    None,
    /// Between processes of this machine: a CUDA driver talks to its services that way.
    Local,
}

/// The newest Landlock that is used where the system has it: 6 (Linux 6.12) keeps signals inside.
const LANDLOCK: ABI = ABI::V6;

/// The parts of the rules that the system enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Support {
    /// Linux 5.13. Without it a program can change every file that the user can.
    pub files: bool,
    /// Linux 6.12. Without it a program can send signals to other processes of the user.
    pub signals: bool,
    /// Without it a program can use the network.
    pub sockets: bool,
}

impl Support {
    pub fn of_this_system() -> Self {
        let landlock = landlock_version();
        Self {
            files: landlock >= 1,
            signals: landlock >= 6,
            sockets: filter(Sockets::None).is_ok(),
        }
    }
}

/// 0 or less where there is none, or it is not enabled.
fn landlock_version() -> libc::c_long {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag it reads nothing and makes nothing.
    unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0,
            VERSION,
        )
    }
}

/// Passes on only those variables of this process's environment that begin with one of `told`: a runner's tokens are
/// there, too.
pub fn tell(command: &mut Command, told: &[&str]) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if !told.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
}

/// The rules are in force when the program begins.
///
/// # Errors
/// A directory that is not there, or an architecture that seccomp filters are not known for.
pub fn confine(command: &mut Command, rules: &Rules) -> io::Result<()> {
    let mut files = Some(files(rules)?);
    let filter = match filter(rules.sockets) {
        Ok(filter) => Some(filter),
        // `Support` says so.
        Err(Unfilterable::Architecture) => None,
        Err(Unfilterable::Other(error)) => return Err(error),
    };
    let limits = [
        (Resource::RLIMIT_CORE, Some(0)),
        (Resource::RLIMIT_AS, rules.memory),
        (Resource::RLIMIT_FSIZE, rules.file),
    ];
    // Where this process may have less, so may they: nobody may ask for more than that.
    let mut lowered = Vec::with_capacity(limits.len());
    for (resource, limit) in limits {
        let (_, most) = getrlimit(resource)?;
        lowered.push((resource, limit.map(|limit| limit.min(most))));
    }
    let before_start = move || {
        for &(resource, limit) in &lowered {
            if let Some(limit) = limit {
                setrlimit(resource, limit, limit)?;
            }
        }
        drop_capabilities();
        close_inherited();
        if let Some(files) = files.take() {
            let files = with_own_process(files)?;
            files.restrict_self().map_err(|_| last_error())?;
        }
        if let Some(filter) = &filter {
            seccompiler::apply_filter(filter).map_err(|_| last_error())?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec, in one thread. It makes system calls, and allocates nothing unless one fails; where
    // it does, the C library's allocator works after a fork.
    unsafe { command.pre_exec(before_start) };
    Ok(())
}

fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// Descriptors that a runner or a shell left open end here. Marked, not closed: the one that tells of a failed start
/// is among them. A system without the call (Linux 5.9) keeps them.
fn close_inherited() {
    // SAFETY: marks descriptors of this process, which is about to become another program.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
    }
}

/// The CUDA driver names its threads, by a file of this process each (/proc/self/task/*/comm), and does not start where
/// it cannot. Opened here, where `self` is the process that becomes the program.
fn with_own_process(files: RulesetCreated) -> io::Result<RulesetCreated> {
    // SAFETY: opens a directory by a constant name.
    let own = unsafe { libc::open(c"/proc/self".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if own < 0 {
        // A system without /proc has nothing to allow.
        return Ok(files);
    }
    // SAFETY: it was opened above, and nothing else has it.
    let own = unsafe { OwnedFd::from_raw_fd(own) };
    files
        .add_rule(PathBeneath::new(
            own,
            AccessFs::WriteFile | AccessFs::Truncate,
        ))
        .map_err(|_| last_error())
}

/// Drops all capabilities of a root process, as in many containers, except those on files: with CAP_PERFMON alone it
/// could still read the environment of others. A process that is refused has none to drop, and is not root.
fn drop_capabilities() {
    // linux/capability.h: CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER and FSETID are 0 to 4; 63 is the last possible.
    for capability in 5..=63 {
        // SAFETY: takes a number, changes what this process may get when it becomes another program.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
}

fn files(rules: &Rules) -> io::Result<RulesetCreated> {
    let change = AccessFs::from_write(LANDLOCK);
    let read = match rules.hidden {
        Some(_) => AccessFs::ReadFile | AccessFs::Execute,
        None => BitFlags::EMPTY,
    };
    // Not even there.
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    let open = |path: &Path| PathFd::new(path).map_err(io::Error::other);
    let made = || -> Result<RulesetCreated, landlock::RulesetError> {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(change | read)?
            .scope(Scope::Signal)?
            .create()
    };
    let mut ruleset = made().map_err(io::Error::other)?;
    for dir in rules.writes {
        let rule = PathBeneath::new(open(dir)?, (change & !devices) | read);
        ruleset = ruleset.add_rule(rule).map_err(io::Error::other)?;
    }
    for place in rules.hidden.map(Hidden::rest).into_iter().flatten() {
        // Some are gone meanwhile. A place that cannot be allowed stays hidden.
        if let Ok(place) = open(&place) {
            let _ = (&mut ruleset).add_rule(PathBeneath::new(place, read));
        }
    }
    let null = PathBeneath::new(open(Path::new("/dev/null"))?, AccessFs::WriteFile);
    ruleset.add_rule(null).map_err(io::Error::other)
}

enum Unfilterable {
    Architecture,
    Other(io::Error),
}

/// Refuses with EPERM.
fn filter(sockets: Sockets) -> Result<BpfProgram, Unfilterable> {
    let architecture = std::env::consts::ARCH
        .try_into()
        .map_err(|_| Unfilterable::Architecture)?;
    let other = |error: seccompiler::BackendError| Unfilterable::Other(io::Error::other(error));
    let always = Vec::new();
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = [
        // A process that leaves the group is not killed with it.
        libc::SYS_setsid,
        libc::SYS_setpgid,
        // Other processes of the user: where Landlock is missing, nothing else keeps it from them.
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        // It opens sockets past this filter.
        libc::SYS_io_uring_setup,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_add_key,
    ]
    .into_iter()
    .map(|call| (call, always.clone()))
    .collect();
    let of_network = match sockets {
        Sockets::None => always,
        Sockets::Local => {
            let family = SeccompCondition::new(
                0,
                SeccompCmpArgLen::Dword,
                SeccompCmpOp::Ne,
                libc::AF_UNIX as u64,
            )
            .map_err(other)?;
            vec![SeccompRule::new(vec![family]).map_err(other)?]
        }
    };
    refused.insert(libc::SYS_socket, of_network);
    SeccompFilter::new(
        refused,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        architecture,
    )
    .and_then(BpfProgram::try_from)
    .map_err(other)
}

/// Whether this system can do all of it; a test of it has nothing to see where it cannot.
pub fn is_confining() -> bool {
    let all = Support {
        files: true,
        signals: true,
        sockets: true,
    };
    Support::of_this_system() == all
}

/// All memory of this machine, in bytes: what no program may ask for more than.
pub fn memory_of_machine() -> Option<u64> {
    use nix::unistd::{SysconfVar, sysconf};
    let pages = sysconf(SysconfVar::_PHYS_PAGES).ok()??;
    let size = sysconf(SysconfVar::PAGE_SIZE).ok()??;
    u64::try_from(pages)
        .ok()?
        .checked_mul(u64::try_from(size).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Ended, run_confined};
    use std::time::Duration;

    fn shell(script: &str, rules: &Rules) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run_confined(command, rules, Duration::from_secs(60), 1 << 10)
            .unwrap()
            .unwrap()
    }

    const NOTHING: Rules = Rules {
        writes: &[],
        hidden: None,
        sockets: Sockets::None,
        memory: None,
        file: None,
    };

    #[test]
    fn a_confined_process_writes_only_to_allowed_places() {
        if !is_confining() {
            return;
        }
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kept = other.path().join("kept");
        std::fs::write(&kept, "as it was").unwrap();
        let rules = Rules {
            writes: &[own.path()],
            ..NOTHING
        };
        let script = format!(
            "cd {}; echo a > a && mkdir d && mv a d/b && rm -r d && echo c > c && echo x > /dev/null; cat {} || exit 1",
            own.path().display(),
            kept.display()
        );
        let ended = shell(&script, &rules);
        assert!(ended.status.success(), "{ended:?}");
        assert_eq!(ended.log, "as it was");
        assert!(own.path().join("c").exists());

        let kept = kept.display();
        for attempt in [
            format!("echo b > {kept}"),
            format!(": > {kept}"),
            format!("rm {kept}"),
            format!("mv {kept} {}/", own.path().display()),
            format!("ln {kept} {}/", own.path().display()),
            format!("touch {}/new", other.path().display()),
        ] {
            let ended = shell(&attempt, &rules);
            assert!(!ended.status.success(), "{attempt}");
        }
        assert_eq!(
            std::fs::read_to_string(other.path().join("kept")).unwrap(),
            "as it was"
        );
        assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
    }

    #[test]
    fn hidden_files_are_read_by_no_path() {
        if !is_confining() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["head/inc", "head/cache/base", "other"] {
            std::fs::create_dir_all(at(name)).unwrap();
            std::fs::write(at(name).join("a.h"), name).unwrap();
        }
        std::os::unix::fs::symlink(at("head"), at("link")).unwrap();
        std::os::unix::fs::symlink(at("head/inc/a.h"), at("other/b.h")).unwrap();
        std::fs::write(at("head/tool"), "#!/bin/sh\necho ran\n").unwrap();
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(at("head/tool"), all).unwrap();
        let hidden = Hidden {
            dir: at("head"),
            but: vec![at("head/cache/base")],
        };
        let rules = Rules {
            hidden: Some(&hidden),
            ..NOTHING
        };
        let reads = |name: &str, rules: &Rules| {
            let path = at(name);
            shell(&format!("cat {}", path.display()), rules)
                .status
                .success()
        };
        for name in [
            "head/inc/a.h",
            "link/inc/a.h",
            "other/b.h",
            "other/../head/inc/a.h",
        ] {
            assert!(!reads(name, &rules), "{name}");
            assert!(reads(name, &NOTHING), "{name}");
        }
        for name in ["head/cache/base/a.h", "other/a.h", "link/cache/base/a.h"] {
            assert!(reads(name, &rules), "{name}");
        }
        let tool = at("head/tool").display().to_string();
        assert!(!shell(&tool, &rules).status.success());
        assert_eq!(shell(&tool, &NOTHING).log, "ran\n");
    }

    /// A small C program tries what the shell cannot do.
    fn run_c(body: &str, rules: &Rules) -> Ended {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("t.c"), dir.path().join("t"));
        let text = format!(
            "#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n\
             #include <stdlib.h>\n#include <string.h>\n#include <sys/socket.h>\n#include <sys/uio.h>\n\
             #include <unistd.h>\nint main(void) {{ {body} }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let built = Command::new("cc")
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .status()
            .unwrap();
        assert!(built.success());
        run_confined(
            Command::new(&program),
            rules,
            Duration::from_secs(60),
            1 << 10,
        )
        .unwrap()
        .unwrap()
    }

    #[test]
    fn it_reaches_no_network_and_no_other_process() {
        if !is_confining() {
            return;
        }
        let local = Rules {
            sockets: Sockets::Local,
            ..NOTHING
        };
        let exits = |body: &str, rules| run_c(body, rules).status.code();
        for family in ["AF_INET", "AF_INET6", "AF_NETLINK"] {
            let body = format!("return socket({family}, SOCK_STREAM, 0) < 0 ? errno : 0;");
            assert_eq!(exits(&body, &NOTHING), Some(libc::EPERM), "{family}");
            assert_eq!(exits(&body, &local), Some(libc::EPERM), "{family}");
        }
        let unix = "return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0;";
        assert_eq!(exits(unix, &NOTHING), Some(libc::EPERM));
        assert_eq!(exits(unix, &local), Some(0));
        assert_eq!(
            exits("return setsid() < 0 ? errno : 0;", &NOTHING),
            Some(libc::EPERM)
        );

        // This process stands for gatekeeper, whose environment has the runner's tokens.
        let me = std::process::id();
        let read = format!("return open(\"/proc/{me}/environ\", O_RDONLY) < 0 ? errno : 0;");
        assert_eq!(exits(&read, &NOTHING), Some(libc::EACCES));
        let kill = format!("return kill({me}, SIGCONT) < 0 ? errno : 0;");
        assert_eq!(exits(&kill, &NOTHING), Some(libc::EPERM));
    }

    #[test]
    fn memory_files_and_descriptors_have_limits() {
        let rules = Rules {
            memory: Some(256 << 20),
            ..NOTHING
        };
        let ask = "char *p = malloc(1u << 30); if (!p) return 7; memset(p, 1, 1u << 30); return p[5] - 1;";
        assert_eq!(run_c(ask, &rules).status.code(), Some(7));
        assert_eq!(run_c(ask, &NOTHING).status.code(), Some(0));
        assert!(memory_of_machine().unwrap() > 256 << 20);

        if !is_confining() {
            return;
        }
        // A driver does so; of another process it stays refused.
        let name = "int f = open(\"/proc/self/comm\", O_WRONLY); return f < 0 ? errno : (int)(write(f, \"x\", 1) - 1);";
        assert_eq!(run_c(name, &NOTHING).status.code(), Some(0));
        let other = format!(
            "return open(\"/proc/{}/comm\", O_WRONLY) < 0 ? errno : 0;",
            std::process::id()
        );
        assert_eq!(run_c(&other, &NOTHING).status.code(), Some(libc::EACCES));

        let own = tempfile::tempdir().unwrap();
        let rules = Rules {
            writes: &[own.path()],
            file: Some(1 << 16),
            ..NOTHING
        };
        let script = format!("head -c 1000000 /dev/zero > {}/big", own.path().display());
        assert!(!shell(&script, &rules).status.success());
        assert_eq!(own.path().join("big").metadata().unwrap().len(), 1 << 16);

        // A runner may have left others open: the program gets only the standard streams.
        let left = std::fs::File::open("/dev/null").unwrap();
        use std::os::fd::AsRawFd;
        nix::fcntl::fcntl(
            &left,
            nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
        )
        .unwrap();
        let body = format!(
            "return fcntl({}, F_GETFD) < 0 ? errno : 0;",
            left.as_raw_fd()
        );
        assert_eq!(run_c(&body, &NOTHING).status.code(), Some(libc::EBADF));
    }

    #[test]
    fn a_directory_that_is_not_there() {
        let rules = Rules {
            writes: &[Path::new("/nowhere")],
            ..NOTHING
        };
        assert!(confine(&mut Command::new("/bin/true"), &rules).is_err());
    }
}
