// One kernel of each kind of annotation.

extern "C" __global__ void copied(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i];
}

extern "C" __global__ void other_output(const float* x, float* y, int n) {  // ! beyond-limit
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 1.0f;
}

extern "C" __global__ void exchanged(const float* x, float* y, int n) {
  __shared__ float s[64];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  s[threadIdx.x] = x[i];            // = stored
  const float other = s[threadIdx.x ^ 32];  // ~ shared_race with stored, uninitialised with copied
  y[i] = x[i] + 0.0f * other;       // = copied
}

//@ launch: {grid: [4], block: [64]}
extern "C" __global__ void behind_the_end(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i + 64];  // ~ kernel-faulted
}
