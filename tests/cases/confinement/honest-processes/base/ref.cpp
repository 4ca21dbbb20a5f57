#include "attempt.h"
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/timerfd.h>
#include <vector>

extern char** environ;

// As ninja does it (src/subprocess-posix.cc): each command in a process group of its own.
static pid_t spawn_apart(const char* command)
{
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_USEVFORK);
    const char* words[] = {"/bin/sh", "-c", command, nullptr};
    pid_t child = -1;
    errno = posix_spawn(&child, "/bin/sh", nullptr, &attributes, (char**)words, environ);
    return errno == 0 ? child : -1;
}

static void write(const char* file, const char* text)
{
    FILE* stream = std::fopen(file, "w");
    std::fputs(text, stream);
    std::fclose(stream);
}

extern "C" void ref(const float* x, float* y)
{
    // Processes, groups, sessions, threads.
    std::vector<pid_t> group;
    for (const char* command : {"exit 0", "sleep 0.1", "echo $$ > spawned"}) group.push_back(spawn_apart(command));
    for (const pid_t child : group) WORKS(child > 0 && end_of(child) == 0);
    WORKS(end_of(start([] { _exit(setsid() < 0); })) == 0);
    WORKS(end_of(start([] { _exit(setpgid(0, 0) < 0); })) == 0);
    WORKS(std::system("setsid sh -c 'true & wait'") == 0);
    WORKS(std::system("(sleep 1000 & kill $!; wait) 2>/dev/null; true") == 0);
    std::vector<std::thread> threads;
    std::vector<float> sums(16);
    for (int i = 0; i < 16; ++i) threads.emplace_back([&, i] { sums[i] = x[i]; });
    for (std::thread& thread : threads) thread.join();
    const pid_t stopped = start([] { pause(); });
    WORKS(kill(stopped, SIGSTOP) == 0 && kill(stopped, SIGKILL) == 0 && WIFSIGNALED(end_of(stopped)));

    // What it may do to itself.
    struct rlimit limit;
    WORKS(getrlimit(RLIMIT_NOFILE, &limit) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    WORKS(setpriority(PRIO_PROCESS, 0, 1) == 0);
    cpu_set_t cpus;
    WORKS(sched_getaffinity(0, sizeof cpus, &cpus) == 0 && sched_setaffinity(0, sizeof cpus, &cpus) == 0);
    WORKS(prctl(PR_SET_NAME, "reference") == 0);
    WORKS(eventfd(0, 0) >= 0 && memfd_create("a", 0) >= 0 && timerfd_create(CLOCK_MONOTONIC, 0) >= 0);
    WORKS(mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);

    // Its own files.
    char name[] = "own-XXXXXX", dir[] = "dir-XXXXXX";
    const int file = mkstemp(name);
    WORKS(file >= 0 && mkdtemp(dir) && flock(file, LOCK_EX) == 0 && ftruncate(file, 4096) == 0 && fsync(file) == 0);
    WORKS(rename(name, (std::string(dir) + "/moved").c_str()) == 0);
    WORKS(std::system("cp spawned copied && ln copied linked && mv linked moved && rm -r copied moved && test -s spawned") == 0);
    int there = 0;
    WORKS(!isatty(file) && errno == ENOTTY);
    WORKS(ioctl(file, FIONREAD, &there) == 0 && there == 4096);

    // A build: a library is compiled and loaded, and make runs jobs side by side.
    write("f.cpp", "extern \"C\" float same(float x) { return x; }\n");
    WORKS(std::system("c++ -shared -fPIC -O1 f.cpp -o f.so") == 0);
    void* library = dlopen("./f.so", RTLD_NOW);
    WORKS(library && ((float (*)(float))dlsym(library, "same"))(x[3]) == x[3]);
    write("Makefile", "all: a b c\na b c:\n\t@echo $@ > $@\n");
    WORKS(std::system("make -s -j3 && test -s a && test -s b && test -s c") == 0);
    answer(x, y);
}
