#include <cuda_fp16.h>

extern "C" __global__ void tail(const float* x, float* y, int n) {
  extern __shared__ char memory[];
  VALUE* values = reinterpret_cast<VALUE*>(memory);
  const int last = blockIdx.x + 1 == gridDim.x ? n : 64 * (blockIdx.x + 1);
  for (int i = 64 * blockIdx.x + threadIdx.x; i < last; i += 64) {
    values[threadIdx.x] = x[i];
    y[i] = static_cast<float>(values[threadIdx.x]);
  }
}
