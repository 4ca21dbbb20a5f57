// Matrix times vector over symmetric i8 codes: y[r] = scale[r] * sum_c codes[r,c] * x[c]. The scale is
// common to a row, so it multiplies the finished sum.
//
// y   f32 [rows]    codes   i8 [rows, columns] row-major    scale   f32 [rows]    x   f32 [columns]
// Launch: grid [ceil_div(rows, 8)], block [256]: a warp per row
#include <cstdint>

extern "C" __global__ void int8_matvec(float* y, const int8_t* codes, const float* scale, const float* x, int rows, int columns)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return;  // whole warps leave
    float sum = 0.0f;
    for (int c = lane; c < columns; c += 32) sum += float(codes[(long long)row * columns + c]) * x[c];
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0) y[row] = scale[row] * sum;
}
