// y = x through shared memory, mirrored, with a second barrier where there was none: other code than that of `default`.
#ifndef RACY
#define RACY 0
#endif

extern "C" __global__ void copy(const float* x, float* y, int n)
{
    __shared__ float staged[256];
    const int first = blockIdx.x * 256, at = 255 - threadIdx.x;
    if (first + at < n) staged[at] = x[first + at];
#if RACY
    __syncthreads();
#endif
    __syncthreads();
    if (first + threadIdx.x < n) y[first + threadIdx.x] = staged[threadIdx.x];
}
