// A pointer that a loop moves out of its array. An address that is rounded up and swizzled stays green.

// The last turn of the loop moves the pointer out of its array.
extern "C" __global__ void moved_by_a_loop(const float* x, float* y, int n) {
  __shared__ float s[128], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  float* at = s + threadIdx.x;
#pragma unroll 1
  for (int turn = 0; turn <= n / 128; ++turn, at += 64) *at = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}

//@ launch: {grid: [4], block: [64], dynamic_shared: 1408}
extern "C" __global__ void rounded_up(const float* x, float* y, int n) {
  extern __shared__ char dynamic[];
  __shared__ float s[8];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 8) s[threadIdx.x] = 0;
  __syncthreads();
  const unsigned at = (unsigned(__cvta_generic_to_shared(dynamic)) + 1023) & ~1023u;
  const unsigned swizzled = at + (4 * threadIdx.x ^ (threadIdx.x & 7) << 4);
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(swizzled), "f"(x[i]) : "memory");
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(swizzled) : "memory");
  y[i] = value + s[threadIdx.x % 8];
}
