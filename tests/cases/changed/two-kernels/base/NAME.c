#include <stdint.h>
void reference(int32_t n, const float* x, float* y) {
    for (int32_t i = 0; i < n; i++) y[i] = x[i] * 2;
}
