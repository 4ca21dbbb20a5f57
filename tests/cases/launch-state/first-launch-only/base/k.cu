#include <cstdint>
__device__ unsigned tickets;
extern "C" __global__ void counter(const float *x, float *y) {
const int i = blockIdx.x * blockDim.x + threadIdx.x;
const float v = x[i];
  __shared__ unsigned ticket;
  if (threadIdx.x == 0) ticket = atomicAdd(&tickets, 1);
  __syncthreads();
  y[i] = ticket < gridDim.x ? v : 0;

}
__device__ float table[256];
__device__ int known[256];
extern "C" __global__ void memo(const float *x, float *y) {
const int i = blockIdx.x * blockDim.x + threadIdx.x;
const float v = x[i];
  if (!known[i]) { table[i] = v; known[i] = 1; }
  y[i] = table[i];
}
__device__ int started[256];
extern "C" __global__ void flag(const float *x, float *y) {
const int i = blockIdx.x * blockDim.x + threadIdx.x;
const float v = x[i];
  y[i] = started[i] ? v + 1 : v;
  started[i] = 1;
}
