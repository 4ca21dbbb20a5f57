#include <cstdlib>

// Another process, in a group of its own, that uses no GPU.
int other()
{
    return std::system("setsid sh -c 'exit 7'") >> 8;
}
