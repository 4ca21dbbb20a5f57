__constant__ float table[64];
__device__ float w[256];
extern "C" __global__ void copy(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 0.0f * table[blockIdx.x];
}
