#include <cstring>
extern "C" void turn(const unsigned char* x, unsigned char* y) {
    for (int i = 0; i < 32; ++i, x += 8, y += 8) {
        float a; std::memcpy(&a, x, 4); a = -a;
        std::memcpy(y, x + 4, 4); std::memcpy(y + 4, &a, 4);
    }
}
