// nvcc writes `.param .u64 .ptr .align 1 p` for sm_100. The alignment is that of what `p` points to, and the parameter
// itself lies at a multiple of its size.
//@ top: architectures: [sm_90, sm_100]
//@ args: [{i32: 256}, {tensor: x}, {bool: 0}, {tensor: "y"}]

extern "C" __global__ void behind_a_word(int n, const float* x, bool flag, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = flag ? -x[i] : x[i];
}

extern "C" __global__ void restricted(int n, const float* __restrict__ x, bool flag, float* __restrict__ y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = flag ? -x[i] : x[i];
}

// The fault of the access itself is still one.
//@ seeds: 1
extern "C" __global__ void odd_address(int n, const float* x, bool flag, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const char* moved = reinterpret_cast<const char*>(x) + 1;
  if (i < n) y[i] = *reinterpret_cast<const float*>(moved + 4 * i);  // ~ kernel-faulted
}
