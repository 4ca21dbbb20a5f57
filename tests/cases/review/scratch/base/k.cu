extern "C" __global__ void copy(const float* x, float* w, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  w[i] = 2.0f * x[i];
  y[i] = 0.5f * w[i];
}
