#include "attempt.h"

extern "C" void ref(const float* x, float* y)
{
    char text[64] = {1};
    STOPPED(syscall(SYS_shmget, 0x6b6570, 4096, 01600), EPERM);
    STOPPED(syscall(SYS_shmget, 0, 4096, 01600), EPERM);
    STOPPED(syscall(SYS_shmat, 0, 0, 0), EPERM);
    STOPPED(syscall(SYS_shmctl, 0, 0, 0), EPERM);  // IPC_RMID of somebody else's
    STOPPED(syscall(SYS_msgget, 0x6b6570, 01600), EPERM);
    STOPPED(syscall(SYS_msgsnd, 0, text, 8, 0), EPERM);
    STOPPED(syscall(SYS_msgrcv, 0, text, 8, 0, 0), EPERM);
    STOPPED(syscall(SYS_msgctl, 0, 0, 0), EPERM);
    STOPPED(syscall(SYS_semget, 0x6b6570, 1, 01600), EPERM);
    STOPPED(syscall(SYS_semop, 0, text, 1), EPERM);
    STOPPED(syscall(SYS_semtimedop, 0, text, 1, 0), EPERM);
    STOPPED(syscall(SYS_semctl, 0, 0, 0, 0), EPERM);
    STOPPED(syscall(SYS_mq_open, "left", O_CREAT | O_RDWR, 0600, 0), EPERM);
    STOPPED(syscall(SYS_mq_unlink, "left"), EPERM);
    STOPPED(syscall(SYS_add_key, "user", "left", "a", 1, -4), EPERM);
    STOPPED(syscall(SYS_request_key, "user", "left", 0, 0), EPERM);
    STOPPED(syscall(SYS_keyctl, 0, -4, 0), EPERM);
    // POSIX memory and semaphores are files.
    STOPPED(open("/dev/shm/left", O_CREAT | O_RDWR, 0600), EACCES);
    STOPPED(open("/dev/shm", O_TMPFILE | O_RDWR, 0600), EACCES);
    STOPPED(open("/tmp/left", O_CREAT | O_RDWR, 0600), EACCES);
    STOPPED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
    answer(x, y);
}
