// A vector that begins in an array and ends in the next. Arrays that the compiler takes apart stay green.

extern "C" __global__ void a_vector_across_the_end(const float* x, float* y, int n) {
  __shared__ alignas(16) float s[62];
  __shared__ float r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x] = 0;
  s[threadIdx.x % 62] = x[i];
  __syncthreads();
  const float2 both = *reinterpret_cast<const float2*>(&s[threadIdx.x / 2 * 2]);  // ~ kernel-faulted
  y[i] = (threadIdx.x % 2 ? both.y : both.x) + r[threadIdx.x ^ 1];
}

// What the compiler takes apart: a scalar for each place.
extern "C" __global__ void taken_apart(const float* x, float* y, int n) {
  __shared__ float two[2], three[3];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) two[0] = three[2] = 0;
  if (threadIdx.x == 33) two[1] = three[0] = 0;
  __syncthreads();
  y[i] = x[i] + two[0] + two[1] + three[0] + three[2];
}
