extern "C" __global__ void one(float *x) { x[threadIdx.x] *= 2; }
extern "C" __global__ void two(float *x) { x[threadIdx.x] += 3; }
