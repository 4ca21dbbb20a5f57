extern "C" __global__ void shifted(const float* x, float* y, int n) {
  y[(threadIdx.x + 7) % n] = -x[threadIdx.x];
}

template <int D>
__global__ void negate(const float* x, float* y) {
  y[blockIdx.x * D + threadIdx.x] = -x[blockIdx.x * D + threadIdx.x];
}
