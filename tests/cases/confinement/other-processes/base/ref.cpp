#include "attempt.h"

extern "C" void ref(const float* x, float* y)
{
    const pid_t other = getppid();
    struct rlimit limit = {1, 1};
    struct rlimit now;
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    struct sched_param none = {};
    unsigned long attributes[8] = {56};
    char byte;
    struct iovec here = {&byte, 1}, there = {&failed, 1};
    unsigned long node = 1;
    void* page = &failed;
    int status;

    // Each of them could kill or slow down another process of the user.
    STOPPED(prlimit(other, RLIMIT_CORE, nullptr, &now), EPERM);
    STOPPED(prlimit(1, RLIMIT_CORE, nullptr, &now), EPERM);
    STOPPED(syscall(SYS_prlimit64, other, RLIMIT_SIGPENDING, 0, &now), EPERM);
    STOPPED(prlimit(other, RLIMIT_CORE, &limit, nullptr), EPERM);
    STOPPED(setpriority(PRIO_PROCESS, other, 19), EPERM);
    STOPPED(setpriority(PRIO_PGRP, other, 19), EPERM);
    STOPPED(setpriority(PRIO_USER, 0, 19), EPERM);
    STOPPED(setpriority(PRIO_USER, getuid(), 19), EPERM);
    STOPPED(syscall(SYS_ioprio_set, 1, other, 3 << 13), EPERM);
    STOPPED(syscall(SYS_ioprio_set, 3, getuid(), 3 << 13), EPERM);
    STOPPED(syscall(SYS_ioprio_set, 3, 0, 3 << 13), EPERM);
    STOPPED(sched_setaffinity(other, sizeof cpus, &cpus), EPERM);
    STOPPED(sched_setscheduler(other, SCHED_BATCH, &none), EPERM);
    STOPPED(sched_setparam(other, &none), EPERM);
    STOPPED(syscall(SYS_sched_setattr, other, attributes, 0), EPERM);
    STOPPED(syscall(SYS_migrate_pages, other, 64, &node, &node), EPERM);
    STOPPED(syscall(SYS_move_pages, other, 1, &page, 0, &status, 0), EPERM);
    // These were stopped before, and are.
    STOPPED(kill(other, SIGCONT), EPERM);
    STOPPED(kill(-other, SIGCONT), EPERM);
    STOPPED(syscall(SYS_tgkill, other, other, SIGCONT), EPERM);
    STOPPED(process_vm_readv(other, &here, 1, &there, 1, 0), EPERM);
    STOPPED(ptrace(PTRACE_ATTACH, other, 0, 0), EPERM);
    STOPPED(ptrace(PTRACE_SEIZE, other, 0, 0), EPERM);
    const int process = syscall(SYS_pidfd_open, other, 0);
    STOPPED(syscall(SYS_pidfd_getfd, process, 0, 0), EPERM);
    STOPPED(syscall(SYS_pidfd_send_signal, process, SIGCONT, 0, 0), EPERM);
    STOPPED(syscall(SYS_process_madvise, process, &there, 1, 21, 0), EPERM);
    const std::string of_other = "/proc/" + std::to_string(other);
    STOPPED(open((of_other + "/oom_score_adj").c_str(), O_WRONLY), EACCES);
    STOPPED(open((of_other + "/mem").c_str(), O_RDONLY), EACCES);
    STOPPED(open((of_other + "/environ").c_str(), O_RDONLY), EACCES);
    answer(x, y);
}
