// An index behind the end of an array in shared memory, where the next one lies. What stops it: the bounds of the
// variable that the address comes from. A loop up to the end stays green.

extern "C" __global__ void one_past_the_end(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x] = 0;
  __syncthreads();
  s[threadIdx.x + n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x ^ 1];
}

extern "C" __global__ void read_past_the_end(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = x[i];
  r[threadIdx.x] = x[i];
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x ^ 1];  // ~ kernel-faulted
}

extern "C" __global__ void all_of_the_neighbour(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  s[threadIdx.x + n / 4] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}

extern "C" __global__ void up_to_the_end(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = r[threadIdx.x] = x[i];
  __syncthreads();
  float most = r[threadIdx.x];
#pragma unroll 1
  for (const float* at = s; at != s + 64; ++at) most = fmaxf(most, *at);
#pragma unroll 1
  for (const float* at = s + 64; at != s; --at) most = fmaxf(most, at[-1]);
  y[i] = r[threadIdx.x] + 0 * most;
}
