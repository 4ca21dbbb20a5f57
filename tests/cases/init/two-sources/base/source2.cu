#include "shared.cuh"
__global__ void own(float* y) { y[threadIdx.x] = 2; }
