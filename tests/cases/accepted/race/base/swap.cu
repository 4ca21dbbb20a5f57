// y = x, where each warp stages in shared memory what its neighbour hands on: right only with the barrier.
//
// x, y   f32 [n], n a multiple of 256        Launch: grid [n / 256], block [256]
extern "C" __global__ void swap(const float* x, float* y)
{
    __shared__ float staged[256];
    const int t = threadIdx.x, start = blockIdx.x * 256;
    staged[t ^ 32] = x[start + (t ^ 32)];
    __syncthreads();
    y[start + t] = staged[t];
    staged[t ^ 64] = x[start + (t ^ 64)];
}
