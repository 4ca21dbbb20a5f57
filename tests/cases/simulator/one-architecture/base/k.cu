extern "C" __global__ void shifted(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#if __CUDA_ARCH__ >= 1000
  i += 1;
#endif
  y[i] = x[i];
}
