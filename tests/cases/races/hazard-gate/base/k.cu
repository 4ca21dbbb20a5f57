extern "C" __global__ void k(const float* x, float* y, int n) {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 128 + t];
  __syncwarp();
  float other = s[t ^ 1];
  asm volatile("" ::"f"(other));
  y[blockIdx.x * 128 + t] = s[t];
}
