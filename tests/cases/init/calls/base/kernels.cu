#define CDIV(a, b) (((a) + (b) - 1) / (b))
constexpr int WARP = 32;

// Launched by call.cpp, with sizes that the host multiplies.
__global__ void spread(const float* x, float* y, int total)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) y[i] = -x[i];
}

template <typename T, int WIDTH> __global__ void copy(const T* x, T* y, int rows)
{
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row < rows) y[row * WIDTH + threadIdx.x] = x[row * WIDTH + threadIdx.x];
}
template <typename T, int WIDTH> void launch(const T* x, T* y, int rows)
{
    dim3 block(WIDTH, 4);
    int blocks = CDIV(rows, block.y);
    copy<T, WIDTH><<<blocks, block>>>(x, y, rows);
}
template void launch<float, 16>(const float*, float*, int);
template void launch<float, 32>(const float*, float*, int);
template void launch<double, 16>(const double*, double*, int);

// Rows are contiguous, as far as its name says.
__global__ void rows_of(const float* x, float* y, int rows, int cols, int row_stride)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (int c = 0; c < cols; ++c) y[row * row_stride + c] = -x[row * row_stride + c];
}

// What is `mode`?
__global__ void moded(float* y, int n, int mode)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = mode;
}

__global__ void racing(float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[0] = i;
}

// A run alone sees that it depends on the machine.
__global__ void addressed(const float* x, unsigned long long* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = reinterpret_cast<unsigned long long>(x + i);
}
