#include <cstdint>
__device__ unsigned tickets;
extern "C" __global__ void k(const float *x, float *y) {
const int i = blockIdx.x * blockDim.x + threadIdx.x;
const float v = x[i];
  __shared__ unsigned t;
  if (threadIdx.x == 0) t = atomicAdd(&tickets, 1);
  __syncthreads();
  y[i] = t < gridDim.x ? v : 0;
}
