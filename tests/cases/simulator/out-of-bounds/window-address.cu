// An address of 32 bits, in inline assembly. A place in one array, taken over to another by their distance, stays green.

extern "C" __global__ void by_a_window_address(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(&s[threadIdx.x])) + n / 64;
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(x[i]) : "memory");  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x] + r[threadIdx.x];
}

// The place in one array, taken over to the other by the distance of the two.
extern "C" __global__ void by_a_difference(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned first = unsigned(__cvta_generic_to_shared(s)), second = unsigned(__cvta_generic_to_shared(r));
  unsigned distance = second - first;
  asm volatile("mov.u32 %0, %0;" : "+r"(distance));
  s[threadIdx.x] = 0;
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(first + 4 * threadIdx.x + distance), "f"(x[i]) : "memory");
  y[i] = r[threadIdx.x] + s[threadIdx.x];
}
