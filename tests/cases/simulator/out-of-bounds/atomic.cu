// An atomic on a place behind the array. A place that is a hash of an address stays green.

extern "C" __global__ void atomic(const float* x, float* y, int n) {
  __shared__ int s[32], r[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 32) r[threadIdx.x] = s[threadIdx.x] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(&s[threadIdx.x % (n / 8 + 1)]));
  asm volatile("red.shared.add.s32 [%0], %1;" ::"r"(at), "r"(1) : "memory");  // ~ kernel-faulted
  __syncthreads();
  y[i] = x[i] + (s[threadIdx.x % 32] == -1) + (r[threadIdx.x % 32] == -1);
}

// A hash of an address is a number like any other.
extern "C" __global__ void number_of_an_address(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned at = unsigned(__cvta_generic_to_shared(&r[threadIdx.x]));
  s[at / 4 % 64] = x[i];
  r[threadIdx.x] = 0;
  y[i] = s[at / 4 % 64] + r[threadIdx.x];
}
