// From dynamic shared memory into a static variable, and the other way. What a kernel carves out of dynamic memory by
// casts is one variable.

// Dynamic shared memory is one block, which begins behind the static variables.
//@ launch: {grid: [4], block: [64], dynamic_shared: 256}
extern "C" __global__ void before_dynamic_memory(const float* x, float* y, int n) {
  extern __shared__ float dynamic[];
  __shared__ float s[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x ^ 1] = 0;
  __syncthreads();
  dynamic[int(threadIdx.x) - n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = dynamic[threadIdx.x] + s[threadIdx.x];
}

//@ launch: {grid: [4], block: [64], dynamic_shared: 256}
extern "C" __global__ void into_dynamic_memory(const float* x, float* y, int n) {
  extern __shared__ float dynamic[];
  __shared__ float s[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  dynamic[threadIdx.x] = 0;
  __syncthreads();
  s[threadIdx.x + n / 256] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x + n / 256] + dynamic[threadIdx.x ^ 1];
}

//@ launch: {grid: [4], block: [64], dynamic_shared: 1024}
extern "C" __global__ void carved_dynamic_memory(const float* x, float* y, int n) {
  extern __shared__ char carved[];
  __shared__ int count[2];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 2) count[threadIdx.x] = 64;
  __syncthreads();
  float* first = reinterpret_cast<float*>(carved);
  double* second = reinterpret_cast<double*>(first + count[0]);
  float* over_both = first + 2 * threadIdx.x;
  first[threadIdx.x] = x[i];
  second[threadIdx.x] = 1;
  __syncthreads();
  const float all = over_both[0] + over_both[64 - threadIdx.x];
  y[i] = first[threadIdx.x] + 0 * (all + float(second[threadIdx.x]) + count[1]);
}
