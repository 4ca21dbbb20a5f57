#include "attempt.h"

static void stay(const char* name)
{
    prctl(PR_SET_NAME, name);
    for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGCHLD}) ::signal(signal, SIG_IGN);
    sleep(40);
}

extern "C" void ref(const float* x, float* y)
{
    start([] { stay("left-deadline-1"); });
    start([] { start([] { stay("left-deadline-2"); }); });
    start([] { setsid(); start([] { setsid(); stay("left-deadline-3"); }); });
    start([] { setpgid(0, 0); stay("left-deadline-4"); });
    start([] { prctl(PR_SET_CHILD_SUBREAPER, 1); start([] { start([] { stay("left-deadline-5"); }); }); stay("left-deadline-6"); });
    if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0) { stay("left-deadline-7"); _exit(0); }
    std::thread([] { start([] { stay("left-deadline-8"); }); }).join();
    start([] { for (int fd = 0; fd < 256; ++fd) close(fd); chdir("/"); stay("left-deadline-9"); });
    start([] { std::thread([] { stay("left-deadline-a"); }).join(); });
    start([] { prctl(PR_SET_NAME, "left-deadline-b"); raise(SIGSTOP); stay("left-deadline-b"); });
    // One that is always another process.
    start([] {
        prctl(PR_SET_NAME, "left-deadline-c");
        for (int i = 0; i < 40000; ++i) { if (fork() != 0) _exit(0); usleep(200); }
    });
    usleep(100000);
    pause();
}
