// A barrier that is not there: the third of two. A pointer of another lane is not judged.

// A barrier that is not there: the third of two.
extern "C" __global__ void barriers(const float* x, float* y, int n) {
  __shared__ unsigned long long full[2], other[2];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned at = unsigned(__cvta_generic_to_shared(full)) + n / 16;
  if (threadIdx.x == 0) {
    other[0] = other[1] = 0;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");  // ~ kernel-faulted
  }
  __syncthreads();
  y[i] = x[i] + float(other[threadIdx.x % 2]) * 0 + 0 * (at & 1);
}

extern "C" __global__ void pointer_of_another_lane(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float* own = threadIdx.x % 2 ? s : r;
  const unsigned long long other = __shfl_xor_sync(~0u, reinterpret_cast<unsigned long long>(own), 1);
  reinterpret_cast<float*>(other)[threadIdx.x] = x[i];
  y[i] = reinterpret_cast<float*>(other)[threadIdx.x];
}
