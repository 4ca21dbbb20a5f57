#include "attempt.h"

extern "C" void ref(const float* x, float* y)
{
    DIR* processes = opendir("/proc");
    while (const dirent* process = readdir(processes)) {
        char name[64] = {};
        const std::string file = std::string("/proc/") + process->d_name + "/comm";
        const int comm = open(file.c_str(), O_RDONLY);
        if (comm >= 0 && read(comm, name, sizeof name - 1) > 0 && std::strstr(name, "left-crash-")) wrong(name, "is left");
        close(comm);
    }
    answer(x, y);
}
