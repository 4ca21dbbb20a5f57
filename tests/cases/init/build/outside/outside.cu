__global__ void outside(float* y) { y[threadIdx.x] = 1; }
