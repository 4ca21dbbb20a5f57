// y = clamp(alpha x + beta z, -limit, limit). Arguments: inputs, outputs, scalars, then dimensions.
#include <algorithm>
#include <cstdint>

extern "C" void blend_ref(const float* x, const float* z, float* y, float alpha, float beta, float limit, int64_t n)
{
    for (int64_t i = 0; i < n; ++i) y[i] = std::clamp(alpha * x[i] + beta * z[i], -limit, limit);
}
