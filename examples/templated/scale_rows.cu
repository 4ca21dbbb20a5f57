// A templated kernel in a namespace, with its arguments in no particular order:
// y[r,c] = bias + gain[r] * x[r,c], where a thread handles N consecutive columns.
//
// y, x   T [rows, columns] row-major    gain   f32 [rows]
// Launch: grid [rows, ceil_div(columns, 128 * N)], block [128]
// Instantiate as demo::scale_rows<float, 4> or demo::scale_rows<__half, 2>.
#include <cuda_fp16.h>

namespace demo {

template <typename T, int N>
__global__ void scale_rows(int columns, const float* gain, T* y, float bias, const T* x, int rows)
{
    const int row = blockIdx.x;
    if (row >= rows) return;
    const int first = (blockIdx.y * blockDim.x + threadIdx.x) * N;
    #pragma unroll
    for (int i = 0; i < N; ++i) {
        const int column = first + i;
        if (column >= columns) return;
        const long long at = (long long)row * columns + column;
        y[at] = T(bias + gain[row] * float(x[at]));
    }
}

}  // namespace demo
