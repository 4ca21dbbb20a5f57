// A barrier stands between the lines, and none between the turns of the loop.
extern "C" __global__ void rolled(const float* x, float* y, int n) {
  __shared__ float s[256];
  float sum = 0;
#pragma unroll 1
  for (int turn = 0; turn < n; turn++) {
    s[threadIdx.x] = x[threadIdx.x] + turn;
    __syncthreads();
    sum += s[(threadIdx.x + 64) % 256];
  }
  y[threadIdx.x] = sum;
}

extern "C" __global__ void unrolled(const float* x, float* y, int n) {
  __shared__ float s[256];
  float sum = 0;
#pragma unroll
  for (int turn = 0; turn < 3; turn++) {
    s[threadIdx.x] = x[threadIdx.x] + turn;
    __syncthreads();
    sum += s[(threadIdx.x + 64) % 256];
  }
  y[threadIdx.x] = sum;
}

// Here a barrier is missing between the lines, and the loop has one at its end.
extern "C" __global__ void within(const float* x, float* y, int n) {
  __shared__ float s[256];
  float sum = 0;
  for (int turn = 0; turn < n; turn++) {
    s[threadIdx.x] = x[threadIdx.x] + turn;
    sum += s[(threadIdx.x + 64) % 256];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
