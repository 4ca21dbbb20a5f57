// One of two arrays is meant, and the access lies in a third. Buffers that are swapped stay green.

// One of two arrays is meant, and the access lies in the third.
extern "C" __global__ void a_choice_of_two(const float* x, float* y, int n) {
  __shared__ float s[64], r[64], t[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = r[threadIdx.x] = t[threadIdx.x] = x[i];
  __syncthreads();
  float* chosen = x[0] > 2 ? s : r;
  chosen[threadIdx.x + n / 4] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = (s[threadIdx.x ^ 1] + r[threadIdx.x ^ 1]) * 0 + t[threadIdx.x];
}

extern "C" __global__ void swapped_buffers(const float* x, float* y, int n) {
  __shared__ float s[64], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float *now = s, *next = r;
  now[threadIdx.x] = x[i];
#pragma unroll 1
  for (int turn = 0; turn < n / 64; ++turn) {
    __syncthreads();
    next[threadIdx.x] = now[threadIdx.x];
    float* other = now;
    now = next;
    next = other;
  }
  y[i] = now[threadIdx.x];
}
