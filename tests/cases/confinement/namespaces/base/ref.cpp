#include "attempt.h"

extern "C" void ref(const float* x, float* y)
{
    const unsigned long kinds[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET, CLONE_NEWIPC,
                                   CLONE_NEWUTS,  CLONE_NEWCGROUP, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID};
    for (const unsigned long kind : kinds) {
        STOPPED(unshare(kind), EPERM);
        STOPPED(syscall(SYS_clone, kind | SIGCHLD, 0, 0, 0, 0), EPERM);
        STOPPED(syscall(SYS_clone, kind | CLONE_VFORK | CLONE_VM | SIGCHLD, 0, 0, 0, 0), EPERM);
        unsigned long arguments[11] = {kind, 0, 0, 0, SIGCHLD};
        STOPPED(syscall(SYS_clone3, arguments, sizeof arguments), ENOSYS);
    }
    STOPPED(unshare(0x80), EPERM);  // CLONE_NEWTIME
    unsigned long of_time[11] = {0x80, 0, 0, 0, SIGCHLD};
    STOPPED(syscall(SYS_clone3, of_time, sizeof of_time), ENOSYS);
    STOPPED(setns(open("/proc/self/ns/user", O_RDONLY), 0), EPERM);
    STOPPED(setns(syscall(SYS_pidfd_open, getpid(), 0), CLONE_NEWUTS), EPERM);
#ifdef __x86_64__
    // Other tables of calls: x32's `clone` by its number, and 32-bit `clone`, which ends the process.
    STOPPED(syscall(0x40000000 + SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0), ENOSYS);
    const int status = end_of(start([] {
        long result;
        asm volatile("int $0x80" : "=a"(result) : "a"(120), "b"(CLONE_NEWUSER | SIGCHLD), "c"(0), "d"(0), "S"(0), "D"(0) : "memory");
    }));
    WORKS(WIFSIGNALED(status));
#endif
    // Calls that nobody has looked at yet.
    for (const long unknown : {463L, 467L, 470L, 600L, 100000L}) STOPPED(syscall(unknown, 0, 0, 0, 0), ENOSYS);
    STOPPED(syscall(SYS_io_uring_setup, 1, 0), EPERM);
    answer(x, y);
}
