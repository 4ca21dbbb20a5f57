#include <cstdint>

extern "C" __global__ void scratch(const float *x, float *y, int *used) {
const int i = blockIdx.x * blockDim.x + threadIdx.x;
const float v = x[i];
  y[i] = used[i]++ > 0 ? v + 1 : v;
}
