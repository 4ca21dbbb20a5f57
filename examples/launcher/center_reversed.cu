// Host code that launches two kernels: y[r,:] = (x[r,:] - mean_r) reversed. The second stages whole
// rows of up to 16384 floats (64 KiB) in dynamic shared memory, more than a launch gets without opting in.
//
// x, y   f32 [rows, columns] row-major, columns <= 16384    means   f32 [rows], scratch
// Entries: row_mean   grid [rows], block [256], no dynamic shared memory
//          center_reversed   grid [rows], block [256], dynamic shared memory 65536 bytes
// Built as a shared library: nvcc -shared -Xcompiler -fPIC.
#include <cuda_runtime.h>

constexpr int STAGED_BYTES = 64 * 1024;

__global__ void row_mean(const float* x, float* means, int columns)
{
    __shared__ float partial[256];
    const int t = threadIdx.x;
    float sum = 0.0f;
    for (int c = t; c < columns; c += 256) sum += x[(long long)blockIdx.x * columns + c];
    partial[t] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) partial[t] += partial[t + half];
    }
    if (t == 0) means[blockIdx.x] = partial[0] / columns;
}

__global__ void center_reversed(const float* x, const float* means, float* y, int columns)
{
    extern __shared__ float row[];
    const long long start = (long long)blockIdx.x * columns;
    for (int c = threadIdx.x; c < columns; c += 256) row[c] = x[start + c] - means[blockIdx.x];
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += 256) y[start + c] = row[columns - 1 - c];
}

extern "C" int launch_center_reversed(const float* x, float* means, float* y, int rows, int columns, cudaStream_t stream)
{
    const cudaError_t allowed =
        cudaFuncSetAttribute(center_reversed, cudaFuncAttributeMaxDynamicSharedMemorySize, STAGED_BYTES);
    if (allowed != cudaSuccess) return allowed;
    row_mean<<<rows, 256, 0, stream>>>(x, means, columns);
    center_reversed<<<rows, 256, STAGED_BYTES, stream>>>(x, means, y, columns);
    return cudaGetLastError();
}
