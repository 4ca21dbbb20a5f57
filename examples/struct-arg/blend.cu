// One struct by value holds everything: pointers, ints, floats, a narrow flag, and the padding that
// their alignments leave. y[i] = clamp(alpha * x[i] + beta * z[i], -limit, limit), or without the
// clamp where `clamps` is 0.
//
// x, y, z   f32 [n]        Launch: grid [ceil_div(n, 256)], block [256]
#include <cstdint>

struct BlendParams {        // offset
    uint8_t clamps;         //  0   then 3 bytes of padding
    int32_t n;              //  4
    const float* x;         //  8
    float alpha;            // 16   then 4 bytes of padding
    const float* z;         // 24
    float* y;               // 32
    float beta;             // 40
    int16_t reserved;       // 44   then 2 bytes of padding
    double limit;           // 48   size 56
};
static_assert(sizeof(BlendParams) == 56, "the layout written above");

__global__ void blend(BlendParams p)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n) return;
    float value = p.alpha * p.x[i] + p.beta * p.z[i];
    const float limit = float(p.limit);
    if (p.clamps) value = fminf(fmaxf(value, -limit), limit);
    p.y[i] = value;
}
