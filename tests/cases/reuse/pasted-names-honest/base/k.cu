#define CAT(a, b) a##b
#define JOIN(a, b) CAT(a, b)
__device__ int JOIN(value, 1);
#ifndef FACTOR
#define FACTOR 1.0f
#endif
extern "C" __global__ void copy(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = FACTOR * x[i];
}
