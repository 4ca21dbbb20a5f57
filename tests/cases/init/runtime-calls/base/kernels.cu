// Launched by functions of the runtime, and not by <<<...>>>.
#include <cooperative_groups.h>

template <typename T, int WIDTH> __global__ void shift(const T* from, T* to, int amount, int count)
{
    const int i = blockIdx.x * WIDTH + threadIdx.x;
    if (i < count) to[i] = from[i] + T(amount);
}
template __global__ void shift<float, 64>(const float*, float*, int, int);

void call(const float* from, float* to, int n, cudaStream_t stream)
{
    const int threads = 64;
    int amount = 3;
    void* args[] = {(void*)&from, &to, &amount, (void*) & n};
    cudaLaunchKernel((void*)shift<float, 64>, dim3((n + threads - 1) / threads), dim3(threads), args, 0, stream);
}

struct Params {
    const float* in;
    float* out;
    int width;
};
__global__ void negate(Params p)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.width) p.out[i] = -p.in[i];
}
__global__ void twice(Params p)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.width) p.out[i] = 2 * p.in[i];
}
void choose(Params p, bool is_negated, cudaStream_t stream)
{
    void* list[] = {&p};
    void* func = is_negated ? (void*)negate : (void*)twice;
    cudaLaunchKernel(func, (p.width + 127) / 128, 128, list, 0, stream);
}

__global__ void both_ways(const float* x, float* y, float* partial, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) partial[i] = x[i];
    cooperative_groups::this_grid().sync();
    if (i < n) y[i] = partial[n - 1 - i];
}
void all_at_once(const float* x, float* y, float* partial, int n, cudaStream_t stream)
{
    void* args[] = {&x, &y, &partial, &n};
    cudaLaunchCooperativeKernel((const void*)&both_ways, dim3((n + 31) / 32), dim3(32), args, 0, stream);
}

__global__ void add_to(const float* x, float* y, int n, int by)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + by;
}
void configured(const float* x, float* y, int n, cudaStream_t stream)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = (n + 95) / 96;
    config.blockDim = dim3(96);
    cudaLaunchKernelEx(&config, add_to, x, y, n, 7);
}
