// Rows that are too long, so that the last places are behind the array. A struct of two arrays is one variable.

// The row has a place too few, and the last one is behind the array.
extern "C" __global__ void in_two_dimensions(const float* x, float* y, int n) {
  __shared__ float s[8][8], r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  r[threadIdx.x] = 0;
  __syncthreads();
  float* places = &s[0][0];
  places[threadIdx.x / 8 * (n / 32 + 1) + threadIdx.x % 8] = x[i];  // ~ kernel-faulted
  __syncthreads();
  y[i] = s[threadIdx.x / 8][threadIdx.x % 8] + r[threadIdx.x ^ 1];
}

extern "C" __global__ void one_struct(const float* x, float* y, int n) {
  __shared__ struct {
    float a[32], b[32];
  } both;
  __shared__ float r[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  reinterpret_cast<float*>(&both)[threadIdx.x] = x[i];
  r[threadIdx.x] = 0;
  __syncthreads();
  y[i] = (threadIdx.x < 32 ? both.a[threadIdx.x] : both.b[threadIdx.x - 32]) + r[threadIdx.x ^ 1];
}
