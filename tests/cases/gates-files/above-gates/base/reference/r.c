#include <stdint.h>
void scaled(const float* x, const float* factor, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = factor[0] * x[i];
}
void counted(const int32_t* x, int32_t* y, int64_t n) {
    for (int i = 0; i < 4; ++i) y[i] = 0;
    for (int64_t i = 0; i < n; ++i) y[x[i] & 3] += 1;
}
