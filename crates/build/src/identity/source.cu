#include "tables.h"
namespace { __device__ float scale[2] = {SCALE, 2}; __device__ int hidden; }
static __constant__ float table[4] = {TABLE, 2, 3, 4};
__noinline__ __device__ float helper(float x, int n) {
    for (int i = 0; i < n; ++i) x = x * x + HELPER;
    return x;
}
__device__ __noinline__ float recursive(float x, int n) {
    return n <= 0 ? x + RECURSIVE : recursive(x * 2, n - 1) * recursive(x, n - 2);
}
extern "C" __global__ void k(float* o, int n) {
    __shared__ float tile[64];
    tile[threadIdx.x] = o[threadIdx.x] * CODE;
    __syncthreads();
    o[threadIdx.x] = helper(tile[63 - threadIdx.x], n) + table[n & 3] + scale[n & 1] + hidden
                   + recursive(o[n], n) + HEADER;
}
