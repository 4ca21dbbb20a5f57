template <int D, int THREADS>
__global__ void negate(const float* x, float* y) {
  for (int i = threadIdx.x; i < D; i += THREADS) {
    y[blockIdx.x * D + i] = -x[blockIdx.x * D + i];
  }
}
