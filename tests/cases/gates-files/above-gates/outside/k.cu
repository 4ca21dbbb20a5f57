#include <cassert>
#ifndef FACTOR
#define FACTOR 2
#endif
__device__ unsigned total;
extern "C" __global__ void count_in_variable(int n, int forbidden) {
    __shared__ int seen[64];
    seen[threadIdx.x] = n;
    __syncthreads();
    atomicAdd(&total, seen[threadIdx.x ^ 1]);
    assert(n != forbidden);
}
extern "C" __global__ void race_in_shared(int n) {
    __shared__ int seen[64];
    seen[threadIdx.x] = n;
    atomicAdd(&total, seen[threadIdx.x ^ 32]);
}
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
extern "C" __global__ void count(const int* x, int* counts, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i] & 3], 1);
}
