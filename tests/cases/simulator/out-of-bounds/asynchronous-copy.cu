// cp.async behind the end of the array. Pointers that come from memory are not judged.

extern "C" __global__ void asynchronous_copy(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  const unsigned at = unsigned(__cvta_generic_to_shared(&s[threadIdx.x + n / 256]));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(x + i) : "memory");  // ~ kernel-faulted
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x];
}

extern "C" __global__ void array_of_pointers(const float* x, float* y, int n) {
  __shared__ float s[64], r[64], t[64];
  float* all[3] = {s, r, t};
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int turn = 0; turn < n / 64; ++turn) all[turn % 3][threadIdx.x] = x[i];
  y[i] = all[n % 3][threadIdx.x];
}
