//! Confines programs that strangers wrote or control: the compilers, which take their flags and sources, and references
//! and launchers, which are their code.
//!
//! **When.** `Confinement::new` prepares the rules before the fork, and `Confinement::enter` puts them into force in the
//! child, shortly before it becomes the program. The order there is: limits, capabilities, inherited descriptors,
//! Landlock, seccomp. The rules apply to everything that the program starts, and cannot be taken back. A program and
//! everything that it starts end together (`keeper`).
//!
//! **Landlock** decides on the contents of files, on signals to others, and on reading another process. It denies each
//! right that a ruleset handles, unless a rule allows the right for a directory above the file. A rule can only allow.
//! So a program may change files below [`Rules::writes`], in its own /proc/self, and in /dev/null. Reading is handled
//! only if a directory is hidden, and then everything next to the path of that directory is allowed, one entry after
//! another ([`Hidden`]). Landlock has no right for modes, owners and times of files.
//!
//! **seccomp** decides on the system calls for everything else that reaches beyond the program: sockets, other
//! processes, what the kernel keeps, namespaces, and requests to devices. A filter sees the number of a call and its
//! arguments, and no memory that these point to. There are two filters. `unknown` answers ENOSYS to calls that nobody
//! has read for this module, so that a newer kernel opens no way past the rules. `refused` answers EPERM to known
//! calls, or to some of their arguments. Everything else is allowed.
//!
//! **What is not stopped.** A kernel that is too old for a part goes without it: [`Support`] tells, and `gatekeeper
//! doctor` reports it. A program with [`Sockets::Local`] can make any request to a device, except requests that belong
//! to file systems. A program with [`Metadata::Changed`] can make any request at all, and can change modes and times of
//! all files of the user.

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use nix::libc;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::DirEntry;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory in which a program can read no file and start no program.
#[derive(Clone, Debug)]
pub struct Hidden {
    /// The path of the directory, without links.
    pub dir: PathBuf,
    /// Directories in it that the program can read all the same.
    pub but: Vec<PathBuf>,
}

impl Hidden {
    /// Returns everything else. Landlock knows what is allowed, and nothing that is not.
    fn rest(&self) -> Vec<PathBuf> {
        let mut rest = self.but.clone();
        for (inner, outer) in self.dir.ancestors().zip(self.dir.ancestors().skip(1)) {
            let entries = std::fs::read_dir(outer).into_iter().flatten().flatten();
            // A link is skipped, because it may lead into what is hidden.
            let is_link = |entry: &DirEntry| {
                entry
                    .file_type()
                    .is_ok_and(|file_type| file_type.is_symlink())
            };
            let others = entries.filter(|entry| entry.path() != inner && !is_link(entry));
            rest.extend(others.map(|entry| entry.path()));
        }
        rest
    }
}

/// The permissions of a program in addition to reading and computing.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The directories in which it may change files. It can only read all others.
    pub writes: &'a [&'a Path],
    /// The directory that it cannot read. A system that enforces no rules on files shows it anyway: [`Support::files`].
    pub hidden: Option<&'a Hidden>,
    pub sockets: Sockets,
    pub metadata: Metadata,
    /// The bytes of its address space, or `None` for no limit.
    pub memory: Option<u64>,
    /// The greatest size in bytes of a file that it may write.
    pub file: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    None,
    /// Sockets between processes of this machine. A CUDA driver talks to its services that way.
    Local,
}

/// Says whether a program may change modes, owners, times and attributes of files. Landlock has no right for them, so a
/// program that may change them for its own files can change them for all files of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata {
    Kept,
    /// They may be changed. A whole build sets modes and times: pip, CMake, `make`, and a linker of a program that is
    /// then run.
    Changed,
}

/// The newest version of Landlock that is used if the system has it: 6 (Linux 6.12) keeps signals inside.
const LANDLOCK: ABI = ABI::V6;

/// The parts of the rules that the system enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Support {
    /// Since Linux 5.13. Without it a program can change every file that the user can.
    pub files: bool,
    /// Since Linux 6.12. Without it a program can send signals to other processes of the user.
    pub signals: bool,
    /// Without it a program can use the network.
    pub sockets: bool,
}

impl Support {
    pub fn detect() -> Self {
        let landlock = landlock_version();
        Self {
            files: landlock >= 1,
            signals: landlock >= 6,
            sockets: known_architecture().is_ok(),
        }
    }
}

/// Returns the version of Landlock, or a number below 1 if it is missing or not enabled.
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

/// Passes on only those variables of this process's environment that begin with one of `told`. The environment also has
/// a runner's tokens.
pub fn tell(command: &mut Command, told: &[&str]) {
    for (name, _) in std::env::vars_os() {
        if !is_told(&name, told) {
            command.env_remove(&name);
        }
    }
}

/// Returns true if the name of a variable begins with one of the prefixes in `told`.
pub fn is_told(name: &OsStr, told: &[&str]) -> bool {
    let name = name.to_string_lossy();
    told.iter().any(|prefix| name.starts_with(prefix))
}

/// Rules, prepared as far as possible before the process exists that has to follow them.
pub(super) struct Confinement {
    files: Option<RulesetCreated>,
    filters: Vec<BpfProgram>,
    limits: Vec<(Resource, u64)>,
}

impl Confinement {
    /// Prepares the rules.
    ///
    /// # Errors
    /// Fails if a directory is missing.
    pub(super) fn new(rules: &Rules) -> io::Result<Self> {
        let limits = [
            (Resource::RLIMIT_CORE, Some(0)),
            (Resource::RLIMIT_AS, rules.memory),
            (Resource::RLIMIT_FSIZE, rules.file),
        ];
        // If this process itself may have less, so may the program, because nobody may ask for more than that.
        let lowered = limits.into_iter().filter_map(|(resource, limit)| {
            let limit = limit?;
            let most = getrlimit(resource).map(|(_, most)| most);
            Some(most.map(|most| (resource, limit.min(most))))
        });
        Ok(Self {
            files: Some(files(rules)?),
            // `Support` reports a system without filters.
            filters: known_architecture().map_or(Ok(Vec::new()), |architecture| {
                Ok::<_, io::Error>(vec![unknown(), refused(rules, architecture)?])
            })?,
            limits: lowered.collect::<Result<_, _>>()?,
        })
    }

    /// Puts the rules into force. It is called once, in a process of one thread that is about to become the program. It
    /// makes system calls and allocates little. If it allocates, the C library's allocator works after a fork.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        for &(resource, limit) in &self.limits {
            setrlimit(resource, limit, limit)?;
        }
        drop_capabilities();
        close_inherited();
        if let Some(files) = self.files.take() {
            let files = with_own_process(files)?;
            files.restrict_self().map_err(|_| last_error())?;
        }
        for filter in &self.filters {
            seccompiler::apply_filter(filter).map_err(|_| last_error())?;
        }
        Ok(())
    }
}

/// Returns a Landlock domain that only keeps signals inside, or `None` if the system has none.
pub(super) fn domain() -> io::Result<Option<RulesetCreated>> {
    if landlock_version() < 6 {
        return Ok(None);
    }
    let made = || -> Result<RulesetCreated, landlock::RulesetError> {
        // Each domain forbids moving files to other directories unless it allows that.
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::Refer)?
            .scope(Scope::Signal)?
            .create()
    };
    let root = PathFd::new("/").map_err(io::Error::other)?;
    made()
        .and_then(|domain| domain.add_rule(PathBeneath::new(root, AccessFs::Refer)))
        .map(Some)
        .map_err(io::Error::other)
}

fn last_error() -> io::Error {
    io::Error::last_os_error()
}

/// Closes the descriptors that a runner or a shell left open when the program starts. They are marked and not closed,
/// because the descriptor that reports a failed start is among them. A system without the call (before Linux 5.9) keeps
/// them.
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

/// Allows a process to name its threads. The CUDA driver writes their names to files of this process
/// (/proc/self/task/*/comm), and does not start if it cannot. The directory is opened here, where `self` is the process
/// that becomes the program.
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
    // Devices are not even allowed there.
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

fn known_architecture() -> Result<TargetArch, seccompiler::BackendError> {
    std::env::consts::ARCH.try_into()
}

/// The last system call that [`refused`] considers, from Linux 6.10. No call has a number between the old calls and
/// `FIRST_NEW`, because the calls that an architecture has for itself end before.
const LAST_KNOWN: i64 = libc::SYS_mseal;
const FIRST_NEW: i64 = libc::SYS_pidfd_send_signal;
const LAST_OLD: i64 = if libc::SYS_rseq > libc::SYS_kexec_file_load {
    libc::SYS_rseq
} else {
    libc::SYS_kexec_file_load
};

/// Builds the filter that answers ENOSYS, as an older kernel would, to calls that nobody has read for this module.
/// These are calls with an unknown number or of another table, and `clone3`, whose flags are in memory that no filter
/// sees. The C library then calls `clone`.
fn unknown() -> BpfProgram {
    let step = |code: u32, k: i64, (jt, jf): (u8, u8)| sock_filter {
        code: code as u16,
        jt,
        jf,
        k: k as u32,
    };
    let (load, more, equal, answer) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let absent = i64::from(libc::SECCOMP_RET_ERRNO) | i64::from(libc::ENOSYS);
    vec![
        // The number is the first field of `struct seccomp_data`.
        step(load, 0, (0, 0)),
        step(more, LAST_KNOWN, (4, 0)),
        step(equal, libc::SYS_clone3, (3, 0)),
        step(more, FIRST_NEW - 1, (1, 0)),
        step(more, LAST_OLD, (1, 0)),
        step(answer, i64::from(libc::SECCOMP_RET_ALLOW), (0, 0)),
        step(answer, absent, (0, 0)),
    ]
}

/// Calls that reach other processes of the user: their memory, descriptors and pages.
const OF_OTHERS: [i64; 6] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_migrate_pages,
];

/// Calls with a process id as first argument, which must be 0, the caller itself. A limit on CPU time kills.
const BY_NUMBER: [i64; 6] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
    libc::SYS_move_pages,
];

/// Calls that make, change or remove what the kernel keeps when all processes of a program are gone.
const KEPT_BY_KERNEL: [i64; 16] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// Calls that bypass these rules: other namespaces, and files and sockets that are opened in another way.
const PAST_RULES: [i64; 5] = [
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
    libc::SYS_open_by_handle_at,
];

/// Calls that change what [`Metadata`] names.
const OF_METADATA: [i64; 13] = [
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    // This is fchmodat2, on all architectures.
    452,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_quotactl,
];

/// The older names of these calls, which later architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_OF_METADATA: [i64; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_OF_METADATA: [i64; 0] = [];

/// The requests that a program without a GPU may make of a descriptor. They ask whether it is a terminal and how much
/// there is to read, set whether it blocks and whether it closes, and make it a copy of another file (FICLONE).
const REQUESTS: [u64; 9] = [
    libc::TCGETS,
    libc::TIOCGWINSZ,
    libc::TIOCGPGRP,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
    libc::FICLONE,
    // This is TCGETS2, of newer C libraries.
    0x802c_542a,
];

/// The second byte of requests to file systems, which change attributes, encrypt or take snapshots: those that all
/// have, XFS's, versions, Btrfs', F2FS' and FAT's. A GPU's driver has others, and NVIDIA does not list its own.
const OF_FILE_SYSTEMS: [u64; 6] = [0x66, 0x58, 0x76, 0x94, 0xf5, 0x72];

/// Refuses with EPERM the calls that reach beyond the program, in the classes above. All calls up to [`LAST_KNOWN`]
/// were read for it. The remaining calls act on the caller and its children, or on files, where Landlock decides, or
/// need capabilities that a confined program does not have.
fn refused(rules: &Rules, architecture: TargetArch) -> io::Result<BpfProgram> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let made = || -> Result<BpfProgram, seccompiler::BackendError> {
        let when = |conditions: &[(u8, SeccompCmpOp, u64)]| {
            SeccompRule::new(
                conditions
                    .iter()
                    .map(|(argument, is, value)| {
                        SeccompCondition::new(
                            *argument,
                            SeccompCmpArgLen::Dword,
                            is.clone(),
                            *value,
                        )
                    })
                    .collect::<Result<_, _>>()?,
            )
        };
        let always = [&OF_OTHERS[..], &KEPT_BY_KERNEL, &PAST_RULES].concat();
        let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
            always.into_iter().map(|call| (call, Vec::new())).collect();
        for call in BY_NUMBER {
            refused.insert(call, vec![when(&[(0, Ne, 0)])?]);
        }
        // For a process or a group, the caller's own is allowed. For a user, none is.
        for (call, user) in [
            (libc::SYS_setpriority, libc::PRIO_USER as u64),
            (libc::SYS_ioprio_set, 3),
        ] {
            refused.insert(call, vec![when(&[(1, Ne, 0)])?, when(&[(0, Eq, user)])?]);
        }
        // The low byte is a signal. The flags that begin a new namespace, including a user's, are in the highest bits.
        let namespaces = [
            libc::CLONE_NEWNS,
            libc::CLONE_NEWCGROUP,
            libc::CLONE_NEWUTS,
            libc::CLONE_NEWIPC,
            libc::CLONE_NEWUSER,
            libc::CLONE_NEWPID,
            libc::CLONE_NEWNET,
        ];
        let namespaces = namespaces
            .map(|flag| flag as u64)
            .map(|flag| when(&[(0, MaskedEq(flag), flag)]));
        refused.insert(
            libc::SYS_clone,
            namespaces.into_iter().collect::<Result<_, _>>()?,
        );
        let of_network = match rules.sockets {
            Sockets::None => Vec::new(),
            Sockets::Local => vec![when(&[(0, Ne, libc::AF_UNIX as u64)])?],
        };
        refused.insert(libc::SYS_socket, of_network);
        if rules.metadata == Metadata::Kept {
            refused.extend(
                OF_METADATA
                    .into_iter()
                    .chain(OLD_OF_METADATA)
                    .map(|call| (call, Vec::new())),
            );
            let requests = match rules.sockets {
                Sockets::None => vec![when(&REQUESTS.map(|request| (1, Ne, request)))?],
                Sockets::Local => OF_FILE_SYSTEMS
                    .map(|kind| when(&[(1, MaskedEq(0xff00), kind << 8)]))
                    .into_iter()
                    .collect::<Result<_, _>>()?,
            };
            refused.insert(libc::SYS_ioctl, requests);
        }
        SeccompFilter::new(
            refused,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM as u32),
            architecture,
        )
        .and_then(BpfProgram::try_from)
    };
    made().map_err(io::Error::other)
}

/// Returns true if this system enforces all rules. If it cannot, a test of them has nothing to see.
pub fn is_confining() -> bool {
    let all = Support {
        files: true,
        signals: true,
        sockets: true,
    };
    Support::detect() == all
}

/// Returns all memory of this machine in bytes. No program may ask for more.
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
        metadata: Metadata::Kept,
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

    /// Runs a small C program that tries what the shell cannot do.
    fn run_c(body: &str, rules: &Rules) -> Ended {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("t.c"), dir.path().join("t"));
        let text = format!(
            "#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n\
             #include <stdlib.h>\n#include <string.h>\n#include <sys/socket.h>\n#include <sys/uio.h>\n\
             #include <fcntl.h>\n#include <linux/fs.h>\n#include <sched.h>\n#include <sys/ioctl.h>\n\
             #include <sys/resource.h>\n#include <sys/stat.h>\n#include <sys/syscall.h>\n#include <unistd.h>\nint main(void) {{ {body} }}\n"
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

        // This process stands for gatekeeper, whose environment has the runner's tokens.
        let me = std::process::id();
        let read = format!("return open(\"/proc/{me}/environ\", O_RDONLY) < 0 ? errno : 0;");
        assert_eq!(exits(&read, &NOTHING), Some(libc::EACCES));
        let kill = format!("return kill({me}, SIGCONT) < 0 ? errno : 0;");
        assert_eq!(exits(&kill, &NOTHING), Some(libc::EPERM));
    }

    /// Each row is a call, and what it ends with: 0, or the number of an error.
    #[test]
    fn calls_that_reach_beyond_the_program_are_refused_and_its_own_are_not() {
        if !is_confining() {
            return;
        }
        const EPERM: i32 = libc::EPERM;
        const ENOSYS: i32 = libc::ENOSYS;
        let rows: &[(&str, i32)] = &[
            ("prlimit(1, RLIMIT_CPU, 0, 0)", EPERM),
            ("prlimit(getppid(), RLIMIT_CPU, &limit, 0)", EPERM),
            ("prlimit(0, RLIMIT_CPU, 0, &limit)", 0),
            ("setrlimit(RLIMIT_CPU, &limit)", 0),
            ("setpriority(PRIO_USER, 0, 5)", EPERM),
            ("setpriority(PRIO_PROCESS, getppid(), 5)", EPERM),
            ("setpriority(PRIO_PROCESS, 0, 5)", 0),
            ("syscall(SYS_ioprio_set, 3, 0, 0)", EPERM),
            ("sched_setaffinity(getppid(), sizeof cpus, &cpus)", EPERM),
            ("sched_setaffinity(0, sizeof cpus, &cpus)", 0),
            ("syscall(SYS_shmget, 0, 4096, 01600)", EPERM),
            ("syscall(SYS_shmctl, 0, 0, 0)", EPERM),
            ("syscall(SYS_msgget, 0, 01600)", EPERM),
            ("syscall(SYS_semget, 0, 1, 01600)", EPERM),
            (
                "syscall(SYS_mq_open, \"a\", O_CREAT | O_RDWR, 0600, 0)",
                EPERM,
            ),
            ("syscall(SYS_keyctl, 0, -4, 0)", EPERM),
            ("unshare(CLONE_NEWUSER)", EPERM),
            ("setns(0, 0)", EPERM),
            (
                "syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)",
                EPERM,
            ),
            (
                "syscall(SYS_clone, CLONE_NEWIPC | SIGCHLD, 0, 0, 0, 0)",
                EPERM,
            ),
            ("syscall(SYS_clone3, &limit, 64)", ENOSYS),
            ("syscall(463, 0, 0, 0, 0)", ENOSYS),
            ("syscall(400)", ENOSYS),
            ("syscall(0x40000000 + 521, 0, 0, 0, 0)", ENOSYS),
            ("chmod(\"/tmp\", 0777)", EPERM),
            ("fchmodat(AT_FDCWD, \"/tmp\", 0777, 0)", EPERM),
            ("chown(\"/tmp\", -1, -1)", EPERM),
            ("utimensat(AT_FDCWD, \"/tmp\", 0, 0)", EPERM),
            (
                "syscall(SYS_setxattr, \"/tmp\", \"user.a\", \"b\", 1, 0)",
                EPERM,
            ),
            ("ioctl(0, FS_IOC_SETFLAGS, &limit)", EPERM),
            ("ioctl(0, FS_IOC_GETFLAGS, &limit)", EPERM),
            (
                "ioctl(open(\"/proc/self/comm\", O_RDONLY), TCGETS, &limit) < 0 && errno == ENOTTY ? 0 : -1",
                0,
            ),
            ("setpgid(0, 0)", 0),
            ("fork() ? 0 : setsid()", 0),
        ];
        let body: String = (0..)
            .zip(rows)
            .map(|(row, (call, _))| {
                format!("errno = 0; printf(\"%d %d\\n\", {row}, (long)({call}) < 0 ? errno : 0); fflush(stdout);\n")
            })
            .collect();
        let body = format!(
            "struct rlimit limit = {{1000, 1000}}; cpu_set_t cpus; sched_getaffinity(0, sizeof cpus, &cpus);\n{body}"
        );
        let ended = run_c(&body, &NOTHING);
        let said: std::collections::BTreeSet<&str> = ended.log.lines().collect();
        let wanted: Vec<String> = (0..)
            .zip(rows)
            .map(|(row, (_, error))| format!("{row} {error}"))
            .collect();
        for (line, (call, _)) in wanted.iter().zip(rows) {
            assert!(said.contains(&**line), "{call}: {line} is not in {said:?}");
        }

        // The driver of a device has requests that nobody lists, and a build sets modes.
        let of_device = Rules {
            sockets: Sockets::Local,
            ..NOTHING
        };
        let asks = |request: &str| format!("ioctl(0, {request}, 0); return errno;");
        for (request, error) in [
            ("0xc020462a", libc::ENOTTY),
            ("0x30000001", libc::ENOTTY),
            ("FS_IOC_SETFLAGS", EPERM),
        ] {
            let ended = run_c(&asks(request), &of_device);
            assert_eq!(ended.status.code(), Some(error), "{request}");
        }
        let own = tempfile::tempdir().unwrap();
        let build = Rules {
            writes: &[own.path()],
            metadata: Metadata::Changed,
            ..NOTHING
        };
        let script = format!(
            "cd {} && touch a && chmod +x a && cp -p a b",
            own.path().display()
        );
        assert!(shell(&script, &build).status.success());
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
        // A driver does this. For another process it stays refused.
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

        // A runner may have left others open. The program gets only the standard streams.
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
        assert!(Confinement::new(&rules).is_err());
    }
}
