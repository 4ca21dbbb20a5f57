// Rows of `x` by their indices, in groups of `begins`. Nothing in the type says that `x` is only read.
extern "C" __global__ void gather(float* x, const int* begins, const int* index, const int* scale, float* out, int groups)
{
    const int group = threadIdx.x;
    if (group >= groups) return;
    for (int at = begins[group]; at < begins[group + 1]; ++at) out[at] = x[index[at]] * scale[at];
}

// Counts up, and what it finds behind its end it follows: no copy of the memory has that.
extern "C" __global__ void follow(float** rows, float* out)
{
    out[threadIdx.x] = rows[0][threadIdx.x];
}

// The largest of the values behind `begins[0]`. A thread reads what the next one may write in the same round.
extern "C" __global__ void largest(const float* x, const int* begins, float* out)
{
    __shared__ float own[64];
    own[threadIdx.x] = x[begins[0] + threadIdx.x];
    for (int apart = 1; apart < 64; apart *= 2) {
        __syncthreads();
        if (threadIdx.x + apart < 64) own[threadIdx.x] = fmaxf(own[threadIdx.x], own[threadIdx.x + apart]);
    }
    if (threadIdx.x == 0) out[0] = own[0];
}
