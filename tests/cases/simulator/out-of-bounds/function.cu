// The pointer goes through the arguments of a function. One that is called with several arrays stays green.

__device__ void put(float* to, int at, float value);

// The pointer goes through the arguments of a function, as a generic address.
extern "C" __global__ void by_a_function(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x ^ 1] = 0;
  __syncthreads();
  put(s, threadIdx.x + n / 256, x[i]);
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + r[threadIdx.x];
}

__device__ __noinline__ void put(float* to, int at, float value) {
  to[at] = value;  // ~ kernel-faulted
}

__device__ __noinline__ float exchange(float* in, int at, float value) {
  in[at] = value;
  return in[at];
}

// A function that is called with several arrays, in several spaces.
extern "C" __global__ void by_a_function_in_bounds(const float* x, float* y, int n) {
  __shared__ float s[64], r[128];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = exchange(s, threadIdx.x, x[i]);
  value = exchange(r, threadIdx.x + 64, value);
  exchange(y, i, value);
}
