// An index before the beginning. A base that is moved back by what the index adds later stays green.

extern "C" __global__ void before_the_beginning(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = 0;
  r[threadIdx.x] = 0;
  __syncthreads();
  r[int(threadIdx.x) - n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x ^ 1] + r[threadIdx.x ^ 2];
}

extern "C" __global__ void base_before_the_beginning(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float* before = r - blockDim.x;
  before[threadIdx.x + blockDim.x] = x[i];
  s[threadIdx.x] = 0;
  __syncthreads();
  const float* one_before = s - 1;
  y[i] = r[threadIdx.x] + one_before[threadIdx.x + 1];
}
