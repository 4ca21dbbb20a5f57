extern "C" __global__ void same(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
