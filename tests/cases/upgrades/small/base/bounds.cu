extern "C" __global__ void BOUNDS k(float *y) { y[threadIdx.x] *= FACTOR; }
